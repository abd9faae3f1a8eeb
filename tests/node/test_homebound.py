"""What a node brings home at its end stays home, what it cannot bring is told, and checkpoints can be trusted."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from muster.errors import StoreBusy, StoreError
from muster.node import homebound
from muster.node.leaving import Leaving
from muster.node.renames import Looks
from muster.workdir.arriving import ArrivingStore
from muster.workdir.folder import FolderStore
from muster.workdir.home import tidy_node_folder
from muster.workdir.store import Capabilities
from tests.harness import Muster
from tests.node.hearth import Hearth
from tests.node.loop import in_loop, soon


class Troubled(FolderStore):
    """Takes one file after the other, and asks `trouble` before each."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.trouble: Callable[[str], None] = lambda _key: None
        self.asked: list[str] = []

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, parallel=1)

    def put_file(self, key: str, path: Path) -> None:
        self.asked.append(key)
        self.trouble(key)
        super().put_file(key, path)

    def kept(self) -> set[str]:
        return {entry.key.removeprefix("run/") for entry in self.list("run/") if "metrics" not in entry.key}


REPLACE = """
import os
def replace(path, *chunks):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".tmp", "w") as file:
        for chunk in chunks:
            file.write(chunk)
    os.replace(path + ".tmp", path)
"""


def test_outputs_that_take_longer_than_a_shipping_round_are_all_there_afterwards(muster: Muster) -> None:
    script = """
import pathlib
folder = pathlib.Path("outputs")
for number in range(6000):
    (folder / f"{number}.txt").write_text(str(number))
"""
    muster("run", muster.job(script, workers=0))
    found = json.loads(muster("outputs", muster.run_id(), "--json").stdout)
    assert len(found) == 6000


def test_an_output_that_leads_out_of_its_folder_is_named(muster: Muster) -> None:
    script = "import os\nos.symlink('/etc/hostname', 'outputs/model.bin')"
    done = muster("run", muster.job(script, workers=0))
    assert "not brought home: model.bin" in done.stderr


def test_a_loss_that_is_no_number_any_more_is_null_in_json(muster: Muster) -> None:
    muster("run", muster.job("import muster\nmuster.report(loss=float('nan'))", workers=0))
    status = json.loads(muster("status", muster.run_id(), "--json").stdout, parse_constant=lambda word: word)
    assert status["nodes"][0]["reported"] == {"rank 0": {"loss": None}}


def test_who_writes_in_place_is_told_once_what_to_do_instead(muster: Muster) -> None:
    script = """
import pathlib
for number in range(3):
    pathlib.Path(f"checkpoints/epoch-{number}.pt").write_text("1")
"""
    done = muster("run", muster.job(script, workers=0))
    assert done.stderr.count("was written in place") == 1
    assert "checkpoints/epoch-0.pt was written in place" in done.stderr
    assert "Write it under another name and rename it, or call muster.checkpoint(path)" in done.stderr


def test_who_names_another_place_is_told_where_checkpoints_belong(muster: Muster) -> None:
    script = "import muster\nmuster.checkpoint('/')\nmuster.checkpoint('checkpoints/none.pt')"
    done = muster("run", muster.job(script, workers=0))
    assert "muster.checkpoint('/'): there is nothing to keep" in done.stderr
    assert done.stderr.count("It must be a file or a folder in 'checkpoints'") == 2


@in_loop
async def test_what_is_renamed_into_place_comes_home_without_waiting_for_the_next_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(homebound, "_SHIP", 1e6)
    (tmp_path / "main" / "code" / "checkpoints" / "run").mkdir(parents=True)
    hearth = Hearth(tmp_path)
    hearth.ships()
    await hearth.run_until(f"{REPLACE}replace('checkpoints/last.pt', '1')\nreplace('checkpoints/run/deep.pt', '1')")
    await soon(lambda: len(hearth.kept()) == 2)
    assert hearth.kept(lambda one: one.complete is not None) == ["run/deep.pt", "last.pt"]
    hearth.close()


