"""Google Cloud: what its storage's refusals mean. Credentials are the store's own business, by Google's environment."""

from __future__ import annotations

from .refusals import Answer, Asked, Words

INSTALL = "pip install 'musterpoint[gcp]'"

_PERMISSIONS = {
    "read": "storage.objects.get",
    "write": "storage.objects.create and storage.objects.delete",
    "delete": "storage.objects.delete",
    "list": "storage.objects.list",
}


def _missing_bucket(asked: Asked, _answer: Answer) -> str:
    return f"Make it (`gcloud storage buckets create gs://{asked.bucket}`), or correct its name in the work dir."


def _login(_asked: Asked, _answer: Answer) -> str:
    return "Log in (`gcloud auth application-default login`), or set GOOGLE_APPLICATION_CREDENTIALS to a key file."


def _permission(asked: Asked, _answer: Answer) -> str:
    needed = _PERMISSIONS[asked.verb]
    return f"Give this account {needed} on gs://{asked.bucket}; roles/storage.objectUser has all that Muster needs."


WORDS = Words(
    "Google",
    no_bucket=frozenset({"NoSuchBucket"}),
    credentials=frozenset({"invalid_grant", "AuthenticationRequired", "InvalidSecurity"}),
    missing_bucket=_missing_bucket,
    login=_login,
    permission=_permission,
)
