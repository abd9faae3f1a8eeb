"""Files on an sftp server: through fsspec's, whose connection is asked for what fsspec does not offer.

Content is written to `.muster-tmp` and then renamed. The protocol has two renames: one that replaces, and one that
refuses a name that is taken, which OpenSSH does by a hard link, so that of many exactly one wins.
"""

from __future__ import annotations

import errno
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, BinaryIO

from .folder import SCRATCH, STALE_SECONDS
from .remote_files import Found

_ATTEMPTS = 20
_SECONDS = 60.0
"""How long an answer of the server may take."""


def connect(host: str, **settings: Any) -> Any:
    """fsspec's file system, which accepts no server whose key this machine does not know."""
    import paramiko
    from fsspec.implementations.sftp import SFTPFileSystem

    class Sftp(SFTPFileSystem):  # type: ignore[misc, unused-ignore]
        protocol = "sftp"

        def _connect(self) -> None:
            self.client = paramiko.SSHClient()
            self.client.load_system_host_keys()
            with suppress(OSError):
                self.client.load_system_host_keys("/etc/ssh/ssh_known_hosts")
            self.client.set_missing_host_key_policy(paramiko.RejectPolicy())
            self.client.connect(self.host, **self.ssh_kwargs)
            self.ftp = self.client.open_sftp()
            self.ftp.get_channel().settimeout(_SECONDS)

    return Sftp(host, timeout=10, banner_timeout=30, auth_timeout=30, skip_instance_cache=True, **settings)


class SftpFiles:
    """One connection to a server."""

    def __init__(self, files: Any, root: str) -> None:
        self._client, self._ftp = files.client, files.ftp
        self._root, self._scratch = root, f"{root}/{SCRATCH}"
        self._swept = False

    def put(self, path: str, source: BinaryIO) -> None:
        self._place(path, source, self._ftp.posix_rename)

    def create(self, path: str, source: BinaryIO) -> None:
        if self._mode(path):
            raise FileExistsError(path)
        self._place(path, source, self._rename)

    def read(self, path: str, start: int, size: int) -> bytes:
        with self._open(path) as file:
            left = max(0, min(size, file.stat().st_size - start))
            found: bytes = b"".join(file.readv([(start, left)])) if left else b""
            return found

    def copy(self, path: str, target: BinaryIO) -> None:
        with self._open(path) as file:
            # Not more at once than OpenSSH's own client asks for.
            file.prefetch(file.stat().st_size, 64)
            while piece := file.read(1 << 15):
                target.write(piece)

    def children(self, folder: str) -> Iterator[Found]:
        try:
            found = self._ftp.listdir_attr(folder)
        except FileNotFoundError:
            return
        for entry in found:
            seen = self._followed(f"{folder}/{entry.filename}") if stat.S_ISLNK(entry.st_mode or 0) else entry
            if seen is None or (folder == self._root and entry.filename == SCRATCH):
                continue
            if stat.S_ISDIR(seen.st_mode or 0) or stat.S_ISREG(seen.st_mode or 0):
                yield Found(entry.filename, stat.S_ISDIR(seen.st_mode), seen.st_size or 0, float(seen.st_mtime or 0))

    def remove(self, path: str) -> None:
        """Folders that become empty go too: in a bucket they would not be there."""
        try:
            self._ftp.remove(path)
        except OSError:
            if stat.S_ISREG(self._mode(path)):
                raise
            return
        folder = path.rpartition("/")[0]
        with suppress(OSError):  # it is not empty, or another has taken it away
            while len(folder) > len(self._root):
                self._ftp.rmdir(folder)
                folder = folder.rpartition("/")[0]

    def close(self) -> None:
        self._client.close()

    # --- inside ------------------------------------------------------------------------------------------

    def _open(self, path: str) -> Any:
        if not stat.S_ISREG(self._mode(path)):
            raise FileNotFoundError(errno.ENOENT, "there is no such file", path)
        return self._ftp.open(path, "rb")

    def _mode(self, path: str) -> int:
        """What kind of thing is there; 0 for nothing."""
        try:
            return int(self._ftp.stat(path).st_mode or 0)
        except FileNotFoundError:
            return 0

    def _followed(self, path: str) -> Any:
        """What a link to a file leads to."""
        try:
            found = self._ftp.stat(path)
        except OSError:
            return None
        return found if stat.S_ISREG(found.st_mode or 0) else None

    def _place(self, path: str, source: BinaryIO, rename: Callable[[str, str], None]) -> None:
        self._sweep()
        temporary = f"{self._scratch}/{secrets.token_hex(12)}"
        self._in_folder(temporary, lambda: self._ftp.putfo(source, temporary))
        try:
            self._in_folder(path, lambda: rename(temporary, path))
        except BaseException:
            with suppress(Exception):
                self._ftp.remove(temporary)
            raise

    def _rename(self, temporary: str, path: str) -> None:
        try:
            self._ftp.rename(temporary, path)
        except FileNotFoundError:
            raise
        except OSError:
            if self._mode(path):
                raise FileExistsError(path) from None
            raise

    def _in_folder(self, path: str, act: Callable[[], object]) -> None:
        """More than once, because one who deletes the last file of a folder takes the folder away as well."""
        for _ in range(_ATTEMPTS):
            try:
                act()
                return
            except FileNotFoundError:
                self._make_folder(path.rpartition("/")[0])
        act()

    def _make_folder(self, folder: str) -> None:
        try:
            self._ftp.mkdir(folder, 0o700)
        except FileNotFoundError:
            if folder.rpartition("/")[0]:
                self._make_folder(folder.rpartition("/")[0])
                with suppress(OSError):
                    self._ftp.mkdir(folder, 0o700)
        except PermissionError:
            raise
        except OSError:
            # It was there, and may have been taken away since: whoever needs it tries again.
            found = self._mode(folder)
            if found and not stat.S_ISDIR(found):
                raise NotADirectoryError(errno.ENOTDIR, "a file stands where a folder is needed", folder) from None

    def _sweep(self) -> None:
        """Takes away, once, what killed writers left behind."""
        if self._swept:
            return
        self._swept = True
        with suppress(OSError):
            for entry in self._ftp.listdir_attr(self._scratch):
                if time.time() - (entry.st_mtime or 0) > STALE_SECONDS:
                    self._ftp.remove(f"{self._scratch}/{entry.filename}")
