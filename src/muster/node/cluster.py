"""What main decides for all, as a pure function: `step(cluster, event, now) -> (cluster, orders)`.

It gathers the nodes, gives them ranks, says when the cluster is ready, starts a new generation when ranks fail and
retries are left or when the size changes, and concludes: each of the ways a cluster ends, but those that a lone
worker sees, ends here.
"""

from __future__ import annotations

from dataclasses import replace

from ..workdir.records import EXIT_CODES, End, Failure, Member, Verdict, first_cause
from ..workdir.run import node_order
from . import roster
from .life import StopSeen, Tick
from .messages import Again, Conclude, Done, Failed, Go, Hello, Left, Members, Started
from .roster import (
    Cluster,
    Event,
    Lost,
    NewGeneration,
    Next,
    Order,
    Peer,
    ProbePassed,
    Release,
    Say,
    Scale,
    Send,
)

PATIENCE = 5.0
"""How long a complaint about a lost peer waits for the cause to show itself."""
ELASTIC_PATIENCE = 30.0
"""The same where the loss of the peer itself is no reason to end: a machine may be gone without a word."""
LAST_CALL = 15.0
"""How long an elastic cluster that has enough nodes waits for the rest when it first forms."""
SETTLE = 3.0
"""How long it waits for others that may come as well, so that they cost one restart together."""


def step(cluster: Cluster, event: Event, now: float) -> Next:
    """One event in, the next cluster and main's orders out."""
    if isinstance(event, (Left, Lost)):
        return _gone(cluster, event, now)
    if cluster.verdict is not None:
        return cluster, []
    if isinstance(event, StopSeen):
        return _conclude(cluster, Verdict(End.STOP_REQUESTED, EXIT_CODES[End.STOP_REQUESTED], event.detail))
    if isinstance(event, Tick):
        return _tick(cluster, now)
    if isinstance(event, ProbePassed):
        passed = event.generation == cluster.generation
        return _maybe_ready(replace(cluster, probe_passed=True)) if passed else (cluster, [])
    if isinstance(event, Hello):
        return _hello(cluster, event, now)
    if isinstance(event, Scale):
        return _scale(cluster, event.workers, now)
    peer = cluster.peers.get(event.node)
    if event.generation != cluster.generation or peer is None or not peer.alive:
        return cluster, []
    if isinstance(event, Started):
        return _maybe_ready(roster.mark(cluster, event.node, "started"))
    if isinstance(event, Done):
        return _maybe_done(roster.mark(cluster, event.node, "done"))
    return _failed(cluster, event, now)


def released(workers: int) -> Verdict:
    """What a node is told that is no longer wanted."""
    return Verdict(End.RELEASED, EXIT_CODES[End.RELEASED], f"the run was scaled to {_workers(workers)}")


# --- forming ---------------------------------------------------------------------------------------------


def _hello(cluster: Cluster, hello: Hello, now: float) -> Next:
    peer = cluster.peers.get(hello.node)
    if peer and peer.state == "leaving" and hello.incarnation > peer.hello.incarnation:
        peer = None  # the one that was to leave is gone; this is another of its name
    if hello.generation != cluster.generation or (peer and peer.state == "leaving"):
        return cluster, []
    if peer and peer.alive and peer.hello == hello:
        return cluster, [Send(Go(cluster.generation), hello.node)] if cluster.ready else []
    known = replace(cluster, peers={**cluster.peers, hello.node: Peer(hello, retries=peer.retries if peer else 0)})
    if not cluster.terms.gathers and cluster.terms.elastic and len(roster.alive(known, "worker")) > known.wanted:
        return roster.mark(known, hello.node, "leaving"), [Release((hello.node,))]
    if not cluster.terms.gathers:
        return known, [Say(f"{hello.node} joins")] if cluster.ready and not (peer and peer.alive) else []
    if not cluster.gathered:
        return _maybe_gathered(known, now)
    if peer is None:
        return _late(cluster, known, hello.node, now)
    # It came back as another machine after the others were told of the old one: all must be told anew.
    came_back = f"{hello.node} came back"
    return _regather(known, came_back, now) if cluster.terms.elastic else _retry(known, came_back, now)


