"""The contract of targets, on a real account."""

from __future__ import annotations

import pytest

from tests.real_oci.account import Real
from tests.targets.target_contract import TargetContract

pytestmark = pytest.mark.timeout(7200)
_PLUG = pytest.mark.skip(reason="nobody can pull the plug of a machine in a cloud")


class TestOci(TargetContract):
    """Nodes are job runs. What becomes of a machine that is lost is shown in the rehearsal alone."""

    @_PLUG
    def test_a_lost_node_is_replaced_while_the_job_has_retries(self, place: Real) -> None: ...  # type: ignore[override]

    @_PLUG
    def test_a_lost_node_ends_a_run_without_retries_and_is_named(self, place: Real) -> None: ...  # type: ignore[override]
