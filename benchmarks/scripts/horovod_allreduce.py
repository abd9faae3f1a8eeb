"""Joins, adds up one number over all ranks, says so, and says when it came to its last line."""

import time

import horovod.torch as hvd
import torch

hvd.init()
assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == hvd.size()
print("joined at", time.time(), flush=True)
hvd.shutdown()
print("last line at", time.time(), flush=True)
