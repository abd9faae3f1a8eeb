"""The targets by kind, each imported only when it is chosen."""

from __future__ import annotations

from importlib import import_module

from ..errors import ConfigError, Problem
from ..spec.config import Target as TargetConfig
from .base import Target

_KINDS = {"local": "muster.targets.local:Local", "oci": "muster.targets.oci:Oci"}


def target(config: TargetConfig) -> Target:
    dotted = _KINDS.get(config.kind)
    if dotted is None:
        raise ConfigError(
            [
                Problem(
                    f"targets of kind {config.kind!r} are not in this version",
                    f"There are: {', '.join(_KINDS)}.",
                )
            ]
        )
    module, _, attribute = dotted.partition(":")
    made: Target = getattr(import_module(module), attribute)(config)
    return made
