"""A node asks its bucket from several threads at once, and the first of them all load obstore."""

from __future__ import annotations

import subprocess
import sys

import pytest

ASKS = """
import sys, threading
sys.setswitchinterval(1e-6)
from muster.errors import StoreError
from muster.workdir.obstore_clients import opened
from muster.workdir.opening import open_store

store = open_store("s3://bucket/prefix?endpoint=http://127.0.0.1:9&region=us-east-1")
together, seen = threading.Barrier(8), []

def ask(number):
    together.wait()
    try:
        if number % 2:
            opened("S3Store", "bucket", {})
        else:
            store._bucket.get("name", 0, 1)
    except StoreError:
        pass  # nobody is there to answer
    except BaseException as error:
        seen.append(repr(error))

threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert not seen, seen
"""


@pytest.mark.parametrize("attempt", range(8))
def test_threads_that_load_it_at_once_are_given_a_whole_module(attempt: int) -> None:
    keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_EC2_METADATA_DISABLED": "true"}
    done = subprocess.run([sys.executable, "-c", ASKS], env=keys, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
