"""Runs torchrun in the script's Python, and tells how each failed rank ended, which torchrun turns into a mere 1."""

import os
import signal
import sys

# The folder of this file comes first otherwise, and its modules would be taken for packages of the same names.
sys.path[:] = [path for path in sys.path if path != os.path.dirname(os.path.abspath(__file__))]  # noqa: PTH100, PTH120

# When a peer is gone, torch's libraries fill pages with warnings that bury the failed rank's own words.
_QUIET = "TORCH_CPP_LOG_LEVEL" not in os.environ
if _QUIET:
    os.environ["TORCH_CPP_LOG_LEVEL"] = "ERROR"

from torch.distributed.elastic.multiprocessing import SignalException  # noqa: E402
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError  # noqa: E402
from torch.distributed.run import parse_args, run  # noqa: E402


def shown(code):
    """An exit code as a shell shows it."""
    return code if code > 0 else 128 - code


def tell(failure):
    """Says in both of a rank's pipes how it ended, so that of several failed ranks each is known by its own code."""
    for stream in ("out", "err"):
        path = os.path.join(os.environ["MUSTER_STREAMS"], "%s-%d" % (stream, failure.local_rank))  # noqa: UP031, PTH118
        pipe = os.open(path, os.O_WRONLY)
        os.write(pipe, b"\x1emuster exit %d\n" % shown(failure.exitcode))
        os.close(pipe)


if __name__ == "__main__":
    if _QUIET:
        del os.environ["TORCH_CPP_LOG_LEVEL"]  # it was for us, not for the ranks
    try:
        run(parse_args(sys.argv[1:]))
    except SignalException as asked:
        sys.exit(128 + asked.sigval)  # it has ended its ranks, and was asked to: no page of a traceback
    except ChildFailedError as error:
        _, first = error.get_first_failure()
        # Once one has failed, torchrun ends the others: what it ended itself is no cause.
        for failure in error.failures.values():
            if failure is first or failure.exitcode not in (-signal.SIGTERM, -signal.SIGKILL):
                tell(failure)
        sys.exit(shown(first.exitcode))
