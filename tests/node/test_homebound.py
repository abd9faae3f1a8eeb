"""What a node brings home at its end stays home, and what it cannot bring is told."""

from __future__ import annotations

import json

from tests.harness import Muster


def test_outputs_that_take_longer_than_a_shipping_round_are_all_there_afterwards(muster: Muster) -> None:
    script = """
import pathlib
folder = pathlib.Path("outputs")
for number in range(6000):
    (folder / f"{number}.txt").write_text(str(number))
"""
    muster("run", muster.job(script, workers=0))
    found = json.loads(muster("outputs", muster.run_id(), "--json").stdout)
    assert len(found) == 6000


def test_an_output_that_leads_out_of_its_folder_is_named(muster: Muster) -> None:
    script = "import os\nos.symlink('/etc/hostname', 'outputs/model.bin')"
    done = muster("run", muster.job(script, workers=0))
    assert "not brought home: model.bin" in done.stderr


def test_a_loss_that_is_no_number_any_more_is_null_in_json(muster: Muster) -> None:
    muster("run", muster.job("import muster\nmuster.report(loss=float('nan'))", workers=0))
    status = json.loads(muster("status", muster.run_id(), "--json").stdout, parse_constant=lambda word: word)
    assert status["nodes"][0]["reported"] == {"rank 0": {"loss": None}}
