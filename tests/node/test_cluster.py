"""What main decides for all, without a process, a file or a clock."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.node import cluster as clusters
from muster.node import roster
from muster.node.cluster import LAST_CALL, PATIENCE, SETTLE, step
from muster.node.life import StopSeen, Tick
from muster.node.messages import Again, Conclude, Done, Failed, Go, Hello, Left, Members, Started
from muster.node.roster import Cluster, Lost, NewGeneration, ProbePassed, Release, Say, Scale, Send, Terms
from muster.workdir.records import End, Failure, Verdict

pytestmark = pytest.mark.unit

TORCH = Terms(
    workers=2,
    least=2,
    most=2,
    servers=0,
    main_starts=True,
    computing_main=True,
    gathers=True,
    survives_loss=False,
    script_everywhere=True,
    awaited=frozenset({"main", "worker"}),
    script_retried=False,
    ephemeral=True,
    probed=False,
    probe_binds=True,
    retries=0,
    loss_retries=0,
    timeout=60,
    ttl=3600,
)
DASK = replace(
    TORCH,
    computing_main=False,
    gathers=False,
    survives_loss=True,
    script_everywhere=False,
    awaited=frozenset({"main"}),
    probed=True,
)
ALL = ("main", "worker-1", "worker-2")


def forming(terms: Terms = TORCH) -> Cluster:
    return Cluster(terms, born=0, since=0)


def after(cluster: Cluster, *events: roster.Event, now: float = 1.0) -> tuple[Cluster, list[roster.Order]]:
    orders: list[roster.Order] = []
    for event in events:
        cluster, orders = step(cluster, event, now)
    return cluster, orders


def hello(node: str, generation: int = 1, processes: int = 1, address: str = "10.0.0.1") -> Hello:
    return Hello(node, node.partition("-")[0], generation, address, processes, {"store": 1})


def gathered(terms: Terms = TORCH, generation: int = 1) -> Cluster:
    start = replace(forming(terms), generation=generation)
    return after(start, *(hello(node, generation) for node in ALL))[0]


def ready(terms: Terms = TORCH, generation: int = 1) -> Cluster:
    cluster = after(gathered(terms, generation), *(Started(node, generation) for node in ALL))[0]
    return after(cluster, ProbePassed(generation))[0] if terms.probed else cluster


def failure(node: str = "worker-1", code: int = 3, at: float = 1.0, complaint: bool = False) -> Failure:
    return Failure(node, "rank 1", code, at=at, rank=1, complaint=complaint)


def verdict_of(orders: list[roster.Order]) -> Verdict:
    (conclusion,) = [
        order.message for order in orders if isinstance(order, Send) and isinstance(order.message, Conclude)
    ]
    return conclusion.verdict


def test_ranks_are_given_when_all_are_here_in_the_order_of_names_not_of_arrival() -> None:
    cluster, orders = after(forming(), hello("worker-2", processes=2), hello("main", processes=2))
    assert orders == []
    cluster, orders = after(cluster, hello("worker-1", processes=3))
    (order,) = orders
    assert isinstance(order, Send)
    assert isinstance(order.message, Members)
    assert [(member.node, member.first_rank) for member in order.message.members] == [
        ("main", 0),
        ("worker-1", 2),
        ("worker-2", 5),
    ]


def test_ten_workers_are_ordered_by_number() -> None:
    many = replace(TORCH, workers=10, least=10, most=10)
    workers = [f"worker-{n}" for n in range(1, 11)]
    names = ["main", *reversed(workers)]
    _, orders = after(forming(many), *(hello(name) for name in names))
    (order,) = orders
    assert isinstance(order, Send)
    assert isinstance(order.message, Members)
    assert [member.node for member in order.message.members] == ["main", *workers]


def test_a_main_that_does_not_compute_gets_no_rank() -> None:
    terms = replace(TORCH, computing_main=False, main_starts=False)
    _, orders = after(forming(terms), hello("main"), hello("worker-1"), hello("worker-2"))
    (order,) = orders
    assert isinstance(order, Send)
    assert isinstance(order.message, Members)
    assert [member.node for member in order.message.members] == ["worker-1", "worker-2"]


def test_ready_is_when_all_have_started() -> None:
    cluster, orders = after(gathered(), Started("main", 1), Started("worker-1", 1))
    assert not cluster.ready
    cluster, orders = after(cluster, Started("worker-2", 1))
    assert cluster.ready
    assert orders == [Send(Go(1)), Say("ready: 3 nodes")]


def test_dask_is_ready_only_when_its_scheduler_says_so() -> None:
    cluster, _ = after(gathered(DASK), *(Started(node, 1) for node in ALL))
    assert not cluster.ready
    assert after(cluster, ProbePassed(1))[0].ready


def test_an_elastic_cluster_is_ready_with_the_least_it_may_have() -> None:
    terms = replace(DASK, least=1, probed=False)
    cluster, _ = after(forming(terms), hello("main"), hello("worker-2"), Started("main", 1), Started("worker-2", 1))
    assert cluster.ready


def test_it_ends_well_when_every_node_is_done() -> None:
    cluster, orders = after(ready(), Done("main", 1), Done("worker-1", 1))
    assert orders == []
    assert verdict_of(after(cluster, Done("worker-2", 1))[1]) == Verdict(End.SCRIPT_ENDED, 0)


def test_dask_ends_when_mains_script_has_ended() -> None:
    assert verdict_of(after(ready(DASK), Done("main", 1))[1]) == Verdict(End.SCRIPT_ENDED, 0)


def test_dask_ends_with_its_scripts_exit_code() -> None:
    bad = Failure("main", "script", 3, at=1.0)
    assert verdict_of(after(ready(DASK), Failed("main", 1, bad, script=True))[1]) == Verdict(
        End.SCRIPT_ENDED, 3, failure=bad
    )


def test_a_long_lived_cluster_stays_when_its_script_has_ended() -> None:
    terms = replace(DASK, ephemeral=False)
    cluster, orders = after(ready(terms), Done("main", 1))
    assert (cluster.verdict, orders) == (None, [])


def test_a_failed_rank_without_retries_ends_it_with_that_ranks_exit_code() -> None:
    verdict = verdict_of(after(ready(), Failed("worker-1", 1, failure()))[1])
    assert (verdict.end, verdict.exit_code, verdict.failure) == (End.MEMBER_FAILED, 3, failure())


def test_a_failed_rank_with_retries_left_starts_a_new_generation_of_all() -> None:
    terms = replace(TORCH, retries=1, loss_retries=1)
    cluster, orders = after(ready(terms), Failed("worker-1", 1, failure()))
    assert orders == [NewGeneration(2, "rank 1 on worker-1 ended with exit code 3")]
    assert (cluster.ready, cluster.peers) == (False, {})
    used_up = replace(ready(terms, 2), retried=1)
    assert verdict_of(after(used_up, Failed("worker-1", 2, failure()))[1]).end is End.MEMBER_FAILED


def test_a_complaint_about_a_lost_peer_waits_for_the_cause() -> None:
    complaint = failure("worker-2", code=1, at=1.0, complaint=True)
    cluster, orders = after(ready(), Failed("worker-2", 1, complaint))
    assert orders == []
    cause = failure("worker-1", code=7, at=2.0)
    verdict = verdict_of(after(cluster, Failed("worker-1", 1, cause))[1])
    assert (verdict.exit_code, verdict.failure) == (7, cause)


def test_a_complaint_without_a_cause_is_the_cause_after_a_while() -> None:
    complaint = failure("worker-2", code=1, complaint=True)
    cluster, _ = after(ready(), Failed("worker-2", 1, complaint), now=10)
    assert after(cluster, Tick(), now=10 + PATIENCE - 0.1)[1] == []
    assert verdict_of(after(cluster, Tick(), now=10 + PATIENCE)[1]).exit_code == 1


def test_a_lost_node_ends_a_cluster_that_needs_it() -> None:
    verdict = verdict_of(after(ready(), Lost("worker-2", "worker-2 was lost"))[1])
    assert (verdict.end, verdict.exit_code, verdict.detail) == (End.MEMBER_FAILED, 124, "worker-2 was lost")


def test_dask_goes_on_without_a_lost_worker_until_none_is_left() -> None:
    cluster, orders = after(ready(DASK), Lost("worker-2", "worker-2 was lost"))
    assert orders == [Say("worker-2 was lost; going on with 1")]
    assert verdict_of(after(cluster, Lost("worker-1"))[1]).end is End.MEMBER_FAILED


def test_a_failed_dask_worker_starts_again_as_often_as_it_may() -> None:
    terms = replace(DASK, retries=1)
    broken = Failure("worker-1", "worker", 1, at=1.0)
    cluster, orders = after(ready(terms), Failed("worker-1", 1, broken))
    assert Send(Again(1), "worker-1") in orders
    assert after(cluster, Failed("worker-1", 1, broken)) == (cluster, [])
    broken = replace(broken, at=2.0)
    cluster, orders = after(cluster, Started("worker-1", 1), Failed("worker-1", 1, broken))
    assert Send(Conclude(Verdict(End.MEMBER_FAILED, 1, failure=broken)), "worker-1") in orders
    assert cluster.verdict is None


def test_by_its_timeout_it_ends_and_names_who_is_missing_and_what_is_known_of_them() -> None:
    cluster, _ = after(forming(), hello("main"), hello("worker-1"))
    cluster, _ = after(cluster, Started("main", 1))
    verdict = verdict_of(after(cluster, Tick(), now=60)[1])
    assert verdict.end is End.NOT_READY
    assert verdict.missing == ("worker-1", "worker-2")
    assert "worker-1: here at 10.0.0.1, but not started; worker-2: never seen" in verdict.detail


def test_its_ttl_ends_it() -> None:
    assert verdict_of(after(ready(), Tick(), now=3600)[1]).end is End.TTL_REACHED


def test_a_stop_ends_it() -> None:
    assert verdict_of(after(ready(), StopSeen("enough"))[1]) == Verdict(End.STOP_REQUESTED, 130, "enough")


def test_an_elastic_cluster_is_done_when_the_last_that_ran_is_lost() -> None:
    terms = replace(TORCH, least=1, gathers=False, survives_loss=True)
    cluster, _ = after(ready(terms), Done("main", 1), Done("worker-1", 1))
    assert verdict_of(after(cluster, Lost("worker-2"))[1]) == Verdict(End.SCRIPT_ENDED, 0)


def test_a_node_that_left_is_not_waited_for_though_retries_are_left() -> None:
    terms = replace(TORCH, retries=3)
    left = Left("worker-2", Verdict(End.STOP_REQUESTED, 130, "worker-2 was asked to end by SIGTERM"))
    verdict = verdict_of(after(ready(terms), left)[1])
    assert (verdict.end, verdict.detail) == (End.MEMBER_FAILED, "worker-2 was asked to end by SIGTERM")


def test_a_node_too_many_is_sent_away_and_the_others_go_on() -> None:
    cluster = ready()
    again, orders = after(cluster, hello("worker-9"))
    assert again.peers == cluster.peers
    assert Say("worker-9 is one too many: the cluster has all its 3 nodes") in orders
    assert [order.node for order in orders if isinstance(order, Send)] == ["worker-9"]


def test_a_node_that_says_hello_twice_is_one_node() -> None:
    cluster = ready()
    again, orders = after(cluster, hello("worker-1"))
    assert again is cluster
    assert orders == [Send(Go(1), "worker-1")]


def test_a_node_that_comes_back_as_another_machine_makes_all_start_anew() -> None:
    _, orders = after(ready(replace(TORCH, retries=1)), hello("worker-1", address="10.0.0.9"))
    assert orders == [NewGeneration(2, "worker-1 came back")]


def test_what_happens_after_the_end_changes_no_verdict() -> None:
    cluster, _ = after(ready(), StopSeen("enough"))
    cluster, orders = after(cluster, Failed("worker-1", 1, failure()), Lost("worker-2"), Tick(), now=9999)
    assert cluster.verdict == Verdict(End.STOP_REQUESTED, 130, "enough")
    assert orders == []


NODES = st.sampled_from([*ALL, "worker-77"])
GENERATIONS = st.integers(1, 3)
EVENTS = st.one_of(
    st.builds(hello, NODES, GENERATIONS),
    st.builds(Started, NODES, GENERATIONS),
    st.builds(Done, NODES, GENERATIONS),
    st.builds(Failed, NODES, GENERATIONS, st.builds(failure, NODES, complaint=st.booleans())),
    st.builds(Left, NODES, st.just(Verdict(End.MAIN_LOST, 122))),
    st.builds(Lost, NODES),
    st.builds(ProbePassed, GENERATIONS),
    st.just(Tick()),
)


@given(st.lists(EVENTS, max_size=60), st.sampled_from([TORCH, DASK]), st.integers(0, 2))
def test_whatever_happens_it_never_uses_more_than_its_retries_and_ends_by_its_ttl(
    events: list[roster.Event], terms: Terms, retries: int
) -> None:
    cluster = forming(replace(terms, retries=retries))
    for event in events:
        cluster, orders = step(cluster, event, 1.0)
        assert cluster.generation <= retries + 1
        assert (
            sum(
                isinstance(order, Send) and isinstance(order.message, Conclude) and order.node is None
                for order in orders
            )
            <= 1
        )
    cluster, _ = step(cluster, Tick(), 3601)
    assert cluster.verdict is not None


# --- sizes that change -----------------------------------------------------------------------------------

ELASTIC = replace(TORCH, workers=2, least=1, most=4)
ELASTIC_DASK = replace(DASK, workers=2, least=1, most=4)
HOROVOD = replace(ELASTIC_DASK, probed=False, script_retried=True, retries=1)


def members_of(orders: list[roster.Order]) -> list[str]:
    (told,) = [order.message for order in orders if isinstance(order, Send) and isinstance(order.message, Members)]
    return [member.node for member in told.members]


def concluded(orders: list[roster.Order]) -> dict[str | None, End]:
    return {
        order.node: order.message.verdict.end
        for order in orders
        if isinstance(order, Send) and isinstance(order.message, Conclude)
    }


def test_an_elastic_cluster_that_has_enough_waits_for_the_rest_only_so_long() -> None:
    cluster, orders = after(forming(ELASTIC), hello("main"), hello("worker-2"), now=1)
    assert orders == []
    assert after(cluster, Tick(), now=1 + LAST_CALL - 0.1)[1] == []
    cluster, orders = after(cluster, Tick(), now=1 + LAST_CALL)
    assert members_of(orders) == ["main", "worker-2"]
    assert cluster.gathered


def test_an_elastic_cluster_does_not_begin_without_main_or_a_parameter_server() -> None:
    lacking = replace(ELASTIC, servers=1)
    for here in (("worker-1", "worker-2", "ps-1"), ("main", "worker-1")):
        cluster, _ = after(forming(lacking), *map(hello, here))
        assert after(cluster, Tick(), now=LAST_CALL + 2)[1] == []


def test_a_fixed_size_never_begins_with_fewer() -> None:
    cluster, _ = after(forming(), hello("main"), hello("worker-1"))
    assert after(cluster, Tick(), now=LAST_CALL + 2)[1] == []


def test_a_late_node_makes_all_begin_anew_when_nobody_else_is_awaited() -> None:
    begun = after(after(forming(ELASTIC), hello("main"), hello("worker-1"))[0], Tick(), now=LAST_CALL + 1)[0]
    cluster, orders = after(begun, hello("worker-2"))
    assert orders == [NewGeneration(2, "worker-2 joins", patient=True)]
    assert (cluster.retried, cluster.gathered, cluster.peers) == (0, False, {})


def test_late_nodes_that_come_together_cost_one_restart() -> None:
    begun = ready(ELASTIC)
    cluster, _ = after(begun, Scale(4), now=5)
    cluster, orders = after(cluster, hello("worker-3"), now=6)
    assert orders == [Say("worker-3 joins")]
    assert after(cluster, Tick(), now=6 + SETTLE - 0.1)[1] == []
    assert after(cluster, Tick(), now=6 + SETTLE)[1] == [NewGeneration(2, "more nodes join", patient=True)]
    assert after(cluster, hello("worker-4"), now=7)[1] == [NewGeneration(2, "worker-4 joins", patient=True)]


def test_more_than_are_wanted_are_sent_away() -> None:
    cluster, orders = after(ready(ELASTIC), hello("worker-3"))
    assert concluded(orders) == {"worker-3": End.RELEASED}
    assert "worker-3" not in cluster.peers
    assert after(cluster, Left("worker-3", verdict_of(orders))) == (cluster, [])


def test_scaled_down_the_last_ones_leave_and_the_others_begin_anew_with_time_to_save() -> None:
    cluster, orders = after(ready(ELASTIC), Scale(1))
    assert orders == [NewGeneration(2, "scaled to 1 worker", patient=True, released=("worker-2",))]
    cluster, orders = after(cluster, hello("main", 2), hello("worker-1", 2))
    assert members_of(orders) == ["main", "worker-1"]
    gone, orders = after(cluster, Left("worker-2", clusters.released(1)))
    assert (orders, gone.verdict) == ([], None)


def test_a_cluster_that_resizes_itself_lets_nodes_go_without_a_restart() -> None:
    cluster, orders = after(ready(ELASTIC_DASK), Scale(1))
    assert orders == [Say("scaled to 1 worker"), Release(("worker-2",))]
    assert (cluster.generation, cluster.peers["worker-2"].state) == (1, "leaving")
    # Whatever such a node says or does any more is no failure.
    cluster, orders = after(cluster, Failed("worker-2", 1, failure("worker-2")), hello("worker-2"), Lost("worker-2"))
    assert (orders, cluster.peers["worker-2"].state, cluster.verdict) == ([], "left", None)


def test_scaled_up_new_nodes_join_where_the_framework_resizes_itself() -> None:
    cluster, orders = after(ready(ELASTIC_DASK), Scale(3))
    assert orders == [Say("scaled to 3 workers")]
    cluster, orders = after(cluster, hello("worker-3"))
    assert orders == [Say("worker-3 joins")]
    assert after(cluster, Started("worker-3", 1))[0].peers["worker-3"].state == "started"


def test_a_scale_while_the_nodes_gather_changes_whom_is_waited_for() -> None:
    cluster, _ = after(forming(ELASTIC), hello("main"), hello("worker-1"))
    cluster, orders = after(cluster, Scale(1))
    assert members_of(orders) == ["main", "worker-1"]


def test_the_same_size_again_changes_nothing() -> None:
    cluster = ready(ELASTIC)
    assert after(cluster, Scale(2)) == (cluster, [])


def test_an_elastic_cluster_that_loses_a_node_goes_on_without_using_up_a_retry() -> None:
    cluster, orders = after(ready(ELASTIC), Lost("worker-2", "worker-2 was lost"))
    assert orders == [NewGeneration(2, "worker-2 was lost; going on with 1 worker", patient=True)]
    cluster, _ = after(cluster, hello("main", 2), hello("worker-1", 2), now=10)
    assert not cluster.gathered
    assert members_of(after(cluster, Tick(), now=10 + SETTLE)[1]) == ["main", "worker-1"]


def test_below_its_least_size_an_elastic_cluster_ends() -> None:
    alone = after(ready(ELASTIC), Scale(1))[0]
    alone = after(alone, *(hello(node, 2) for node in ALL[:2]), *(Started(node, 2) for node in ALL[:2]))[0]
    assert verdict_of(after(alone, Lost("worker-1"))[1]).end is End.MEMBER_FAILED


def test_a_complaint_in_an_elastic_cluster_waits_until_the_loss_is_noticed() -> None:
    cluster, _ = after(ready(ELASTIC), Failed("main", 1, failure("main", complaint=True)), now=1)
    assert after(cluster, Tick(), now=1 + PATIENCE)[0].verdict is None
    assert isinstance(after(cluster, Lost("worker-2"), now=20)[1][0], NewGeneration)


def test_with_parameter_servers_the_chiefs_end_is_the_end() -> None:
    terms = replace(TORCH, servers=1, awaited=frozenset({"main"}))
    names = (*ALL, "ps-1")
    cluster = after(forming(terms), *map(hello, names), *(Started(node, 1) for node in names))[0]
    assert after(cluster, Done("worker-1", 1))[0].verdict is None
    assert verdict_of(after(cluster, Done("main", 1))[1]) == Verdict(End.SCRIPT_ENDED, 0)
    server = failure("ps-1")
    assert verdict_of(after(cluster, Failed("ps-1", 1, server))[1]).failure == server


def test_a_script_that_main_alone_runs_is_retried_where_the_framework_wants_it() -> None:
    cluster, orders = after(ready(HOROVOD), Failed("main", 1, failure("main"), script=True))
    assert isinstance(orders[0], NewGeneration)
    again = after(cluster, *(hello(node, 2) for node in ALL), *(Started(node, 2) for node in ALL))[0]
    verdict = verdict_of(after(again, Failed("main", 2, failure("main"), script=True))[1])
    assert (verdict.end, verdict.exit_code) == (End.SCRIPT_ENDED, 3)


def test_an_answer_that_waits_for_the_users_code_may_be_late_and_that_is_said_once() -> None:
    terms = replace(TORCH, probed=True, probe_binds=False)
    started = after(gathered(terms), *(Started(node, 1) for node in ALL))[0]
    cluster, orders = after(started, Tick(), now=61)
    assert orders == [Say("not ready within 60 s (its service did not answer); all processes run")]
    assert after(cluster, Tick(), now=62) == (cluster, [])
    assert after(cluster, ProbePassed(1), now=63)[0].ready


@given(
    st.lists(st.one_of(st.integers(0, 4).map(Scale), st.sampled_from(["hello", "start", "lose", "tick"])), max_size=30)
)
def test_however_often_it_is_scaled_members_are_those_who_are_here_and_wanted(changes: list[Scale | str]) -> None:
    """No generation begins with more than are wanted, fewer than are enough, or one that is gone."""
    cluster, now = ready(replace(ELASTIC, least=0, timeout=1e9, ttl=None)), 1.0
    for change in changes:
        now += 20.0
        names = ["main", *(f"worker-{number}" for number in range(1, cluster.wanted + 1))]
        events: list[roster.Event] = [Tick()]
        if isinstance(change, Scale):
            events = [change]
        elif change == "hello":
            events = [hello(name, cluster.generation) for name in names]
        elif change == "start":
            events = [Started(name, cluster.generation) for name in names]
        elif change == "lose" and len(names) > 1:
            events = [Lost(names[-1])]
        for event in events:
            wanted = cluster.wanted
            cluster, orders = step(cluster, event, now)
            for order in orders:
                if isinstance(order, Send) and isinstance(order.message, Members):
                    workers = [member for member in order.message.members if member.role == "worker"]
                    assert len(workers) <= max(wanted, cluster.wanted)
                    assert all(cluster.peers[member.node].alive for member in order.message.members)
                    assert order.message.generation == cluster.generation
    assert cluster.verdict is None


# --- what a review found ---------------------------------------------------------------------------------


def test_a_node_that_was_refused_may_leave_without_ending_the_run() -> None:
    cluster, orders = after(ready(), hello("worker-9"))
    verdict = verdict_of(orders)
    assert verdict.end is End.MEMBER_FAILED
    assert after(cluster, Left("worker-9", verdict)) == (cluster, [])


def test_enough_nodes_whose_service_waits_for_the_script_are_not_ended_for_one_that_never_came() -> None:
    terms = replace(ELASTIC, probed=True, probe_binds=False)
    cluster = after(after(forming(terms), hello("main"), hello("worker-1"))[0], Tick(), now=LAST_CALL + 1)[0]
    cluster = after(cluster, Started("main", 1), Started("worker-1", 1))[0]
    cluster, orders = after(cluster, Tick(), now=61)
    assert (cluster.verdict, len(orders)) == (None, 1)


def test_who_joins_while_a_script_ends_does_not_make_it_begin_again() -> None:
    few = after(ready(ELASTIC), Scale(4))[0]
    waiting = after(few, hello("worker-3"), now=5)[0]
    done = after(waiting, Done("main", 1), Done("worker-1", 1))[0]
    assert after(done, Tick(), now=30)[1] == []
    assert verdict_of(after(done, Done("worker-2", 1))[1]) == Verdict(End.SCRIPT_ENDED, 0)
    orders = after(done, hello("worker-4"))[1]
    assert concluded(orders) == {"worker-4": End.RELEASED}


def test_a_new_main_lets_go_whom_nobody_wants_any_more() -> None:
    cluster = after(forming(ELASTIC_DASK), Scale(1))[0]
    cluster, orders = after(cluster, hello("main"), hello("worker-1"))
    assert orders == []
    cluster, orders = after(cluster, hello("worker-2"))
    assert (orders, cluster.peers["worker-2"].state) == ([Release(("worker-2",))], "leaving")


def test_another_node_of_the_name_of_one_that_leaves_is_another_node() -> None:
    cluster = after(ready(ELASTIC_DASK), Scale(1), Scale(2))[0]
    again = replace(hello("worker-2"), incarnation=2)
    assert after(cluster, again)[0].peers["worker-2"].state == "present"


def test_who_leaves_while_all_are_tried_again_is_no_failure_of_the_next_generation() -> None:
    cluster = after(ready(HOROVOD), Scale(1), Failed("main", 1, failure("main"), script=True))[0]
    assert cluster.generation == 2
    cluster, orders = after(cluster, hello("worker-2", 2), Left("worker-2", clusters.released(1)))
    assert (orders, cluster.verdict, cluster.peers["worker-2"].state) == ([], None, "left")


def test_no_generation_begins_below_the_least_size_or_without_a_parameter_server() -> None:
    terms = replace(TORCH, workers=4, least=2, most=4)
    cluster = after(forming(terms), hello("main"), hello("worker-1"), hello("worker-2"), Lost("worker-2"))[0]
    assert after(cluster, Tick(), now=LAST_CALL + 2)[1] == []
    served = replace(TORCH, servers=1)
    cluster, orders = after(forming(served), *map(hello, ("main", "worker-1", "worker-2", "worker-3")))
    assert orders == []


def test_a_lost_node_uses_the_jobs_retries_even_where_the_engine_has_those_of_the_ranks() -> None:
    terms = replace(ELASTIC, least=2, retries=0, loss_retries=1)
    assert isinstance(after(ready(terms), Lost("worker-2"))[1][0], NewGeneration)
    assert verdict_of(after(ready(terms), Failed("worker-2", 1, failure()))[1]).end is End.MEMBER_FAILED
