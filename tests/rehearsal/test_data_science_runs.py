"""Job runs of the rehearsed Data Science service are real processes: what they see, how they end, and that all do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.rehearsal.principals import COMPARTMENT, REGION, TENANCY
from muster.rehearsal.run_hosts import Addresses, Place
from tests.harness import eventually
from tests.rehearsal.data_science_world import IMAGE, PROJECT, World, configuration, descends

Make = Callable[..., World]

SHOW = "import json, os; print(json.dumps({**os.environ, 'cwd': os.getcwd()}), flush=True)"
SLEEP = "import time; print('up', flush=True); time.sleep(600)"
STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deep', flush=True); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", deaf], start_new_session=True)
time.sleep(600)
"""
ORPHAN = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; print('left', flush=True); time.sleep(600)"],
                 start_new_session=True, stdout=open("out", "w"))
while not open("out").read():
    pass
"""


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """A world with settings of its own."""
    made: list[World] = []

    def one(**settings: Any) -> World:
        made.append(World(tmp_path / f"world-{len(made)}", monkeypatch, **settings))
        return made[-1]

    yield one
    for each in made:
        each.close()
        for run in each.science.runs():
            assert not descends(f"JOB_RUN_OCID={run['id']}")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with pytest.MonkeyPatch.context() as patch:
        made = World(tmp_path_factory.mktemp("runs"), patch, minute=0.5, grace=0.3, environment={"EVERY": "node"})
        yield made
        made.close()


@pytest.fixture
def world(shared: World) -> Iterator[World]:
    yield shared
    shared.denied.deny()
    for name in ("accepted", "started", "ended", "canceled"):
        shared.science.delay(name, 0.0)


def seen(world: World, run: str) -> dict[str, str]:
    """The environment that a run of SHOW printed."""
    found = world.ended(run)
    assert found["lifecycleState"] == "SUCCEEDED", found
    said: dict[str, str] = json.loads(world.science.output(run).splitlines()[0])
    return said


def up(world: World, run: str, word: str = "up") -> None:
    """Waits until a run has printed this."""
    eventually(lambda: word in world.science.output(run))


def test_what_a_node_finds(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVERS_OWN", "secret")
    job = world.python(SHOW, jobConfigurationDetails=configuration(environmentVariables={"A": "job", "B": "job"}))
    override = configuration(environmentVariables={"B": "run", "C": "run", "JOB_OCID": "forged"})
    run = world.run(job, jobConfigurationOverrideDetails=override)
    found = seen(world, run)
    assert [found[name] for name in "ABC"] == ["job", "run", "run"]
    told = {
        "TENANCY_OCID": TENANCY,
        "PROJECT_OCID": PROJECT,
        "PROJECT_COMPARTMENT_OCID": COMPARTMENT,
        "JOB_OCID": job,
        "JOB_COMPARTMENT_OCID": COMPARTMENT,
        "JOB_RUN_OCID": run,
        "JOB_RUN_COMPARTMENT_OCID": COMPARTMENT,
        "MUSTER_OCI_ENDPOINT": world.server.endpoint,
        "OCI_OBJECTSTORAGE_SERVICE_ENDPOINT": world.server.endpoint,
        "OCI_ODSC_SERVICE_ENDPOINT": world.server.endpoint,
        "OCI_RESOURCE_PRINCIPAL_VERSION": "2.2",
        "OCI_RESOURCE_PRINCIPAL_REGION": REGION,
        "MUSTER_FREE_PORTS": "1",
        "EVERY": "node",
        "LANG": "C.UTF-8",
    }
    assert {name: found.get(name) for name in told} == told
    known = {*"ABC", *told, "PATH", "HOME", "TMPDIR", "MUSTER_ADDRESS", "FQDN", "cwd", "LC_CTYPE"}
    assert set(found) - known == {"OCI_RESOURCE_PRINCIPAL_RPST", "OCI_RESOURCE_PRINCIPAL_PRIVATE_PEM"}
    assert found["cwd"] == found["HOME"]
    assert found["HOME"] != found["TMPDIR"]
    files = [Path(found["HOME"]), Path(found["OCI_RESOURCE_PRINCIPAL_RPST"])]
    eventually(lambda: not any(path.exists() for path in files))


def test_every_run_has_an_address_of_its_own(world: World) -> None:
    listen = "import os, socket; s = socket.create_server((os.environ['MUSTER_ADDRESS'], 0)); " + SHOW
    job = world.python(listen)
    addresses = {seen(world, run)["MUSTER_ADDRESS"] for run in [world.run(job) for _ in range(3)]}
    assert len(addresses) == 3
    assert all(address.startswith("127.") and not address.startswith("127.0.") for address in addresses)


@pytest.mark.unit
def test_addresses_are_free_of_collisions() -> None:
    ours, others = Addresses(1000), Addresses(1001)
    taken = [ours.take() for _ in range(600)]
    assert len(set(taken)) == 600
    assert not {others.take() for _ in range(600)} & set(taken)
    assert not [address for address in taken if address.rpartition(".")[2] in ("0", "255")]
    ours.give_back(taken[0])
    assert ours.take() != taken[0], "an address is not used again at once"


def test_a_node_signs_with_its_own_principal(world: World) -> None:
    script = """
