"""How a node begins in an image that has a Python and nothing of Muster.

A container is started with `ENTRYPOINT`, `COMMAND` and what `boot_environment` gives beside the node's own variables.
The shell's words are few and never change; what they run is `standalone.py`, which travels in a variable.
"""

from __future__ import annotations

import base64
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..archive import Program

_RUN = 'import os, zlib, base64; exec(zlib.decompress(base64.b64decode(os.environ["MUSTER_BOOT"])))'
_TEST = "import sys, ssl, zlib; sys.exit(sys.version_info < (3, 10))"
_OLD = "import sys; sys.exit(sys.version_info < (3, 6))"
# The image's own Python comes first: it is the script's, too, where the job names none, even if it is too old for the
# node. Isolated (-I), because the folder that a container starts in may hold modules of its user's with the names of
# Python's own.
_SCRIPT = f"""\
set -- python3 python /opt/conda/bin/python python3.13 python3.12 python3.11 python3.10
[ -z "$MUSTER_BOOT_PYTHON" ] || set -- "$MUSTER_BOOT_PYTHON"
found= own=
for python in "$@"; do
  command -v "$python" >/dev/null 2>&1 || continue
  if "$python" -I -c '{_TEST}' >/dev/null 2>&1; then
    [ -z "$own" ] || export MUSTER_SCRIPT_PYTHON="${{MUSTER_SCRIPT_PYTHON:-$own}}"
    exec "$python" -I -c '{_RUN}'
  fi
  [ -n "$own" ] || ! "$python" -I -c '{_OLD}' >/dev/null 2>&1 || own=$(command -v "$python")
  found="$found, $python is $("$python" -V 2>&1)"
done
if [ -n "$found" ]; then
  echo "muster: the nodes need Python 3.10 or newer, with ssl and zlib; in this image ${{found#, }}" >&2
  echo "    Name another with MUSTER_BOOT_PYTHON, or build the image from a newer Python." >&2
  exit 126
fi
echo "muster: there is no Python in this image; looked for $*" >&2
echo "    Name its path in MUSTER_BOOT_PYTHON, or add a Python 3.10 or newer to the image." >&2
exit 127
"""

ENTRYPOINT: tuple[str, ...] = ("/bin/sh", "-c")
COMMAND: tuple[str, ...] = (_SCRIPT,)
"""With the entrypoint less than the 2,048 bytes that Oracle's jobs take."""


def boot_environment(program: Program, endpoint: str = "") -> dict[str, str]:
    """What a container must have in its environment beside what every launched node has.

    `endpoint` is where object storage is, for regions outside of Oracle's first realm, and for a rehearsal.
    """
    # Of this launcher: whoever runs in the image must be of the same version.
    from ... import __version__
    from ...workdir.records import PROTOCOL

    source = Path(__file__).with_name("standalone.py").read_text(encoding="utf-8")
    source = source.replace('WANTED = ""', f'WANTED = "{__version__} {PROTOCOL}"', 1)
    boot = base64.b64encode(zlib.compress(source.encode(), 9)).decode()
    where = {"OCI_OBJECTSTORAGE_SERVICE_ENDPOINT": endpoint} if endpoint else {}
    return {"MUSTER_BOOT": boot, "MUSTER_PROGRAM": program.digest, **where}
