"""Signers of Oracle's SDK that go on signing when keys and tokens are renewed. Imports the SDK: import it late."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from oci._vendor.requests.exceptions import RequestException
from oci.auth.signers import InstancePrincipalsSecurityTokenSigner, get_resource_principals_signer
from oci.auth.signers.security_token_signer import SecurityTokenSigner
from oci.circuit_breaker import NoCircuitBreakerStrategy
from oci.exceptions import ServiceError
from oci.retry import NoneRetryStrategy
from oci.signer import AbstractBaseSigner

from ..errors import AccessDenied, MusterError, StoreBusy
from .oci_profile import check_fingerprint, load_key, private_key, read_profile, read_text
from .refusals import BUSY

_METADATA = ("http://169.254.169.254/opc/v2", "http://[fd00:c1::a9fe:a9fe]/opc/v2")
Stamp = tuple[tuple[int, int], ...]


class Identity(SecurityTokenSigner):  # type: ignore[misc]
    """Signs as whoever we are at the moment. One thread at a time: the SDK's own signers can be caught half renewed.

    It is a `SecurityTokenSigner` because of those alone the SDK wants no user in its config, and none of the kinds
    whose requests the SDK repeats after a 401 by itself, with a body that has been read already.
    """

    def __init__(self, make: Callable[[], Any], files: tuple[Path, ...] = ()) -> None:
        self._make, self._files = make, files
        self._lock = threading.Lock()
        self._stamp = _stamp(files)
        self._signer = make()
        self.renewals = 0
        """How often we became another."""

    def __call__(self, request: Any, enforce_content_headers: bool = True) -> Any:
        with self._lock:
            if self._files and _stamp(self._files) != self._stamp:
                self._become()
            return self._signer(request, enforce_content_headers)

    def renew(self, seen: int) -> bool:
        """After a 401: whether another attempt may do, because we are another than when `renewals` was `seen`."""
        with self._lock:
            if self.renewals == seen:
                self._become()
            return self.renewals != seen

    def _become(self) -> None:
        stamp, before = _stamp(self._files), self._signer.api_key
        try:
            self._signer = self._make()
        except MusterError:
            return  # a file that is being written now is whole when the next request comes
        self._stamp = stamp
        self.renewals += self._signer.api_key != before


class _Key(AbstractBaseSigner):  # type: ignore[misc]
    """Signs with a key that is loaded already."""

    def __init__(self, api_key: str, key: RSAPrivateKey) -> None:
        self.api_key = api_key
        self.create_signers(
            api_key, key, ["date", "(request-target)", "host"], ["content-length", "content-type", "x-content-sha256"]
        )


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


def api_key(name: str | None) -> Identity:
    """A user's API key. The profile is read again after a 401: keys are rotated while runs go on."""

    def make() -> Any:
        profile = read_profile(name)
        key = private_key(profile)
        return _Key("/".join((profile.need("tenancy"), profile.need("user"), check_fingerprint(profile, key))), key)

    return Identity(make)


def security_token(name: str | None) -> Identity:
    """What `oci session authenticate` left. Read again as soon as `oci session refresh` has written another."""
    profile = read_profile(name)
    token_file = profile.path("security_token_file")

    def make() -> Any:
        fix = f"Log in: `oci session authenticate --profile-name {profile.name}`."
        return SecurityTokenSigner(read_text(token_file, "security token", fix), private_key(profile))

    files = (token_file, profile.path("key_file")) if profile.values.get("key_file") else (token_file,)
    return Identity(make, files)


def resource_principal() -> Identity:
    """What a job run or a function is. Values that are absolute paths are files, and followed as they change."""
    version = os.environ.get("OCI_RESOURCE_PRINCIPAL_VERSION")
    if version and version != "2.2":
        return Identity(lambda: _reached("a resource principal", get_resource_principals_signer))
    names = [f"OCI_RESOURCE_PRINCIPAL_{name}" for name in ("RPST", "PRIVATE_PEM", "PRIVATE_PEM_PASSPHRASE")]
    needed = ["OCI_RESOURCE_PRINCIPAL_VERSION", *names[:2]]
    if missing := [name for name in needed if not os.environ.get(name)]:
        raise AccessDenied(
            f"the environment of a resource principal lacks {' and '.join(missing)}", "The service sets all of it."
        )

    def make() -> Any:
        token, pem, passphrase = map(_value, names)
        return SecurityTokenSigner(token, load_key(pem, passphrase, f"the key in {names[1]}"))

    return Identity(make, tuple(Path(os.environ[name]) for name in names if os.environ.get(name, "").startswith("/")))


def _value(name: str) -> str:
    said = os.environ.get(name, "")
    return read_text(Path(said), name, "The service renews it.") if said.startswith("/") else said


def instance_principal() -> tuple[Identity, str]:
    """What an instance is, and its region. Its tokens are renewed by the SDK; after a 401 all is fetched anew."""
    _check_metadata()
    auth = os.environ.get("OCI_SDK_AUTH_CLIENT_REGION_URL")
    more = {"federation_endpoint": f"{auth.rstrip('/')}/v1/x509"} if auth else {}

    def make() -> Any:
        return InstancePrincipalsSecurityTokenSigner(
            retry_strategy=NoneRetryStrategy(),
            federation_client_retry_strategy=NoneRetryStrategy(),
            federation_client_circuit_breaker_strategy=NoCircuitBreakerStrategy(),
            **more,
        )

    regions: list[str] = []

    def made() -> Any:
        signer = _reached("an instance principal", make)
        regions.append(signer.region)
        return signer

    return Identity(made), regions[0]


def _check_metadata() -> None:
    """Elsewhere than on an instance nothing answers at that address, and the SDK would wait for long."""
    told = os.environ.get("OCI_METADATA_BASE_URL", "").strip()
    for url in (told,) if told else _METADATA:
        place = urlsplit(url)
        try:
            socket.create_connection((place.hostname or "", place.port or 80), timeout=2).close()
        except OSError:
            continue
        return
    raise AccessDenied(
        "there are no Oracle credentials here: no config file, no resource principal, no instance's metadata",
        "Make a config file (`oci setup config`) or log in (`oci session authenticate`).",
    )


def _reached(what: str, make: Callable[[], Any]) -> Any:
    try:
        return make()
    except RequestException as error:
        raise StoreBusy(f"cannot get the token of {what} now: {type(error).__name__}") from error
    except ServiceError as error:
        told = f"cannot get the token of {what}: Oracle said {error.code or error.status}"
        raise StoreBusy(told) if error.status in BUSY else AccessDenied(told, "Is it in a dynamic group?") from error
    except (OSError, ValueError) as error:
        raise AccessDenied(
            f"this is not {what}: {type(error).__name__}", "Choose another way with OCI_IAM_TYPE."
        ) from error
