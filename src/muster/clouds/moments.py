"""Moments as Oracle's services write them."""

from __future__ import annotations

from datetime import datetime


def seconds(moment: str) -> float:
    """Since the epoch, from `2026-11-15T08:25:50.123Z`. The fraction may have any length."""
    whole, fraction = moment[:19], moment[19:].rstrip("Z").partition(".")[2]
    return datetime.fromisoformat(f"{whole}+00:00").timestamp() + (float(f"0.{fraction}") if fraction else 0.0)
