"""Pages of names, against a plain reading of what a list is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.rehearsal.listing import Wanted, page

pytestmark = pytest.mark.unit

words = st.text(alphabet="ab/.0é\U0001f600\uffff ", min_size=1, max_size=6)


def in_pages(names: list[str], prefix: str, delimiter: str, limit: int) -> tuple[list[str], list[str]]:
    found: tuple[list[str], list[str]] = ([], [])
    start: str | None = ""
    while start is not None:
        one = page(names, Wanted(prefix, start, "", None, limit, delimiter))
        assert len(one.names) + len(one.prefixes) <= limit
        found[0].extend(one.names)
        found[1].extend(one.prefixes)
        start = one.next_start
    return found


@given(st.sets(words, max_size=30), words | st.just(""), st.integers(1, 5))
def test_pages_together_are_the_whole_list(names: set[str], prefix: str, limit: int) -> None:
    expected = sorted((name for name in names if name.startswith(prefix)), key=lambda name: name.encode())
    assert in_pages(sorted(names), prefix, "", limit) == (expected, [])


@given(st.sets(words, max_size=30), words | st.just(""), st.integers(1, 5))
def test_a_delimiter_folds_what_lies_below_it(names: set[str], prefix: str, limit: int) -> None:
    below = [name.removeprefix(prefix) for name in sorted(names) if name.startswith(prefix)]
    files = [prefix + rest for rest in below if "/" not in rest]
    folders = sorted({prefix + rest.partition("/")[0] + "/" for rest in below if "/" in rest})
    assert in_pages(sorted(names), prefix, "/", limit) == (files, folders)


def test_a_list_can_start_and_end_anywhere() -> None:
    names = ["a", "b", "c", "d"]
    assert page(names, Wanted(start="b", end="d")).names == ["b", "c"]
    assert page(names, Wanted(start_after="b")).names == ["c", "d"]
    assert page(names, Wanted(limit=2)).next_start == "c"
    assert page(names, Wanted(limit=4)).next_start is None
