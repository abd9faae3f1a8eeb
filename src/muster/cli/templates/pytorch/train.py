"""Fits a line with PyTorch's data parallelism: each rank has points of its own, and all share one model."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import muster

if __name__ == "__main__":
    dist.init_process_group("gloo")  # "nccl" where the nodes have GPUs
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    x = torch.rand(1000, 1) * 2 - 1
    y = 3 * x - 1 + torch.randn(1000, 1) * 0.1

    model = DistributedDataParallel(torch.nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    for step in range(1, 101):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        if rank == 0:
            muster.report(step=step, loss=loss.item())

    slope, height = model.module.weight.item(), model.module.bias.item()
    print(f"rank {rank} of {world}: y = {slope:.2f} x + {height:.2f}")
    if rank == 0:
        os.makedirs("outputs", exist_ok=True)
        torch.save(model.module.state_dict(), "outputs/model.pt")
    dist.destroy_process_group()
    assert abs(slope - 3) < 0.1 and abs(height + 1) < 0.1
