"""Horovod's TensorFlow flavour: a training at a fixed size, and one that lives through a killed rank and a new size."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from tests.frameworks.horovod_runs import PATIENT_GLOO, TENSORFLOW_TRAINING, Training, needs_horovod, nodes_of
from tests.harness import Muster

pytestmark = pytest.mark.slow

LEARNS = """
import tensorflow as tf
import horovod.tensorflow as hvd

hvd.init()
slope, height = tf.Variable(tf.fill([2], float(hvd.rank()))), tf.Variable(0.0)
hvd.broadcast_variables([slope, height], root_rank=0)
points = tf.random.stateless_normal((256, 2), seed=(hvd.rank(), 1))
values = tf.linalg.matvec(points, [3.0, -1.0]) + 2.0

@tf.function
def step():
    with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
        loss = tf.reduce_mean((tf.linalg.matvec(points, slope) + height - values) ** 2)
    for variable, gradient in zip([slope, height], tape.gradient(loss, [slope, height])):
        variable.assign_sub(0.1 * gradient)
    return loss

for _ in range(100):
    step()
took_part = hvd.allreduce(tf.constant([1, 10 ** hvd.rank()]), op=hvd.Sum).numpy().tolist()
print(took_part, *(f"{value:.2f}" for value in [*slope.numpy(), height.numpy()]))
"""


@pytest.fixture(autouse=True)
def _horovod() -> None:
    needs_horovod("tensorflow")


def test_two_ranks_learn_the_same(muster: Muster) -> None:
    done = muster("run", muster.job(LEARNS, "horovod", workers=1, env=PATIENT_GLOO))
    assert re.findall(r"\] (\[2, 11\].*)", done.stdout) == ["[2, 11] 3.00 -1.00 2.00"] * 2


def test_a_killed_rank_is_survived_and_a_new_size_is_taken_up(muster: Muster, tmp_path: Path) -> None:
    training = Training(muster, tmp_path, TENSORFLOW_TRAINING, retries=1, env={"TF_USE_LEGACY_KERAS": "1"})
    first, victim, _ = training.until(3)
    os.kill(victim["pid"], signal.SIGKILL)
    again = training.until(3, since=len(training.steps()))
    assert {rank["heads"] for rank in again} == {3.0}
    muster("scale", training.run, "1")
    left = training.until(2, since=len(training.steps()))
    assert nodes_of(left) == ["main", "worker-1"]
    steps = training.steps_of(first["pid"])
    assert steps == list(range(len(steps)))
    seen, told = training.leave()
    assert re.findall(r"\] done with (\d)", seen) == ["2", "2"]
    assert "terminate called" not in seen + told
