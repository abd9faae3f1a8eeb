"""Stands between an agent and a rank of it: points the rank's output at its own pipe, says its rank, and becomes it.

Runs in the script's Python, so it may use nothing but an old standard library.
"""

import os
import sys

if __name__ == "__main__":
    local = os.environ["LOCAL_RANK"]
    for stream, number in (("out", 1), ("err", 2)):
        pipe = os.open(os.path.join(os.environ["MUSTER_STREAMS"], stream + "-" + local), os.O_WRONLY)  # noqa: PTH118
        os.write(pipe, ("\x1emuster rank %s\n" % os.environ["RANK"]).encode())  # noqa: UP031
        os.dup2(pipe, number)
        os.close(pipe)
    os.execv(sys.argv[1], sys.argv[1:])  # noqa: S606
