"""Bytes sent for code that was sent before, after a change of one line. A count, so one run is enough."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from muster.workdir.bundle import store_code
from muster.workdir.counting import CountingStore
from muster.workdir.folder import FolderStore

from .figures import Row
from .world import World

LINE = b"learning_rate = 0.003  # was 0.001\n"
_FILES, _SIZE, _LARGE = 5_000, 100_000, 200_000_000


class Counted(CountingStore):
    """Counts the bytes that are sent, whatever they are for."""

    sent = 0

    def create(self, key: str, data: bytes) -> None:
        self.sent += len(data)
        super().create(key, data)

    def put(self, key: str, data: bytes) -> None:
        self.sent += len(data)
        super().put(key, data)


def measure(world: World, rounds: int | None, quick: bool) -> list[Row]:
    files, size = (_FILES // 100, _LARGE // 100) if quick else (_FILES, _LARGE)
    trees: dict[str, Callable[[Path], Path]] = {
        f"{files} files of {_SIZE // 1000} KB": lambda code: _many(code, files),
        f"one of {size // 1_000_000} MB": lambda code: _one(code, size),
    }
    rows = []
    with _home_of(world):
        for name, make in trees.items():
            print(f"  {name}", file=sys.stderr, flush=True)
            rows += _rows(world.folder / name.replace(" ", "-"), name, make)
    return rows


@contextmanager
def _home_of(world: World) -> Iterator[None]:
    """A scan keeps digests in the user's home; these are nobody's."""
    before = os.environ.get("MUSTER_HOME")
    os.environ["MUSTER_HOME"] = world.env["MUSTER_HOME"]
    try:
        yield
    finally:
        del os.environ["MUSTER_HOME"]
        if before is not None:
            os.environ["MUSTER_HOME"] = before


def _rows(folder: Path, name: str, make: Callable[[Path], Path]) -> list[Row]:
    code = folder / "code"
    code.mkdir(parents=True)
    large = make(code)
    (code / "train.py").write_bytes(b"print('training')\n" * 100)
    store = Counted(FolderStore(folder / "work dir"))
    whole = _sent(store, code)
    _insert(code / "train.py")
    small = _sent(store, code)
    _insert(large)
    sizes = {"all of it": whole, "a line in train.py": small, f"a line in {large.name}": _sent(store, code)}
    return [Row("second upload", f"{name}: {case}", sent, "bytes", 1) for case, sent in sizes.items()]


def _sent(store: Counted, code: Path) -> int:
    store.sent = 0
    store_code(store, code, "benchmark")
    return store.sent


def _insert(place: Path) -> None:
    content = place.read_bytes()
    half = len(content) // 2
    place.write_bytes(content[:half] + LINE + content[half:])


def _many(code: Path, files: int) -> Path:
    numbers = random.Random(4)
    for number in range(files):
        folder = code / f"data-{number % 100:02}"
        folder.mkdir(exist_ok=True)
        (folder / f"{number:04}.bin").write_bytes(numbers.randbytes(_SIZE))
    return code / "data-17" / "0017.bin"


def _one(code: Path, size: int) -> Path:
    numbers = random.Random(4)
    with (code / "weights.bin").open("wb") as file:
        for _ in range(size // 1_000_000):
            file.write(numbers.randbytes(1_000_000))
    return code / "weights.bin"
