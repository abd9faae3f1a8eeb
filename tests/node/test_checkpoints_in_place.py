"""Whole runs: whoever starts again, or late, finds the newest complete checkpoint before its script begins."""

from __future__ import annotations

from pathlib import Path

from tests.harness import Muster, eventually
from tests.node.hands import heard, kill_node, record_of, texts_of

SAVES = """
import os, pathlib, signal, sys, time
import muster

folder, rank = pathlib.Path(os.environ["MUSTER_CHECKPOINTS"]), os.environ["RANK"]
print(f"rank {rank} of {os.environ['WORLD_SIZE']} finds {sorted(path.name for path in folder.rglob('*'))}", flush=True)
for path in sorted(folder.rglob("*")):
    print(f"rank {rank} reads {path.name}: {path.read_text()}", flush=True)
if rank == "0" and not (folder / "renamed").exists():
    (folder / "draft.tmp").write_text("whole, by a rename")
    (folder / "draft.tmp").rename(folder / "renamed")
    (folder / "named").write_text("whole, by its word")
    muster.checkpoint(folder / "named")
    half = open(folder / "half", "w")
    half.write("half of i")
    half.flush()
    # Said last, so that whoever hears it knows that all of the above is there.
    print("saved", flush=True)
go = pathlib.Path(os.environ["GO"])
while not go.exists():
    time.sleep(0.02)
    if rank == "0" and pathlib.Path(os.environ["DIE"]).exists():
        pathlib.Path(os.environ["DIE"]).unlink()
        os.kill(os.getpid(), signal.SIGKILL)
"""

WHOLE = "['named', 'renamed']"


def wishes(muster: Muster) -> dict[str, str]:
    return {"GO": str(muster.folder / "go"), "DIE": str(muster.folder / "die")}


def home(muster: Muster, run: str) -> None:
    """Waits until both whole checkpoints are in the work dir."""
    folder = muster.runs / run / "checkpoints" / "main"
    eventually(lambda: {path.name for path in folder.rglob("files/*")} >= {"named", "renamed"}, within=30)


def test_after_a_rank_died_every_node_has_what_was_whole_and_nothing_else(muster: Muster) -> None:
    wish = wishes(muster)
    launcher = muster.start("run", muster.job(SAVES, workers=1, retries=1), **wish)
    run = muster.run_id()
    heard(muster, run, "saved")
    Path(wish["DIE"]).touch()
    for rank in (0, 1):
        heard(muster, run, f"rank {rank} of 2 finds {WHOLE}")
        heard(muster, run, f"rank {rank} reads renamed: whole, by a rename")
        heard(muster, run, f"rank {rank} reads named: whole, by its word")
    Path(wish["GO"]).touch()
    assert launcher.wait(60) == 0
    assert not [text for text in texts_of(muster, run) if "half" in text]


def test_a_late_node_finds_it_in_place(muster: Muster) -> None:
    wish = wishes(muster)
    launcher = muster.start("run", muster.job(SAVES, workers={"min": 0, "max": 1, "start": 0}), **wish)
    run = muster.run_id()
    heard(muster, run, "saved")
    muster("scale", run, "1")
    for rank in (0, 1):
        heard(muster, run, f"rank {rank} of 2 finds {WHOLE}")
    Path(wish["GO"]).touch()
    assert launcher.wait(60) == 0


def test_a_node_that_was_lost_with_its_folder_finds_it_when_it_is_started_again(muster: Muster) -> None:
    wish = wishes(muster)
    launcher = muster.start("run", muster.job(SAVES, workers=1, retries=1), **wish)
    run = muster.run_id()
    heard(muster, run, "saved")
    home(muster, run)
    kill_node(record_of(muster, run, "main")["pid"])
    for rank in (0, 1):
        heard(muster, run, f"rank {rank} of 2 finds {WHOLE}")
    Path(wish["GO"]).touch()
    assert launcher.wait(60) == 0
