"""What a node uses, measured on real processes; and the reports of scripts, read as they grow."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from muster import report as reporting
from muster.node.metrics import Reports, Usage
from tests.harness import Muster, eventually
from tests.node.hands import by_hand, ended, read_json, record_of, script_of


def test_a_busy_child_shows_and_so_does_its_memory() -> None:
    began = time.monotonic()
    text = "held = bytearray(64 << 20)\nprint('here', flush=True)\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE) as busy:
        assert busy.stdout is not None
        busy.stdout.readline()
        usage = Usage(began)
        time.sleep(0.3)
        first = usage.look()
        time.sleep(0.3)
        second = usage.look()
        busy.kill()
    assert first["cpu_percent"] > 0
    assert second["cpu_percent"] > 0
    assert second["memory_bytes"] > 64 << 20
    assert min(second["network_sent_per_second"], second["network_received_per_second"]) >= 0
    idle = usage.look()
    assert idle["cpu_percent"] == 0


def test_reports_are_read_line_by_line_as_they_come(tmp_path: Path) -> None:
    path = tmp_path / "reports.jsonl"
    reports = Reports(path)
    assert reports.new() == []
    with path.open("w") as stream:
        stream.write('{"values": {"loss": 1}}\n{"values": {"lo')
    assert reports.new() == [{"values": {"loss": 1}}]
    assert reports.new() == []
    with path.open("a") as stream:
        stream.write('ss": 0.5}}\nnot ours\n[1]\n{"values": {"loss": 0.25}}\n')
    assert reports.new() == [{"values": {"loss": 0.5}}, {"values": {"loss": 0.25}}]


@pytest.fixture
def report_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[dict[str, object]]]:
    monkeypatch.setenv("MUSTER_REPORT", str(tmp_path / "reports.jsonl"))
    return lambda: [dict(record) for record in Reports(tmp_path / "reports.jsonl").new()]


def test_a_report_says_which_process_made_it(
    report_to: Callable[[], list[dict[str, object]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RANK", raising=False)
    reporting(step=1, loss=0.5)  # type: ignore[no-untyped-call]
    monkeypatch.setenv("RANK", "3")
    reporting(step=2, loss=True)  # type: ignore[no-untyped-call]
    first, second = report_to()
    assert (first["process"], first["values"]) == ("script", {"step": 1.0, "loss": 0.5})
    assert (second["process"], second["values"]) == ("rank 3", {"step": 2.0, "loss": 1.0})


def test_outside_a_run_a_report_does_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MUSTER_REPORT", raising=False)
    monkeypatch.chdir(tmp_path)
    reporting(step=1)  # type: ignore[no-untyped-call]
    assert list(tmp_path.iterdir()) == []


def test_what_scripts_report_and_use_stands_in_the_run_and_in_status(muster: Muster) -> None:
    text = (
        "import muster, pathlib, time\nfor step in range(3): muster.report(step=step, loss=1 / (step + 1))\n"
        "while not pathlib.Path('go').exists(): time.sleep(0.05)\n"
    )
    script, count = script_of(muster, text), {"WORKER_COUNT": "1"}
    nodes = [
        by_hand(muster, "told", mode, script, RANK=rank, **count) for mode, rank in (("MAIN", "0"), ("WORKER", "1"))
    ]
    eventually(lambda: all(record_of(muster, "told", name)["metrics"] for name in ("main", "worker-1")))
    (muster.folder / "go").touch()
    assert ended(*nodes) == [0, 0]
    main = record_of(muster, "told", "main")
    assert main["reported"] == {"rank 0": {"step": 2.0, "loss": pytest.approx(1 / 3)}}
    assert main["metrics"]["memory_bytes"] > 0
    kept = [
        json.loads(line)
        for path in sorted((muster.runs / "told" / "metrics" / "main").iterdir())
        for line in path.read_text().splitlines()
    ]
    assert [record["values"]["step"] for record in kept if "values" in record] == [0.0, 1.0, 2.0]
    assert any("cpu_percent" in record for record in kept)
    shown = muster("status", "told", "--work-dir", muster.runs).stdout
    assert "rank 0: step=2  loss=0.333333" in shown
    assert "rank 1: step=2  loss=0.333333" in shown
    assert "cpu " in shown
    assert read_json(muster.runs / "told" / "result.json")["exit_code"] == 0
