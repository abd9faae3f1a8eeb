"""The folder of a run: each of its files by name, with its rule of who may write it and how often.

Requests are money on a bucket, so each method says what it costs where that is not one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple, TypeVar

from ..errors import AlreadyExists, NotFound, StoreError
from .document import CodeRef, JobDocument, check_protocol
from .machine import Process
from .names import JOB, check_name, has_run, new_run_id, node_order
from .parallel import at_once
from .records import MainConfig, Member, NodeRecord, Result, Verdict, dump
from .store import Store

__all__ = ["CodeRef", "JobDocument", "RunFolder", "new_run_id", "node_order"]

T = TypeVar("T")

KEY_BYTES = 32
MAIN_CONFIG = "MAIN_config.json"
CLOUD = "cloud.json"


class Sign(NamedTuple):
    """What a node without a channel, or main to such nodes, has left to be seen in a listing."""

    number: int
    """Higher each time there is something new to read."""
    beat: str
    """Another one each time it was left again."""


class Signs(NamedTuple):
    """What one listing shows of all that is asked of a run's nodes."""

    stop: bool = False
    scale: str = ""
    """The newest request for another size; empty if there is none."""
    nodes: Mapping[str, Sign] = {}


class RunFolder:
    """The files of one run in a work dir."""

    def __init__(self, store: Store, run: str) -> None:
        self.store = store
        self.run = check_name("run", run)

    def at(self, *names: str) -> str:
        """The key of a file of this run."""
        return "/".join((self.run, *names))

    def exists(self) -> bool:
        """Whether the run has its job, which is the first thing a run has."""
        return has_run(self.store, self.run)

    def write_job(self, document: JobDocument | Mapping[str, Any]) -> None:
        """Writes the job once; a second time is `AlreadyExists`."""
        self.store.create(self.at(JOB), dump(document))

    def read_job(self) -> JobDocument:
        """The job; `NotFound` if there is none yet, `ProtocolError` if another Muster wrote it."""
        return self._parsed(self.at(JOB), JobDocument.from_json)

    def write_plan(self, plan: Mapping[str, Any]) -> None:
        """Keeps what the launch was going to create, before any of it is."""
        self.store.create(self.at("plan.json"), dump(plan))

    def plan(self) -> dict[str, Any]:
        """What `write_plan` kept; `NotFound` if no launcher made this run."""
        return self._parsed(self.at("plan.json"), dict)

    def write_cloud(self, ids: Mapping[str, Any]) -> None:
        """Keeps what the cloud calls the run's things. The launcher alone writes it."""
        self.store.put(self.at(CLOUD), dump(ids))

    def cloud(self) -> dict[str, Any]:
        """What `write_cloud` kept; empty where there is nothing."""
        return self._maybe(self.at(CLOUD), dict) or {}

    def write_requirements(self, name: str, content: bytes) -> None:
        """Keeps the job's file of requirements, under its own name because that says of which kind it is."""
        self.store.put(self.at("requirements", check_name("file", name)), content)

    def requirements(self) -> tuple[str, bytes]:
        """The name and the content of the job's file of requirements, else `NotFound`. Two requests."""
        for name in self.store.list_names(self.at("requirements/")):
            return name, self.store.get(self.at("requirements", name))
        raise NotFound(f"run {self.run} has no requirements in the work dir {self.store.url}")

    def claim_launch(self, number: int, process: Process) -> None:
        """Makes a process the launcher of this run, or raises `AlreadyExists`: a run has one at a time."""
        self.store.create(self.at("launches", f"{number:06}.json"), dump(process))

    def latest_launch(self) -> tuple[int, Process]:
        """The number of the latest launch, 0 if there was none, and the process that launched. Two requests."""
        keys = [entry.key for entry in self.store.list(self.at("launches/"))]
        if not keys:
            return 0, Process()
        found = self._parsed(keys[-1], lambda value: Process(value["machine"], value["pid"], value["started"]))
        return int(keys[-1].rpartition("/")[2].removesuffix(".json")), found

    def claim_again(self, record: NodeRecord) -> None:
        """Takes a name over from a node that is gone, or raises `AlreadyExists` if another was quicker."""
        self.store.create(self.at("claims", f"{check_name('node', record.node)}.{record.incarnation}"), b"")
        self.write_node(record)

    def make_key(self) -> bytes:
        """Makes the run's key, or returns the one that another made first. One request, or two."""
        import secrets

        made = secrets.token_bytes(KEY_BYTES)
        try:
            self.store.create(self.at("key"), made.hex().encode())
        except AlreadyExists:
            return self.key()
        return made

    def key(self) -> bytes:
        """The run's key, which authenticates its nodes to each other; `NotFound` if none was made."""
        found = self.store.get(self.at("key"))
        try:
            key = bytes.fromhex(found.decode("ascii"))
        except ValueError:
            key = b""
        if len(key) != KEY_BYTES:
            raise self._damaged(self.at("key"), f"expected {KEY_BYTES * 2} hexadecimal digits")
        return key

    def publish_main(self, config: MainConfig) -> None:
        """Makes a node main of a generation, or raises `AlreadyExists` if another one is."""
        self.store.create(self._generation(config.generation, MAIN_CONFIG), dump(config))

    def show_main(self, config: MainConfig) -> None:
        """Puts a copy of main's file at the run's top, for people and for tools that know only that place.

        An older main may overwrite it late, so Muster itself never reads it.
        """
        self.store.put(self.at(MAIN_CONFIG), dump(config))

    def main_of(self, generation: int) -> MainConfig | None:
        """Main of one generation; None if it has none yet. One get, the cheapest way to wait for the first."""
        return self._main(self._generation(generation, MAIN_CONFIG))

    def latest_main(self, newer_than: int = 0) -> MainConfig | None:
        """Main of the highest generation above `newer_than`; None if there is no such one.

        A list request, and one get only if there is one: to look for a new main again and again costs one
        request each time.
        """
        start = self._generation(newer_than, "~") if newer_than else ""
        found = [entry.key for entry in self.store.list(self.at("generations/"), start)]
        mains = [key for key in found if key.endswith(f"/{MAIN_CONFIG}")]
        return self._main(mains[-1]) if mains else None

    def write_members(self, generation: int, members: Sequence[Member]) -> None:
        """Tells all nodes of a generation who the members are; main alone writes it."""
        self.store.put(
            self._generation(generation, "members.json"), dump({"members": [asdict(one) for one in members]})
        )

    def members(self, generation: int) -> list[Member] | None:
        """The members of a generation in the order main gave them; None if main has not told them yet."""
        return self._maybe(
            self._generation(generation, "members.json"),
            lambda value: [Member.from_json(one) for one in value["members"]],
        )

    def claim(self, record: NodeRecord) -> None:
        """Takes a node's name for good, or raises `AlreadyExists` if another machine has it."""
        self.store.create(self._node(record.node), dump(record))

    def write_node(self, record: NodeRecord) -> None:
        """Writes a node's record; only the node that claimed the name may."""
        self.store.put(self._node(record.node), dump(record))

    def node(self, name: str) -> NodeRecord | None:
        """The record of one node; None if nobody claimed the name."""
        return self._maybe(self._node(name), NodeRecord.from_json)

    def nodes(self) -> list[NodeRecord]:
        """The records of all nodes, in the order of their names. One list request, and a get for each."""
        keys = [entry.key for entry in self.store.list(self.at("nodes/"))]
        return self._records(key for key in keys if key.endswith(".json"))

    def nodes_called(self, names: Iterable[str]) -> list[NodeRecord]:
        """The records of these nodes, in the order of their names. A get for each."""
        return self._records(map(self._node, names))

    def _records(self, keys: Iterable[str]) -> list[NodeRecord]:
        able = self.store.capabilities
        # Files in a folder are read sooner than threads begin.
        found = at_once(able.parallel if able.billed else 1, lambda key: self._maybe(key, NodeRecord.from_json), keys)
        return sorted((record for record in found if record), key=lambda record: node_order(record.node))

    def written_ago(self, name: str, mark: str) -> float | None:
        """Seconds since a node's record was written, on the store's own clock; None if that cannot be told.

        Whoever asks is told apart by `mark`. Three requests.
        """
        asked = f"{self._node(name)}.{mark}"
        self.store.put(asked, b"")
        try:
            found = {entry.key: entry.modified for entry in self.store.list(self._node(name))}
        finally:
            self.store.delete(asked)
        then, now = found.get(self._node(name)), found.get(asked)
        return max(0.0, now - then) if then and now else None

    def leave_sign(self, node: str, number: int, beat: int) -> None:
        """Lets a listing show that this node lives, and by a higher number that there is something new to read.

        A node does so that has no channel to main, or broke before it had one; and main for such nodes.
        """
        self.store.put(self._sign(node, number), str(beat).encode())

    def take_sign_away(self, node: str, number: int) -> None:
        """Once a node has left a newer one."""
        self.store.delete(self._sign(node, number))

    def signs(self) -> Signs:
        """All that nodes look for again and again. One list request: these files alone begin with an s."""
        stop, scale, nodes = False, "", dict[str, Sign]()
        for entry in self.store.list(self.at("s")):
            kind, *names = entry.key[len(self.run) + 1 :].split("/")
            if kind == "stop" and not names:
                stop = True
            elif kind == "scale" and len(names) == 1:
                scale = max(scale, names[0])
            elif kind == "signs" and len(names) == 2 and names[1].isdecimal():
                # In the order of the numbers, so that the highest stays.
                nodes[names[0]] = Sign(int(names[1]), entry.tag or str(entry.modified))
        return Signs(stop, scale, nodes)

    def request_stop(self, why: str, by: str) -> bool:
        """Asks the run to stop; true if nobody had asked before."""
        return self._created("stop", {"why": why, "by": by})

    def conclude(self, verdict: Verdict) -> bool:
        """Stops the nodes that main can tell in no other way, with main's own reason."""
        return self._created("stop", {"why": verdict.detail, "by": "main", "verdict": asdict(verdict)})

    def stop_request(self) -> dict[str, Any] | None:
        """Who asked the run to stop and why, if anybody did. Whatever the file holds, it stops the run."""
        try:
            found = self.store.get(self.at("stop"))
        except NotFound:
            return None
        try:
            value = json.loads(found)
        except ValueError:
            value = None
        return value if isinstance(value, dict) else {"why": found.decode("utf-8", "replace").strip(), "by": ""}

    def request_scale(self, workers: int, by: str) -> None:
        """Asks for another number of workers. The latest request holds."""
        number = len([*self.store.list_names(self.at("scale/"))]) + 1
        while not self._created(f"scale/{number:06}.json", {"workers": workers, "by": by}):
            number += 1

    def wanted(self) -> int | None:
        """How many workers somebody asked for last; None if nobody did. One list request, and a get if there is one."""
        names = [*self.store.list_names(self.at("scale/"))]
        return self.wanted_by(max(names)) if names else None

    def wanted_by(self, name: str) -> int:
        """How many workers the request of this name asks for."""
        return self._parsed(self.at("scale", name), lambda value: int(value["workers"]))

    def release(self, node: str, verdict: Verdict) -> None:
        """Tells a node that main can reach in no other way that it may go."""
        self.store.put(self.at("released", check_name("node", node)), dump(verdict))

    def released(self, node: str) -> Verdict | None:
        """Why a node may go; None while it may not."""
        return self._maybe(self.at("released", check_name("node", node)), Verdict.from_json)

    def write_result(self, result: Result) -> bool:
        """Writes the end of the run; false if another node had written it before."""
        return self._created("result.json", result)

    def result(self) -> Result | None:
        """The end of the run; None while it goes on."""
        return self._maybe(self.at("result.json"), Result.from_json)

    def _generation(self, generation: int, name: str) -> str:
        return self.at("generations", f"{generation:06}", name)

    def _node(self, name: str) -> str:
        return self.at("nodes", f"{check_name('node', name)}.json")

    def _sign(self, node: str, number: int) -> str:
        return self.at("signs", check_name("node", node), f"{number:012}")

    def _main(self, key: str) -> MainConfig | None:
        config = self._maybe(key, MainConfig.from_json)
        if config:
            check_protocol(f"main of run {self.run}", config.protocol)
        return config

    def _created(self, name: str, record: Any) -> bool:
        try:
            self.store.create(self.at(name), dump(record))
        except AlreadyExists:
            return False
        return True

    def _maybe(self, key: str, parse: Callable[[Mapping[str, Any]], T]) -> T | None:
        try:
            return self._parsed(key, parse)
        except NotFound:
            return None

    def _parsed(self, key: str, parse: Callable[[Mapping[str, Any]], T]) -> T:
        found = self.store.get(key)
        try:
            value = json.loads(found)
            if not isinstance(value, dict):
                raise TypeError("expected a JSON object")
            return parse(value)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            told = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
            raise self._damaged(key, told) from error

    def _damaged(self, key: str, told: str) -> StoreError:
        return StoreError(
            f"{key!r} in the work dir {self.store.url} is damaged: {told}",
            "It was changed by hand or cut short. Start the job again as a new run.",
        )
