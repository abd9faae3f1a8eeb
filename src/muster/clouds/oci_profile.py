"""A profile of Oracle's config file, with its keys and tokens; every error names the file and what is wrong with it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import AccessDenied
from ..spec.problems import nearest

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

DEFAULT = "DEFAULT"
_FILES = ("OCI_CLI_CONFIG_FILE", "OCI_CONFIG_FILE", "OCI_CONFIG_LOCATION")
_PROFILES = ("OCI_CLI_PROFILE", "OCI_CONFIG_PROFILE")
_VARIABLES = {
    "user": "OCI_CLI_USER",
    "tenancy": "OCI_CLI_TENANCY",
    "fingerprint": "OCI_CLI_FINGERPRINT",
    "key_file": "OCI_CLI_KEY_FILE",
    "key_content": "OCI_CLI_KEY_CONTENT",
    "pass_phrase": "OCI_CLI_PASSPHRASE",
    "region": "OCI_CLI_REGION",
    "security_token_file": "OCI_CLI_SECURITY_TOKEN_FILE",
}
"""What the `oci` command takes from the environment before the file."""


@dataclass(frozen=True)
class Profile:
    """The settings of one profile. Those of the environment are among them."""

    name: str
    file: Path
    values: Mapping[str, str]
    has_token: bool
    """Whether the profile itself, and not only the default one, names a security token."""

    def __str__(self) -> str:
        return f"the profile {self.name} in {self.file}"

    def need(self, setting: str) -> str:
        if found := self.values.get(setting):
            return found
        raise AccessDenied(f"{self} has no {setting}", "See `oci setup config`, which writes all that is needed.")

    def path(self, setting: str) -> Path:
        return Path(self.need(setting)).expanduser()


def config_file() -> Path:
    """Where the config file is, or would be."""
    named = next(filter(None, map(os.environ.get, _FILES)), "~/.oci/config")
    return Path(named).expanduser()


def is_meant(profile: str | None) -> bool:
    """Whether a profile is to be used: one is named, or there is a config file, or the environment has a key."""
    named = any(map(os.environ.get, (*_FILES, *_PROFILES, "OCI_CLI_KEY_FILE", "OCI_CLI_KEY_CONTENT")))
    return profile is not None or named or config_file().is_file()


def read_profile(name: str | None) -> Profile:
    """The profile of this name, else the one that the environment names, else the default."""
    chosen = name or next(filter(None, map(os.environ.get, _PROFILES)), DEFAULT)
    given = {setting: value for setting, variable in _VARIABLES.items() if (value := os.environ.get(variable))}
    file = config_file()
    if "user" in given and {"key_file", "key_content"} & set(given) and not file.exists():
        return Profile(chosen, file, given, "security_token_file" in given)
    sections = _sections(file)
    if chosen not in sections:
        guess = nearest(chosen, sections)
        told = f"Did you mean {guess!r}? " if guess else ""
        raise AccessDenied(
            f"there is no profile {chosen!r} in {file}", f"{told}It has {', '.join(sections) or 'no profile at all'}."
        )
    own = {**sections[chosen], **given}
    return Profile(chosen, file, {**sections.get(DEFAULT, {}), **own}, "security_token_file" in own)


def _sections(file: Path) -> dict[str, dict[str, str]]:
    import configparser

    # `DEFAULT` as a section like any other: what a profile says itself can then be told from what it takes over.
    parser = configparser.ConfigParser(interpolation=None, default_section="\0", strict=False)
    text = read_text(file, "config file", "Make one (`oci setup config`), or name another with OCI_CONFIG_FILE.")
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise AccessDenied(f"cannot read the config file {file}: {type(error).__name__}") from None
    return {name: dict(parser[name]) for name in parser.sections()}


def read_text(file: Path, what: str, fix: str) -> str:
    """The content of a file of the user's, or an error that says which, and what is wrong with it."""
    try:
        return file.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        raise AccessDenied(f"there is no {what} {file}", fix) from None
    except PermissionError:
        raise AccessDenied(
            f"the {what} {file} may not be read by this user", f"Let its owner do `chmod 600 {file}`, or `chown` it."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise AccessDenied(f"cannot read the {what} {file}: {why}", fix) from None


def private_key(profile: Profile) -> RSAPrivateKey:
    """The key that a profile names."""
    return load_key(*key_text(profile))


def key_text(profile: Profile) -> tuple[str, str, str]:
    """The text of the key that a profile names, its passphrase, and where it stands.

    A passphrase comes from the profile or the environment; nobody is asked for it.
    """
    passphrase = profile.values.get("pass_phrase", "")
    if content := profile.values.get("key_content"):
        return content, passphrase, "the key in OCI_CLI_KEY_CONTENT"
    file = profile.path("key_file")
    return read_text(file, "key file", f"Correct `key_file` of {profile}."), passphrase, f"the key file {file}"


# A key is proved as it is loaded, which takes a tenth of a second, and each store that is opened wants it.
@lru_cache(maxsize=8)
def load_key(pem: str, passphrase: str, place: str) -> RSAPrivateKey:
    """A private key from its text. The error says nothing of what the text is."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    def load(word: bytes | None) -> object:
        return load_pem_private_key(pem.encode(), word)

    try:
        try:
            key = load(passphrase.encode() or None)
        except TypeError:
            if not passphrase:
                raise AccessDenied(
                    f"{place} needs a passphrase", "Set `pass_phrase` in the profile, or OCI_CLI_PASSPHRASE."
                ) from None
            key = load(None)  # one that another profile's key needs
    except (ValueError, UnsupportedAlgorithm):
        more = " with this passphrase" if "ENCRYPTED" in pem else ""
        raise AccessDenied(f"{place} holds no private key that can be read{more}", "It must be in PEM form.") from None
    if not isinstance(key, RSAPrivateKey):
        raise AccessDenied(f"{place} holds no RSA key", "Oracle takes RSA keys: `oci setup keys` makes one.")
    return key


def check_fingerprint(profile: Profile, key: RSAPrivateKey) -> str:
    """The fingerprint that a profile says its key has, if that is so."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return fingerprint_of(profile, key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))


def fingerprint_of(profile: Profile, public: bytes) -> str:
    """The same for the public half of the key, in DER."""
    found = hashlib.md5(public, usedforsecurity=False).digest().hex(":")
    said = profile.need("fingerprint").lower()
    if said != found:
        raise AccessDenied(
            f"the key of {profile} has the fingerprint {found}, not {said}",
            "Correct `fingerprint` or `key_file`; the console shows the fingerprints of a user's API keys.",
        )
    return found
