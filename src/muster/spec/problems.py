"""The mistakes found so far in one file, and the lines that its fields stand on."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..errors import Problem


class Problems:
    """Collects every mistake of one file, so that its user mends them all in one edit.

    A field is known by its path: `workers.min`, `args[2]`. `lines` tells where each path stands; what was
    made in Python stands on line 0, which is never shown. A path that is in `lines` was given by the user.
    """

    def __init__(self, file: str = "", lines: dict[str, int] | None = None) -> None:
        self.file = file
        self.lines = lines if lines is not None else {}
        self._found: list[Problem] = []

    def add(self, path: str, message: str, fix: str = "", line: int | None = None) -> None:
        """Notes a mistake of one field; its line is looked up unless it is given."""
        line = self.line(path) if line is None else line
        self._found.append(Problem(message, fix, field=path, file=self.file, line=line))

    def line(self, path: str) -> int:
        """The line of a field, or of the closest field around it."""
        while path and path not in self.lines:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return self.lines.get(path, 0)

    def given(self, path: str) -> bool:
        """Whether the user wrote this field at all."""
        return path in self.lines

    def clean(self, *paths: str) -> bool:
        """Whether nothing is wrong with these fields or inside them, so that a check may rely on them."""
        return not any(_within(problem.field, path) for problem in self._found for path in paths)

    def found(self) -> list[Problem]:
        """All mistakes, in the order of their lines."""
        return sorted(self._found, key=lambda problem: problem.line)


def _within(field: str, path: str) -> bool:
    return field == path or field.startswith((f"{path}.", f"{path}["))


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that a mistyped one was most likely meant to be."""
    import difflib

    plain = {_plain(name): name for name in known}
    close = difflib.get_close_matches(_plain(word[:80]), plain, n=1, cutoff=0.6)
    return plain[close[0]] if close else None


def _plain(word: str) -> str:
    return word.casefold().replace("-", "_")


def suggestion(word: str, known: Collection[str], otherwise: str = "Known here") -> str:
    """What to write instead of a word that is not known: the nearest one, or the list of them all."""
    guess = nearest(word, known)
    return f"Did you mean `{guess}`?" if guess else f"{otherwise}: {', '.join(known) or 'none'}."