@in_loop
async def test_what_the_script_names_comes_home_without_waiting_for_the_next_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(homebound, "_SHIP", 1e6)
    hearth = Hearth(tmp_path)
    hearth.ships()
    await hearth.run_until(
        "import muster, pathlib\n"
        "pathlib.Path('checkpoints/last.pt').write_text('1')\n"
        "muster.checkpoint('checkpoints/last.pt')\n"
    )
    await soon(lambda: hearth.kept(lambda one: one.complete is not None) == ["last.pt"])
    hearth.close()


@in_loop
async def test_a_writer_killed_between_two_chunks_leaves_the_version_before(tmp_path: Path) -> None:
    hearth = Hearth(tmp_path)
    script = f"""{REPLACE}
import time
replace('checkpoints/last.pt', 'whole')
replace('checkpoints/epoch-1.pt', 'whole')
print('first', flush=True)
while not os.path.exists('go'):
    time.sleep(0.01)
with open('checkpoints/last.pt', 'w') as last, open('checkpoints/epoch-2.pt', 'w') as second:
    for file in (last, second):
        file.write('half' * 5000)
        file.flush()
    print('half', flush=True)
    time.sleep(600)
"""
    with hearth.writer(script) as writer:
        assert writer.stdout is not None
        assert await asyncio.to_thread(writer.stdout.readline) == "first\n"
        await hearth.home.ship_complete()
        (hearth.folder / "code" / "go").touch()
        assert await asyncio.to_thread(writer.stdout.readline) == "half\n"
        writer.kill()
    await hearth.home.settle(2)
    assert hearth.tree() == {"epoch-1.pt": "whole", "last.pt": "whole"}
    assert "moved out of the checkpoint folder" in hearth.said[0]
    hearth.close()


@in_loop
async def test_a_node_killed_with_its_writer_finds_its_complete_files_and_no_others(tmp_path: Path) -> None:
    (tmp_path / "main" / "code" / "checkpoints" / "deep" / "est").mkdir(parents=True)
    hearth = Hearth(tmp_path)
    await hearth.run_until(
        f"""{REPLACE}
import muster, pathlib, time
for step in range(3):
    os.mkdir(f'checkpoints/step-{{step}}.tmp')
    pathlib.Path(f'checkpoints/step-{{step}}.tmp/model').write_text(str(step))
    os.rename(f'checkpoints/step-{{step}}.tmp', f'checkpoints/step-{{step}}')
pathlib.Path('checkpoints/named.pt').write_text('1')
muster.checkpoint('checkpoints/named.pt')
replace('checkpoints/deep/est/nested.pt', 'whole')
os.mkdir('checkpoints/step-3')
pathlib.Path('checkpoints/step-3/model').write_text('half')
print('now', flush=True)
time.sleep(600)
""",
        line="now",
    )
    assert hearth.home._checkpoints is not None
    hearth.home._checkpoints.units.notice()  # as its thread does, sooner or later
    again = hearth.again()
    await again.home.settle(2)
    assert again.tree() == {
        "deep/est/nested.pt": "whole",
        "named.pt": "1",
        **{f"step-{step}/model": str(step) for step in range(3)},
    }
    again.close()


@in_loop
async def test_a_name_said_to_the_node_before_is_not_taken_for_what_was_written_since(tmp_path: Path) -> None:
    hearth = Hearth(tmp_path)
    await hearth.run_until(
        "import muster, pathlib, time\n"
        "last = pathlib.Path('checkpoints/last.pt')\n"
        "last.write_text('1'); muster.checkpoint(last)\n"
        "last.write_text('2'); print('now', flush=True); time.sleep(600)",
        line="now",
    )
    again = hearth.again()  # which reads all that the script ever said
    await again.home.settle(2)
    assert again.tree() == {}
    again.close()


