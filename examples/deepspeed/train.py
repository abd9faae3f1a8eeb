"""Teaches a network the next note of a melody, with DeepSpeed's ZeRO, and goes on from a checkpoint.

Nothing in here knows how its processes were started: the `deepspeed` command would do as well.
"""

import argparse
import json
import os
import shutil
from pathlib import Path

import deepspeed
import deepspeed.comm as dist
import torch
from torch import nn

CHECKPOINTS, OUTPUTS = Path("checkpoints"), Path("outputs")
NOTES, HEARD = 12, 8

# On a CPU, DeepSpeed would compile an operation here that only its inference uses.
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False


def melodies(count, generator):
    """Melodies that rise or fall by the same interval at each note, and the note that comes next."""
    first = torch.randint(0, NOTES, (count, 1), generator=generator)
    interval = torch.randint(1, NOTES, (count, 1), generator=generator)
    notes = (first + interval * torch.arange(HEARD + 1)) % NOTES
    return notes[:, :HEARD], notes[:, HEARD]


def save(engine, step):
    """Written beside and renamed into place, so that a half-written checkpoint is never taken for a whole one."""
    whole = CHECKPOINTS / f"step-{step:04}-of-{dist.get_world_size()}"
    draft = whole.with_name(f"{whole.name}.tmp")
    engine.save_checkpoint(CHECKPOINTS, tag=draft.name, save_latest=False)
    dist.barrier()
    if engine.local_rank == 0:
        shutil.rmtree(whole, ignore_errors=True)
        os.replace(draft, whole)


def load(engine):
    """Takes up the newest checkpoint that every rank has its part of, and says how many steps are done.

    ZeRO splits the optimizer's state between the ranks, so another number of them cannot take it up.
    """
    rank, world = dist.get_rank(), dist.get_world_size()
    parts = CHECKPOINTS.glob(f"step-????-of-{world}/*zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")
    newest = torch.tensor(max((int(part.parent.name[5:9]) for part in parts), default=0), device=engine.device)
    dist.all_reduce(newest, dist.ReduceOp.MIN)
    step = newest.item()
    if step:
        engine.load_checkpoint(CHECKPOINTS, tag=f"step-{step:04}-of-{world}")
        print(f"rank {rank} goes on from step {step}")
    return step


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--steps", type=int, default=150)
    arguments.add_argument("--local_rank", type=int, default=-1)
    options = deepspeed.add_config_arguments(arguments).parse_args()

    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Embedding(NOTES, 16), nn.Flatten(), nn.Linear(16 * HEARD, 128), nn.ReLU(), nn.Linear(128, NOTES)
    )
    engine, _, _, _ = deepspeed.initialize(args=options, model=model, model_parameters=model.parameters())
    rank, world = dist.get_rank(), int(os.environ.get("WORLD_SIZE", 1))
    assert engine.dp_world_size == world, f"{engine.dp_world_size} of {world} processes take part"

    begin = load(engine)
    generator = torch.Generator().manual_seed(1000 * begin + rank)
    for step in range(begin + 1, options.steps + 1):
        notes, following = melodies(engine.train_micro_batch_size_per_gpu(), generator)
        loss = nn.functional.cross_entropy(engine(notes.to(engine.device)), following.to(engine.device))
        engine.backward(loss)
        engine.step()
        if step % 50 == 0:
            save(engine, step)
            if rank == 0:
                print(f"step {step:4}  loss {loss.item():.4f}")

    notes, following = melodies(500, torch.Generator().manual_seed(10_000_000 + rank))
    with torch.no_grad():
        right = (engine(notes.to(engine.device)).argmax(dim=1) == following.to(engine.device)).sum()
    dist.all_reduce(right)
    accuracy = right.item() / (500 * world)
    assert accuracy > 0.95, "it has not learnt to go on"
    if rank == 0:
        print(f"finds {accuracy:.1%} of the notes, on {world} ranks")
        OUTPUTS.mkdir(exist_ok=True)
        torch.save(engine.module.state_dict(), OUTPUTS / "model.pt")
        (OUTPUTS / "result.json").write_text(json.dumps({"accuracy": accuracy, "ranks": world}))
    dist.destroy_process_group()


if __name__ == "__main__":
    CHECKPOINTS.mkdir(exist_ok=True)
    main()
