"""Open MPI as a framework of Muster: its own `mpirun` on main, whose processes Muster starts on the nodes, without ssh.

The file is a framework when Muster imports it, and three small programs when it is run:

    launch      on main: runs mpirun, and has what it wants on other nodes started there by Muster
    agent       what mpirun calls instead of ssh: asks `launch`, and stays for as long as the remote process does
    rank        between Open MPI's daemon and a rank: gives it its own log, and tells how it ended
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __name__ != "__main__":
    from muster.errors import NodeError
    from muster.frameworks.base import Command, Framework, Objection, Scene
    from muster.spec.job import Job
else:
    Framework = object  # a program of this file does without Muster, so that it starts quickly
if TYPE_CHECKING:
    from muster.spec.fields import Kind

FILE = str(Path(__file__).absolute())
INSTALL = "Install Open MPI 4 on every node, as with:  apt install openmpi-bin"
LAST_WORDS = 10.0
"""Seconds that Open MPI's daemons have to end after mpirun did."""
GRACE = 0.3
"""Seconds that a rank has to end by itself before it is asked to: Open MPI ends also the one that called it all off."""
AGENT = "muster-mpi-agent"
START = 'exec "$MUSTER_MPI_PYTHON" -I "$MUSTER_MPI_FILE"'
"""Starts this file where the paths of another machine mean nothing. It never changes, so no name reaches the shell."""
_LOST_PEER = re.compile(r"MPI_ERR_PROC_FAILED|communication peer process has unexpectedly disconnected")


class Mpi(Framework):
    name = "mpi"
    module = "mpi4py"
    install = "pip install mpi4py"
    script_retried = True

    def options(self) -> Mapping[str, Kind]:
        from muster.spec.fields import TextList  # here: no node needs it

        return {"start_args": TextList()}

    def objections(self, job: Job) -> Iterator[Objection]:
        if job.workers.max == 0 and not job.role("main").computes:
            yield Objection("workers", "nothing computes: there is no worker, and main does not", "Add a worker.")

    def script_everywhere(self, job: Job) -> bool:
        return False  # mpirun alone is the script, and it is on main

    def open_ports(self, job: Job) -> str:
        return "all TCP between the nodes: Open MPI picks random ports"

    def services(self, scene: Scene) -> tuple[Command, ...]:
        """None; but a node that lacks Open MPI says so before anything starts."""
        path = scene.job.env_of(scene.role).get("PATH", os.environ.get("PATH"))
        for program in ("mpirun", "orted") if scene.role == "main" else ("orted",):
            if shutil.which(program, path=path) is None:
                raise NodeError(f"{scene.node} has no {program} on its PATH, which framework mpi needs", INSTALL)
        return ()

    def scripts(self, scene: Scene) -> tuple[Command, ...]:
        if scene.role != "main":
            return ()
        settings = {
            "hosts": {_host(number, member.node): member.node for number, member in enumerate(scene.members)},
            "slots": [member.processes for member in scene.members],
            "args": scene.options.get("start_args") or [],
            "folder": str(scene.folder),
        }
        chosen = {
            # Ranks in the order of nodes. Bound to cores, those of several nodes of one machine would share one.
            "OMPI_MCA_rmaps_base_mapping_policy": "slot",
            "OMPI_MCA_rmaps_base_oversubscribe": "1",
            "OMPI_MCA_hwloc_base_binding_policy": "none",
            **({"OMPI_MCA_oob_tcp_if_include": scene.interface} if scene.interface else {}),
        }
        argv = (sys.executable, "-I", FILE, "launch", json.dumps(settings))
        return (Command("mpirun", argv, _self(), chosen, script=True, conducts=True),)

    def hired(self, scene: Scene, order: Mapping[str, Any]) -> Command:
        """Open MPI's daemon, which starts this node's ranks."""
        told = {
            # Run so, a rank that raises calls the others off, which would wait for it for ever.
            "argv": [scene.python, "-m", "mpi4py", *scene.entry_argv()],
            "code": str(scene.code),
            "node": scene.node,
        }
        chosen = {"OMP_NUM_THREADS": "1"} if scene.processes > 1 else {}
        if scene.interface:
            chosen |= {f"OMPI_MCA_{layer}_tcp_if_include": scene.interface for layer in ("oob", "btl")}
        if not scene.fixed_ports:
            # Nodes of one machine: its shared memory is named after the machine, and its cores are not theirs alone.
            chosen |= {"OMPI_MCA_btl_vader_backing_directory": str(scene.folder), "OMPI_MCA_mpi_yield_when_idle": "1"}
        # It starts nothing on other nodes, but insists on a program that could.
        env = {**_self(), "MUSTER_MPI_RANK": json.dumps(told), "OMPI_MCA_plm_rsh_agent": "true"}
        return Command("orted", _daemon(order["words"]), env, chosen, streams=scene.processes)

    def complaint(self, tail: Sequence[str]) -> bool:
        return any(_LOST_PEER.search(line) for line in tail[-4:])


