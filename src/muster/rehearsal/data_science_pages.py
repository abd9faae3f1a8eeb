"""Lists of Oracle's services: filtered by what the query names, in order, page by page."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .messages import Answer
from .routing import Refusal, json_answer

_CLOUD = uuid.uuid4().hex


def ocid(kind: str, number: int) -> str:
    """An id that no other cloud of this machine gives, as long as the real ones, which sorts by its number."""
    return f"ocid1.{kind}.oc1.iad.amaaaaaa{_CLOUD}{number:020d}"


def required(query: Mapping[str, str], name: str) -> str:
    """A parameter that cannot be left out."""
    if not query.get(name):
        raise Refusal(400, "InvalidParameter", f"{name} is missing")
    return query[name]


def filtered(rows: Iterable[dict[str, Any]], query: Mapping[str, str], names: Sequence[str]) -> list[dict[str, Any]]:
    """The rows that have what the query says under these names."""
    wanted = {name: query[name] for name in names if name in query}
    return [row for row in rows if all(row.get(name) == value for name, value in wanted.items())]


def ordered(rows: list[dict[str, Any]], query: Mapping[str, str], moment: str) -> list[dict[str, Any]]:
    """By `sortBy` and `sortOrder`: moments from the newest, names from A, unless it is said otherwise."""
    by = query.get("sortBy", moment)
    if by not in (moment, "timeCreated", "displayName", "name"):
        raise Refusal(400, "InvalidParameter", f"sortBy cannot be {by}")
    falls = query.get("sortOrder", "ASC" if by.endswith("ame") else "DESC").upper() == "DESC"
    return sorted(rows, key=lambda row: (row.get(by) or row.get(moment) or "", row["id"]), reverse=falls)


def page(
    rows: Sequence[dict[str, Any]],
    query: Mapping[str, str],
    most: int = 100,
    wrap: Callable[[list[dict[str, Any]]], Any] = list,
    mark: str = "id",
) -> Answer:
    """One page of a list. The next begins after the row that `page` names."""
    limit = query.get("limit", str(most))
    if not limit.isdigit() or not 1 <= int(limit) <= most:
        raise Refusal(400, "InvalidParameter", f"limit must be from 1 to {most}")
    start = _start(rows, query.get("page"), mark)
    found = list(rows[start : start + int(limit)])
    more = start + len(found) < len(rows)
    headers = {"opc-next-page": base64.urlsafe_b64encode(str(found[-1][mark]).encode()).decode()} if more else {}
    return json_answer(wrap(found), headers=headers)


def _start(rows: Sequence[dict[str, Any]], said: str | None, mark: str) -> int:
    if said is None:
        return 0
    try:
        last = base64.urlsafe_b64decode(said.encode()).decode()
    except ValueError as reason:
        raise Refusal(400, "InvalidParameter", "page is none of this list") from reason
    for number, row in enumerate(rows):
        if str(row[mark]) == last:
            return number + 1
    raise Refusal(400, "InvalidParameter", "page is none of this list")
