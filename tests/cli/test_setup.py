"""`muster setup horovod`: what it builds from, what it says when it cannot, and the wheel that it keeps."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest

from muster.errors import MusterError, PythonError
from muster.frameworks.horovod_build import interpreter, recipe, steps
from muster.frameworks.horovod_build.building import unpack
from muster.frameworks.horovod_build.compilers import check_compilers
from muster.frameworks.horovod_build.installing import cached_wheel, wheels_folder
from muster.frameworks.horovod_build.interpreter import Interpreter, check_pip, choose, wheel_name
from muster.frameworks.horovod_build.recipe import CHANGES, Change, changed, changed_files
from muster.frameworks.horovod_build.steps import Steps
from tests.harness import Muster, marked

BOTH = {"pytorch": "2.13.0", "tensorflow": "2.21.0"}
PYTHON = Interpreter("/opt/python", "3.11.7", "cpython-311-x86_64-linux-gnu", "linux-x86_64", True, True, BOTH)


@pytest.fixture
def no_compiler(tmp_path: Path) -> str:
    """A PATH where nothing is."""
    folder = tmp_path / "empty-path"
    folder.mkdir()
    return str(folder)


# The recipe


@pytest.mark.unit
def test_a_change_is_made_where_its_text_stands_once() -> None:
    assert Change("a", "old", "new").apply("one old word") == "one new word"


@pytest.mark.unit
@pytest.mark.parametrize("text", ["nothing of it", "old and old again"])
def test_a_change_refuses_a_source_that_it_does_not_know(text: str) -> None:
    with pytest.raises(MusterError, match=r"Horovod's setup\.py has 'old' \d times, not once"):
        Change("setup.py", "old", "new").apply(text)


@pytest.mark.unit
@pytest.mark.parametrize("file", changed_files())
def test_every_change_of_a_file_is_made_to_it(file: str) -> None:
    own = [change for change in CHANGES if change.file == file]
    text = "\n".join(change.old for change in own)
    made = changed(file, text)
    assert own
    assert all(change.new in made for change in own)
    with pytest.raises(MusterError, match="0 times, not once"):
        changed(file, "another source")


@pytest.mark.unit
@pytest.mark.parametrize("name", ["/outside", "../outside", "in/../../outside"])
def test_no_file_of_the_archive_is_laid_out_elsewhere(tmp_path: Path, name: str) -> None:
    archive = tmp_path / "source.tar"
    with tarfile.open(archive, "w") as tar:
        member = tarfile.TarInfo(name)
        member.size = 4
        tar.addfile(member, BytesIO(b"evil"))
    with pytest.raises(MusterError, match="which no source package needs"):
        unpack(archive, tmp_path / "into" / "deep")
    assert not list(tmp_path.rglob("outside"))


@pytest.mark.unit
def test_a_link_in_the_archive_is_refused_and_a_file_is_laid_out(tmp_path: Path) -> None:
    archive = tmp_path / "source.tar"
    with tarfile.open(archive, "w") as tar:
        member = tarfile.TarInfo("horovod/setup.py")
        member.size = 4
        tar.addfile(member, BytesIO(b"text"))
        link = tarfile.TarInfo("horovod/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc"
        tar.addfile(link)
    with pytest.raises(MusterError, match="'horovod/link'"):
        unpack(archive, tmp_path / "into")
    assert (tmp_path / "into" / "horovod" / "setup.py").read_bytes() == b"text"


# Which wheel fits


@pytest.mark.unit
def test_another_python_framework_or_recipe_has_another_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [
        wheel_name(PYTHON, BOTH),
        wheel_name(PYTHON, {"pytorch": BOTH["pytorch"]}),
        wheel_name(PYTHON, {**BOTH, "pytorch": "2.13.0+cpu"}),
        wheel_name(PYTHON, {**BOTH, "tensorflow": "2.20.0"}),
        wheel_name(replace(PYTHON, version="3.12.1"), BOTH),
        wheel_name(replace(PYTHON, abi="cpython-311d-x86_64-linux-gnu"), BOTH),
        wheel_name(replace(PYTHON, platform="linux-aarch64"), BOTH),
    ]
    with monkeypatch.context() as patch:
        patch.setattr(interpreter, "REVISION", recipe.REVISION + 1)
        names.append(wheel_name(PYTHON, BOTH))
    with monkeypatch.context() as patch:
        patch.setenv("HOROVOD_GPU_OPERATIONS", "NCCL")
        names.append(wheel_name(PYTHON, BOTH))
    assert len(set(names)) == len(names)


@pytest.mark.unit
def test_the_same_versions_share_a_wheel_wherever_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOROVOD_LOG_LEVEL", "debug")
    other = replace(PYTHON, path="/home/me/venv/bin/python", version="3.11.9", pip=False)
    assert wheel_name(other, dict(reversed(BOTH.items()))) == wheel_name(PYTHON, BOTH)


@pytest.mark.unit
def test_it_is_built_for_what_the_python_has_or_for_what_is_asked() -> None:
    assert choose(PYTHON, None) == BOTH
    assert choose(PYTHON, ["tensorflow"]) == {"tensorflow": "2.21.0"}
    assert choose(PYTHON, ["tensorflow", "pytorch", "tensorflow"]) == BOTH
    assert choose(replace(PYTHON, packages={"pytorch": "2.2"}), None) == {"pytorch": "2.2"}


@pytest.mark.unit
def test_what_the_python_lacks_is_named_with_the_line_that_installs_it() -> None:
    with pytest.raises(PythonError, match=r"has neither torch nor tensorflow(.|\n)*/opt/python -m pip install torch"):
        choose(replace(PYTHON, packages={}), None)
    with pytest.raises(PythonError, match=r"cannot import tensorflow(.|\n)*pip install tensorflow"):
        choose(replace(PYTHON, packages={"pytorch": "2.2"}), ["pytorch", "tensorflow"])
    with pytest.raises(MusterError, match=r"'mxnet'(.|\n)*pytorch, tensorflow"):
        choose(PYTHON, ["mxnet"])
    with pytest.raises(PythonError, match=r"has no pip(.|\n)*-m ensurepip"):
        check_pip(replace(PYTHON, pip=False))


# What a machine may lack


@pytest.mark.unit
def test_all_that_is_missing_to_compile_is_named_at_once(no_compiler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", no_compiler)
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(MusterError) as caught:
        check_compilers(replace(PYTHON, headers=False))
    told = "a C++ compiler, a C compiler, make, CMake 3.13 or newer, the headers of Python 3.11.7"
    assert told in caught.value.message
    assert "sudo apt-get install g++ gcc make cmake python3-dev" in caught.value.fix
    assert "/opt/python -m pip install cmake" in caught.value.fix


@pytest.mark.unit
def test_a_compiler_that_a_variable_names_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Because CMake takes no other then."""
    monkeypatch.setenv("CXX", "no-such-compiler -O2")
    with pytest.raises(MusterError, match=r"lacks a C\+\+ compiler"):
        check_compilers(PYTHON)


