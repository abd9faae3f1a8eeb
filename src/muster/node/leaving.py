"""The last a node does: it brings home what its processes left, and tidies up after itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..workdir.arriving import ArrivingStore
from ..workdir.home import keep_node_folder, tidy_node_folder
from .surroundings import sync_folder

if TYPE_CHECKING:
    from .program import Node


class Leaving:
    """What did not arrive stays where it is, as long as the machine does, and its user is told where."""

    def __init__(self, node: Node, log: ArrivingStore) -> None:
        """`log` is the store that the node's log goes to."""
        self._node, self._log = node, log
        self._to: ArrivingStore | None = None

    async def ship(self) -> None:
        """It must not keep the node, which costs money, from leaving: so it raises nothing."""
        node, folder = self._node, self._node.settings.folder
        if any(place.is_relative_to(folder) for place in self._made()):
            # From now on: one that is killed meanwhile has not brought all home either.
            await asyncio.to_thread(keep_node_folder, folder, True)
        if node.ground is not None and await self._brought(node.homebound.finish, node.homebound.arriving):
            await asyncio.to_thread(keep_node_folder, folder, False)
        await self._brought(partial(node.logs.finish, lambda: self._log.arrived), self._log)
        await asyncio.to_thread(tidy_node_folder, folder)
        self._to = None

    def gets_on(self) -> bool:
        """Whether something arrived since this was last asked, or is on its way."""
        return self._to is not None and self._to.gets_on()

    def break_off(self) -> None:
        """The node leaves now, done or not."""
        if self._to:
            self._say("nothing arrived any more")

    async def _brought(self, finish: Callable[[], Awaitable[None]], store: ArrivingStore) -> bool:
        self._to = store
        try:
            await finish()
        except Exception as error:  # noqa: BLE001 - any error here would leave the node waiting for ever
            self._say(f"{type(error).__name__}: {error}")
            return False
        return True

    def _say(self, why: str) -> None:
        places = " and ".join(map(str, self._made())) if self._to is not self._log else ""
        self._node.say(f"not all could be brought home: {why}{f'; it stays in {places}' if places else ''}")

    def _made(self) -> list[Path]:
        """The folders with what the script made for us to bring home."""
        ground, job = self._node.ground, self._node.job
        if ground is None:
            return []
        checkpoints = ground.code / job.checkpoints if job.checkpoints else None
        return [folder for folder in (sync_folder(job, ground.code), checkpoints) if folder and folder.exists()]
