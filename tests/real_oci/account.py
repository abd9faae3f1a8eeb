"""A real account as the tests see it: the target's place for the contract, and jobs made by hand."""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from muster import launching
from muster.clouds.oci_services import Services
from muster.errors import LaunchError
from muster.spec.config import Target, load_config
from muster.spec.job import Job, Workers
from muster.targets.base import RUN, Plan
from muster.targets.oci import Oci
from muster.targets.oci_jobs import FINAL
from muster.targets.oci_payloads import UNTIL, rendered
from tests.harness import Muster, eventually
from tests.targets.target_contract import WAITS, job

TARGET = "MUSTER_TEST_OCI_TARGET"
PATIENCE = float(os.environ.get("MUSTER_TEST_OCI_PATIENCE") or 20)
_PASSED_ON = ("OCI_", "MUSTER_OCI_")
"""How the SDK and the command find the account."""


@dataclass(frozen=True)
class Account:
    target: Target

    @property
    def oci(self) -> Oci:
        return Oci(self.target)

    @property
    def bucket(self) -> tuple[str, str]:
        """Namespace and bucket of the target's work dir."""
        place = str(self.target.work_dir).partition("://")[2].partition("/")[0]
        bucket, _, namespace = place.partition("@")
        return namespace, bucket

    def services(self, profile: str | None = None) -> Services:
        """As the user of the target, or of another profile."""
        options = {**self.target.options, **({"profile": profile, "auth": "api_key"} if profile else {})}
        return Oci(replace(self.target, options=options)).services


def account_of() -> Account:
    path = os.environ.get(TARGET)
    if not path:
        pytest.skip(f"{TARGET} is not set: it names a muster.toml with a target of the kind oci and an image")
    found = [one for one in load_config(Path(path).parent).targets.values() if one.kind == "oci"]
    assert found, f"{path} has no target of the kind oci"
    assert found[0].options.get("image"), f"[targets.{found[0].name}] of {path} names no image"
    return Account(found[0])


def patient(wait: Callable[..., Any]) -> Callable[..., Any]:
    """Machines of a cloud take minutes to start, and as long to end."""
    return lambda look, within=30.0: wait(look, within * PATIENCE)


class _Popen(subprocess.Popen[str]):
    def communicate(self, input: str | None = None, timeout: float | None = None) -> tuple[str, str]:  # noqa: A002
        return super().communicate(input, None if timeout is None else timeout * PATIENCE)


class PatientMuster(Muster):
    def __call__(self, *words: str | Path, check: int | None = 0, **env: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.argv(*words),
            env={**self.env, **env},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=240 * PATIENCE,
        )
        if check is not None:
            assert done.returncode == check, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def start(self, *words: str | Path, **env: str) -> subprocess.Popen[str]:
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        environment = {**self.env, **env}
        process = _Popen(self.argv(*words), env=environment, cwd=self.folder, start_new_session=True, **pipes)
        self.started.append(process)
        return process


