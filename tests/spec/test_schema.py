"""The published schema says what `load` says, as far as one setting by itself can be judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from muster.errors import JobError
from muster.spec.job import Job
from muster.spec.load import load_text
from muster.spec.schema import schema

pytestmark = pytest.mark.unit

BASE = "name: mnist\nframework: pytorch\nentry: train.py\n"

GOOD = [
    "",
    "workers: 0",
    "workers: {min: 0, max: 8}",
    "ps: 2",
    "ps: {count: 2, env: {A: 1}}",
    "processes: auto",
    "processes: 4",
    "args: [a, 1, 0.5, true]",
    "env: {A: 1, B: yes, C: ''}",
    "secrets: [A, _B1]",
    "resources: {gpus: 0, gpu: A100, cpus: 8, memory: 32GB, disk: 1.5 TiB}",
    "resources: {memory: 34359738368}",
    "timeout: 90",
    "timeout: 1h30m",
    "timeout: 500ms",
    "ttl: null",
    "outputs: null\ncheckpoints: deep/er",
    "inputs: {a: s3://b/c, b.c: models, d: https://host/x}",
    "code: null",
    "code: image:/app",
    "code: https://host/name.git",
    "code: git@host:name.git",
    "code: git+../name#v1",
    "code: git+https://host/name",
    "code: https://host/code.tar.gz?ref=main",
    "code: http://host/train.py",
    "work_dir: memory://x",
    "work_dir: ~/runs",
    "main: {computes: false, options: {a: 1}, resources: {gpus: 1}}",
    "worker: {image: a, env: {B: 2}}",
    "options: {anything: {goes: [here]}}",
    "tags: {team: vision, year: 2024}",
    "requirements: requirements.txt",
    "image: registry/a:1\nretries: 3\nephemeral: false",
]

BAD = [
    "wrokers: 3",
    "name: My Model",
    "name: -a-",
    "name: 5",
    "framework: ''",
    "entry: 5",
    "workers: -1",
    "workers: 1.5",
    "workers: {min: 1}",
    "workers: {min: 0, max: 0}",
    "workers: many",
    "ps: -1",
    "ps: {env: {}}",
    "processes: 0",
    "processes: all",
    "args: --epochs 3",
    "args: [null]",
    "env: {A: null}",
    "env: {A-B: 1}",
    "env: [A]",
    "secrets: [a-b]",
    "resources: {gpus: -1}",
    "resources: {cpus: 0}",
    "resources: {memory: 32G}",
    "resources: {ram: 32GB}",
    "timeout: 0",
    "timeout: 10 minutes",
    "timeout: null",
    "ttl: -5",
    "retries: -1",
    "ephemeral: 'yes'",
    "outputs: ../x",
    "checkpoints: /x",
    "inputs: {a/b: s3://b}",
    "inputs: {a: nfs://b}",
    "code: https://host/page",
    "code: ftp://host/x",
    "work_dir: s3:/bucket",
    "requirements: s3://b/r.txt",
    "main: {computes: 1}",
    "worker: {nodes: 3}",
    "tags: {a: null}",
    "options: [a]",
    "image: 5",
]


def document(lines: str) -> str:
    """The base, with the settings that the lines give instead."""
    given: dict[str, Any] = yaml.safe_load(lines) or {}
    kept = [line for line in BASE.splitlines() if line.partition(":")[0] not in given]
    return "\n".join([*kept, lines, ""])


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    assert schema()["$id"] == "urn:musterpoint:job:1"


@pytest.mark.parametrize("lines", GOOD)
def test_what_loads_fits_the_schema(lines: str, project: Path) -> None:
    load_text(document(lines), "job.yaml", project)
    jsonschema.validate(yaml.safe_load(document(lines)), schema())


@pytest.mark.parametrize("lines", BAD)
def test_what_the_schema_refuses_does_not_load(lines: str, project: Path) -> None:
    with pytest.raises(JobError):
        load_text(document(lines), "job.yaml", project)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(document(lines)), schema())


@pytest.mark.parametrize("missing", ["name", "framework"])
def test_what_must_be_given_is_required(missing: str, project: Path) -> None:
    text = "\n".join(line for line in BASE.splitlines() if not line.startswith(missing))
    with pytest.raises(JobError, match=f"{missing}: missing"):
        load_text(text, "job.yaml", project)
    with pytest.raises(jsonschema.ValidationError, match=missing):
        jsonschema.validate(yaml.safe_load(text), schema())


def test_every_setting_of_a_job_is_described_and_has_the_jobs_own_default() -> None:
    properties = schema()["properties"]
    assert set(properties) == (set(Job.__dataclass_fields__) - {"roles"}) | {"main", "worker"}
    assert all(setting["description"] for setting in properties.values())
    assert {name for name, setting in properties.items() if "default" not in setting} == {"name", "framework"}
    defaults = {name: properties[name]["default"] for name in ("workers", "processes", "timeout", "ttl", "code")}
    assert defaults == {"workers": 1, "processes": "auto", "timeout": "10m", "ttl": "1d", "code": "."}


def test_the_defaults_fit_the_schema_themselves() -> None:
    properties = schema()["properties"]
    for setting in properties.values():
        if "default" in setting:
            jsonschema.validate(setting["default"], setting)
