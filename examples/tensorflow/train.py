"""Teaches a network to tell two moons apart, with MultiWorkerMirroredStrategy, and goes on from a checkpoint."""

import argparse
import json
import math
from itertools import pairwise
from pathlib import Path

import tensorflow as tf

import muster

CHECKPOINTS, OUTPUTS = Path("checkpoints"), Path("outputs")


def moons(count, seed):
    """Points of two half circles that reach into each other, and which of them each is of."""
    angle = tf.random.stateless_uniform([count], [seed, 0], 0, math.pi)
    side = tf.cast(tf.random.stateless_uniform([count], [seed, 1], 0, 2, tf.int32), tf.float32)
    upper = tf.stack([tf.cos(angle), tf.sin(angle)], axis=1)
    lower = tf.stack([1 - tf.cos(angle), 0.5 - tf.sin(angle)], axis=1)
    points = tf.where(side[:, None] == 0, upper, lower)
    return points + tf.random.stateless_normal([count, 2], [seed, 2], stddev=0.1), side[:, None]


class Network(tf.Module):
    def __init__(self, *sizes):
        super().__init__()
        self.weights = [
            variable(tf.random.stateless_normal([rows + 1, columns], [rows, columns]) / math.sqrt(rows))
            for rows, columns in pairwise(sizes)
        ]

    def __call__(self, values):
        *inner, last = self.weights
        for weights in inner:
            values = tf.tanh(values @ weights[1:] + weights[0])
        return values @ last[1:] + last[0]


def variable(value):
    # What the ranks add to it is averaged over them: that is all it takes to train together.
    return tf.Variable(value, aggregation=tf.VariableAggregation.MEAN)


def load(strategy, checkpoint):
    """Takes up the newest checkpoint that every node has: each has a disk of its own."""
    steps = [int(path.stem.partition("-")[2]) for path in CHECKPOINTS.glob("step-*.index")]

    @tf.function
    def newest():
        return strategy.gather(strategy.run(lambda: tf.constant([max(steps, default=0)])), axis=0)

    step = newest().numpy().min().item()
    if step:
        checkpoint.restore(str(CHECKPOINTS / f"step-{step}")).assert_consumed()
        print(f"going on from step {step}")
    return step


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--steps", type=int, default=300)
    options = arguments.parse_args()

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    ranks, first = strategy.num_replicas_in_sync, strategy.extended.should_checkpoint
    with strategy.scope():
        network = Network(2, 32, 1)
    seed = strategy.cluster_resolver.task_id + (0 if first else 1)
    learning, testing = moons(2000, seed), moons(1000, 10_000 + seed)

    @tf.function
    def learn(points, sides):
        def here(points, sides):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(sides, network(points)))
            for weights, gradient in zip(network.weights, tape.gradient(loss, network.weights)):
                weights.assign_sub(0.8 * gradient)
            return loss

        return strategy.reduce("MEAN", strategy.run(here, args=(points, sides)), axis=None)

    @tf.function
    def judge(points, sides):
        def here(points, sides):
            return tf.reduce_mean(tf.cast((network(points) > 0) == (sides > 0), tf.float32))

        return strategy.reduce("MEAN", strategy.run(here, args=(points, sides)), axis=None)

    checkpoint = tf.train.Checkpoint(network=network)
    manager = tf.train.CheckpointManager(checkpoint, str(CHECKPOINTS), max_to_keep=2, checkpoint_name="step")
    for step in range(load(strategy, checkpoint) + 1, options.steps + 1):
        loss = learn(*learning).numpy()
        if first:
            muster.report(step=step, loss=loss)
        if step % 100 == 0:
            # TensorFlow gives a checkpoint its name when it is complete.
            muster.checkpoint(manager.save(checkpoint_number=step))
            if first:
                print(f"step {step:4}  loss {loss:.4f}")

    accuracy = judge(*testing).numpy().item()
    if first:
        print(f"tells {accuracy:.1%} of the points apart, on {ranks} ranks")
        OUTPUTS.mkdir(exist_ok=True)
        checkpoint.write(str(OUTPUTS / "model"))
        (OUTPUTS / "result.json").write_text(json.dumps({"accuracy": accuracy, "ranks": ranks}))
    assert accuracy > 0.95, "it has not learnt to tell them apart"


if __name__ == "__main__":
    CHECKPOINTS.mkdir(exist_ok=True)
    main()
