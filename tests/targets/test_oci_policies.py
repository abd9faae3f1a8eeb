"""The policies that Muster prints for a job are enough for it, in a cloud that allows nothing else, and no more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.rehearsal.oracle import OracleServer
from tests.harness import Muster
from tests.targets.oracle_place import There, account, reach

DASK = "from distributed import Client\nclient = Client()\nprint(client.submit(sum, [1, 2, 3]).result(), flush=True)\n"
TORCH = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
one = torch.ones(1)
dist.all_reduce(one)
print(int(one), flush=True)
dist.destroy_process_group()
"""
HOROVOD = "import horovod.torch as hvd\nhvd.init()\nprint(hvd.size(), flush=True)\nhvd.shutdown()\n"
TENSORFLOW = "import json, os\nprint(len(json.loads(os.environ['TF_CONFIG'])['cluster']['worker']), flush=True)\n"
SCRIPTS = {"dask": DASK, "pytorch": TORCH, "horovod": HOROVOD, "tensorflow": TENSORFLOW}


@pytest.fixture
def cloud(tmp_path: Path, mark: str) -> Iterator[OracleServer]:
    with account(tmp_path, mark) as server:
        yield server


def policy_of(place: There, job: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(place.muster("policy", job, "--on", "oci", "--json").stdout)
    return told


@pytest.mark.slow
@pytest.mark.parametrize("framework", SCRIPTS)
def test_enough_for_the_job_and_nothing_more(
    framework: str, cloud: OracleServer, muster: Muster, tmp_path: Path
) -> None:
    place = reach(muster, cloud, tmp_path, groups=("muster-users",))
    job = muster.job(SCRIPTS[framework], framework, workers=1, **place.fields)
    policy = policy_of(place, job)
    cloud.grant(policy)
    muster("run", job, "--on", "oci")
    muster("logs", muster.run_id())
    muster("sweep", "--on", "oci")
    assert cloud.judge(policy) == []
    # The doctor also looks at limits and regions, which no run needs, and says so where it may not.
    muster("doctor", job, "--on", "oci", "--json", check=None)
    beyond, statements = set(cloud.judge(policy)), policy["statements"]
    without = [{**policy, "statements": [*statements[:n], *statements[n + 1 :]]} for n in range(len(statements))]
    idle = [one["text"] for one, less in zip(statements, without, strict=True) if not {*cloud.judge(less)} - beyond]
    assert idle == []
