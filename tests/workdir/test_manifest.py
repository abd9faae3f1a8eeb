"""The list of a bundle's files, and which lists are refused."""

from __future__ import annotations

import json
import os

import pytest

from muster.workdir.manifest import FileEntry, Manifest, stays_inside

pytestmark = pytest.mark.unit


def read_back(manifest: Manifest) -> Manifest:
    return Manifest.from_json(json.loads(manifest.canonical()))


def test_a_manifest_is_read_back_equal_with_the_same_digest() -> None:
    manifest = Manifest(
        (
            FileEntry("Ünï/a b#\n.py", 12, "a" * 64),
            FileEntry(os.fsdecode(b"caf\xe9"), 0, "b" * 64, executable=True),
            FileEntry("link", link="Ünï/a b#\n.py"),
        )
    )
    assert read_back(manifest) == manifest
    assert read_back(manifest).digest == manifest.digest
    assert manifest.bytes == 12


def test_every_part_of_an_entry_counts_in_the_digest() -> None:
    entries = [
        FileEntry("a", 1, "a" * 64),
        FileEntry("b", 1, "a" * 64),
        FileEntry("a", 2, "a" * 64),
        FileEntry("a", 1, "b" * 64),
        FileEntry("a", 1, "a" * 64, executable=True),
        FileEntry("a", link="b"),
    ]
    assert len({Manifest((entry,)).digest for entry in entries}) == len(entries)


@pytest.mark.parametrize(
    "files",
    [
        [FileEntry("/etc/passwd")],
        [FileEntry("../a")],
        [FileEntry("a/../../b")],
        [FileEntry("a//b")],
        [FileEntry("./a")],
        [FileEntry("")],
        [FileEntry("nul\0")],
        [FileEntry("a", -1)],
        [FileEntry("a"), FileEntry("a")],
        [FileEntry("a"), FileEntry("a/b")],
        [FileEntry("a", link="b"), FileEntry("a/b/c")],
        [FileEntry("a", link="/etc")],
        [FileEntry("a", link="..")],
        [FileEntry("a/b", link="../../c")],
        [FileEntry("a", link="")],
    ],
)
def test_a_list_that_reaches_out_of_its_folder_is_refused(files: list[FileEntry]) -> None:
    with pytest.raises(ValueError, match=r"bundle|twice|no folder"):
        read_back(Manifest(tuple(files)))


def test_another_version_is_refused() -> None:
    with pytest.raises(ValueError, match="version 2"):
        Manifest.from_json({"version": 2, "files": []})


@pytest.mark.parametrize(
    ("path", "target", "inside"),
    [
        ("a", "b", True),
        ("a", "b/c", True),
        ("a", ".", True),
        ("d/a", "..", True),
        ("d/a", "../b", True),
        ("d/a", "../../b", False),
        ("a", "../b", False),
        ("a", "/b", False),
        ("a", "b/../c", False),
        ("p/q/r", "../..", True),
        ("e", "p/q/r/../x", False),
    ],
)
def test_a_link_may_climb_only_at_its_start_and_only_so_far(path: str, target: str, inside: bool) -> None:
    assert stays_inside(path, target) is inside
