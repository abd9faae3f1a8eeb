"""Dask with certificates: every program and every client is told of them, and half of them are a mistake."""

from __future__ import annotations

import pytest

from muster.errors import JobError
from muster.frameworks.base import Port
from muster.frameworks.dask import Dask
from muster.frameworks.registry import Known
from muster.spec.job import Job, Role, Workers
from muster.spec.load import checked
from tests.frameworks.scenes import scene

pytestmark = pytest.mark.unit

FILES = {"tls_ca_file": "ca.pem", "tls_cert": "/etc/cert.pem", "tls_key": "keys/key.pem"}
WORDS = ("--tls-ca-file", "/node/code/ca.pem", "--tls-cert", "/etc/cert.pem", "--tls-key", "/node/code/keys/key.pem")
SETTINGS = {
    "DASK_DISTRIBUTED__COMM__TLS__CA_FILE": "/node/code/ca.pem",
    "DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT": "/etc/cert.pem",
    "DASK_DISTRIBUTED__COMM__TLS__CLIENT__KEY": "/node/code/keys/key.pem",
}
JOB = Job(name="j", framework="dask", entry="train.py", code=None, workers=Workers(2, 2), options=FILES)


def test_scheduler_and_workers_speak_tls() -> None:
    (scheduler,), (worker,) = Dask().services(scene(JOB)), Dask().services(scene(JOB, "worker-1"))
    assert scheduler.argv[-6:] == WORDS
    assert "tls://10.0.0.1:8786" in worker.argv
    assert " ".join(WORDS) in " ".join(worker.argv)
    # A task may open a client too.
    assert scheduler.env == worker.env == SETTINGS


def test_the_script_finds_the_certificates_by_dasks_own_settings_and_the_scheme_where_ads_has_it() -> None:
    (script,) = Dask().scripts(scene(JOB))
    assert script.env == {
        "DASK_SCHEDULER_ADDRESS": "tls://10.0.0.1:8786",
        "SCHEDULER_IP": "tls://10.0.0.1",
        "SCHEDULER_PORT": "8786",
        **SETTINGS,
    }


def test_workers_are_retired_over_tls() -> None:
    command = Dask().retire(scene(JOB), ["worker-2"])
    assert command is not None
    assert command.argv[-2:] == ("tls://10.0.0.1:8786", "worker-2")
    assert command.env == SETTINGS


@pytest.mark.parametrize(
    ("options", "roles", "field"),
    [
        ({"tls_cert": "a"}, {}, "options"),
        ({"tls_ca_file": "a", "tls_cert": "b"}, {"main": Role(options={"tls_key": "c"})}, "options"),
        ({}, {"main": Role(options=FILES)}, "main.options"),
        ({}, {"worker": Role(options=FILES)}, "worker.options"),
    ],
)
def test_half_of_the_certificates_are_a_mistake(options: dict[str, str], roles: dict[str, Role], field: str) -> None:
    job = Job(name="j", framework="dask", code=None, ephemeral=False, options=options, roles=roles)
    with pytest.raises(JobError) as caught:
        checked(job, Known())
    (problem,) = caught.value.problems
    assert problem.field == field
    assert problem.message == "TLS takes tls_ca_file, tls_cert, tls_key, all three, on main and on the workers"


def test_main_alone_needs_no_other() -> None:
    job = Job(
        name="j",
        framework="dask",
        code=None,
        ephemeral=False,
        workers=Workers(0, 0),
        roles={"main": Role(options=FILES)},
    )
    assert checked(job, Known()) == job


def test_main_has_start_arguments_of_its_own() -> None:
    job = Job(
        name="j",
        framework="dask",
        options={"start_args": ["--memory-limit", "1GB"]},
        roles={"main": Role(options={"start_args": ["--idle-timeout", "60"]})},
    )
    (scheduler,), (worker,) = Dask().services(scene(job)), Dask().services(scene(job, "worker-1"))
    assert scheduler.argv[-2:] == ("--idle-timeout", "60")
    assert worker.argv[-2:] == ("--memory-limit", "1GB")
    plain = Job(name="j", framework="dask", options={"start_args": ["--memory-limit", "1GB"]})
    assert "--memory-limit" not in Dask().services(scene(plain))[0].argv


@pytest.mark.parametrize(
    "words", [["--worker-port", "9000:9010", "--nanny-port=9020"], ["--nanny-port", "9020", "--worker-port=9000:9010"]]
)
def test_ports_of_the_workers_hold_where_a_node_has_a_machine_of_its_own(words: list[str]) -> None:
    job = Job(name="j", framework="dask", options={"start_args": [*words, "--no-nanny"]})
    assert Dask().ports(job, "worker") == (Port("workers", 9000, 9010), Port("nannies", 9020))
    (fixed,), (free,) = (Dask().services(scene(job, "worker-1", fixed_ports=known)) for known in (True, False))
    assert fixed.argv[-5:] == ("--worker-port", "9000:9010", "--nanny-port", "9020", "--no-nanny")
    assert not {"--worker-port", "--nanny-port"} & set(free.argv)
    assert free.argv[-1] == "--no-nanny"
