"""The one door: its names, what it costs to open, the errors as they are drawn, and the verbs as functions."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import muster as door
from muster import errors
from tests.harness import PLUGINS, Muster, eventually, marked
from tests.node.hands import FOREVER, alive, heard, record_of, result_of, texts_of


def python(*words: str, **env: str) -> str:
    """What a Python of its own prints."""
    outer = {name: value for name, value in os.environ.items() if name != "MUSTER_REPORT"}
    done = subprocess.run([sys.executable, *words], env={**outer, **env}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.unit
def test_the_doors_names_are_sorted_and_each_is_there() -> None:
    assert door.__all__ == sorted(door.__all__)
    for name in door.__all__:
        assert getattr(door, name) is not None
    assert dir(door) == door.__all__


@pytest.mark.unit
def test_the_door_has_no_other_public_name() -> None:
    text = (
        "import muster, types\n"
        "for name in muster.__all__: getattr(muster, name)\n"
        "public = {name for name, value in vars(muster).items() if not name.startswith('_')\n"
        "          and not isinstance(value, types.ModuleType)}\n"
        "print(sorted((public | set(muster._DOOR)) - set(muster.__all__)))\n"
        "print(sorted(set(muster.__all__) - public - set(muster._DOOR)))\n"
    )
    # The two that it needs to be a door at all; `__version__` is public by custom.
    assert python("-c", text) == "['TYPE_CHECKING', 'import_module']\n['__version__']\n"


@pytest.mark.unit
def test_a_name_that_is_not_there_is_the_usual_error() -> None:
    with pytest.raises(AttributeError, match="module 'muster' has no attribute 'nothing'"):
        door.nothing  # noqa: B018


@pytest.mark.unit
def test_opening_the_door_loads_nothing_that_a_script_does_not_need() -> None:
    text = (
        "import sys\nbefore = set(sys.modules)\nimport muster\nmuster.report(step=1)\n"
        "print(*sorted(set(sys.modules) - before))\n"
    )
    # Without site-packages, with the sources alone: no third-party module can be loaded.
    sources = str(Path(door.__file__).parents[1])
    loaded = set(python("-S", "-c", text, PYTHONPATH=sources).split())
    assert "muster.report" in loaded
    assert (
        loaded & {"click", "yaml", "rich", "psutil", "asyncio", "json", "dataclasses", "typing", "subprocess"} == set()
    )
    assert {name for name in loaded if name.startswith("muster")} == {"muster", "muster.report"}


def drawn(text: str) -> dict[str, str]:
    """The parent of each class in a tree drawn with lines, by name."""
    above: list[str] = []
    parents: dict[str, str] = {}
    for line in text.splitlines():
        found = re.fullmatch(r" {4}((?:[│├└─ ]{4})*)([A-Z]\w+) {2,}\S.*", line)
        if found:
            depth = len(found[1]) // 4
            del above[depth:]
            parents[found[2]] = above[-1] if above else "Exception"
            above.append(found[2])
    return parents


@pytest.mark.unit
def test_the_errors_are_the_tree_that_is_drawn() -> None:
    def public_base(kind: type) -> str:
        return next(base.__name__ for base in kind.__mro__[1:] if not base.__name__.startswith("_"))

    real = {
        name: public_base(kind)
        for name, kind in vars(errors).items()
        if inspect.isclass(kind) and issubclass(kind, Exception) and not name.startswith("_")
    }
    assert drawn(errors.__doc__ or "") == real
    assert real["MusterError"] == "Exception"


@pytest.mark.unit
def test_every_error_says_in_its_drawing_what_its_class_says() -> None:
    for line in (errors.__doc__ or "").splitlines():
        found = re.fullmatch(r" {4}[│├└─ ]*([A-Z]\w+) {2,}(\S.*)", line)
        if found:
            said = (getattr(errors, found[1]).__doc__ or "").splitlines()[0].rstrip(".").replace("`", "").lower()
            assert said.startswith(found[2].lower()[:30]), found[1]


# --- the verbs as functions -------------------------------------------------------------------------------


@pytest.fixture
def here(muster: Muster, monkeypatch: pytest.MonkeyPatch) -> Muster:
    """The same world, for functions that are called in this process."""
    for name, value in muster.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.syspath_prepend(str(PLUGINS))
    return muster


def test_a_job_is_loaded_run_and_waited_for(here: Muster) -> None:
    run = door.run(door.load(here.job("import sys\nprint('well')\nsys.exit(4)", workers=1)))
    result = run.wait(60)
    assert (result.state, result.exit_code) == ("failed", 4)
    assert (run.id, run.work_dir) == (result.run, str(here.runs))
    assert set(texts_of(here, run.id)) == {"well"}
    assert [known.id for known in door.runs()] == [run.id]
    assert door.runs()[0].wait(1) == result


def test_a_plan_touches_nothing_and_mistakes_are_one_error(here: Muster) -> None:
    job = door.load(here.job("", workers=2))
    assert [node.name for node in door.plan(job).nodes] == ["main", "worker-1", "worker-2"]
    assert not here.home.exists()
    with pytest.raises(door.JobError) as caught:
        door.load(here.job("", workers="many", timeout="soon"))
    assert len(caught.value.problems) == 2
    assert isinstance(caught.value, door.MusterError)


def test_a_run_can_be_stopped_and_its_outputs_fetched(here: Muster, tmp_path: Path) -> None:
    script = "import pathlib\npathlib.Path('outputs/model').write_text('learnt')\n" + FOREVER
    run = door.run(door.load(here.job(script, workers=1)))
    heard(here, run.id, "here", times=2)
    assert run.poll() is None
    with pytest.raises(door.MusterError, match=r"has not ended within 0\.1 s"):
        run.wait(0.1)
    result = run.stop("seen enough")
    assert result is not None
    assert (result.state, result.detail) == ("stopped", "seen enough")
    assert run.stop() == result
    assert dict(run.outputs(tmp_path / "home-coming")) == {"model": 6}


def test_a_detached_run_outlives_the_process_that_started_it(here: Muster, mark: str) -> None:
    text = "import muster, sys\nprint(muster.run(muster.load(sys.argv[1]), detach=True).id)\n"
    run = door.Run.find(python("-c", text, str(here.job(FOREVER, workers=0))).strip())
    heard(here, run.id, "here")
    assert alive(record_of(here, run.id, "main")["pid"])
    run.stop()
    assert result_of(here, run.id)["state"] == "stopped"
    eventually(lambda: not marked(mark))


def test_a_run_that_is_not_detached_ends_with_its_process(here: Muster, mark: str) -> None:
    text = (
        "import muster, os, sys, time\n"
        "run = muster.run(muster.load(sys.argv[1]))\n"
        "log = os.path.join(run.work_dir, run.id, 'logs', 'main')\n"
        "while not os.path.isdir(log): time.sleep(0.02)\n"
        "print(run.id)\n"
    )
    assert python("-c", text, str(here.job(FOREVER, workers=1))).startswith("test-")
    eventually(lambda: not marked(mark), within=60)
