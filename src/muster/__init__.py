"""Muster runs a training script as one distributed cluster: here, on a cloud, or on a shared pool.

    import muster
    result = muster.run(muster.load("job.yaml")).wait()

This is the one door; every other module is private. Names are loaded when first used, so that a script which only
wants `muster.report` pays for nothing else.
"""

from importlib import import_module

from .report import checkpoint, report

__version__ = "0.1.0"

# Not typing's own: importing that would cost more than all of this module.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from .errors import JobError, MusterError
    from .launching import Run, load, plan, run, runs
    from .spec.job import Job
    from .spec.load import job
    from .targets.base import Plan

_DOOR = {
    "Job": "muster.spec.job",
    "JobError": "muster.errors",
    "MusterError": "muster.errors",
    "Plan": "muster.targets.base",
    "Run": "muster.launching",
    "job": "muster.spec.load",
    "load": "muster.launching",
    "plan": "muster.launching",
    "run": "muster.launching",
    "runs": "muster.launching",
}

__all__ = [
    "Job",
    "JobError",
    "MusterError",
    "Plan",
    "Run",
    "__version__",
    "checkpoint",
    "job",
    "load",
    "plan",
    "report",
    "run",
    "runs",
]


def __getattr__(name):  # type: ignore[no-untyped-def]
    if name not in _DOOR:
        raise AttributeError(f"module 'muster' has no attribute {name!r}")
    return getattr(import_module(_DOOR[name]), name)


def __dir__():  # type: ignore[no-untyped-def]
    return __all__