def test_a_machine_without_a_compiler_gets_the_line_that_installs_one(muster: Muster, no_compiler: str) -> None:
    done = muster("setup", "horovod", "--with", "pytorch", check=125, PATH=no_compiler, CXX="", CC="")
    assert "this machine lacks a C++ compiler, a C compiler, make" in done.stderr
    assert "sudo apt-get install g++ gcc make" in done.stderr
    assert "Traceback" not in done.stderr
    assert "fetching" not in done.stderr


def test_a_python_that_is_none_is_named(muster: Muster) -> None:
    assert (
        "no-such-python is not a program" in muster("setup", "horovod", "--python", "no-such-python", check=125).stderr
    )
    done = muster("setup", "horovod", "--python", shutil.which("true") or "", check=125)
    assert "does not answer as a Python does" in done.stderr


# Long steps


@pytest.fixture
def heard() -> list[str]:
    return []


@pytest.fixture
def long(tmp_path: Path, heard: list[str], mark: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Steps]:
    """Steps with reminders in quick succession. None of their processes may stay."""
    monkeypatch.setattr(steps, "REMINDER", 0.05)
    yield Steps(tmp_path, tmp_path / "logs" / "a.log", {**os.environ, "TEST_MARK": mark}, heard.append)
    assert not marked(mark)


def test_a_long_step_says_how_far_it_is(long: Steps, heard: list[str]) -> None:
    text = "import time; print('[ 40%] Building', flush=True); time.sleep(0.5)"
    long.call("compiling", [sys.executable, "-c", text])
    assert heard[0] == "compiling"
    assert heard[-1] == "compiling: 40 %, 0 s"


def test_a_failed_step_shows_the_first_errors_and_where_the_rest_is(long: Steps) -> None:
    long.call("before", [sys.executable, "-c", "print('x.cc:1: error: of the step before')"])
    text = "print('noise'); print('x.cc:7:1: error: no such thing'); print('more noise'); raise SystemExit(2)"
    with pytest.raises(MusterError) as caught:
        long.call("compiling", [sys.executable, "-c", text])
    assert caught.value.message == "compiling failed with exit code 2:\n      x.cc:7:1: error: no such thing"
    assert str(long.log) in caught.value.fix
    assert "noise" in long.log.read_text()


