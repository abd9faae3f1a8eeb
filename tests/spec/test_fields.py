"""Each kind reads what it takes, refuses the rest in words, and shows its values so that they read back."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import jsonschema
import pytest

from muster.spec.counts import ProcessCount, WorkerCount
from muster.spec.fields import (
    Anything,
    Boolean,
    Choice,
    Duration,
    Field,
    Integer,
    Kind,
    Maybe,
    Rule,
    Section,
    Size,
    Text,
    TextList,
    TextMap,
)
from muster.spec.job import Workers
from muster.spec.kinds import WRONG
from muster.spec.locations import INNER, Location
from muster.spec.problems import Problems
from muster.spec.tree import parse

pytestmark = pytest.mark.unit

WORDS = Rule("[a-z]+", "small letters", str.lower)


def read(kind: Kind, text: str) -> tuple[Any, list[str]]:
    problems = Problems()
    node = parse(f"x: {text}", problems)
    assert node is not None
    value = Section((Field("x", kind),)).read(node, "", problems)
    return value.get("x", WRONG), [str(problem).replace("1: ", "", 1) for problem in problems.found()]


GOOD: list[tuple[Kind, str, Any]] = [
    (Text(), "abc", "abc"),
    (Text(), "'5'", "5"),
    (Text(rule=WORDS), "abc", "abc"),
    (Choice(("a", "b")), "b", "b"),
    (Integer(), "-7", -7),
    (Integer(1, 9), "9", 9),
    (Boolean(), "no", False),
    (Duration(), "1h30m", 5400.0),
    (Duration(), "45", 45.0),
    (Duration(), "0.0001", 0.0001),
    (Size(), "32GiB", 32 * 2**30),
    (Size(), "1234567", 1234567),
    (Maybe(Integer(0)), "null", None),
    (Maybe(Integer(0)), "3", 3),
    (TextList(), "[--lr, 0.10, 1e5, yes, 2024-01-01, '']", ("--lr", "0.10", "1e5", "yes", "2024-01-01", "")),
    (TextMap(), "{A: 1.10, B: on, C: '', D: 0o17}", {"A": "1.10", "B": "on", "C": "", "D": "0o17"}),
    (Anything(), "{a: [1, {b: 2.5}]}", {"a": [1, {"b": 2.5}]}),
    (WorkerCount(), "0", Workers(0, 0)),
    (WorkerCount(), "3", Workers(3, 3)),
    (WorkerCount(), "{min: 1, max: 8}", Workers(1, 8)),
    (ProcessCount(), "auto", None),
    (ProcessCount(), "4", 4),
    (INNER, "out/model..1", "out/model..1"),
    (Location(), "a/b:c", "a/b:c"),
    (Location(("s3",)), "s3://bucket/a", "s3://bucket/a"),
    (Location(code=True), "git@host:team/name.git", "git@host:team/name.git"),
    (Location(code=True), "https://host/name.git#3f2c1a9", "https://host/name.git#3f2c1a9"),
    (Location(code=True), "ssh://git@host/name", "ssh://git@host/name"),
    (Location(code=True), "image:/app", "image:/app"),
]


@pytest.mark.parametrize(("kind", "text", "value"), GOOD)
def test_a_kind_reads_what_it_takes(kind: Kind, text: str, value: Any) -> None:
    assert read(kind, text) == (value, [])


@pytest.mark.parametrize(("kind", "text", "value"), GOOD)
def test_a_shown_value_reads_back_and_fits_the_schema(kind: Kind, text: str, value: Any) -> None:
    shown = kind.show(value)
    jsonschema.validate(shown, kind.schema())
    assert read(kind, json.dumps(shown)) == (value, [])


BAD: list[tuple[Kind, str, str]] = [
    (Text(), "5", 'x: expected a text, found the number 5\n    Put it in quotes: "5".'),
    (Text(), "''", "x: expected a text, found the text ''"),
    (Text(), "", "x: expected a text, found nothing\n    Give a value, or take the line out."),
    (Text(), "[a]", "x: expected a text, found a list"),
    (
        Text(),
        '"a\\0"',
        "x: holds a character that no process can be given\n    Take NUL and lone surrogates out.",
    ),
    (Text(rule=WORDS), "Abc", "x: expected small letters, found 'Abc'\n    Write `abc`."),
    (Text(rule=WORDS), "a b", "x: expected small letters, found 'a b'"),
    (
        Choice(("nccl", "gloo")),
        "ncll",
        "x: expected nccl or gloo, found the text 'ncll'\n    Did you mean `nccl`?",
    ),
    (Choice(("nccl", "gloo")), "7", "x: expected nccl or gloo, found the number 7"),
    (
        Integer(0),
        "'3'",
        "x: expected a whole number of at least 0, found the text '3'\n    Take the quotes off: 3.",
    ),
    (Integer(), "2.5", "x: expected a whole number, found the number 2.5"),
    (Integer(), "true", "x: expected a whole number, found the boolean true"),
    (Integer(1, 9), "10", "x: expected a whole number from 1 to 9, found the number 10"),
    (
        Boolean(),
        "'yes'",
        "x: expected true or false, found the text 'yes'\n    Write true or false, without quotes.",
    ),
    (
        Duration(),
        "1:30",
        "x: expected a duration above zero, found the number 1:30\n"
        "    Write a number and ms, s, m, h or d, such as 90s, 10m or 1h30m; a plain number is seconds.",
    ),
    (
        Duration(),
        "0s",
        "x: expected a duration above zero, found the text '0s'\n"
        "    Write a number and ms, s, m, h or d, such as 90s, 10m or 1h30m; a plain number is seconds.",
    ),
    (
        Size(),
        "32G",
        "x: expected a size above zero, found the text '32G'\n"
        "    Write a number and MB, GB, TB (powers of ten)"
        " or MiB, GiB, TiB (powers of two), such as 32GB or 1.5TiB.",
    ),
    (Maybe(Integer(0)), "a", "x: expected a whole number of at least 0, found the text 'a'"),
    (
        TextList(),
        "--epochs 3",
        'x: expected a list of texts, found the text \'--epochs 3\'\n    Write it as a list: ["--epochs", "3"].',
    ),
    (
        TextList(),
        "[a, null]",
        "x[1]: expected a text, found nothing\n"
        '    Write "" for an empty text, and put null in quotes if you mean'
        " the word.",
    ),
    (TextList(WORDS), "[Ab]", "x[0]: expected small letters, found 'Ab'\n    Write `ab`."),
    (
        TextMap(),
        "[A]",
        "x: expected a mapping of names to texts, found a list\n    Write it as a mapping: {NAME: value}.",
    ),
    (TextMap(), "{A: }", 'x.A: expected a text, found nothing\n    Write "" for an empty text.'),
    (TextMap(names=WORDS), "{AB: 1}", "x.AB: expected small letters\n    Write `ab`."),
    (WorkerCount(), "-1", "x: expected a whole number of at least 0, found the number -1"),
    (
        WorkerCount(),
        "many",
        "x: expected a whole number of at least 0, or {min: 1, max: 8}, found the text 'many'",
    ),
    (WorkerCount(), "{min: 5, max: 2}", "x: min (5) is more than max (2)\n    Write {min: 2, max: 5}."),
    (WorkerCount(), "{min: 0, max: 0}", "x.max: expected a whole number of at least 1, found the number 0"),
    (WorkerCount(), "{max: 2}", "x.min: missing\n    Add it, such as `min: 1`."),
    (ProcessCount(), "0", "x: expected a whole number of at least 1, found the number 0"),
    (ProcessCount(), "all", "x: expected a whole number of at least 1, or auto, found the text 'all'"),
    (Location(), "s3://b/a", "x: expected a path, found 's3://b/a'\n    Name a file on this machine."),
    (
        Location(("file", "s3"), rarer=("gcs",)),
        "gs://b",
        "x: expected a path or file://, s3://, found 'gs://b'\n    Did you mean `gcs://`?",
    ),
    (
        Location(("s3",)),
        "s3:/b/a",
        "x: expected a path or s3://, found 's3:/b/a'\n"
        "    Write s3://bucket/folder, with two slashes and the bucket's name.",
    ),
    (
        Location(("file",)),
        "file://a",
        "x: expected a path or file://, found 'file://a'\n    Write file:///absolute/path, with three slashes.",
    ),
    (
        Location(code=True),
        "https://host/page",
        "x: expected a path or https://host/code.zip, git+https://host/name.git#commit, image:/path, found"
        " 'https://host/page'\n"
        "    Write git+https://host/name.git#commit for git, https://host/code.zip for an archive,"
        " or image:/path for code that lies in the image.",
    ),
]


@pytest.mark.parametrize(("kind", "text", "message"), BAD)
def test_a_kind_refuses_the_rest_in_words(kind: Kind, text: str, message: str) -> None:
    assert read(kind, text)[1] == [message]


@pytest.mark.parametrize("path", ["/out", "~/out", "../out", "a/../../b", "..", "a/.."])
def test_an_inner_path_cannot_lead_out(path: str) -> None:
    _, (message,) = read(INNER, path)
    assert "expected a path inside the code folder, neither absolute nor with '..'" in message
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(path, INNER.schema())


@dataclass(frozen=True)
class Shape:
    width: int = 2
    label: str | None = None


SHAPE = Section(
    (Field("width", Integer(1), "How wide."), Field("label", Maybe(Text()), "Its name.")),
    model=Shape,
    owner="in a shape",
)


def test_a_section_fills_its_model_and_leaves_the_defaults() -> None:
    assert read(SHAPE, "{width: 5}") == (Shape(5), [])
    assert SHAPE.show(Shape(5)) == {"width": 5}
    assert SHAPE.show(Shape()) == {}


def test_a_section_knows_its_settings_and_reads_on_after_a_mistake() -> None:
    value, messages = read(SHAPE, "{widht: 3, width: 0, label: a}")
    assert value == Shape(label="a")
    assert messages == [
        "x.widht: there is no such setting in a shape\n    Did you mean `width`?",
        "x.width: expected a whole number of at least 1, found the number 0",
    ]


def test_a_sections_schema_takes_its_defaults_from_the_model() -> None:
    assert SHAPE.schema() == {
        "type": "object",
        "properties": {
            "width": {"description": "How wide.", "default": 2, "type": "integer", "minimum": 1},
            "label": {
                "description": "Its name.",
                "default": None,
                "anyOf": [{"type": "string", "minLength": 1}, {"type": "null"}],
            },
        },
        "additionalProperties": False,
    }
