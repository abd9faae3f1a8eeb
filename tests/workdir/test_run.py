"""The files of a run: who may write them, how often, what they cost, and what damage looks like."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import pytest

from muster.errors import AlreadyExists, NotFound, ProtocolError, StoreError
from muster.spec.job import Job, Resources, Role, Workers
from muster.workdir.counting import CountingStore
from muster.workdir.folder import FolderStore
from muster.workdir.memory import MemoryStore
from muster.workdir.records import PROTOCOL, End, Failure, MainConfig, Member, NodeRecord, Result, Verdict
from muster.workdir.run import CodeRef, JobDocument, RunFolder, Sign, Signs
from muster.workdir.store import Store

pytestmark = pytest.mark.unit

JOB = Job(
    name="mnist",
    framework="pytorch",
    entry="train.py",
    args=("--epochs", "3"),
    env={"A": "ü"},
    workers=Workers(1, 4),
    resources=Resources(gpus=1),
    roles={"main": Role(computes=False, env={"B": "1"}, resources=Resources(cpus=2))},
)
DOCUMENT = JobDocument(
    run="mnist-0123abcd", job=JOB, by="launcher", created_at=1700000000.5, code=CodeRef("d" * 64, 3, 1200)
)
MAIN = MainConfig("main", "10.0.0.2", 29000, 1, {"store": 29400})


@pytest.fixture(params=["folder", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return FolderStore(tmp_path / "work dir") if request.param == "folder" else MemoryStore("runs")


@pytest.fixture
def run(store: Store) -> RunFolder:
    return RunFolder(store, "mnist-0123abcd")


def test_the_job_is_written_once_and_read_back_as_it_was(run: RunFolder) -> None:
    assert not run.exists()
    with pytest.raises(NotFound):
        run.read_job()
    run.write_job(DOCUMENT)
    assert run.exists()
    assert run.read_job() == DOCUMENT
    with pytest.raises(AlreadyExists):
        run.write_job(replace(DOCUMENT, by="node"))
    assert run.read_job().by == "launcher"


def test_a_job_may_also_be_written_as_plain_values_and_have_no_code(run: RunFolder) -> None:
    run.write_job(
        {
            "protocol": PROTOCOL,
            "run": run.run,
            "job": JOB.to_json(),
            "code": None,
            "by": "node",
            "created_at": 1,
        }
    )
    assert run.read_job() == JobDocument(run=run.run, job=JOB, by="node", created_at=1.0)


@pytest.mark.parametrize(("found", "upgrade"), [(PROTOCOL + 1, "Upgrade Muster here"), (0, "where it was launched")])
def test_another_protocol_is_refused_with_both_versions(run: RunFolder, found: int, upgrade: str) -> None:
    run.write_job({"protocol": found, "something": "that only the other version understands"})
    with pytest.raises(ProtocolError, match=f"protocol {found}, and this Muster speaks {PROTOCOL}") as told:
        run.read_job()
    assert upgrade in told.value.fix


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"null",
        b"{}",
        b'{"protocol": "one"}',
        json.dumps({"protocol": PROTOCOL, "run": "r", "by": "node", "created_at": 0, "job": {"name": "x"}}).encode(),
        json.dumps({"protocol": PROTOCOL, "run": "r", "by": "node", "created_at": 0, "job": []}).encode(),
    ],
)
def test_a_damaged_job_is_told_with_its_place(run: RunFolder, content: bytes) -> None:
    run.store.put(run.at("job.json"), content)
    with pytest.raises(StoreError, match=r"mnist-0123abcd/job.json.* is damaged") as told:
        run.read_job()
    assert run.store.url in told.value.message


def test_the_key_is_made_once_whoever_asks(run: RunFolder) -> None:
    together = Barrier(8)

    def ask(_: int) -> bytes:
        together.wait()
        return run.make_key()

    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(ask, range(8)))
    assert keys == {run.key()}
    assert len(run.key()) == 32


def test_a_key_that_is_missing_or_damaged_is_told(run: RunFolder) -> None:
    with pytest.raises(NotFound):
        run.key()
    for damaged in (b"", b"00", b"not hex", b"\xff" * 64):
        run.store.put(run.at("key"), damaged)
        with pytest.raises(StoreError, match="64 hexadecimal digits"):
            run.key()


def test_only_one_node_becomes_main_of_a_generation(run: RunFolder) -> None:
    run.publish_main(MAIN)
    with pytest.raises(AlreadyExists):
        run.publish_main(replace(MAIN, node="worker-1"))
    assert run.latest_main() == MAIN


def test_the_highest_generation_wins_over_a_stale_copy(run: RunFolder) -> None:
    for generation in (1, 2, 10):
        run.publish_main(replace(MAIN, generation=generation))
    run.store.put(run.at("MAIN_config.json"), run.store.get(run.at("generations/000001/MAIN_config.json")))
    latest = run.latest_main()
    assert latest is not None
    assert latest.generation == 10


def test_looking_for_main_costs_one_request_until_there_is_a_new_one(store: Store) -> None:
    counting = CountingStore(store)
    run = RunFolder(counting, "r")
    assert run.latest_main() is None
    assert counting.counts == {"list": 1}
    run.publish_main(MAIN)
    run.write_members(1, [])
    counting.reset()
    assert run.latest_main() == MAIN
    assert counting.counts == {"list": 1, "get": 1}
    counting.reset()
    assert run.latest_main(newer_than=1) is None
    assert counting.counts == {"list": 1}
    run.publish_main(replace(MAIN, generation=2))
    assert run.latest_main(newer_than=1) == replace(MAIN, generation=2)


def test_the_first_main_is_found_with_one_get(store: Store) -> None:
    counting = CountingStore(store)
    run = RunFolder(counting, "r")
    assert run.main_of(1) is None
    run.publish_main(MAIN)
    counting.reset()
    assert run.main_of(1) == MAIN
    assert counting.counts == {"get": 1}


def test_a_copy_of_main_is_there_for_people(run: RunFolder) -> None:
    run.publish_main(MAIN)
    run.show_main(MAIN)
    kept = [run.store.get(run.at(name)) for name in ("MAIN_config.json", "generations/000001/MAIN_config.json")]
    assert kept[0] == kept[1]


def test_one_listing_shows_all_that_is_asked_of_a_run(store: Store) -> None:
    counting = CountingStore(store)
    run = RunFolder(counting, "r")
    run.write_job(DOCUMENT)
    assert run.signs() == Signs(stop=False, scale="", nodes={})
    run.request_scale(3, "user")
    run.request_scale(2, "user")
    run.leave_sign("worker-1", 9, beat=1)
    run.leave_sign("worker-1", 10, beat=2)
    run.leave_sign("main", 1, beat=1)
    run.request_stop("enough", "user")
    counting.reset()
    seen = run.signs()
    assert counting.counts == {"list": 1}
    assert (seen.stop, seen.scale) == (True, "000002.json")
    assert {name: sign.number for name, sign in seen.nodes.items()} == {"worker-1": 10, "main": 1}
    assert run.wanted_by(seen.scale) == run.wanted() == 2


def test_a_sign_that_is_left_again_shows_another_beat(run: RunFolder) -> None:
    run.leave_sign("worker-1", 7, beat=1)
    first = run.signs().nodes["worker-1"]
    assert run.signs().nodes["worker-1"] == first
    run.leave_sign("worker-1", 7, beat=2)
    second = run.signs().nodes["worker-1"]
    assert second == Sign(7, second.beat)
    assert second.beat != first.beat
    run.take_sign_away("worker-1", 7)
    assert run.signs().nodes == {}


def test_the_age_of_a_record_is_told_by_the_clock_of_the_store_alone(run: RunFolder) -> None:
    run.claim(NodeRecord("worker-1", "worker", "running"))
    assert run.written_ago("worker-2", "mark") is None
    age = run.written_ago("worker-1", "mark")
    assert age is not None
    assert 0 <= age < 60
    assert [entry.key for entry in run.store.list(run.at("nodes/"))] == [run.at("nodes/worker-1.json")]


def test_a_main_of_another_protocol_is_refused(run: RunFolder) -> None:
    run.publish_main(replace(MAIN, protocol=PROTOCOL + 1))
    with pytest.raises(ProtocolError, match="main of run"):
        run.latest_main()


def test_members_are_told_in_the_order_main_gave_them(run: RunFolder) -> None:
    members = [
        Member("worker-1", "worker", "10.0.0.3", 2, 2, {"service": 1}),
        Member("main", "main", "10.0.0.2", 2, 0),
    ]
    assert run.members(1) is None
    run.write_members(1, members)
    assert run.members(1) == members
    assert run.members(2) is None


def test_a_name_is_claimed_once_and_then_kept_up_to_date(run: RunFolder) -> None:
    record = NodeRecord("worker-2", "worker", "claiming", host="a", boot="x")
    assert run.node("worker-2") is None
    run.claim(record)
    with pytest.raises(AlreadyExists):
        run.claim(replace(record, host="b"))
    failure = Failure("worker-2", "rank 2", 1, 17.5, 2, ("Traceback \udc80", "ValueError"), complaint=True)
    record = replace(
        record,
        state="ended",
        beat=7,
        failure=failure,
        notes=("slow",),
        metrics={"cpu": 0.5},
        verdict=Verdict(End.MEMBER_FAILED, 1, "rank 2 failed", failure, ("worker-3",)),
    )
    run.write_node(record)
    assert run.node("worker-2") == record


def test_nodes_come_in_the_order_that_people_expect(run: RunFolder) -> None:
    names = ["ps-1", "worker-10", "worker-2", "main"]
    for name in names:
        run.claim(NodeRecord(name, name.split("-")[0], "ready"))
    run.store.put(run.at("nodes/note.txt"), b"not a record")
    assert [record.node for record in run.nodes()] == ["main", "worker-2", "worker-10", "ps-1"]


def test_the_records_of_some_nodes_cost_a_get_for_each(store: Store) -> None:
    counting = CountingStore(store)
    run = RunFolder(counting, "r")
    for name in ("main", "worker-1", "worker-2"):
        run.claim(NodeRecord(name, name.split("-")[0], "ready"))
    counting.reset()
    assert [record.node for record in run.nodes_called(["worker-2", "main", "worker-9"])] == ["main", "worker-2"]
    assert counting.counts == {"get": 3}


@pytest.mark.parametrize("name", ["", "..", "a/b", "/", "nul\0"])
def test_a_name_cannot_be_a_path(store: Store, name: str) -> None:
    with pytest.raises(StoreError):
        RunFolder(store, name)
    with pytest.raises(StoreError):
        RunFolder(store, "run").claim(NodeRecord(name, "worker", "claiming")) if name != "" else RunFolder(store, "")


def test_the_first_to_ask_for_a_stop_is_the_one_remembered(run: RunFolder) -> None:
    assert run.stop_request() is None
    assert run.request_stop("enough", "user")
    assert not run.request_stop("too late", "main")
    assert run.stop_request() == {"why": "enough", "by": "user"}


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"", ""), (b"please\n", "please"), (b"[1]", "[1]"), (b"\xff", "\ufffd"), (b"{", "{")],
)
def test_any_stop_file_stops(run: RunFolder, content: bytes, why: str) -> None:
    run.store.put(run.at("stop"), content)
    assert run.stop_request() == {"why": why, "by": ""}


def test_the_result_is_written_once(run: RunFolder) -> None:
    result = Result(run.run, "failed", End.MEMBER_FAILED, 3, "rank 1", Failure("main", "rank 1", 3, 1.0), ("worker-2",))
    assert run.result() is None
    assert run.write_result(result)
    assert not run.write_result(replace(result, exit_code=0))
    assert run.result() == result


def test_a_run_keeps_its_plan_and_its_requirements(run: RunFolder) -> None:
    for missing in (run.plan, run.requirements):
        with pytest.raises(NotFound):
            missing()
    run.write_plan({"nodes": ["main"]})
    run.write_requirements("env.yaml", b"name: x")
    assert run.plan() == {"nodes": ["main"]}
    assert run.requirements() == ("env.yaml", b"name: x")


def test_what_authenticates_nodes_is_for_its_owner_alone(tmp_path: Path) -> None:
    RunFolder(FolderStore(tmp_path / "work dir"), "run").make_key()
    assert (tmp_path / "work dir" / "run" / "key").stat().st_mode & 0o077 == 0
