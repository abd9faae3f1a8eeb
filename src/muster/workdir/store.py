"""The one door to a work dir, wherever it is: a folder here, a bucket there.

A store keeps bytes under keys. A key is names joined by `/`; a name is any text but the empty one, `.`, `..`
and whatever holds `/`, NUL or a lone surrogate. There is no lock, no rename and no append, so that a bucket
and a folder behave the same: one writer per key, and what must exist only once is made with `create`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ..errors import StoreError


@dataclass(frozen=True)
class Capabilities:
    """What a store can do beyond keeping bytes; callers ask instead of guessing."""

    atomic_create: bool
    """Of many who create one key at once exactly one wins. Without it a run works, but two mains may meet."""
    poll_seconds: float
    """How often a waiting node may look without costing money or load: the slow end of its adaptive wait."""
    parallel: int = 1
    """How many requests at once bring more than one after the other: many where each waits for an answer."""
    whole_puts: bool = True
    """A reader sees the old or the new content. Without it one who comes at the wrong moment may see a part."""
    billed: bool = False
    """Each request costs money, so that what nobody waits for is better done seldom."""

    def lacks(self) -> Iterator[str]:
        """What a user of such a work dir should know, each in a line."""
        if not self.atomic_create:
            yield "work_dir: two who create a file at once may both succeed there, so that a run could get two mains"
        if not self.whole_puts:
            yield "work_dir: a file that is being written there can be read in part"


@dataclass(frozen=True)
class Entry:
    """One key as `list` shows it."""

    key: str
    size: int
    modified: float = field(default=0.0, compare=False)
    """When it was last written, in seconds since the epoch on the store's own clock."""
    tag: str = field(default="", compare=False)
    """Changes whenever the content does: a bucket's etag, a file's stamp. Empty where a store has none."""


class Store(Protocol):
    """What every work dir can do. All calls block; all errors are `StoreError`s."""

    @property
    def url(self) -> str:
        """The work dir as the user named it, in full."""

    @property
    def capabilities(self) -> Capabilities:
        """What this store can do."""

    def create(self, key: str, data: bytes) -> None:
        """Puts `data` under a new key, else `AlreadyExists`. Readers see all of it or nothing."""

    def put(self, key: str, data: bytes) -> None:
        """Puts `data` under a key, over whatever was there. Readers see the old or the new, never a part."""

    def put_file(self, key: str, path: Path) -> None:
        """Like `put`, with the content of a file of any size. No such file is `NotFound`."""

    def get(self, key: str) -> bytes:
        """The bytes under a key, else `NotFound`."""

    def get_range(self, key: str, start: int, size: int) -> bytes:
        """`size` bytes from `start` on; fewer where the content ends before, none behind its end."""

    def get_file(self, key: str, path: Path) -> None:
        """Like `get`, into a file whose folder is made if need be. `path` appears whole or not at all."""

    def list(self, prefix: str = "", after: str = "") -> Iterator[Entry]:
        """Every key that starts with `prefix` and sorts behind `after`, in the order of its UTF-8 bytes."""

    def list_names(self, prefix: str = "") -> Iterator[str]:
        """The names one level below a prefix that ends in `/` or is empty, in order, each once.

        What a delimiter listing is to a bucket: one request, however many keys lie deeper.
        """

    def delete(self, key: str) -> None:
        """Takes a key away. One that is not there is no error."""

    def delete_all(self, keys: Iterable[str]) -> None:
        """Takes many keys away, in as few requests as the store allows."""


def check_key(key: str) -> str:
    """The key itself, or an error that says what is wrong with it."""
    if not all(_is_name(name) for name in key.split("/")) or not is_text(key):
        raise StoreError(
            f"not a key of a work dir: {key!r}",
            "A key is names joined by '/', none of them '', '.' or '..', all text that UTF-8 can write.",
        )
    return key


def may_begin_keys(prefix: str) -> bool:
    """Whether any key at all can start with this prefix; a listing of one that cannot is empty."""
    names = prefix.split("/")
    return all(_is_name(name) for name in names[:-1]) and "\0" not in prefix and is_text(prefix)


def names_below(prefix: str) -> str:
    """The prefix itself if `list_names` takes it, else an error."""
    if prefix and not prefix.endswith("/"):
        raise StoreError(f"not a prefix for names: {prefix!r}", "It must be empty or end in '/'.")
    return prefix


def is_text(text: str) -> bool:
    """Whether UTF-8 can write it.

    Lone surrogates stand for other bytes: no bucket keeps them, and two keys could mean one file.
    """
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def _is_name(name: str) -> bool:
    return name not in ("", ".", "..") and "\0" not in name
