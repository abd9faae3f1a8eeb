"""The Python that Horovod is built for: what it is, which frameworks it has, and which wheel therefore fits it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ...errors import MusterError, PythonError
from .recipe import MODULES, REVISION, SHA256, TITLES, VERSION

_PASSED_ON = ("HOROVOD_GPU", "HOROVOD_CUDA_", "HOROVOD_NCCL_", "HOROVOD_ROCM_", "HOROVOD_BUILD_")
"""Variables by which Horovod's users choose what is built for GPUs. Others do not reach the build."""

_LOOK = """
import importlib, importlib.util, json, os, platform, sys, sysconfig
from importlib import metadata

def version(module, *packages):
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:  # a folder that an uninstalled package left is no package
        return None
    for package in packages:
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            pass
    return importlib.import_module(module).__version__

print(json.dumps({
    "version": platform.python_version(),
    "abi": sysconfig.get_config_var("SOABI") or sys.implementation.cache_tag,
    "platform": sysconfig.get_platform(),
    "headers": os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")),
    "pip": importlib.util.find_spec("pip") is not None,
    "torch": version("torch", "torch"),
    "tensorflow": version("tensorflow", "tensorflow", "tensorflow-cpu", "tf-nightly"),
}))
"""


@dataclass(frozen=True)
class Interpreter:
    """One Python, as it answered when it was asked."""

    path: str
    version: str
    abi: str
    platform: str
    headers: bool
    pip: bool
    packages: Mapping[str, str]
    """The versions of what Horovod can be built for, by flavour."""


def look(python: str) -> Interpreter:
    """Asks a Python what it has, in its own folder, where no folder of the user's can pass for a package."""
    try:
        done = subprocess.run(
            [python, "-c", _LOOK], cwd=Path(python).parent, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise PythonError(f"{python} cannot be started: {error.strerror}", "Name a Python with --python.") from error
    try:
        found = json.loads(done.stdout)
    except ValueError:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise PythonError(f"{python} does not answer as a Python does: {last}", "Name one with --python.") from None
    packages = {flavour: found.pop(module) for flavour, module in MODULES.items()}
    return Interpreter(python, packages={name: version for name, version in packages.items() if version}, **found)


def choose(python: Interpreter, asked: Iterable[str] | None) -> dict[str, str]:
    """The flavours to build, with their packages' versions: those asked for, or else all that this Python can use."""
    install = f"{python.path} -m pip install"
    if asked is None:
        if not python.packages:
            raise PythonError(
                f"{python.path} has neither torch nor tensorflow, and Horovod is built against one of them or both",
                f"Install one first, such as:  {install} torch",
            )
        return dict(python.packages)
    wanted = list(dict.fromkeys(asked))
    if unknown := [name for name in wanted if name not in MODULES]:
        raise MusterError(
            f"--with: Horovod is not built for {unknown[0]!r} here", f"Choose from: {', '.join(MODULES)}."
        )
    if missing := [MODULES[name] for name in wanted if name not in python.packages]:
        raise PythonError(
            f"{python.path} cannot import {' and '.join(missing)}, which Horovod is to be built against",
            f"Install it there first:  {install} {' '.join(missing)}",
        )
    return {name: python.packages[name] for name in MODULES if name in wanted}


def check_pip(python: Interpreter) -> None:
    if not python.pip:
        raise PythonError(
            f"{python.path} has no pip, which fetches and installs Horovod",
            f"Give it one:  {python.path} -m ensurepip\n    or:  uv pip install --python {python.path} pip",
        )


def told(flavours: Mapping[str, str]) -> str:
    """`PyTorch 2.13.0 and TensorFlow 2.21.0`."""
    return " and ".join(f"{TITLES[name]} {version}" for name, version in flavours.items())


def build_variables(env: Mapping[str, str]) -> dict[str, str]:
    """What of an environment changes the wheel."""
    return {name: value for name, value in sorted(env.items()) if name.startswith(_PASSED_ON)}


def wheel_name(python: Interpreter, flavours: Mapping[str, str]) -> str:
    """A name for the wheel that fits: another Python, framework, recipe or kind of build has another."""
    facts = {
        "source": SHA256,
        "recipe": REVISION,
        "python": [python.version.rpartition(".")[0], python.abi, python.platform],
        "packages": dict(sorted(flavours.items())),
        "variables": build_variables(os.environ),
    }
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
    return f"horovod-{VERSION}-{digest}"
