"""`muster init` and `muster schema`: what they write is what `muster plan` takes."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from tests.harness import Muster


@pytest.mark.parametrize("framework", ["dask", "pytorch", "tensorflow"])
def test_init_makes_a_job_that_can_be_planned_at_once(muster: Muster, framework: str) -> None:
    done = muster("init", "My First job!", "-f", framework)
    folder = muster.folder / "My First job!"
    assert sorted(path.name for path in folder.iterdir()) == ["job.schema.json", "job.yaml", "train.py"]
    assert "next: muster run 'My First job!/job.yaml'" in done.stdout
    job = yaml.safe_load((folder / "job.yaml").read_text())
    assert (job["name"], job["framework"]) == ("my-first-job", framework)
    jsonschema.validate(job, json.loads((folder / "job.schema.json").read_text()))
    assert f"my-first-job: {framework} on local" in muster("plan", folder / "job.yaml").stdout
    compile((folder / "train.py").read_text(), "train.py", "exec")


def test_init_writes_over_nothing(muster: Muster) -> None:
    (muster.folder / "train.py").write_text("mine")
    done = muster("init", check=125)
    assert "has train.py already" in done.stderr
    assert (muster.folder / "train.py").read_text() == "mine"
    assert not (muster.folder / "job.yaml").exists()


def test_init_knows_only_the_frameworks_it_has(muster: Muster) -> None:
    assert "'mpi' is not one of" in muster("init", "-f", "mpi", check=2).stderr


def test_the_schema_is_one_and_takes_the_examples(muster: Muster) -> None:
    schema = json.loads(muster("schema").stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    for path in (Path(__file__).parents[2] / "examples").glob("*/job.yaml"):
        jsonschema.validate(yaml.safe_load(path.read_text()), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"name": "x", "framework": "dask", "wrokers": 3}, schema)