@in_loop
async def test_a_late_node_finds_what_another_completed(tmp_path: Path) -> None:
    (tmp_path / "main" / "code" / "checkpoints" / "step-7").mkdir(parents=True)
    main = Hearth(tmp_path)
    await main.run_until(f"{REPLACE}replace('checkpoints/step-7/model', 'x' * 3_000_000)")
    await main.home.ship_complete()
    late = Hearth(tmp_path, "worker-9")
    await late.home.settle(1)
    assert late.tree() == {"step-7/model": "x" * 3_000_000}
    assert late.said == ["checkpoint step-7/model of main laid out"]
    late.ships()
    await late.home.finish()
    assert late.kept() == []
    main.close()


@in_loop
async def test_nodes_that_share_one_folder_do_not_move_each_others_things(tmp_path: Path) -> None:
    """As on a shared disk, where the kernel of one machine does not tell what another writes."""
    hearth = Hearth(tmp_path, own=False)
    blind = Looks(hearth.checkpoints)
    assert hearth.home._checkpoints is not None
    hearth.home._checkpoints.units._heard = blind.take
    (hearth.checkpoints / "others.pt").write_text("being written on another machine")
    await hearth.home.settle(2)
    assert list(hearth.tree()) == ["others.pt"]
    hearth.close()


@in_loop
async def test_without_a_kernel_that_tells_renames_are_noticed_by_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(homebound, "watch", Looks)
    hearth = Hearth(tmp_path)
    await hearth.run_until(
        f"{REPLACE}import time\n"
        "with open('checkpoints/last.pt.tmp', 'w') as file: file.write('whole')\n"
        "time.sleep(0.1)\n"  # so that the times differ where clocks are coarse
        "os.replace('checkpoints/last.pt.tmp', 'checkpoints/last.pt')\n"
        "with open('checkpoints/half.pt', 'w') as file: file.write('half')\n"
    )
    await hearth.home.settle(2)
    assert hearth.tree() == {"last.pt": "whole"}
    hearth.close()


@in_loop
async def test_two_ranks_that_write_and_rename_all_the_time_leave_only_whole_files(tmp_path: Path) -> None:
    """What is sent and what is left was never a mixture, however fast they are overwritten."""
    hearth = Hearth(tmp_path)
    hearth.ships()
    script = f"""{REPLACE}
import os, sys
number = 0
while True:
    number += 1
    replace('checkpoints/%s.pt', *[f'{{number:09}}\\n'] * 2000)
    if number == 5: print('well under way', flush=True)
"""
    writers = [hearth.writer(script % name) for name in "ab"]
    try:
        for writer in writers:
            assert writer.stdout is not None
            await asyncio.to_thread(writer.stdout.readline)
        await soon(lambda: len(hearth.kept()) >= 3, 60)
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate()
    await hearth.home.settle(2)
    tree = hearth.tree()
    assert sorted(tree) == ["a.pt", "b.pt"]
    for text in tree.values():
        assert (len(text), len(set(text.split()))) == (20_000, 1)
    hearth.close()
    late = Hearth(tmp_path, "worker-1")
    await late.home.settle(2)
    assert set(late.tree().values()) <= set(tree.values())
    late.close()


@pytest.mark.slow
def test_tensorflow_goes_on_from_its_own_files_on_another_machine(tmp_path: Path) -> None:
    asyncio.run(tensorflow_goes_on(tmp_path))


async def tensorflow_goes_on(tmp_path: Path) -> None:
    script = """
import os
os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
import tensorflow as tf
step = tf.Variable(0)
manager = tf.train.CheckpointManager(tf.train.Checkpoint(step=step), 'checkpoints', max_to_keep=2)
manager.restore_or_initialize()
print('from', int(step), flush=True)
for _ in range(3):
    step.assign_add(1)
    manager.save()
"""
    main = Hearth(tmp_path)
    await main.run_until(script)
    (main.checkpoints / "ckpt-4.index").write_text("half")
    await main.home.settle(2)
    assert "ckpt-4.index" not in main.tree()
    late = Hearth(tmp_path, "worker-1")
    await late.home.settle(2)
    names = {"checkpoint", "ckpt-3.index", "ckpt-3.data-00000-of-00001"}
    assert names <= set(late.tree())
    for hearth in (main, late):
        with hearth.writer(script) as writer:
            assert writer.stdout is not None
            said = await asyncio.to_thread(writer.stdout.read)
        assert said == "from 3\n"
        hearth.close()


