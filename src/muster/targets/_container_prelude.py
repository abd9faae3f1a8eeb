# What a container of `muster run --containers` does first, before the boot that follows it in the same variable. It is
# never imported. Standard input brings, after its length, what must not be seen from outside: the node's environment
# and its secrets. From then on its end means that the launcher is gone.
import json as _json
import os as _os
from pathlib import Path as _Path


def _exactly(size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = _os.read(0, size - len(data))
        if not part:
            raise SystemExit("muster: the launcher was gone before the node began")
        data += part
    return data


def _prelude() -> None:
    told = _json.loads(_exactly(int(_exactly(8))).decode())
    _os.environ.update(told["environment"])
    lifeline = _os.dup(0)
    _os.set_inheritable(lifeline, True)
    _os.dup2(_os.open(_os.devnull, _os.O_RDONLY), 0)
    _os.environ["MUSTER_LIFELINE"] = str(lifeline)
    if told["secrets"]:
        reading, writing = _os.pipe()
        _os.write(writing, _json.dumps(told["secrets"]).encode())
        _os.close(writing)
        _os.set_inheritable(reading, True)
        _os.environ["MUSTER_SECRETS"] = str(reading)
    _Path(_os.environ["HOME"]).mkdir(parents=True, exist_ok=True)
    # Tells the launcher that the container runs and sees the folders that it was given.
    (_Path(_os.environ["MUSTER_FOLDER"]) / "begun").touch()


_prelude()
