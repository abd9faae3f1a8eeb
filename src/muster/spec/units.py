"""Durations and sizes as people write them, and back again for display."""

from __future__ import annotations

import math
import re
from decimal import Decimal

NUMBER = r"[0-9]+(?:\.[0-9]+)?"
DURATION = "(?=[0-9])" + " ?".join(f"(?:({NUMBER}){unit})?" for unit in ("d", "h", "m", "s", "ms"))
SIZE = rf"({NUMBER}) ?([kKmMgGtTpP]?)([iI][bB]?|[bB])"

_PLAIN = re.compile(rf"{NUMBER}(?:[eE][+-]?[0-9]+)?")
_SECONDS = (Decimal(86400), Decimal(3600), Decimal(60), Decimal(1), Decimal("0.001"))
_LETTERS = ("", "K", "M", "G", "T", "P")

DURATION_HELP = "Write a number and ms, s, m, h or d, such as 90s, 10m or 1h30m; a plain number is seconds."
SIZE_HELP = "Write a number and MB, GB, TB (powers of ten) or MiB, GiB, TiB (powers of two), such as 32GB or 1.5TiB."


def seconds(text: str | float) -> float:
    """The seconds of `90s`, `10m`, `1h30m`, `500ms`, `2d`, or of a plain number, which is seconds already."""
    words = str(text).strip()
    if _PLAIN.fullmatch(words):
        value = float(words)
    elif match := re.fullmatch(DURATION, words):
        parts = zip(match.groups(), _SECONDS, strict=True)
        value = float(sum((Decimal(part) * unit for part, unit in parts if part), Decimal(0)))
    else:
        raise ValueError(f"{_quoted(words)} is not a duration. {DURATION_HELP}")
    if math.isinf(value):
        raise ValueError(f"{_quoted(words)} is longer than any clock can count. {DURATION_HELP}")
    return value


def size(text: str | float) -> int:
    """The bytes of `32GB` (powers of ten), `32GiB` or `32Gi` (powers of two), or of a plain number."""
    words = str(text).strip()
    if match := re.fullmatch(SIZE, words):
        number, letter, ending = match.groups()
        base = 1024 if ending[0] in "iI" else 1000
        if letter or base == 1000:
            return int(Decimal(number) * base ** _LETTERS.index(letter.upper()))
    elif _PLAIN.fullmatch(words) and float(words).is_integer():
        return int(float(words)) if "e" in words.lower() else int(Decimal(words))
    raise ValueError(f"{_quoted(words)} is not a size. {SIZE_HELP} A plain whole number is bytes.")


def duration_text(value: float) -> str:
    """Seconds as people write them, to the millisecond: 5400 is `1h30m`."""
    rest = round(value * 1000)
    text = ""
    for unit, length in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, rest = divmod(rest, length)
        text += f"{count}{unit}" if count else ""
    return text or "0s"


def size_text(value: int) -> str:
    """Bytes as people write them: exact where three figures can say it, else rounded to three."""
    decimal, binary = _in_units(value, 1000), _in_units(value, 1024)
    for number, unit in (decimal, binary):
        if _rounded(number) == number:
            return f"{_rounded(number).normalize():f}{unit}"
    return f"{_rounded(decimal[0]):f}{decimal[1]}"


def _in_units(value: int, base: int) -> tuple[Decimal, str]:
    power = 0
    while power + 1 < len(_LETTERS) and value >= base ** (power + 1):
        power += 1
    unit = _LETTERS[power] + ("iB" if base == 1024 and power else "B")
    return Decimal(value) / base**power, unit


def _rounded(number: Decimal) -> Decimal:
    """Three figures, but never fewer than the digits in front of the point."""
    return round(number, max(0, 2 - number.adjusted())) if number else number


def _quoted(words: str) -> str:
    return repr(words if len(words) <= 40 else words[:37] + "...")


def age_text(seconds: float) -> str:
    """A time that has passed, in its largest unit."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size:.0f}{unit}"
    return f"{max(seconds, 0):.0f}s"
