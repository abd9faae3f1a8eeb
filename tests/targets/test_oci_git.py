"""A key for git out of the Vault: there while the code is fetched, for its user alone, and gone afterwards."""

from __future__ import annotations

import os
import shlex
import stat
from pathlib import Path

import pytest

from muster.clouds.oci import session
from muster.clouds.oci_services import Services
from muster.errors import CloudError
from muster.rehearsal import oracle
from muster.targets.oci_git import with_key

SECRET = "ocid1.vaultsecret.oc1.iad.git"


def test_git_logs_in_with_the_key_while_it_lasts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with oracle.started() as server:
        server.steering.ask("POST", "secrets", {"name": "git", "text": "-----KEY-----", "secret": SECRET})
        for name, value in server.environment(server.make_user(tmp_path)).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("GIT_SSH_COMMAND", "mine")
        services = Services(session("api_key"))
        with with_key(services, SECRET):
            words = shlex.split(os.environ["GIT_SSH_COMMAND"])
            key = Path(words[words.index("-i") + 1])
            assert key.read_text() == "-----KEY-----\n"
            assert stat.S_IMODE(key.stat().st_mode) == 0o600
            assert "-----KEY-----" not in os.environ["GIT_SSH_COMMAND"]
        assert not key.exists()
        assert os.environ["GIT_SSH_COMMAND"] == "mine"
        with pytest.raises(CloudError, match="get secret bundle"), with_key(services, f"{SECRET}.none"):
            pass