@dataclass
class Real:
    """The target of the account, as the contract asks for it."""

    muster: Muster
    account: Account
    on: str
    fields: dict[str, Any] = field(default_factory=lambda: {"framework": "pytorch"})
    remote: bool = True

    @classmethod
    def of(cls, muster: Muster, account: Account) -> Real:
        env = {name: value for name, value in os.environ.items() if name.startswith(_PASSED_ON)}
        patient_one = PatientMuster(muster.home, muster.folder, {**muster.env, **env}, muster.started)
        config_home = muster.folder.parent / "config"
        config_home.mkdir()
        (config_home / "muster").symlink_to(Path(os.environ[TARGET]).absolute().parent)
        patient_one.env["XDG_CONFIG_HOME"] = str(config_home)
        return cls(patient_one, account, account.target.name)

    def left(self) -> list[str]:
        """Jobs and job runs of the runs that were launched here; the account may have others."""
        own = {one.stem for one in (self.muster.home / "index").glob("*.json")}
        jobs = self.account.oci.jobs
        found = []
        for one in jobs.tagged():
            if one["freeformTags"]["muster-run"] in own:
                found.append(str(one["displayName"]))
                found += [run["displayName"] for run in jobs.runs(one["id"]) if run["lifecycleState"] not in FINAL]
        return found

    def refused(self, number: int) -> str:
        """The n-th run asks for a shape that there is not."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.muster.env.items():
                patch.setenv(name, value)
            plan = launching.plan(launching.load(job(self, WAITS, workers=3)), self.on, self.muster.folder)
            with pytest.raises(LaunchError) as refusal:
                launching.start(_with_odd_shape(plan, number))
        return str(refusal.value)

    def kill(self, run: str, node: str) -> None:
        raise NotImplementedError("nobody can pull the plug of a machine in a cloud")

    def end(self) -> None:
        """Whatever became of the test, nothing of it stays."""
        for path in (self.muster.home / "index").glob("*.json"):
            self.muster("stop", path.stem, check=None)
        self.muster("sweep", "--on", self.on, check=None)


def _with_odd_shape(plan: Plan, number: int) -> Plan:
    resources = list(plan.resources)
    infrastructure = resources[0].payload["jobInfrastructureConfigurationDetails"]
    odd = {**infrastructure, "shapeName": "VM.Standard.NoSuch1"}
    payload = {**resources[number].payload, "jobInfrastructureConfigurationOverrideDetails": odd}
    resources[number] = replace(resources[number], payload=payload)
    return replace(plan, resources=tuple(resources))


class Made:
    """Jobs of one command each, made without a launcher."""

    def __init__(self, account: Account) -> None:
        self.account, self.services = account, account.services()
        self.name = f"muster-test-{uuid.uuid4().hex[:8]}"
        self._jobs: list[str] = []

    def ask(self, operation: str, *values: Any, **settings: Any) -> Any:
        return self.services.call("data_science", operation, *values, **settings).data

    def payload(self, command: str, **configuration: Any) -> dict[str, Any]:
        """A job that runs a line of the shell in the image."""
        options = self.account.target.options
        plan = self.account.oci.plan(
            Job(name="test", framework="pytorch", code=None, entry="x", workers=Workers(0, 0), image=options["image"])
        )
        made: dict[str, Any] = json.loads(json.dumps(rendered(plan.resources[0].payload, {RUN: self.name, UNTIL: "0"})))
        made["jobConfigurationDetails"] = {"jobType": "DEFAULT", **configuration}
        made["jobEnvironmentConfigurationDetails"] |= {"entrypoint": ["/bin/sh", "-c"], "cmd": [command]}
        return made

    def job(self, command: str, **configuration: Any) -> str:
        """A job that is active; its OCID."""
        return self.keep(self.ask("create_job", self.payload(command, **configuration), opc_retry_token=self.name))

    def keep(self, job: Any) -> str:
        self._jobs.append(job["id"])
        self.wait(lambda: self.ask("get_job", job["id"])["lifecycleState"] == "ACTIVE")
        return str(job["id"])

    def run(self, job: str, **configuration: Any) -> str:
        where = {name: self.payload("")[name] for name in ("projectId", "compartmentId")}
        override = {"jobType": "DEFAULT", **configuration}
        said = {**where, "jobId": job, "displayName": self.name, "jobConfigurationOverrideDetails": override}
        return str(self.ask("create_job_run", said, opc_retry_token=f"{self.name}-run")["id"])

    def state(self, run: str) -> str:
        return str(self.ask("get_job_run", run)["lifecycleState"])

    def end_of(self, run: str) -> str:
        """The state that a run ends in."""
        self.wait(lambda: self.state(run) in FINAL)
        return self.state(run)

    def wait(self, look: Callable[[], bool]) -> None:
        patient(eventually)(look, 60.0)

    def end(self) -> None:
        for ocid in self._jobs:
            self.account.oci.jobs.take_away(ocid, lambda _text: None)
