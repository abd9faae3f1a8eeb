"""A large tree at its full size."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.workdir.bundle import fetch_code, scan, store_code
from muster.workdir.folder import FolderStore

from .code_desk import Sent, fill, lines, noise


@pytest.mark.slow
def test_a_line_in_half_a_gigabyte_is_all_that_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path / "home"))
    store = Sent(FolderStore(tmp_path / "work dir"))
    code = tmp_path / "code"
    for number in range(5_000):
        fill(code, {f"data/{number % 100:02}/{number:04}.bin": noise(100_000, number)})
    fill(code, {"train.py": lines(200)})
    store_code(store, code, "job")
    assert store.bytes > 500_000_000
    assert 30 < len(store.packs) < 70
    for line in (b"epochs = 3\n", b"epochs = 4\n"):
        with (code / "train.py").open("ab") as script:
            script.write(line)
        store.reset()
        store_code(store, code, "job")
        assert store.bytes < 10_000
        assert store.packs == []
    place = code / "data" / "17" / "0017.bin"
    place.write_bytes(place.read_bytes()[:50_000] + b"one line\n" + place.read_bytes()[50_000:])
    store.reset()
    digest = store_code(store, code, "job").digest
    assert store.bytes < 1 << 16
    store.reset()
    fetch_code(store, digest, tmp_path / "into")
    assert scan(tmp_path / "into").digest == digest
    assert store.counts["get"] == 2
    assert store.counts["get_range"] < 80
