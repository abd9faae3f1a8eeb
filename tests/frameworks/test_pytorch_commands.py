"""What PyTorch would start, as whole values, and whom it takes for a complainer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import muster.frameworks
from muster.frameworks.base import Command, Port
from muster.frameworks.pytorch import PyTorch
from muster.spec.job import Job, Role, Workers
from muster.workdir.records import MainConfig
from tests.frameworks.scenes import members, scene

pytestmark = pytest.mark.unit

JOB = Job(name="j", framework="pytorch", entry="train.py", args=("two words", "$HOME"), workers=Workers(1, 1))
ELASTIC = Job(
    name="j", framework="pytorch", entry="train.py", args=("$$", "two words"), workers=Workers(1, 4), retries=2
)
IDLE_MAIN = {"main": Role(computes=False)}
HERE = Path(muster.frameworks.__file__).parent
SCRIPT = ("/usr/bin/python3", "/node/code/train.py", "two words", "$HOME")


def test_a_node_of_a_fixed_size_starts_its_ranks_with_torchs_own_environment() -> None:
    shared = {
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "29400",
        "WORLD_SIZE": "4",
        "LOCAL_WORLD_SIZE": "2",
        "GROUP_RANK": "1",
        "GROUP_WORLD_SIZE": "2",
        "ROLE_NAME": "default",
        "ROLE_WORLD_SIZE": "4",
        "TORCHELASTIC_RUN_ID": "run-1",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
        "TORCHELASTIC_USE_AGENT_STORE": "False",
    }
    threads = {"OMP_NUM_THREADS": "1"}
    node = scene(JOB, "worker-1", processes=2, members=members("main", "worker-1", processes=2))
    rank_2 = {"RANK": "2", "ROLE_RANK": "2", "LOCAL_RANK": "0"}
    rank_3 = {"RANK": "3", "ROLE_RANK": "3", "LOCAL_RANK": "1"}
    assert PyTorch().scripts(node) == (
        Command("rank 2", SCRIPT, {**shared, **rank_2}, threads, rank=2, script=True),
        Command("rank 3", SCRIPT, {**shared, **rank_3}, threads, rank=3, script=True),
    )
    assert PyTorch().services(node) == ()


def test_the_store_is_where_rank_0_is() -> None:
    job = Job(name="j", framework="pytorch", entry="train.py", workers=Workers(2, 2), roles=IDLE_MAIN)
    (rank,) = PyTorch().scripts(scene(job, "worker-2", members=members("worker-1", "worker-2")))
    assert (rank.env["MASTER_ADDR"], rank.env["MASTER_PORT"], rank.rank) == ("10.0.0.2", "29400", 1)
    assert PyTorch().scripts(scene(job, "main", members=members("worker-1", "worker-2"))) == ()
    assert PyTorch().services(scene(job, "main")) == ()


def test_a_later_generation_counts_its_restarts() -> None:
    later = MainConfig("main", "10.0.0.1", 7000, 3, {"store": 29400})
    job = replace(JOB, retries=5)
    (rank,) = PyTorch().scripts(scene(job, "main", main=later, members=members("main")))
    assert (rank.env["TORCHELASTIC_RESTART_COUNT"], rank.env["TORCHELASTIC_MAX_RESTARTS"]) == ("2", "5")


def test_ranks_talk_over_the_interface_that_has_the_nodes_address() -> None:
    (rank,) = PyTorch().scripts(scene(JOB, "main", interface="eth1", members=members("main")))
    assert rank.defaults == {"GLOO_SOCKET_IFNAME": "eth1", "NCCL_SOCKET_IFNAME": "eth1"}


def agent(conf: str, nodes: str, address: str) -> Command:
    argv = (
        *("/usr/bin/python3", str(HERE / "_torchrun.py"), f"--nnodes={nodes}", "--nproc-per-node=1"),
        *("--rdzv-backend=c10d", "--rdzv-id=run-1-1", "--rdzv-endpoint=10.0.0.1:29400"),
        *(f"--rdzv-conf={conf}", "--max-restarts=2", "--monitor-interval=0.2"),
        *("--local-addr", address, "--log-dir", "/node/torchrun"),
        *("--no-python", "/usr/bin/python3", str(HERE / "_rank.py")),
        *("/usr/bin/python3", "/node/code/train.py", "$$$$", "two words"),
    )
    return Command("torchrun", argv, {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}, script=True, streams=1)


def test_an_elastic_node_runs_torchrun_and_main_has_the_store() -> None:
    met = members("main", "worker-1", "worker-2")
    assert PyTorch().scripts(scene(ELASTIC, members=met)) == (agent("is_host=1", "3", "10.0.0.1"),)
    worker = scene(ELASTIC, "worker-1", members=met)
    assert PyTorch().scripts(worker) == (agent("is_host=0", "3", "10.0.0.2"),)
    assert PyTorch().services(scene(ELASTIC, members=met)) == ()


def test_an_elastic_main_that_does_not_compute_has_the_store_alone() -> None:
    job = Job(name="j", framework="pytorch", entry="train.py", workers=Workers(1, 4), roles=IDLE_MAIN)
    store = Command("store", ("/usr/bin/python3", str(HERE / "_torchstore.py"), "10.0.0.1", "29400"))
    assert PyTorch().services(scene(job)) == (store,)
    assert PyTorch().scripts(scene(job)) == ()
    met = members("worker-1", "worker-2")
    assert "--nnodes=2" in PyTorch().scripts(scene(job, "worker-1", members=met))[0].argv


def test_start_args_come_after_its_own_and_so_have_the_last_word() -> None:
    job = Job(
        name="j", framework="pytorch", entry="t.py", workers=Workers(1, 2), options={"start_args": ["--max-restarts=9"]}
    )
    argv = PyTorch().scripts(scene(job))[0].argv
    assert argv.index("--max-restarts=0") < argv.index("--max-restarts=9") < argv.index("--no-python")


def test_its_port_is_torchs_own_or_the_jobs_and_the_network_must_let_all_through() -> None:
    assert PyTorch().ports(JOB, "main") == PyTorch().ports(JOB, "worker") == (Port("store", 29400),)
    assert PyTorch().ports(Job(name="j", framework="pytorch", options={"port": 5}), "main") == (Port("store", 5),)
    assert PyTorch().open_ports(JOB) == "29400, and all TCP between the nodes: gloo and NCCL pick random ports"


def test_every_size_gathers_and_torchrun_restarts_the_ranks_of_an_elastic_one() -> None:
    torch = PyTorch()
    assert (torch.gathers(JOB), torch.restarts_itself(JOB)) == (True, False)
    assert (torch.gathers(ELASTIC), torch.restarts_itself(ELASTIC)) == (True, True)


def raised(*exception: str, prefix: str = "[rank0]: ") -> list[str]:
    frames = ['  File "train.py", line 3, in <module>', '    connect("Connection closed by peer, gloo/transport")']
    return [f"{prefix}{line}" for line in ("Traceback (most recent call last):", *frames, *exception)]


@pytest.mark.parametrize(
    "tail",
    [
        raised("RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer"),
        raised(
            "RuntimeError: [/x/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 4000ms for recv", prefix=""
        ),
        raised("RuntimeError: Gloo connectFullMesh failed with [/x/gloo/rendezvous/context.cc] timeout"),
        raised("torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed."),
        raised("torch.distributed.DistStoreError: Socket Timeout"),
        raised(
            "torch.distributed.DistBackendError: NCCL error in: /x/ProcessGroupNCCL.cpp:1, unhandled error",
            "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
        ),
        raised("RuntimeError: Connection reset by peer"),
        raised("torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection has failed."),
        raised("torch.distributed.elastic.multiprocessing.api.SignalException: Process 1 got signal: 15", prefix=""),
        [
            "terminate called after throwing an instance of 'c10::DistBackendError'",
            "  what():  [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3, OpType=ALLREDUCE)",
        ],
    ],
)
def test_a_lost_peer_is_only_a_complaint(tail: list[str]) -> None:
    assert PyTorch().complaint(tail)


@pytest.mark.parametrize(
    "tail",
    [
        raised("ValueError: the true cause"),
        raised("ConnectionResetError: [Errno 104] Connection reset by peer", prefix=""),
        raised("requests.exceptions.ConnectionError: Connection refused", prefix=""),
        [
            *raised("ValueError: the true cause"),
            "[rank0]:[W1115 02:48:11.9 TCPStore.cpp:106] [c10d] sendBytes failed on SocketImpl: Broken pipe",
            "[W1115 02:48:11.9 socket.cpp:1] torch.distributed.DistNetworkError: Connection reset by peer",
        ],
        ["RuntimeError: Connection closed by peer, says a log line of a rank that a signal killed"],
        ["step 3, loss 0.1"],
        [],
    ],
)
def test_a_fault_of_its_own_is_none(tail: list[str]) -> None:
    assert not PyTorch().complaint(tail)
