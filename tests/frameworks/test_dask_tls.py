"""Dask with certificates: every program and every client is told of them, and half of them are a mistake."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from muster.errors import JobError
from muster.frameworks.base import Certificates, Port, Scene
from muster.frameworks.dask import Dask
from muster.frameworks.registry import Known
from muster.spec.job import Job, Role, Workers
from muster.spec.load import checked
from muster.spec.nodes import Scalar
from muster.spec.problems import Problems
from muster.spec.switch import Switch
from tests.frameworks.scenes import scene

pytestmark = pytest.mark.unit

FILES = {"tls_ca_file": "ca.pem", "tls_cert": "/etc/cert.pem", "tls_key": "keys/key.pem"}
LAID_OUT = Certificates(*(Path("/node/tls") / name for name in ("ca.pem", "cert.pem", "key.pem")))
WORDS = "--protocol tls --tls-ca-file /node/tls/ca.pem --tls-cert /node/tls/cert.pem --tls-key /node/tls/key.pem"
SETTINGS = {
    "DASK_DISTRIBUTED__COMM__TLS__CA_FILE": "/node/tls/ca.pem",
    "DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT": "/node/tls/cert.pem",
    "DASK_DISTRIBUTED__COMM__TLS__CLIENT__KEY": "/node/tls/key.pem",
    "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "true",
}
JOB = Job(name="j", framework="dask", entry="train.py", code=None, workers=Workers(2, 2))


def over_tls(node: str = "main") -> Scene:
    return scene(JOB, node, certificates=LAID_OUT)


def test_scheduler_and_workers_speak_tls() -> None:
    (scheduler,), (worker,) = Dask().services(over_tls()), Dask().services(over_tls("worker-1"))
    assert " ".join(scheduler.argv).endswith(WORDS)
    assert "tls://10.0.0.1:8786" in worker.argv
    assert WORDS in " ".join(worker.argv)
    # A task may open a client too.
    assert scheduler.env == worker.env == SETTINGS


def test_without_certificates_nothing_is_said_of_tls() -> None:
    commands = [*Dask().services(scene(JOB)), *Dask().services(scene(JOB, "worker-1")), *Dask().scripts(scene(JOB))]
    assert "tls" not in str(commands).lower()
    assert "tcp://10.0.0.1:8786" in commands[1].argv


def test_the_script_finds_the_certificates_by_dasks_own_settings_and_the_scheme_where_ads_has_it() -> None:
    (script,) = Dask().scripts(over_tls())
    assert script.env == {
        "DASK_SCHEDULER_ADDRESS": "tls://10.0.0.1:8786",
        "SCHEDULER_IP": "tls://10.0.0.1",
        "SCHEDULER_PORT": "8786",
        **SETTINGS,
    }


def test_workers_are_retired_over_tls() -> None:
    command = Dask().retire(over_tls(), ["worker-2"])
    assert command is not None
    assert command.argv[-2:] == ("tls://10.0.0.1:8786", "worker-2")
    assert command.env == SETTINGS


@pytest.mark.parametrize(
    ("options", "wished", "on"),
    [
        ({}, False, False),
        ({}, True, True),
        ({"tls": "auto"}, True, True),
        ({"tls": "auto"}, False, False),
        ({"tls": True}, False, True),
        ({"tls": False}, True, False),
        (FILES, False, True),
        ({**FILES, "tls": "auto"}, False, True),
    ],
)
def test_what_the_job_says_comes_before_what_the_target_wishes(
    options: dict[str, object], wished: bool, on: bool
) -> None:
    assert Dask().encrypts(replace(JOB, options=options), wished) is on


def test_the_files_that_a_role_names_are_its_own() -> None:
    job = replace(JOB, options=FILES, roles={"main": Role(options={"tls_key": "/main.pem"})})
    assert Dask().certificate_files(job, "main") == ("ca.pem", "/etc/cert.pem", "/main.pem")
    assert Dask().certificate_files(job, "worker") == ("ca.pem", "/etc/cert.pem", "keys/key.pem")
    assert Dask().certificate_files(JOB, "main") is None


@pytest.mark.parametrize(("value", "raw"), [(True, "yes"), (False, "no"), ("auto", "auto")])
def test_tls_is_on_or_off_or_left_open(value: bool | str, raw: str) -> None:
    problems = Problems()
    assert Switch().read(Scalar(value, raw), "options.tls", problems) is value
    assert Switch().show(value) is value
    assert problems.found() == []


def test_tls_is_nothing_else() -> None:
    problems = Problems()
    Switch().read(Scalar("always", "always"), "options.tls", problems)
    (problem,) = problems.found()
    assert problem.message == "expected true, false or auto, found the text 'always'"


@pytest.mark.parametrize(
    ("options", "roles", "field", "message"),
    [
        ({"tls": False, **FILES}, {}, "options.tls", "tls is false, and tls_ca_file, tls_cert, tls_key are for TLS"),
        ({}, {"worker": Role(options={"tls": True})}, "worker.options.tls", "TLS is on or off for the whole cluster"),
        (
            {"tls": True},
            {"main": Role(options={"tls": False})},
            "main.options.tls",
            "TLS is on or off for the whole cluster",
        ),
    ],
)
def test_what_contradicts_itself_is_a_mistake(
    options: dict[str, object], roles: dict[str, Role], field: str, message: str
) -> None:
    with pytest.raises(JobError) as caught:
        checked(replace(JOB, options=options, roles=roles, entry=None, ephemeral=False), Known())
    (problem,) = caught.value.problems
    assert (problem.field, problem.message) == (field, message)


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
