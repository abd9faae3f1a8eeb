"""Whether what is sent gets on."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.errors import NotFound, StoreBusy
from muster.workdir.arriving import SLOWEST_LINE, ArrivingStore
from tests.workdir.lines import Line

pytestmark = pytest.mark.unit


def test_what_arrives_is_noticed_once_and_what_does_not_is_not(tmp_path: Path) -> None:
    line = Line()
    store = ArrivingStore(line)
    assert not store.gets_on()
    (tmp_path / "file").write_text("1")
    store.put("a", b"1")
    store.put_file("b", tmp_path / "file")
    assert (store.arrived, store.gets_on(), store.gets_on()) == (2, True, False)
    with line.away(), pytest.raises(StoreBusy):
        store.put("c", b"1")
    with pytest.raises(NotFound):
        store.put_file("d", tmp_path / "none")
    assert (store.arrived, store.gets_on()) == (2, False)


@pytest.mark.parametrize("seconds", [0, 3600])
def test_a_large_file_gets_on_while_it_is_on_its_way(tmp_path: Path, seconds: int) -> None:
    seen = []

    class Watched(Line):
        def put_file(self, key: str, path: Path) -> None:
            seen.append(store.gets_on())
            raise StoreBusy("away")

    store = ArrivingStore(Watched())
    with (tmp_path / "large").open("wb") as file:
        file.truncate(int(seconds * SLOWEST_LINE))
    with pytest.raises(StoreBusy):
        store.put_file("large", tmp_path / "large")
    assert [*seen, store.gets_on()] == [seconds > 0, False]
