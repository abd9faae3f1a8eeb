"""What Dask would start, as whole values."""

from __future__ import annotations

import pytest

from muster.frameworks.base import Command, HttpCount, Port
from muster.frameworks.dask import Dask
from muster.spec.job import Job, Role, Workers
from tests.frameworks.scenes import scene

pytestmark = pytest.mark.unit

JOB = Job(name="j", framework="dask", entry="train.py", args=("two words", "$HOME"), workers=Workers(2, 2))
DEFAULTS = {"DASK_LOGGING__DISTRIBUTED": "warning", "DASK_TEMPORARY_DIRECTORY": "/node/dask"}


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def test_main_runs_the_scheduler() -> None:
    argv = words(
        "/usr/bin/python3 -m distributed.cli.dask_scheduler --host 10.0.0.1 --port 8786 "
        "--dashboard-address 10.0.0.1:8787"
    )
    assert Dask().services(scene(JOB)) == (Command("scheduler", argv, defaults=DEFAULTS),)


def test_main_runs_the_script_with_dasks_own_setting_and_the_names_that_ads_gives() -> None:
    env = {
        "DASK_SCHEDULER_ADDRESS": "tcp://10.0.0.1:8786",
        "SCHEDULER_IP": "10.0.0.1",
        "SCHEDULER_PORT": "8786",
    }
    argv = ("/usr/bin/python3", "/node/code/train.py", "two words", "$HOME")
    assert Dask().scripts(scene(JOB)) == (Command("script", argv, env, script=True),)


def test_a_worker_runs_a_dask_worker_on_the_ports_that_a_network_opens() -> None:
    argv = words(
        "/usr/bin/python3 -m distributed.cli.dask_worker tcp://10.0.0.1:8786 --no-dashboard "
        "--dashboard-address 10.0.0.3:0 --name worker-2 --local-directory /node/dask --host 10.0.0.3 --nworkers 1 "
        "--nthreads 1 --death-timeout 60.0 --worker-port 8700:8800 --nanny-port 3000:3100"
    )
    assert Dask().services(scene(JOB, "worker-2")) == (Command("worker", argv, defaults=DEFAULTS),)
    assert Dask().scripts(scene(JOB, "worker-2")) == ()


def test_a_workers_options_are_the_jobs_with_its_roles_laid_over() -> None:
    options = {"nthreads": 4, "death_timeout": 9.0, "start_args": ["--memory-limit", "1GB"]}
    job = Job(name="j", framework="dask", processes=3, options=options, roles={"worker": Role(options={"nthreads": 2})})
    (command,) = Dask().services(scene(job, "worker-1", fixed_ports=False))
    assert command.argv[command.argv.index("--host") :] == words(
        "--host 10.0.0.2 --nworkers 3 --nthreads 2 --death-timeout 9.0 --memory-limit 1GB"
    )


def test_a_cluster_without_a_script_starts_none() -> None:
    assert Dask().scripts(scene(Job(name="j", framework="dask", ephemeral=False))) == ()


def test_it_is_ready_when_every_process_of_every_worker_has_registered() -> None:
    probe = Dask().ready(scene(Job(name="j", framework="dask", processes=2)), least=3)
    assert probe == HttpCount("http://10.0.0.1:8787/json/counts.json", "workers", 6)


def test_its_dashboard_is_worth_showing() -> None:
    assert Dask().links(scene(JOB)) == {"dashboard": "http://10.0.0.1:8787/status"}


def test_its_ports_are_dasks_own_or_those_of_the_job() -> None:
    assert Dask().ports(JOB, "main") == (Port("scheduler", 8786), Port("dashboard", 8787))
    assert Dask().ports(JOB, "worker") == (Port("workers", 8700, 8800), Port("nannies", 3000, 3100))
    assert Dask().open_ports(JOB) == "8786, 8787, 8700-8800, 3000-3100"
    moved = Job(name="j", framework="dask", options={"port": 1, "dashboard_port": 2})
    assert Dask().ports(moved, "main") == (Port("scheduler", 1), Port("dashboard", 2))


@pytest.mark.parametrize(
    ("job", "gpus", "count"),
    [
        (Job(name="j", framework="dask"), 0, 1),
        (Job(name="j", framework="dask"), 4, 4),
        (Job(name="j", framework="dask", options={"nprocs": 3}), 4, 3),
        (Job(name="j", framework="dask", options={"nprocs": 3}, processes=2), 4, 2),
    ],
)
def test_a_workers_processes(job: Job, gpus: int, count: int) -> None:
    assert Dask().processes(job, gpus) == count


def test_a_closed_connection_is_a_complaint_and_a_scripts_own_error_is_not() -> None:
    assert Dask().complaint(["Traceback", "distributed.comm.core.CommClosedError: in <TCP>"])
    assert not Dask().complaint(["Traceback", "ValueError: too large"])
