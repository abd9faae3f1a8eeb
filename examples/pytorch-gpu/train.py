"""Teaches a network to tell overlapping clouds of points apart: on a GPU of its own per rank, or on the CPU."""

import argparse
import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import muster

CHECKPOINT, OUTPUTS = Path("checkpoints/last.pt"), Path("outputs")
CLOUDS, ROOM = 10, 32


def own_device():
    """The GPU that this rank has to itself. Where ranks are more than GPUs, they share them in turn."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device


def clouds(count, seed, device):
    generator = torch.Generator(device).manual_seed(seed)
    middles = torch.randn(CLOUDS, ROOM, generator=torch.Generator().manual_seed(0)).to(device)
    cloud = torch.randint(0, CLOUDS, (count,), generator=generator, device=device)
    return middles[cloud] + 1.5 * torch.randn(count, ROOM, generator=generator, device=device), cloud


def save(model, optimizer, step):
    """Written beside and renamed into place, so that a half-written checkpoint is never taken for a whole one."""
    draft = CHECKPOINT.with_suffix(".tmp")
    torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, draft)
    os.replace(draft, CHECKPOINT)
    muster.checkpoint(CHECKPOINT)


def load(model, optimizer, device):
    """Takes up rank 0's checkpoint, which only its node has, and says how many steps are done."""
    saved = [torch.load(CHECKPOINT, map_location="cpu") if dist.get_rank() == 0 and CHECKPOINT.exists() else None]
    dist.broadcast_object_list(saved, device=device)
    if saved[0] is None:
        return 0
    model.load_state_dict(saved[0]["model"])
    optimizer.load_state_dict(saved[0]["optimizer"])
    print(f"rank {dist.get_rank()} goes on from step {saved[0]['step']}")
    return saved[0]["step"]


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--steps", type=int, default=300)
    arguments.add_argument("--batch", type=int, default=512, help="of each rank")
    arguments.add_argument("--width", type=int, default=256)
    arguments.add_argument("--backend", help="gloo, where several ranks share a GPU: NCCL wants one for each")
    options = arguments.parse_args()

    device = own_device()
    dist.init_process_group(options.backend or ("nccl" if device.type == "cuda" else "gloo"))
    rank, world = dist.get_rank(), dist.get_world_size()
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "no GPU"
    print(f"rank {rank} of {world} is local rank {os.environ['LOCAL_RANK']}, on {device} ({name})")

    torch.manual_seed(0)
    wide = options.width
    model = nn.Sequential(nn.Linear(ROOM, wide), nn.ReLU(), nn.Linear(wide, wide), nn.ReLU(), nn.Linear(wide, CLOUDS))
    model = model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.002)
    begin = load(model, optimizer, device)
    parallel = DistributedDataParallel(model, device_ids=[device] if device.type == "cuda" else None)

    started = time.monotonic()
    for step in range(begin + 1, options.steps + 1):
        points, cloud = clouds(options.batch, step * world + rank, device)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(parallel(points), cloud)
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 50 == 0:
            print(f"step {step:4}  loss {loss.item():.4f}")
            muster.report(step=step, loss=loss.item())
            save(model, optimizer, step)
    rate = (options.steps - begin) * options.batch * world / (time.monotonic() - started)

    points, cloud = clouds(2000, 1_000_000_000 + rank, device)
    right = (parallel(points).argmax(dim=1) == cloud).sum()
    dist.all_reduce(right)
    accuracy = right.item() / (2000 * world)
    devices = [None] * world
    dist.all_gather_object(devices, str(device))
    if rank == 0:
        print(f"tells {accuracy:.1%} of the points apart, on {world} ranks, after {rate:,.0f} points a second")
        OUTPUTS.mkdir(exist_ok=True)
        torch.save(model.state_dict(), OUTPUTS / "model.pt")
        (OUTPUTS / "result.json").write_text(json.dumps({"accuracy": accuracy, "ranks": world, "devices": devices}))
    dist.destroy_process_group()
    assert accuracy > 0.8, "it has not learnt to tell them apart"


if __name__ == "__main__":
    CHECKPOINT.parent.mkdir(exist_ok=True)
    main()
