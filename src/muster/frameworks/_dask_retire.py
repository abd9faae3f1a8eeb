"""Has Dask's scheduler retire workers: what they hold moves to the others first, and nothing new is given to them."""

import asyncio
import os
import sys

# The folder of this file comes first otherwise, and its modules would be taken for packages of the same names.
sys.path[:] = [path for path in sys.path if path != os.path.dirname(os.path.abspath(__file__))]  # noqa: PTH100, PTH120

from distributed.core import rpc  # noqa: E402
from distributed.security import Security  # noqa: E402


async def retire(address, nodes):
    """The workers of these nodes: a node's name, and where it has several workers that name with a number."""
    args = Security().get_connection_args("client")
    async with rpc(address, connection_args=args) as scheduler:
        workers = (await scheduler.identity())["workers"]
        named = {str(worker["name"]): place for place, worker in workers.items()}
        leaving = [place for name, place in named.items() if name in nodes or name.rpartition("-")[0] in nodes]
        retired = await scheduler.retire_workers(workers=leaving, close_workers=True, remove=True)
        left = sorted(set(leaving).difference(retired))
        if left:
            # What they hold finds no other place: there is no other worker, or none with memory to spare.
            sys.exit("not retired: " + ", ".join(left))


if __name__ == "__main__":
    asyncio.run(retire(sys.argv[1], set(sys.argv[2:])))
