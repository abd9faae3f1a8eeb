"""What tests of the target `oci` do with its account: look at jobs and runs, sweep at another time, kill at a call."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

from muster.rehearsal.faults import Fault, Way
from muster.rehearsal.oracle import OracleServer
from muster.spec.config import Target as TargetConfig
from muster.targets.base import Swept
from muster.targets.oci import Oci
from muster.targets.oci_sweep import sweep
from muster.workdir.opening import open_store
from muster.workdir.records import Result
from muster.workdir.run import RunFolder
from tests.harness import Muster, eventually
from tests.targets.oracle_place import FINAL, OCIDS, There, reach, target_toml


def at_rest(muster: Muster, server: OracleServer, folder: Path, **options: Any) -> There:
    """The account for one test, with a work dir of its own. Job runs stay accepted until they are let go."""
    there = reach(muster, server, folder)
    set_target(there, **options)
    server.delay("accepted", math.inf)
    return there


def set_target(place: There, **options: Any) -> None:
    toml = Path(place.muster.env["XDG_CONFIG_HOME"]) / "muster" / "muster.toml"
    tables = {name: value for name, value in options.items() if isinstance(value, dict)}
    plain = {name: value for name, value in options.items() if name not in tables}
    text = target_toml(place.server, **{"work_dir": work_dir(place), **plain})
    text += "".join(f"{name} = {inline(value)}\n" for name, value in tables.items())
    toml.write_text(text, encoding="utf-8")


def inline(value: Any) -> str:
    """A table of TOML in one line."""
    if not isinstance(value, dict):
        return json.dumps(value)
    return "{" + ", ".join(f"{name} = {inline(item)}" for name, item in value.items()) + "}"


def cleared(place: There) -> None:
    """No fault is left, and nothing that costs."""
    place.server.deny()
    place.server.steering.clear()
    place.server.steering.ask("POST", "clear_science")
    place.server.steering.ask("PUT", "quota", {})
    swept(place, after=40 * 86_400)
    assert place.left() == []


def work_dir(place: There) -> str:
    """Its own for each test."""
    return f"oci://training@{place.server.namespace}/{place.muster.home.parent.name}"


def folder_of(place: There, run: str) -> RunFolder:
    return RunFolder(open_store(work_dir(place)), run)


def result_of(place: There, run: str) -> Result:
    """How a run has ended."""
    result = folder_of(place, run).result()
    assert result is not None, "it has not ended"
    return result


def end(place: There, run: str) -> str:
    return result_of(place, run).end.value


def swept(place: There, after: float = 0.0, dry: bool = False) -> list[Swept]:
    """What a sweep does that comes so many seconds later."""
    target = Oci(TargetConfig("oci", "oci", work_dir(place), {"compartment_id": OCIDS["compartment_id"]}))
    return sweep(target.jobs, work_dir(place), lambda _text: None, dry, time.time() + after)


def runs(place: There, run: str) -> list[dict[str, Any]]:
    return [one for one in place.server.job_runs() if one["freeformTags"].get("muster-run") == run]


def run_of(place: There, run: str, node: str) -> dict[str, Any]:
    """The newest machine of a node."""
    return [one for one in runs(place, run) if one["freeformTags"]["muster-node"] == node][-1]


def jobs(place: There, run: str) -> list[dict[str, Any]]:
    return [one for one in place.server.steering.ask("GET", "jobs") if one["freeformTags"].get("muster-run") == run]


def made(place: There, run: str) -> Counter[str]:
    """How many jobs, and how many machines of each node, the cloud has had for a run."""
    return Counter(["job"] * len(jobs(place, run)) + [one["freeformTags"]["muster-node"] for one in runs(place, run)])


def all_final(place: There, run: str, within: float = 60.0) -> None:
    eventually(lambda: all(one["lifecycleState"] in FINAL for one in runs(place, run)), within)


def asked(place: There) -> Counter[str]:
    """What the cloud was asked since the counts were reset, object storage apart."""
    stored = ("put", "get", "head", "list", "delete", "multipart-create", "part", "complete", "abort", "other")
    counted = place.server.steering.counts().requests
    return Counter({kind: count for (_, kind), count in counted.items() if kind not in stored})


def held(place: There, process: subprocess.Popen[str]) -> None:
    """Waits until a request of this process is held."""
    eventually(lambda: place.server.steering.held() or process.poll() is not None, within=120)
    assert process.poll() is None, f"it ended before: {process.communicate()}"


def killed(place: There, *words: str | Path, way: Way, **fault: Any) -> None:
    """Runs the command until it has asked for just this, and kills it. What it had asked is done, then or now."""
    place.server.steering.add(Fault(way, **fault))
    process = place.muster.start(*words)
    held(place, process)
    kill(process)
    place.server.steering.clear()
    eventually(lambda: not place.server.steering.held())


def kill(process: subprocess.Popen[str]) -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
