"""Servers as processes: they say where they are, and end when they should."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from muster.errors import MusterError
from muster.rehearsal import oracle, process, s3
from muster.rehearsal.steering import Steering
from tests.harness import eventually

BOTH = ["muster.rehearsal.s3", "muster.rehearsal.oracle"]


def start(module: str, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", module, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


@pytest.mark.parametrize("module", BOTH)
def test_it_says_where_it_is_and_ends_when_told(module: str, tmp_path: Path) -> None:
    with start(module, "--port-file", str(tmp_path / "port")) as server:
        assert server.stdout is not None
        said = json.loads(server.stdout.readline())
        assert said["pid"] == server.pid
        assert json.loads((tmp_path / "port").read_text()) == said
        assert Steering(said["endpoint"]).counts().total == 0
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=20) == 0


@pytest.mark.parametrize("module", BOTH)
def test_it_ends_with_its_parent_if_told_to(module: str) -> None:
    with start(module, "--with-parent") as server:
        assert server.stdout is not None
        assert server.stdin is not None
        server.stdout.readline()
        server.stdin.close()
        assert server.wait(timeout=20) == 0


PARENT = """
import os, signal
from muster.rehearsal import oracle
with oracle.started() as server:
    print(server.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_it_does_not_outlive_a_parent_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
    eventually(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)


def test_nothing_is_left_after_the_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with s3.started() as one, oracle.started() as other:
        assert psutil.pid_exists(one.pid)
        assert psutil.pid_exists(other.pid)
        assert len(list(tmp_path.iterdir())) == 1
    assert not psutil.pid_exists(one.pid)
    assert not psutil.pid_exists(other.pid)
    assert list(tmp_path.iterdir()) == []


def test_it_ends_while_answers_are_late_and_connections_open() -> None:
    import http.client
    from urllib.parse import urlsplit

    with oracle.started() as server:
        waiting = http.client.HTTPConnection(urlsplit(server.endpoint).netloc)
        server.steering.slow(600)
        waiting.request("GET", "/n")
        eventually(lambda: server.steering.counts().total == 1)
    waiting.close()
    with pytest.raises(ProcessLookupError):
        os.kill(server.pid, 0)


def test_a_server_that_cannot_start_is_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    with (
        oracle.started() as taken,
        pytest.raises(MusterError, match="ended before it listened"),
        process.child("muster.rehearsal.oracle", "--port", taken.endpoint.rpartition(":")[2]),
    ):
        pass
    assert "Address already in use" in capfd.readouterr().err


def test_what_the_control_does_not_know_is_said() -> None:
    with oracle.started() as server, pytest.raises(MusterError, match="POST nonsense"):
        server.steering.ask("POST", "nonsense")
