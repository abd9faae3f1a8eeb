"""Teaches a network to tell two spirals apart, with PyTorch's own data parallelism, and goes on from a checkpoint."""

import argparse
import json
import math
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import muster


def spirals(count, seed):
    generator = torch.Generator().manual_seed(seed)
    turn = torch.rand(count, generator=generator).sqrt() * 3 * math.pi
    side = torch.randint(0, 2, (count,), generator=generator)
    angle = turn + side * math.pi
    points = torch.stack([turn * angle.cos(), turn * angle.sin()], dim=1) / 10
    return points + torch.randn(count, 2, generator=generator) * 0.02, side


def save(model, epoch, path):
    """Written beside and renamed into place, so that a half-written checkpoint is never taken for a whole one."""
    temporary = path.with_suffix(".tmp")
    torch.save({"epoch": epoch, "model": model.module.state_dict()}, temporary)
    temporary.rename(path)
    muster.checkpoint(path)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--epochs", type=int, default=120)
    options = arguments.parse_args()

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = DistributedDataParallel(
        nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    checkpoint = Path("checkpoints/last.pt")
    begin = 0
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=True)
        model.module.load_state_dict(saved["model"])
        begin = saved["epoch"] + 1
        print(f"going on from epoch {begin}")

    points, sides = spirals(2000, seed=rank)
    for epoch in range(begin, options.epochs):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(points), sides)
        loss.backward()
        optimizer.step()
        if rank == 0:
            muster.report(epoch=epoch, loss=loss.item())
            if epoch % 40 == 39:
                print(f"epoch {epoch + 1:3}  loss {loss.item():.4f}")
                save(model, epoch, checkpoint)

    points, sides = spirals(1000, seed=10_000 + rank)
    right = (model(points).argmax(dim=1) == sides).sum()
    dist.all_reduce(right)
    accuracy = right.item() / (1000 * world)
    if rank == 0:
        print(f"tells {accuracy:.1%} of the points apart, on {world} ranks")
        outputs = Path("outputs")
        outputs.mkdir(exist_ok=True)
        torch.save(model.module.state_dict(), outputs / "model.pt")
        (outputs / "result.json").write_text(json.dumps({"accuracy": accuracy, "ranks": world}))
    dist.destroy_process_group()
    assert accuracy > 0.9, "it has not learnt to tell them apart"


if __name__ == "__main__":
    os.makedirs("checkpoints", exist_ok=True)
    main()
