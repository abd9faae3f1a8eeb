"""Names of runs and of nodes: how they are minted, found and ordered."""

from __future__ import annotations

from ..errors import NotFound, RunNotFound, StoreError
from .store import Store, check_key

JOB = "job.json"

_CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"
_ROLE_ORDER = {"main": 0, "worker": 1, "ps": 2}


def new_run_id(name: str) -> str:
    """A run id that nobody else has: the job's name and 40 random bits, in letters that read clearly."""
    import secrets

    return f"{name}-{''.join(secrets.choice(_CROCKFORD) for _ in range(8))}"


def has_run(store: Store, run: str) -> bool:
    """Whether a run of this id is there: a get of its job, the cheapest request that every store has."""
    try:
        store.get(f"{run}/{JOB}")
    except NotFound:
        return False
    return True


def find_run(store: Store, wish: str) -> str:
    """The id of the run that is called so, or the only one that begins so. One request where the id is whole."""
    if "/" not in wish and wish and has_run(store, wish):
        return wish
    found = [name for name in store.list_names() if wish and name.startswith(wish) and has_run(store, name)]
    if len(found) == 1:
        return found[0]
    if found:
        told = ", ".join(found[:5]) + (" …" if len(found) > 5 else "")
        raise RunNotFound(f"{wish!r} could be any of {told}", "Give more of the id.")
    raise RunNotFound(f"no run is called {wish!r} in {store.url}", f"`muster ps --work-dir {store.url}` lists them.")


def node_order(name: str) -> tuple[int, str, int]:
    """Sorts nodes as people do: main, then worker-2 before worker-10, then ps."""
    role, _, number = name.rpartition("-")
    if not number.isdecimal():
        role, number = name, "0"
    return _ROLE_ORDER.get(role, len(_ROLE_ORDER)), role, int(number)


def check_name(what: str, name: str) -> str:
    """The name of a run or node itself, or an error if it could be a path or no name at all."""
    if "/" in name:
        raise StoreError(f"not the name of a {what}: {name!r}", "A name holds no '/'.")
    return check_key(name)
