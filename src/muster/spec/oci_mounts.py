"""Storage that the service mounts on every node: a bucket, or an export of a file system.

ADS says it as `{src, dest}`, people also as one text `SRC:DEST`; what is kept are the service's own words.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .fields import Field, Section
from .kinds import WRONG, Choice, Maybe, Shown, Text, Wrong, refuse
from .nodes import Node, Scalar, Table, joined
from .oci_kinds import Ocid, ocid_type
from .problems import Problems

MOST = 5
"""So many mounts the service takes for a job."""
_BUCKET = re.compile(r"oci://([^@/:]+)@([^@/:]+)(?:/(.*))?")
_FILES = re.compile(r"([^:@]+)[:@](.+)")
_WRITE = (
    "Write oci://bucket@namespace/prefix, or the mount target's OCID and the export's with a colon between them, "
    "or the mount target's address and the export's path."
)

_OWNER = "in a storage mount"
_EXAMPLES = {"src": "oci://bucket@namespace/prefix", "dest": "/mnt/data"}
_WIRE = Section(
    (
        Field("storage_type", Choice(("OBJECT_STORAGE", "FILE_STORAGE")), example='storage_type = "OBJECT_STORAGE"'),
        Field("destination_directory_name", Text(), example='destination_directory_name = "data"'),
        Field("destination_path", Maybe(Text())),
        Field("bucket", Maybe(Text())),
        Field("namespace", Maybe(Text())),
        Field("prefix", Maybe(Text())),
        Field("mount_target_id", Maybe(Ocid(("mounttarget",)))),
        Field("export_id", Maybe(Ocid(("export",)))),
        Field("mount_target", Maybe(Text())),
        Field("export_path", Maybe(Text())),
    ),
    owner=_OWNER,
)
_NEEDS = {
    "OBJECT_STORAGE": (("bucket",), ("namespace",)),
    "FILE_STORAGE": (("mount_target_id", "mount_target"), ("export_id", "export_path")),
}


@dataclass(frozen=True)
class StorageMount(Shown):
    """One mount, as a table in the service's words with underscores.

    A file system that is named by address and path, as ADS's users may, has `mount_target` and `export_path` in
    place of `mount_target_id` and `export_id`. The service takes OCIDs, so a target is checked with `check_named`.
    """

    expected: str = "{src, dest}, or a text SRC:DEST"
    yaml: bool = False
    """Whether the file that says it is one of ADS."""

    def read(self, node: Node, path: str, problems: Problems) -> dict[str, str] | Wrong:
        if isinstance(node, Scalar) and isinstance(node.value, str):
            source, colon, place = node.value.rpartition(":")
            if not colon or source == "oci":
                return refuse(
                    self, node, path, problems, "Add a colon and the folder: oci://bucket@namespace:/mnt/data."
                )
            return _mount(source, place, path, path, problems)
        if not isinstance(node, Table):
            return refuse(self, node, path, problems)
        if node.entries.keys() & {"storage_type", "destination_directory_name"}:
            return _wired(node, path, problems)
        pair = self._pair().read(node, path, problems)
        if not problems.clean(path):
            return WRONG
        return _mount(pair["src"], pair["dest"], joined(path, "src"), joined(path, "dest"), problems)

    def _pair(self) -> Section:
        said = {name: f"{name}: {text}" if self.yaml else f'{name} = "{text}"' for name, text in _EXAMPLES.items()}
        return Section(tuple(Field(name, Text(), example=text) for name, text in said.items()), owner=_OWNER)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"type": "string"}, {"type": "object"}]}


def check_named(mounts: Sequence[Mapping[str, str]], path: str, problems: Problems) -> None:
    """Notes file systems that are not named as the service wants them named."""
    for index, mount in enumerate(mounts):
        found = [mount[name] for name in ("mount_target", "export_path") if name in mount]
        if found:
            message = f"{' and '.join(found)}: the service knows a mount target and an export only by their OCIDs"
            fix = "`oci fs mount-target list` and `oci fs export list` tell them. Write both, a colon between them."
            problems.add(f"{path}[{index}]", message, fix)


def _mount(source: str, place: str, source_path: str, place_path: str, problems: Problems) -> dict[str, str] | Wrong:
    found, destination = _source(source), _destination(place)
    if found is None:
        problems.add(source_path, f"{source!r} names no storage that can be mounted", _WRITE)
    if destination is None:
        fix = "Write a folder, such as /mnt/data; a name alone is a folder in /mnt."
        problems.add(place_path, f"{place!r} is no folder to mount storage at", fix)
    return {**found, **destination} if found and destination else WRONG


def _source(text: str) -> dict[str, str] | None:
    if found := _BUCKET.fullmatch(text):
        bucket, namespace, prefix = found.groups()
        said = {"storage_type": "OBJECT_STORAGE", "bucket": bucket, "namespace": namespace}
        return {**said, **({"prefix": prefix} if prefix else {})}
    found = _FILES.fullmatch(text)
    target = _named(found[1], "mounttarget", "mount_target") if found else None
    export = _named(found[2], "export", "export_path") if found else None
    return {"storage_type": "FILE_STORAGE", **target, **export} if target and export else None


def _named(text: str, kind: str, otherwise: str) -> dict[str, str] | None:
    """A mount target or an export by its OCID, or else by its address or path."""
    if text.startswith("ocid"):
        return {f"{otherwise.removesuffix('_path')}_id": text} if ocid_type(text) == kind else None
    if otherwise == "export_path":
        return {otherwise: text} if text.startswith("/") else None
    import ipaddress

    try:
        return {otherwise: str(ipaddress.IPv4Address(text))}
    except ValueError:
        return None


def _destination(text: str) -> dict[str, str] | None:
    path, name = posixpath.split(text.rstrip("/"))
    if not name or ".." in text.split("/") or (path and not path.startswith("/")):
        return None
    return {"destination_directory_name": name, **({"destination_path": path} if path else {})}


def _wired(node: Table, path: str, problems: Problems) -> dict[str, str] | Wrong:
    values = _WIRE.read(node, path, problems)
    if not problems.clean(path):
        return WRONG
    said = {name: value for name, value in values.items() if value is not None}
    needed = _NEEDS[said["storage_type"]]
    for names in (names for names in needed if not said.keys() & set(names)):
        problems.add(path, f"{said['storage_type']} needs {' or '.join(names)}", _WRITE)
    other = {
        name for kind, groups in _NEEDS.items() if kind != said["storage_type"] for group in groups for name in group
    }
    for name in sorted(said.keys() & other):
        problems.add(joined(path, name), f"{said['storage_type']} has no {name}", "Take it out.")
    return said if problems.clean(path) else WRONG
