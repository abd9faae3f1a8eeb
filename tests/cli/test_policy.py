"""`muster policy`: for a target of muster.toml, for an Oracle ADS file, in each of its forms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from muster.access.policies import Policy
from muster.cli.policy import command
from muster.errors import ConfigError, MusterError

ADS = Path(__file__).parents[1] / "spec" / "ads"
TOML = """
[targets.oracle]
kind = "oci"
work_dir = "oci://training@namespace/runs"
compartment_id = "ocid1.compartment.oc1..team"
project_id = "ocid1.datascienceproject.oc1.iad.project"
shape_name = "VM.Standard2.4"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "job.yaml").write_text("{name: mnist, framework: pytorch, entry: train.py, image: iad.ocir.io/ns/a:1}")
    (tmp_path / "train.py").touch()
    (tmp_path / "muster.toml").write_text(TOML)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    return tmp_path


def run(*words: str) -> Result:
    return CliRunner().invoke(command, words)


def printed(*words: str) -> str:
    done = run(*words)
    assert done.exit_code == 0, done.output + str(done.exception)
    return done.output


def test_the_statements_of_a_job_are_printed_with_their_reasons(folder: Path) -> None:
    text = printed("--on", "oracle", "--group", "team", "--dynamic-group", "nodes", "--compartment", "ml:training")
    assert text.startswith("# Dynamic group nodes: ")
    assert "\n# run: each run pulls its image\n" in text
    assert (
        "Allow dynamic-group nodes to manage objects in compartment ml:training where target.bucket.name = 'training'\n"
    ) in text
    assert "Allow group team to manage data-science-jobs in compartment ml:training\n" in text
    assert "virtual-network-family" not in text


def test_an_ads_file_says_itself_where_it_runs(folder: Path) -> None:
    text = printed(str(ADS / "dask-certificate.yaml"), "--on", "oci")
    assert "read leaf-certificate-bundles" in text
    assert "Allow service datascience to use virtual-network-family in compartment id ocid1.compartment" in text


def test_json_terraform_and_commands_say_the_same(folder: Path) -> None:
    made = Policy.from_json(json.loads(printed("job.yaml", "--on", "oracle", "--json")))
    terraform, commands = (printed("--on", "oracle", form) for form in ("--terraform", "--cli"))
    assert len(made.statements) == 11
    for statement in made.statements:
        assert json.dumps(statement.text) in terraform
        assert statement.text.partition("'")[0] in commands
    wide = Policy.from_json(json.loads(printed("--on", "oracle", "--proof-of-concept", "--json")))
    assert len(wide.statements) == 3


def test_a_target_without_policies_is_a_mistake(folder: Path) -> None:
    error = run("job.yaml", "--on", "local").exception
    assert isinstance(error, ConfigError)
    assert "target 'local' is of the kind local, which has no policies" in str(error)


def test_a_name_that_no_group_can_have_is_refused(folder: Path) -> None:
    done = run("--on", "oracle", "--group", "team to manage all-resources in tenancy")
    assert isinstance(done.exception, MusterError)
    assert "cannot be the name of a group" in str(done.exception)
    assert done.output == ""
