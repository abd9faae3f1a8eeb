"""A server as a process of its own: how it starts, says where it listens, and ends with its parent.

The child prints one line of JSON (`{"endpoint": …, "pid": …}` and what its service adds) and serves until SIGTERM or,
with `--with-parent`, until its standard input closes: it never outlives whoever started it, however that one dies.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import MusterError
from .front import Server


def arguments(name: str) -> argparse.ArgumentParser:
    """What every server's command line takes."""
    parser = argparse.ArgumentParser(prog=f"python -m {name}")
    parser.add_argument("--port", type=int, default=0, help="0: any that is free")
    parser.add_argument("--port-file", type=Path, help="written with the same line of JSON, once the server listens")
    parser.add_argument("--with-parent", action="store_true", help="end when the standard input closes")
    return parser


def serve(server: Server, given: argparse.Namespace, more: Mapping[str, Any] | None = None) -> None:
    """Serves until told to end."""
    done = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: done.set())
    if given.with_parent:
        threading.Thread(target=_watch_parent, args=(done,), daemon=True).start()
    with server:
        _announce({"endpoint": server.endpoint, "pid": os.getpid(), **(more or {})}, given.port_file)
        done.wait()


def _watch_parent(done: threading.Event) -> None:
    while os.read(0, 1 << 16):
        pass
    done.set()


def _announce(said: dict[str, Any], port_file: Path | None) -> None:
    line = json.dumps(said)
    if port_file is not None:
        whole = port_file.with_name(port_file.name + ".part")
        whole.write_text(line + "\n", encoding="utf-8")
        whole.replace(port_file)
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


@contextmanager
def child(module: str, *words: str) -> Iterator[dict[str, Any]]:
    """Runs such a server for the length of a `with`, and gives what it announced."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, "--with-parent", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield _announced(process, module)
    finally:
        _end(process)


def _announced(process: subprocess.Popen[bytes], module: str) -> dict[str, Any]:
    line = process.stdout.readline() if process.stdout else b""
    if not line:
        raise MusterError(f"{module} ended before it listened", "what it printed above says why")
    said: dict[str, Any] = json.loads(line)
    return said


def _end(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
