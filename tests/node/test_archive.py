"""The node program as one file: the same for the same sources, whole, and in the work dir once."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

import muster
from muster.node.archive import program, store_program
from muster.workdir.folder import FolderStore
from muster.workdir.programs import REFRESHED, program_key, unused_programs
from tests.workdir.lines import Line

PROGRAM = "from muster.node.archive import program; print(program().digest)"
IMPORTS = """
import sys
sys.path.insert(0, sys.argv[1])
import muster.node.start, muster.node.program, muster.node.mainside, muster.node.workerside, muster.node.metrics
import muster.node.probe, muster.workdir.opening, muster.workdir.oci_bucket, muster.workdir.folder
import muster.clouds.oci_bare, muster.clouds.oci_bare_calls, muster.clouds.oci_bare_signing
import muster.spec.environment, muster.report
from muster.frameworks.registry import framework
for name in ("dask", "horovod", "pytorch", "tensorflow"):
    framework(name)
"""


def names(data: bytes) -> list[str]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return archive.namelist()


def test_the_same_sources_are_the_same_bytes_wherever_they_lie(tmp_path: Path) -> None:
    package = Path(muster.__file__).parent
    shutil.copytree(
        package, tmp_path / "muster", ignore=shutil.ignore_patterns("__pycache__"), copy_function=shutil.copy
    )
    for path in tmp_path.rglob("*.py"):
        os.utime(path, (1, 1))
        path.chmod(0o600)

    def digest() -> str:
        env = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONHASHSEED": "7"}
        done = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    assert digest() == program().digest
    with (tmp_path / "muster" / "errors.py").open("a") as file:
        file.write("# another\n")
    assert digest() != program().digest


@pytest.mark.unit
def test_it_holds_what_a_node_needs_and_nothing_of_a_launcher() -> None:
    found = names(program().data)
    assert found == sorted(found)
    assert {"__main__.py", "muster/__init__.py", "muster/node/shim/muster/__init__.py", "muster/report.py"} <= set(
        found
    )
    assert {"muster/frameworks/_torchrun.py", "muster/frameworks/_horovod.py"} <= set(found)
    above = ("cli", "rehearsal", "targets", "web", "images", "access", "frameworks/horovod_build", "launching")
    assert not [name for name in found if name.startswith(tuple(f"muster/{word}" for word in above))]
    assert len(program().data) < 600_000


@pytest.mark.unit
def test_with_python_alone_all_of_it_can_be_imported(tmp_path: Path) -> None:
    """Neither packages (-S) nor anything of this machine's environment (-I)."""
    with zipfile.ZipFile(io.BytesIO(program().data)) as archive:
        archive.extractall(tmp_path)
    done = subprocess.run([sys.executable, "-I", "-S", "-c", IMPORTS, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.unit
class TestStoring:
    def test_it_is_sent_once(self) -> None:
        store = Line()
        first = store_program(store)
        assert store.counts == {"list": 1, "create": 1}
        assert store.get(program_key(first.digest)) == first.data
        store.reset()
        assert store_program(store) == first
        assert store.counts == {"list": 1}

    def test_what_is_not_whole_is_put_anew(self) -> None:
        store = Line()
        store.put(program_key(program().digest), b"half of it")
        store_program(store)
        assert store.get(program_key(program().digest)) == program().data

    def test_one_that_is_there_for_long_becomes_young_again(self, tmp_path: Path) -> None:
        store = FolderStore(tmp_path)
        made = store_program(store)
        path, now = tmp_path / program_key(made.digest), time.time()
        os.utime(path, (now - REFRESHED - 60,) * 2)
        store_program(store)
        assert path.stat().st_mtime > now - 60

    def test_only_those_that_nobody_wanted_since_are_unused(self, tmp_path: Path) -> None:
        store, now = FolderStore(tmp_path), time.time()
        for age in (0.0, 6 * 3600, 36 * 3600):
            key = program_key(f"{int(age):064}")
            store.put(key, b"")
            os.utime(tmp_path / key, (now - age,) * 2)
        # A launcher may have found it there, of an age up to `REFRESHED`, and begun its run at that moment.
        assert [entry.key for entry in unused_programs(store, now - 3600)] == [program_key(f"{36 * 3600:064}")]
        assert unused_programs(store, now - 30 * 3600) == []
