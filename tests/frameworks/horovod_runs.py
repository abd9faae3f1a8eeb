"""What the tests of Horovod have in common: scripts for its two flavours, and an elastic training that is watched."""

from __future__ import annotations

import json
import os
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.frameworks.contract import PATIENT
from tests.harness import Muster, eventually

PATIENT_GLOO = {"HOROVOD_GLOO_TIMEOUT_SECONDS": "90"}
"""Seconds that a rank waits for another to start. By default it is half a minute, which a busy machine may need.

It is also how long a rank may take to notice that a peer is gone, so trainings that lose ranks do without it.
"""

TRAINING = """
import json, os, pathlib, time
{imports}

meet = pathlib.Path(os.environ["MEET"])
hvd.init()

def tell(**facts):
    with open(meet / "steps", "a") as file:
        file.write(json.dumps(facts) + "\\n")

@hvd.elastic.run
def train(state):
    while True:
        leave, heads = total([float((meet / "leave").exists()), 1.0])
        tell(step=int(state.step), rank=hvd.rank(), size=hvd.size(), heads=heads, node=os.environ["MUSTER_NODE"],
             pid=os.getpid())
        state.step += 1
        if leave:
            return
        state.commit()
        time.sleep(0.05)

state = {state}
train(state)
print("done", "with", hvd.size(), flush=True)
"""
"""Goes on until a file tells it to leave. Each rank writes down each step that it has taken."""

TORCH_TRAINING = TRAINING.format(
    imports="""import torch
import horovod.torch as hvd

def total(values):
    return hvd.allreduce(torch.tensor(values), op=hvd.Sum, name="total").tolist()
""",
    state="hvd.elastic.TorchState(step=0)",
)

TENSORFLOW_TRAINING = TRAINING.format(
    imports="""import tensorflow as tf
import horovod.tensorflow as hvd

def total(values):
    return hvd.allreduce(tf.constant(values), op=hvd.Sum, name="total").numpy().tolist()

model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.build((None, 1))
""",
    state="hvd.elastic.TensorFlowKerasState(model, tf.keras.optimizers.legacy.SGD(0.1), step=0)",
)
"""Its `TensorFlowState` for plain variables waits for ever when a rank joins, in Horovod 0.28.1 with TensorFlow 2."""


class Training:
    """A run of a training script, and what its ranks have written down."""

    def __init__(self, muster: Muster, meet: Path, script: str = TORCH_TRAINING, **fields: Any) -> None:
        self.muster, self.meet = muster, meet
        env = {"MEET": str(meet), **fields.pop("env", {})}
        job = muster.job(script, "horovod", **{"workers": {"min": 1, "max": 2}, **fields}, env=env)
        self.process: subprocess.Popen[str] = muster.start("run", job)
        self.run = muster.run_id()

    def steps(self) -> list[dict[str, Any]]:
        path = self.meet / "steps"
        # The last line may be half written.
        return [json.loads(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []

    def until(self, size: int, since: int = 0) -> list[dict[str, Any]]:
        """Waits until a step was taken by so many ranks, after so many that were; those who took it, by rank."""
        return list(eventually(lambda: self._whole(size, since), PATIENT))

    def _whole(self, size: int, since: int) -> list[dict[str, Any]] | None:
        assert self.process.poll() is None, self.process.communicate()
        taken: dict[int, dict[int, dict[str, Any]]] = {}
        for step in self.steps()[since:]:
            if step["size"] == size:
                taken.setdefault(step["step"], {})[step["rank"]] = step
        whole = [ranks for ranks in taken.values() if len(ranks) == size]
        return [ranks for _, ranks in sorted(whole[-1].items())] if whole else None

    def leave(self, code: int = 0) -> tuple[str, str]:
        """Lets it end; what it printed and what Muster said."""
        (self.meet / "leave").touch()
        seen, told = self.process.communicate(timeout=PATIENT)
        assert self.process.returncode == code, told
        return seen, told

    def steps_of(self, pid: int) -> list[int]:
        return [step["step"] for step in self.steps() if step["pid"] == pid]


def nodes_of(ranks: list[dict[str, Any]]) -> list[str]:
    return [rank["node"] for rank in ranks]


def needs_horovod(flavour: str) -> None:
    """Skips where Horovod is not built for this flavour; in CI that is a failure."""
    spec = find_spec("horovod")
    place = Path(spec.origin).parent / flavour if spec and spec.origin else None
    if place and any(place.glob("mpi_lib*.so")):
        return
    told = f"this test needs Horovod for {flavour}: muster setup horovod"
    if os.environ.get("CI") == "true":
        pytest.fail(told)
    pytest.skip(told)
