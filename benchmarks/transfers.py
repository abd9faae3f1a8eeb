"""Files to a bucket and back: many small ones, and one large one; against rclone and s3fs, on the same server."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

from muster.rehearsal import s3

from .figures import Row, compared
from .measuring import Sample, Start, interleaved, timed
from .world import World

PEERS = Path(sys.prefix) / "peers" / "bin"
_ROOT = Path(__file__).parent.parent
_BUCKET = "training"
_AIM = "ahead of both"
_S3FS = """
import sys
import fsspec
way, here, there = sys.argv[1:]
fs = fsspec.filesystem("s3")
fs.put(here + "/", there + "/", recursive=True) if way == "up" else fs.get(there + "/", here + "/", recursive=True)
"""


def measure(world: World, rounds: int | None, quick: bool) -> list[Row]:
    rows: list[Row] = []
    with s3.started(_BUCKET) as server:
        # rclone cannot read a bundle of certificates that is meant for AWS's own clients, and here none is needed.
        plain = {name: value for name, value in world.env.items() if name != "AWS_CA_BUNDLE"}
        env = {**plain, **server.environment, "RCLONE_CONFIG": str(world.folder / "none.conf")}
        bench = _Bench(World(world.folder, env), rounds or (1 if quick else 3), quick)
        many = world.folder / "many"
        _small_files(many, 200 if quick else 10_000, 4096)
        rows += bench.rows(f"{200 if quick else 10_000:,} files of 4 KB", many)
        shutil.rmtree(many)
        one = world.folder / "one"
        _large_file(one, (32 << 20) if quick else (2 << 30))
        rows += bench.rows("one file of 32 MB" if quick else "one file of 2 GB", one)
        shutil.rmtree(one)
    return rows


class _Bench:
    def __init__(self, world: World, rounds: int, quick: bool) -> None:
        self._world, self._rounds, self._warm = world, rounds, not quick
        self._fresh = count()

    def rows(self, what: str, folder: Path) -> list[Row]:
        """Each turn goes to a place of its own, so that nobody can leave anything out."""
        ups = {name: self._case(name, "up", folder) for name in _COMMANDS}
        rows = compared(f"up: {what}", interleaved(ups, self._rounds, self._warm), {"muster": _AIM})
        downs = {name: self._case(name, "down", folder) for name in _COMMANDS}
        return rows + compared(f"down: {what}", interleaved(downs, self._rounds, self._warm), {"muster": _AIM})

    def _case(self, name: str, way: str, folder: Path) -> Callable[[], Sample]:
        def turn() -> Sample:
            place = f"{folder.name}-{name.partition(',')[0]}-{next(self._fresh) if way == 'up' else 'kept'}"
            if way == "up":
                return timed(_COMMANDS[name](self._world, "up", folder, place))
            if place not in self._kept:
                timed(_COMMANDS[name](self._world, "up", folder, place))
                self._kept.add(place)
            into = self._world.folder / "into"
            try:
                sample = timed(_COMMANDS[name](self._world, "down", into, place))
                _check(folder, into)
            finally:
                shutil.rmtree(into, ignore_errors=True)
            return sample

        self._kept: set[str] = set()
        return turn


def _rclone(world: World, way: str, folder: Path, place: str) -> Start:
    there = f"bench:{_BUCKET}/{place}"
    ends = (folder, there) if way == "up" else (there, folder)
    more = ("--transfers", "32", "--checkers", "32", "--s3-no-check-bucket", "--s3-upload-concurrency", "8")
    bench = {"TYPE": "s3", "PROVIDER": "Other", "ENV_AUTH": "true", "ENDPOINT": world.env["AWS_ENDPOINT_URL"]}
    env = {f"RCLONE_CONFIG_BENCH_{name}": value for name, value in bench.items()}
    return world.start("rclone", "copy", *more, *ends, **env)


def _s3fs(world: World, way: str, folder: Path, place: str) -> Start:
    return world.start(PEERS / "python", "-c", _S3FS, way, folder, f"{_BUCKET}/{place}")


def _muster(world: World, way: str, folder: Path, place: str) -> Start:
    return world.python("-m", "benchmarks.transfer", way, folder, f"s3://{_BUCKET}/{place}", PYTHONPATH=str(_ROOT))


_COMMANDS: dict[str, Callable[[World, str, Path, str], Start]] = {
    "rclone, 32 transfers": _rclone,
    "s3fs": _s3fs,
    "muster": _muster,
}


def _small_files(folder: Path, files: int, size: int) -> None:
    for number in range(files):
        path = folder / f"{number // 100:03}" / f"{number:05}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(size))


def _large_file(folder: Path, size: int) -> None:
    folder.mkdir()
    with (folder / "large.bin").open("wb") as file:
        for _ in range(0, size, 16 << 20):
            file.write(os.urandom(16 << 20))


def _check(folder: Path, into: Path) -> None:
    """All arrived: a tool that left something out is not quick but wrong."""

    def sizes(root: Path) -> dict[str, int]:
        return {str(path.relative_to(root)): path.stat().st_size for path in root.rglob("*") if path.is_file()}

    if sizes(folder) != sizes(into):
        raise RuntimeError(f"{len(sizes(into))} of {len(sizes(folder))} files came back")
