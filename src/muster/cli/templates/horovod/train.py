"""Fits a line with Horovod: each rank has points of its own, all share one model, and their number may change."""

import os

import horovod.torch as hvd
import torch

import muster


@hvd.elastic.run
def train(state):
    """Begins once more, with what was committed last, whenever the number of ranks changes."""
    torch.manual_seed(hvd.rank())
    x = torch.rand(1000, 1) * 2 - 1
    y = 3 * x - 1 + torch.randn(1000, 1) * 0.1
    while state.step < 100:
        state.optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(state.model(x), y)
        loss.backward()
        state.optimizer.step()
        state.step += 1
        if hvd.rank() == 0:
            muster.report(step=state.step, loss=loss.item())
        if state.step % 10 == 0:
            state.commit()


if __name__ == "__main__":
    hvd.init()
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    train(hvd.elastic.TorchState(model=model, optimizer=optimizer, step=0))

    slope, height = model.weight.item(), model.bias.item()
    print(f"rank {hvd.rank()} of {hvd.size()}: y = {slope:.2f} x + {height:.2f}")
    if hvd.rank() == 0:
        os.makedirs("outputs", exist_ok=True)
        torch.save(model.state_dict(), "outputs/model.pt")
    assert abs(slope - 3) < 0.1 and abs(height + 1) < 0.1
