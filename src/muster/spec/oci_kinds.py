"""The kinds of values that only a target in Oracle's cloud has."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .kinds import WRONG, Kind, Shown, Text, Wrong, refuse
from .locations import BUCKETS, FSSPEC, Location
from .nodes import Items, Node, Scalar, Table, joined, plain
from .problems import Problems

OCID = re.compile(r"ocid[0-9]+\.([a-z0-9_-]+)\.[a-z0-9-]+\.[a-z0-9-]*(?:\.[A-Za-z0-9_-]*)?\.[A-Za-z0-9_-]+")
"""Type, realm, region (where it has one), a part for the future, and what makes it unique."""

_THINGS = {
    "capacityreservation": "a capacity reservation",
    "certificate": "a certificate",
    "certificateauthority": "a certificate authority",
    "compartment": "a compartment",
    "datasciencejob": "a job",
    "datasciencejobrun": "a job run",
    "datascienceproject": "a Data Science project",
    "export": "an export",
    "log": "a log",
    "loggroup": "a log group",
    "mounttarget": "a mount target",
    "networksecuritygroup": "a network security group",
    "securitylist": "a security list",
    "subnet": "a subnet",
    "tenancy": "a tenancy",
    "user": "a user",
    "vaultsecret": "a secret",
    "vcn": "a network (VCN)",
}

_LISTED_BY = {
    ("subnet", "vcn"): "`oci network subnet list --compartment-id … --vcn-id …` lists its subnets.",
    ("log", "loggroup"): "`oci logging log list --log-group-id …` lists its logs.",
    ("loggroup", "log"): "`oci logging log get` tells the group of a log.",
    ("vaultsecret", "vault"): "`oci vault secret list --compartment-id …` lists the secrets.",
}
"""How the one that is meant is found from the one that was written."""


def ocid_type(text: str) -> str | None:
    """What an OCID is the OCID of, such as `subnet`; None for a text that is no OCID."""
    found = OCID.fullmatch(text)
    return found[1] if found else None


def _article(word: str) -> str:
    return "an" if word[0] in "aeio" else "a"


@dataclass(frozen=True)
class Ocid(Shown):
    """The OCID of one kind of thing."""

    types: tuple[str, ...]

    @property
    def expected(self) -> str:
        return f"the OCID of {_THINGS[self.types[0]]}, ocid1.{self.types[0]}.…"

    def read(self, node: Node, path: str, problems: Problems) -> str | Wrong:
        text = Text(self.expected).read(node, path, problems)
        if isinstance(text, Wrong):
            return text
        kind = ocid_type(text)
        if kind is None:
            return refuse(self, node, path, problems, "Copy it from the console, whole.")
        if kind not in self.types:
            found, wanted = _THINGS.get(kind) or f"{_article(kind)} {kind}", _THINGS[self.types[0]]
            message = f"this is the OCID of {found}, and that of {wanted} belongs here"
            hint = _LISTED_BY.get((self.types[0], kind), "")
            problems.add(path, message, f"Write one that begins with ocid1.{self.types[0]}. {hint}".rstrip())
            return WRONG
        return text

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": rf"^ocid[0-9]+\.(?:{'|'.join(self.types)})\."}


@dataclass(frozen=True)
class Amount(Shown):
    """A number above zero, with or without a fraction."""

    expected: str = "a number above zero"

    def read(self, node: Node, path: str, problems: Problems) -> float | Wrong:
        value = node.value if isinstance(node, Scalar) else None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e6:
            return refuse(self, node, path, problems)
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "number", "exclusiveMinimum": 0}


@dataclass(frozen=True)
class ListOf(Shown):
    """A list of values of one kind."""

    kind: Kind
    most: int | None = None

    @property
    def expected(self) -> str:
        return f"a list, each {self.kind.expected}"

    def read(self, node: Node, path: str, problems: Problems) -> list[Any] | Wrong:
        if not isinstance(node, Items):
            return refuse(self, node, path, problems, "Write it as a list, in square brackets.")
        if self.most is not None and len(node.items) > self.most:
            problems.add(path, f"the service takes at most {self.most}, and here are {len(node.items)}")
            return WRONG
        read = (self.kind.read(item, f"{path}[{index}]", problems) for index, item in enumerate(node.items))
        return [value for value in read if value is not WRONG]

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": self.kind.schema()}


@dataclass(frozen=True)
class DefinedTags(Shown):
    """Tags by namespace and key."""

    expected: str = 'tags by namespace and key, such as {Operations = {team = "vision"}}'

    def read(self, node: Node, path: str, problems: Problems) -> dict[str, Any] | Wrong:
        if not isinstance(node, Table):
            return refuse(self, node, path, problems)
        for namespace, keys in node.entries.items():
            inner = joined(path, namespace)
            if not isinstance(keys, Table):
                problems.add(inner, f"expected {self.expected}", "Tags without a namespace are the job's `tags`.")
                continue
            for key, value in keys.entries.items():
                if not isinstance(value, Scalar) or value.value is None:
                    problems.add(joined(inner, key), "expected a text or a number", "A tag has one value.")
        return plain(node) if problems.clean(path) else WRONG

    def schema(self) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": {"type": "object"}}


_ANYWHERE = Location(("file", *BUCKETS), rarer=("memory", *FSSPEC))


@dataclass(frozen=True)
class FarWorkDir(Shown):
    """A work dir that machines elsewhere can reach too."""

    expected: str = "a bucket, such as oci://bucket@namespace/folder"

    def read(self, node: Node, path: str, problems: Problems) -> str | Wrong:
        text = _ANYWHERE.read(node, path, problems)
        if isinstance(text, Wrong):
            return text
        if not is_far(text):
            fix = "Write a bucket, such as oci://bucket@namespace/folder."
            problems.add(path, f"{text} is on this machine, where nodes in Oracle's cloud cannot meet", fix)
            return WRONG
        if re.match(r"oci://[^@/?]*(?:[/?]|$)", text):
            fix = "Write oci://bucket@namespace/folder. `oci os ns get` tells the namespace."
            problems.add(path, f"{text} does not say the bucket's namespace", fix)
            return WRONG
        return text

    def schema(self) -> dict[str, Any]:
        return _ANYWHERE.schema()


def is_far(work_dir: str) -> bool:
    """Whether a work dir is somewhere that machines of a cloud can reach."""
    scheme, url, _ = work_dir.partition("://")
    return bool(url) and scheme not in ("file", "memory")
