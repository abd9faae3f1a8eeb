"""Which frameworks there are: four by name, the rest by entry point, each imported only when a job asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from ..errors import MusterError
from .base import Framework

if TYPE_CHECKING:
    from ..spec.facts import Facts

_BUILT_IN = {
    "dask": "muster.frameworks.dask:Dask",
    "horovod": "muster.frameworks.horovod:Horovod",
    "pytorch": "muster.frameworks.pytorch:PyTorch",
    "tensorflow": "muster.frameworks.tensorflow:TensorFlow",
}
_OWN = {"muster-probe": "muster.frameworks.probe:Probe"}
"""Not offered to jobs."""


def _plugins() -> dict[str, str]:
    # Costs as much as an interpreter's start, so it is asked only when a name is not built in.
    from importlib.metadata import entry_points

    return {point.name: point.value for point in entry_points(group="muster.frameworks")}


def names() -> Sequence[str]:
    return sorted({*_BUILT_IN, *_plugins()})


def framework(name: str) -> Framework:
    """The framework of this name, or an error that lists those there are."""
    dotted = _BUILT_IN.get(name) or _OWN.get(name) or _plugins().get(name)
    if dotted is None:
        raise MusterError(f"no framework is called {name!r}", f"There are: {', '.join(names())}.")
    made = _load(name, dotted)
    if not isinstance(made, Framework):
        raise MusterError(f"{dotted} is not a muster.frameworks.base.Framework", "Mend the plugin that provides it.")
    return made


def _load(name: str, dotted: str) -> object:
    module, _, attribute = dotted.partition(":")
    try:
        return getattr(import_module(module), attribute)()
    except Exception as error:
        told = f"framework {name} ({dotted}) cannot be loaded: {type(error).__name__}: {error}"
        raise MusterError(told, "Mend or uninstall the plugin that provides it.") from error


class Known:
    """The frameworks as the job's checks see them."""

    def names(self) -> Sequence[str]:
        return names()

    def facts(self, name: str) -> Facts | None:
        if name not in _BUILT_IN and name not in _plugins():
            return None
        from ..spec.facts import Facts

        found = framework(name)
        return Facts(found.elastic, found.roles, found.options(), found.objections)
