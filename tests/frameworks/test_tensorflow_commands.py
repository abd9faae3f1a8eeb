"""What TensorFlow would start, as whole values, what it objects to, and whom it takes for a complainer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from muster.errors import JobError
from muster.frameworks.base import Command, Port, PortsAnswer
from muster.frameworks.registry import Known
from muster.frameworks.tensorflow import TensorFlow
from muster.spec.job import Job, Role, Workers
from muster.spec.load import load_text
from muster.workdir.records import Member
from tests.frameworks.scenes import scene

pytestmark = pytest.mark.unit

JOB = Job(name="j", framework="tensorflow", entry="train.py", args=("two words", "$HOME"), workers=Workers(2, 2))
SERVED = Job(name="j", framework="tensorflow", entry="train.py", workers=Workers(2, 2), ps=1)
IDLE_MAIN = Job(
    name="j",
    framework="tensorflow",
    entry="train.py",
    workers=Workers(2, 2),
    roles={"main": Role(computes=False)},
)
SCRIPT = ("/usr/bin/python3", "/node/code/train.py", "two words", "$HOME")


def members(*nodes: str) -> tuple[Member, ...]:
    """These nodes, each with an address of its own."""
    return tuple(
        Member(node, node.partition("-")[0], f"10.0.0.{number}", 1, number - 1, {"server": 12345})
        for number, node in enumerate(nodes, start=1)
    )


def started(job: Job, node: str, *nodes: str) -> Command:
    (command,) = TensorFlow().scripts(scene(job, node, members=members(*nodes)))
    return command


def test_a_node_runs_the_script_as_one_process_that_knows_all_others() -> None:
    config = {
        "cluster": {"chief": ["10.0.0.1:12345"], "worker": ["10.0.0.2:12345", "10.0.0.3:12345"]},
        "task": {"type": "worker", "index": 1},
    }
    env = {
        "TF_CONFIG": json.dumps(config),
        "no_grpc_proxy": "10.0.0.1,10.0.0.2,10.0.0.3",
        "MUSTER_PROCESS": "rank 2",
    }
    command = started(JOB, "worker-2", "main", "worker-1", "worker-2")
    assert command == Command("rank 2", SCRIPT, env, {"TF_CPP_MIN_LOG_LEVEL": "1"}, rank=2, script=True)
    assert TensorFlow().services(scene(JOB, "worker-2")) == ()


def test_each_kind_of_task_counts_for_itself_and_servers_are_no_ranks() -> None:
    nodes = ("main", "worker-1", "worker-2", "ps-1")
    commands = {node: started(SERVED, node, *nodes) for node in nodes}
    tasks = {node: json.loads(command.env["TF_CONFIG"])["task"] for node, command in commands.items()}
    assert tasks == {
        "main": {"type": "chief", "index": 0},
        "worker-1": {"type": "worker", "index": 0},
        "worker-2": {"type": "worker", "index": 1},
        "ps-1": {"type": "ps", "index": 0},
    }
    assert {command.process: command.rank for command in commands.values()} == {
        "rank 0": 0,
        "rank 1": 1,
        "rank 2": 2,
        "ps-1": None,
    }


def test_numbers_stay_whole_when_nodes_between_are_gone() -> None:
    command = started(JOB, "worker-10", "main", "worker-2", "worker-10")
    config = json.loads(command.env["TF_CONFIG"])
    assert (config["task"], command.rank) == ({"type": "worker", "index": 1}, 2)
    assert config["cluster"]["worker"] == ["10.0.0.2:12345", "10.0.0.3:12345"]


def test_without_a_computing_main_there_is_no_chief_and_the_first_worker_is_rank_0() -> None:
    command = started(IDLE_MAIN, "worker-1", "worker-1", "worker-2")
    assert json.loads(command.env["TF_CONFIG"]) == {
        "cluster": {"worker": ["10.0.0.1:12345", "10.0.0.2:12345"]},
        "task": {"type": "worker", "index": 0},
    }
    assert command.rank == 0
    assert TensorFlow().scripts(scene(IDLE_MAIN, "main", members=members("worker-1", "worker-2"))) == ()


def test_it_is_ready_when_each_nodes_port_answers() -> None:
    probe = TensorFlow().ready(scene(SERVED, members=members("main", "worker-1", "ps-1")), least=2)
    places = {"main": ("10.0.0.1", 12345), "worker-1": ("10.0.0.2", 12345), "ps-1": ("10.0.0.3", 12345)}
    assert probe == PortsAnswer(places)


def test_its_port_is_the_jobs_or_its_own() -> None:
    tensorflow = TensorFlow()
    assert [tensorflow.ports(SERVED, role) for role in ("main", "worker", "ps")] == [(Port("server", 12345),)] * 3
    job = Job(name="j", framework="tensorflow", options={"port": 2222}, roles={"ps": Role(options={"port": 3333})})
    assert [tensorflow.ports(job, role) for role in ("worker", "ps")] == [
        (Port("server", 2222),),
        (Port("server", 3333),),
    ]
    assert tensorflow.open_ports(SERVED) == "12345 between the nodes"


def test_a_node_has_one_process_however_many_gpus_and_servers_are_not_waited_for() -> None:
    tensorflow = TensorFlow()
    assert tensorflow.processes(JOB, gpus=4) == 1
    assert tensorflow.awaited(JOB) == {"main", "worker"}
    assert tensorflow.awaited(SERVED) == {"main"}


OBJECTIONS = {
    "processes: 2": """\