def test_a_compiler_that_was_out_of_memory_is_told_so(long: Steps) -> None:
    text = "print('c++: fatal error: Killed signal terminated program cc1plus'); raise SystemExit(2)"
    with pytest.raises(MusterError, match="--jobs 1"):
        long.call("compiling", [sys.executable, "-c", text])


def test_whoever_ends_a_step_ends_all_its_processes(long: Steps) -> None:
    """As Ctrl-C does; the fixture looks for what is left."""

    def end(text: str) -> None:
        if ": " in text:
            raise KeyboardInterrupt

    child = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])"
    with pytest.raises(KeyboardInterrupt):
        replace(long, say=end).call("compiling", [sys.executable, "-c", f"{child}; time.sleep(60)"])


# The kept wheel


@pytest.fixture(scope="module")
def kept() -> Path:
    """The wheel that `make test` had built for the Python of the tests."""
    found = interpreter.look(sys.executable)
    wheel = cached_wheel(found, found.packages) if found.packages else None
    told = "this test needs a Horovod wheel: muster setup horovod"
    assert wheel or os.environ.get("CI") != "true", told
    return wheel or pytest.skip(told)


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """The Python of a new environment, which borrows every package of the tests' own and has none."""
    folder = tmp_path / "scratch"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=120)
    packages = next(folder.glob("lib/python*/site-packages"))
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin" / "python"


@pytest.mark.slow
def test_the_next_environment_takes_the_kept_wheel_without_a_compiler(
    muster: Muster, kept: Path, scratch: Path, no_compiler: str
) -> None:
    shutil.copytree(kept.parent, muster.home / "wheels" / kept.parent.name)
    done = muster("setup", "horovod", "--python", scratch, PATH=no_compiler)
    assert f"taking the wheel that was built before: {muster.home}" in done.stderr
    assert "compiling" not in done.stderr
    assert f"is in {scratch}" in done.stdout
    text = "import horovod.runner.launch; print(horovod.__file__)"
    shown = subprocess.run([scratch, "-c", text], capture_output=True, text=True, timeout=120, cwd=muster.folder)
    assert shown.stdout.startswith(str(scratch.parents[1] / "lib")), shown.stderr
    assert (scratch.parent / "horovodrun").is_file()


def test_two_at_once_build_once_and_a_damaged_wheel_is_told_from_a_good_one(
    muster: Muster, scratch: Path, no_compiler: str
) -> None:
    """The second waits for the first, which here is this test, and takes its wheel."""
    found = interpreter.look(str(scratch))
    wheels = muster.home / "wheels"
    wheels.mkdir(parents=True)
    name = wheel_name(found, found.packages)
    with (wheels / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = muster.start("setup", "horovod", "--python", scratch, PATH=no_compiler)
        assert second.stderr
        assert "waiting for another `muster setup horovod`" in second.stderr.readline()
        (wheels / name).mkdir()
        (wheels / name / f"horovod-{recipe.VERSION}-py3-none-any.whl").write_bytes(b"half a wheel")
    _, errors = second.communicate(timeout=120)
    assert "taking the wheel that was built just now" in errors
    assert f"pip could not install horovod-{recipe.VERSION}-py3-none-any.whl" in errors
    assert "--rebuild" in errors
    assert "Traceback" not in errors
    assert second.returncode == 125


# What the changes are for


@pytest.mark.slow
@pytest.mark.parametrize(("legacy", "end"), [("1", ""), ("0", "Horovod cannot average the gradients of Keras 3")])
def test_an_optimizer_of_keras_3_is_refused_because_it_would_average_nothing(kept: Path, legacy: str, end: str) -> None:
    if "tensorflow" not in interpreter.look(sys.executable).packages:
        pytest.skip("this test needs TensorFlow")
    text = (
        "import tensorflow as tf, horovod.tensorflow.keras as hvd\n"
        "hvd.init(); hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.1))"
    )
    env = {**os.environ, "TF_USE_LEGACY_KERAS": legacy}
    done = subprocess.run([sys.executable, "-c", text], env=env, capture_output=True, text=True, timeout=120)
    assert (done.returncode != 0) == bool(end), done.stderr
    assert end in done.stderr


@pytest.mark.unit
def test_wheels_are_kept_in_musters_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path))
    assert wheels_folder() == tmp_path / "wheels"
    assert cached_wheel(PYTHON, BOTH) is None
