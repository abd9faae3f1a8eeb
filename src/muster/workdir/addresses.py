"""The URL of a work dir in a bucket, read into its parts.

`s3://bucket/prefix?region=eu-west-1`: what stands behind a question mark are settings that hold wherever the work
dir is opened, on every node too. No secret can be among them, because a work dir is shown and written down.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode

from ..errors import StoreError
from ..spec.problems import nearest
from .store import check_key


class Address(NamedTuple):
    """Where a bucket is, and which part of it is the work dir."""

    scheme: str
    bucket: str
    prefix: str
    options: Mapping[str, str]

    @property
    def url(self) -> str:
        """The one way to write it."""
        path = f"/{self.prefix}" if self.prefix else ""
        settings = f"?{urlencode(sorted(self.options.items()), safe=':/')}" if self.options else ""
        return f"{self.scheme}://{self.bucket}{path}{settings}"


def read_address(url: str, known: Collection[str]) -> Address:
    """The parts of a work dir's URL, or an error that says what is wrong with it."""
    place, _, query = url.partition("?")
    scheme, _, rest = place.partition("://")
    bucket, _, prefix = rest.partition("/")
    if not bucket or bucket != bucket.strip():
        raise StoreError(f"no bucket in {url!r}", f"Write {scheme}://BUCKET/PREFIX.")
    try:
        options = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
    except ValueError as error:
        raise StoreError(f"cannot read the settings of {place}: {error}", "Write ?name=value&name=value.") from error
    for name in options:
        if name not in known:
            guess = nearest(name, known)
            told = f"Did you mean {guess!r}? " if guess else ""
            raise StoreError(
                f"work dirs on {scheme}:// have no setting {name!r}", f"{told}Known are {', '.join(known)}."
            )
    prefix = prefix.rstrip("/")
    return Address(scheme.lower(), bucket, check_key(prefix) if prefix else "", options)


def with_defaults(url: str, settings: Mapping[str, str]) -> str:
    """The URL with these settings too, where it does not say otherwise."""
    place, _, query = url.partition("?")
    said = {**settings, **dict(parse_qsl(query))}
    return f"{place}?{urlencode(sorted(said.items()), safe=':/')}" if said else place


def split_object(url: str) -> tuple[str, str]:
    """The URL of one object as a work dir and a key in it."""
    place, mark, query = url.partition("?")
    folder, _, key = place.rpartition("/")
    return f"{folder}{mark}{query}", key
