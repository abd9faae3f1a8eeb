"""Fits a line to points that are spread over the cluster's workers."""

import json
import os
import random

from distributed import Client

import muster

TRUE_SLOPE, TRUE_HEIGHT = 3.0, -1.0


def make_points(seed):
    generator = random.Random(seed)
    xs = [generator.uniform(-1, 1) for _ in range(1000)]
    return [(x, TRUE_SLOPE * x + TRUE_HEIGHT + generator.gauss(0, 0.1)) for x in xs]


def gradient(line, points):
    slope, height = line
    errors = [(slope * x + height - y, x) for x, y in points]
    count = len(points)
    loss = sum(error**2 for error, _ in errors) / count
    return loss, sum(2 * error * x for error, x in errors) / count, sum(2 * error for error, _ in errors) / count


if __name__ == "__main__":
    client = Client()  # Muster has told Dask where its scheduler is
    print("workers:", sorted(str(worker["name"]) for worker in client.scheduler_info()["workers"].values()))
    parts = client.map(make_points, range(6))
    slope = height = 0.0
    for step in range(1, 61):
        answers = client.gather([client.submit(gradient, (slope, height), part, pure=False) for part in parts])
        loss, by_slope, by_height = (sum(column) / len(answers) for column in zip(*answers))
        slope, height = slope - 0.3 * by_slope, height - 0.3 * by_height
        muster.report(step=step, loss=loss)
    print(f"y = {slope:.2f} x + {height:.2f}")
    os.makedirs("outputs", exist_ok=True)
    with open("outputs/line.json", "w") as file:
        json.dump({"slope": slope, "height": height}, file)
    assert abs(slope - TRUE_SLOPE) < 0.1 and abs(height - TRUE_HEIGHT) < 0.1
