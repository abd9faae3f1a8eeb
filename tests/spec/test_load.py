"""A job file, or the same in Python, becomes a job; every mistake in it is told at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.errors import JobError
from muster.spec.facts import Frameworks
from muster.spec.job import Input, Job, Resources, Role, Workers
from muster.spec.load import check_job, job, load, load_text
from muster.spec.table import show

pytestmark = pytest.mark.unit

WHOLE = """\
# yaml-language-server: $schema=urn:musterpoint:job:1
name: mnist
framework: tensorflow
code: .
entry: train.py
args: ["--epochs", 3, --lr, 0.10]
env: {NCCL_DEBUG: WARN, VERSION: 1.10, FAST: yes}
secrets: [WANDB_API_KEY]
workers: 3
ps: {count: 2, env: {ROLE: ps}, resources: {cpus: 2}}
processes: auto
resources: {gpus: 1, gpu: A100, cpus: 8, memory: 32GB, disk: 100GiB}
image: registry/team/train:1
requirements: requirements.txt
inputs: {data: s3://bucket/set, local: models}
outputs: results/out
checkpoints: checkpoints
ephemeral: true
timeout: 10m
ttl: 8h
retries: 2
main: {computes: false, env: {ROLE: main}, image: small}
worker: {image: large}
tags: {team: vision, year: 2024}
work_dir: s3://bucket/runs
"""


def test_the_smallest_job_has_the_defaults(project: Path) -> None:
    found = load_text("{name: mnist, framework: pytorch, entry: train.py}", "job.yaml", project)
    assert found == Job(name="mnist", framework="pytorch", entry="train.py", code=str(project))


def test_every_setting_of_a_job_file_is_read(project: Path, frameworks: Frameworks) -> None:
    (project / "job.yaml").write_text(WHOLE)
    assert load(project / "job.yaml", frameworks) == Job(
        name="mnist",
        framework="tensorflow",
        code=str(project),
        entry="train.py",
        args=("--epochs", "3", "--lr", "0.10"),
        env={"NCCL_DEBUG": "WARN", "VERSION": "1.10", "FAST": "yes"},
        secrets=("WANDB_API_KEY",),
        workers=Workers(3, 3),
        ps=2,
        resources=Resources(gpus=1, gpu="A100", cpus=8, memory=32 * 10**9, disk=100 * 2**30),
        image="registry/team/train:1",
        requirements=str(project / "requirements.txt"),
        inputs={"data": Input("s3://bucket/set"), "local": Input(str(project / "models"))},
        outputs="results/out",
        timeout=600.0,
        ttl=8 * 3600.0,
        retries=2,
        roles={
            "main": Role(computes=False, env={"ROLE": "main"}, image="small"),
            "worker": Role(image="large"),
            "ps": Role(env={"ROLE": "ps"}, resources=Resources(cpus=2)),
        },
        tags={"team": "vision", "year": "2024"},
        work_dir="s3://bucket/runs",
    )


def test_the_job_that_was_read_survives_its_own_record(project: Path, frameworks: Frameworks) -> None:
    found = load_text(WHOLE, "job.yaml", project, frameworks)
    assert Job.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_paths_start_at_the_folder_of_the_file_wherever_the_user_stands(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "models" / "job.yaml").write_text(
        "{name: a, framework: dask, code: .., entry: train.py, requirements: ../requirements.txt,"
        " work_dir: ~/runs, python: python3}"
    )
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.chdir("/")
    found = load(project / "models" / "job.yaml")
    assert (found.code, found.entry) == (str(project), "train.py")
    assert found.requirements == str(project / "requirements.txt")
    assert found.work_dir == "/home/ada/runs"
    assert found.python == "python3"


@pytest.mark.parametrize(
    "code",
    [
        "https://host/name.git#3f2c1a9",
        "git+https://host/name#main",
        "https://host/code.zip",
        "git@host:team/name.git",
        "s3://bucket/code.tar.gz",
        "oci://b@ns/c.zip",
        "image:/app",
    ],
)
def test_code_that_is_elsewhere_stays_as_it_is_written(project: Path, code: str) -> None:
    found = load_text(f"{{name: a, framework: dask, entry: any.py, code: '{code}'}}", "job.yaml", project)
    assert found.code == code


def test_a_file_url_is_a_path(project: Path) -> None:
    (project / "my code").mkdir()
    (project / "my code" / "a.py").touch()
    text = f"{{name: a, framework: dask, entry: a.py, code: 'file://{project}/my%20code'}}"
    assert load_text(text, "job.yaml", project).code == str(project / "my code")


def test_code_that_is_one_script_is_its_own_entry(project: Path) -> None:
    found = load_text("{name: a, framework: dask, code: train.py}", "job.yaml", project)
    assert (found.code, found.entry) == (str(project / "train.py"), "train.py")


def test_a_repository_of_this_machine_is_named_from_the_folder_of_the_job_file(project: Path) -> None:
    found = load_text("{name: a, framework: dask, entry: a.py, code: git+../repo#v1}", "job.yaml", project)
    assert found.code == f"git+{project.parent}/repo#v1"


def test_a_script_on_the_web_is_its_own_entry(project: Path) -> None:
    found = load_text("{name: a, framework: dask, code: 'https://host/a/train.py'}", "job.yaml", project)
    assert (found.code, found.entry) == ("https://host/a/train.py", "train.py")


def test_null_takes_a_default_away(project: Path) -> None:
    text = "{name: a, framework: dask, entry: train.py, outputs: null, checkpoints: null, ttl: null}"
    found = load_text(text, "job.yaml", project)
    assert (found.outputs, found.checkpoints, found.ttl) == (None, None, None)


def test_a_cluster_that_stays_needs_no_entry(project: Path) -> None:
    found = load_text("{name: a, framework: dask, ephemeral: false}", "job.yaml", project)
    assert found.entry is None


def test_the_frameworks_own_options_are_read_with_its_own_kinds(project: Path, frameworks: Frameworks) -> None:
    text = """\
name: a
framework: dask
entry: train.py
options: {nthreads: 2, death_timeout: 1m, start_args: [--memory-limit, 4]}
worker: {options: {nthreads: 4}}
"""
    found = load_text(text, "job.yaml", project, frameworks)
    assert found.options == {"nthreads": 2, "death_timeout": 60.0, "start_args": ["--memory-limit", "4"]}
    assert found.options_of("worker")["nthreads"] == 4
    assert Job.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_without_frameworks_any_framework_and_option_will_do(project: Path) -> None:
    text = "{name: a, framework: ray, entry: train.py, options: {x: [1, {y: 2}]}, ps: 1}"
    assert load_text(text, "job.yaml", project).options == {"x": [1, {"y": 2}]}


def test_a_job_file_may_begin_with_a_byte_order_mark(project: Path) -> None:
    (project / "job.yaml").write_bytes("{name: a, framework: dask, entry: train.py}".encode("utf-8-sig"))
    assert load("job.yaml").name == "a"


# In Python.


def test_a_job_made_in_python_is_the_job_of_the_file(project: Path) -> None:
    made = job(
        name="mnist",
        framework="pytorch",
        entry=Path("train.py"),
        workers=3,
        args=["--lr", 0.1],
        timeout="10m",
        ttl=3600,
        resources={"memory": "32GB"},
        main=Role(computes=False),
    )
    text = """\
name: mnist
framework: pytorch
entry: train.py
workers: 3
args: [--lr, 0.1]
timeout: 10m
ttl: 1h
resources: {memory: 32GB}
main: {computes: false}
"""
    assert made == load_text(text, "job.yaml", project)


@pytest.mark.parametrize("workers", [Workers(0, 0), Workers(2, 2), Workers(1, 8)])
def test_workers_may_be_given_as_the_value_they_become(project: Path, workers: Workers) -> None:
    assert job(name="a", framework="dask", entry="train.py", workers=workers).workers == workers


def test_mistakes_made_in_python_are_told_without_a_line(project: Path) -> None:
    with pytest.raises(JobError) as caught:
        job(name="a", framework="dask", entry="train.py", wrokers=3, timeout="soon")
    assert str(caught.value) == (
        "wrokers: there is no such setting in a job\n    Did you mean `workers`?\n"
        "timeout: expected a duration above zero, found the text 'soon'\n"
        "    Write a number and ms, s, m, h or d, such as 90s, 10m or 1h30m; a plain number is seconds."
    )


def test_a_job_that_was_read_has_no_mistakes_and_shows_as_a_file_would_say_it(
    project: Path, frameworks: Frameworks
) -> None:
    found = load_text(WHOLE, "job.yaml", project, frameworks)
    assert check_job(found, frameworks) == []
    assert load_text(yaml.safe_dump(show(found)), "job.yaml", project, frameworks) == found


def test_a_shown_job_says_only_what_differs_from_the_defaults() -> None:
    shown = show(Job(name="a", framework="dask", entry="x.py", ttl=5400.0, workers=Workers(1, 4)))
    assert shown == {
        "name": "a",
        "framework": "dask",
        "entry": "x.py",
        "ttl": "1h30m",
        "workers": {"min": 1, "max": 4},
    }


def test_a_job_put_together_by_hand_is_checked_like_a_file(project: Path, frameworks: Frameworks) -> None:
    wrong = Job(
        name="A",
        framework="tensorflow",
        entry="trian.py",
        workers=Workers(1, 4),
        retries=-1,
        timeout=0.0,
        roles={"chief": Role(), "worker": Role(computes=False)},
        outputs="/tmp",
    )
    fields = [problem.field for problem in check_job(wrong, frameworks)]
    assert sorted(fields) == sorted(
        ["chief", "entry", "name", "outputs", "retries", "timeout", "worker.computes", "workers"]
    )
    assert all(problem.line == 0 for problem in check_job(wrong, frameworks))


# Whatever is given, the answer is a job or a JobError.

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.binary(max_size=3)
names = st.sampled_from([*show(Job(name="a", framework="b")), *Job.__dataclass_fields__, "main", "worker", "kind"])
keys = names | st.sampled_from(["min", "max", "count", "env", "memory", "<<"]) | st.text(max_size=5)
junk = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)


def outcome(attempt: Any) -> None:
    try:
        assert isinstance(attempt(), Job)
    except JobError as error:
        told = error
    else:
        return
    assert told.problems
    assert all(problem.message for problem in told.problems)


relaxed = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@relaxed
@given(st.dictionaries(keys, junk, max_size=6))
def test_any_junk_in_python_is_a_job_error(project: Path, fields: dict[str, Any]) -> None:
    outcome(lambda: job(**fields))


@relaxed
@given(st.dictionaries(keys, junk, max_size=6))
def test_any_junk_in_a_file_is_a_job_error(project: Path, frameworks: Frameworks, fields: dict[str, Any]) -> None:
    base = {"name": "a", "framework": "tensorflow", "entry": "train.py"}
    outcome(lambda: load_text(yaml.dump({**base, **fields}), "job.yaml", project, frameworks))


@relaxed
@given(st.text())
def test_any_text_is_a_job_error(project: Path, text: str) -> None:
    outcome(lambda: load_text(text, "job.yaml", project))
