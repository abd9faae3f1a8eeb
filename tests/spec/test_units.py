"""Durations and sizes, as people write them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.spec.units import duration_text, seconds, size, size_text

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10m", 600),
        ("90s", 90),
        ("1h30m", 5400),
        ("1h 30m", 5400),
        ("500ms", 0.5),
        ("1s1ms", 1.001),
        ("2d", 172800),
        ("1.5h", 5400),
        ("1d2h3m4s5ms", 93784.005),
        (" 10m ", 600),
        ("600", 600),
        ("0.25", 0.25),
        (600, 600),
        (1.5, 1.5),
        ("0", 0),
    ],
)
def test_a_duration_is_read_as_seconds(text: str | float, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "m",
        "10 minutes",
        "30m1h",
        "10M",
        "1:30",
        "-5s",
        "-5",
        "nan",
        "inf",
        "1e999",
        "9" * 400 + "d",
        "٣s",
    ],
)
def test_what_is_no_duration_is_told_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match="such as 90s, 10m or 1h30m"):
        seconds(text)


def test_a_long_text_is_cut_in_the_message() -> None:
    with pytest.raises(ValueError, match=r"^'x{37}\.\.\.' is not a duration"):
        seconds("x" * 1000)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("32GB", 32 * 10**9),
        ("32GiB", 32 * 2**30),
        ("32Gi", 32 * 2**30),
        ("32gb", 32 * 10**9),
        ("1.5 TiB", 3 * 2**39),
        ("0.1GB", 10**8),
        ("512KB", 512_000),
        ("7B", 7),
        ("1024", 1024),
        (1024, 1024),
        (32e9, 32 * 10**9),
        ("123456789012345678901", 123456789012345678901),
    ],
)
def test_a_size_is_read_as_bytes(text: str | float, value: int) -> None:
    assert size(text) == value


@pytest.mark.parametrize("text", ["", "GB", "32G", "1.5", "-1GB", "32 gigabytes", "5i", "5iB", "inf", "1e999", "nan"])
def test_what_is_no_size_is_told_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match=r"such as 32GB or 1\.5TiB"):
        size(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0s"),
        (0.5, "500ms"),
        (90, "1m30s"),
        (600, "10m"),
        (5400, "1h30m"),
        (86400, "1d"),
        (90061.001, "1d1h1m1s1ms"),
    ],
)
def test_seconds_are_shown_as_people_write_them(value: float, text: str) -> None:
    assert duration_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0B"),
        (999, "999B"),
        (32 * 10**9, "32GB"),
        (32 * 2**30, "32GiB"),
        (1_500_000, "1.5MB"),
        (123_456_789, "123MB"),
        (1_234_567, "1.23MB"),
        (999_999_999, "1000MB"),
        (10**19, "10000PB"),
    ],
)
def test_bytes_are_shown_as_people_write_them(value: int, text: str) -> None:
    assert size_text(value) == text


@given(st.integers(min_value=0, max_value=10**12))
def test_any_number_of_milliseconds_survives_being_shown(milliseconds: int) -> None:
    assert seconds(duration_text(milliseconds / 1000)) == milliseconds / 1000


@given(st.integers(min_value=1, max_value=10**18))
def test_a_shown_size_is_off_by_half_a_percent_at_most(value: int) -> None:
    assert abs(size(size_text(value)) - value) <= value * 0.005


@given(st.integers(1, 999), st.sampled_from(["KB", "MB", "GB", "TB", "PB"]))
def test_a_round_size_survives_being_shown(number: int, unit: str) -> None:
    assert size_text(size(f"{number}{unit}")) == f"{number}{unit}"


@given(st.text(), st.sampled_from([seconds, size]))
def test_any_text_is_a_measure_or_a_clear_mistake(text: str, measure: Callable[[str], float]) -> None:
    try:
        value = measure(text)
    except ValueError as error:
        told = str(error)
    else:
        told = f"such as {value}"
        assert value >= 0
    assert "such as" in told
