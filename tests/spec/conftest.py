"""A small project to read jobs in, and a few frameworks to read them for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from muster.errors import JobError
from muster.spec.facts import Facts
from muster.spec.fields import Choice, Duration, Integer, Kind, TextList
from muster.spec.load import load


@dataclass(frozen=True)
class Installed:
    """Frameworks as a registry would know them."""

    known: Mapping[str, Facts]

    def names(self) -> Sequence[str]:
        return list(self.known)

    def facts(self, name: str) -> Facts | None:
        return self.known.get(name)


BOTH = frozenset({"main", "worker"})


@pytest.fixture
def frameworks() -> Installed:
    torch: dict[str, Kind] = {"port": Integer(1, 65535), "backend": Choice(("gloo", "nccl"))}
    dask: dict[str, Kind] = {"nthreads": Integer(1), "death_timeout": Duration(), "start_args": TextList()}
    return Installed(
        {
            "dask": Facts(elastic=True, roles=BOTH, options=dask),
            "pytorch": Facts(elastic=True, roles=BOTH, options=torch),
            "tensorflow": Facts(elastic=False, roles=BOTH | {"ps"}),
        }
    )


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a script in it, and the folder that the user stands in."""
    (tmp_path / "train.py").write_text("print('hello')\n")
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "resnet.py").write_text("")
    (tmp_path / "requirements.txt").write_text("numpy\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


Complaint = Callable[[str], str]


@pytest.fixture
def complaint(project: Path, frameworks: Installed) -> Complaint:
    """Writes a job file and returns the whole message that reading it gives."""

    def read(text: str) -> str:
        (project / "job.yaml").write_text(text)
        with pytest.raises(JobError) as caught:
            load("job.yaml", frameworks)
        return str(caught.value).replace(str(project), "PROJECT")

    return read
