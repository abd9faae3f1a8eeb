"""Teaches a network the shape of a wave, with Lightning's Trainer, and goes on from a checkpoint.

Nothing in here knows how its processes were started: `torchrun` would do as well.
"""

import argparse
import json
import os
from pathlib import Path

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CHECKPOINTS, OUTPUTS = Path("checkpoints"), Path("outputs")


class Wave(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))

    def error(self, batch):
        x, y = batch
        return nn.functional.mse_loss(self.layers(x), y)

    def training_step(self, batch, _):
        return self.error(batch)

    def validation_step(self, batch, _):
        self.log("error", self.error(batch), sync_dist=True)

    def on_validation_epoch_end(self):
        if self.trainer.is_global_zero:
            print(f"epoch {self.current_epoch + 1:3}  error {self.trainer.callback_metrics['error']:.5f}")

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


def wave(count, seed):
    x = torch.rand(count, 1, generator=torch.Generator().manual_seed(seed)) * 6 - 3
    return TensorDataset(x, torch.sin(2 * x))


def last_checkpoint(trainer):
    """The newest that any node has, laid out on all: each has a disk of its own, and Lightning writes on one alone."""
    trainer.strategy.setup_environment()  # the ranks can talk from here on
    names = [""] * trainer.world_size
    torch.distributed.all_gather_object(names, max((path.name for path in CHECKPOINTS.glob("*.ckpt")), default=""))
    if not any(names):
        return None
    owner = names.index(max(names))
    path = CHECKPOINTS / names[owner]
    content = trainer.strategy.broadcast(path.read_bytes() if trainer.global_rank == owner else None, src=owner)
    if trainer.local_rank == 0 and not path.exists():
        path.with_suffix(".tmp").write_bytes(content)
        os.replace(path.with_suffix(".tmp"), path)
    trainer.strategy.barrier()
    print(f"rank {trainer.global_rank} goes on from {path.name}")
    return path


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--epochs", type=int, default=8)
    options = arguments.parse_args()

    lightning.seed_everything(0, verbose=False)
    trainer = lightning.Trainer(
        strategy="ddp",
        devices=int(os.environ.get("LOCAL_WORLD_SIZE", 1)),
        num_nodes=int(os.environ.get("GROUP_WORLD_SIZE", 1)),
        max_epochs=options.epochs,
        check_val_every_n_epoch=2,
        num_sanity_val_steps=0,
        callbacks=[ModelCheckpoint(CHECKPOINTS, filename="{epoch:03}", enable_version_counter=False)],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    begin = last_checkpoint(trainer)
    ranks, world = torch.distributed.get_world_size(), int(os.environ.get("WORLD_SIZE", 1))
    assert ranks == trainer.world_size == world, f"{ranks} of {world} processes take part"

    model = Wave()
    learning = DataLoader(wave(4000, seed=1), batch_size=25, shuffle=True)
    testing = DataLoader(wave(1000, seed=2), batch_size=100)
    trainer.fit(model, learning, testing, ckpt_path=begin)
    with torch.no_grad():
        error = model.error(wave(1000, seed=3).tensors).item()
    assert error < 0.02, "it has not learnt the shape"
    if trainer.is_global_zero:
        print(f"knows the wave to {error:.5f}, on {ranks} ranks")
        OUTPUTS.mkdir(exist_ok=True)
        torch.save(model.state_dict(), OUTPUTS / "model.pt")
        (OUTPUTS / "result.json").write_text(json.dumps({"error": error, "ranks": ranks}))


if __name__ == "__main__":
    CHECKPOINTS.mkdir(exist_ok=True)
    main()
