"""Stays until the file that its argument names is there."""

import sys
import time
from pathlib import Path

while not Path(sys.argv[1]).exists():
    time.sleep(0.02)
