"""Python values become the same tree that a file does."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.spec.job import Resources
from muster.spec.nodes import Scalar, described, from_python, plain
from muster.spec.problems import Problems

pytestmark = pytest.mark.unit

json_like = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=20,
)


@given(json_like)
def test_plain_values_come_back_as_they_were(value: Any) -> None:
    problems = Problems()
    assert plain(from_python(value, problems)) == value
    assert not problems.found()


def test_paths_numbers_of_other_libraries_and_our_own_values_are_made_plain() -> None:
    value = {"code": PurePosixPath("src"), "half": Fraction(1, 2), "has": Resources(gpus=2), "pair": (1, 2)}
    tree = from_python(value, Problems())
    assert plain(tree) == {"code": "src", "half": 0.5, "has": {"gpus": 2}, "pair": [1, 2]}


@pytest.mark.parametrize(
    "value", [b"bytes", {1, 2}, Decimal(1), object(), pytest.param(10**5000, id="huge"), Resources]
)
def test_what_no_file_could_say_is_noted(value: object) -> None:
    problems = Problems()
    from_python({"args": value}, problems)
    (problem,) = problems.found()
    assert problem.field == "args"
    assert "has no place here" in problem.message
    assert problem.fix == "Give text, numbers, booleans, lists and mappings of them."


def test_a_key_that_is_not_text_is_noted() -> None:
    problems = Problems()
    assert plain(from_python({"env": {1: "a", "B": "b"}}, problems)) == {"env": {"B": "b"}}
    assert [str(problem) for problem in problems.found()] == ["env: the key 1 is not text\n    Keys are text."]


def test_a_value_that_contains_itself_ends_as_a_mistake() -> None:
    endless: list[Any] = []
    endless += [endless, endless]
    problems = Problems()
    from_python({"args": endless}, problems)
    assert [problem.fix for problem in problems.found()] == ["A value must not contain itself."]


def test_a_node_is_described_in_words() -> None:
    problems = Problems()
    found = [described(from_python(value, problems)) for value in (None, True, 3, 0.5, "a", [1], {"a": 1})]
    assert found == [
        "nothing",
        "the boolean True",
        "the number 3",
        "the number 0.5",
        "the text 'a'",
        "a list",
        "a mapping",
    ]
    assert len(described(Scalar("x" * 1000, "x" * 1000))) < 80
