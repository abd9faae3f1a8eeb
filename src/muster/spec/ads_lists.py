"""The lists of an Oracle ADS file: arguments, start options, environments. Each text knows where it was said."""

from __future__ import annotations

from dataclasses import dataclass

from .ads_kinds import ReadOnly, Word
from .ads_placeholders import filled
from .fields import Field, Section, Text
from .kinds import Wrong, refuse
from .nodes import Items, Node, Table
from .problems import Problems
from .table import ENV_NAME


@dataclass(frozen=True)
class Said:
    """A text, and the field that says it."""

    text: str
    path: str


@dataclass(frozen=True)
class Texts(ReadOnly):
    """A list of texts and numbers, or one text."""

    expected: str = "a list of texts, or one text"

    def read(self, node: Node, path: str, problems: Problems) -> tuple[Said, ...] | Wrong:
        if isinstance(node, Table):
            return refuse(self, node, path, problems, "Write it as a list: [--epochs, 3].")
        nodes: dict[str, Node] = {path: node}
        if isinstance(node, Items):
            nodes = {f"{path}[{index}]": item for index, item in enumerate(node.items)}
        read = {inner: Word().read(item, inner, problems) for inner, item in nodes.items()}
        for inner, word in read.items():
            if isinstance(word, str):
                filled(word, inner, problems, "your own value", anywhere=False)
        return tuple(Said(word, inner) for inner, word in read.items() if isinstance(word, str))


@dataclass(frozen=True)
class Variable:
    """One entry of an `env` list."""

    name: str
    value: str
    path: str


_ENTRY = Section(
    (
        Field("name", Text(rule=ENV_NAME), example="name: NCCL_DEBUG"),
        Field("value", Word(), example="value: WARN"),
    ),
    owner="in an entry of env",
)


@dataclass(frozen=True)
class EnvList(ReadOnly):
    """A list of `name` and `value`."""

    expected: str = "a list of {name: …, value: …}"

    def read(self, node: Node, path: str, problems: Problems) -> dict[str, Variable] | Wrong:
        if not isinstance(node, Items):
            return refuse(self, node, path, problems, "Write each variable as `- name: X`, and below it `value: Y`.")
        found: dict[str, Variable] = {}
        for index, item in enumerate(node.items):
            variable = self._variable(item, f"{path}[{index}]", problems)
            if variable is None:
                continue
            first = found.setdefault(variable.name, variable)
            if first.value != variable.value:
                lines = f"on lines {problems.line(first.path)} and {problems.line(variable.path)}"
                problems.add(variable.path, f"{variable.name} is given twice, {lines}", "Keep one of the two.")
        return found

    def _variable(self, node: Node, path: str, problems: Problems) -> Variable | None:
        entry = _ENTRY.read(node, path, problems)
        if not isinstance(entry, dict) or not {"name", "value"} <= entry.keys():
            return None
        name, value, inner = entry["name"], entry["value"], f"{path}.value"
        # The two that templates of ADS leave open; a value of the user's own may hold any sign.
        filled(value, inner, problems, "its value", anywhere=name in ("WORKSPACE", "WORKSPACE_PREFIX"))
        return Variable(name, value, inner)