def _self() -> dict[str, str]:
    return {"MUSTER_MPI_PYTHON": sys.executable, "MUSTER_MPI_FILE": FILE}


def _host(number: int, node: str) -> str:
    """A node's name for mpirun: never the name of a machine, for on its own machine mpirun starts ranks by itself."""
    return f"muster-{node}" if re.fullmatch(r"[a-z][a-z0-9-]*", node) else f"muster-{number}"


def _daemon(words: Sequence[str]) -> tuple[str, ...]:
    """The daemon and its arguments, out of what mpirun would have a login shell run."""
    start = next((place for place, word in enumerate(words) if Path(word).name == "orted"), None)
    if start is None:
        raise NodeError(f"mpirun wants something started that is not orted: {shlex.join(words)}", INSTALL)
    # For an old shell it is put into brackets, behind the user's profile.
    return ("orted", *(words[start + 1 : -1] if words[-1] == ")" else words[start + 1 :]))


# --- launch ----------------------------------------------------------------------------------------------


class Main:
    """The connection to main, which starts processes on the nodes."""

    def __init__(self) -> None:
        host, _, port = os.environ.pop("MUSTER_CONDUCTOR").partition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._lock = threading.Lock()
        self._ended: dict[str, threading.Event] = {}
        self._noted = threading.Event()
        self.codes: dict[str, int] = {}
        """How the process on each node ended."""
        self._say({"token": os.environ.pop("MUSTER_CONDUCTOR_TOKEN")})
        threading.Thread(target=self._listen, daemon=True).start()

    def run(self, node: str, words: Sequence[str]) -> int:
        """Starts a process on a node and waits for its end; its exit code."""
        ended = self._ended[node] = threading.Event()
        self._say({"hire": node, "node": node, "order": {"words": words}})
        ended.wait()
        return self.codes[node]

    def last_words(self) -> None:
        """Waits until all that were started have ended, or have had time enough."""
        until = time.monotonic() + LAST_WORDS
        for ended in list(self._ended.values()):
            ended.wait(max(0.0, until - time.monotonic()))

    def blame(self, nodes: Sequence[str]) -> None:
        """Tells where the failure is, and waits until that is known."""
        self._say({"cause": nodes})
        self._noted.wait(5)

    def _say(self, value: Mapping[str, Any]) -> None:
        with self._lock:
            self._socket.sendall(json.dumps(value).encode() + b"\n")

    def _listen(self) -> None:
        for line in self._socket.makefile("rb"):
            value = json.loads(line)
            if "ended" in value:
                self.codes[value["ended"]] = value["code"]
                self._ended[value["ended"]].set()
            elif "noted" in value:
                self._noted.set()
        os._exit(1)  # without main nobody is left to start or to end anything


class Door:
    """Where the agents of mpirun ask for a process on their host."""

    def __init__(self, main: Main, hosts: Mapping[str, str]) -> None:
        self._main, self._hosts = main, hosts
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._token = secrets.token_hex(16)
        threading.Thread(target=self._open, daemon=True).start()

    def env(self) -> dict[str, str]:
        return {"MUSTER_MPI_DOOR": str(self._socket.getsockname()[1]), "MUSTER_MPI_TOKEN": self._token}

    def _open(self) -> None:
        while True:
            guest, _ = self._socket.accept()
            threading.Thread(target=self._serve, args=(guest,), daemon=True).start()

    def _serve(self, guest: socket.socket) -> None:
        with guest, suppress(OSError):  # mpirun may end it: what it stood for is over then
            token, _, asked = guest.makefile("rb").readline().partition(b" ")
            if secrets.compare_digest(token, self._token.encode()):
                value = json.loads(asked)
                code = self._main.run(self._hosts[value["host"]], value["words"])
                guest.sendall(b"%d\n" % code)


