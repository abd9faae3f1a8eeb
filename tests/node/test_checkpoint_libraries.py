"""What libraries do when they save, as docs/checkpoints.md tells it: which of their files a node goes on from."""

from __future__ import annotations

import asyncio
import importlib.util
from pathlib import Path

import pytest

from tests.node.hearth import Hearth

pytestmark = pytest.mark.slow

TORCH = """
import os, warnings
warnings.simplefilter('ignore')
import muster, torch
import torch.distributed.checkpoint as dcp
weights = {'a': torch.zeros(1000)}
torch.save(weights, 'checkpoints/in-place.pt')
torch.save(weights, 'checkpoints/replaced.pt.tmp')
os.replace('checkpoints/replaced.pt.tmp', 'checkpoints/replaced.pt')
dcp.save(weights, checkpoint_id='checkpoints/dcp')
dcp.save(weights, checkpoint_id='checkpoints/named')
muster.checkpoint('checkpoints/named')
"""

SAFETENSORS = """
import torch
from safetensors.torch import save_file
save_file({'a': torch.zeros(1000)}, 'checkpoints/model.safetensors')
"""

ACCELERATE = """
import os
import muster, torch
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
model = torch.nn.Linear(2, 2)
model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9))
accelerator.save_state('checkpoints/in-place')
accelerator.save_state('checkpoints/named')
muster.checkpoint('checkpoints/named')
accelerator.save_state('checkpoints/renamed.tmp')
os.rename('checkpoints/renamed.tmp', 'checkpoints/renamed')
"""

LIGHTNING = """
import warnings
warnings.simplefilter('ignore')
import lightning, torch
from lightning.pytorch.callbacks import ModelCheckpoint

class Line(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)
    def training_step(self, batch, _):
        return self.layer(batch[0]).sum()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)

data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.zeros(4, 2)), batch_size=2)
saving = ModelCheckpoint(dirpath='checkpoints', filename='{epoch}', save_top_k=-1, save_last='link')
lightning.Trainer(
    max_epochs=2, accelerator='cpu', logger=False, enable_progress_bar=False, enable_model_summary=False,
    callbacks=[saving],
).fit(Line(), data)
"""

TENSORFLOW = """
import os
os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
import keras, muster, tensorflow as tf
checkpoint = tf.train.Checkpoint(step=tf.Variable(1))
tf.train.CheckpointManager(checkpoint, 'checkpoints', max_to_keep=1).save()
checkpoint.write('checkpoints/written')
muster.checkpoint(checkpoint.write('checkpoints/named'))
model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
model.save('checkpoints/model.keras')
model.save_weights('checkpoints/model.weights.h5')
"""

DATA = "data-00000-of-00001"


@pytest.mark.parametrize(
    ("library", "script", "kept"),
    [
        ("torch", TORCH, ["named/.metadata", "named/__0_0.distcp", "replaced.pt"]),
        ("safetensors", SAFETENSORS, ["model.safetensors"]),
        (
            "accelerate",
            ACCELERATE,
            [
                f"{folder}/{file}"
                for folder in ("named", "renamed")
                for file in ("model.safetensors", "optimizer.bin", "random_states_0.pkl")
            ],
        ),
        ("lightning", LIGHTNING, ["epoch=0.ckpt", "epoch=1.ckpt", "last.ckpt"]),
        (
            "tensorflow",
            TENSORFLOW,
            # The data of the second is complete too: it is renamed, and stands at the top.
            ["checkpoint", f"ckpt-1.{DATA}", "ckpt-1.index", f"named.{DATA}", "named.index", f"written.{DATA}"],
        ),
    ],
)
def test_a_node_goes_on_from_what_the_library_completed(
    library: str, script: str, kept: list[str], tmp_path: Path
) -> None:
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    assert asyncio.run(left_after(script, tmp_path)) == kept


async def left_after(script: str, base: Path) -> list[str]:
    hearth = Hearth(base)
    await hearth.run_until(script)
    await hearth.home.settle(2)
    hearth.close()
    return sorted(hearth.tree())
