"""A little of Terraform's language: resources and variables, with every text quoted.

>>> print(resource("oci_core_security_list", "nodes", {
...     "compartment_id": Reference("var.compartment_id"),
...     "ingress_security_rules": [Block({"protocol": "6", "tcp_options": Block({"min": 22, "max": 22})})],
... }))
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import MusterError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


@dataclass(frozen=True)
class Reference:
    """An expression as it stands, such as `var.tenancy_ocid`. Never made of what a user said."""

    text: str


@dataclass(frozen=True)
class Block:
    """A block inside a resource. Several under one name are a list of them."""

    values: Mapping[str, Any]


def resource(kind: str, name: str, values: Mapping[str, Any]) -> str:
    """A resource, with a new line at its end."""
    return f'resource "{_checked(kind)}" "{_checked(name)}" {{\n{_body(values, 1)}}}\n'


def variable(name: str, description: str) -> str:
    """A variable that whoever applies this has to give: a text."""
    return f'variable "{_checked(name)}" {{\n{_body({"type": Reference("string"), "description": description}, 1)}}}\n'


def identifier(name: str) -> str:
    """A name of Terraform's own for something that is called this."""
    made = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_").lower()
    return made if _NAME.fullmatch(made) else f"_{made}"


def quoted(text: str) -> str:
    """A text that Terraform reads as just this: nothing in it is taken for an expression."""
    escaped = json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
    escaped = re.sub(r"\\b", r"\\u0008", re.sub(r"\\f", r"\\u000c", escaped)) if re.search("[\b\f]", text) else escaped
    return escaped.replace("${", "$${").replace("%{", "%%{")


def _body(values: Mapping[str, Any], depth: int) -> str:
    return "".join(_lines(values, depth))


def _lines(values: Mapping[str, Any], depth: int) -> Iterator[str]:
    pad = "  " * depth
    plain = [name for name, value in values.items() if not _blocks(value)]
    width = max((len(name) for name in plain), default=0)
    for name, value in values.items():
        if blocks := _blocks(value):
            for block in blocks:
                yield f"{pad}{_checked(name)} {{\n{_body(block.values, depth + 1)}{pad}}}\n"
        else:
            yield f"{pad}{_checked(name):<{width}} = {_value(value, depth)}\n"


def _blocks(value: Any) -> list[Block]:
    if isinstance(value, Block):
        return [value]
    return list(value) if isinstance(value, list | tuple) and value and isinstance(value[0], Block) else []


def _value(value: Any, depth: int) -> str:
    if isinstance(value, Reference):
        return value.text
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, Mapping):
        pad = "  " * depth
        inner = "".join(f"{pad}  {quoted(str(name))} = {_value(item, depth + 1)}\n" for name, item in value.items())
        return f"{{\n{inner}{pad}}}"
    return _list(value, depth) if isinstance(value, Sequence) and not isinstance(value, str) else quoted(str(value))


def _list(items: Sequence[Any], depth: int) -> str:
    pad = "  " * depth
    return "[\n" + "".join(f"{pad}  {_value(item, depth + 1)},\n" for item in items) + f"{pad}]"


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise MusterError(f"{name!r} is no name in Terraform's language", "Names have letters, digits, _ and -.")
    return name
