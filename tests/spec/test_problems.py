"""Mistakes are collected with the lines they stand on, and a mistyped word finds its neighbour."""

from __future__ import annotations

import pytest

from muster.spec.problems import Problems, nearest, suggestion

pytestmark = pytest.mark.unit


def test_a_problem_stands_on_the_line_of_its_field_or_of_what_is_around_it() -> None:
    problems = Problems("job.yaml", {"": 1, "env": 4, "env.A": 5, "args[1]": 9})
    assert [problems.line(path) for path in ("env.A", "env.B.C", "args[1]", "args[7]", "name")] == [
        5,
        4,
        9,
        1,
        1,
    ]


def test_problems_come_in_the_order_of_their_lines() -> None:
    problems = Problems("job.yaml", {"ttl": 7, "name": 2})
    problems.add("ttl", "late")
    problems.add("name", "early")
    assert [str(problem) for problem in problems.found()] == [
        "job.yaml:2: name: early",
        "job.yaml:7: ttl: late",
    ]


def test_a_field_is_clean_until_something_is_wrong_with_it_or_inside_it() -> None:
    problems = Problems()
    problems.add("workers.min", "wrong")
    problems.add("args[0]", "wrong")
    assert not problems.clean("workers")
    assert not problems.clean("ttl", "args")
    assert problems.clean("worker", "workers.max", "arg")


@pytest.mark.parametrize(
    ("word", "meant"), [("wrokers", "workers"), ("work-dir", "work_dir"), ("TTL", "ttl"), ("banana", None)]
)
def test_the_nearest_word_is_the_one_that_was_meant(word: str, meant: str | None) -> None:
    assert nearest(word, ["workers", "work_dir", "ttl"]) == meant


def test_where_no_word_is_near_all_of_them_are_listed() -> None:
    assert suggestion("banana", ["ttl", "name"]) == "Known here: ttl, name."
    assert suggestion("banana", []) == "Known here: none."
