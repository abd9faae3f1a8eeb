"""`muster doctor --probe` on a rehearsed Oracle cloud: two real nodes dial each other, and nothing is left of them."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from muster import launching
from muster.access.findings import Finding
from muster.access.rules import LAST_PORT, PortRule
from muster.frameworks.registry import names
from muster.node import probing
from muster.targets.oci import Oci
from muster.targets.oci_probe import samples
from tests.harness import Muster
from tests.targets.oracle_place import IMAGE, There, account, reach


@pytest.fixture
def there(muster: Muster, mark: str, tmp_path: Path) -> Iterator[There]:
    with account(tmp_path, mark) as server:
        yield reach(muster, server, tmp_path)


@pytest.fixture
def port() -> int:
    """Free on every address, and not one that the kernel hands out."""
    for number in range(21000, 32000):
        with socket.socket() as free:
            try:
                free.bind(("", number))
            except OSError:
                continue
            return number
    raise AssertionError("no port is free")


@contextmanager
def taken(port: int) -> Iterator[None]:
    """By a process of its own on the machine, whatever the address."""
    script = f"import socket; s = socket.create_server(('', {port})); print('here', flush=True); input()"
    words = [sys.executable, "-c", script]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "here\n"
        yield
        process.stdin.write("\n")


def job(there: There, **fields: Any) -> Path:
    return there.muster.job("print('hello')", "tensorflow", **{"image": IMAGE, "workers": 3, **fields})


def probed(there: There, monkeypatch: pytest.MonkeyPatch, **fields: Any) -> list[Finding]:
    """What the target finds, without all else that the doctor looks at."""
    for name, value in there.muster.env.items():
        monkeypatch.setenv(name, value)
    read, config = launching.target_of(job(there, **fields), there.on)
    return Oci(config).probe(read)


def nothing_is_left(there: There) -> None:
    assert there.left() == []
    assert json.loads(there.muster("ps", "--json").stdout) == []
    assert json.loads(there.muster("ps", "--work-dir", work_dir(there), "--json").stdout) == []


def work_dir(there: There) -> str:
    return f"oci://training@{there.server.namespace}/team/runs"


@pytest.mark.slow
def test_every_port_that_the_job_needs_is_tried_both_ways(there: There, port: int) -> None:
    told = there.muster("doctor", job(there, options={"port": port}), "--on", there.on, "--probe", "--json", check=None)
    found = [each for each in json.loads(told.stdout) if each["check"] == "probe"]
    assert [(each["state"], each["what"]) for each in found] == [
        ("ok", f"server ({port} on every node) is open between two nodes, both ways"),
        ("ok", "control (29399 on main) is open between two nodes, both ways"),
    ]
    runs = there.server.job_runs()
    assert sorted(run["freeformTags"]["muster-node"] for run in runs) == ["main", "worker-1"]
    assert {run["lifecycleState"] for run in runs} == {"SUCCEEDED"}
    nothing_is_left(there)


@pytest.mark.slow
def test_a_port_that_something_else_has_is_a_finding_that_fails(
    there: There, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with taken(port):
        server, control = probed(there, monkeypatch, options={"port": port})
    assert server.state == "fail"
    assert f"{port} is taken by another process of main's image" in server.what
    assert f"{port} is taken by another process of worker-1's image" in server.what
    assert "`options`" in server.fix
    assert control.state == "ok"
    nothing_is_left(there)


def test_a_launch_that_is_refused_is_a_finding_and_leaves_nothing(
    there: There, monkeypatch: pytest.MonkeyPatch
) -> None:
    there.server.refuse_run(2)
    (found,) = probed(there, monkeypatch)
    assert found.state == "fail"
    assert "refused" in found.what
    nothing_is_left(there)


def test_one_node_alone_needs_no_probe(there: There, monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = probed(there, monkeypatch, workers=0)
    assert found.state == "skipped"
    assert there.server.job_runs() == []


@pytest.mark.unit
def test_ranges_are_sampled_at_their_ends_and_between() -> None:
    def of(first: int, last: int) -> list[int]:
        return samples(PortRule("x", first, last, "every node", ""))

    assert of(8786, 8786) == [8786]
    assert of(8700, 8701) == [8700, 8701]
    assert of(8700, 8800) == [8700, 8716, 8733, 8750, 8766, 8783, 8800]
    assert of(22, 22) == [22]
    assert (of(1, LAST_PORT)[0], of(1, LAST_PORT)[-1], len(of(1, LAST_PORT))) == (1024, LAST_PORT, 7)


@pytest.mark.unit
def test_the_probe_is_not_offered_to_jobs() -> None:
    assert "muster-probe" not in names()


def test_a_port_that_nobody_answers_on_is_told_with_its_reason(port: int) -> None:
    """Two programs on addresses of their own, of which one is never asked to listen where the other dials."""

    def start(node: str, own: int, peer: str, other: int, ports: list[int]) -> subprocess.Popen[str]:
        addresses = [f"127.3.0.{number}" for number in (own, other)]
        words = [node, addresses[0], peer, addresses[1], *map(str, ports), "--seconds", "2"]
        return subprocess.Popen([sys.executable, "-I", probing.__file__, *words], stdout=subprocess.PIPE, text=True)

    main = start("main", 1, "worker-1", 2, [port, port + 1])
    worker = start("worker-1", 2, "main", 1, [port])
    said = [
        json.loads(line.removeprefix(probing.MARK))
        for each in (main, worker)
        for line in each.communicate()[0].splitlines()
    ]
    told = {(one["from"], one["port"]): one["why"] for one in said}
    assert told == {("main", port): "", ("worker-1", port): "", ("main", port + 1): "refused"}
