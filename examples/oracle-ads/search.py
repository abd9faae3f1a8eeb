"""Looks for the polynomial that explains some points best, each candidate tried by a worker of a Dask cluster.

Written for ADS: it finds the scheduler in SCHEDULER_IP, and leaves its result where OCI__SYNC_DIR says.
"""

import argparse
import json
import os

import numpy as np
from dask.distributed import Client


def error_of(points, degree, folds):
    """How far a curve is off on points that it has not seen, over all folds."""
    x, y = points.T
    parts = np.arange(len(x)) % folds
    off = [np.polyval(np.polyfit(x[parts != part], y[parts != part], degree), x) - y for part in range(folds)]
    return float(np.mean([np.mean(errors[parts == part] ** 2) for part, errors in enumerate(off)]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--points", required=True)
    parser.add_argument("--folds", type=int, default=3)
    args = parser.parse_args()
    client = Client(f"{os.environ['SCHEDULER_IP']}:{os.environ.get('SCHEDULER_PORT', '8786')}")
    points = client.scatter(np.loadtxt(args.points, delimiter=","), broadcast=True)
    degrees = range(1, int(os.environ.get("DEGREES", "5")) + 1)
    futures = [client.submit(error_of, points, degree, args.folds) for degree in degrees]
    errors = dict(zip(degrees, client.gather(futures)))
    best = min(errors, key=errors.get)
    workers = len(client.scheduler_info(n_workers=-1)["workers"])
    print(f"degree {best} is best of {len(errors)}, found by {workers} workers")
    with open(os.path.join(os.environ["OCI__SYNC_DIR"], "best.json"), "w") as file:
        json.dump({"degree": best, "error": errors[best], "workers": workers, "folds": args.folds}, file)


if __name__ == "__main__":
    main()
