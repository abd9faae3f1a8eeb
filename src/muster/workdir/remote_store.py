"""A work dir on a file system elsewhere: what all of them have in common, over `remote_files`."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TypeVar

from ..errors import AccessDenied, AlreadyExists, NotFound, StoreBusy, StoreError
from .again import patiently
from .bucket import PATIENCE
from .escapes import escaped, unescaped
from .files import appearing
from .folder import SCRATCH
from .remote_files import Found, RemoteFiles
from .store import Capabilities, Entry, check_key, is_text, may_begin_keys, names_below

T = TypeVar("T")

PARALLEL = 8
_BROKEN = (ConnectionError, TimeoutError, EOFError)
_BROKEN_ELSEWHERE = frozenset({"SSHException", "NoValidConnectionsError", "gaierror", "ChannelException"})
_ANSWERS = (FileNotFoundError, FileExistsError, PermissionError, NotADirectoryError, IsADirectoryError)
"""Errors that a file system tells, and that say nothing of the connection to it."""


class RemoteStore:
    """A work dir below a path of a file system. Connections are made when they are needed, and kept."""

    def __init__(
        self, url: str, root: str, connect: Callable[[], RemoteFiles], can: Capabilities, patience: float = PATIENCE
    ) -> None:
        self._url, self._root, self._can = url, root, can
        self._connect = connect
        self._patience = patience
        self._idle: list[RemoteFiles] = []
        self._places = threading.BoundedSemaphore(PARALLEL)

    @property
    def url(self) -> str:
        return self._url

    @property
    def capabilities(self) -> Capabilities:
        return self._can

    def create(self, key: str, data: bytes) -> None:
        """Where a connection broke, a file that is there with this content is taken for our own."""
        path = self._path(key)
        attempts = 0

        def attempt() -> None:
            nonlocal attempts
            attempts += 1
            with self._files("create", key) as files:
                try:
                    files.create(path, io.BytesIO(data))
                except FileExistsError:
                    if attempts == 1 or files.read(path, 0, len(data) + 1) != data:
                        raise

        patiently(attempt, self._patience)

    def put(self, key: str, data: bytes) -> None:
        path = self._path(key)
        self._ask("write", key, lambda files: files.put(path, io.BytesIO(data)))

    def put_file(self, key: str, path: Path) -> None:
        target = self._path(key)

        def send(files: RemoteFiles) -> None:
            with _readable(path) as source:
                files.put(target, source)

        self._ask("write", key, send)

    def get(self, key: str) -> bytes:
        path = self._path(key)

        def fetch(files: RemoteFiles) -> bytes:
            content = io.BytesIO()
            files.copy(path, content)
            return content.getvalue()

        return self._ask("read", key, fetch)

    def get_range(self, key: str, start: int, size: int) -> bytes:
        path = self._path(key)
        return self._ask("read", key, lambda files: files.read(path, start, size)) if size > 0 else b""

    def get_file(self, key: str, path: Path) -> None:
        source = self._path(key)

        def fetch(files: RemoteFiles) -> None:
            with _writable(path) as target:
                files.copy(source, target)

        self._ask("read", key, fetch)

    def list(self, prefix: str = "", after: str = "") -> Iterator[Entry]:
        if not may_begin_keys(prefix):
            return iter(())
        folder, slash, start = prefix.rpartition("/")
        return self._walk(folder + slash, start, after)

    def list_names(self, prefix: str = "") -> Iterator[str]:
        """A folder that was left empty is shown as well."""
        if not may_begin_keys(names_below(prefix)):
            return iter(())
        return iter(sorted(found.name for found in self._children(prefix)))

    def delete(self, key: str) -> None:
        path = self._path(key)
        self._ask("delete", key, lambda files: files.remove(path))

    def delete_all(self, keys: Iterable[str]) -> None:
        from concurrent.futures import ThreadPoolExecutor

        checked = [check_key(key) for key in keys]
        if not checked:
            return
        with ThreadPoolExecutor(PARALLEL) as pool:
            for _ in pool.map(self.delete, checked):
                pass

    # --- inside ------------------------------------------------------------------------------------------

    def _path(self, key: str) -> str:
        if check_key(key).split("/", 1)[0] == SCRATCH:
            raise StoreError(f"not a key of a work dir: {key!r}", f"{SCRATCH!r} is kept for unfinished files.")
        return f"{self._root}/{escaped(key)}"

    def _walk(self, above: str, start: str, after: str) -> Iterator[Entry]:
        # Keys sort as wholes: 'a.txt' comes before 'a/b', because '.' comes before '/'.
        found = {f"{one.name}/" if one.is_folder else one.name: one for one in self._children(above)}
        for name in sorted(found):
            key, one = above + name, found[name]
            if not name.startswith(start):
                continue
            if not one.is_folder:
                if key > after:
                    yield Entry(key, one.size, one.modified, one.tag)
            elif key > after or after.startswith(key):
                yield from self._walk(key, "", after)

    def _children(self, above: str) -> Iterable[Found]:
        folder = f"{self._root}/{escaped(above)}".rstrip("/")
        found = self._ask("list", above, lambda files: [*files.children(folder)])
        seen = (one._replace(name=unescaped(one.name)) for one in found if is_text(one.name))
        return [one for one in seen if above or one.name != SCRATCH]

    def _ask(self, doing: str, key: str, ask: Callable[[RemoteFiles], T]) -> T:
        def attempt() -> T:
            with self._files(doing, key) as files:
                return ask(files)

        return patiently(attempt, self._patience)

    @contextmanager
    def _files(self, doing: str, key: str) -> Iterator[RemoteFiles]:
        """A connection that nobody else uses meanwhile. One that breaks is not used again."""
        with self._places, self._explained(doing, key):
            try:
                files = self._idle.pop()
            except IndexError:
                files = self._connect()
            try:
                yield files
            except (StoreError, *_ANSWERS):
                self._idle.append(files)
                raise
            except BaseException:
                files.close()
                raise
            self._idle.append(files)

    @contextmanager
    def _explained(self, doing: str, key: str) -> Iterator[None]:
        place = f"{key!r} in the work dir {self.url}"
        try:
            yield
        except StoreError:
            raise
        except FileNotFoundError:
            raise NotFound(f"there is no {place}") from None
        except FileExistsError:
            if doing != "create":
                raise StoreError(f"cannot {doing} {place}: a file stands where a folder is needed") from None
            raise AlreadyExists(f"{place} is there already") from None
        except PermissionError as error:
            raise AccessDenied(
                f"may not {doing} {place}", "Give this user the right to read and write there."
            ) from error
        except Exception as error:
            raise _meaning(error, f"cannot {doing} {place}") from error


def _meaning(error: Exception, what: str) -> StoreError:
    """By name, because the packages that these come from are loaded only where they are used."""
    kind = type(error).__name__
    text = str(error).strip()
    told = f"{what}: {text.splitlines()[0] if text else kind}"
    if kind in ("BadHostKeyException", "SSHException") and ("known_hosts" in text or "host key" in text.lower()):
        return AccessDenied(told, "Connect by hand once (`ssh USER@HOST`), and compare the key that it shows.")
    if "No authentication methods" in text or kind in (
        "AuthenticationException",
        "BadAuthenticationType",
        "PasswordRequiredException",
    ):
        return AccessDenied(told, "Log in by hand once (`ssh USER@HOST`): keys come from ~/.ssh and from ssh-agent.")
    if isinstance(error, NotImplementedError):
        return StoreError(told, "This kind of file system cannot be written to: choose another work dir.")
    if isinstance(error, _BROKEN) or kind in _BROKEN_ELSEWHERE or "Socket is closed" in text:
        return StoreBusy(told)
    return StoreError(told)


@contextmanager
def _readable(path: Path) -> Iterator[BinaryIO]:
    try:
        source = path.open("rb")
    except FileNotFoundError:
        raise NotFound(f"there is no file {path} to put into the work dir") from None
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}") from error
    with source:
        yield source


@contextmanager
def _writable(path: Path) -> Iterator[BinaryIO]:
    opened = False
    try:
        with appearing(path) as descriptor, open(descriptor, "wb", closefd=False) as target:
            opened = True
            yield target
    except OSError as error:
        if opened:
            raise
        raise StoreError(f"cannot write {path}: {error.strerror}") from error