def _late(cluster: Cluster, known: Cluster, node: str, now: float) -> Next:
    """A node that comes when the others have begun without it."""
    if not cluster.terms.elastic:
        detail = f"{node} is one too many: the cluster has all its {len(cluster.peers)} nodes"
        return _refuse(cluster, node, Verdict(End.MEMBER_FAILED, EXIT_CODES[End.MEMBER_FAILED], detail))
    if len(roster.alive(known, "worker")) > known.wanted:
        return _refuse(cluster, node, released(known.wanted))
    if roster.someone_is_done(cluster):
        return _refuse(cluster, node, Verdict(End.RELEASED, EXIT_CODES[End.RELEASED], "the script is about to end"))
    waiting = roster.mark(known, node, "waiting")
    if roster.complete(waiting):
        return _regather(waiting, f"{node} joins", now)
    return replace(waiting, settle_at=now + SETTLE), [Say(f"{node} joins")]


def _refuse(cluster: Cluster, node: str, verdict: Verdict) -> Next:
    sent_away = replace(cluster, refused=cluster.refused | {node})
    told = verdict.detail if verdict.exit_code else f"{node} is not needed: {verdict.detail}"
    return sent_away, [Say(told), Send(Conclude(verdict), node)]


def _maybe_gathered(cluster: Cluster, now: float) -> Next:
    if roster.complete(cluster):
        return _gather(cluster)
    if cluster.terms.elastic and roster.sufficient(cluster):
        return replace(cluster, settle_at=now + (SETTLE if cluster.formed else LAST_CALL)), []
    return cluster, []


def _gather(cluster: Cluster) -> Next:
    members, rank = [], 0
    for hello in sorted(roster.computing(cluster), key=lambda hello: node_order(hello.node)):
        members.append(Member(hello.node, hello.role, hello.address, hello.processes, rank, dict(hello.ports)))
        rank += hello.processes
    met = replace(cluster, gathered=True, formed=True, settle_at=None)
    return met, [Send(Members(cluster.generation, tuple(members)))]


def _scale(cluster: Cluster, workers: int, now: float) -> Next:
    if workers == cluster.wanted:
        return cluster, []
    scaled = replace(cluster, wanted=workers)
    reason = f"scaled to {_workers(workers)}"
    leaving = roster.alive(cluster, "worker")[workers:]
    for node in leaving:
        scaled = roster.mark(scaled, node, "leaving")
    if not cluster.terms.gathers:
        return scaled, [Say(reason), *([Release(tuple(leaving))] if leaving else [])]
    if leaving and cluster.gathered and not roster.someone_is_done(cluster):
        return _regather(scaled, reason, now, tuple(leaving))
    farewell = [Send(Conclude(released(workers)), node) for node in leaving]
    scaled, orders = _maybe_gathered(scaled, now) if not cluster.gathered else (scaled, [])
    return scaled, [Say(reason), *farewell, *orders]


def _workers(count: int) -> str:
    return f"{count} worker{'s' if count != 1 else ''}"


def _maybe_ready(cluster: Cluster) -> Next:
    if cluster.ready or not roster.enough(cluster):
        return cluster, []
    return replace(cluster, ready=True), [Send(Go(cluster.generation)), Say(roster.ready_text(cluster))]


# --- running ---------------------------------------------------------------------------------------------


def _maybe_done(cluster: Cluster) -> Next:
    terms = cluster.terms
    states = {peer.state for peer in cluster.peers.values() if peer.hello.role in terms.awaited}
    if not terms.ephemeral or "done" not in states or not states <= {"done", "waiting", "lost", "leaving", "left"}:
        return cluster, []
    return _conclude(cluster, Verdict(End.SCRIPT_ENDED, 0))


def _failed(cluster: Cluster, event: Failed, now: float) -> Next:
    terms = cluster.terms
    if event.failure in cluster.failures:
        return cluster, []  # said again after a reconnect
    if event.script and not terms.script_everywhere:
        if terms.script_retried and cluster.retried < terms.retries:
            return _retry(cluster, _failure_text(event.failure), now)
        if not terms.ephemeral:
            return roster.mark(cluster, "main", "started"), [Say(_failure_text(event.failure))]
        return _conclude(cluster, Verdict(End.SCRIPT_ENDED, event.failure.exit_code, failure=event.failure))
    if terms.survives_loss and event.node != "main":
        return _one_failed(cluster, event.node, event.failure, now)
    return _decide(replace(cluster, failures=(*cluster.failures, event.failure)), now)


