"""Fits a line with TensorFlow's data parallelism: each rank has points of its own, and all share one model."""

import os

import tensorflow as tf

import muster

if __name__ == "__main__":
    strategy = tf.distribute.MultiWorkerMirroredStrategy()  # Muster has told it of all nodes
    ranks, first = strategy.num_replicas_in_sync, strategy.extended.should_checkpoint
    with strategy.scope():  # what the ranks add to a variable is averaged over them
        slope = tf.Variable(0.0, aggregation=tf.VariableAggregation.MEAN)
        height = tf.Variable(0.0, aggregation=tf.VariableAggregation.MEAN)
    x = tf.random.uniform([1000], -1, 1)
    y = 3 * x - 1 + tf.random.normal([1000], stddev=0.1)

    @tf.function
    def learn(x, y):
        def here(x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((slope * x + height - y) ** 2)
            by_slope, by_height = tape.gradient(loss, [slope, height])
            slope.assign_sub(0.3 * by_slope)
            height.assign_sub(0.3 * by_height)
            return loss

        return strategy.reduce("MEAN", strategy.run(here, args=(x, y)), axis=None)

    for step in range(1, 101):
        loss = learn(x, y)
        if first:
            muster.report(step=step, loss=loss)

    print(f"one of {ranks} ranks: y = {slope.numpy():.2f} x + {height.numpy():.2f}")
    if first:
        os.makedirs("outputs", exist_ok=True)
        tf.train.Checkpoint(slope=slope, height=height).write("outputs/model")
    assert abs(slope.numpy() - 3) < 0.1 and abs(height.numpy() + 1) < 0.1
