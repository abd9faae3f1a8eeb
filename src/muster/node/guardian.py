"""The pair that every node is: a tiny guardian, and the node program as its child.

The guardian does one thing: when the program is gone, however it went, it ends every process the program left.
Each watches the other through a pipe: the program that loses its guardian ends its processes and itself. Only if
both are killed at the same instant can processes stay; those carry the node's mark, and whoever started the node
ends them.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

from . import tree

ENDING_SIGNALS = tuple(
    number
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN
)
"""What asks a node to end. A closed terminal does not where nohup says so."""
_HEARD = (*ENDING_SIGNALS, signal.SIGCHLD)
"""The same, and what tells that a child has ended."""


def guarded(mark: str, program: Callable[[int], int]) -> int:
    """Runs `program(watch)` in a guarded child and returns its exit code.

    `watch` is a file descriptor that becomes readable when the guardian is gone.
    """
    watch, held = os.pipe()
    tree.become_subreaper()
    # The guardian takes signals when it asks for them: one that a handler catches just before a wait begins is lost.
    signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
    # What nobody handles is dropped even while it is blocked: SIGCHLD by some kernels, and SIGINT by all where whoever
    # started us ignores it, as a shell does for what it starts in the background.
    before = {number: signal.signal(number, lambda _number, _frame: None) for number in _HEARD}
    child = os.fork()
    if child == 0:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is signal.SIG_IGN else handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HEARD)
        os.close(held)
        tree.become_subreaper()
        _run_and_exit(program, watch)
    os.close(watch)
    return _guard(mark, child)


def _run_and_exit(program: Callable[[int], int], watch: int) -> None:
    code = 125
    try:
        code = program(watch)
    except SystemExit as wish:
        code = wish.code if isinstance(wish.code, int) else 1
    except BaseException:  # noqa: BLE001 - the child must never return into its parent's stack
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _guard(mark: str, child: int) -> int:
    status: int | None = None
    while status is None:
        number = signal.sigwait(_HEARD)
        if number == signal.SIGCHLD:
            status = _status_of(child)
        else:
            # What is asked of the node is asked of the program; the guardian outlives it.
            tree.signal_all((child,), signal.Signals(number))
    left = tree.kill(mark)
    tree.reap()
    code = os.waitstatus_to_exitcode(status)
    if left:
        print(f"muster: processes {sorted(left)} could not be ended", file=sys.stderr)  # noqa: T201
    return code if code >= 0 else 128 - code


def _status_of(child: int) -> int | None:
    """Takes ended children off the process table. The status of the program, if it is among them."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == child:
            found = status
