"""Holds the rendezvous store on a main that does not compute, so that it outlives every worker."""

import signal
import sys

from torch.distributed import TCPStore

if __name__ == "__main__":
    store = TCPStore(sys.argv[1], int(sys.argv[2]), is_master=True, wait_for_workers=False)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
