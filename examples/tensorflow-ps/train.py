"""Learns the tastes of people from how they rate films, with ParameterServerStrategy, and goes on from a checkpoint.

The chief hands out the work, each worker learns as fast as it can, and what they learn is kept on the `ps` node.
"""

import argparse
import json
from pathlib import Path

import tensorflow as tf

import muster

CHECKPOINTS, OUTPUTS = Path("checkpoints"), Path("outputs")
PEOPLE, FILMS, TASTES = 40, 60, 4
# Each node has a disk of its own: the chief alone writes, also what the `ps` node holds.
ON_CHIEF = tf.train.CheckpointOptions(experimental_io_device="/job:chief")


def ratings(count, seed):
    """Who rates which film, and how: people like a film as far as it has what they have a taste for."""
    tastes = tf.random.stateless_normal([PEOPLE, TASTES], [1, 0])
    traits = tf.random.stateless_normal([FILMS, TASTES], [2, 0])
    who = tf.random.stateless_uniform([count], [seed, 0], 0, PEOPLE, tf.int32)
    what = tf.random.stateless_uniform([count], [seed, 1], 0, FILMS, tf.int32)
    return who, what, tf.reduce_sum(tf.gather(tastes, who) * tf.gather(traits, what), axis=1)


class Tastes(tf.Module):
    def __init__(self):
        super().__init__()
        self.tastes = tf.Variable(tf.random.stateless_normal([PEOPLE, TASTES], [3, 0]))
        self.traits = tf.Variable(tf.random.stateless_normal([FILMS, TASTES], [4, 0]))
        self.steps = tf.Variable(0, dtype=tf.int64)

    def error(self, who, what, rating):
        guess = tf.reduce_sum(tf.gather(self.tastes, who) * tf.gather(self.traits, what), axis=1)
        return tf.reduce_mean((guess - rating) ** 2)

    def learn(self, *some):
        with tf.GradientTape() as tape:
            error = self.error(*some)
        for variable, gradient in zip((self.tastes, self.traits), tape.gradient(error, (self.tastes, self.traits))):
            variable.assign_sub(tf.convert_to_tensor(gradient))
        self.steps.assign_add(1)


def serve(resolver):
    """Workers and parameter servers wait for what the chief sends; Muster ends them when the chief has ended."""
    task = {"job_name": resolver.task_type, "task_index": resolver.task_id}
    tf.distribute.Server(resolver.cluster_spec(), protocol="grpc", **task).join()


def lead(resolver, steps):
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        model = Tastes()
    checkpoint = tf.train.Checkpoint(model=model)
    manager = tf.train.CheckpointManager(checkpoint, str(CHECKPOINTS), max_to_keep=2)
    if manager.latest_checkpoint:
        checkpoint.restore(manager.latest_checkpoint, options=ON_CHIEF).assert_consumed()
        print(f"going on from step {model.steps.numpy()}")

    @tf.function
    def learn(seed):
        strategy.run(model.learn, args=ratings(500, seed))

    for begin in range(model.steps.numpy(), steps, 100):
        for seed in range(begin, min(begin + 100, steps)):
            coordinator.schedule(learn, args=(tf.constant(seed),))
        coordinator.join()
        muster.checkpoint(manager.save(options=ON_CHIEF))
        error = model.error(*ratings(1000, 10_000)).numpy().item()
        muster.report(step=model.steps.numpy(), error=error)
        print(f"step {model.steps.numpy():4}  error {error:.4f}")

    error = model.error(*ratings(1000, 20_000)).numpy().item()
    workers = len(resolver.cluster_spec().job_tasks("worker"))
    print(f"knows ratings to {error:.4f}, by {workers} workers; what they learnt is on {model.tastes.device}")
    OUTPUTS.mkdir(exist_ok=True)
    checkpoint.write(str(OUTPUTS / "model"), options=ON_CHIEF)
    (OUTPUTS / "result.json").write_text(json.dumps({"error": error, "workers": workers}))
    assert error < 0.1, "it has not learnt their tastes"


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--steps", type=int, default=300)
    options = arguments.parse_args()
    CHECKPOINTS.mkdir(exist_ok=True)
    cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if cluster.task_type == "chief":
        lead(cluster, options.steps)
    else:
        serve(cluster)
