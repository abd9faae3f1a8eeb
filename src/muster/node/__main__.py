"""`python -m muster.node`: a node without the command line around it, which would double its start-up time."""

import os
import sys

from .start import main

if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # The launcher waits for us, and nothing of ours is left that the interpreter's teardown would put in order.
    os._exit(code)
