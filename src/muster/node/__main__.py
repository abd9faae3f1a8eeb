"""`python -m muster.node`: a node without the command line around it, which would double its start-up time."""

import sys

from .start import main

if __name__ == "__main__":
    sys.exit(main())
