"""`muster convert`: the same job in Muster's own format, whose plan is the same; and `--code` in plan and run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from muster import JobError
from muster.errors import CodeError
from muster.launching import load, load_both, plan
from muster.spec.config import load_config
from tests.harness import Muster

FILES = sorted((Path(__file__).parents[1] / "spec" / "ads").glob("*.yaml"))
IN_IMAGE = [file for file in FILES if file.stem not in ("git", "remote")]
NAMES = ("gridsearch.py", "lgbm_dask.py", "train.py", "dask-tls-ca-cert.pem", "dask-tls-cert.pem", "dask-tls-key.pem")


@pytest.fixture
def project(muster: Muster) -> Path:
    """A folder that has what the images of all these files have under /code."""
    for name in NAMES:
        (muster.folder / name).write_text("")
    return muster.folder


@pytest.mark.parametrize("file", IN_IMAGE, ids=lambda file: file.stem)
def test_an_ads_file_and_what_is_printed_of_it_have_equal_plans(muster: Muster, project: Path, file: Path) -> None:
    (project / "train.yaml").write_text(file.read_text())
    printed = muster("convert", "train.yaml").stdout
    (project / "job.yaml").write_text(printed)
    mine, theirs = (plan(load(project / name), folder=project) for name in ("job.yaml", "train.yaml"))
    assert mine.job == theirs.job
    assert mine == theirs
    assert "kind" not in yaml.safe_load(printed)


def test_the_target_is_printed_as_comments_or_as_a_table_of_its_own(muster: Muster, project: Path) -> None:
    (project / "train.yaml").write_text((FILES[0].parent / "dask.yaml").read_text())
    table = muster("convert", "train.yaml", "--toml", "-o", "muster.toml")
    assert (table.stdout, table.stderr) == ("", "")
    where = load_both(project / "train.yaml")[1]
    assert where is not None
    assert load_config(project).target("oci") == where.target()
    printed = muster("convert", "train.yaml").stdout
    comments = [line.removeprefix("# ") for line in printed.splitlines() if line.startswith("#")]
    assert "\n".join(comments[1:]) + "\n" == (project / "muster.toml").read_text()


def test_with_a_code_folder_the_image_is_no_longer_needed(muster: Muster, project: Path) -> None:
    (project / "train.yaml").write_text((FILES[0].parent / "pytorch.yaml").read_text())
    muster("convert", "train.yaml", "--code", ".", "-o", "job.yaml")
    shown = yaml.safe_load((project / "job.yaml").read_text())
    assert "code" not in shown
    assert shown["args"] == ["--data-dir", "data", "--output-dir=/home/datascience/outputs", "--timeout", "5"]
    assert plan(load(project / "job.yaml"), folder=project) == plan(load(project / "train.yaml"), folder=project)
    muster("convert", "job.yaml", "--code", ".", check=2)


def test_a_job_file_is_printed_with_what_differs_from_the_defaults(muster: Muster, project: Path) -> None:
    text = (
        "name: mnist\nframework: pytorch\nentry: ./train.py\ncode: .\nworkers: 1\nttl: 90m\nretries: 0\n"
        "inputs: {data: dask-tls-key.pem, far: /usr/share}\n"
    )
    (project / "job.yaml").write_text(text)
    assert muster("convert", "job.yaml").stdout == (
        "name: mnist\nframework: pytorch\nentry: ./train.py\ninputs:\n  data: dask-tls-key.pem\n  far: /usr/share\n"
        "ttl: 1h30m\n"
    )
    refused = muster("convert", "job.yaml", "--toml", check=2)
    assert "job.yaml is a job file: it says nothing of a target" in refused.stderr
    elsewhere = muster("convert", "job.yaml", "-o", project / "none" / "job.yaml", check=2)
    assert "cannot be written: No such file or directory" in elsewhere.stderr


def test_a_mistake_in_an_ads_file_is_told_with_its_line_by_every_verb(muster: Muster, project: Path) -> None:
    text = (FILES[0].parent / "dask.yaml").read_text()
    wrong = text.replace("replicas: 2", "replicas: two").replace("bucket@namespace", "<bucket>@namespace")
    (project / "train.yaml").write_text(wrong.replace("kind: dask", "kind: ray"))
    for verb in ("convert", "plan", "run"):
        done = muster(verb, "train.yaml", check=2)
        assert "train.yaml:18: spec.cluster.kind: Ray is not among the frameworks of Muster" in done.stderr
        assert "train.yaml:22: spec.cluster.spec.workDir: '<bucket>' is a placeholder" in done.stderr
        assert "train.yaml:28: spec.cluster.spec.worker.replicas: " in done.stderr
        assert "Traceback" not in done.stderr
        assert done.stdout == ""


def test_the_plan_says_what_of_an_ads_file_is_for_the_cloud(muster: Muster, project: Path) -> None:
    (project / "train.yaml").write_text((FILES[0].parent / "dask.yaml").read_text())
    shown = muster("plan", "train.yaml")
    assert "workDir (oci://bucket@namespace/dask/001) are for Oracle's cloud: on local they are not" in shown.stderr
    assert "image: is not used" in shown.stdout
    assert json.loads(muster("plan", "train.yaml", "--json").stdout)["job"]["workers"] == {
        "min": 2,
        "max": 2,
        "start": None,
    }


def test_code_of_an_image_is_taken_from_the_folder_that_is_named(muster: Muster, project: Path) -> None:
    job = project / "job.yaml"
    job.write_text(
        "name: a\nframework: pytorch\ncode: image:/app\nentry: main.py\nargs: [/app, /app/x, --y=/app/z, /apple]\n"
    )
    (project / "src").mkdir()
    (project / "src" / "main.py").write_text("")
    made = plan(load(job), folder=project, code=project / "src")
    assert made.job.code == str(project / "src")
    assert made.job.args == (".", "x", "--y=z", "/apple")
    with pytest.raises(CodeError, match=r"entry: there is no 'main.py' in .*\n.*`--code DIR` names another"):
        plan(load(job), folder=project)
    with pytest.raises(CodeError, match="there is no folder"):
        plan(load(job), folder=project, code=project / "nowhere")
    refused = muster("plan", "job.yaml", "--code", "nowhere", check=125)
    assert "`--code DIR` names another" in refused.stderr


def test_a_code_folder_for_a_job_that_has_its_own_is_a_mistake(project: Path) -> None:
    (project / "job.yaml").write_text("{name: a, framework: pytorch, entry: train.py}")
    with pytest.raises(JobError, match="--code stands for code that lies in an image"):
        plan(load(project / "job.yaml"), folder=project, code=project)
