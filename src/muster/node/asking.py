"""Asking the work dir without waiting for it: each request in a thread of its own.

Not in the threads of the event loop, of which there are few: a work dir that hangs would hold them all, and whatever
else needs one would hang with it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from ..errors import StoreBusy

T = TypeVar("T")
Call = Callable[[], None]

_IDLE = 10.0
"""Seconds that a thread waits for another request."""


def begin(call: Callable[..., T], *args: Any) -> Future[T]:
    """Starts a call in a thread that nobody has to wait for, also not when the program ends."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()

    def carry_out() -> None:
        try:
            answer = call(*args)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is for whoever asked
            future.set_exception(error)
        else:
            future.set_result(answer)

    try:
        _threads.do(carry_out)
    except RuntimeError as error:
        future.set_exception(StoreBusy(f"the work dir cannot be asked now: {error}"))
    return future


async def ask(call: Callable[..., T], *args: Any) -> T:
    """The answer. Whoever no longer waits for it does not stop the call."""
    return await asyncio.wrap_future(begin(call, *args))


class _Threads:
    """As many as there are requests at once; each waits a little for another one to carry out."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[SimpleQueue[Call]] = []

    def do(self, call: Call) -> None:
        with self._lock:
            queue = self._idle.pop() if self._idle else None
        if queue is not None:
            queue.put(call)
        else:
            threading.Thread(target=self._work, args=(call,), name="muster-asks", daemon=True).start()

    def _work(self, call: Call) -> None:
        queue: SimpleQueue[Call] = SimpleQueue()
        while True:
            call()
            del call  # else it would keep what it holds alive while we wait
            with self._lock:
                self._idle.append(queue)
            try:
                call = queue.get(timeout=_IDLE)
            except Empty:
                with self._lock:
                    if queue in self._idle:
                        self._idle.remove(queue)
                        return
                call = queue.get()  # it came just then


_threads = _Threads()
