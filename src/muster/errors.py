"""Every error a user of Muster can meet.

::

    MusterError                     anything Muster tells its user
    ├── JobError                    the job has mistakes; all of them are listed
    ├── ConfigError                 muster.toml has mistakes, or names no such target
    ├── CodeError                   the code could not be bundled or unpacked
    ├── PythonError                 the script's Python is missing, or lacks the framework
    ├── LaunchError                 the target refused a node; all of the launch was taken back
    ├── RunNotFound                 no run has this id
    ├── ScaleError                  the run cannot have this size
    ├── RemovalError                the run cannot be deleted now, or nobody said that it may be
    ├── ProtocolError               a launcher and a node, or two nodes, do not fit each other
    ├── ChannelError                the control channel was refused or spoke out of turn
    ├── CloudError                  a cloud refused a call, or did not answer it
    ├── NodeError                   a node cannot take part: its environment is wrong or its name is taken
    └── StoreError                  the work dir could not be read or written
        ├── AlreadyExists           a create-only put found the key taken
        ├── NotFound                there is nothing under this key
        ├── ObjectChanged           it was written anew while it was read
        ├── StoreBusy               it does not answer, or not now: another attempt may do
        └── AccessDenied            it knows no such user, or lets this one not do that

A message says what happened, where, what was expected, and what mends it. None of these is shown with a
traceback: a traceback means a bug in Muster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One mistake in a file: where it stands, what is wrong, and what mends it."""

    message: str
    fix: str = ""
    field: str = ""
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line) if part)
        head = ": ".join(part for part in (place, self.field, self.message) if part)
        return f"{head}\n    {self.fix}" if self.fix else head


class MusterError(Exception):
    """Anything Muster tells its user. `fix` is what they can do about it."""

    exit_code = 125

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.message}\n    {self.fix}" if self.fix else self.message


class _Mistakes(MusterError):
    """An error that lists every mistake found, so that one edit mends them all."""

    exit_code = 2

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class JobError(_Mistakes):
    """The job has mistakes; all of them are listed."""


class ConfigError(_Mistakes):
    """`muster.toml` has mistakes, or names no such target."""


class CodeError(MusterError):
    """The code could not be bundled or unpacked."""


class PythonError(MusterError):
    """The script's Python is missing, or lacks the framework."""


class LaunchError(MusterError):
    """The target refused a node; all of the launch was taken back."""

    exit_code = 120


class RunNotFound(MusterError):
    """No run has this id."""

    exit_code = 2


class ScaleError(MusterError):
    """The run cannot have this size."""

    exit_code = 2


class RemovalError(MusterError):
    """The run cannot be deleted now, or nobody said that it may be."""

    exit_code = 2


class ProtocolError(MusterError):
    """A launcher and a node, or two nodes, do not fit each other."""


class ChannelError(MusterError):
    """The control channel was refused or spoke out of turn."""


class CloudError(MusterError):
    """A cloud refused a call, or did not answer it."""

    exit_code = 120

    def __init__(
        self, message: str, fix: str = "", *, status: int = 0, code: str = "", told: str = "", request: str = ""
    ) -> None:
        super().__init__(message, fix)
        self.status = status
        """What HTTP calls it; 0 where no answer came."""
        self.code = code
        """What the service calls it, such as `LimitExceeded`."""
        self.told = told
        """The service's own words."""
        self.request = request
        """The id by which the cloud's support finds the request."""


class NodeError(MusterError):
    """A node cannot take part: its environment is wrong or its name is taken."""


class StoreError(MusterError):
    """The work dir could not be read or written."""


class AlreadyExists(StoreError):
    """A create-only put found the key taken."""


class NotFound(StoreError):
    """There is nothing under this key."""


class ObjectChanged(StoreError):
    """It was written anew while it was read."""


class StoreBusy(StoreError):
    """It does not answer, or not now: another attempt may do."""


class AccessDenied(StoreError):
    """It knows no such user, or lets this one not do that."""
