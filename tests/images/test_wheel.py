"""The wheel of this very installation."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import muster
from muster.images.wheel import wheel, wheel_name


def test_pip_installs_it_and_it_is_this_muster(tmp_path: Path) -> None:
    file = tmp_path / wheel_name()
    file.write_bytes(wheel())
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--target",
        str(tmp_path / "to"),
        str(file),
    ]
    subprocess.run(install, check=True, timeout=120)
    ask = "import muster, muster.node.start; print(muster.__version__, muster.__file__)"
    told = subprocess.run(
        [sys.executable, "-P", "-c", ask], env={"PYTHONPATH": str(tmp_path / "to")}, capture_output=True, text=True
    )
    assert told.stdout.split() == [muster.__version__, str(tmp_path / "to" / "muster" / "__init__.py")]
    assert (tmp_path / "to" / "bin" / "muster").exists()


def test_the_same_sources_are_the_same_bytes(tmp_path: Path) -> None:
    first = wheel()
    assert wheel() == first
    (tmp_path / "w.whl").write_bytes(first)
    names = zipfile.ZipFile(tmp_path / "w.whl").namelist()
    assert "muster/node/shim/muster/__init__.py" in names
    assert not [name for name in names if "__pycache__" in name]
