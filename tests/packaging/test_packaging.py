"""Muster as a stranger installs it: built, put into an environment of its own, and looked at there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

import muster

ROOT = Path(__file__).parents[2]
MEGABYTE = 1_000_000

# One worker of a parallel run builds and installs; the others have nothing of it.
pytestmark = [pytest.mark.slow]

LOOK = """
import json, sys
from importlib.metadata import distributions
found = {}
for one in distributions():
    files = [one.locate_file(file) for file in one.files or () if "__pycache__" not in str(file)]
    found[one.metadata["Name"].lower()] = sum(file.stat().st_size for file in files if file.is_file())
json.dump({name: size for name, size in found.items() if name not in ("pip", "setuptools")}, sys.stdout)
"""


@dataclass(frozen=True)
class Installed:
    wheel: Path
    folder: Path
    """The environment."""
    home: Path

    def python(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.call("python", *words)

    def call(self, program: str, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Runs a program of the environment, and insists on its exit code."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("MUSTER", "PYTHON"))}
        done = subprocess.run(
            [str(self.folder / "bin" / program), *words],
            env={**kept, "MUSTER_HOME": str(self.home)},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The base install of this tree's wheel: no extra, and no other wheel but what it needs."""
    place = tmp_path_factory.mktemp("packaging")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", str(ROOT), "--no-deps", "--wheel-dir", str(place)], check=True)
    (wheel,) = place.glob("musterpoint-*.whl")
    subprocess.run([sys.executable, "-m", "venv", str(place / "venv")], check=True)
    made = Installed(wheel, place / "venv", place / "home")
    constraints = str(ROOT / "constraints.txt")
    made.python("-m", "pip", "install", "--quiet", "--constraint", constraints, str(wheel))
    return made


def test_the_base_install_is_small(installed: Installed) -> None:
    sizes: dict[str, int] = json.loads(installed.python("-c", LOOK).stdout)
    total = sum(sizes.values())
    print(f"{total / MEGABYTE:.1f} MB in {len(sizes)} distributions: {', '.join(sorted(sizes))}")
    assert "musterpoint" in sizes
    assert total < 20 * MEGABYTE, sizes
    assert len(sizes) <= 15, sizes


def test_the_command_works_there(installed: Installed) -> None:
    assert "Run a training script as one distributed cluster." in installed.call("muster", "--help").stdout
    assert installed.call("muster", "--version").stdout == f"muster {muster.__version__}\n"


def test_the_help_loads_nothing_heavy(installed: Installed) -> None:
    program = str(installed.folder / "bin" / "muster")
    loaded = re.findall(r"\|\s+([\w.]+)$", installed.python("-X", "importtime", program, "--help").stderr, re.MULTILINE)
    assert "click" in loaded
    assert not {"rich", "yaml", "psutil", "asyncio"} & {name.partition(".")[0] for name in loaded}


def test_the_wheel_has_what_is_not_a_module(installed: Installed) -> None:
    names = set(zipfile.ZipFile(installed.wheel).namelist())
    assert {
        "muster/py.typed",
        "muster/cli/templates/job.yaml",
        "muster/cli/templates/dask/train.py",
        "muster/cli/templates/pytorch/train.py",
        "muster/node/shim/muster/__init__.py",
        "muster/frameworks/_rank.py",
    } <= names
    assert all(name.startswith(("muster/", "musterpoint-")) for name in names)
    assert any(name.endswith("/licenses/LICENSE") for name in names)


def test_the_metadata_says_what_the_source_says(installed: Installed) -> None:
    look = "from importlib.metadata import distribution; print(distribution('musterpoint').read_text('METADATA'))"
    told = installed.python("-c", look).stdout
    assert f"\nVersion: {muster.__version__}\n" in told
    assert "\nRequires-Python: >=3.10\n" in told
    assert {"dask", "pytorch"} <= set(re.findall(r"^Provides-Extra: (.+)$", told, re.MULTILINE))


@pytest.mark.parametrize("framework", ["dask", "pytorch"])
def test_a_framework_that_is_not_there_gets_the_line_that_installs_it(installed: Installed, framework: str) -> None:
    installed.call("muster", "init", f"job-{framework}", "--framework", framework)
    done = installed.call("muster", "run", f"job-{framework}/job.yaml", code=125)
    assert f'-m pip install "musterpoint[{framework}]"' in done.stderr
    assert "Traceback" not in done.stderr
    assert not (installed.home / "runs").exists()


def test_the_shim_gives_a_bare_python_what_scripts_may_call(installed: Installed, tmp_path: Path) -> None:
    where = "import muster.node, pathlib; print(pathlib.Path(muster.node.__file__).parent / 'shim')"
    shim = installed.python("-c", where).stdout.strip()
    script = f"import sys; sys.path.insert(0, {shim!r}); import muster; muster.report(loss=1); print(muster.__file__)"
    bare = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True)
    assert bare.stdout.startswith(shim)
