"""The suite for real accounts works: a part of it runs here, on a rehearsed one, and none of it runs unasked."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from muster.rehearsal.oracle import OracleServer
from muster.rehearsal.principals import User
from tests.targets.oracle_place import IMAGE, account, target_toml

ROOT = Path(__file__).parents[2]
SUITE = "tests/real_oci"
FOR_RUNS = (
    "Allow service datascience to use virtual-network-family in tenancy",
    "Allow any-user to read repos in tenancy",
    "Allow any-user to use log-content in tenancy",
)
"""What a job run needs that does nothing but its own command. None of it lets a user in."""


@dataclass
class Suite:
    server: OracleServer
    env: dict[str, str]
    folder: Path

    def __call__(self, *words: str, **env: str) -> dict[str, str]:
        """How each test of the suite ended, by its name."""
        done = pytest_of(*words, f"--basetemp={self.folder / 'base'}", env={**self.env, **env})
        assert done.returncode == 0, done.stdout
        return outcomes(done.stdout)


def pytest_of(*words: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly", "-v", *words]
    return subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=280)


def outcomes(told: str) -> dict[str, str]:
    lines = (line.split() for line in told.splitlines() if line.startswith(f"{SUITE}/"))
    return {words[0].rpartition("::")[2]: words[1] for words in lines}


def plain_environment() -> dict[str, str]:
    unwanted = ("MUSTER_", "OCI_", "PYTEST_")
    return {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}


@pytest.fixture
def suite(tmp_path: Path, mark: str) -> Iterator[Suite]:
    with account(tmp_path, mark, minute=1.0) as server:
        user = server.make_user(tmp_path / "oracle", groups=("Administrators",))
        _add_profile(user, server.make_user(tmp_path / "member", "member", groups=("testers",)))
        (tmp_path / "muster.toml").write_text(target_toml(server, image=IMAGE), encoding="utf-8")
        env = {
            **plain_environment(),
            **server.environment(user),
            "MUSTER_HOME": str(tmp_path / "home"),
            "MUSTER_TEST_OCI_TARGET": str(tmp_path / "muster.toml"),
            "MUSTER_TEST_OCI_PATIENCE": "1",
        }
        yield Suite(server, env, tmp_path)


def _add_profile(user: User, other: User) -> None:
    profile = other.config_file.read_text(encoding="utf-8").replace(f"[{other.profile}]", "[MEMBER]", 1)
    user.config_file.write_text(f"{user.config_file.read_text(encoding='utf-8')}\n{profile}", encoding="utf-8")


@pytest.mark.slow
def test_what_is_assumed_of_oracles_services_holds_in_the_rehearsal(suite: Suite) -> None:
    suite.server.grant({"statements": [{"text": text} for text in FOR_RUNS]})
    member = {"MUSTER_TEST_OCI_MEMBER": "MEMBER", "MUSTER_TEST_OCI_GROUP": "testers"}
    found = suite(f"{SUITE}/test_assumptions.py", **member)
    assert len(found) == 11
    assert set(found.values()) == {"PASSED"}
    left = [one["lifecycleState"] for one in suite.server.steering.ask("GET", "jobs")]
    assert set(left) <= {"DELETED", "DELETING"}


@pytest.mark.slow
def test_the_contract_runs_on_the_account_that_is_named(suite: Suite) -> None:
    found = suite(f"{SUITE}/test_contract.py", "-k", "plan or exit_code or (refused and 3) or lost")
    assert found == {
        "test_a_plan_is_dry_and_lists_every_node": "PASSED",
        "test_the_exit_code_is_the_scripts_own": "PASSED",
        "test_a_node_that_is_refused_takes_all_back[3]": "PASSED",
        "test_a_lost_node_is_replaced_while_the_job_has_retries": "SKIPPED",
        "test_a_lost_node_ends_a_run_without_retries_and_is_named": "SKIPPED",
    }


def test_without_an_account_all_is_skipped_with_a_clear_line(tmp_path: Path) -> None:
    done = pytest_of(SUITE, "-rs", f"--basetemp={tmp_path / 'base'}", env=plain_environment())
    assert done.returncode == 0, done.stdout
    assert set(outcomes(done.stdout).values()) == {"SKIPPED"}
    assert "MUSTER_TEST_OCI_TARGET is not set" in done.stdout


def test_nobody_gets_it_who_does_not_ask_for_it() -> None:
    others = [f"--ignore={path}" for path in (ROOT / "tests").iterdir() if path.name != "real_oci"]
    done = pytest_of("--collect-only", "tests", *others, env=plain_environment())
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, done.stdout