import os
from muster.clouds import oci
from muster.clouds.oci_services import Services
services = Services(oci.session())
print(services.call("data_science", "get_job_run", os.environ["JOB_RUN_OCID"]).data["lifecycleState"])
print(services.call("object_storage", "get_namespace").data)
"""
    run = world.run(world.python(script))
    world.denied.deny()
    assert world.ended(run)["lifecycleState"] == "SUCCEEDED", world.science.output(run)
    assert world.science.output(run).split() == ["IN_PROGRESS", "rehearsal"]
    asked = [who for who, wish in world.denied.asked if wish.permission == "DATA_SCIENCE_JOB_RUN_READ"]
    claims = [(who.kind, who.claims["res_type"], who.claims["res_id"]) for who in asked if who.id == run]
    assert ("resource", "datasciencejobrun", run) in claims
    assert {who.claims["res_compartment"] for who in asked if who.id == run} == {COMPARTMENT}


def test_the_token_is_renewed_while_the_run_lives(make: Make) -> None:
    world = make(token_seconds=2.0)
    script = """
import base64, json, os, time
def end():
    said = open(os.environ["OCI_RESOURCE_PRINCIPAL_RPST"]).read().split(".")[1]
    return json.loads(base64.urlsafe_b64decode(said + "=="))["exp"]
first = end()
while end() < first + 2:
    time.sleep(0.02)
"""
    run = world.run(world.python(script))
    assert world.ended(run)["lifecycleState"] == "SUCCEEDED", world.science.output(run)


def test_the_command_is_one_argv(world: World) -> None:
    show = "import sys; print(sys.argv[1:])"
    details = {
        "jobEnvironmentConfigurationDetails": {
            "jobEnvironmentType": "OCIR_CONTAINER",
            "image": IMAGE,
            "entrypoint": [sys.executable, "-c"],
            "cmd": [show, "a b", "$HOME; true"],
        },
        "jobConfigurationDetails": configuration(commandLineArguments="--epochs 3 --name 'x y'"),
    }
    job = world.job(**details)
    run = world.run(job)
    world.ended(run)
    assert world.science.output(run).strip() == str(["a b", "$HOME; true", "--epochs", "3", "--name", "x y"])
    container = {"jobEnvironmentType": "OCIR_CONTAINER", "image": IMAGE, "cmd": [show, "other"]}
    over = world.run(
        job,
        jobEnvironmentConfigurationOverrideDetails=container,
        jobConfigurationOverrideDetails=configuration(commandLineArguments="last"),
    )
    world.ended(over)
    assert world.science.output(over).strip() == str(["other", "last"])


def test_an_image_with_a_command_of_its_own(world: World) -> None:
    own = "iad.ocir.io/namespace/own:2"
    world.steering.ask("POST", "images", {"image": own, "argv": [sys.executable, "-c", "import sys; sys.exit(7)"]})
    job = world.job(jobEnvironmentConfigurationDetails={"jobEnvironmentType": "OCIR_CONTAINER", "image": own})
    run = world.ended(world.run(job))
    assert (run["lifecycleState"], "exit code 7" in run["lifecycleDetails"]) == ("FAILED", True)
    none = world.ended(world.run(world.job()))
    assert none["lifecycleState"] == "FAILED"
    assert "pull" in none["lifecycleDetails"]
    assert none["timeStarted"] is None
    assert none["timeFinished"]


def test_a_command_that_is_not_there(world: World) -> None:
    run = world.run(world.job("/no/such/program"))
    found = world.ended(run)
    assert found["lifecycleState"] == "FAILED"
    assert "exit code 127" in found["lifecycleDetails"]
    assert "/no/such/program" in world.science.output(run)


def test_a_run_goes_through_its_states(world: World) -> None:
    for name in ("accepted", "started", "ended"):
        world.science.delay(name, float("inf"))
    run = world.run(world.python("print('up')"), displayName="steps")
    assert world.state(run) == "ACCEPTED"
    world.steering.ask("PUT", "delays", {"name": "accepted", "seconds": 0, "run": "steps"})
    assert world.science.wait(run, "IN_PROGRESS")["timeStarted"]
    assert world.science.output(run) == ""
    world.science.delay("started", 0)
    up(world, run)
    assert world.state(run) == "IN_PROGRESS"
    world.science.delay("ended", 0)
    assert world.ended(run)["lifecycleState"] == "SUCCEEDED"


def test_a_run_is_canceled_before_it_starts(world: World) -> None:
    world.science.delay("accepted", float("inf"))
    run = world.run(world.python("print('up')"))
    world("cancel_job_run", run)
    found = world.ended(run)
    assert (found["lifecycleState"], found["timeStarted"]) == ("CANCELED", None)
    assert world.user.id in found["lifecycleDetails"]
    assert world.science.output(run) == ""
    assert world.refused("cancel_job_run", run) == (409, "IncorrectState")


def test_a_canceled_run_may_end_by_itself(make: Make) -> None:
    world = make(grace=600.0)
    polite = """
