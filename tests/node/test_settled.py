"""Whatever scripts and nodes do, what stands in the checkpoint folder after a settling was complete in that content."""

from __future__ import annotations

import itertools
import shutil
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from muster.node.renames import Renames
from muster.workdir.memory import MemoryStore
from muster.workdir.run import RunFolder
from muster.workdir.sync import CheckpointShipper, Settling, Units
from muster.workdir.walking import Stamp, stamp_of

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has inotify")

OWN = "of-{node}.pt"
"""Written by one node alone, so that no other node's version can take its place."""
FILES = ("last.pt", OWN, "run/model", "run/deep/nested", "step-1/a", "step-1/b")
FOLDERS = ("step-1", "run/deep")
NODES = ("main", "worker-1")

paths = st.sampled_from(FILES)
folders = st.sampled_from(FOLDERS)
nodes = st.sampled_from(NODES)
afterwards = st.sampled_from(
    (
        "",
        "noticed",
        "sent",
        "noticed and written in place",
        "sent and written in place",
        "heard of late and written in place",
        "noticed and written over",
        "sent and written over",
        "heard of late and written over",
    )
)


class Machine(RuleBasedStateMachine):
    """Two nodes of a run whose scripts write in place, rename, name, change and take away; nodes are killed and settle.

    Contents are numbers that never come twice, most of them of one length, so that only stamps and events can tell.
    """

    def __init__(self) -> None:
        super().__init__()
        self.base = Path(tempfile.mkdtemp(prefix="settled-"))
        self.store = MemoryStore("settled")
        self.contents = (str(number) for number in itertools.count(1000))
        self.good: set[tuple[str, str]] = set()
        """Each path with a content that it was complete with, on any node."""
        self.standing: dict[str, str] = {}
        """What each node completed in the file that is its own, and nobody has touched since."""
        self.settled: dict[str, dict[str, str]] = {}
        self.said = 0
        self.heard: dict[str, Renames] = {}
        self.units: dict[str, Units] = {}
        self.shippers: dict[str, CheckpointShipper] = {}
        self.generation = 1

    def teardown(self) -> None:
        for node in NODES:
            self.hush(node)
        shutil.rmtree(self.base)

    def hush(self, node: str) -> None:
        if heard := self.heard.pop(node, None):
            heard.close()
            assert heard.wait(0) is None

    @initialize()
    def begin(self) -> None:
        for node in NODES:
            self.folder(node).mkdir(parents=True)
            (self.folder(node) / "given").write_text("given")
            self.good.add(("given", "given"))
            self.start(node)

    def folder(self, node: str) -> Path:
        return self.base / node / "checkpoints"

    def start(self, node: str) -> None:
        self.hush(node)
        self.heard[node] = heard = Renames(self.folder(node))
        self.units[node] = Units(self.folder(node), self.base / node / "ledger", heard.take)
        self.shippers[node] = CheckpointShipper(self.store, f"run/checkpoints/{node}", self.units[node])

    def at(self, node: str, path: str) -> Path:
        return self.folder(node) / path.format(node=node)

    def touched(self, node: str, path: str) -> None:
        if path == OWN:
            self.standing.pop(node, None)

    # --- what scripts do ---------------------------------------------------------------------------------

    @rule(node=nodes, path=paths, chunks=st.integers(1, 3))
    def write_in_place(self, node: str, path: str, chunks: int) -> None:
        place = self.at(node, path)
        place.parent.mkdir(parents=True, exist_ok=True)
        self.touched(node, path)
        with place.open("w") as file:
            for _ in range(chunks):
                file.write(next(self.contents))
                file.flush()

    @rule(node=nodes, path=paths)
    def write_over_the_beginning(self, node: str, path: str) -> None:
        place = self.at(node, path)
        if place.is_file():
            self.touched(node, path)
            with place.open("r+") as file:
                file.write(next(self.contents))

    @rule(node=nodes, path=paths, keeps_open=st.booleans(), then=afterwards, ends=st.booleans())
    def rename(self, node: str, path: str, keeps_open: bool, then: str, ends: bool) -> None:
        place = self.at(node, path)
        place.parent.mkdir(parents=True, exist_ok=True)
        draft = place.with_name(f"{place.name}.tmp")
        content = next(self.contents)
        with draft.open("w") as file:
            file.write(content)
            file.flush()
            if keeps_open:
                draft.replace(place)
        if not keeps_open:
            draft.replace(place)
        self.good.add((path.format(node=node), content))
        if path == OWN:
            self.standing[node] = content
        self.go_on(node, path, then, ends)

    def go_on(self, node: str, path: str, then: str, ends: bool) -> None:
        """Scripts that do the wrong thing do it at once."""
        if then.startswith("sent"):
            self.shippers[node].ship_complete(last=True)
        if then.startswith("noticed"):
            self.units[node].notice()
        if then.endswith("written in place"):
            self.write_in_place(node, path, 1)
        elif then.endswith("written over"):
            self.write_over_the_beginning(node, path)
        if ends:
            self.settle(node)

    @rule(node=nodes, path=folders, names=st.sets(st.sampled_from("abc"), min_size=1))
    def rename_folder(self, node: str, path: str, names: set[str]) -> None:
        place = self.at(node, path)
        draft = place.with_name(f"{place.name}.tmp")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        for name in sorted(names):
            content = next(self.contents)
            (draft / name).write_text(content)
            self.good.add((f"{path}/{name}", content))
        shutil.rmtree(place, ignore_errors=True)
        draft.rename(place)
        self.units[node].notice()  # in the moment before, a change of what is in it could pass unheard

    @rule(node=nodes, path=st.sampled_from((*FILES, *FOLDERS, "run")), then=afterwards, ends=st.booleans())
    def name(self, node: str, path: str, then: str, ends: bool) -> None:
        place = self.at(node, path)
        found = [place] if place.is_file() else sorted(each for each in place.rglob("*") if each.is_file())
        if not found:
            return
        stamps = {}
        for each in found:
            below = str(each.relative_to(place)) if each != place else ""
            stamps[below] = stamp_of(each) or Stamp(0, 0, 0)
            self.good.add((str(each.relative_to(self.folder(node))), each.read_text()))
        self.said += 1
        inside = path if path in FILES else f"{path}/a"
        if then.startswith("heard of late"):
            self.go_on(node, inside, then, ends=False)
            then = ""
        assert self.units[node].name(str(place), stamps, at=float(self.said))
        self.go_on(node, inside, then, ends)

    @rule(node=nodes, path=st.sampled_from((*FILES, *FOLDERS)))
    def take_away(self, node: str, path: str) -> None:
        place = self.at(node, path)
        self.touched(node, path)
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)

    @rule(node=nodes, path=paths)
    def leave_work_under_way(self, node: str, path: str) -> None:
        place = self.at(node, f"{path}.tmp")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(next(self.contents))

    # --- what nodes do -----------------------------------------------------------------------------------

    @rule(node=nodes, how=st.sampled_from(("notice", "complete", "all")))
    def look(self, node: str, how: str) -> None:
        if how == "notice":
            self.units[node].notice()
        elif how == "complete":
            self.shippers[node].ship_complete(last=True)
        else:
            self.shippers[node].finish()  # as if it had come to rest: also what is half-written

    @rule(node=nodes, machine=st.booleans())
    def kill(self, node: str, machine: bool) -> None:
        """The program is gone with all that it had heard and not taken in; its folder is left, or lost as well."""
        if machine:
            shutil.rmtree(self.base / node)
            self.folder(node).mkdir(parents=True)
            (self.folder(node) / "given").write_text("given")
        self.standing.pop(node, None)
        self.start(node)
        self.settle(node)

    @rule(node=nodes)
    def settle(self, node: str) -> None:
        self.generation += 1
        run = RunFolder(self.store, "run")
        unfinished = self.base / node / "unfinished"
        Settling(run, node, self.units[node], self.shippers[node], unfinished).settle(self.generation)
        top = self.folder(node)
        found = [path for path in top.rglob("*") if path.is_file()]
        self.settled = {node: {str(path.relative_to(top)): path.read_text() for path in found}}
        empty = [str(path.relative_to(top)) for path in top.rglob("*") if path.is_dir() and not [*path.iterdir()]]
        whole = tuple(f"{name}/" for name in self.units[node].state().units)
        assert [path for path in empty if not path.startswith(whole)] == [], "it may be taken for a checkpoint"

    @invariant()
    def what_stands_was_complete(self) -> None:
        for node, files in self.settled.items():
            for path, content in files.items():
                assert (path, content) in self.good, f"{path} on {node} holds {content!r}, which was never complete"
            assert "given" in files
            if node in self.standing:
                assert files.get(OWN.format(node=node)) == self.standing[node], f"{node}'s was complete and is gone"
        self.settled = {}


Machine.TestCase.settings = settings(
    max_examples=100,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


TestSettled = pytest.mark.slow(Machine.TestCase)


def test_a_listener_and_a_settling_at_the_same_time_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    heard = Renames(tmp_path / "checkpoints")
    units = Units(tmp_path / "checkpoints", tmp_path / "ledger", heard.take)
    store = MemoryStore("listener")
    shipper = CheckpointShipper(store, "run/checkpoints/main", units)
    thread = threading.Thread(target=lambda: [units.notice() for _ in iter(lambda: heard.wait(60), None)])
    thread.start()
    for number in range(50):
        draft = tmp_path / "checkpoints" / "last.pt.tmp"
        draft.write_text(str(number))
        draft.rename(tmp_path / "checkpoints" / "last.pt")
        (tmp_path / "checkpoints" / "half.pt").write_text("half")
        Settling(RunFolder(store, "run"), "main", units, shipper, tmp_path / "unfinished").settle(number)
        assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["last.pt"]
        assert (tmp_path / "checkpoints" / "last.pt").read_text() == str(number)
    heard.close()
    thread.join(30)
    assert not thread.is_alive()
