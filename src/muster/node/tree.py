"""Finding and ending every process of a node, however deep and in whatever session it hides.

A process belongs to a node if it descends from the node program or carries the node's mark in its environment. The
mark finds what was orphaned when its parent was killed; the descent finds what cleared its environment.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable

MARK = "MUSTER_MARK"
"""The environment variable that every process of a node carries: `<run>/<node>/<start>`. The node program has it not.

Asked for as `<run>/<node>/` it stands for every start of the node.
"""

_PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> None:
    """From now on orphans among our descendants become our children, where the kernel can do that (Linux)."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def members(mark: str, descent: bool = True) -> set[int]:
    """The living processes of the node marked `mark`, and with `descent` all that descend from us."""
    root = os.getpid() if descent else None
    found = _linux(mark, root) if sys.platform.startswith("linux") else _elsewhere(mark, root)
    return found - {os.getpid()}


def signal_all(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            pass  # it has ended meanwhile, or its number is somebody else's by now


def signal_group(leader: int, number: signal.Signals) -> None:
    """To a process and all that stayed in its session's first group."""
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):
        pass  # it has ended meanwhile


def kill(mark: str, descent: bool = True, within: float = 10.0) -> set[int]:
    """Kills the node's processes until none is left. Returns those that could not be ended in time."""
    deadline = time.monotonic() + within
    while left := members(mark, descent):
        signal_all(left, signal.SIGKILL)
        if time.monotonic() > deadline:
            return left
        # The kernel takes a moment, and of processes that are not our children there is no event to wait for.
        time.sleep(0.002)
    return set()


def reap(known: Iterable[int] = ()) -> None:
    """Takes the ended children that we did not start ourselves (orphans given to us) off the process table."""
    own = set(known)
    while True:
        try:
            info = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if info is None or info.si_pid in own or _of_our_session(info.si_pid):
            return
        os.waitpid(info.si_pid, os.WNOHANG)


def _of_our_session(pid: int) -> bool:
    """A helper such as an installer, which whoever started it waits for. Orphans come from sessions of their own."""
    try:
        return os.getsid(pid) == os.getsid(0)
    except OSError:
        return False


def _linux(mark: str, root: int | None) -> set[int]:
    needle = f"{MARK}={mark}".encode() + (b"" if mark.endswith("/") else b"\0")
    parents: dict[int, int] = {}
    marked: set[int] = set()
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        pid = int(entry.name)
        try:
            stat = _read(f"/proc/{pid}/stat")
            state, parent = stat[stat.rindex(b")") + 2 :].split(None, 2)[:2]
            if state in (b"Z", b"X"):
                continue
            parents[pid] = int(parent)
            if needle in _read(f"/proc/{pid}/environ") + b"\0":
                marked.add(pid)
        except (OSError, ValueError):
            continue  # it ended while we looked, or belongs to another user
    return marked | _descendants(parents, marked if root is None else {root, *marked})


def _read(path: str) -> bytes:
    # Bare calls: this is done for every process there is, several times at the end of every run.
    number = os.open(path, os.O_RDONLY)
    try:
        data = chunk = os.read(number, 1 << 16)
        while chunk:
            chunk = os.read(number, 1 << 16)
            data += chunk
        return data
    finally:
        os.close(number)


def _descendants(parents: dict[int, int], roots: set[int]) -> set[int]:
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    queue = list(roots)
    while queue:
        for child in children.get(queue.pop(), ()):
            if child not in found:
                found.add(child)
                queue.append(child)
    return found


def _elsewhere(mark: str, root: int | None) -> set[int]:
    import psutil

    found = {child.pid for child in psutil.Process(root).children(recursive=True)} if root else set()
    for process in psutil.process_iter(["pid"]):
        try:
            carried = process.environ().get(MARK, "")
            found_mark = carried.startswith(mark) if mark.endswith("/") else carried == mark
            if found_mark and process.status() != psutil.STATUS_ZOMBIE:
                found.add(process.pid)
        except psutil.Error:
            continue
    return found