def launch(settings: Mapping[str, Any]) -> int:
    """One mpirun, from its start to its exit code; where that is not 0, main is told whose failure it was."""
    signal.signal(signal.SIGTERM, lambda *_: None)  # mpirun has heard it too, and ends in order
    version = subprocess.run(["mpirun", "--version"], capture_output=True, text=True, check=False).stdout
    if "(Open MPI) 4." not in version:
        found = version.partition("\n")[0] or "something else"
        print(f"framework mpi speaks with mpirun of Open MPI 4, and this is {found}. {INSTALL}", file=sys.stderr)
        return 1
    main = Main()
    door = Door(main, settings["hosts"])
    folder = Path(settings["folder"], "mpi")
    argv = ["mpirun", *_options(settings), *settings["args"], "/bin/sh", "-c", f"{START} rank"]
    env = {**os.environ, **door.env(), "OMPI_MCA_plm_rsh_agent": AGENT}
    with subprocess.Popen(argv, env=env, cwd=_agent_in(folder), stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        failed = [node for line in run.stdout if (node := _heard(line))]
    if run.returncode:
        main.last_words()
        # Ranks fail for want of others that failed before, so the first to be heard of is the cause.
        known = [node for node in failed[:1] if main.codes.get(node)]
        main.blame(known or [node for node, code in main.codes.items() if code])
    return run.returncode if run.returncode >= 0 else 128 - run.returncode


def _options(settings: Mapping[str, Any]) -> list[str]:
    hosts, slots = settings["hosts"], settings["slots"]
    parameters = {
        "plm": "rsh",
        # Only main can have something started, and each node knows its own parameters.
        "plm_rsh_no_tree_spawn": "1",
        "plm_rsh_pass_environ_mca_params": "0",
        # The names of hosts are ours: no name server has to be asked for them.
        "if_base_do_not_resolve": "1",
    }
    return [
        *("--allow-run-as-root", "--noprefix", "--leave-session-attached", "--wdir", "/"),
        *("--host", ",".join(f"{host}:{count}" for host, count in zip(hosts, slots, strict=True))),
        *("-np", str(sum(slots))),
        *(word for name, value in parameters.items() for word in ("--mca", name, value)),
    ]


def _agent_in(folder: Path) -> Path:
    """Makes the agent's program: mpirun splits its name at spaces, so it has to be found by a name without a path."""
    folder.mkdir(exist_ok=True)
    program = folder / AGENT
    program.write_text(f'#!/bin/sh\n{START} agent "$@"\n', encoding="utf-8")
    program.chmod(0o700)
    return folder


def _heard(line: bytes) -> str | None:
    """The node of a rank that says that it failed. Nothing else comes this way: ranks have pipes of their own."""
    try:
        return str(json.loads(line)["failed"])
    except (ValueError, KeyError, TypeError):
        sys.stdout.buffer.write(line)
        sys.stdout.flush()
        return None


# --- agent -----------------------------------------------------------------------------------------------


def agent(host: str, words: Sequence[str]) -> int:
    """Has a process started on a host; its exit code."""
    with socket.create_connection(("127.0.0.1", int(os.environ["MUSTER_MPI_DOOR"]))) as door:
        # The words are quoted for a shell on the other side, and there is none.
        asked = json.dumps({"host": host, "words": shlex.split(" ".join(words))})
        door.sendall(f"{os.environ['MUSTER_MPI_TOKEN']} {asked}\n".encode())
        return int(door.makefile("rb").readline() or 1)


# --- rank ------------------------------------------------------------------------------------------------


def rank() -> int:
    """Runs the script as one rank; its exit code."""
    told = json.loads(os.environ["MUSTER_MPI_RANK"])
    number, local = (os.environ[f"OMPI_COMM_WORLD_{name}"] for name in ("RANK", "LOCAL_RANK"))
    to_mpirun = os.dup(1)
    pipes = [os.open(Path(os.environ["MUSTER_STREAMS"], f"{name}-{local}"), os.O_WRONLY) for name in ("out", "err")]
    for place, pipe in enumerate(pipes, 1):
        os.write(pipe, f"\x1emuster rank {number}\n".encode())
        os.dup2(pipe, place)
    env = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_MPI_")}
    env |= {
        "RANK": number,
        "LOCAL_RANK": local,
        "WORLD_SIZE": os.environ["OMPI_COMM_WORLD_SIZE"],
        "LOCAL_WORLD_SIZE": os.environ["OMPI_COMM_WORLD_LOCAL_SIZE"],
        "MUSTER_PROCESS": f"rank {number}",
    }
    script = subprocess.Popen(told["argv"], env=env, cwd=told["code"], start_new_session=True)
    ended: list[int] = []

    def end() -> None:
        if script.returncode is None:
            ended.append(signal.SIGTERM)
            with suppress(ProcessLookupError):
                os.killpg(script.pid, signal.SIGTERM)

    signal.signal(signal.SIGTERM, lambda *_: threading.Timer(GRACE, end).start())
    code = script.wait()
    code = code if code >= 0 else 128 - code
    if code and not ended:
        for pipe in pipes:
            os.write(pipe, f"\x1emuster exit {code}\n".encode())
        os.write(to_mpirun, json.dumps({"failed": told["node"]}).encode() + b"\n")
    return code


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "launch":
        code = launch(json.loads(rest[0]))
    else:
        code = agent(rest[0], rest[1:]) if what == "agent" else rank()
    sys.stdout.flush()
    os._exit(code)  # threads may still wait for what ends with us
