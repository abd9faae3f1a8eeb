"""Errors of obstore as ours. What the server said stands in their text alone, so that is what is read here."""

from __future__ import annotations

import re

from ..clouds import aws
from ..clouds.refusals import Answer, Asked, Words, refusal
from ..errors import AccessDenied, AlreadyExists, ObjectChanged, StoreBusy, StoreError

_STATUS = re.compile(r"status code: (\d{3})")
_CODES = re.compile(r"<Code>(\w+)</Code>|\"code\":\s*\"?(\w+)|\(code: (\w+)\)|\"error\":\s*\"(\w+)")
_BODY = re.compile(r"<Message>(.*?)</Message>", re.DOTALL)
_SIZE = re.compile(r"<ActualObjectSize>(\d+)<|object was only (\d+) bytes long")
_ADDRESS = re.compile(r"Error performing [A-Z]+ (https?://[^/\s]+)")
_KIND = re.compile(r"kind: (Connect|Timeout|Interrupted|Request)\b")
_KINDS = {
    "Connect": "no connection",
    "Timeout": "no answer in time",
    "Interrupted": "the answer broke off",
    "Request": "the connection was closed",
}
_METADATA = re.compile(r"/latest/api/token|/latest/meta-data/|/metadata/identity/|/computeMetadata/")
_REDIRECTED = "incorrectly configured region"
_OF_ONE_OBJECT = {"AccessDenied": 403, "SlowDown": 503, "ServiceUnavailable": 503, "InternalError": 500}
"""What S3 says of one of many that it was to delete; Azure says a status."""


class Behind(Exception):
    """A range begins where the object has ended. `total` is where that is, if the server said so, else -1."""

    def __init__(self, total: int) -> None:
        super().__init__(total)
        self.total = total


def explained(words: Words, asked: Asked, error: Exception, *, known: bool, only: bool) -> Exception:
    """What an error of obstore means.

    `known`: this bucket has answered us before, so our credentials are good. `only`: we had named a condition.
    """
    import obstore  # whole, before a part of it: threads that import both at once may be given half a module

    errors = obstore.exceptions

    answer = _answer(error)
    place = f"{asked.name!r} in the bucket {asked.bucket}" if asked.name else f"the bucket {asked.bucket}"
    if isinstance(error, errors.AlreadyExistsError | errors.PreconditionError) and not only:
        return StoreBusy(f"cannot {asked.verb} {place} now: {words.service} said {answer.code or answer.status}")
    if isinstance(error, errors.AlreadyExistsError):
        if answer.status == 409 and words is aws.WORDS:
            return StoreBusy(f"another writes {place} at this moment")
        return AlreadyExists(f"{place} is there already")
    if isinstance(error, errors.PreconditionError):
        return ObjectChanged(f"{place} changed while it was read")
    size = _SIZE.search(str(error))
    if answer.status == 416 or size:
        return Behind(int(size.group(1) or size.group(2)) if size else -1)
    if isinstance(error, errors.UnauthenticatedError) and not answer.status:
        reason = answer.text.rpartition("credential provider: ")[2]
        return AccessDenied(f"cannot {asked.verb} {place}: no credentials ({reason})", words.login(asked, answer))
    if not known and _METADATA.search(str(error)):
        told = "there are no credentials in the environment, and no machine's role gives any"
        return AccessDenied(f"cannot {asked.verb} {place}: {told}", words.login(asked, answer))
    if isinstance(error, (errors.InvalidPathError, errors.NotSupportedError)):
        return StoreError(f"cannot {asked.verb} {place}: {answer.text}")
    return refusal(words, asked, answer)


def first_line(error: Exception) -> str:
    """What an error of obstore says before it shows its insides."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]


def _answer(error: Exception) -> Answer:
    text = str(error)
    status, codes, body = _STATUS.search(text), _CODES.search(text), _BODY.search(text)
    code = next(filter(None, codes.groups()), "") if codes else ""
    number = int(status.group(1)) if status else int(code) if code.isdigit() else _OF_ONE_OBJECT.get(code, 0)
    if not number and isinstance(error, FileNotFoundError):
        number = 404
    if not number and _REDIRECTED in text:
        number, code = 301, "PermanentRedirect"
    return Answer(number, code, body.group(1) if body else _unanswered(text) or first_line(error))


def _unanswered(text: str) -> str:
    """Why there was no answer, in words."""
    kind, address = _KIND.search(text), _ADDRESS.search(text)
    if not kind or "HTTP error" not in text:
        return ""
    return f"{_KINDS[kind.group(1)]}{f' from {address.group(1)}' if address else ''}"
