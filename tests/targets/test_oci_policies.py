"""The policies that Muster prints for a job are enough for it, in a cloud that allows nothing else, and no more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.clouds.oci import session
from muster.clouds.oci_services import Services
from muster.errors import CloudError
from muster.rehearsal.oracle import OracleServer
from tests.harness import Muster, eventually
from tests.targets.oracle_place import OCIDS, There, account, reach

DASK = "from distributed import Client\nclient = Client()\nprint(client.submit(sum, [1, 2, 3]).result(), flush=True)\n"
TORCH = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
one = torch.ones(1)
dist.all_reduce(one)
print(int(one), flush=True)
"""
HOROVOD = "import horovod.torch as hvd\nhvd.init()\nprint(hvd.size(), flush=True)\n"
TENSORFLOW = "import json, os\nprint(len(json.loads(os.environ['TF_CONFIG'])['cluster']['worker']), flush=True)\n"
STAYS = "import time\nprint('trained', flush=True)\ntime.sleep(600)\n"
SCRIPTS = {"dask": DASK, "pytorch": TORCH, "horovod": HOROVOD, "tensorflow": TENSORFLOW}


@pytest.fixture
def cloud(tmp_path: Path, mark: str) -> Iterator[OracleServer]:
    with account(tmp_path, mark) as server:
        yield server


def policy_of(place: There, job: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(place.muster("policy", job, "--on", "oci", "--json").stdout)
    return told


def push(place: There) -> None:
    """What pushing an image to a registry that makes repositories by itself asks for."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in place.muster.env.items():
            patch.setenv(name, value)
        details = {"compartmentId": OCIDS["compartment_id"], "displayName": "train", "isPublic": False}
        with pytest.raises(CloudError) as refusal:
            Services(session("api_key")).call("artifacts", "create_container_repository", details)
    assert refusal.value.status == 409, "it is there already, and this user may know it"


@pytest.mark.slow
@pytest.mark.parametrize("framework", SCRIPTS)
def test_enough_for_the_job_and_nothing_more(
    framework: str, cloud: OracleServer, muster: Muster, tmp_path: Path
) -> None:
    place = reach(muster, cloud, tmp_path, groups=("muster-users",))
    job = muster.job(SCRIPTS[framework] + STAYS, framework, workers=1, **place.fields)
    policy = policy_of(place, job)
    cloud.grant(policy)
    launcher = muster.start("run", job, "--on", "oci")
    run = muster.run_id()
    eventually(lambda: "trained" in muster("logs", run).stdout, within=120)
    # A machine that was lost is one that main asks the cloud for at its end.
    place.kill(run, "worker-1")
    muster("stop", run, check=None)
    launcher.communicate(timeout=120)
    muster("sweep", "--on", "oci")
    push(place)
    assert cloud.judge(policy) == []
    # The doctor also looks at limits and regions, which no run needs, and says so where it may not.
    muster("doctor", job, "--on", "oci", "--json", check=None)
    beyond, statements = set(cloud.judge(policy)), policy["statements"]
    without = [{**policy, "statements": [*statements[:n], *statements[n + 1 :]]} for n in range(len(statements))]
    idle = [one["text"] for one, less in zip(statements, without, strict=True) if not {*cloud.judge(less)} - beyond]
    assert not idle, "\n".join(idle)
