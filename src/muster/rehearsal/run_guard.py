"""The first process of a rehearsed machine: it starts what the machine runs, and ends all of it when it must.

Its standard input is the hand of the cloud: `T` asks the main process to end, `K` kills everything, and the end of
the input kills everything too. So a machine never outlives its cloud, even one that was killed with -9. When the main
process ends, whatever it left running is killed, as with a container. The exit code is the main process's own; one
that was killed by a signal has 128 and the signal's number, one that cannot be started 127 or 126.

It is a script, so that it starts fast and takes nothing from the environment that it hands on:
`python -I run_guard.py ARGV…`
"""

from __future__ import annotations

import os
import select
import signal
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from types import ModuleType

NOBODY = "-"
"""A mark that no process carries: only descent counts here."""
DEAF_TO = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_PR_SET_PDEATHSIG = 1


def load_tree() -> ModuleType:
    """`muster.node.tree`, without the packages above it."""
    # pathlib would take longer to load than all else that is loaded here.
    muster = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    path = os.path.join(muster, "node", "tree.py")  # noqa: PTH118
    spec = spec_from_loader("tree", SourceFileLoader("tree", path))
    if spec is None or spec.loader is None:
        raise ImportError(path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def start(argv: list[str]) -> int:
    """The main process, in a session of its own. It dies with us, however we die."""
    # A wish to end that comes at once must wait until the process can hear it.
    signal.pthread_sigmask(signal.SIG_BLOCK, DEAF_TO)
    child = os.fork()
    if child:
        for number in DEAF_TO:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, DEAF_TO)
        return child
    os.setsid()
    _die_with_parent()
    for number in (*DEAF_TO, signal.SIGCHLD, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, DEAF_TO)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    try:
        os.execvp(argv[0], argv)  # noqa: S606 - what the job names, as one argv
    except OSError as reason:
        os.write(2, f"{argv[0]}: {reason.strerror}\n".encode())
        os._exit(127 if isinstance(reason, FileNotFoundError) else 126)


def _die_with_parent() -> None:
    if sys.platform.startswith("linux"):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def watch(child: int, woken: int, tree: ModuleType) -> int:
    """Until the main process has ended; its exit code."""
    hands = [0, woken]
    while (code := _reaped(child)) is None:
        ready = select.select(hands, [], [])[0]
        if woken in ready:
            os.read(woken, 512)
        if 0 in ready:
            said = os.read(0, 64)
            if not said or b"K" in said:
                hands = [woken]
                tree.kill(NOBODY)
            else:
                os.kill(child, signal.SIGTERM)
    return code


def _reaped(child: int) -> int | None:
    """Takes all that has ended off the process table; the exit code of the main process if it is among it."""
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if not pid:
            return code
        if pid == child:
            number = os.waitstatus_to_exitcode(status)
            code = number if number >= 0 else 128 - number


def main() -> int:
    tree = load_tree()
    tree.become_subreaper()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    child = start(sys.argv[1:])
    # The output ends with the machine's own processes, not with us.
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    code = watch(child, woken, tree)
    tree.kill(NOBODY)
    return code


if __name__ == "__main__":
    sys.exit(main())
