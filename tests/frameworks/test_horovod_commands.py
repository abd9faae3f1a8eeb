"""What Horovod would start, as whole values, what it cannot do, and whom it takes for a complainer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import muster.frameworks
from muster.frameworks.base import Command, Objection, Port, Scene
from muster.frameworks.horovod import Horovod
from muster.spec.job import Job, Role, Workers
from muster.workdir.records import MainConfig
from tests.frameworks.scenes import scene

pytestmark = pytest.mark.unit

SCRIPT = ("/usr/bin/python3", "/node/code/train.py", "two words", "$HOME")
LAUNCHER = Path(muster.frameworks.__file__).parent / "_horovod.py"
MAIN = MainConfig("main", "10.0.0.1", 7000, 1, {"rendezvous": 12345})


def job(**fields: Any) -> Job:
    known: dict[str, Any] = {"entry": "train.py", "args": ("two words", "$HOME"), "workers": Workers(2, 2)}
    return Job(**{"name": "j", "framework": "horovod", **known, **fields})


def at(whole: Job, node: str = "main", **fields: Any) -> Scene:
    return scene(whole, node, main=MAIN, **fields)


def settings(whole: Job) -> dict[str, Any]:
    """What the launcher is told."""
    (command,) = Horovod().scripts(at(whole))
    found: dict[str, Any] = json.loads(command.argv[2])
    return found


def test_main_runs_horovods_launcher_which_is_told_all_on_its_command_line_but_the_environment() -> None:
    (command,) = Horovod().scripts(at(job(env={"PASSWORD": "x"})))
    assert command == Command("horovod", command.argv, script=True, conducts=True)
    assert command.argv[:2] == ("/usr/bin/python3", str(LAUNCHER))
    assert settings(job()) == {
        "workers": 2,
        "nodes": 3,
        "min_np": None,
        "max_np": None,
        "elastic": False,
        "retries": 0,
        "timeout": 600.0,
        "address": "10.0.0.1",
        "port": 12345,
        "args": [],
    }
    assert Horovod().services(at(job())) == ()
    assert Horovod().scripts(at(job(), "worker-1")) == ()
    assert Horovod().scripts(at(job(entry=None, ephemeral=False))) == ()


def test_an_elastic_launcher_uses_the_retries_up_by_itself() -> None:
    found = settings(job(workers=Workers(1, 4), retries=2))
    assert (found["workers"], found["nodes"], found["elastic"], found["retries"]) == (1, 5, True, 2)


def test_a_fixed_size_has_all_start_anew_by_muster() -> None:
    assert settings(job(retries=2))["retries"] == 0


def test_options_reach_the_launcher() -> None:
    options = {"min_np": 2, "max_np": 3, "start_timeout": 9.0, "start_args": ["--autotune"], "timeline": True}
    found = settings(job(options=options))
    assert (found["min_np"], found["max_np"], found["timeout"]) == (2, 3, 9.0)
    assert found["args"] == ["--autotune", "--timeline-filename", "timeline.json"]
    assert found["elastic"], "who says how few are enough wants to go on with them"


def test_a_main_that_does_not_compute_is_no_host() -> None:
    assert settings(job(roles={"main": Role(computes=False)}))["nodes"] == 2


def test_a_hired_process_is_the_script_with_the_environment_that_was_ordered() -> None:
    order = {"rank": 3, "env": {"HOROVOD_RANK": "3", "HOROVOD_SIZE": 4}}
    env = {"HOROVOD_RANK": "3", "HOROVOD_SIZE": "4", "MUSTER_PROCESS": "rank 3"}
    assert Horovod().hired(at(job(), "worker-1"), order) == Command("rank 3", SCRIPT, env, rank=3)


def test_several_on_a_node_have_one_thread_each_and_talk_over_the_nodes_interface() -> None:
    node = at(job(), "worker-1", processes=2, interface="eth7")
    assert Horovod().hired(node, {"rank": 0, "env": {}}).defaults == {
        "OMP_NUM_THREADS": "1",
        "HOROVOD_GLOO_IFACE": "eth7",
        "NCCL_SOCKET_IFNAME": "eth7",
    }


def test_every_rank_knows_a_place_for_the_timeline_among_the_outputs_of_its_node() -> None:
    order = {"rank": 1, "env": {"HOROVOD_TIMELINE": "timeline.json"}}
    command = Horovod().hired(at(job(options={"timeline": True}), "worker-1"), order)
    assert command.env["HOROVOD_TIMELINE"] == "/node/code/outputs/timeline.json"
    own = job(options={"start_args": ["--timeline-filename", "timeline.json"]})
    assert Horovod().hired(at(own, "worker-1"), order).env["HOROVOD_TIMELINE"] == "timeline.json"


def test_an_order_that_is_none_starts_nothing() -> None:
    with pytest.raises((KeyError, ValueError)):
        Horovod().hired(at(job(), "worker-1"), {"rank": "first"})


def test_its_port_is_the_known_one_or_the_jobs_and_the_network_must_let_all_through() -> None:
    assert Horovod().ports(job(), "main") == (Port("rendezvous", 12345),)
    assert Horovod().ports(job(options={"port": 5}), "main") == (Port("rendezvous", 5),)
    assert Horovod().ports(job(), "worker") == ()
    assert Horovod().open_ports(job()) == "12345, and all TCP between the nodes: gloo and NCCL pick random ports"


def test_it_survives_a_loss_where_the_job_says_how_few_are_enough() -> None:
    horovod = Horovod()
    assert not horovod.survives_loss(job())
    assert horovod.survives_loss(job(workers=Workers(1, 2)))
    assert horovod.survives_loss(job(options={"min_np": 1}))
    assert not horovod.gathers(job(workers=Workers(1, 2)))
    assert not horovod.script_everywhere(job())


@pytest.mark.parametrize(
    ("fields", "objection"),
    [
        (
            {"options": {"min_np": 3, "max_np": 2}},
            Objection("options.min_np", "min_np (3) is more than max_np (2)", "Exchange them."),
        ),
        (
            {"options": {"min_np": 7}, "processes": 2},
            Objection("options.min_np", "min_np is 7, and the nodes have 6 slots", "Lower it."),
        ),
        (
            {"workers": Workers(0, 0), "roles": {"main": Role(computes=False)}},
            Objection("workers", "nothing computes: there is no worker, and main does not", "Add a worker."),
        ),
        (
            {"options": {"timeline": True}, "outputs": None},
            Objection("options.timeline", "a timeline comes home with the outputs", "Name an outputs folder."),
        ),
        (
            {"options": {"start_args": ["--autotune", "--min-np=2"]}},
            Objection("options.start_args", "`--min-np=2` means nothing here", "Use `options: {min_np: …}`."),
        ),
        (
            {"options": {"start_args": ["-H", "a:1"]}},
            Objection("options.start_args", "`-H` means nothing here", "The run's nodes are the hosts."),
        ),
    ],
)
def test_what_it_cannot_do_it_says(fields: dict[str, Any], objection: Objection) -> None:
    assert list(Horovod().objections(job(**fields))) == [objection]


def test_what_it_can_do_it_does_not_object_to() -> None:
    options = {"min_np": 6, "max_np": 6, "timeline": True, "start_args": ["--autotune", "--reset-limit", "3"]}
    assert list(Horovod().objections(job(options=options, processes=2))) == []
    assert list(Horovod().objections(job(workers=Workers(0, 0)))) == []


SHUT = (
    "Horovod has been shut down. This was caused by an exception on one of the ranks or an attempt to allreduce, "
    "allgather or broadcast a tensor after one of the ranks finished execution. If the shutdown was caused by an "
    "exception, you should see the exception in the log before the first shutdown message."
)
RESET = (
    "[2026-11-15 06:03:45.825465: E /x/horovod/common/operations.cc:697] [0]: Horovod background loop uncaught "
    "exception: [/x/third_party/gloo/gloo/transport/tcp/pair.cc:589] Read error [127.0.0.1]:21429: "
    "Connection reset by peer"
)
FRAMES = [
    "Traceback (most recent call last):",
    '  File "train.py", line 18, in <module>',
    "    raise HorovodInternalError(e)",
]


@pytest.mark.parametrize(
    "tail",
    [
        [
            "Traceback (most recent call last):",
            '  File "/x/horovod/torch/mpi_ops.py", line 1285, in synchronize',
            "    mpi_lib.horovod_torch_wait_and_clear(handle)",
            f"RuntimeError: {SHUT}",
            "",
            "During handling of the above exception, another exception occurred:",
            "",
            *FRAMES,
            f"horovod.common.exceptions.HorovodInternalError: {SHUT}",
        ],
        [
            RESET,
            *FRAMES,
            "tensorflow.python.framework.errors_impl.UnknownError: {{function_node __wrapped__HorovodAllreduce}} "
            f"{SHUT} [Op:HorovodAllreduce]",
        ],
        [
            *FRAMES,
            "tensorflow.python.framework.errors_impl.UnknownError: Graph execution error:",
            "",
            "Detected at node HorovodAllreduce defined at (most recent call last):",
            '  File "train.py", line 18, in <module>',
            "",
            SHUT,
            "\t [[{{node HorovodAllreduce}}]] [Op:__inference_step_100]",
        ],
        [
            "terminate called after throwing an instance of 'gloo::IoException'",
            "  what():  [/x/horovod/common/gloo/http_store.cc:54] Wait timeout after 3 seconds for key(s): 1. "
            "You may want to increase the timeout via HOROVOD_GLOO_TIMEOUT_SECONDS",
        ],
        [
            "terminate called after throwing an instance of 'gloo::IoException'",
            "  what():  [/x/gloo/transport/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:1",
        ],
        ["terminate called after throwing an instance of 'std::runtime_error'", "  what():  HTTP request failed."],
    ],
    ids=["torch", "tensorflow", "tensorflow-graph", "start", "closed", "launcher-gone"],
)
def test_a_lost_peer_is_only_a_complaint(tail: list[str]) -> None:
    assert Horovod().complaint(tail)


@pytest.mark.parametrize(
    "tail",
    [
        [*FRAMES, "ValueError: the true cause"],
        [*FRAMES, "ValueError: the true cause", RESET],
        [*FRAMES, "ConnectionResetError: [Errno 104] Connection reset by peer"],
        [RESET],
        ["terminate called after throwing an instance of 'std::bad_alloc'", "  what():  std::bad_alloc"],
        ["step 3, loss 0.1"],
        [],
    ],
)
def test_a_fault_of_its_own_is_none(tail: list[str]) -> None:
    assert not Horovod().complaint(tail)
