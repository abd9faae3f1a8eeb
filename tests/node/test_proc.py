"""What the kernel says itself is what psutil says: images of users have no psutil."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from muster.errors import NodeError
from muster.node import metrics, ports, proc
from tests.harness import eventually

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere psutil is needed")

BUSY = """
import os, subprocess, sys, time
held = bytearray(50 << 20)
child = subprocess.Popen([sys.executable, "-c", "import time; held = bytearray(30 << 20); time.sleep(600)"])
until = time.process_time() + 0.5
while time.process_time() < until:
    pass
print("idle", flush=True)
sys.stdin.read()
child.kill()
"""


@pytest.fixture
def without_psutil(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psutil", None)


@pytest.fixture
def family() -> Iterator[subprocess.Popen[str]]:
    """A process that has worked and waits now, and its child."""
    with subprocess.Popen(
        [sys.executable, "-c", BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as made:
        assert made.stdout
        assert made.stdout.readline() == "idle\n"
        yield made
        assert made.stdin
        made.stdin.close()


def test_processes_and_what_they_use(family: subprocess.Popen[str]) -> None:
    def relatives() -> list[psutil.Process]:
        """Not all that this process has started: other tests may have left servers running."""
        eldest = psutil.Process(family.pid)
        return [eldest, *eldest.children(recursive=True)]

    def grown() -> bool:
        used = proc.descendants(os.getpid())
        return len(relatives()) >= 2 and all(used[one.pid].memory > 30 << 20 for one in relatives() if one.pid in used)

    eventually(grown)
    found, told = proc.descendants(os.getpid()), relatives()
    assert set(found) >= {process.pid for process in told}
    assert len(told) >= 2
    for process in told:
        times = process.cpu_times()
        assert found[process.pid].seconds == pytest.approx(times.user + times.system, abs=0.1)
        assert found[process.pid].memory == pytest.approx(process.memory_info().rss, rel=0.05)
    assert found[family.pid].seconds > 0.4
    assert found[family.pid].memory > 50 << 20
    assert set(proc.descendants(family.pid)) < set(found)


def test_a_process_whose_name_looks_like_fields(tmp_path: Path) -> None:
    odd = tmp_path / "a) R 1 (b"
    odd.symlink_to("/bin/sleep")
    with subprocess.Popen([str(odd), "600"]) as made:
        assert made.pid in eventually(lambda: proc.descendants(os.getpid()))
        made.kill()


def test_traffic() -> None:
    before, told_before = proc.traffic(), psutil.net_io_counters(nowrap=False)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as near:
        far, _ = server.accept()
        with far:
            near.sendall(bytes(1 << 20))
            left = 1 << 20
            while left:
                left -= len(far.recv(1 << 16))
    after, told_after = proc.traffic(), psutil.net_io_counters(nowrap=False)
    # Others are at work on this machine: what was counted first can only have grown.
    assert before[0] <= told_before.bytes_sent <= after[0] <= told_after.bytes_sent
    assert before[1] <= told_before.bytes_recv <= after[1] <= told_after.bytes_recv
    assert after[0] - before[0] >= 1 << 20


def test_addresses() -> None:
    told = {
        (name, one.family, one.address.partition("%")[0])
        for name, owned in psutil.net_if_addrs().items()
        for one in owned
        if one.family in (socket.AF_INET, socket.AF_INET6)
    }
    assert set(proc.addresses()) == told
    assert proc.Address("lo", socket.AF_INET, "127.0.0.1") in proc.addresses()


@pytest.mark.usefixtures("without_psutil")
class TestWithoutPsutil:
    def test_a_node_finds_its_address_and_interface(self) -> None:
        assert ports.interface_of("127.0.0.1") == "lo"
        assert ports.interface_of("203.0.113.9") == ""
        assert ports.own_address("127.0.0.0/8", None) == "127.0.0.1"
        with pytest.raises(NodeError, match=r"inside 203\.0\.113\.0/24"):
            ports.own_address("203.0.113.0/24", None)

    def test_a_node_tells_what_it_uses(self, family: subprocess.Popen[str]) -> None:
        usage = metrics.Usage(since=time.monotonic() - 1)
        sample = usage.look()
        assert sample["memory_bytes"] > 50 << 20
        assert sample["cpu_percent"] > 0
        assert usage.look()["cpu_percent"] < sample["cpu_percent"]
