"""The life of a node, without a process, a file or a clock."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.node import life as lives
from muster.node.life import STEPS, Life, Phase, step
from muster.node.messages import Again, Conclude, Done, Failed, Go, Hello, Left, MainSeen, Members, Started
from muster.workdir.records import End, Failure, MainConfig, Member, Verdict

pytestmark = pytest.mark.unit


def newborn(**changes: object) -> Life:
    life = Life("worker-1", "worker", gathers=True, script="start", timeout=60, ttl=3600, main_grace=5, born=0)
    return replace(life, **changes)  # type: ignore[arg-type]


def main_at(generation: int) -> MainConfig:
    return MainConfig("main", "10.0.0.1", 4000, generation, {"store": 29400})


def members(generation: int) -> Members:
    return Members(generation, (Member("worker-1", "worker", "10.0.0.2", 1, 0, {"store": 1}),))


PREPARED = lives.Prepared(processes=2, ports={"store": 29401})


def lived(life: Life, *events: lives.Event, now: float = 1.0) -> tuple[Life, list[lives.Action]]:
    """The life after these events, and what the last of them asked for."""
    actions: list[lives.Action] = []
    for event in events:
        life, actions = step(life, event, now)
    return life, actions


def running(**changes: object) -> Life:
    launched = lives.Launched(1, frozenset({"rank 0", "rank 1"}))
    return lived(newborn(**changes), lives.Claimed(), PREPARED, MainSeen(main_at(1)), members(1), launched)[0]


def test_a_worker_claims_prepares_meets_gathers_and_runs() -> None:
    life, actions = lived(newborn(), lives.Claimed())
    assert (life.phase, actions) == (Phase.PREPARING, [lives.Prepare()])
    life, actions = lived(life, PREPARED)
    assert (life.phase, actions) == (Phase.MEETING, [lives.Meet()])
    life, actions = lived(life, lives.Addressed("10.0.0.2"), MainSeen(main_at(1)))
    assert life.phase is Phase.GATHERING
    assert actions == [lives.Tell(Hello("worker-1", "worker", 1, "10.0.0.2", 2, {"store": 29401}))]
    life, actions = lived(life, members(1))
    assert (life.phase, actions) == (Phase.RUNNING, [lives.Start(1, services=True, scripts=True)])
    life, actions = lived(life, lives.Launched(1, frozenset({"rank 0"})))
    assert actions == [lives.Tell(Started("worker-1", 1))]


def test_where_nobody_must_know_all_a_worker_starts_when_it_sees_main() -> None:
    life, actions = lived(newborn(gathers=False, script="never"), lives.Claimed(), PREPARED, MainSeen(main_at(1)))
    assert life.phase is Phase.RUNNING
    assert actions[-1] == lives.Start(1, services=True, scripts=False)
    assert isinstance(actions[0], lives.Tell)


def test_a_script_that_waits_for_the_cluster_starts_when_it_is_ready() -> None:
    life = running(gathers=False, script="ready")
    life = replace(life, scripts=frozenset())
    assert lived(life, Go(1))[1] == [lives.Start(1, services=False, scripts=True)]


def test_it_is_done_when_its_last_script_has_ended_well() -> None:
    life, actions = lived(running(), lives.Exited(1, "rank 0", True, None))
    assert actions == []
    assert lived(life, lives.Exited(1, "rank 1", True, None))[1] == [lives.Tell(Done("worker-1", 1))]


def test_a_failed_process_is_told_and_main_decides() -> None:
    failure = Failure("worker-1", "rank 0", 3, at=1.0)
    life, actions = lived(running(), lives.Exited(1, "rank 0", True, failure))
    assert actions == [lives.Tell(Failed("worker-1", 1, failure, script=True))]
    assert life.phase is Phase.RUNNING


def test_a_newer_generation_ends_the_old_processes_before_it_gathers() -> None:
    life, actions = lived(running(), MainSeen(main_at(2)))
    assert (life.phase, actions) == (Phase.RESTARTING, [lives.EndProcesses(patient=False)])
    late = lives.Exited(1, "rank 0", True, Failure("worker-1", "rank 0", 143, at=1.0))
    assert lived(life, late)[1] == []
    life, actions = lived(life, lives.Quiet())
    assert life.phase is Phase.GATHERING
    assert isinstance(actions[0], lives.Tell)
    assert life.generation == 2


def test_an_older_generation_changes_nothing() -> None:
    life = running()
    assert lived(life, MainSeen(main_at(1))) == (life, [])


def test_asked_to_start_again_it_does_so_in_the_same_generation() -> None:
    life, _ = lived(running(gathers=False), Again(1))
    life, actions = lived(life, lives.Quiet())
    assert life.phase is Phase.RUNNING
    assert actions[-1] == lives.Start(1, services=True, scripts=True)


def test_a_worker_that_sees_no_main_in_time_gives_up_and_says_so() -> None:
    life, _ = lived(newborn(), lives.Claimed(), PREPARED)
    assert lived(life, lives.Tick(), now=59)[0].phase is Phase.MEETING
    life, _ = lived(life, lives.Tick(), now=60)
    assert life.verdict == Verdict(End.MAIN_NOT_FOUND, 122, "worker-1 waited 60 s and saw no main")


def test_a_lost_main_may_come_back_within_its_bound() -> None:
    life, _ = lived(running(), lives.MainGone(), now=10)
    assert lived(life, lives.Tick(), now=14)[0].phase is Phase.RUNNING
    assert lived(life, lives.MainBack(), lives.Tick(), now=99)[0].phase is Phase.RUNNING
    ended, _ = lived(life, lives.Tick(), now=15)
    assert ended.verdict is not None
    assert ended.verdict.end is End.MAIN_LOST


def test_its_ttl_ends_it_whatever_happens() -> None:
    life, actions = lived(running(), lives.Tick(), now=3600)
    assert life.verdict is not None
    assert life.verdict.end is End.TTL_REACHED
    assert actions == [lives.EndProcesses(patient=True)]


def test_the_end_is_quiet_then_shipped_then_told() -> None:
    verdict = Verdict(End.SCRIPT_ENDED, 0)
    life, actions = lived(running(), Conclude(verdict))
    assert (life.phase, actions) == (Phase.ENDING, [lives.EndProcesses(patient=False)])
    life, actions = lived(life, lives.Quiet())
    assert actions == [lives.Ship()]
    life, actions = lived(life, lives.Shipped())
    assert life.phase is Phase.ENDED
    assert actions == [lives.Tell(Left("worker-1", verdict)), lives.Leave(0)]


def test_what_is_quiet_twice_is_shipped_once() -> None:
    life, _ = lived(running(), Conclude(Verdict(End.SCRIPT_ENDED, 0)), lives.Quiet())
    assert lived(life, lives.Quiet())[1] == []


def test_a_node_that_cannot_bring_its_things_home_leaves_all_the_same() -> None:
    life, _ = lived(running(), Conclude(Verdict(End.SCRIPT_ENDED, 0)), lives.Quiet(), lives.Tick(), now=10)
    assert lived(life, lives.Tick(), now=10 + lives.ENDING_BOUND - 1)[0].phase is Phase.ENDING
    life, actions = lived(life, lives.Tick(), now=10 + lives.ENDING_BOUND)
    assert life.phase is Phase.ENDED
    assert actions[-1] == lives.Leave(0)


def test_a_node_whose_things_still_arrive_stays_however_long_it_takes() -> None:
    life, _ = lived(running(), Conclude(Verdict(End.SCRIPT_ENDED, 0)), lives.Quiet(), lives.Tick(), now=10)
    life, _ = lived(life, lives.Arriving(), lives.Tick(), now=10 + lives.ENDING_BOUND)
    assert lived(life, lives.Tick(), now=9 + 2 * lives.ENDING_BOUND)[0].phase is Phase.ENDING
    assert lived(life, lives.Tick(), now=10 + 2 * lives.ENDING_BOUND)[0].phase is Phase.ENDED


def test_the_first_verdict_stands() -> None:
    life, _ = lived(running(), Conclude(Verdict(End.SCRIPT_ENDED, 3)), lives.StopSeen("too late"))
    assert life.verdict == Verdict(End.SCRIPT_ENDED, 3)


EVENTS = st.sampled_from(
    [
        lives.Claimed(),
        lives.Addressed("10.0.0.2"),
        PREPARED,
        lives.Broken("no code"),
        MainSeen(main_at(1)),
        MainSeen(main_at(2)),
        MainSeen(main_at(3)),
        members(1),
        members(2),
        Go(1),
        Again(1),
        lives.Launched(1, frozenset({"rank 0"})),
        lives.Exited(1, "rank 0", True, None),
        lives.Exited(1, "rank 0", True, Failure("worker-1", "rank 0", 3, at=1.0)),
        Conclude(Verdict(End.SCRIPT_ENDED, 0)),
        lives.StopSeen("stop"),
        lives.MainGone(),
        lives.MainBack(),
        lives.Quiet(),
        lives.Shipped(),
        lives.Tick(),
    ]
)


@given(st.lists(st.tuples(EVENTS, st.floats(0, 100)), max_size=60), st.booleans())
def test_whatever_happens_only_allowed_steps_are_taken(events: list[tuple[lives.Event, float]], gathers: bool) -> None:
    life, now = newborn(gathers=gathers), 0.0
    for event, passed in events:
        before, now = life, now + passed
        life, actions = step(life, event, now)
        assert life.phase is before.phase or (before.phase, life.phase) in STEPS
        assert life.reason == before.reason or life.reason in STEPS.values()
        if life.phase in (Phase.ENDING, Phase.ENDED):
            assert life.verdict is not None
        if before.phase is Phase.ENDED:
            assert actions == []
            assert life is before


@given(st.lists(EVENTS, max_size=40))
def test_whatever_happens_it_ends_after_its_ttl(events: list[lives.Event]) -> None:
    life, _ = lived(newborn(), *events)
    for event in (lives.Tick(), lives.Quiet(), lives.Shipped()):
        life, _ = step(life, event, 3601)
    assert life.phase is Phase.ENDED


def test_every_phase_can_be_reached_and_every_one_can_end() -> None:
    reached = {Phase.CLAIMING}
    for _ in Phase:
        reached |= {to for (frm, to) in STEPS if frm in reached}
    assert reached == set(Phase)
    for phase in set(Phase) - {Phase.ENDED, Phase.ENDING}:
        assert (phase, Phase.ENDING) in STEPS