def _gone(cluster: Cluster, event: Left | Lost, now: float) -> Next:
    peer = cluster.peers.get(event.node)
    if peer is None:
        return _never_came(cluster, event, now)
    if peer.state == "leaving" or (isinstance(event, Left) and event.verdict.end is End.RELEASED):
        return roster.mark(cluster, event.node, "left"), []
    if not peer.alive:
        return cluster, []
    if cluster.verdict is not None or (peer.state == "done" and cluster.terms.ephemeral):
        # Who went without a word may still be there, as a machine that is paid for.
        return roster.mark(cluster, event.node, "left" if isinstance(event, Left) else "lost"), []
    if isinstance(event, Left) and event.verdict.end is End.TTL_REACHED:
        return _conclude(roster.mark(cluster, event.node, "left"), event.verdict)  # it began before us
    failure = _loss(event)
    gone = roster.mark(cluster, event.node, "lost")
    if cluster.terms.survives_loss:
        return _one_failed(gone, event.node, failure, now, come_back=False)
    if cluster.terms.gathers and cluster.terms.elastic and event.node != "main":
        done, orders = _maybe_done(gone)
        if done.verdict is not None:
            return done, orders  # it was the last that the others had to wait for
        if not cluster.gathered:
            return gone, [Say(_failure_text(failure))]
        if roster.sufficient(gone):
            return _regather(
                gone, f"{_failure_text(failure)}; going on with {_workers(len(roster.alive(gone, 'worker')))}", now
            )
    failed = replace(gone, failures=(*gone.failures, failure))
    # One that was killed may be started again; one that said why it left does not come back.
    return _give_up(failed) if isinstance(event, Left) else _decide(failed, now)


def _never_came(cluster: Cluster, event: Left | Lost, now: float) -> Next:
    """A node that broke before it had met main, as one whose requirements could not be installed."""
    if cluster.verdict is not None or isinstance(event, Lost) or event.verdict.end is not End.MEMBER_FAILED:
        return cluster, []
    if event.node in cluster.refused:
        return cluster, []
    hello = Hello(event.node, event.node.partition("-")[0], cluster.generation)
    known = replace(cluster, peers={**cluster.peers, event.node: Peer(hello)})
    return _gone(known, event, now)


def _loss(event: Left | Lost) -> Failure:
    if isinstance(event, Left) and event.verdict.failure:
        return event.verdict.failure
    detail = event.detail if isinstance(event, Lost) else event.verdict.detail
    tail = (detail or f"{event.node} was lost",)
    return Failure(event.node, "node", EXIT_CODES[End.MEMBER_FAILED], at=event.at, tail=tail)


def _one_failed(cluster: Cluster, node: str, failure: Failure, now: float, come_back: bool = True) -> Next:
    """A worker that the others can do without: it starts again while it may, else they go on or give up."""
    peer = cluster.peers[node]
    if come_back and peer.retries < cluster.terms.retries:
        again = replace(peer, state="present", retries=peer.retries + 1)
        # Remembered, so that the same failure, heard once more through the work dir, is not taken for another.
        known = replace(cluster, peers={**cluster.peers, node: again}, failures=(*cluster.failures, failure))
        say = Say(f"{_failure_text(failure)}; starting it again")
        return known, [say, Send(Again(cluster.generation), node)]
    failed = replace(roster.mark(cluster, node, "lost"), failures=(*cluster.failures, failure))
    left = len([name for name, other in failed.peers.items() if name != "main" and other.alive])
    if come_back and cluster.terms.script_everywhere and not failure.complaint:
        return _give_up(failed)  # a script that failed is more than a loss: the run has its exit code
    if not roster.enough_left(failed, left):
        return _decide(failed, now)
    done, orders = _maybe_done(failed)
    if done.verdict is not None:
        return done, orders  # it was the last that the others had to wait for
    verdict = Verdict(End.MEMBER_FAILED, failure.exit_code, failure=failure)
    leave: list[Order] = [Send(Conclude(verdict), node)] if come_back else []
    return failed, [Say(f"{_failure_text(failure)}; going on with {left}"), *leave]


