"""What the doctor's checks share: the job, its target, and the cloud's answers, each asked for once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..clouds.oci import Session
from ..clouds.oci_services import Reply, Services
from ..errors import CloudError
from ..spec.config import Target
from ..spec.job import Job

PATIENCE = 2.0
"""Seconds that a service which is busy is asked again."""
T = TypeVar("T")


@dataclass(frozen=True)
class Machine:
    """What a node of one role will be: a shape, and how many cores of a flexible one."""

    shape: str
    ocpus: float | None = None


class Once:
    """Answers by question. Who asks what another is asking already waits for the same answer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: dict[object, threading.Lock] = {}
        self._found: dict[object, Any] = {}

    def __call__(self, key: object, ask: Callable[[], T]) -> T:
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            if key not in self._found:
                try:
                    self._found[key] = ask()
                except CloudError as error:
                    self._found[key] = error
            found = self._found[key]
        if isinstance(found, CloudError):
            raise found
        return found  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Facts:
    """All that a check may look at. `cloud` is None where there are no credentials: no such check is made then."""

    job: Job
    target: Target
    machines: Mapping[str, Machine] = field(default_factory=dict)
    """By role."""
    cloud: Services | None = None
    once: Once = field(default_factory=Once, compare=False)

    @property
    def options(self) -> Mapping[str, Any]:
        return self.target.options

    @property
    def session(self) -> Session:
        return self.services.session

    @property
    def services(self) -> Services:
        if self.cloud is None:
            raise CloudError("there are no credentials to ask with")
        return self.cloud

    def option(self, name: str) -> str:
        return str(self.options.get(name) or "")

    @property
    def compartment(self) -> str:
        return self.option("compartment_id")

    @property
    def tenancy(self) -> str:
        """Empty where nothing here says it."""
        from .doctor_account import tenancy

        return self.once("tenancy", lambda: tenancy(self.session, self.options.get("profile")))

    @property
    def nodes(self) -> Mapping[str, int]:
        """How many nodes there are of each role, at most."""
        counts = {"main": 1, "worker": self.job.workers.max, "ps": self.job.ps}
        return {role: count for role, count in counts.items() if count}

    def ask(self, service: str, operation: str, *values: Any, **settings: Any) -> Reply:
        """Asks the cloud, if nobody has yet."""
        key = (service, operation, repr(values), repr(sorted(settings.items())))
        return self.once(key, lambda: self.services.call(service, operation, *values, **settings))

    def items(self, service: str, operation: str, *values: Any, **settings: Any) -> list[Any]:
        """All items of a list."""
        key = ("items", service, operation, repr(values), repr(sorted(settings.items())))
        return self.once(key, lambda: list(self.services.pages(service, operation, *values, **settings)))


def hidden(error: CloudError) -> bool:
    """Whether it is not there, or not for us: the services do not say which."""
    return error.status == 404 or (error.status == 403) or error.code in ("NotAuthorizedOrNotFound", "NotAuthorized")
