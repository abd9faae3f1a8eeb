"""The two sides of the control channel as the node program sees them: main's own, and a worker's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ..workdir.records import Verdict
from .messages import ToMain

if TYPE_CHECKING:
    from .program import Node


class Side(Protocol):
    """How a node deals with the others."""

    @property
    def ready(self) -> bool:
        """Whether the cluster has been ready, as far as is known here."""

    @property
    def done(self) -> bool:
        """Whether this node's part of the script has ended well."""

    async def open(self, node: Node) -> None:
        """Before the node's life begins."""

    async def meet(self) -> None:
        """Publishes main, or finds it."""

    def tell(self, message: ToMain) -> None:
        """To main."""

    def show(self, message: dict[str, Any]) -> None:
        """To whoever watches."""

    def stop(self, detail: str) -> None:
        """Somebody wants an end."""

    async def conduct(self) -> dict[str, str]:
        """What a launcher of the framework's own finds main by, which starts processes for it."""

    def tick(self) -> None:
        """Time has passed."""

    async def close(self, verdict: Verdict | None) -> int:
        """After the node's life: the last words, and the exit code."""
