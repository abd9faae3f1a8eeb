"""Tables and numbers in the docs that the source also has: they must say the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import muster
from muster import errors
from muster.frameworks.base import Framework
from muster.node import homebound, processes
from muster.workdir.folder import FolderStore
from muster.workdir.records import EXIT_CODES, End
from muster.workdir.segments import FIRST_WAIT
from tests.docs.markdown import ROOT

pytestmark = pytest.mark.unit


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def rows(text: str) -> dict[str, str]:
    """The rows of a page's tables: their first cell, and all of the line."""
    return {line.split(" | ")[0].lstrip("| "): line for line in text.splitlines() if line.startswith("| ")}


def test_the_ends_are_told_in_the_order_of_their_precedence_with_their_codes() -> None:
    told = rows(page("how-a-run-ends.md"))
    ends = [first.strip("`") for first in told if first.startswith("`")]
    assert ends == [end.value for end in End]
    for end, code in EXIT_CODES.items():
        assert re.search(rf"\b{code}\b", told[f"`{end.value}`"].rpartition(" | ")[2]), end


def test_every_exit_code_of_muster_is_told() -> None:
    told = rows(page("exit-codes.md"))
    for end, code in EXIT_CODES.items():
        assert f"`{end.value}`" in told[str(code)]
    raised = {kind.exit_code for kind in vars(errors).values() if isinstance(kind, type) and hasattr(kind, "exit_code")}
    assert {str(code) for code in raised} <= set(told)


def test_the_intervals_are_the_real_ones(tmp_path: Path) -> None:
    assert FolderStore(tmp_path).capabilities.poll_seconds == 1
    assert f"at most 1 second after they were written, and at first after {FIRST_WAIT:g} seconds" in page(
        "logs-and-metrics.md"
    )
    assert f"every {homebound._LOOK:g} seconds" in page("logs-and-metrics.md")
    for name in ("logs-and-metrics.md", "outputs-and-checkpoints.md"):
        assert f"every {homebound._SHIP:g} seconds and at the end" in page(name).replace("\n", " ")
    assert f"get {processes.PATIENT:g} seconds" in page("how-a-run-ends.md")


def test_the_python_api_has_what_is_told_of_it_and_nothing_is_left_out() -> None:
    told = re.findall(r"^\| `(?:muster\.)?([\w.]+)", page("python-api.md"), re.MULTILINE)
    for name in told:
        first, _, second = name.partition(".")
        assert hasattr(getattr(muster, first), second or "__doc__"), name
    assert {name.partition(".")[0] for name in told} | {"Plan", "JobError", "__version__"} == set(muster.__all__)


def test_the_questions_of_a_framework_are_those_it_is_asked() -> None:
    told = re.findall(r"^\| `(\w+)", page("plugins.md"), re.MULTILINE)
    assert [name for name in told if not hasattr(Framework, name)] == []