def _decide(cluster: Cluster, now: float) -> Next:
    cause = first_cause(cluster.failures)
    if cause is not None and cause.complaint and cluster.decide_at is None:
        return replace(cluster, decide_at=now + (ELASTIC_PATIENCE if cluster.terms.elastic else PATIENCE)), []
    if cause is not None and cause.complaint and cluster.decide_at is not None and now < cluster.decide_at:
        return cluster, []
    return _retry(cluster, _failure_text(cause) if cause else "", now)


def _retry(cluster: Cluster, reason: str, now: float) -> Next:
    lost = any(failure.process == "node" for failure in cluster.failures)
    if cluster.retried >= (cluster.terms.loss_retries if lost else cluster.terms.retries):
        return _give_up(cluster, reason)
    return _anew(replace(cluster, retried=cluster.retried + 1), reason, now, patient=False)


def _regather(cluster: Cluster, reason: str, now: float, released: tuple[str, ...] = ()) -> Next:
    """A new size is what an elastic cluster is for: it costs no retry, and the processes may save before they end."""
    return _anew(cluster, reason, now, patient=True, released=released)


def _anew(cluster: Cluster, reason: str, now: float, patient: bool, released: tuple[str, ...] = ()) -> Next:
    fresh = replace(
        cluster,
        generation=cluster.generation + 1,
        since=now,
        peers={name: peer for name, peer in cluster.peers.items() if peer.state == "leaving"},
        gathered=False,
        ready=False,
        probe_passed=False,
        failures=(),
        decide_at=None,
        settle_at=None,
        overdue=False,
    )
    return fresh, [NewGeneration(fresh.generation, reason, patient, released)]


def _give_up(cluster: Cluster, reason: str = "a node failed") -> Next:
    cause = first_cause(cluster.failures)
    code = cause.exit_code if cause else EXIT_CODES[End.MEMBER_FAILED]
    detail = _failure_text(cause) if cause else reason
    return _conclude(cluster, Verdict(End.MEMBER_FAILED, code, detail, cause))


def _failure_text(failure: Failure) -> str:
    if failure.process == "node":
        return failure.tail[0] if failure.tail else f"{failure.node} failed"
    return f"{failure.process} on {failure.node} ended with exit code {failure.exit_code}"


# --- time and the end ------------------------------------------------------------------------------------


def _tick(cluster: Cluster, now: float) -> Next:
    terms = cluster.terms
    if terms.ttl is not None and now - cluster.born >= terms.ttl:
        detail = f"the run reached its ttl of {terms.ttl:g} s"
        return _conclude(cluster, Verdict(End.TTL_REACHED, EXIT_CODES[End.TTL_REACHED], detail))
    if not cluster.ready and now - cluster.since >= terms.timeout:
        return _late_start(cluster)
    if cluster.settle_at is not None and now >= cluster.settle_at:
        return _settled(replace(cluster, settle_at=None), now)
    if cluster.decide_at is not None and now >= cluster.decide_at:
        return _decide(cluster, now)
    return cluster, []


def _settled(cluster: Cluster, now: float) -> Next:
    """Those who are here have waited for others long enough."""
    if roster.someone_is_done(cluster) or not roster.sufficient(cluster):
        return cluster, []
    return _regather(cluster, "more nodes join", now) if cluster.gathered else _gather(cluster)


def _late_start(cluster: Cluster) -> Next:
    timeout, absent = cluster.terms.timeout, roster.missing(cluster)
    known = "; ".join(f"{node}: {roster.known_of(cluster, node)}" for node in absent) or "its service did not answer"
    detail = f"not ready within {timeout:g} s ({known})"
    if cluster.terms.probe_binds or not roster.enough(replace(cluster, probe_passed=True)):
        return _conclude(cluster, Verdict(End.NOT_READY, EXIT_CODES[End.NOT_READY], detail, missing=absent))
    return (cluster, []) if cluster.overdue else (replace(cluster, overdue=True), [Say(f"{detail}; all processes run")])


def _conclude(cluster: Cluster, verdict: Verdict) -> Next:
    return replace(cluster, verdict=verdict), [Send(Conclude(verdict))]
