"""What job runs said to Oracle's Logging: the words of a node before it reached the work dir, or could not."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from ..clouds.moments import seconds
from ..clouds.oci_services import Services
from ..errors import CloudError
from ..workdir.loglines import LogLine
from .base import Plan, Sight

_SPAN = timedelta(days=14)
"""The longest that one search may span; what a run said later than that is in the work dir."""
_PAGE = 500


def service_lines(services: Services, plan: Plan, sights: Collection[Sight], since: float) -> Iterator[LogLine]:
    """The lines of these nodes from a time on, in the order of their times. None where nothing is logged."""
    group = plan.settings.get("log_group_id")
    if not group or not sights:
        return
    nodes = {sight.id: sight.node for sight in sights}
    begin = datetime.fromtimestamp(since, timezone.utc)
    end = min(datetime.now(timezone.utc), begin + _SPAN)
    details = {
        "timeStart": begin.isoformat(timespec="milliseconds"),
        "timeEnd": end.isoformat(timespec="milliseconds"),
        "searchQuery": _query(plan.settings, nodes),
        "isReturnFieldInfo": False,
    }
    for number, found in enumerate(_results(services, details)):
        if line := _line(found, nodes, number):
            yield line


def _query(settings: Mapping[str, Any], nodes: Collection[str]) -> str:
    log = f"/{settings['log_id']}" if settings.get("log_id") else ""
    place = f"{settings['compartment_id']}/{settings['log_group_id']}{log}"
    runs = " or ".join(f"source = '*{run}'" for run in sorted(nodes))
    return f'search "{place}" | where {runs} | sort by datetime asc'


def _results(services: Services, details: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    page: str | None = None
    while True:
        more = {"page": page} if page else {}
        try:
            reply = services.call("log_search", "search_logs", details, limit=_PAGE, **more)
        except CloudError as error:
            if error.status in (401, 404):
                error.fix = "A policy is missing: `muster policy` prints it. --no-service leaves these lines out."
            raise
        yield from reply.data.get("results") or ()
        if not (page := reply.next_page):
            return


def _line(found: Mapping[str, Any], nodes: Mapping[str, str], number: int) -> LogLine | None:
    content = (found.get("data") or {}).get("logContent") or {}
    source = str(content.get("source", ""))
    run = next((ocid for ocid in nodes if source.endswith(ocid)), None)
    text = (content.get("data") or {}).get("message")
    if run is None or text is None:
        return None
    moment = str(content.get("time") or "")
    at = seconds(moment) if moment.endswith("Z") else found["data"]["datetime"] / 1000
    return LogLine(number, at, nodes[run], "service", "out", str(text))
