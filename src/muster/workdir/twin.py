"""The twin of a run's folder under the id that its cloud gave it: `WORK_DIR/<JOB_OCID>/`, as users of Oracle's ADS
know it. It holds a pointer to the run and a copy of main's file; a stop file in it stops the run.
"""

from __future__ import annotations

import json

from ..errors import StoreError
from .records import MainConfig, dump
from .run import MAIN_CONFIG
from .store import Store

POINTER = "run.json"


def point(store: Store, twin: str, run: str) -> None:
    """Says which run this is. Whoever launched it writes it."""
    store.put(f"{twin}/{POINTER}", json.dumps({"run": run}).encode())


def run_behind(store: Store, twin: str) -> str:
    """The run that is meant; `NotFound` where there is none."""
    found = store.get(f"{twin}/{POINTER}")
    try:
        return str(json.loads(found)["run"])
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{twin}/{POINTER} in the work dir {store.url} is damaged") from error


def show_main(store: Store, twin: str, config: MainConfig) -> None:
    store.put(f"{twin}/{MAIN_CONFIG}", dump(config))


def wants_stop(store: Store, twin: str) -> bool:
    """One list request."""
    return any(entry.key == f"{twin}/stop" for entry in store.list(f"{twin}/stop"))
