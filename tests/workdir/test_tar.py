"""Our few kinds of tar members, against Python's whole tarfile."""

from __future__ import annotations

import io
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.workdir import tar
from muster.workdir.tar import Member

pytestmark = pytest.mark.unit

texts = st.binary(min_size=1, max_size=300).filter(lambda text: b"\0" not in text)
files = st.tuples(st.builds(Member, texts, st.just(0), st.booleans(), st.none()), st.binary(max_size=1500))
links = st.tuples(st.builds(Member, texts, st.just(0), st.just(False), texts), st.just(b""))


def archive(content: list[tuple[Member, bytes]]) -> bytes:
    parts = [tar.header(member) + data + tar.padding(len(data)) for member, data in content]
    return b"".join([*parts, tar.end()])


def read(content: bytes) -> list[tuple[Member, bytes]]:
    stream = io.BytesIO(content)
    return [(member, stream.read(member.size)) for member in tar.members(stream)]


def sized(content: list[tuple[Member, bytes]]) -> list[tuple[Member, bytes]]:
    return [(member._replace(size=len(data)), data) for member, data in content]


@given(st.lists(files | links, max_size=4).map(sized))
def test_what_is_written_is_read_back(content: list[tuple[Member, bytes]]) -> None:
    assert read(archive(content)) == content


@given(st.lists(files | links, max_size=4).map(sized))
def test_pythons_tarfile_reads_the_same(content: list[tuple[Member, bytes]]) -> None:
    with tarfile.open(fileobj=io.BytesIO(archive(content)), encoding="utf-8", errors="surrogateescape") as shown:
        for found, (member, data) in zip(shown.getmembers(), content, strict=True):
            assert found.name.rstrip("/") == member.name.decode("utf-8", "surrogateescape").rstrip("/")
            assert (found.uid, found.gid, found.mtime) == (0, 0, 0)
            assert found.issym() is (member.link is not None)
            if found.isreg():
                content_read = shown.extractfile(found)
                assert content_read is not None
                assert content_read.read() == data
                assert bool(found.mode & 0o100) is member.executable


def foreign(kind: bytes, form: int = tarfile.GNU_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as writing:
        info = tarfile.TarInfo("x")
        info.type = kind
        info.linkname = "y"
        writing.addfile(info)
    return out.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        foreign(tarfile.CHRTYPE),
        foreign(tarfile.BLKTYPE),
        foreign(tarfile.FIFOTYPE),
        foreign(tarfile.LNKTYPE),
        foreign(tarfile.DIRTYPE),
        foreign(tarfile.REGTYPE, tarfile.USTAR_FORMAT),
        b"",
        b"x" * 512,
        archive([(Member(b"a", 5), b"12345")])[:512],
        archive([(Member(b"a" * 200), b"")])[:600],
        archive([(Member(b"a" * 70_000), b"")]),
        b"b" + archive([(Member(b"a"), b"")])[1:],
    ],
)
def test_anything_else_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"neither|early|damaged|long"):
        read(content)


def test_a_size_that_a_header_cannot_tell_is_refused() -> None:
    with pytest.raises(ValueError, match="8 GiB"):
        tar.header(Member(b"a", tar.MAX_SIZE + 1))
