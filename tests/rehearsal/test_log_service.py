"""The rehearsed Logging service, by the real SDK: groups, logs, what is pushed, and what a search finds."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from muster.rehearsal.log_service_query import Condition, Query, Stream, parse
from muster.rehearsal.principals import COMPARTMENT
from muster.rehearsal.routing import Refusal
from tests.rehearsal.data_science_world import World

NOW = datetime.now(timezone.utc).replace(microsecond=0)
RUN = "ocid1.datasciencejobrun.oc1.iad.one"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with pytest.MonkeyPatch.context() as patch:
        made = World(tmp_path_factory.mktemp("logs"), patch)
        yield made
        made.close()


@pytest.fixture
def world(shared: World) -> Iterator[World]:
    yield shared
    shared.denied.deny()
    shared.logs.latency = 0.0


@pytest.fixture
def group(world: World) -> str:
    return world.logs.make_group("training")


def push(world: World, log: str, *lines: str, source: str = RUN, subject: str = "", at: datetime = NOW) -> None:
    import oci

    models = oci.loggingingestion.models
    client = oci.loggingingestion.LoggingClient(
        oci.config.from_file(str(world.user.config_file)), service_endpoint=world.server.endpoint
    )
    entries = [models.LogEntry(data=line, id=line, time=at + timedelta(seconds=n)) for n, line in enumerate(lines)]
    batch = models.LogEntryBatch(entries=entries, source=source, type="test", subject=subject, defaultlogentrytime=at)
    client.put_logs(log, models.PutLogsDetails(specversion="1.0", log_entry_batches=[batch]))
    client.base_client.session.close()


def search(world: World, query: str, start: datetime | None = None, end: datetime | None = None, **more: Any) -> Any:
    return world.services.call("log_search", "search_logs", asked(query, start, end), **more)


def asked(query: str, start: datetime | None = None, end: datetime | None = None) -> dict[str, Any]:
    bounds = (start or NOW - timedelta(days=1), end or NOW + timedelta(days=1))
    return {"timeStart": bounds[0].isoformat(), "timeEnd": bounds[1].isoformat(), "searchQuery": query}


def messages(found: Any) -> list[str]:
    return [row["data"]["logContent"]["data"]["message"] for row in found["results"]]


def test_what_is_pushed_is_found(world: World, group: str) -> None:
    log = world.logs.make_log(group, "runs")
    push(world, log, "one", "two", "x" * 10_001)
    push(world, log, "other", source="ocid1.datasciencejobrun.oc1.iad.two")
    stream = f'SEARCH "{COMPARTMENT}/{group}/{log}"'
    found = search(world, f"{stream} | WHERE source = '*{RUN}' | SORT BY datetime DESC").data
    assert messages(found) == ["x" * 10_000, "two", "one"]
    assert found["summary"]["resultCount"] == 3
    row = found["results"][2]["data"]
    assert row["datetime"] == int(NOW.timestamp() * 1000)
    assert row["logContent"]["oracle"]["logid"] == log
    assert row["logContent"]["source"] == RUN
    assert len(messages(search(world, stream).data)) == 4
    assert messages(search(world, f"{stream} | where source = '*.two'").data) == ["other"]
    assert messages(search(world, f"{stream} | where data.message = 'o*' and source != '*one'").data) == ["other"]


def test_several_streams_and_bounds(world: World, group: str) -> None:
    first, second = world.logs.make_log(group, "first"), world.logs.make_log(group, "second")
    push(world, first, "a", "b")
    push(world, second, "c", subject="main", at=NOW + timedelta(seconds=10))
    both = f'search "{COMPARTMENT}/{group}/{first}", "{COMPARTMENT}/{group}/{second}" | sort by datetime asc'
    assert messages(search(world, both).data) == ["a", "b", "c"]
    assert messages(search(world, f'search "{COMPARTMENT}/{group}" | sort by datetime').data) == ["a", "b", "c"]
    late = int((NOW.timestamp() + 1) * 1000)
    assert messages(search(world, f"{both} | where datetime >= {late}").data) == ["b", "c"]
    assert messages(search(world, f"{both} | where subject = 'main'").data) == ["c"]
    window = search(world, both, NOW + timedelta(seconds=1), NOW + timedelta(seconds=9)).data
    assert messages(window) == ["b"]


def test_pages_of_a_search(world: World, group: str) -> None:
    log = world.logs.make_log(group, "pages")
    lines = [f"line {n}" for n in range(7)]
    push(world, log, *lines)
    query = f'search "{COMPARTMENT}/{group}/{log}" | sort by datetime asc'
    found, page = [], None
    while True:
        reply = search(world, query, limit=3, **({"page": page} if page else {}))
        found.append(messages(reply.data))
        if not (page := reply.next_page):
            break
    assert found == [lines[:3], lines[3:6], lines[6:]]


def test_entries_take_a_while(world: World, group: str) -> None:
    log = world.logs.make_log(group, "late")
    world.steering.ask("PUT", "log_latency", 3600)
    push(world, log, "soon")
    query = f'search "{COMPARTMENT}/{group}/{log}"'
    assert messages(search(world, query).data) == []
    world.clock.ahead = 3601
    assert messages(search(world, query).data) == ["soon"]
    world.clock.ahead = 0


def test_searches_that_are_refused(world: World, group: str) -> None:
    good = f'search "{COMPARTMENT}/{group}"'

    def refused(details: dict[str, Any]) -> tuple[int, str]:
        return world.refused("search_logs", details, service="log_search")

    assert refused(asked(good, NOW - timedelta(days=15))) == (400, "InvalidParameter")
    assert refused(asked(f"{good} | summarize count()")) == (400, "InvalidParameter")
    assert refused({"searchQuery": good}) == (400, "InvalidParameter")
    nothing = (404, "NotAuthorizedOrNotFound")
    assert refused(asked(f'search "{COMPARTMENT}/ocid1.loggroup.oc1..none"')) == nothing
    assert refused(asked(f'search "{COMPARTMENT}/{group}/ocid1.log.oc1..none"')) == nothing
    world.denied.deny("LOG_CONTENT_READ")
    assert refused(asked(good)) == nothing
    assert {wish.about["target.loggroup.id"] for _, wish in world.denied.asked} == {group}


def test_pushing_asks_for_its_permission(world: World, group: str) -> None:
    import oci

    log = world.logs.make_log(group, "closed")
    world.denied.deny("LOG_CONTENT_PUSH")
    with pytest.raises(oci.exceptions.ServiceError, match="NotAuthorizedOrNotFound"):
        push(world, log, "a")
    assert messages(search(world, f'search "{COMPARTMENT}/{group}/{log}"').data) == []


def test_groups_and_logs_are_managed(world: World) -> None:
    def ask(operation: str, *values: Any, **settings: Any) -> Any:
        return world(operation, *values, service="logging", **settings)

    details = {"compartmentId": COMPARTMENT, "displayName": "made", "freeformTags": {"a": "b"}}
    work = world.services.call("logging", "create_log_group", details).headers["opc-work-request-id"]
    group = ask("get_work_request", work)["resources"][0]["identifier"]
    assert [row["id"] for row in ask("list_log_groups", COMPARTMENT, display_name="made")] == [group]
    assert ask("get_log_group", group)["freeformTags"] == {"a": "b"}
    assert world.refused("create_log_group", details, service="logging") == (409, "Conflict")
    ask("create_log", group, {"displayName": "log", "logType": "CUSTOM"})
    (log,) = ask("list_logs", group)
    assert ask("get_log", group, log["id"])["displayName"] == "log"
    assert world.refused("delete_log_group", group, service="logging") == (409, "Conflict")
    ask("delete_log", group, log["id"])
    ask("delete_log_group", group)
    assert world.refused("get_log_group", group, service="logging") == (404, "NotAuthorizedOrNotFound")


def test_management_asks_for_its_permissions(world: World, group: str) -> None:
    log = world.logs.make_log(group, "log")
    for permission, operation, *values in (
        ("LOG_GROUP_INSPECT", "list_log_groups", COMPARTMENT),
        ("LOG_GROUP_READ", "get_log_group", group),
        ("LOG_GROUP_CREATE", "create_log_group", {"compartmentId": COMPARTMENT, "displayName": "x"}),
        ("LOG_GROUP_INSPECT", "list_logs", group),
        ("LOG_GROUP_READ", "get_log", group, log),
        ("LOG_GROUP_CREATE", "create_log", group, {"displayName": "x", "logType": "CUSTOM"}),
        ("LOG_GROUP_DELETE", "delete_log", group, log),
    ):
        world.denied.deny(permission)
        assert world.refused(operation, *values, service="logging") == (404, "NotAuthorizedOrNotFound")


@pytest.mark.unit
def test_a_query_is_read() -> None:
    found = parse("""search "c/g/l" "d" | where source = '*a|b' and data.level >= 3 | sort by logContent.time""")
    assert found == Query(
        (Stream("c", "g", "l"), Stream("d")),
        (((Condition("source", "=", "*a|b"), Condition("data.level", ">=", "3")),),),
        "logContent.time",
        False,
    )
    row = {"logContent": {"source": "xa|b", "data": {"level": 10}}}
    assert found.takes(row)
    assert not found.takes({"logContent": {"source": "xa|b", "data": {"level": 2}}})
    assert not Condition("data.none", "<", "3").holds(row)
    assert Condition("data.none", "!=", "3").holds(row)
    either = parse("""search "c" | where source = '*x' or source = '*b' and data.level = 10""")
    assert either.takes(row)
    assert not either.takes({"logContent": {"source": "xa|b", "data": {"level": 2}}})
    assert either.takes({"logContent": {"source": "ax"}})


@pytest.mark.unit
@pytest.mark.parametrize(
    "text",
    [
        "",
        'find "c"',
        "search",
        'search "c" where a = 1',
        'search "c" | where',
        'search "c" | where a like b',
        'search "c" | sort by a up',
        'search "c" | select a',
    ],
)
def test_a_query_that_is_not_known(text: str) -> None:
    with pytest.raises(Refusal, match="InvalidParameter"):
        parse(text)
