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


def guarded(mark: str, program: Callable[[int], int]) -> int:
    """Runs `program(watch)` in a guarded child and returns its exit code.

    `watch` is a file descriptor that becomes readable when the guardian is gone.
    """
    watch, held = os.pipe()
    tree.become_subreaper()
    child = os.fork()
    if child == 0:
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
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # What is asked of the node is asked of the program; the guardian outlives it.
        signal.signal(number, lambda number, _frame: tree.signal_all((child,), signal.Signals(number)))
    while True:
        pid, status = os.wait()
        if pid == child:
            break
    left = tree.kill(mark)
    tree.reap()
    code = os.waitstatus_to_exitcode(status)
    if left:
        print(f"muster: processes {sorted(left)} could not be ended", file=sys.stderr)  # noqa: T201
    return code if code >= 0 else 128 - code
