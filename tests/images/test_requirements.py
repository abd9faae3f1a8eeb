"""What a script needs, from either kind of list."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.errors import MusterError
from muster.images.requirements import read_listed

pytestmark = pytest.mark.unit


def write(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_a_list_for_pip_keeps_its_lines_and_takes_in_those_it_names(tmp_path: Path) -> None:
    write(tmp_path, "base.txt", "numpy==2.0\n")
    path = write(tmp_path, "requirements.txt", "# ours\n-r base.txt\nDask[complete]>=2024; python_version > '3'\n")
    found = read_listed(path)
    assert found.content == "# ours\nnumpy==2.0\nDask[complete]>=2024; python_version > '3'\n"
    assert (set(found.names), found.conda) == ({"numpy", "dask"}, False)


@pytest.mark.parametrize(
    "line", ["-e .", "./mine", "-c limits.txt", "/opt/mine.whl", "-r absent.txt", "-r requirements.txt"]
)
def test_what_a_build_does_not_see_is_named_with_its_line(tmp_path: Path, line: str) -> None:
    path = write(tmp_path, "requirements.txt", f"numpy\n{line}\n")
    with pytest.raises(MusterError, match=r"requirements\.txt:[12]"):
        read_listed(path)


def test_an_environment_of_pip_alone_needs_no_conda(tmp_path: Path) -> None:
    path = write(tmp_path, "env.yaml", "name: a\ndependencies: [python=3.12, pip, {pip: [dask, numpy>=2]}]\n")
    found = read_listed(path)
    assert (found.content, found.conda, found.python, set(found.names)) == (
        "dask\nnumpy>=2\n",
        False,
        "3.12",
        {"python", "pip", "dask", "numpy"},
    )


def test_packages_of_conda_and_old_pythons_do(tmp_path: Path) -> None:
    text = "channels: [conda-forge]\ndependencies: ['python>=3.10', 'conda-forge::cudatoolkit=11.8', {pip: [torch]}]\n"
    found = read_listed(write(tmp_path, "env.yml", text))
    assert (found.content, found.conda, found.python) == (text, True, "")
    assert {"cudatoolkit", "torch"} <= found.names
    assert read_listed(write(tmp_path, "old.yaml", "dependencies: [python=3.8.1, {pip: [dask]}]\n")).conda


@pytest.mark.parametrize("text", ["", "[]", "name: a", "a: [", "dependencies: [python, {pip: [-e .]}]"])
def test_what_is_no_environment_is_said_to_be_none(tmp_path: Path, text: str) -> None:
    with pytest.raises(MusterError):
        read_listed(write(tmp_path, "env.yaml", text))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(MusterError, match="No such file"):
        read_listed(tmp_path / "absent.txt")
