"""The published schema of the job file, for editors that complete and check as one types."""

from __future__ import annotations

from typing import Any

from .table import job_section


def schema() -> dict[str, Any]:
    """JSON Schema, draft 2020-12, made of the same table that jobs are read with.

    It knows each setting by itself. What must hold between settings, or on this machine, only `load` checks.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:musterpoint:job:1",
        "title": "Muster job",
        "description": "A training script, and the cluster it runs on.",
        **job_section().schema(),
    }
