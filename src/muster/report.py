"""What a training script may call. No dependency, any Python from 3.8; outside a run every call does nothing."""

import os
import stat
import time


def report(**values):  # type: ignore[no-untyped-def]
    """Tells Muster numbers worth watching: `muster.report(step=10, loss=0.25)`.

    They are kept with the run, and `muster status` shows the last ones of each process.
    """
    _append({"values": {name: float(value) for name, value in values.items()}})  # type: ignore[no-untyped-call]


def checkpoint(path):  # type: ignore[no-untyped-def]
    """Says that the checkpoint at `path`, a file or a folder, is complete and may be brought home now.

    A path that is not absolute is taken from the process's own folder. Where there is none of this name but files
    that begin with it and a dot, as TensorFlow names its own, it is said of them. What is written to afterwards is
    incomplete until it is said again.
    """
    place = os.path.abspath(str(path))  # noqa: PTH100
    # Looked at only where checkpoints belong: elsewhere it could be a whole disk, and training must not wait.
    if not _is_inside(place, os.environ.get("MUSTER_CHECKPOINTS")):  # type: ignore[no-untyped-call]
        _append({"checkpoint": place})  # type: ignore[no-untyped-call]
        return
    for each in [place] if os.path.lexists(place) else _begun_by(place) or [place]:  # type: ignore[no-untyped-call]
        _append({"checkpoint": each, "files": _files(each)})  # type: ignore[no-untyped-call]


def _is_inside(place, folder):  # type: ignore[no-untyped-def]
    return folder and (os.path.realpath(place) + "/").startswith(os.path.realpath(folder) + "/")


def _begun_by(place):  # type: ignore[no-untyped-def]
    folder, name = os.path.split(place)
    try:
        return [os.path.join(folder, each) for each in sorted(os.listdir(folder)) if each.startswith(name + ".")]  # noqa: PTH118, PTH208
    except OSError:
        return []


def _files(place, below="", way=()):  # type: ignore[no-untyped-def]
    """Each file with its size, time and number, which tell later whether it was written to since."""
    here = os.path.join(place, below) if below else place  # noqa: PTH118
    try:
        seen = os.stat(here)  # noqa: PTH116
        if not stat.S_ISDIR(seen.st_mode):
            return [[below, seen.st_size, seen.st_mtime_ns, seen.st_ino]]
        names, real = sorted(os.listdir(here)), os.path.realpath(here)  # noqa: PTH208
    except OSError:
        return []  # it vanished, or is a link to nothing
    if real in way:
        return []  # a link back to where we came from
    inner = [below + "/" + name if below else name for name in names]
    return [one for each in inner for one in _files(place, each, (*way, real))]  # type: ignore[no-untyped-call]


def _append(record):  # type: ignore[no-untyped-def]
    target = os.environ.get("MUSTER_REPORT")
    if not target:
        return
    import json

    process = "rank " + os.environ["RANK"] if "RANK" in os.environ else os.environ.get("MUSTER_PROCESS", "script")
    record.update(time=time.time(), process=process)
    line = json.dumps(record) + "\n"
    # One write to a file opened for appending: lines of several ranks never mix, and training never waits.
    with open(target, "ab", buffering=0) as stream:  # noqa: PTH123
        stream.write(line.encode())
