"""What every framework keeps, whatever it is: one suite, which each of them runs on real processes.

A framework takes part by subclassing `FrameworkContract`: it names its job, who takes part in it, and a module
`team` that its scripts import, with

    NAME                the speaker's name: `rank 1`, `script`
    FIRST               whether this process is the one that saves
    took_part()         what proves that all took part: an all-reduced value, or the names of distinct workers
    everywhere(act)     `act(name)` in every process where user code runs
    fail(act)           `act()`, which raises, in one process, while the others wait for that one
"""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from muster.workdir.opening import open_store
from muster.workdir.run import RunFolder
from muster.workdir.sync import fetch_checkpoint
from tests.harness import Muster, eventually

ODD = (
    "two words",
    'it\'s "quoted"',
    "$HOME ${local_rank} $$ `date` $(date)",
    "back\\slash\\n",
    "two\nlines\r\n\ttabbed",
    "*",
    "",
    "--flag=#1",
    "--",
    "žluťoučký 馬 🏖",
    "%s {0} \x1b[1m",
)
"""Values that a shell, a template or a parser on their way would change."""
ODD_NAME = "cödé #1\t(x) 馬"
LINES = 5000
PATIENT = 120.0
"""Seconds: what is waited for comes much sooner, but not on a machine that is busy with other tests."""

TALK = f"""
import sys

def talk(name):
    for number in range({LINES}):
        print(f"{{name}} out {{number}}")
        print(f"{{name}} err {{number}}", file=sys.stderr)
    sys.stdout.write(f"{{name}} out, at last")
    sys.stderr.write(f"{{name}} err, at last")
"""

TOUR = """
import json, os, pathlib, sys, time
import elsewhere, muster, talk, team

names = json.loads(os.environ["WATCHED"])
print("tour " + json.dumps({
    "argv": sys.argv[1:],
    "env": {name: os.environ.get(name) for name in names},
    "name": team.NAME,
    "script": os.path.basename(sys.argv[0]),
    "team": team.took_part(),
}), flush=True)
team.everywhere(talk.talk)
muster.report(step=7, loss=0.25)
pathlib.Path("outputs", team.NAME).write_text(team.NAME)
if team.FIRST:
    model = pathlib.Path("checkpoints", "mödel #1")
    model.mkdir()
    (model / "weights").write_bytes(bytes(1000))
    muster.checkpoint(model)
while not os.path.exists(os.environ["LEAVE"]):
    time.sleep(0.05)
"""

DEATH = """
import os, sys, time
wish = int(sys.argv[1])
if os.environ.get("RANK", "1") != "1":
    time.sleep(600)
if wish < 0:
    os.kill(os.getpid(), -wish)
    time.sleep(600)
sys.exit(wish)
"""

FAILURE = """
import team

def broken():
    raise ValueError("the true cause")

team.fail(broken)
"""


@dataclass(frozen=True)
class Tour:
    """A run that went through everything, as its user sees it from outside."""

    muster: Muster
    run: str
    work_dir: Path
    temporary: Path
    status: Mapping[str, Any]
    """While it ran."""
    checkpoint: Path
    """What had come home while it ran."""
    seen: str
    """What `muster run` showed."""

    @property
    def records(self) -> list[dict[str, Any]]:
        """What each process that runs the script told of itself."""
        told = [line.partition("] tour ")[2] for line in self.seen.splitlines() if "] tour {" in line]
        return [json.loads(text) for text in told]

    def lines(self) -> Iterable[dict[str, Any]]:
        for line in self.muster("logs", self.run, "--json").stdout.splitlines():
            yield json.loads(line)


