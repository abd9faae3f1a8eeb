"""YAML text becomes a tree that remembers lines and texts as written; what is no YAML is explained."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from muster.spec.nodes import Scalar, Table, plain
from muster.spec.problems import Problems
from muster.spec.tree import parse

pytestmark = pytest.mark.unit

JOB = """\
# yaml-language-server: $schema=urn:musterpoint:job:1
name: mnist

env:
  A: 1.10
  B: yes   # a comment
args:
  - --lr
  - 0.10
workers: {min: 1,
          max: 8}
notes: |
  two
  lines
entry:
ttl: 8h
"""


def read(text: str) -> tuple[Any, Problems]:
    problems = Problems("job.yaml")
    node = parse(text, problems)
    return None if node is None else plain(node), problems


def complaints(text: str) -> list[str]:
    return [str(problem) for problem in read(text)[1].found()]


def test_values_are_resolved_the_yaml_way() -> None:
    value, problems = read(JOB)
    assert not problems.found()
    assert value == {
        "name": "mnist",
        "env": {"A": 1.1, "B": True},
        "args": ["--lr", 0.1],
        "workers": {"min": 1, "max": 8},
        "notes": "two\nlines\n",
        "entry": None,
        "ttl": "8h",
    }


def test_the_text_as_written_is_kept() -> None:
    node = parse("{a: 1.10, b: yes, c: 2024-13-45, d: '007', e: 0x_}", Problems())
    assert isinstance(node, Table)
    found = {key: item for key, item in node.entries.items() if isinstance(item, Scalar)}
    assert {key: item.raw for key, item in found.items()} == {
        "a": "1.10",
        "b": "yes",
        "c": "2024-13-45",
        "d": "007",
        "e": "0x_",
    }
    assert [found[key].value for key in "abcde"] == [1.1, True, "2024-13-45", "007", "0x_"]


def test_every_field_knows_its_line() -> None:
    lines = read(JOB)[1].lines
    assert lines == {
        "": 2,
        "name": 2,
        "env": 4,
        "env.A": 5,
        "env.B": 6,
        "args": 7,
        "args[0]": 8,
        "args[1]": 9,
        "workers": 10,
        "workers.min": 10,
        "workers.max": 11,
        "notes": 12,
        "entry": 15,
        "ttl": 16,
    }


def test_both_parsers_agree_on_the_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = read(JOB)[1].lines
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    assert read(JOB)[1].lines == quick


def test_an_empty_text_gives_no_tree_and_no_mistake() -> None:
    for text in ("", "\n\n", "# only a comment\n", "---\n..."):
        value, problems = read(text)
        assert (value, problems.found()) == (None, [])


def test_aliases_and_merge_keys_are_written_out() -> None:
    text = """\
