"""AWS: whose credentials are used, and what S3's refusals mean."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import AccessDenied, StoreError
from .refusals import Answer, Asked, Words

if TYPE_CHECKING:
    from configparser import RawConfigParser

INSTALL = "pip install 'musterpoint[aws]'"

_KEPT = timedelta(minutes=6)
"""How long credentials are used before the chain is asked again, which renews those that expire."""

_LOGINS = (
    "aws_access_key_id",
    "credential_process",
    "credential_source",
    "login_session",
    "role_arn",
    "source_profile",
    "sso_session",
    "sso_start_url",
    "web_identity_token_file",
)
_ACTIONS = {"read": "s3:GetObject", "write": "s3:PutObject", "delete": "s3:DeleteObject", "list": "s3:ListBucket"}


def _missing_bucket(asked: Asked, _answer: Answer) -> str:
    return f"Make it (`aws s3 mb s3://{asked.bucket}`), or correct its name in the work dir."


def _login(asked: Asked, answer: Answer) -> str:
    if answer.code in ("ExpiredToken", "RequestExpired", "TokenRefreshRequired"):
        return "Your login has expired: `aws sso login`, or renew the session token in your environment."
    if answer.code in ("PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"):
        return f"The bucket is in another region: name it (s3://{asked.bucket}/…?region=REGION), or set AWS_REGION."
    if answer.code == "SignatureDoesNotMatch":
        return "The secret key does not belong to the access key, or this machine's clock is wrong."
    return "Name a profile that may use the bucket (AWS_PROFILE), or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."


def _permission(asked: Asked, answer: Answer) -> str:
    if "kms" in answer.text.lower():
        return "Allow kms:GenerateDataKey and kms:Decrypt on the key that encrypts the bucket."
    if asked.verb == "list":
        return f"Allow s3:ListBucket on arn:aws:s3:::{asked.bucket} in a policy of this user or role."
    more = ", and s3:ListBucket on the bucket" if asked.verb == "read" else ""
    folder = asked.name.partition("/")[0]
    return f"Allow {_ACTIONS[asked.verb]} on arn:aws:s3:::{asked.bucket}/{folder}/*{more}."


WORDS = Words(
    "S3",
    no_bucket=frozenset({"NoSuchBucket"}),
    credentials=frozenset(
        {
            "InvalidAccessKeyId",
            "SignatureDoesNotMatch",
            "ExpiredToken",
            "InvalidToken",
            "RequestExpired",
            "RequestTimeTooSkewed",
            "TokenRefreshRequired",
            "AuthFailure",
            "InvalidClientTokenId",
            "AuthorizationHeaderMalformed",
            "IllegalLocationConstraintException",
            "PermanentRedirect",
        }
    ),
    missing_bucket=_missing_bucket,
    login=_login,
    permission=_permission,
)


def credential_provider(profile: str | None) -> Callable[[], dict[str, Any]] | None:
    """What gives credentials whenever it is asked; None where the store finds its own.

    Keys in the environment, a web identity, a container's and a machine's role need nothing but the environment.
    Profiles, logins and roles that one takes on are botocore's business, with all their renewals.
    """
    if profile is None and not _needs_botocore():
        if not _has_native() and os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
            raise AccessDenied("there are no AWS credentials here", _login(Asked("read", "", ""), Answer(0, "", "")))
        return None
    try:
        import botocore.session
        from botocore.exceptions import BotoCoreError
    except ImportError as error:
        raise AccessDenied("profiles of AWS need botocore, which is not installed", f"{INSTALL}.") from error
    session = botocore.session.Session(profile=profile)
    try:
        found = session.get_credentials()
    except BotoCoreError as error:
        raise AccessDenied(f"no AWS credentials: {error}", "See `aws configure list`.") from error
    if found is None:
        raise AccessDenied("there are no AWS credentials here", "See `aws configure list`, or set AWS_PROFILE.")

    def frozen() -> dict[str, Any]:
        now = found.get_frozen_credentials()
        return {
            "access_key_id": now.access_key,
            "secret_access_key": now.secret_key,
            "token": now.token,
            "expires_at": datetime.now(timezone.utc) + _KEPT,
        }

    return frozen


def region(profile: str | None) -> str:
    """The region of the environment or of the profile."""
    if given := os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION"):
        return given
    name = profile or os.environ.get("AWS_PROFILE") or "default"
    section = name if name == "default" else f"profile {name}"
    return _configuration().get(section, "region", fallback="") or "us-east-1"


def endpoint() -> str | None:
    """Where S3 is, if not at AWS."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")


def metadata_endpoint() -> str | None:
    """Where a machine's own role is asked for, if not at the address that EC2 has for it."""
    given = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT")
    return given.rstrip("/") if given else None


def _has_native() -> bool:
    """Whether the environment names credentials that the store itself knows how to get, and to renew."""
    has = os.environ.get
    return bool(
        has("AWS_ACCESS_KEY_ID")
        or (has("AWS_WEB_IDENTITY_TOKEN_FILE") and has("AWS_ROLE_ARN"))
        or has("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
        or (has("AWS_CONTAINER_CREDENTIALS_FULL_URI") and has("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"))
    )


def _needs_botocore() -> bool:
    has = os.environ.get
    if has("AWS_ACCESS_KEY_ID"):
        return False
    if has("AWS_PROFILE"):
        return True
    if _has_native():
        return False
    return bool(has("AWS_CONTAINER_CREDENTIALS_FULL_URI")) or _credentials_file().exists() or _has_default_login()


def _has_default_login() -> bool:
    """Whether the configuration's default profile says where credentials come from."""
    found = _configuration()
    return found.has_section("default") and any(found.has_option("default", name) for name in _LOGINS)


def _configuration() -> RawConfigParser:
    from configparser import Error, RawConfigParser

    found = RawConfigParser(strict=False)
    path = Path(os.environ.get("AWS_CONFIG_FILE") or "~/.aws/config").expanduser()
    try:
        found.read(path, encoding="utf-8")
    except (Error, UnicodeDecodeError) as error:
        raise StoreError(
            f"cannot read AWS's configuration {path}", "Correct it, or name another: AWS_CONFIG_FILE."
        ) from error
    return found


def _credentials_file() -> Path:
    return Path(os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials").expanduser()