job.yaml:4: processes: tensorflow runs one process per node, which uses all of the node's GPUs
    Take processes out; for more processes, raise workers.""",
    "ps: 1\nworkers: 1\nmain: {computes: false}": """\
job.yaml:6: main.computes: parameter servers need a chief, and main is the chief
    Take `computes: false` out of main.""",
    "ps: 1\nworkers: 0": """\
job.yaml:5: workers: parameter servers need a worker that computes: the chief only hands out the work
    Write at least 1, or take ps out.""",
    "workers: 1\noptions: {port: 0}": """\
job.yaml:5: options.port: expected a whole number from 1 to 65535, found the number 0""",
}


@pytest.mark.parametrize(("lines", "told"), OBJECTIONS.items(), ids=["processes", "computes", "workers", "port"])
def test_what_it_cannot_do_is_told_with_its_line(lines: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    with pytest.raises(JobError) as caught:
        load_text(f"name: j\nframework: tensorflow\nentry: train.py\n{lines}\n", "job.yaml", tmp_path, Known())
    assert str(caught.value) == told


HEAD = """\
Traceback (most recent call last):
  File "train.py", line 27, in <module>
    reduce("Collective ops is aborted by: remote target /job:")
  File "site-packages/tensorflow/python/util/traceback_utils.py", line 167, in error_handler
    raise e.with_traceback(filtered_tb) from None
  File "site-packages/tensorflow/python/eager/execute.py", line 53, in quick_execute
    tensors = pywrap_tfe.TFE_Py_Execute(ctx._handle, device_name, op_name,
  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
"""

GRAPH = """\
tensorflow.python.framework.errors_impl.{kind}Error: Graph execution error:

Detected at node {node} defined at (most recent call last):
  File "train.py", line 27, in <module>

  File "train.py", line 14, in reduce

{message}
\t [[{{{{node {node}}}}}]] [Op:__inference_reduce_31]
"""

SILENT = """\
Collective ops is aborted by: Error reported from /job:worker/task:0: The following tasks are unhealthy \
(stopped sending heartbeats):
/job:worker/replica:0/task:0
The tasks have crashed. Check the task logs for an earlier error, or scheduler events (e.g. preemption, eviction) \
to debug further.
The error could be from a previous operation. Restart your program to reset."""

CLOSED = """\
Collective ops is aborted by: Socket closed
Additional GRPC error information from remote target /job:chief/replica:0/task:0 while calling \
/tensorflow.WorkerService/RecvBuf:
:UNKNOWN:Error received from peer  {grpc_status:14, grpc_message:"Socket closed"}
The error could be from a previous operation. Restart your program to reset."""

LEADERLESS = """\
Collective ops is aborted by: Failed to send RPC to coordination service. Either the leader task was \
preempted/died/restarted unexpectedly or this task is experiencing network issues. Check earlier logs from 1) this \
task, 2) the leader (usually slice 0 task 0), and 3) cluster scheduler to debug further.
Additional GRPC error information from remote target /job:chief/replica:0/task:0 while calling \
/tensorflow.CoordinationService/Heartbeat:
:UNKNOWN:Error received from peer  {grpc_status:14, grpc_message:"failed to connect to all addresses; last error: \
UNKNOWN: ipv4:127.0.0.1:36401: Failed to connect to remote host: Connection refused"}
The error could be from a previous operation. Restart your program to reset."""

EAGER = """\
    return gen_collective_ops.collective_reduce_v2(
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "site-packages/tensorflow/python/framework/ops.py", line 6027, in raise_from_not_ok_status
    raise core._status_to_exception(e) from None  # pylint: disable=protected-access
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
tensorflow.python.framework.errors_impl.UnavailableError: \
{{function_node __wrapped__CollectiveReduceV2_Nordering_token_1_device_/job:worker/replica:0/task:0/device:CPU:0}} \
Collective ops is aborted by: Socket closed
Additional GRPC error information from remote target /job:chief/replica:0/task:0 while calling \
/tensorflow.WorkerService/RecvBuf:
:UNKNOWN:Error received from peer  {grpc_status:14, grpc_message:"Socket closed"}
The error could be from a previous operation. Restart your program to reset. [Op:CollectiveReduceV2] name:
"""
"""The last lines of a traceback whose first ones were not kept."""

SERVERLESS = """\
tensorflow.python.framework.errors_impl.UnavailableError: Graph execution error:

Detected at node GroupCrossDeviceControlEdges_0/Identity/_9 defined at (most recent call last):
<stack traces unavailable>
2 root error(s) found.
  (0) UNAVAILABLE:  failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:58845: Failed to connect \
to remote host: Connection refused
Additional GRPC error information from remote target /job:ps/replica:0/task:0 while calling \
/tensorflow.WorkerService/RecvTensor:
:UNKNOWN:Error received from peer  {grpc_status:14, grpc_message:"failed to connect to all addresses; last error: \
UNKNOWN: ipv4:127.0.0.1:58845: Failed to connect to remote host: Connection refused"}
\t [[{{node GroupCrossDeviceControlEdges_0/Identity/_9}}]]
  (1) CANCELLED:  EagerClusterFunctionLibraryRuntime::Run
0 successful operations.
0 derived errors ignored. [Op:__inference_step_18]
E0000 00:00:1794720434.059863   31944 context.cc:911] Failed to remove function remotely due to failed to connect to \
all addresses; last error: UNKNOWN: ipv4:127.0.0.1:58845: Failed to connect to remote host: Connection refused
This could happen if the remote target has been disconnected from the client.
"""

HANDLED = """\

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "train.py", line 31, in <module>
    raise RuntimeError("training broke off")
