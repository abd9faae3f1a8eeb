"""The contract of targets, on a rehearsed Oracle cloud."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import Muster
from tests.targets.oracle_place import There, account, reach
from tests.targets.target_contract import TargetContract


@pytest.fixture
def place(muster: Muster, mark: str, tmp_path: Path) -> Iterator[There]:
    with account(tmp_path, mark) as server:
        yield reach(muster, server, tmp_path)


class TestOci(TargetContract):
    """Nodes are job runs."""
