"""Runs torchrun in the script's Python and ends with the failed rank's own exit code, which torchrun turns into 1."""

import sys

from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.run import parse_args, run

if __name__ == "__main__":
    try:
        run(parse_args(sys.argv[1:]))
    except ChildFailedError as error:
        _, failure = error.get_first_failure()
        code = failure.exitcode
        sys.exit(code if code > 0 else 128 - code)
