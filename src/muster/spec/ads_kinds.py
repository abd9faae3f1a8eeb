"""The kinds of single values that only an Oracle ADS file has."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from . import variables
from .ads_placeholders import filled
from .kinds import WRONG, Wrong, refuse, sendable
from .nodes import Node, Scalar
from .problems import Problems, suggestion
from .table import WORK_DIR

FRAMEWORKS = ("dask", "horovod", "pytorch", "tensorflow")


class ReadOnly:
    """A kind whose values are only read: Muster writes no ADS files and has no schema of them."""

    def show(self, value: Any) -> Any:
        return value

    def schema(self) -> dict[str, Any]:
        return {}


@dataclass(frozen=True)
class Word(ReadOnly):
    """A text, or a number or boolean as it was written."""

    expected: str = "a text"

    def read(self, node: Node, path: str, problems: Problems) -> str | Wrong:
        if not isinstance(node, Scalar) or node.value is None:
            return refuse(self, node, path, problems)
        return node.raw if sendable(node.raw, path, problems) else WRONG


@dataclass(frozen=True)
class Filled(Word):
    """A word that must be the user's own, not the template's."""

    what: str = "your own value"

    def read(self, node: Node, path: str, problems: Problems) -> str | Wrong:
        word = super().read(node, path, problems)
        if isinstance(word, Wrong) or not filled(word, path, problems, self.what):
            return WRONG
        return word.strip() or refuse(self, node, path, problems, f"Write {self.what}.")


@dataclass(frozen=True)
class WorkDir(Filled):
    """Where the nodes meet."""

    what: str = "the bucket and folder where the nodes meet, such as oci://bucket@namespace/folder"

    def read(self, node: Node, path: str, problems: Problems) -> str | Wrong:
        word = super().read(node, path, problems)
        return word if isinstance(word, Wrong) else WORK_DIR.read(Scalar(word, word), path, problems)


@dataclass(frozen=True)
class Number(ReadOnly):
    """A number, in quotes or not."""

    least: int = 1
    whole: bool = True

    @property
    def expected(self) -> str:
        return f"a {'whole ' if self.whole else ''}number of at least {self.least}"

    def read(self, node: Node, path: str, problems: Problems) -> int | float | Wrong:
        raw = node.raw.strip() if isinstance(node, Scalar) and not isinstance(node.value, bool) else ""
        if re.fullmatch(r"[0-9]{1,9}" if self.whole else r"[0-9]{1,9}(\.[0-9]{1,9})?", raw):
            value = float(raw) if "." in raw else int(raw)
            return value if value >= self.least else refuse(self, node, path, problems)
        return refuse(self, node, path, problems) if filled(raw, path, problems, self.expected) else WRONG


@dataclass(frozen=True)
class Yes(ReadOnly):
    """Whether something is wanted, in all the ways that people say so. Nothing said means yes."""

    expected: str = "true or false"

    def read(self, node: Node, path: str, problems: Problems) -> bool | Wrong:
        if isinstance(node, Scalar) and (node.value is None or isinstance(node.value, bool)):
            return node.value is not False
        try:
            return variables.yes(node.raw.strip() or "None" if isinstance(node, Scalar) else "")
        except ValueError:
            return refuse(self, node, path, problems, "true: the cluster ends with its script. false: it stays.")


@dataclass(frozen=True)
class OneOf(ReadOnly):
    """One of a few words, in any case."""

    words: tuple[str, ...]
    fix: str = ""

    @property
    def expected(self) -> str:
        return " or ".join(filter(None, (", ".join(self.words[:-1]), self.words[-1])))

    def read(self, node: Node, path: str, problems: Problems) -> str | Wrong:
        word = node.raw.strip().lower() if isinstance(node, Scalar) else ""
        found = next((known for known in self.words if known.lower() == word), None)
        fix = self.fix or (suggestion(word, self.words) if word else "")
        return found or refuse(self, node, path, problems, fix)


@dataclass(frozen=True)
class ClusterKind(OneOf):
    """The framework."""

    words: tuple[str, ...] = FRAMEWORKS

    def read(self, node: Node, path: str, problems: Problems) -> str | Wrong:
        if isinstance(node, Scalar) and node.raw.strip().lower() == "ray":
            fix = f"Muster makes clusters of {self.expected}. Keep this file for ADS."
            problems.add(path, "Ray is not among the frameworks of Muster", fix)
            return WRONG
        return super().read(node, path, problems)
