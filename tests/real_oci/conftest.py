"""Collected only where this folder is asked for by name; skipped where no account is named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import Muster, eventually
from tests.real_oci.account import Account, Made, Real, account_of, patient
from tests.targets import target_contract

HERE = Path(__file__).parent


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    asked = [Path(word.partition("::")[0]).resolve() for word in config.args]
    return None if any(HERE in (path, *path.parents) for path in asked) else True


@pytest.fixture(scope="session")
def account() -> Account:
    return account_of()


@pytest.fixture
def place(muster: Muster, account: Account, monkeypatch: pytest.MonkeyPatch) -> Iterator[Real]:
    monkeypatch.setattr(target_contract, "eventually", patient(eventually))
    real = Real.of(muster, account)
    yield real
    real.end()


@pytest.fixture
def made(account: Account) -> Iterator[Made]:
    """What a test makes in the account, which is gone afterwards."""
    here = Made(account)
    yield here
    here.end()
