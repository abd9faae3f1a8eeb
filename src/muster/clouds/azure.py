"""Azure: what its Blob Storage's refusals mean. Credentials are the store's own business, by Azure's environment."""

from __future__ import annotations

import os

from .refusals import Answer, Asked, Words

INSTALL = "pip install 'musterpoint[azure]'"


def _missing_bucket(asked: Asked, _answer: Answer) -> str:
    return f"Make it (`az storage container create --name {asked.bucket}`), or correct its name in the work dir."


def _login(_asked: Asked, _answer: Answer) -> str:
    return "Set AZURE_STORAGE_ACCOUNT_KEY, or the AZURE_… variables of a service principal, or run `az login`."


def _permission(asked: Asked, _answer: Answer) -> str:
    return f"Give this identity the role Storage Blob Data Contributor on the container {asked.bucket}."


WORDS = Words(
    "Azure",
    no_bucket=frozenset({"ContainerNotFound"}),
    credentials=frozenset({"AuthenticationFailed", "InvalidAuthenticationInfo", "NoAuthenticationInformation"}),
    missing_bucket=_missing_bucket,
    login=_login,
    permission=_permission,
)


def account() -> str | None:
    """The storage account of the environment, by either of its names."""
    return os.environ.get("AZURE_STORAGE_ACCOUNT_NAME") or os.environ.get("AZURE_STORAGE_ACCOUNT")
