"""What a training script may call. No dependency, any Python from 3.8; outside a run every call does nothing."""

import os
import time


def report(**values):  # type: ignore[no-untyped-def]
    """Tells Muster numbers worth watching: `muster.report(step=10, loss=0.25)`.

    They are kept with the run, and `muster status` shows the last ones of each process.
    """
    _append({"values": {name: float(value) for name, value in values.items()}})  # type: ignore[no-untyped-call]


def checkpoint(path):  # type: ignore[no-untyped-def]
    """Says that the checkpoint at `path` is complete and may be brought home now."""
    _append({"checkpoint": os.path.abspath(str(path))})  # type: ignore[no-untyped-call]  # noqa: PTH100


def _append(record):  # type: ignore[no-untyped-def]
    target = os.environ.get("MUSTER_REPORT")
    if not target:
        return
    import json

    process = "rank " + os.environ["RANK"] if "RANK" in os.environ else os.environ.get("MUSTER_PROCESS", "script")
    record.update(time=time.time(), process=process)
    line = json.dumps(record) + "\n"
    # One write to a file opened for appending: lines of several ranks never mix, and training never waits.
    with open(target, "a", encoding="utf-8") as stream:  # noqa: PTH123
        stream.write(line)