import signal, sys, time
def end(*_):
    print("bye", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print("up", flush=True)
time.sleep(600)
"""
    run = world.run(world.python(polite))
    up(world, run)
    world.science.delay("canceled", float("inf"))
    world("cancel_job_run", run)
    up(world, run, "bye")
    assert world.state(run) == "CANCELING"
    assert world.refused("cancel_job_run", run) == (409, "IncorrectState")
    world.science.delay("canceled", 0)
    assert world.ended(run)["lifecycleState"] == "CANCELED"


def test_a_stubborn_tree_is_killed(world: World) -> None:
    run = world.run(world.python(STUBBORN))
    up(world, run, "deep")
    assert len(descends(f"JOB_RUN_OCID={run}")) == 3, "its guard, its process, and the one below"
    world("cancel_job_run", run)
    assert world.ended(run)["lifecycleState"] == "CANCELED"
    assert not descends(f"JOB_RUN_OCID={run}")


def test_what_a_run_leaves_is_ended_with_it(world: World) -> None:
    run = world.run(world.python(ORPHAN))
    assert world.ended(run)["lifecycleState"] == "SUCCEEDED"
    assert not descends(f"JOB_RUN_OCID={run}")


def test_the_service_ends_a_run_at_its_maximum_runtime(world: World) -> None:
    job = world.python(STUBBORN, jobConfigurationDetails=configuration(maximumRuntimeInMinutes=2))
    run = world.run(job)
    found = world.ended(run)
    assert found["lifecycleState"] == "CANCELED"
    assert "maximum runtime of 2 minutes" in found["lifecycleDetails"]
    assert not descends(f"JOB_RUN_OCID={run}")
    longer = configuration(maximumRuntimeInMinutes=40_000)
    quick = world.python("", jobConfigurationDetails=configuration(maximumRuntimeInMinutes=1))
    assert world.ended(world.run(quick, jobConfigurationOverrideDetails=longer))["lifecycleState"] == "SUCCEEDED"


def test_a_node_is_lost(world: World) -> None:
    run = world.run(world.python(SLEEP), displayName="doomed")
    up(world, run)
    world.steering.ask("POST", "kill_run", {"run": "doomed"})
    found = world.ended(run)
    assert (found["lifecycleState"], "exit code 137" in found["lifecycleDetails"]) == ("FAILED", True)


def test_a_guard_that_is_killed_takes_its_tree_along(world: World) -> None:
    run = world.run(world.python(STUBBORN))
    up(world, run, "deep")
    machine = world.science._runs.find(run).nodes[0].machine
    assert machine is not None
    os.kill(machine.pid, signal.SIGKILL)
    assert world.ended(run)["lifecycleState"] == "FAILED"
    eventually(lambda: not descends(f"JOB_RUN_OCID={run}"))


def test_a_run_that_needs_attention_goes_on(world: World) -> None:
    run = world.run(world.python(SLEEP))
    up(world, run)
    world.steering.ask("POST", "need_attention", {"run": run, "details": "look"})
    found = world("get_job_run", run)
    assert (found["lifecycleState"], found["lifecycleDetails"]) == ("NEEDS_ATTENTION", "look")
    world("cancel_job_run", run)
    assert world.ended(run)["lifecycleState"] == "CANCELED"


def test_a_place_elsewhere(make: Make) -> None:
    left: list[str] = []

    def place(run: Any) -> Place:
        return Place({"ELSEWHERE": run["id"]}, ["/usr/bin/env", "PREFIXED=1"], lambda: left.append(run["id"]))

    world = make(place=place)
    run = world.run(world.python(SHOW))
    found = seen(world, run)
    assert (found["ELSEWHERE"], found["PREFIXED"]) == (run, "1")
    assert "MUSTER_ADDRESS" not in found
    assert left == [run]


# --- logs -------------------------------------------------------------------------------------------------


def logged(world: World, group: str, log: str, run: str) -> list[str]:
    from datetime import datetime, timedelta, timezone

    now = datetime.now(timezone.utc)
    query = f"search \"{COMPARTMENT}/{group}/{log}\" | where source = '*{run}' | sort by datetime asc"
    details = {
        "timeStart": (now - timedelta(hours=1)).isoformat(),
        "timeEnd": (now + timedelta(hours=1)).isoformat(),
        "searchQuery": query,
    }
    found = world("search_logs", details, service="log_search")["results"]
    return [row["data"]["logContent"]["data"]["message"] for row in found]


def test_a_run_logs_line_by_line(world: World) -> None:
    group = world.logs.make_group("training")
    log = world.logs.make_log(group, "shared")
    logs = {"enableLogging": True, "logGroupId": group, "logId": log}
    job = world.python(
        "import sys; print('one'); print('zwei ä'); sys.stdout.flush(); print('three', file=sys.stderr)",
        jobLogConfigurationDetails=logs,
    )
    run = world.run(job)
    assert world.ended(run)["logDetails"] == {"logGroupId": group, "logId": log}
    assert logged(world, group, log, run) == ["one", "zwei ä", "three"]
    assert world.science.output(run) == ""
    auto = world.run(job, jobLogConfigurationOverrideDetails={"enableAutoLogCreation": True})
    made = world.ended(auto)["logDetails"]["logId"]
    assert made != log
    assert logged(world, group, made, auto) == ["one", "zwei ä", "three"]


def test_a_run_that_may_not_log_says_so(world: World) -> None:
    group = world.logs.make_group("closed")
    logs = {"enableLogging": True, "enableAutoLogCreation": True, "logGroupId": group}
    job = world.python(SLEEP, jobLogConfigurationDetails=logs)
    world.denied.deny("LOG_CONTENT_PUSH", kinds=("resource",))
    run = world.run(job)
    up(world, run)
    found = world("get_job_run", run)
    assert found["lifecycleState"] == "NEEDS_ATTENTION"
    assert found["logDetails"]["logId"] in found["lifecycleDetails"]
    world.denied.deny("LOG_GROUP_CREATE")
    assert world.refused("create_job_run", world.run_details(job)) == (404, "NotAuthorizedOrNotFound")
    world.denied.deny("LOG_GROUP_READ")
    assert world.refused("create_job_run", world.run_details(job)) == (404, "NotAuthorizedOrNotFound")
    world("cancel_job_run", run)


# --- several nodes in one run -----------------------------------------------------------------------------


def groups(script: str, *wanted: dict[str, Any], order: str = "IN_PARALLEL") -> dict[str, Any]:
    container = {"jobEnvironmentType": "OCIR_CONTAINER", "image": IMAGE, "cmd": [sys.executable, "-c", script]}
    every = [{"jobEnvironmentConfigurationDetails": container, **group} for group in wanted]
    nodes = {"jobNodeType": "MULTI_NODE", "startupOrder": order, "jobNodeGroupConfigurationDetailsList": every}
    machines = {"jobInfrastructureType": "MULTI_NODE", "shapeName": "VM.Standard2.1", "blockStorageSizeInGBs": 50}
    return {
        "jobNodeConfigurationDetails": nodes,
        "jobInfrastructureConfigurationDetails": machines,
        "jobEnvironmentConfigurationDetails": None,
    }


@pytest.mark.parametrize("order", ["IN_PARALLEL", "IN_ORDER"])
def test_a_run_of_several_nodes(world: World, order: str) -> None:
    worker = configuration(environmentVariables={"MODE": "WORKER"})
    wanted = ({"name": "main"}, {"name": "worker", "replicas": 2, "jobConfigurationDetails": worker})
    main = configuration(environmentVariables={"MODE": "MAIN"})
    job = world.job(**groups(SHOW, *wanted, order=order), jobConfigurationDetails=main)
    run = world.run(job)
    found = world.ended(run)
    assert found["lifecycleState"] == "SUCCEEDED"
    assert [(group["name"], group["lifecycleState"]) for group in found["nodeGroupDetailsList"]] == [
        ("main", "DELETED"),
        ("worker", "DELETED"),
    ]
    nodes = sorted(map(json.loads, world.science.output(run).splitlines()), key=lambda said: str(said["NODE_RANK"]))
    told = [(node["NODE_GROUP"], node["NODE_REPLICA"], node["NODE_RANK"], node["MODE"]) for node in nodes]
    assert told == [("main", "0", "0", "MAIN"), ("worker", "0", "1", "WORKER"), ("worker", "1", "2", "WORKER")]
    assert len({node["MUSTER_ADDRESS"] for node in nodes}) == len({node["HOME"] for node in nodes}) == 3
    assert {node["NODE_COUNT"] for node in nodes} == {"3"}


def test_a_group_needs_its_minimum(world: World) -> None:
    last_fails = "import os, sys; sys.exit(5 if os.environ['NODE_REPLICA'] == '1' else 0)"
    lenient = {"name": "worker", "replicas": 2, "minimumSuccessReplicas": 1}
    assert world.ended(world.run(world.job(**groups(last_fails, lenient))))["lifecycleState"] == "SUCCEEDED"
    # The other node of a group that has failed is ended with it.
    last_fails = "import os, sys, time; sys.exit(5) if os.environ['NODE_REPLICA'] == '1' else time.sleep(600)"
    strict = world.ended(world.run(world.job(**groups(last_fails, {"name": "worker", "replicas": 2}))))
    assert strict["lifecycleState"] == "FAILED"
    assert "worker" in strict["lifecycleDetails"]
    assert strict["nodeGroupDetailsList"][0]["lifecycleState"] == "FAILED"


def test_groups_that_do_not_fit(world: World) -> None:
    bad: list[tuple[dict[str, Any], ...]] = [
        ({"name": "worker", "replicas": 0},),
        ({"name": "worker", "replicas": 1, "minimumSuccessReplicas": 2},),
        ({"name": "worker"}, {"name": "worker"}),
        ({"replicas": 1},),
    ]
    for wanted in bad:
        details = world.job_details(**groups("", *wanted))
        assert world.refused("create_job", details) == (400, "InvalidParameter")
    nodes = groups("", {"name": "a", "replicas": 3})
    world.steering.ask("PUT", "quota", {"VM.Standard2.1": 2})
    assert world.refused("create_job_run", world.run_details(world.job(**nodes))) == (400, "LimitExceeded")
    world.steering.ask("PUT", "quota", {})


# --- the end of the cloud ---------------------------------------------------------------------------------

CLOUD = """
import io, json, sys, threading, time
from pathlib import Path
from muster.rehearsal.data_science import DataScience
from muster.rehearsal.identity import Principal
from muster.rehearsal.messages import Body, Request
from muster.rehearsal.routing import Call

science = DataScience(Path(sys.argv[1]))
ask = {route.kind: route.handler for route in science.routes()}

def made(kind, details):
    body = json.dumps(details).encode()
    request = Request("POST", "/", {"host": "127.0.0.1"}, Body(io.BytesIO(body), len(body)))
    return json.loads(ask[kind](Call(request, Principal("somebody", "tenancy"), {})).body)["id"]

job, run = json.loads(sys.argv[2])
run = made("create_run", {**run, "jobId": made("create_job", job)})
while "deep" not in science.output(run):
    time.sleep(0.02)
print(run, flush=True)
threading.Event().wait()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_run_outlives_its_cloud(world: World, tmp_path: Path, number: signal.Signals) -> None:
    details = [world.job_details(sys.executable, "-c", STUBBORN), world.run_details("")]
    argv = [sys.executable, "-c", CLOUD, str(tmp_path), json.dumps(details)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as cloud:
        assert cloud.stdout is not None
        run = cloud.stdout.readline().strip()
        assert len(descends(f"JOB_RUN_OCID={run}")) == 3
        cloud.send_signal(number)
        cloud.wait()
    eventually(lambda: not descends(f"JOB_RUN_OCID={run}"))


def test_closing_ends_all_runs(make: Make) -> None:
    world = make(grace=600.0)
    runs = [world.run(world.python(STUBBORN)) for _ in range(2)]
    for run in runs:
        up(world, run, "deep")
    world.science.close()
    assert [run["lifecycleState"] for run in world.science.runs()] == ["CANCELED"] * 2
    assert not any(descends(f"JOB_RUN_OCID={run}") for run in runs)
