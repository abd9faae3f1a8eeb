"""Works for so many seconds, and says when it came to its last line."""

import sys
import time

time.sleep(float(sys.argv[1]))
print(time.time(), flush=True)
