"""The certificates of a run: one key and certificate for all its nodes, and the authority that they trust.

They lie in the run's folder as one file, `tls.pem`, because what is made once and all at once cannot be mixed of two
makers. Like the run's key they are for whoever may read the work dir.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from ..clouds.pems import Pems
from ..errors import AlreadyExists, StoreError
from .run import RunFolder

FILE = "tls.pem"
NAMES = ("ca.pem", "cert.pem", "key.pem")
_MARGIN = 24 * 3600.0
"""Seconds beyond the run's own end: its nodes may begin late, and their clocks differ."""
_ENDLESS = 10 * 365 * 24 * 3600.0


def can_make() -> bool:
    """Whether certificates can be made in this process."""
    return find_spec("cryptography") is not None


def lifetime(ttl: float | None) -> float:
    """For how many seconds the certificates of a run are valid that ends after `ttl`."""
    return _ENDLESS if ttl is None else ttl + _MARGIN


def made_here(seconds: float) -> Pems:
    """New certificates, made in this process."""
    from .certify import certified

    key, certificate, authority = certified(seconds)
    return Pems(authority, certificate, key)


def keep_certificates(run: RunFolder, make: Callable[[], Pems]) -> Pems:
    """Makes the run's certificates and keeps them, or returns those that another kept first."""
    pems = make()
    try:
        run.store.create(run.at(FILE), pems.bundle().encode())
    except AlreadyExists:
        return certificates_of(run)
    return pems


def certificates_of(run: RunFolder) -> Pems:
    """The run's certificates; `NotFound` if none were made."""
    try:
        return Pems.of_bundle(run.store.get(run.at(FILE)).decode("ascii"))
    except ValueError as error:
        message = f"{run.at(FILE)!r} in the work dir {run.store.url} is damaged: {error}"
        raise StoreError(message, "It was changed by hand or cut short. Start the job again as a new run.") from None


def lay_out(pems: Pems, folder: Path) -> tuple[Path, Path, Path]:
    """Writes authority, certificate and key into a folder that nobody but its owner can open; where they are."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.chmod(0o700)
    authority, certificate, key = (folder / name for name in NAMES)
    for path, text in ((authority, pems.authority), (certificate, pems.certificate), (key, pems.key)):
        path.unlink(missing_ok=True)  # one of an earlier start of this node
        path.touch(mode=0o600)
        path.write_text(text, encoding="ascii")
    return authority, certificate, key