RuntimeError: training broke off
"""

COMPLAINTS = {
    "a worker sends no heartbeats": HEAD + GRAPH.format(kind="Unavailable", node="CollectiveReduceV2", message=SILENT),
    "the chief is gone": HEAD + GRAPH.format(kind="Unavailable", node="CollectiveReduceV2", message=CLOSED),
    "the chief is long gone": HEAD + GRAPH.format(kind="Unavailable", node="CollectiveReduceV2", message=LEADERLESS),
    "a peer does not come": HEAD
    + GRAPH.format(
        kind="DeadlineExceeded", node="CollectiveReduceV2", message="Collective has timed out during execution."
    ),
    "the chief is gone, outside a graph": EAGER,
    "a parameter server is gone": HEAD + SERVERLESS,
    "what the script made of it": HEAD
    + GRAPH.format(kind="Unavailable", node="CollectiveReduceV2", message=SILENT)
    + HANDLED,
}

MISMATCH = """\
Collective ops is aborted by: Shape mismatch in the collective instance 105. Op at device \
/job:worker/replica:0/task:0/device:CPU:0 expected shape [3] but another member in the group expected shape [2]. \
This is likely due to different input shapes at different members of the collective op.
Additional GRPC error information from remote target /job:chief/replica:0/task:0 while calling \
/tensorflow.WorkerService/CompleteInstance:
:UNKNOWN:Error received from peer  {grpc_message:"Shape mismatch in the collective instance 105.", grpc_status:3}
The error could be from a previous operation. Restart your program to reset."""

ASSERTED = """\
assertion failed: [Condition x < y did not hold element-wise:] [x (assert_less/ReadVariableOp:0) = ] [5] [y = ] [5]
\t [[{{node assert_less/Assert/AssertGuard/Assert}}]]
Additional GRPC error information from remote target /job:worker/replica:0/task:0 while calling \
/tensorflow.eager.EagerService/Enqueue:
:UNKNOWN:Error received from peer  {grpc_message:" assertion failed", grpc_status:3}"""

AFTERWARDS = """\
ValueError: the true cause
WARNING: All log messages before absl::InitializeLog() is called are written to STDERR
E0000 00:00:1794721104.711410   17963 base_collective_executor.cc:252] BaseCollectiveExecutor::StartAbort \
UNAVAILABLE: Failed to send RPC to coordination service. Either the leader task was preempted/died/restarted \
unexpectedly or this task is experiencing network issues.
Additional GRPC error information from remote target /job:chief/replica:0/task:0 while calling \
/tensorflow.CoordinationService/Heartbeat:
"""

OF_A_SERVER = """\
serving
W0000 00:00:1794720460.506449     469 grpc_worker_service.cc:536] RecvTensor cancelled for -5607853448241640962
W0000 00:00:1794720460.506487     399 local_rendezvous.cc:412] Local rendezvous is aborting with status: CANCELLED: \
RecvFromRemoteAsync is cancelled.
ERROR:tensorflow:Worker /job:worker/replica:0/task:0 failed with UnavailableError():Socket closed
Additional GRPC error information from remote target /job:worker/replica:0/task:0 while calling \
/tensorflow.eager.EagerService/Enqueue:
"""

FAULTS = {
    "of the script": HEAD + "ValueError: the true cause\n",
    "of the script, and peers that are lost while it ends": HEAD + AFTERWARDS,
    "of the script, and peers that are lost while it is handled": HEAD
    + "ValueError: the true cause\n\nDuring handling of the above exception, another exception occurred:\n\n"
    + HEAD
    + GRAPH.format(kind="Unavailable", node="CollectiveReduceV2", message=SILENT),
    "of its shapes": HEAD + GRAPH.format(kind="InvalidArgument", node="CollectiveReduceV2", message=MISMATCH),
    "of the script's function, on a worker": HEAD
    + GRAPH.format(kind="InvalidArgument", node="assert_less/Assert/AssertGuard/Assert", message=ASSERTED),
    "of a bucket": HEAD
    + "tensorflow.python.framework.errors_impl.UnavailableError: Error executing an HTTP request: libcurl code 6\n",
    "of the script, in words like TensorFlow's": HEAD + "UnavailableError: Collective ops is aborted by: remote target",
    "none, and lost peers in its log": OF_A_SERVER,
    "none": "",
}


@pytest.mark.parametrize("tail", COMPLAINTS.values(), ids=COMPLAINTS)
def test_a_lost_peer_is_only_a_complaint(tail: str) -> None:
    assert TensorFlow().complaint(tail.splitlines())


@pytest.mark.parametrize("tail", FAULTS.values(), ids=FAULTS)
def test_a_fault_of_its_own_is_none(tail: str) -> None:
    assert not TensorFlow().complaint(tail.splitlines())