base: &base {A: 1, B: 2}
env: {<<: *base, B: 3}
both: {<<: [*base, {A: 9, C: 4}]}
"""
    value, problems = read(text)
    assert not problems.found()
    assert value["env"] == {"A": 1, "B": 3}
    assert value["both"] == {"A": 1, "B": 2, "C": 4}
    assert problems.lines["env.B"] == 2


def test_a_key_given_twice_names_both_lines() -> None:
    assert complaints("name: a\nttl: 1h\nname: b\nenv: {A: 1, A: 2}\n") == [
        "job.yaml:3: name: given twice, on lines 1 and 3\n    Keep one of the two.",
        "job.yaml:4: env.A: given twice, on lines 4 and 4\n    Keep one of the two.",
    ]


def test_a_key_that_yaml_does_not_read_as_text_wants_quotes() -> None:
    assert complaints("env:\n  NO: 1\n  5: 2\n  [a]: 3\n") == [
        'job.yaml:2: env: YAML reads the key `NO` as the boolean NO, and a key is text\n    Put it in quotes: "NO".',
        'job.yaml:3: env: YAML reads the key `5` as the number 5, and a key is text\n    Put it in quotes: "5".',
        "job.yaml:4: env: a key is a list or a mapping\n    Keys are plain text.",
    ]


def test_a_tag_means_nothing() -> None:
    assert complaints("a: !!python/object/apply:os.system [ls]\nb: !vault x\nc: !!str 5\n") == [
        "job.yaml:1: a: the tag !!python/object/apply:os.system means nothing here\n    Take the tag out.",
        "job.yaml:2: b: the tag !vault means nothing here\n    Take the tag out.",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "name: a\n\tttl: 1h\n",
            "job.yaml:2: a tab in the indentation\n    YAML indents with spaces only: put spaces in its place.",
        ),
        (
            "name: a\nargs: [1, 2\nttl: 1h\n",
            "job.yaml:3: not valid YAML: expected ',' or ']', but got ':' (while parsing a flow"
            " sequence, begun on"
            " line 2)\n"
            "    Look for a bracket, a quote or a colon that is missing here or on the line before.",
        ),
        (
            "name: a: b\n",
            "job.yaml:1: not valid YAML: mapping values are not allowed here\n"
            "    A text that holds ': ' needs quotes, and the keys of one mapping need the same indentation.",
        ),
        (
            "name: a\nargs: @x\n",
            "job.yaml:2: not valid YAML: found character '@' that cannot start any token (while"
            " scanning for the next"
            " token)\n    A text that starts with a special character such as * @ % ` needs quotes.",
        ),
        (
            "name: *a\n",
            "job.yaml:1: not valid YAML: found undefined alias 'a'\n"
            "    A text that starts with a special character such as * @ % ` needs quotes.",
        ),
        (
            "name: a\nttl: \x01\n",
            "job.yaml:2: there is a character here that YAML does not allow\n"
            "    Save the file as plain UTF-8 text, without control characters.",
        ),
        (
            "name: \ud800\n",
            "job.yaml:1: there is a character here that YAML does not allow\n"
            "    Save the file as plain UTF-8 text, without control characters.",
        ),
        (
            "name: a\n---\nname: b\n",
            "job.yaml:2: a second document begins here\n"
            "    One file holds one: take out this `---` and what follows it.",
        ),
        (
            "a: {<<: 5}",
            "job.yaml:1: a: `<<` takes a mapping, or a list of them\n"
            "    Write `<<: *name`, where `&name` marks a mapping.",
        ),
    ],
)
def test_what_is_no_yaml_is_explained(text: str, message: str) -> None:
    assert complaints(text) == [message]


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGE_BOMB = "a: &a {k: 1}\n" + "".join(
    f"{name}: &{name} {{<<: [{', '.join([f'*{before}'] * 9)}]}}\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize("text", [BOMB, MERGE_BOMB], ids=["lists", "merges"])
def test_aliases_that_multiply_are_stopped(text: str) -> None:
    assert complaints(text) == [
        "job.yaml:1: the values of this file, its aliases written out, are more than 10,000\n"
        "    Write the values out, with fewer aliases and levels."
    ]


@pytest.mark.parametrize("text", ["a: &a [*a]", "a: &a {b: *a}", "a: &a {<<: *a}"])
def test_an_alias_that_contains_itself_is_stopped(text: str) -> None:
    (message,) = complaints(text)
    assert "an alias contains itself" in message


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "[" * 100_000 + "]" * 100_000, "{a: " * 100], ids=["open", "closed", "mappings"]
)
def test_nesting_without_end_is_stopped_before_the_parser_falls_over(text: str) -> None:
    (message,) = complaints(text)
    assert message.startswith("job.yaml:1: lists and mappings are nested more than 40 levels deep")


@given(st.text(alphabet=st.sampled_from("ab:-[]{}&*!<>|'\"#%@`,? \t\n0.1~\\x\ud800\x00é"), max_size=60) | st.text())
def test_any_text_is_a_tree_or_a_mistake_with_a_line(text: str) -> None:
    value, problems = read(text)
    assert all(problem.line >= 1 for problem in problems.found())
    assert value is None or not problems.found() or problems.lines
