"""A whole tenancy: its services do not stand in each other's way."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.rehearsal.account import Account

pytestmark = pytest.mark.unit


def test_no_service_takes_the_control_of_another(tmp_path: Path) -> None:
    account = Account(tmp_path)
    services = (
        *(account.science, account.logs, account.vault, account.certificates),
        *(account.network, account.limits, account.artifacts),
    )
    names = [name for service in services for name in service.controls()]
    assert sorted(names) == sorted(set(names))
    assert set(names) <= set(account.controls())
