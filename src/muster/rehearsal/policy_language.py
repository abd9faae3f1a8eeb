"""Statements of Oracle's policy language: `Allow SUBJECT to VERB TYPE in PLACE where CONDITIONS`."""

from __future__ import annotations

from dataclasses import dataclass

from .policy_conditions import Always, Condition, NotPolicy, Tokens, read_condition
from .policy_table import KINDS, VERBS, permissions

_SUBJECTS = ("group", "dynamic-group", "service")
_OTHERS = ("endorse", "admit", "define", "deny")


@dataclass(frozen=True)
class Subject:
    """Whom a statement is about: names in lower case, with the domain in front where one is said."""

    kind: str
    """`group`, `dynamic-group`, `service`, `any-user`, `any-group`."""
    names: frozenset[str] = frozenset()
    ids: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Location:
    """Where a statement holds: the whole tenancy, a compartment by its OCID, or by its path of names."""

    id: str = ""
    path: tuple[str, ...] = ()

    @property
    def tenancy(self) -> bool:
        return not self.id and not self.path


@dataclass(frozen=True)
class Statement:
    text: str
    subject: Subject
    permissions: frozenset[str]
    location: Location
    condition: Condition


def read_statement(text: str) -> Statement:
    """A statement from its text. Raises `NotPolicy` with what is wrong."""
    tokens = Tokens(text)
    if tokens.word in _OTHERS:
        raise NotPolicy(f"{tokens.word.capitalize()} statements are not rehearsed: {text}")
    tokens.expect("allow")
    subject = _subject(tokens)
    tokens.expect("to")
    given = _permissions(tokens)
    tokens.expect("in")
    location = _location(tokens)
    condition = read_condition(tokens) if tokens.skip("where") else Always()
    if tokens.kind:
        raise NotPolicy(f"nothing was expected at {tokens.word!r} in: {text}")
    return Statement(text, subject, given, location, condition)


def _subject(tokens: Tokens) -> Subject:
    kind = tokens.take().lower()
    if kind in ("any-user", "any-group"):
        return Subject(kind)
    if kind == "dynamic" and tokens.skip("group"):
        kind = "dynamic-group"
    if kind not in _SUBJECTS:
        raise NotPolicy(f"expected a subject such as `group NAME` instead of {kind!r} in: {tokens.text}")
    names: set[str] = set()
    ids: set[str] = set()
    while True:
        (ids if tokens.skip("id") else names).add(_name(tokens))
        if not tokens.skip(","):
            return Subject(kind, frozenset(names), frozenset(ids))


def _name(tokens: Tokens) -> str:
    if tokens.kind not in ("word", "text", "domain"):
        raise NotPolicy(f"expected a name instead of {tokens.word or 'the end'!r} in: {tokens.text}")
    return tokens.take().replace("'", "").lower()


def _permissions(tokens: Tokens) -> frozenset[str]:
    if tokens.skip("{"):
        named = {tokens.take().upper()}
        while tokens.skip(","):
            named.add(tokens.take().upper())
        tokens.expect("}")
        return frozenset(named)
    verb, kind = tokens.take().lower(), tokens.take().lower()
    if verb not in VERBS:
        raise NotPolicy(f"there is no verb {verb!r} in: {tokens.text}")
    if kind not in KINDS:
        raise NotPolicy(f"the resource type {kind!r} is none of those that are rehearsed: {tokens.text}")
    return permissions(verb, kind)


def _location(tokens: Tokens) -> Location:
    if tokens.skip("tenancy"):
        return Location()
    tokens.expect("compartment")
    if tokens.skip("id"):
        return Location(id=_name(tokens))
    return Location(path=tuple(_name(tokens).split(":")))
