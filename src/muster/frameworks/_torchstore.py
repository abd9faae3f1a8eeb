"""Holds the rendezvous store on a main that does not compute, so that it outlives every worker."""

import os
import signal
import sys

# The folder of this file comes first otherwise, and its modules would be taken for packages of the same names.
sys.path[:] = [path for path in sys.path if path != os.path.dirname(os.path.abspath(__file__))]  # noqa: PTH100, PTH120

from torch.distributed import TCPStore  # noqa: E402

if __name__ == "__main__":
    store = TCPStore(sys.argv[1], int(sys.argv[2]), is_master=True, wait_for_workers=False)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
