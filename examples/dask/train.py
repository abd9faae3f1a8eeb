"""Teaches a small network to read noisy seven-segment digits, its data spread over the workers of a Dask cluster.

Each worker holds its own part of the data and sends back gradients alone; main adds them up and takes the step.
"""

import argparse
import json
import os
from pathlib import Path

import numpy as np
from distributed import Client, wait

import muster

SEGMENTS = np.array(
    [[1, 1, 1, 0, 1, 1, 1], [0, 0, 1, 0, 0, 1, 0], [1, 0, 1, 1, 1, 0, 1], [1, 0, 1, 1, 0, 1, 1], [0, 1, 1, 1, 0, 1, 0],
     [1, 1, 0, 1, 0, 1, 1], [1, 1, 0, 1, 1, 1, 1], [1, 0, 1, 0, 0, 1, 0], [1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 1, 1]]
)  # fmt: skip


def make_digits(count, seed):
    """Digits as seven brightnesses, blurred by noise: a reader of nearest shapes gets about 19 of 20 right."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 10, count)
    return SEGMENTS[labels] + random.normal(0, 0.28, (count, 7)), labels


def forward(weights, images):
    hidden = np.tanh(images @ weights["a"] + weights["b"])
    scores = hidden @ weights["c"] + weights["d"]
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    return hidden, odds / odds.sum(axis=1, keepdims=True)


def gradients(weights, part):
    """One worker's share: the loss on its part of the data, and the way down from here."""
    images, labels = part
    hidden, odds = forward(weights, images)
    loss = -np.log(odds[np.arange(len(labels)), labels]).mean()
    error = odds.copy()
    error[np.arange(len(labels)), labels] -= 1
    error /= len(labels)
    back = (error @ weights["c"].T) * (1 - hidden**2)
    return loss, {"a": images.T @ back, "b": back.sum(0), "c": hidden.T @ error, "d": error.sum(0)}


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--rounds", type=int, default=30)
    arguments.add_argument("--parts", type=int, default=6)
    options = arguments.parse_args()

    client = Client()  # Muster has told Dask where the scheduler is
    workers = client.scheduler_info()["workers"]
    print(f"{len(workers)} workers: {sorted(str(worker['name']) for worker in workers.values())}")

    parts = client.map(make_digits, [2000] * options.parts, range(options.parts))
    wait(parts)
    random = np.random.default_rng(0)
    weights = {
        "a": random.normal(0, 0.5, (7, 32)),
        "b": np.zeros(32),
        "c": random.normal(0, 0.2, (32, 10)),
        "d": np.zeros(10),
    }
    speed = {name: np.zeros_like(value) for name, value in weights.items()}

    for step in range(1, options.rounds + 1):
        answers = client.gather([client.submit(gradients, weights, part, pure=False) for part in parts])
        loss = float(np.mean([loss for loss, _ in answers]))
        for name in weights:
            speed[name] = 0.9 * speed[name] - 0.5 * np.mean([gradient[name] for _, gradient in answers], axis=0)
            weights[name] = weights[name] + speed[name]
        muster.report(step=step, loss=loss)
        if step % 10 == 0:
            print(f"step {step:3}  loss {loss:.4f}")

    images, labels = make_digits(4000, seed=999)
    accuracy = float((forward(weights, images)[1].argmax(axis=1) == labels).mean())
    print(f"reads {accuracy:.1%} of 4,000 digits it never saw")

    outputs = Path(os.environ.get("MUSTER_OUTPUTS", "outputs"))
    outputs.mkdir(exist_ok=True)
    np.savez(outputs / "model.npz", **weights)
    (outputs / "result.json").write_text(json.dumps({"accuracy": accuracy, "loss": loss, "workers": len(workers)}))
    assert accuracy > 0.9, "it has not learnt to read"


if __name__ == "__main__":
    main()