class FrameworkContract:
    framework: ClassVar[str]
    fields: ClassVar[Mapping[str, Any]]
    """What makes a job of two or three script processes, or of two workers."""
    team: ClassVar[str]
    took_part: ClassVar[Any]
    """What `took_part` tells when everyone did."""
    scripts: ClassVar[frozenset[str]]
    """The processes that run the script."""
    speakers: ClassVar[frozenset[str]]
    """The names that `everywhere` gives."""
    culprit: ClassVar[str]
    """The process that is shown when `fail` is called."""
    watched: ClassVar[tuple[str, ...]] = ()
    """Environment variables that `check_environment` wants to see."""

    def check_environment(self, tour: Tour) -> None:
        """The framework's own environment, from the records of the tour."""
        raise NotImplementedError

    # --- the tests ---------------------------------------------------------------------------------------

    @pytest.mark.slow
    def test_one_run_keeps_every_promise(self, muster: Muster, tmp_path: Path, subtests: pytest.Subtests) -> None:
        tour = self.make_tour(muster, tmp_path)
        for promise in (
            self.all_took_part,
            self.odd_arguments_and_environment_arrive_untouched,
            self.check_environment,
            self.every_line_of_every_process_arrives_once_and_in_order,
            self.every_line_was_seen_live,
            self.reports_show_while_it_runs,
            self.outputs_come_back,
            self.a_checkpoint_came_back_while_it_ran,
            self.nothing_is_left_outside_its_folders,
        ):
            with subtests.test(promise.__name__):
                promise(tour)

    @pytest.mark.parametrize(
        ("wish", "code"), [(3, 3), (77, 77), (-signal.SIGSEGV, 139), (-signal.SIGKILL, 137)], ids=str
    )
    def test_the_exit_code_comes_through(self, muster: Muster, wish: int, code: int) -> None:
        done = muster("run", self.job(muster, DEATH, args=[str(int(wish))]), check=code)
        assert f"{self.culprit} on" in done.stderr
        assert f"failed first, with exit code {code}" in done.stderr

    @pytest.mark.slow
    def test_a_failing_processs_traceback_is_what_the_user_sees_first(self, muster: Muster, tmp_path: Path) -> None:
        self.fails_visibly(muster, self.job(muster, FAILURE, env={"MEET": str(tmp_path)}))

    # --- jobs --------------------------------------------------------------------------------------------

    def job(self, muster: Muster, script: str, **fields: Any) -> Path:
        """A job of this framework whose script can import `team` and `talk`."""
        path = muster.job(script, self.framework, **{**self.fields, **fields})
        (path.parent / "code" / "team.py").write_text(self.team)
        (path.parent / "code" / "talk.py").write_text(TALK)
        return path

    def fails_visibly(self, muster: Muster, job: Path) -> None:
        done = muster("run", job, check=1)
        told = [line.removeprefix("muster: ") for line in done.stderr.splitlines() if line.startswith("muster: ")]
        start = next(number for number, line in enumerate(told) if "failed first" in line)
        assert told[start].startswith(f"{self.culprit} on "), told
        assert "Traceback (most recent call last)" in told[start + 1]
        assert "ValueError: the true cause" in "\n".join(told[start:])
        assert "lost a peer" not in done.stderr
        assert "by peer" not in done.stderr

    def make_tour(self, muster: Muster, tmp_path: Path) -> Tour:
        """Runs the tour with odd names and values everywhere, looks at it while it runs, and lets it end."""
        work_dir, leave, temporary = tmp_path / ODD_NAME, tmp_path / "leave", tmp_path / "tmp"
        temporary.mkdir()
        process = muster.start("run", self.tour_job(muster, work_dir, leave, tmp_path), TMPDIR=str(temporary), RANK="5")
        run = muster.run_id()
        folder = RunFolder(open_store(str(work_dir)), run)
        status = eventually(lambda: self.reported(muster, run), PATIENT)
        checkpoint = tmp_path / "checkpoint"
        checkpoint.mkdir()
        eventually(lambda: any(fetch_checkpoint(folder, node, checkpoint) for node in status["names"]), PATIENT)
        assert not folder.result()
        leave.touch()
        seen, told = process.communicate(timeout=PATIENT)
        assert process.returncode == 0, told
        return Tour(muster, run, work_dir, temporary, status, checkpoint, seen)

    def tour_job(self, muster: Muster, work_dir: Path, leave: Path, meet: Path) -> Path:
        odd = {f"ODD_{number}": value for number, value in enumerate(ODD)}
        # A path of the job's own must not take the code's place, which Dask's workers find `talk` by.
        library = meet / "lib"
        library.mkdir()
        (library / "elsewhere.py").touch()
        path = self.job(
            muster,
            TOUR,
            code=ODD_NAME,
            entry=f"{ODD_NAME}.py",
            work_dir=str(work_dir),
            args=list(ODD),
            env={
                **odd,
                "LEAVE": str(leave),
                "MEET": str(meet),
                "PYTHONPATH": str(library),
                "WATCHED": json.dumps([*odd, "MUSTER_RUN_ID", *self.watched]),
            },
        )
        code = (path.parent / "code").rename(path.parent / ODD_NAME)
        (code / "script.py").rename(code / f"{ODD_NAME}.py")
        return path

    def reported(self, muster: Muster, run: str) -> dict[str, Any] | None:
        """The run's status, once every process that runs the script has reported."""
        done = muster("status", run, "--json", check=None)
        if done.returncode:
            return None
        status: dict[str, Any] = json.loads(done.stdout)
        status["names"] = [node["node"] for node in status["nodes"]]
        status["reported"] = {name: values for node in status["nodes"] for name, values in node["reported"].items()}
        return status if self.scripts <= status["reported"].keys() else None

    # --- the promises ------------------------------------------------------------------------------------

    def all_took_part(self, tour: Tour) -> None:
        assert {record["name"] for record in tour.records} == self.scripts
        assert all(record["team"] == self.took_part for record in tour.records)

    def odd_arguments_and_environment_arrive_untouched(self, tour: Tour) -> None:
        for record in tour.records:
            assert record["argv"] == list(ODD)
            assert [record["env"][f"ODD_{number}"] for number in range(len(ODD))] == list(ODD)
            assert record["env"]["MUSTER_RUN_ID"] == tour.run
            assert record["script"] == f"{ODD_NAME}.py"

    def every_line_of_every_process_arrives_once_and_in_order(self, tour: Tour) -> None:
        heard: dict[tuple[str, str, str], list[str]] = {}
        for line in tour.lines():
            if line["text"].startswith(tuple(f"{name} {line['stream']}" for name in self.speakers)):
                heard.setdefault((line["node"], line["process"], line["stream"]), []).append(line["text"])
        expected = [_talk(name, stream) for name in sorted(self.speakers) for stream in ("err", "out")]
        found = sorted(heard.values())
        assert [(lines[0], len(lines)) for lines in found] == [(lines[0], len(lines)) for lines in expected]
        for lines, whole in zip(found, expected, strict=True):
            assert lines == whole

    def every_line_was_seen_live(self, tour: Tour) -> None:
        assert _by_speaker(tour.seen) == _by_speaker(tour.muster("logs", tour.run).stdout)

    def reports_show_while_it_runs(self, tour: Tour) -> None:
        assert tour.status["state"] == "running"
        assert all(tour.status["reported"][name] == {"step": 7, "loss": 0.25} for name in self.scripts)

    def outputs_come_back(self, tour: Tour) -> None:
        to = tour.work_dir / "fetched"
        found = json.loads(tour.muster("outputs", tour.run, "--to", to, "--json").stdout)
        assert found.keys() == self.scripts
        assert {path.read_text() for path in to.iterdir()} == self.scripts

    def a_checkpoint_came_back_while_it_ran(self, tour: Tour) -> None:
        assert (tour.checkpoint / "mödel #1" / "weights").read_bytes() == bytes(1000)

    def nothing_is_left_outside_its_folders(self, tour: Tour) -> None:
        assert not list(tour.temporary.iterdir())


def _talk(name: str, stream: str) -> list[str]:
    return [*(f"{name} {stream} {number}" for number in range(LINES)), f"{name} {stream}, at last"]


def _by_speaker(seen: str) -> dict[str, list[str]]:
    """The lines under each prefix, without Muster's own, which `run` shows elsewhere."""
    said: dict[str, list[str]] = {}
    for line in seen.splitlines():
        speaker = line.partition("] ")[0]
        if not speaker.endswith(" muster"):
            said.setdefault(speaker, []).append(line)
    return said


def result_of(muster: Muster, run: str) -> dict[str, Any]:
    """How the run ended, as `status` has it."""
    value: dict[str, Any] = json.loads(muster("status", run, "--json").stdout)["result"]
    return value


def said_by(process: subprocess.Popen[str], mark: str) -> str:
    """The first line with this mark that Muster says about a run that goes on."""
    assert process.stderr is not None
    return next(line for line in process.stderr if mark in line)
