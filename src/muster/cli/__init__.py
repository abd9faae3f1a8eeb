"""The command `muster`: one file per verb, each loaded only when its verb is used."""

from .main import main

__all__ = ["main"]
