"""Who we are to Oracle's cloud where its SDK is not installed: requests signed with the standard library alone."""

from __future__ import annotations

import base64
import hashlib
import os
import threading
from collections.abc import Callable, Mapping
from email.utils import formatdate
from pathlib import Path
from typing import NamedTuple, NoReturn

from ..errors import AccessDenied, MusterError
from .oci_profile import fingerprint_of, key_text, read_profile, read_text
from .rsa import SigningKey, signing_key

Stamp = tuple[tuple[int, int], ...]


class Who(NamedTuple):
    """By which name a key is known, and the key."""

    name: str
    key: SigningKey


class BareIdentity:
    """Signs as whoever we are at the moment: files are followed as they change, and read again after a 401."""

    def __init__(self, make: Callable[[], Who], files: tuple[Path, ...] = ()) -> None:
        self._make, self._files = make, files
        self._lock = threading.Lock()
        self._stamp = _stamp(files)
        self._who = make()
        self.renewals = 0
        """How often we became another."""

    def renew(self, seen: int) -> bool:
        """After a 401: whether another attempt may do, because we are another than when `renewals` was `seen`."""
        with self._lock:
            if self.renewals == seen:
                self._become()
            return self.renewals != seen

    def signed(self, method: str, target: str, host: str, body: bytes | None = None, kind: str = "") -> dict[str, str]:
        """The headers of a request, signature included. `body` is what is signed of it, and `kind` its type."""
        headers = {"date": formatdate(usegmt=True), "host": host}
        lines = {"date": headers["date"], "(request-target)": f"{method.lower()} {target}", "host": host}
        if body is not None:
            digest = base64.b64encode(hashlib.sha256(body).digest()).decode()
            more = {"content-length": str(len(body)), "content-type": kind, "x-content-sha256": digest}
            headers |= more
            lines |= more
        return {**headers, "authorization": self._signature(lines)}

    def _signature(self, lines: Mapping[str, str]) -> str:
        who = self._now()
        message = "\n".join(f"{name}: {value}" for name, value in lines.items())
        value = base64.b64encode(who.key.sign(message.encode("ascii"))).decode()
        names = f'headers="{" ".join(lines)}",keyId="{who.name}"'
        return f'Signature algorithm="rsa-sha256",{names},signature="{value}",version="1"'

    def _now(self) -> Who:
        with self._lock:
            if self._files and _stamp(self._files) != self._stamp:
                self._become()
            return self._who

    def _become(self) -> None:
        stamp, before = _stamp(self._files), self._who.name
        try:
            self._who = self._make()
        except MusterError:
            return  # a file that is being written now is whole when the next request comes
        self._stamp = stamp
        self.renewals += self._who.name != before


def _stamp(files: tuple[Path, ...]) -> Stamp:
    """Changes when one of the files does."""
    found = []
    for file in files:
        try:
            state = file.stat()
            found.append((state.st_mtime_ns, state.st_size))
        except OSError:
            found.append((0, 0))
    return tuple(found)


def api_key(name: str | None) -> BareIdentity:
    """A user's API key."""

    def make() -> Who:
        profile = read_profile(name)
        key = signing_key(*key_text(profile))
        parts = profile.need("tenancy"), profile.need("user"), fingerprint_of(profile, key.public)
        return Who("/".join(parts), key)

    return BareIdentity(make)


def security_token(name: str | None) -> BareIdentity:
    """What `oci session authenticate` left."""
    profile = read_profile(name)
    token_file = profile.path("security_token_file")

    def make() -> Who:
        fix = f"Log in: `oci session authenticate --profile-name {profile.name}`."
        return Who(f"ST${read_text(token_file, 'security token', fix)}", signing_key(*key_text(profile)))

    files = (token_file, profile.path("key_file")) if profile.values.get("key_file") else (token_file,)
    return BareIdentity(make, files)


def resource_principal() -> BareIdentity:
    """What a job run is. Values that are absolute paths are files."""
    version = os.environ.get("OCI_RESOURCE_PRINCIPAL_VERSION")
    if version and version != "2.2":
        _needs_sdk(f"a resource principal of version {version}")
    names = [f"OCI_RESOURCE_PRINCIPAL_{name}" for name in ("RPST", "PRIVATE_PEM", "PRIVATE_PEM_PASSPHRASE")]
    needed = ["OCI_RESOURCE_PRINCIPAL_VERSION", *names[:2]]
    if missing := [name for name in needed if not os.environ.get(name)]:
        raise AccessDenied(
            f"the environment of a resource principal lacks {' and '.join(missing)}", "The service sets all of it."
        )

    def make() -> Who:
        token, pem, passphrase = map(_value, names)
        return Who(f"ST${token}", signing_key(pem, passphrase, f"the key in {names[1]}"))

    files = tuple(Path(os.environ[name]) for name in names if os.environ.get(name, "").startswith("/"))
    return BareIdentity(make, files)


def instance_principal() -> NoReturn:
    _needs_sdk("an instance principal")


def _needs_sdk(what: str) -> NoReturn:
    raise AccessDenied(
        f"{what} needs Oracle's SDK, the package oci, which is not installed here",
        "pip install 'musterpoint[oci]', or choose another way with OCI_IAM_TYPE.",
    )


def _value(name: str) -> str:
    said = os.environ.get(name, "")
    return read_text(Path(said), name, "The service renews it.") if said.startswith("/") else said.strip()
