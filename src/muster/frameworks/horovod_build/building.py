"""Makes the wheel: fetches the source, changes it, compiles it in a temporary folder, and keeps what came out."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from ...errors import MusterError
from ...workdir.files import appearing, copy_bytes, sha256_of
from .compilers import check_compilers
from .interpreter import Interpreter, build_variables
from .recipe import MODULES, SHA256, TOOLS, VERSION, changed, changed_files
from .steps import Say, Steps

_MEMORY = 2 << 30
"""What one compiler takes at most, with the headers of TensorFlow."""


def default_jobs() -> int:
    """One compiler per processor, as far as the memory goes."""
    import psutil

    processors = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return max(1, min(processors, psutil.virtual_memory().available // _MEMORY))


def build(python: Interpreter, flavours: Mapping[str, str], into: Path, jobs: int, say: Say) -> Path:
    """The wheel, in the folder `into`, which it enters whole. The log of a build that failed stands beside."""
    import tempfile

    cmake = check_compilers(python)
    log = into.with_name(f"{into.name}.log")
    log.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="muster-horovod-") as name:
        folder = Path(name)
        steps = Steps(folder, log, _environment(folder / "tools"), say)
        archive = _fetch(python, steps)
        source = unpack(archive, folder / "source") / f"horovod-{VERSION}"
        for file in changed_files():
            path = source / file
            path.write_text(changed(file, path.read_text(encoding="utf-8")), encoding="utf-8")
        argv = [python.path, "setup.py", "bdist_wheel", "-d", str(folder / "dist")]
        told = f"compiling, {jobs} file{'s' if jobs > 1 else ''} at a time"
        steps.call(told, argv, source, **_variables(flavours, cmake, jobs))
        made = next((folder / "dist").glob("*.whl"))
        into.mkdir(parents=True, exist_ok=True)
        with made.open("rb") as wheel, appearing(into / made.name) as target:
            copy_bytes(wheel.fileno(), target)
    log.unlink(missing_ok=True)
    return into / made.name


def _environment(tools: Path) -> dict[str, str]:
    """The user's own, without what belongs to a Horovod that runs, and with the tools of the build before the rest.

    The tools lie in a folder of their own: nothing that only the build needs is left in the user's environment.
    """
    env = {name: value for name, value in os.environ.items() if not name.startswith("HOROVOD_")}
    env["PYTHONPATH"] = os.pathsep.join([str(tools), *filter(None, [env.get("PYTHONPATH")])])
    return env


def _fetch(python: Interpreter, steps: Steps) -> Path:
    """The tools and the source package, whose digest is compared before anything in it is run."""
    pip = [python.path, "-m", "pip", "--disable-pip-version-check"]
    tools = ["install", "--no-user", "--target", str(steps.folder / "tools"), *TOOLS]
    steps.call("fetching the tools of the build", [*pip, *tools])
    listed = steps.folder / "source.txt"
    listed.write_text(f"horovod=={VERSION} --hash=sha256:{SHA256}\n", encoding="utf-8")
    source = ["download", "--no-deps", "--no-binary", "horovod", "--no-build-isolation", "--require-hashes"]
    source += ["--requirement", str(listed), "--dest", str(steps.folder / "archive")]
    steps.call(f"fetching the source of Horovod {VERSION}", [*pip, *source])
    archive = next((steps.folder / "archive").iterdir())
    if sha256_of(archive) != SHA256:
        raise MusterError(
            f"{archive.name} is not the source of Horovod {VERSION} that Muster knows: its SHA-256 is another",
            "Look where pip takes packages from:  pip config list",
        )
    return archive


def unpack(archive: Path, into: Path) -> Path:
    """Lays out plain files alone, and none of them outside the folder."""
    import tarfile

    with tarfile.open(archive) as tar:
        for member in tar:
            name = PurePosixPath(member.name)
            file = tar.extractfile(member) if member.isfile() and not name.is_absolute() else None
            if file and ".." not in name.parts:
                (into / name).parent.mkdir(parents=True, exist_ok=True)
                (into / name).write_bytes(file.read())
            elif not member.isdir():
                raise MusterError(f"{archive.name} holds {member.name!r}, which no source package needs")
    return into


def _variables(flavours: Mapping[str, str], cmake: str, jobs: int) -> dict[str, str]:
    """What tells Horovod's setup.py and CMake what to build, and how."""
    wanted = {f"HOROVOD_WITH{'' if name in flavours else 'OUT'}_{name.upper()}": "1" for name in MODULES}
    return {
        **wanted,
        "HOROVOD_WITH_GLOO": "1",
        "HOROVOD_WITHOUT_MPI": "1",
        "HOROVOD_WITHOUT_MXNET": "1",
        "HOROVOD_CMAKE": cmake,
        "CMAKE_GENERATOR": "Unix Makefiles",
        "CMAKE_POLICY_VERSION_MINIMUM": "3.5",  # else CMake 4 refuses the gloo inside
        "MAKEFLAGS": f"-j{jobs}",
        **build_variables(os.environ),
    }
