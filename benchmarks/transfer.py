"""`python -m benchmarks.transfer up|down FOLDER URL`: what a node does with outputs, and `muster outputs --to`."""

from __future__ import annotations

import sys
from pathlib import Path

from muster.workdir.opening import open_store
from muster.workdir.run import RunFolder

if __name__ == "__main__":
    way, folder, url = sys.argv[1:]
    run = RunFolder(open_store(url), "run")
    if way == "up":
        from muster.workdir.shipper import Shipper

        Shipper(run.store, run.at("outputs", "main"), Path(folder)).finish()
    else:
        from muster.workdir.outputs import fetch_outputs

        for _ in fetch_outputs(run, Path(folder)):
            pass
