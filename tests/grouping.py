"""Tests that share something slow to make stay on one worker of pytest-xdist.

By their modules, and not by its own mark `xdist_group`: that writes a group into an attribute which pytest has had no
more since 9.1, so that nothing is grouped, without a word.
"""

from __future__ import annotations

import pytest
from xdist.scheduler import LoadGroupScheduling

GROUPS = {
    "tests/cli/test_image.py": "docker",
    "tests/targets/test_containers.py": "docker",
    "tests/packaging/test_packaging.py": "packaging",
    "tests/rehearsal/test_peers_ads.py": "ads",
    "tests/rehearsal/test_peers_oracle.py": "peers",
}
"""By module, what its tests share: a docker daemon, a wheel, an account."""


class ByModule(LoadGroupScheduling):  # type: ignore[misc]
    def _split_scope(self, nodeid: str) -> str:
        return GROUPS.get(nodeid.partition("::")[0], nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByModule | None:
    return ByModule(config, log) if config.getvalue("dist") == "loadgroup" else None
