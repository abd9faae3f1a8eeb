"""`python -m benchmarks [NAME …]`: measures, and prints one table of figures."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from . import (
    dask_ready,
    horovod,
    leaving,
    lines,
    log_shipping,
    meeting,
    oci_launch,
    pair,
    second_upload,
    startup,
    store_requests,
    tensorflow,
    transfers,
)
from .figures import Row, aligned, as_json, machine, sentence, write_page
from .world import World, world

BENCHMARKS: dict[str, Callable[[World, int | None, bool], list[Row]]] = {
    "startup": startup.measure,
    "pytorch": pair.measure,
    "dask": dask_ready.measure,
    "tensorflow": tensorflow.measure,
    "horovod": horovod.measure,
    "leaving": leaving.measure,
    "lines": lines.measure,
    "requests": store_requests.measure,
    "transfers": transfers.measure,
    "log_shipping": log_shipping.measure,
    "meeting": meeting.measure,
    "second_upload": second_upload.measure,
    "oci": oci_launch.measure,
}


def main() -> None:
    wishes = _wishes()
    about, rows = machine(), []
    for name in wishes.names or BENCHMARKS:
        print(f"{name}:", file=sys.stderr, flush=True)
        with world() as made:
            rows += BENCHMARKS[name](made, wishes.rounds, wishes.quick)
    print(sentence(about), "", aligned(rows), sep="\n")
    if wishes.json:
        wishes.json.write_text(json.dumps(as_json(about, rows), indent=1) + "\n", encoding="utf-8")
    if wishes.page:
        write_page(wishes.page, about, rows)


def _wishes() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *BENCHMARKS], help=", ".join(BENCHMARKS))
    parser.add_argument("--rounds", type=int, help="how often each case is measured")
    parser.add_argument("--quick", action="store_true", help="once each, in the smallest form: shows that it works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--page", type=Path, metavar="FILE", help="put the figures into this page (docs/speed.md)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
