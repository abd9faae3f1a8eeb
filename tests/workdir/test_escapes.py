"""Names that no bucket keeps, there and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.workdir.escapes import escaped, unescaped
from tests.workdir.store_contract import ODD_KEYS, keys

pytestmark = pytest.mark.unit

tricky = st.text(st.sampled_from("%0125ACF7\n\x7f\\a/"), max_size=12)


@given(key=keys | tricky)
def test_whatever_is_escaped_is_read_back_and_holds_nothing_that_no_bucket_keeps(key: str) -> None:
    name = escaped(key)
    assert unescaped(name) == key
    assert not any(ord(character) < 32 or character in "\x7f\\" for character in name)
    assert name.count("/") == key.count("/")


@given(one=tricky, other=tricky)
def test_two_keys_never_become_one_name(one: str, other: str) -> None:
    assert (escaped(one) == escaped(other)) == (one == other)


@pytest.mark.parametrize("key", ["a b", "ünï/文", "100%", "50%20off", "%zz", "%7", "%1g", "%5c", *"#?&+=~*[]'\"<>|"])
def test_other_peoples_clients_find_ordinary_names_as_they_are(key: str) -> None:
    assert escaped(key) == key


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("tab\there", "tab%09here"),
        ("a\\b", "a%5Cb"),
        ("%0A", "%250A"),
        ("%25", "%2525"),
        ("\x7f", "%7F"),
        ("%5C", "%255C"),
    ],
)
def test_what_becomes_of_the_others(key: str, name: str) -> None:
    assert (escaped(key), unescaped(name)) == (name, key)


def test_odd_keys_of_the_contract_are_read_back() -> None:
    assert [unescaped(escaped(key)) for key in ODD_KEYS] == ODD_KEYS
