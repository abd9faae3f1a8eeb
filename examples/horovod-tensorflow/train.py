"""Teaches a network a wave, with Horovod and TensorFlow, and goes on from a checkpoint."""

import argparse
import json
import os
from pathlib import Path

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

import muster

CHECKPOINT = Path("checkpoints/last.npz")


def wave(count, seed):
    points = tf.random.stateless_uniform((count, 1), seed=(seed, 0), minval=-2.0, maxval=2.0)
    return points, tf.sin(2 * points)


def network():
    random = tf.random.Generator.from_seed(0)
    sizes = [(1, 32), (32, 32), (32, 1)]
    return [tf.Variable(value) for size in sizes for value in (random.normal(size) / size[0] ** 0.5, tf.zeros(size[1]))]


def answer(network, points):
    hidden = tf.tanh(points @ network[0] + network[1])
    hidden = tf.tanh(hidden @ network[2] + network[3])
    return hidden @ network[4] + network[5]


def save(values, step):
    """Written beside and renamed into place, so that a half-written checkpoint is never taken for a whole one."""
    draft = CHECKPOINT.with_suffix(".tmp")
    with open(draft, "wb") as file:
        np.savez(file, *(value.numpy() for value in values), step=step)
    draft.rename(CHECKPOINT)
    muster.checkpoint(CHECKPOINT)


def load(values):
    """The steps that are done, which rank 0 knows, and what was learnt in them."""
    step = tf.Variable(0)
    if hvd.rank() == 0 and CHECKPOINT.exists():
        with np.load(CHECKPOINT) as saved:
            step.assign(int(saved["step"]))
            for number, value in enumerate(values):
                value.assign(saved[f"arr_{number}"])
    hvd.broadcast_variables([step, *values], root_rank=0)
    if step.numpy():
        print(f"rank {hvd.rank()} goes on from step {step.numpy()}")
    return int(step.numpy())


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--steps", type=int, default=400)
    options = arguments.parse_args()

    hvd.init()
    weights = network()
    moments = [tf.Variable(tf.zeros_like(weight)) for weight in weights]
    points, heights = wave(1000, seed=hvd.rank())  # others for each rank

    @tf.function
    def learn():
        with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
            loss = tf.reduce_mean((answer(weights, points) - heights) ** 2)
        for weight, moment, gradient in zip(weights, moments, tape.gradient(loss, weights)):
            moment.assign(0.9 * moment + gradient)
            weight.assign_sub(0.03 * moment)
        return loss

    for step in range(load([*weights, *moments]) + 1, options.steps + 1):
        loss = learn()
        if hvd.rank() == 0:
            muster.report(step=step, loss=loss)
            if step % 100 == 0:
                print(f"step {step:3}  loss {loss:.4f}", flush=True)
                save([*weights, *moments], step)

    points, heights = wave(1000, seed=1000 + hvd.rank())
    error = hvd.allreduce(tf.reduce_mean((answer(weights, points) - heights) ** 2)).numpy()
    if hvd.rank() == 0:
        print(f"off by {error:.4f}, on {hvd.size()} ranks")
        np.savez("outputs/model.npz", *(weight.numpy() for weight in weights))
        Path("outputs/result.json").write_text(json.dumps({"error": float(error), "ranks": hvd.size()}))
    assert error < 0.01, "it has not learnt the wave"


if __name__ == "__main__":
    for folder in ("checkpoints", "outputs"):
        os.makedirs(folder, exist_ok=True)
    main()
