"""Who belongs to a cluster and what is known of each: the values that `cluster.step` works on, and what they tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from ..workdir.records import Failure, Verdict
from ..workdir.run import node_order
from .life import StopSeen, Tick
from .messages import Again, Conclude, Done, Failed, Go, Hello, Left, Members, Started


@dataclass(frozen=True)
class Terms:
    """What the job and its framework say about the cluster; never changes."""

    workers: int
    """How many are wanted beside main, until the cluster is scaled."""
    least: int
    """How many workers are enough."""
    most: int
    """No more than these can be wanted."""
    servers: int
    """Parameter servers, which are all needed."""
    main_starts: bool
    """Main has processes of its own."""
    computing_main: bool
    gathers: bool
    survives_loss: bool
    script_everywhere: bool
    awaited: frozenset[str]
    """The roles whose scripts must have ended well before the run has."""
    script_retried: bool
    """A script that main alone runs is started again after a failure, while retries are left."""
    ephemeral: bool
    probed: bool
    """Ready takes an answer of the framework's own too."""
    probe_binds: bool
    """That answer must come within the timeout; false where it waits for the user's own code."""
    retries: int
    """For processes that fail."""
    loss_retries: int
    """For nodes that are lost where too few are left."""
    timeout: float
    ttl: float | None

    @property
    def elastic(self) -> bool:
        return self.least < self.most


@dataclass(frozen=True)
class Peer:
    """A node as main knows it."""

    hello: Hello
    state: str = "present"
    """present, started, done, waiting, lost, leaving or left. Who waits came late, and is in the next generation."""
    retries: int = 0

    @property
    def alive(self) -> bool:
        return self.state in ("present", "started", "done", "waiting")


@dataclass(frozen=True)
class Cluster:
    terms: Terms
    born: float
    since: float
    """When this generation began to form."""
    wanted: int = -1
    """How many workers are wanted now."""
    generation: int = 1
    retried: int = 0
    """How many of the retries are used up."""
    formed: bool = False
    """The nodes of some generation have met."""
    peers: Mapping[str, Peer] = field(default_factory=dict)
    gathered: bool = False
    """Members and ranks were given out."""
    ready: bool = False
    probe_passed: bool = False
    failures: tuple[Failure, ...] = ()
    decide_at: float | None = None
    settle_at: float | None = None
    """When those who are here go on without waiting for more."""
    overdue: bool = False
    """It was said that the framework's own answer is late."""
    refused: frozenset[str] = frozenset()
    """Nodes that were sent away: what becomes of them is no loss."""
    verdict: Verdict | None = None

    def __post_init__(self) -> None:
        if self.wanted < 0:
            object.__setattr__(self, "wanted", self.terms.workers)


@dataclass(frozen=True)
class Lost:
    """A node's connection is gone and it did not come back."""

    node: str
    detail: str = ""
    at: float = 0.0
    """Seconds since the epoch, as in a failure."""


@dataclass(frozen=True)
class ProbePassed:
    """The framework's own service says that it is ready."""

    generation: int


@dataclass(frozen=True)
class Scale:
    """Somebody wants so many workers from now on."""

    workers: int


Event: TypeAlias = Hello | Started | Done | Failed | Left | Lost | ProbePassed | Scale | StopSeen | Tick


@dataclass(frozen=True)
class NewGeneration:
    """Publish the next generation; all processes start anew."""

    generation: int
    reason: str
    patient: bool = False
    """Nothing failed: the processes have time to save."""
    released: tuple[str, ...] = ()
    """These are not in it. They are told last, so that the others do not lose them before they can save."""


@dataclass(frozen=True)
class Say:
    """Something the user should know."""

    text: str


@dataclass(frozen=True)
class Send:
    """To one node, or to all where `node` is None."""

    message: Members | Go | Again | Conclude
    node: str | None = None


@dataclass(frozen=True)
class Release:
    """Let these nodes go, once the framework has taken their work from them."""

    nodes: tuple[str, ...]


Order: TypeAlias = NewGeneration | Release | Say | Send
Next = tuple[Cluster, list[Order]]


def expected(cluster: Cluster) -> tuple[str, ...]:
    """The nodes beside main, by the names they have if the target names them."""
    workers = (f"worker-{number}" for number in range(1, cluster.wanted + 1))
    return (*workers, *(f"ps-{number}" for number in range(1, cluster.terms.servers + 1)))


def missing(cluster: Cluster) -> tuple[str, ...]:
    """The nodes that are awaited and have not started, by name."""
    wanted = ("main", *expected(cluster)) if cluster.terms.main_starts else expected(cluster)
    here = {name for name, peer in cluster.peers.items() if peer.state in ("started", "done")}
    strangers = len(here.difference(wanted))
    absent = [name for name in wanted if name not in here]
    return tuple(absent[: max(0, len(absent) - strangers)])


def known_of(cluster: Cluster, node: str) -> str:
    """What is known of a node that is missing, in words."""
    peer = cluster.peers.get(node)
    if peer is None:
        return "never seen"
    return {"present": f"here at {peer.hello.address}, but not started"}.get(peer.state, peer.state)


def someone_is_done(cluster: Cluster) -> bool:
    """A script that has ended somewhere must not begin again, for whatever reason."""
    return any(peer.state == "done" for peer in cluster.peers.values())


def alive(cluster: Cluster, role: str) -> list[str]:
    return sorted(
        (name for name, peer in cluster.peers.items() if peer.alive and peer.hello.role == role), key=node_order
    )


def computing(cluster: Cluster) -> list[Hello]:
    main = cluster.terms.computing_main
    return [peer.hello for name, peer in cluster.peers.items() if peer.alive and (name != "main" or main)]


def sufficient(cluster: Cluster) -> bool:
    """Whether those who are here could begin, if nobody else came."""
    return has(cluster, cluster.terms.least)


def complete(cluster: Cluster) -> bool:
    """Whether nobody is awaited any more."""
    return has(cluster, cluster.wanted)


def has(cluster: Cluster, workers: int) -> bool:
    terms = cluster.terms
    if terms.computing_main and not alive(cluster, "main"):
        return False
    return len(alive(cluster, "worker")) >= workers and len(alive(cluster, "ps")) >= terms.servers


def enough(cluster: Cluster) -> bool:
    terms = cluster.terms
    started = {name for name, peer in cluster.peers.items() if peer.state in ("started", "done")}
    if terms.main_starts and "main" not in started:
        return False
    return len(started - {"main"}) >= terms.least + terms.servers and (cluster.probe_passed or not terms.probed)


def enough_left(cluster: Cluster, left: int) -> bool:
    """Once ready, a cluster of fixed size goes on while it has a worker; before, all that it needs must still come."""
    terms = cluster.terms
    if cluster.ready:
        return left >= (terms.least if terms.elastic else 1)
    lost = len([peer for peer in cluster.peers.values() if peer.state == "lost"])
    return cluster.wanted - lost >= terms.least


def ready_text(cluster: Cluster) -> str:
    count = len([peer for peer in cluster.peers.values() if peer.alive])
    return f"ready: {count} node{'s' if count != 1 else ''}"


def mark(cluster: Cluster, node: str, state: str) -> Cluster:
    return replace(cluster, peers={**cluster.peers, node: replace(cluster.peers[node], state=state)})