@pytest.mark.parametrize("inside", [True, False])
def test_what_a_script_says_of_a_checkpoint_is_said_at_once_and_costs_no_walk_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inside: bool
) -> None:
    import muster

    monkeypatch.setenv("MUSTER_REPORT", str(tmp_path / "reports"))
    monkeypatch.setenv("MUSTER_CHECKPOINTS", str(tmp_path / ("" if inside else "other")))
    monkeypatch.chdir(tmp_path)
    Path("step").mkdir()
    Path("step/model").write_text("1")
    Path("ckpt-1.index").write_text("1")
    Path("step/back").symlink_to(tmp_path / "step")
    muster.checkpoint("step")  # type: ignore[no-untyped-call]
    muster.checkpoint(tmp_path / "ckpt-1")  # type: ignore[no-untyped-call]
    said = [json.loads(line) for line in (tmp_path / "reports").read_text().splitlines()]
    if not inside:
        assert [one.get("files") for one in said] == [None, None]
        return
    seen = Path("step/model").stat()
    assert said[0]["checkpoint"] == str(tmp_path / "step")
    assert said[0]["files"] == [["model", 1, seen.st_mtime_ns, seen.st_ino]]
    assert said[1]["checkpoint"] == str(tmp_path / "ckpt-1.index")


# --- when something does not arrive ------------------------------------------------------------------------


HOME = {
    "outputs/main/good",
    "outputs/main.manifest.json",
    "checkpoints/main/000001/files/model.pt",
    "checkpoints/main/000001/manifest.json",
}


def refuse(key: str) -> None:
    if key.endswith("bad"):
        raise StoreError("the name is too long")


@in_loop
async def test_an_output_that_is_refused_keeps_nothing_else_from_home_and_is_not_waited_for(tmp_path: Path) -> None:
    store = Troubled(tmp_path / "runs")
    store.trouble = refuse
    hearth = Hearth(tmp_path, store=store)
    for name in ("bad", "good"):
        (hearth.outputs / name).write_text("1")
    (hearth.checkpoints / "model.pt").write_text("weights")
    with pytest.raises(StoreError, match="too long"):
        await hearth.home.finish()
    assert store.kept() == HOME
    assert store.asked.count("run/outputs/main/bad") == 2  # the last look is a double one


@in_loop
async def test_what_gets_on_now_and_then_comes_home_however_long_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(homebound, "HOME", 0.0)
    store = Troubled(tmp_path / "runs")

    def once_each(key: str) -> None:
        if store.asked.count(key) == 1:
            raise StoreBusy("away")

    store.trouble = once_each
    hearth = Hearth(tmp_path, store=store)
    for number in range(3):
        (hearth.outputs / f"{number}").write_text("1")
    await hearth.home.finish()
    assert store.kept() == {*(f"outputs/main/{number}" for number in range(3)), "outputs/main.manifest.json"}
    assert "away" in hearth.said[0]


@in_loop
async def test_what_is_home_already_is_no_progress_for_what_never_arrives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(homebound, "HOME", 0.0)
    store = Troubled(tmp_path / "runs")

    def away(key: str) -> None:
        if "checkpoints" in key:
            raise StoreBusy("away")
        refuse(key)

    store.trouble = away
    hearth = Hearth(tmp_path, store=store)
    for name in ("bad", "good"):
        (hearth.outputs / name).write_text("1")
    (hearth.checkpoints / "model.pt").write_text("weights")
    with pytest.raises(StoreBusy):
        await hearth.home.finish()
    assert store.kept() == {"outputs/main/good", "outputs/main.manifest.json"}
    assert len([key for key in store.asked if "checkpoints" in key]) == 2


