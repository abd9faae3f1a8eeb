"""The script's Python: its own environment, made once and shared; never the one that Muster lives in."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from muster.errors import PythonError
from muster.frameworks.dask import Dask
from muster.node.python import can_import, check_framework, environment, interpreter
from tests.harness import Muster, eventually
from tests.node.hands import result_of, texts_of

BACKEND = '''
import base64, hashlib, pathlib, zipfile

NAME = "tinything"

def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """A wheel by hand: whatever builds wheels would have to be fetched."""
    with open({counter!r}, "a") as stream:
        stream.write("built\\\\n")
    info = f"{NAME}-1.0.dist-info"
    files = {
        f"{NAME}.py": "ANSWER = 42\\\\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\\\\nName: {NAME}\\\\nVersion: 1.0\\\\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\\\\nGenerator: hand\\\\nRoot-Is-Purelib: true\\\\nTag: py3-none-any\\\\n",
    }
    record = "".join(f"{path},,\\\\n" for path in files) + f"{info}/RECORD,,\\\\n"
    wheel = f"{NAME}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory, wheel), "w") as archive:
        for path, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(path, text)
    return wheel
'''

PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "tinything"
version = "1.0"
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The source of a package that nobody else has, and that counts how often it was built."""
    folder = tmp_path / "tiny thing"
    folder.mkdir()
    counter = str(tmp_path / "built")
    (folder / "backend.py").write_text(BACKEND.replace("{counter!r}", repr(counter)).replace("\\\\n", "\\n"))
    (folder / "pyproject.toml").write_text(PROJECT)
    return folder


@pytest.mark.slow
def test_requirements_are_installed_once_and_shared_and_never_into_musters_own(
    muster: Muster, package: Path, tmp_path: Path
) -> None:
    job = muster.job(
        "import sys, tinything\nprint(tinything.ANSWER, sys.prefix)\n", workers=2, requirements="requirements.txt"
    )
    (job.parent / "requirements.txt").write_text(f"{package.as_uri()}\n")
    first = muster("run", job)
    assert "installing requirements.txt into a new environment; later runs share it" in first.stderr
    assert (tmp_path / "built").read_text() == "built\n"
    # Its three nodes wanted it at the same time.
    environments = [path for path in (muster.home / "envs").iterdir() if path.is_dir()]
    assert len(environments) == 1
    assert texts_of(muster, muster.run_id()) == [f"42 {environments[0]}"] * 3
    second = muster("run", job)
    assert "installing" not in second.stderr
    assert second.stdout.count(f"42 {environments[0]}") == 3
    assert (tmp_path / "built").read_text() == "built\n"
    assert importlib.util.find_spec("tinything") is None


@pytest.mark.slow
def test_requirements_that_cannot_be_installed_say_what_the_installer_said(muster: Muster) -> None:
    job = muster.job("print('never')", workers=1, requirements="requirements.txt")
    (job.parent / "requirements.txt").write_text("./no-such-folder\n")
    done = muster("run", job, check=124)
    assert "no-such-folder" in done.stderr
    assert "Traceback" not in done.stderr
    assert result_of(muster, muster.run_id())["end"] == "member-failed"
    assert texts_of(muster, muster.run_id()) == []


def test_a_conda_environment_without_conda_is_a_clear_error(muster: Muster, tmp_path: Path) -> None:
    bare = tmp_path / "bin"
    bare.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MUSTER_HOME", str(tmp_path / "home"))
        patch.setenv("PATH", str(bare))
        with pytest.raises(
            PythonError, match=r"env\.yaml is a conda environment, and this machine has no conda"
        ) as caught:
            environment("env.yaml", b"dependencies: [numpy]\n", sys.executable, lambda _text: None)
    assert "micromamba, mamba or conda" in caught.value.fix
    job = muster.job("print('never')", workers=0, requirements="env.yaml")
    (job.parent / "env.yaml").write_text("dependencies: [numpy]\n")
    done = muster("run", job, check=124, PATH=str(bare))
    assert "this machine has no conda" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """An interpreter that has nothing but the standard library."""
    venv.create(tmp_path / "bare", with_pip=False)
    return tmp_path / "bare"


def test_a_python_without_muster_runs_the_script_and_may_report(muster: Muster, bare: Path) -> None:
    script = (
        "import sys, muster\n"
        "muster.report(step=1, loss=2)\n"
        "muster.checkpoint('checkpoints')\n"
        "print(sys.prefix, hasattr(muster, 'run'), flush=True)\n"
    )
    muster("run", muster.job(script, workers=1, python=str(bare / "bin" / "python")))
    run = muster.run_id()
    assert texts_of(muster, run) == [f"{bare} False"] * 2
    shown = muster("status", run).stdout
    assert "rank 0: step=1  loss=2" in shown
    assert "rank 1: step=1  loss=2" in shown


def test_a_target_may_name_the_python_of_its_jobs(muster: Muster, bare: Path) -> None:
    job = muster.job("import sys\nprint(sys.prefix)\n", workers=0)
    (job.parent / "muster.toml").write_text(f'[targets.bare]\nkind = "local"\npython = "{bare}/bin/python"\n')
    assert str(bare) in muster("plan", job, "--on", "bare").stdout
    assert f"[rank 0] {bare}\n" in muster("run", job, "--on", "bare").stdout


def test_a_framework_that_is_not_there_gets_the_line_that_installs_it(muster: Muster, bare: Path) -> None:
    python = str(bare / "bin" / "python")
    done = muster("run", muster.job("", framework="dask", workers=1, python=python), check=125)
    assert f"{python} cannot import distributed, which framework dask needs" in done.stderr
    assert f'{python} -m pip install "musterpoint[dask]"' in done.stderr
    assert not muster.home.exists()


def test_an_interpreter_that_is_not_there_is_a_clear_error(muster: Muster) -> None:
    done = muster("run", muster.job("", workers=1, python="/no/such/python"), check=None)
    assert done.returncode in (2, 125)
    assert "/no/such/python" in done.stderr
    assert "Traceback" not in done.stderr


def test_names_are_looked_up_and_no_name_is_the_python_that_runs_muster(bare: Path) -> None:
    assert interpreter(None) == sys.executable
    assert interpreter(str(bare / "bin" / "python")) == str(bare / "bin" / "python")
    assert Path(interpreter("sh")).is_absolute()
    with pytest.raises(PythonError, match="no-such-python is not a program on this machine"):
        interpreter("no-such-python")


def test_what_a_python_can_import_is_asked_of_that_python(bare: Path) -> None:
    python = str(bare / "bin" / "python")
    assert can_import(python, "json")
    assert not can_import(python, "yaml")
    assert can_import(sys.executable, "yaml")
    check_framework(sys.executable, Dask())
    with pytest.raises(PythonError, match="cannot import distributed"):
        check_framework(python, Dask())


MAKE = """
import sys
from muster.node.python import environment
said = []
print(environment("requirements.txt", b"", sys.executable, said.append))
print(sum("installing" in text for text in said))
"""


@pytest.mark.slow
def test_a_half_made_environment_is_made_again(muster: Muster) -> None:
    words = [sys.executable, "-c", MAKE]
    first = subprocess.Popen(words, env=muster.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    eventually(lambda: list((muster.home / "envs").glob("*/bin")))
    first.kill()
    first.communicate()
    done = subprocess.run(words, env=muster.env, capture_output=True, text=True, timeout=200)
    python, count = done.stdout.split()
    assert count == "1"
    assert subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode == 0
