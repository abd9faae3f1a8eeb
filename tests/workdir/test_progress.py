"""How far something has come, in words."""

from __future__ import annotations

import pytest

from muster.workdir.progress import Pace, lines, unseen

pytestmark = pytest.mark.unit


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_rate_and_time_left_count_from_the_first_time() -> None:
    clock = Clock()
    pace = Pace(clock)
    assert str(pace) == "0B of 0B"
    pace.tell(1_000_000, 11_000_000)
    assert str(pace) == "1MB of 11MB"
    clock.now += 4
    pace.tell(3_000_000, 11_000_000)
    assert pace.rate == 500_000
    assert str(pace) == "3MB of 11MB, 500KB/s, 16s left"
    clock.now += 100
    pace.tell(10_987_654, 11_000_000)
    assert str(pace) == "11MB of 11MB, 96KB/s, 0s left"


def test_a_line_comes_after_a_second_and_then_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, said = Clock(), list[str]()
    monkeypatch.setattr("time.monotonic", clock)
    tell = lines(said.append, "uploading the code")
    for seconds in range(31):
        clock.now = 100.0 + seconds
        tell(seconds * 1000, 40_000)
    assert said == [
        "uploading the code: 1KB of 40KB, 1KB/s, 39s left",
        "uploading the code: 11KB of 40KB, 1KB/s, 29s left",
        "uploading the code: 21KB of 40KB, 1KB/s, 19s left",
    ]
    clock.now += 100
    tell(40_000, 40_000)
    assert len(said) == 3
    assert unseen(1, 2) is None  # type: ignore[func-returns-value]