@in_loop
async def test_a_large_output_on_its_way_holds_up_no_checkpoint_and_no_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(homebound, "_SHIP", 0.1)
    store, begun, go_on = Troubled(tmp_path / "runs"), threading.Event(), threading.Event()

    def stop(key: str) -> None:
        if key.endswith("large"):
            begun.set()
            assert go_on.wait(60)

    store.trouble = stop
    hearth = Hearth(tmp_path, store=store)
    hearth.ships()
    (hearth.outputs / "large").write_text("1")
    await soon(begun.is_set)
    await hearth.run_until(f"{REPLACE}replace('checkpoints/last.pt', '1')")
    await soon(lambda: hearth.kept() == ["last.pt"])
    await hearth.run_until(f"{REPLACE}replace('checkpoints/next.pt', '1')")
    await hearth.home.ship_complete()
    await hearth.home.settle(2)
    last = asyncio.ensure_future(hearth.home.finish())
    (hearth.checkpoints / "in place.pt").write_text("1")
    await soon(lambda: set(hearth.kept()) == {"in place.pt", "last.pt", "next.pt"})
    assert not last.done()
    go_on.set()
    await last
    assert store.asked.count("run/outputs/main/large") == 1
    hearth.close()


def leaving(hearth: Hearth) -> Leaving:
    async def finish(_progress: Callable[[], int]) -> None:
        """The log is no matter here."""

    node = hearth._node()
    node.homebound, node.logs = hearth.home, SimpleNamespace(finish=finish)
    return Leaving(cast("Any", node), ArrivingStore(hearth.run.store))


@in_loop
async def test_what_could_not_be_brought_home_stays_and_is_told(tmp_path: Path) -> None:
    store = Troubled(tmp_path / "runs")
    store.trouble = refuse
    hearth = Hearth(tmp_path, store=store)
    (hearth.outputs / "bad").write_text("1")
    await leaving(hearth).ship()
    assert (hearth.outputs / "bad").read_text() == "1"
    assert not tidy_node_folder(hearth.folder)
    places = f"{hearth.outputs} and {hearth.checkpoints}"
    told = f"not all could be brought home: StoreError: the name is too long; it stays in {places}"
    assert told in hearth.said
    store.trouble = lambda _key: None
    again = Hearth(tmp_path, store=store)
    await leaving(again).ship()
    assert store.kept() == {"outputs/main/bad", "outputs/main.manifest.json"}
    assert not hearth.folder.exists()


@in_loop
async def test_a_node_that_leaves_or_is_killed_before_all_arrived_keeps_its_folder(tmp_path: Path) -> None:
    store, begun, go_on = Troubled(tmp_path / "runs"), threading.Event(), threading.Event()

    def hang(_key: str) -> None:
        begun.set()
        assert go_on.wait(60)

    store.trouble = hang
    hearth = Hearth(tmp_path, store=store)
    (hearth.outputs / "model").write_text("1")
    ends = leaving(hearth)
    shipping = asyncio.ensure_future(ends.ship())
    await soon(begun.is_set)
    assert not tidy_node_folder(hearth.folder)
    ends.break_off()
    assert f"nothing arrived any more; it stays in {hearth.outputs}" in hearth.said[0]
    go_on.set()
    await shipping
    assert not hearth.folder.exists()


def test_a_run_whose_outputs_have_no_place_in_the_work_dir_leaves_them_with_the_node(muster: Muster) -> None:
    script = f"""{REPLACE}
import pathlib
run = next(pathlib.Path(os.environ["MUSTER_HOME"], "runs").glob("*/job.json")).parent
(run / "outputs").mkdir()
(run / "outputs" / "main").write_text("in the way")
pathlib.Path("outputs/model.bin").write_text("weights")
replace("checkpoints/last.pt", "1")
"""
    done = muster("run", muster.job(script, workers=0))
    run = muster.run_id()
    outputs = muster.home / "nodes" / run / "main" / "code" / "outputs"
    assert f"it stays in {outputs}" in done.stderr
    assert (outputs / "model.bin").read_text() == "weights"
    assert (muster.runs / run / "checkpoints" / "main" / "000001" / "files" / "last.pt").read_text() == "1"
    muster("rm", run, "--yes")
    assert not outputs.exists()
