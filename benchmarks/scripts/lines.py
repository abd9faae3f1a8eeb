"""Says the time again and again: as often as its first argument tells, with a pause between that the second tells."""

import sys
import time

time.sleep(0.5)
for _ in range(int(sys.argv[1])):
    print(time.time(), flush=True)
    time.sleep(float(sys.argv[2]))
