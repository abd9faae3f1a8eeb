"""As much of the tar format as code bundles need: files and links, with names of any length.

Python's own `tarfile` costs more to import than a small bundle costs to make, and reads far more than we
write. This reader takes nothing but what the writer makes, which is the safest thing to do with an archive.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

BLOCK = 512
MAX_SIZE = 8**11 - 1
"""The largest file that a plain tar header can tell."""

_FIELDS = struct.Struct("100s8s8s8s12s12s8sc100s8s32s32s8s8s155s12x")
_FILE, _LINK, _LONG_NAME, _LONG_LINK = b"0", b"2", b"L", b"K"
_MAGIC = b"ustar  \0"
_LONGEST_NAME = 1 << 16


class Member(NamedTuple):
    """One header: a file, whose `size` bytes follow, or a link."""

    name: bytes
    size: int = 0
    executable: bool = False
    link: bytes | None = None


def header(member: Member) -> bytes:
    """What stands before a member's content. Nothing in it depends on the machine or the time."""
    name, link = member.name, member.link or b""
    kind = _FILE if member.link is None else _LINK
    mode = 0o755 if member.executable else 0o644
    parts = [
        _long(_LONG_LINK, link) if len(link) > 100 else b"",
        _long(_LONG_NAME, name) if len(name) > 100 else b"",
        _block(name[:100], mode, member.size, kind, link[:100]),
    ]
    return b"".join(parts)


def padding(size: int) -> bytes:
    """What stands behind content of a size."""
    return bytes(-size % BLOCK)


def end() -> bytes:
    """What stands at the end of an archive."""
    return bytes(2 * BLOCK)


def members(stream: BinaryIO) -> Iterator[Member]:
    """The members of an archive. The content of each must be read from the stream before the next is taken.

    `ValueError` for anything that `header` does not write.
    """
    name = link = None
    while True:
        kind, found = _parse(_exactly(stream, BLOCK))
        if kind is None:
            return
        if kind in (_LONG_NAME, _LONG_LINK):
            if found.size > _LONGEST_NAME:
                raise ValueError("a name is too long")
            text = _exactly(stream, found.size + len(padding(found.size)))[: found.size].removesuffix(b"\0")
            name, link = (text, link) if kind == _LONG_NAME else (name, text)
            continue
        target = None if kind == _FILE else link or found.link
        yield found._replace(name=name or found.name, link=target)
        name = link = None
        _exactly(stream, len(padding(found.size)))


def _block(name: bytes, mode: int, size: int, kind: bytes, link: bytes) -> bytes:
    if size > MAX_SIZE:
        raise ValueError("a file is larger than 8 GiB")
    none = b"%07o\0" % 0
    fields = (name, b"%07o\0" % mode, none, none, b"%011o\0" % size, b"%011o\0" % 0)
    rest = (kind, link, _MAGIC, b"", b"", b"", b"", b"")
    checksum = sum(_FIELDS.pack(*fields, b" " * 8, *rest))
    return _FIELDS.pack(*fields, b"%06o\0 " % checksum, *rest)


def _long(kind: bytes, text: bytes) -> bytes:
    content = text + b"\0"
    return _block(b"././@LongLink", 0o644, len(content), kind, b"") + content + padding(len(content))


def _parse(block: bytes) -> tuple[bytes | None, Member]:
    if not any(block):
        return None, Member(b"")
    name, mode, _, _, size, _, checksum, kind, link, magic, *_ = _FIELDS.unpack(block)
    if magic != _MAGIC or kind not in (_FILE, _LINK, _LONG_NAME, _LONG_LINK):
        raise ValueError("something that is neither a file nor a link")
    if _octal(checksum) != sum(block[:148]) + sum(b" " * 8) + sum(block[156:]):
        raise ValueError("a damaged header")
    content = 0 if kind == _LINK else _octal(size)
    executable = bool(_octal(mode) & 0o100)
    return kind, Member(name.rstrip(b"\0"), content, executable and kind == _FILE, link.rstrip(b"\0"))


def _octal(field: bytes) -> int:
    text = field.strip(b"\0 ")
    if not text.isdigit():
        raise ValueError("a damaged header")
    return int(text, 8)


def _exactly(stream: BinaryIO, size: int) -> bytes:
    found = stream.read(size)
    if len(found) != size:
        raise ValueError("it ends too early")
    return found
