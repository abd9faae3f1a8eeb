"""A node that is started by its environment alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.errors import NodeError
from muster.spec.environment import Place, read_environment
from muster.spec.job import Job, Workers

pytestmark = pytest.mark.unit

BARE = {
    "WORK_DIR": "/mnt/runs",
    "CLUSTER_TYPE": "dask",
    "MODE": "WORKER",
    "MUSTER_RUN_ID": "mnist-1",
}
TIME_HELP = "    Write a number and ms, s, m, h or d, such as 90s, 10m or 1h30m; a plain number is seconds."


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def place(**more: str) -> Place:
    return read_environment({**BARE, **more})[0]


def job(**more: str) -> Job:
    return read_environment({**BARE, **more})[1]


def complaint(env: dict[str, str]) -> list[str]:
    with pytest.raises(NodeError) as caught:
        read_environment(env)
    first, *rest = str(caught.value).split("\n")
    assert first == "the environment does not say what this node is to do:"
    return rest


def test_little_is_needed_and_the_rest_has_the_jobs_defaults(here: Path) -> None:
    assert read_environment(BARE) == (
        Place("/mnt/runs", "mnist-1", "worker", node=None, rank=None, code_dir=str(here)),
        Job(name="mnist-1", framework="dask", code=None),
    )


def test_an_oracle_job_run_is_read_as_it_is() -> None:
    env = {
        "OCI__WORK_DIR": "oci://bucket@namespace/runs",
        "OCI__CLUSTER_TYPE": "PYTORCH",
        "OCI__MODE": "MAIN",
        "OCI__WORKER_COUNT": "3",
        "OCI__PS_COUNT": "0",
        "OCI__EPHEMERAL": "None",
        "OCI__ENTRY_SCRIPT": "/code/train.py",
        "OCI__ENTRY_SCRIPT_ARGS": "--data 'my set'",
        "OCI__ENTRY_SCRIPT_KWARGS": '["--lr", 0.10, "--fast", true, 3]',
        "OCI__START_ARGS": "--nthreads 2",
        "OCI__TIMEOUT": "300",
        "JOB_OCID": "ocid1.datasciencejob.oc1.iad.AmAAA",
        "JOB_RUN_OCID": "ocid1.datasciencejobrun.oc1.iad.bbb",
        "RANK": "0",
    }
    assert read_environment(env) == (
        Place("oci://bucket@namespace/runs", "ocid1.datasciencejob.oc1.iad.AmAAA", "main", None, 0, "/code"),
        Job(
            name="ocid1-datasciencejob-oc1-iad-amaaa",
            framework="pytorch",
            code=None,
            entry="train.py",
            args=("--data", "my set", "--lr", "0.10", "--fast", "true", "3"),
            workers=Workers(3, 3),
            timeout=300.0,
            options={"start_args": ["--nthreads", "2"]},
        ),
    )


def test_muster_beats_oci_beats_bare() -> None:
    spellings = {"MUSTER_TTL": "1h", "OCI__TTL": "2h", "TTL": "3h"}
    assert job(**spellings).ttl == 3600
    del spellings["MUSTER_TTL"]
    assert job(**spellings).ttl == 7200
    del spellings["OCI__TTL"]
    assert job(**spellings).ttl == 10800


def test_an_empty_variable_counts_as_given_and_means_the_default() -> None:
    assert job(MUSTER_ARGS="", OCI__ARGS="--a").args == ()
    assert job(WORKER_COUNT="").workers == Workers(1, 1)


@pytest.mark.parametrize("text", ["None", "", "1", "true", "TRUE", "yes", " 1 "])
def test_these_mean_that_the_cluster_ends_with_its_script(text: str) -> None:
    assert job(OCI__EPHEMERAL=text).ephemeral is True


@pytest.mark.parametrize("text", ["0", "False", "false", "No", "NO"])
def test_these_mean_that_the_cluster_stays(text: str) -> None:
    assert job(OCI__EPHEMERAL=text).ephemeral is False


@pytest.mark.parametrize(("mode", "role"), [("MAIN", "main"), ("Worker", "worker"), ("ps", "ps")])
def test_the_mode_is_read_in_any_case(mode: str, role: str) -> None:
    assert place(MODE=mode, EPHEMERAL="0").mode == role


@pytest.mark.parametrize(
    ("variables", "node"),
    [
        ({}, None),
        ({"RANK": "2"}, "worker-2"),
        ({"RANK": "2", "NODE": "left"}, "left"),
        ({"RANK": "2", "MODE": "PS"}, "ps-2"),
        ({"RANK": "0", "MODE": "MAIN", "EPHEMERAL": "0"}, None),
    ],
)
def test_a_node_has_the_name_it_was_given_or_that_of_its_rank(variables: dict[str, str], node: str | None) -> None:
    assert place(**variables).node == node


def test_the_runs_own_id_beats_the_jobs() -> None:
    assert place(JOB_OCID="ocid1.job").run == "mnist-1"
    assert place(MUSTER_RUN_ID="", JOB_OCID="ocid1.job").run == "ocid1.job"


def test_the_code_is_where_the_variable_or_the_entry_says(here: Path) -> None:
    def seen(**more: str) -> tuple[str, str | None]:
        found, work = read_environment({**BARE, **more})
        return found.code_dir, work.entry

    assert seen(ENTRY_POINT="train.py") == (str(here), "train.py")
    assert seen(ENTRY_POINT="/app/train.py") == ("/app", "train.py")
    assert seen(ENTRY_POINT="/app/src/train.py", CODE_DIR="/app") == ("/app", "src/train.py")
    assert seen(ENTRY_POINT="/opt/train.py", CODE_DIR="/app") == ("/app", "/opt/train.py")
    assert seen(ENTRY_POINT="train.py", CODE_DIR="src") == (str(here / "src"), "train.py")


def test_both_names_of_a_setting_may_say_the_same() -> None:
    assert job(ENTRY_POINT="a.py", OCI__ENTRY_SCRIPT="a.py").entry == "a.py"
    assert job(TIMEOUT="600", TIME_OUT="10m").timeout == 600
    assert job(nthread="2", nthreads="2").options == {"nthreads": 2}


def test_two_entries_are_a_mistake() -> None:
    assert complaint({**BARE, "OCI__ENTRY_SCRIPT": "a.py", "MUSTER_ENTRY_POINT": "b.py"}) == [
        "MUSTER_ENTRY_POINT and OCI__ENTRY_SCRIPT: these are names of one setting, and say different things",
        "    Keep one of them.",
    ]


def test_the_frameworks_own_settings_become_options() -> None:
    own = {"nprocs": "2", "nthread": "4", "death_timeout": "10", "WORKER_PORT": "12345", "START_ARGS": "--a 'b c'"}
    assert job(**own).options == {
        "nprocs": 2,
        "nthreads": 4,
        "death_timeout": 10.0,
        "port": 12345,
        "start_args": ["--a", "b c"],
    }


def test_processes_retries_servers_and_python(here: Path) -> None:
    found = job(PROCESSES="4", RETRIES="2", PS_COUNT="1", MUSTER_PYTHON=".venv/bin/python")
    assert (found.processes, found.retries, found.ps) == (4, 2, 1)
    assert found.python == str(here / ".venv/bin/python")
    assert job(PROCESSES="auto", MUSTER_PYTHON="python3.12").python == "python3.12"


def test_a_relative_work_dir_starts_at_the_current_folder(here: Path) -> None:
    assert place(WORK_DIR="runs").work_dir == str(here / "runs")
    assert place(WORK_DIR="file:///mnt/runs").work_dir == "/mnt/runs"


def test_an_empty_environment_is_told_all_that_is_needed() -> None:
    assert complaint({}) == [
        "WORK_DIR: not set",
        "    Set MUSTER_WORK_DIR, OCI__WORK_DIR or WORK_DIR. It is the folder or bucket where the nodes meet:"
        " /mnt/runs, oci://bucket@namespace/runs.",
        "MODE: not set",
        "    Set MUSTER_MODE, OCI__MODE or MODE. One node is MAIN, the others are WORKER or PS.",
        "MUSTER_RUN_ID: not set, and neither is JOB_OCID",
        "    Set MUSTER_RUN_ID to the same word on all nodes of the run, such as `mnist-1`.",
        "CLUSTER_TYPE: not set",
        "    Set MUSTER_CLUSTER_TYPE, OCI__CLUSTER_TYPE or CLUSTER_TYPE. It is the framework: dask, pytorch.",
    ]


def test_every_mistake_is_told_at_once_and_no_foreign_value_is_shown() -> None:
    env = {
        "OCI__WORK_DIR": "s3:/bucket",
        "OCI__MODE": "BOSS",
        "CLUSTER_TYPE": "py torch",
        "MUSTER_RUN_ID": "../other",
        "WORKER_COUNT": "-1",
        "EPHEMERAL": "maybe",
        "ARGS": "--password 'hunter2",
        "NAMED_ARGS": '[{"a": 1}]',
        "TIMEOUT": "soon",
        "TTL": "0",
        "RANK": "first",
        "WORKER_PORT": "70000",
        "PROCESSES": "0",
        "OCI__RUNTIME_TYPE": "git",
        "AWS_SECRET_ACCESS_KEY": "hunter3",
    }
    told = complaint(env)
    assert told == [
        "RUNTIME_URI: not set",
        "    Set MUSTER_RUNTIME_URI, OCI__RUNTIME_URI or RUNTIME_URI. It is where the code is:"
        " https://host/name.git, git@host:name.git, https://host/code.zip.",
        "OCI__WORK_DIR: expected a path or file://, s3://, oci://, gs://, az://, found 's3:/bucket'",
        "    It is the folder or bucket where the nodes meet: /mnt/runs, oci://bucket@namespace/runs.",
        "OCI__MODE: expected MAIN, WORKER or PS, found 'BOSS'",
        "    One node is MAIN, the others are WORKER or PS.",
        "RANK: expected a whole number of at least 0, found 'first'",
        "MUSTER_RUN_ID: expected letters, digits and . _ : - with a letter or digit in front, found '../other'",
        "    Use the same word on all nodes of the run, such as `mnist-1`.",
        "WORKER_COUNT: expected a whole number of at least 0, found '-1'",
        "CLUSTER_TYPE: expected letters, digits and . _ : - with a letter or digit in front, found 'py torch'",
        "    It is the framework: dask, pytorch.",
        "ARGS: expected words as a shell reads them: no closing quotation",
        '    Write words as a shell reads them, or a JSON array: ["--epochs", "3"].',
        "NAMED_ARGS: expected a JSON array of texts and numbers only",
        '    Write words as a shell reads them, or a JSON array: ["--epochs", "3"].',
        "PROCESSES: expected a whole number of at least 1, found '0'",
        "EPHEMERAL: expected 1 or 0, found 'maybe'",
        "    1: the cluster ends with its script. 0: it stays until its TTL or a stop.",
        "TIMEOUT: expected a duration above zero, found 'soon'",
        TIME_HELP,
        "TTL: expected a duration above zero, found '0'",
        TIME_HELP,
        "WORKER_PORT: expected a whole number from 1 to 65535, found '70000'",
    ]
    assert "hunter" not in "".join(told)


def test_an_ephemeral_main_needs_a_script_and_a_worker_does_not() -> None:
    assert complaint({**BARE, "MODE": "MAIN"}) == [
        "ENTRY_POINT: not set, and an ephemeral cluster ends with its script",
        "    Set ENTRY_POINT to the script, or EPHEMERAL to 0 for a cluster that stays until TTL or stop.",
    ]
    assert job(MODE="MAIN", EPHEMERAL="0").entry is None
    assert job(MODE="WORKER").entry is None


KNOWN = [
    "WORK_DIR",
    "MODE",
    "CLUSTER_TYPE",
    "EPHEMERAL",
    "ARGS",
    "TIMEOUT",
    "TIME_OUT",
    "RUN_ID",
    "NODE",
    "RANK",
    "nprocs",
]
spelled = st.builds(str.__add__, st.sampled_from(["MUSTER_", "OCI__", ""]), st.sampled_from(KNOWN))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.dictionaries(spelled, st.text(st.characters(exclude_characters="\0"), max_size=20)))
def test_any_environment_is_read_or_refused_in_words(more: dict[str, str]) -> None:
    try:
        found, work = read_environment({**BARE, **more})
    except NodeError:
        return
    assert found.mode in ("main", "worker", "ps")
    assert work.framework


HOROVOD = {
    "CLUSTER_TYPE": "HOROVOD",
    "MIN_NP": "2",
    "MAX_NP": "4",
    "SLOTS": "2",
    "START_TIMEOUT": "700",
    "START_ARGS": "--verbose",
    "HOROVOD_ARGS": "--cycle-time-ms 2",
    "ENABLE_TIMELINE": "0",
    "WORKER_PORT": "12345",
}


def test_horovods_own_variables_are_its_settings() -> None:
    found = job(**HOROVOD)
    assert (found.framework, found.processes) == ("horovod", 2)
    assert found.options == {
        "min_np": 2,
        "max_np": 4,
        "start_timeout": 700.0,
        "timeline": False,
        "port": 12345,
        "start_args": ["--verbose", "--cycle-time-ms", "2"],
    }


def test_to_other_frameworks_they_are_the_scripts_own() -> None:
    found = job(**{**HOROVOD, "CLUSTER_TYPE": "pytorch", "MIN_NP": "few"})
    assert found.processes is None
    assert found.options == {"port": 12345, "start_args": ["--verbose"]}


def test_slots_and_processes_are_names_of_one_setting() -> None:
    told = complaint({**BARE, **HOROVOD, "PROCESSES": "3"})
    assert told[0].startswith("PROCESSES and SLOTS: these are names of one setting")
