"""Other people's command lines, as a user of a rehearsed Oracle cloud has them: a home with `~/.oci/config`, and no
way to any other machine."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from muster.rehearsal.oracle import OracleServer
from tests.needs import needs_file

PEERS = Path(sys.prefix) / "peers" / "bin"
NOWHERE = "http://127.0.0.1:9"
"""A proxy that is not there: what does not go to this machine goes nowhere."""


@dataclass
class Peer:
    """A user with the peers' programs in the search path, in a folder that is home and current folder at once."""

    server: OracleServer
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def __call__(self, *words: str | Path, check: int = 0, **more: str) -> subprocess.CompletedProcess[str]:
        """Runs a program to its end, and insists on its exit code. `more` is added to the environment."""
        done = subprocess.run(
            list(map(str, words)),
            env={**self.environment, **more},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == check, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def start(self, *words: str | Path) -> subprocess.Popen[str]:
        """Starts a program and leaves it running."""
        return subprocess.Popen(
            list(map(str, words)),
            env=self.environment,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


def peer(server: OracleServer, folder: Path, groups: tuple[str, ...] = ()) -> Peer:
    """A user with an API key of this cloud."""
    needs_file(PEERS / "oci")
    needs_file(PEERS / "ads")
    server.make_user(folder / ".oci", groups=groups)
    environment = {
        "PATH": os.pathsep.join([str(PEERS), os.defpath]),
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "OCI_CLI_ENDPOINT": server.endpoint,
        "OCI_ODSC_SERVICE_ENDPOINT": server.endpoint,
        "OCI_OBJECTSTORAGE_SERVICE_ENDPOINT": server.endpoint,
        "SUPPRESS_LABEL_WARNING": "True",
        "http_proxy": NOWHERE,
        "https_proxy": NOWHERE,
        "no_proxy": "127.0.0.1",
    }
    return Peer(server, folder, environment)
