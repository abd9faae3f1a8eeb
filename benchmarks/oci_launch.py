"""A launch on Oracle's cloud until every job run is accepted, against the calls of ADS, and the way back out.

Both ask the same rehearsed cloud, in which each answer takes as long as one over a network does and no run that is
accepted ever starts. The way out is of runs that are real.
"""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from muster.rehearsal import oracle
from muster.rehearsal.counts import KINDS, Counted
from muster.rehearsal.oracle import OracleServer

from .figures import Row, compared
from .measuring import Sample, Start, interleaved, median, timed, waited
from .world import SCRIPTS, World, tool

ANSWER = 0.05
"""Seconds that each answer takes."""
_SIZES, _FEW = (1, 8, 64), (1, 4)
_LEAVING = 4
_WORK = (10, 30)
"""Seconds, each time others: who waits for long looks seldom, and what is found depends on when the next look is."""
_PEER, _OURS = "ADS's sequence", "muster run --detach"
_THINGS = {
    "compartment_id": "ocid1.compartment.oc1..bench",
    "project_id": "ocid1.datascienceproject.oc1.iad.bench",
    "subnet_id": "ocid1.subnet.oc1.iad.bench",
    "log_group_id": "ocid1.loggroup.oc1.iad.bench",
}
_IMAGE = "iad.ocir.io/rehearsal/train:1"
_SHAPE = "VM.Standard.E4.Flex"
_FINAL = ("SUCCEEDED", "FAILED", "CANCELED", "DELETED")


def measure(world: World, rounds: int | None, quick: bool) -> list[Row]:
    with _cloud(world) as cloud:
        cloud.server.delay("accepted", math.inf)
        launches = _launches(cloud, _FEW if quick else _SIZES, rounds or (1 if quick else 5), quick)
        cloud.server.delay("accepted", 0.0)
        return [*launches, *_leaving(cloud, rounds or (1 if quick else 5), quick)]


@dataclass(frozen=True)
class _Cloud:
    """A rehearsed account, and the command as one of its users."""

    world: World
    server: OracleServer
    work_dir: str

    def job(self, nodes: int, seconds: int = 0) -> Path:
        more = {"workers": nodes - 1, "args": [str(seconds)], "image": _IMAGE, "python": sys.executable}
        return self.world.job("pytorch", "works.py", **more)

    @contextmanager
    def client(self) -> Iterator[Any]:
        import oci

        config = oci.config.from_file(self.world.env["OCI_CONFIG_FILE"])
        yield oci.data_science.DataScienceClient(config, service_endpoint=self.server.endpoint)


@contextmanager
def _cloud(world: World) -> Iterator[_Cloud]:
    # Its images have what this environment has.
    path = os.pathsep.join([str(tool("python").parent), world.env.get("PATH", os.defpath)])
    with oracle.started("training", environment={"PATH": path}) as server:
        server.learn(**_THINGS, images=[_IMAGE])
        user = server.make_user(world.folder / "oracle")
        work_dir = f"oci://training@{server.namespace}/runs"
        config = world.folder / "config" / "muster"
        config.mkdir(parents=True)
        target = {"kind": "oci", "work_dir": work_dir, "shape_name": _SHAPE, **_THINGS}
        lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in target.items())
        (config / "muster.toml").write_text(f"[targets.oci]\n{lines}", encoding="utf-8")
        env = {**world.env, **server.environment(user), "XDG_CONFIG_HOME": str(config.parent)}
        yield _Cloud(World(world.folder, env), server, work_dir)


# --- in -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Launch:
    sample: Sample
    calls: Counted


def _launches(cloud: _Cloud, sizes: tuple[int, ...], rounds: int, quick: bool) -> list[Row]:
    cases: dict[str, Callable[[], _Launch]] = {}
    for nodes in sizes:
        for case, start in ((_PEER, _peer(cloud, nodes)), (_OURS, _ours(cloud, nodes))):
            cases[f"{nodes} {case}"] = partial(_launched, cloud, start, nodes)
    taken = interleaved(cases, rounds, warm=not quick)
    rows: list[Row] = []
    for nodes in sizes:
        pair = {case: taken[f"{nodes} {case}"] for case in (_PEER, _OURS)}
        samples = {case: [one.sample for one in each] for case, each in pair.items()}
        rows += compared(f"oci: accepted, {nodes} nodes", samples, {})
        rows += _calls(nodes, pair)
    return [*rows, _growth(sizes, taken)]


