"""A key for git out of Oracle's Vault, as ADS's `gitSecretId` names one."""

from __future__ import annotations

import base64
import os
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..clouds.oci_services import Services

_SSH = "GIT_SSH_COMMAND"


@contextmanager
def with_key(services: Services, secret: str) -> Iterator[None]:
    """While this lasts git logs in with the key, which is in a file that this user alone can read."""
    bundle = services.call("secrets", "get_secret_bundle", secret).data
    before = os.environ.get(_SSH)
    with tempfile.TemporaryDirectory(prefix="muster-git-") as folder:
        key = Path(folder) / "key"
        key.touch(mode=0o600)
        content = base64.b64decode(bundle["secretBundleContent"]["content"])
        key.write_bytes(content if content.endswith(b"\n") else content + b"\n")  # ssh insists on it
        os.environ[_SSH] = f"ssh -i {shlex.quote(str(key))} -o IdentitiesOnly=yes -o StrictHostKeyChecking=accept-new"
        try:
            yield
        finally:
            os.environ.pop(_SSH)
            if before is not None:
                os.environ[_SSH] = before
