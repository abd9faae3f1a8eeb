"""Stands in for Muster in a script's Python that has none: what a script may call, and nothing else."""

import importlib.util as _util
import os as _os

_spec = _util.spec_from_file_location(
    "muster.report", _os.path.join(_os.path.dirname(__file__), "..", "..", "..", "report.py")
)
_module = _util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
report, checkpoint = _module.report, _module.checkpoint
