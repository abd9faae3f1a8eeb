"""Teaches a network to tell three rings apart, with Accelerate, and goes on from a checkpoint.

Nothing in here knows how its processes were started: `accelerate launch` would do as well.
"""

import argparse
import json
import math
import os
import shutil
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import ProjectConfiguration, set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CHECKPOINTS, OUTPUTS = Path("checkpoints"), Path("outputs")


def rings(count, seed):
    generator = torch.Generator().manual_seed(seed)
    ring = torch.randint(0, 3, (count,), generator=generator)
    radius = 1 + ring + torch.randn(count, generator=generator) * 0.15
    angle = torch.rand(count, generator=generator) * 2 * math.pi
    return TensorDataset(torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1), ring)


def save(accelerator, epoch):
    """Written beside and renamed into place, so that a half-written checkpoint is never taken for a whole one."""
    draft, whole = CHECKPOINTS / f"epoch-{epoch:03}.tmp", CHECKPOINTS / f"epoch-{epoch:03}"
    accelerator.save_state(draft)
    accelerator.wait_for_everyone()
    if accelerator.is_local_main_process:
        shutil.rmtree(whole, ignore_errors=True)
        os.replace(draft, whole)


def load(accelerator):
    """Takes up the newest checkpoint that every node has, and says how many epochs are done."""
    saved = sorted(CHECKPOINTS.glob("epoch-???"))
    newest = torch.tensor([int(saved[-1].name[-3:]) if saved else 0], device=accelerator.device)
    epoch = accelerator.gather(newest).min().item()
    if epoch:
        accelerator.load_state(CHECKPOINTS / f"epoch-{epoch:03}")
        print(f"rank {accelerator.process_index} goes on from epoch {epoch}")
    return epoch


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--epochs", type=int, default=12)
    options = arguments.parse_args()

    # Each node has a disk of its own, so each keeps the checkpoints.
    accelerator = Accelerator(project_config=ProjectConfiguration(save_on_each_node=True))
    world = int(os.environ.get("WORLD_SIZE", 1))
    assert accelerator.num_processes == world, f"{accelerator.num_processes} of {world} processes take part"
    set_seed(0)

    model = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    learning = DataLoader(rings(6000, seed=1), batch_size=50, shuffle=True)
    testing = DataLoader(rings(1000, seed=2), batch_size=100)
    model, optimizer, learning, testing = accelerator.prepare(model, optimizer, learning, testing)

    for epoch in range(load(accelerator), options.epochs):
        for points, ring in learning:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(points), ring)
            accelerator.backward(loss)
            optimizer.step()
        if epoch % 3 == 2:
            save(accelerator, epoch + 1)
            if accelerator.is_main_process:
                print(f"epoch {epoch + 1:3}  loss {loss.item():.4f}")

    model.eval()
    right = total = 0
    for points, ring in testing:
        with torch.no_grad():
            found, true = accelerator.gather_for_metrics((model(points).argmax(dim=1), ring))
        right, total = right + (found == true).sum().item(), total + len(true)
    accuracy = right / total
    assert total == 1000 and accuracy > 0.95, "it has not learnt to tell them apart"
    if accelerator.is_main_process:
        print(f"tells {accuracy:.1%} of {total} points apart, on {world} ranks")
        OUTPUTS.mkdir(exist_ok=True)
        accelerator.save(accelerator.unwrap_model(model).state_dict(), OUTPUTS / "model.pt")
        (OUTPUTS / "result.json").write_text(json.dumps({"accuracy": accuracy, "ranks": world}))
    accelerator.end_training()


if __name__ == "__main__":
    CHECKPOINTS.mkdir(exist_ok=True)
    main()