def _peer(cloud: _Cloud, nodes: int) -> Start:
    said = {**_THINGS, "image": _IMAGE, "shape_name": _SHAPE, "work_dir": cloud.work_dir}
    return cloud.world.python(SCRIPTS / "ads_sequence.py", str(nodes), json.dumps(said))


def _ours(cloud: _Cloud, nodes: int) -> Start:
    return cloud.world.muster("run", "--detach", "--on", "oci", cloud.job(nodes))


def _launched(cloud: _Cloud, start: Start, nodes: int) -> _Launch:
    steering = cloud.server.steering
    before = steering.counts()
    steering.slow(ANSWER)
    try:
        sample = timed(start)
    finally:
        steering.slow(0)
    calls = steering.counts() - before
    living = _cancelled(cloud)
    if living != nodes:
        raise RuntimeError(f"{living} job runs were accepted in place of {nodes}")
    return _Launch(sample, calls)


def _cancelled(cloud: _Cloud) -> int:
    """Ends all job runs there are, and says how many."""
    living = [run["id"] for run in cloud.server.job_runs() if run["lifecycleState"] not in _FINAL]
    with cloud.client() as client, ThreadPoolExecutor(8) as many:
        list(many.map(client.cancel_job_run, living))
    while any(run["lifecycleState"] not in _FINAL for run in cloud.server.job_runs()):
        time.sleep(0.05)
    return len(living)


def _calls(nodes: int, pair: dict[str, list[_Launch]]) -> list[Row]:
    """What the server counted."""
    name = f"oci: calls, {nodes} nodes"
    counted = {case: median(one.calls.total - _objects(one.calls) for one in taken) for case, taken in pair.items()}
    bucket = median(_objects(one.calls) for one in pair[_OURS])
    return [
        Row(name, _PEER, counted[_PEER], "calls", len(pair[_PEER])),
        Row(name, _OURS, counted[_OURS], "calls", len(pair[_OURS]), ratio=counted[_OURS] / counted[_PEER]),
        Row(name, f"{_OURS}: the work dir", bucket, "requests", len(pair[_OURS]), aim="not by nodes"),
    ]


def _objects(calls: Counted) -> int:
    """Those to object storage; the rest is for the other services."""
    return sum(calls.of(kind) for kind in KINDS if kind != "other")


def _growth(sizes: tuple[int, ...], taken: dict[str, list[_Launch]]) -> Row:
    """Calls for each node more, between the two largest."""
    few, many = sizes[-2:]
    ours = {nodes: taken[f"{nodes} {_OURS}"] for nodes in (few, many)}
    calls = {nodes: median(one.calls.total - _objects(one.calls) for one in each) for nodes, each in ours.items()}
    each = (calls[many] - calls[few]) / (many - few)
    return Row("oci: calls, each node more", f"{few} to {many} nodes", each, "calls", len(ours[many]), aim="1")


# --- out ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Left:
    ended: float
    """Seconds from the last line to the last job run's end."""
    returned: Sample


def _leaving(cloud: _Cloud, rounds: int, quick: bool) -> list[Row]:
    numbers = random.Random(5)

    def ours() -> _Left:
        seconds = 0 if quick else numbers.randint(*_WORK)
        return _left(cloud, cloud.world.muster("run", "--on", "oci", cloud.job(_LEAVING, seconds)))

    plain = cloud.world.python(SCRIPTS / "works.py", "0")
    cases: dict[str, Callable[[], _Left]] = {"python script.py": partial(_left, cloud, plain), "muster run": ours}
    taken = interleaved(cases, rounds, warm=not quick)
    samples = {
        "python script.py": [one.returned for one in taken["python script.py"]],
        "muster run: all job runs ended": [Sample(one.ended, one.returned.cpu) for one in taken["muster run"]],
        "muster run: returned, job deleted": [one.returned for one in taken["muster run"]],
    }
    return compared(f"oci: last line to end, {_LEAVING} nodes", samples, {})


def _left(cloud: _Cloud, start: Start) -> _Left:
    known = {run["id"] for run in cloud.server.job_runs()}
    process = start.popen(subprocess.PIPE)
    assert process.stdout is not None
    cpu = waited(process)
    now = time.time()
    with process.stdout as lines:
        last = max(float(line.split()[-1]) for line in lines)
    ends = [_moment(run["timeFinished"]) for run in cloud.server.job_runs() if run["id"] not in known]
    return _Left(max(ends, default=now) - last, Sample(now - last, cpu))


def _moment(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
