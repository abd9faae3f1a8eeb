"""The whole way: a wheel from the cache or from a build, installed, and imported to see that it works."""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ...errors import MusterError, PythonError
from ...workdir.home import home
from .building import build
from .interpreter import Interpreter, told, wheel_name
from .recipe import VERSION
from .steps import Say

_TRIALS = {
    "pytorch": "import torch, horovod.torch as hvd; ones = torch.ones(2)",
    "tensorflow": "import tensorflow, horovod.tensorflow as hvd; ones = tensorflow.ones(2)",
}
_TRIAL = "; import horovod.runner.launch; hvd.init(); assert float(hvd.allreduce(ones)[1]) == hvd.size() == 1"


def wheels_folder() -> Path:
    return home() / "wheels"


def cached_wheel(python: Interpreter, flavours: Mapping[str, str]) -> Path | None:
    return next((wheels_folder() / wheel_name(python, flavours)).glob("*.whl"), None)


def wheel(python: Interpreter, flavours: Mapping[str, str], jobs: int, rebuild: bool, say: Say) -> Path:
    """The wheel that fits. Whoever asks for the same one at the same time waits for the first to build it."""
    if not rebuild and (found := cached_wheel(python, flavours)):
        say(f"taking the wheel that was built before: {found}")
        return found
    into = wheels_folder() / wheel_name(python, flavours)
    with _alone(into.with_name(f"{into.name}.lock"), say):
        if not rebuild and (found := cached_wheel(python, flavours)):
            say(f"taking the wheel that was built just now: {found}")
            return found
        say(f"building Horovod {VERSION} for {told(flavours)}, Python {python.version}: some minutes, once")
        return build(python, flavours, into, jobs, say)


@contextmanager
def _alone(lock: Path, say: Say) -> Iterator[None]:
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another `muster setup horovod`, which builds the same wheel")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def install(python: Interpreter, wheel: Path, say: Say) -> None:
    """Puts the wheel itself in whatever was there, and then what it needs and that Python does not have yet."""
    say(f"installing it into {python.path}")
    pip = [python.path, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for argv in ([*pip, "--no-deps", "--force-reinstall", str(wheel)], [*pip, str(wheel)]):
        done = _call(argv)
        if done.returncode:
            raise PythonError(
                f"pip could not install {wheel.name} into {python.path}:{_tail(done)}",
                "Mend what pip names; if it names the wheel itself, build it anew with --rebuild.",
            )


def try_out(python: Interpreter, flavours: Mapping[str, str], say: Say) -> None:
    """Imports it in that Python and lets one process average with itself."""
    for flavour, version in flavours.items():
        say(f"trying it with {told({flavour: version})}")
        done = _call([python.path, "-c", _TRIALS[flavour] + _TRIAL])
        if done.returncode:
            raise MusterError(
                f"Horovod is installed, but does not work with {told({flavour: version})}:{_tail(done)}",
                "Build it anew with --rebuild; where it was built for other versions, that mends it.",
            )


def _call(argv: list[str]) -> subprocess.CompletedProcess[str]:
    """Runs a command in an empty folder, where nothing can pass for a package, and outside any cluster."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("HOROVOD_")}
    with tempfile.TemporaryDirectory(prefix="muster-horovod-") as empty:
        return subprocess.run(argv, env=env, cwd=empty, capture_output=True, text=True, errors="replace", check=False)


def _tail(done: subprocess.CompletedProcess[str]) -> str:
    return "".join(f"\n      {line}" for line in (done.stdout + done.stderr).strip().splitlines()[-8:])
