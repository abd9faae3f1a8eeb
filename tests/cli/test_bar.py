"""The bar of `muster run` and of commands that bring something."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from muster.cli import bar
from muster.cli.bar import Bar, shown_progress
from muster.cli.live import Live
from muster.cli.screen import Quiet, Screen

pytestmark = pytest.mark.unit


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if everything took longer than a moment."""
    monkeypatch.setattr(bar, "_QUIET", -1.0)
    monkeypatch.setattr("muster.workdir.patience._QUIET", -1.0)


def rendered(made: object) -> str:
    out = io.StringIO()
    Console(file=out, width=120, force_terminal=False).print(made)
    return out.getvalue()


def test_a_bar_has_words_rate_and_time_left(late: None, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Bar("uploading the code")
    made.tell(0, 100_000_000)
    began = time.monotonic()
    monkeypatch.setattr(made._pace, "_clock", lambda: began + 5)
    made._pace._first = 0, began
    made.tell(25_000_000, 100_000_000)
    shown = rendered(made)
    assert "uploading the code" in shown
    assert "━" in shown
    assert "25MB of 100MB, 5MB/s, 15s left" in shown


def test_it_is_not_there_before_a_second_nor_at_the_end() -> None:
    made = Bar("uploading")
    made.tell(1, 2)
    assert not made.is_shown
    assert rendered(made).strip() == ""


def test_it_goes_when_all_is_done(late: None) -> None:
    made = Bar("uploading")
    made.tell(1, 2)
    assert made.is_shown
    made.tell(2, 2)
    assert not made.is_shown


def test_the_live_view_shows_it_among_the_rest(late: None) -> None:
    out = io.StringIO()
    live = Live(Console(file=out, force_terminal=True, width=120))
    try:
        tell = live.progress("uploading the code")
        tell(1_000_000, 4_000_000)
        live._live.refresh()
        assert "uploading the code" in out.getvalue()
        assert "1MB of 4MB" in out.getvalue()
        out.truncate(0)
        tell(4_000_000, 4_000_000)
        live._live.refresh()
        assert "uploading the code" not in out.getvalue()
    finally:
        live.close()


def test_without_a_terminal_there_are_lines(late: None, capsys: pytest.CaptureFixture[str]) -> None:
    Screen().progress("uploading the code")(1_000, 2_000)
    with shown_progress("fetching") as tell:
        tell(1_000, 2_000)
        tell(2_000, 2_000)
    Quiet().progress("nothing")(1_000, 2_000)
    said = capsys.readouterr()
    assert said.out == ""
    lines = said.err.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("muster: uploading the code: 1KB of 2KB")
    assert lines[1].startswith("muster: fetching: 1KB of 2KB")


def test_in_a_terminal_a_command_has_a_bar(late: None, monkeypatch: pytest.MonkeyPatch) -> None:
    class Tty(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Tty()
    monkeypatch.setattr("sys.stderr", out)
    monkeypatch.setenv("TERM", "xterm")
    with shown_progress("fetching the outputs") as tell:
        tell(1_000, 2_000)
    assert "fetching the outputs" in out.getvalue()
