"""Teaches a network on which side of a cross a point lies, with Horovod, on a number of ranks that may change."""

import argparse
import json
import os
from pathlib import Path

import horovod.torch as hvd
import torch
from torch import nn

import muster

CHECKPOINT = Path("checkpoints/last.pt")
BATCHES, STEP = 4, 0.005


def cross(count, seed):
    generator = torch.Generator().manual_seed(seed)
    points = torch.rand(count, 2, generator=generator) * 2 - 1
    return points, (points.prod(dim=1) > 0).long()


def save(state):
    """Written beside and renamed into place, so that a half-written checkpoint is never taken for a whole one."""
    whole = {"epoch": state.epoch, "model": state.model.state_dict(), "optimizer": state.optimizer.state_dict()}
    draft = CHECKPOINT.with_suffix(".tmp")
    torch.save(whole, draft)
    draft.rename(CHECKPOINT)
    muster.checkpoint(CHECKPOINT)


def load(model, optimizer):
    """The epochs that are done. It is enough that rank 0 knows: all others are told what it has when they begin."""
    if not CHECKPOINT.exists():
        return 0
    saved = torch.load(CHECKPOINT, weights_only=True)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    print(f"going on from epoch {saved['epoch']}", flush=True)
    return saved["epoch"]


@hvd.elastic.run
def train(state, epochs):
    """Begins once more, with what was committed last, whenever the number of ranks changes."""
    if hvd.rank() == 0:
        print(f"epoch {state.epoch}: world size {hvd.size()}", flush=True)
    while state.epoch < epochs:
        for batch in range(BATCHES):
            # Other points for each rank, and for each number of ranks.
            points, sides = cross(500, seed=(state.epoch * BATCHES + batch) * 1000 + hvd.rank())
            state.optimizer.zero_grad()
            loss = nn.functional.cross_entropy(state.model(points), sides)
            loss.backward()
            state.optimizer.step()
        state.epoch += 1
        if hvd.rank() == 0:
            muster.report(epoch=state.epoch, loss=loss.item())
            if state.epoch % 20 == 0:
                print(f"epoch {state.epoch:3}  loss {loss.item():.4f}", flush=True)
                save(state)
        if state.epoch % 5 == 0:
            # Committing costs a copy of the model; what happened since the last time is lost with a rank.
            state.commit()


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--epochs", type=int, default=100)
    options = arguments.parse_args()

    hvd.init()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=STEP)
    epoch = load(model, optimizer)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    train(hvd.elastic.TorchState(model=model, optimizer=optimizer, epoch=epoch), options.epochs)

    points, sides = cross(1000, seed=-1 - hvd.rank())
    right = (model(points).argmax(dim=1) == sides).float().mean()
    accuracy = hvd.allreduce(right).item()
    if hvd.rank() == 0:
        print(f"tells {accuracy:.1%} of the points apart, on {hvd.size()} ranks")
        torch.save(model.state_dict(), "outputs/model.pt")
        Path("outputs/result.json").write_text(json.dumps({"accuracy": accuracy, "ranks": hvd.size()}))
    assert accuracy > 0.95, "it has not learnt to tell them apart"


if __name__ == "__main__":
    for folder in ("checkpoints", "outputs"):
        os.makedirs(folder, exist_ok=True)
    main()
