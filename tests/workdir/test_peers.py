"""Other people's clients read what we wrote, and write what we read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from muster.rehearsal import oracle, s3
from muster.workdir.opening import open_store
from tests.needs import needs_file

PEERS = Path(sys.prefix) / "peers" / "bin"
KEYS = {
    "run/plain.json": b'{"a": 1}',
    "run/odd name+&=?#%41.txt": b"odd",
    "run/ünïcödé/文.bin": bytes(range(256)),
    "run/empty": b"",
}

_READ = """
import json, sys
import fsspec
fs = fsspec.filesystem(sys.argv[1], **json.loads(sys.argv[2]))
root = sys.argv[3]
found = {path[len(root) + 1:]: fs.cat_file(path).hex() for path in fs.find(root)}
fs.pipe_file(root + "/theirs/odd name+&=#.txt", b"from them")
fs.pipe_file(root + "/theirs/large.bin", b"0123456789abcdef" * (1 << 20))
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def bucket() -> Iterator[s3.S3Server]:
    with s3.started("training") as server:
        yield server


@pytest.fixture
def aws(bucket: s3.S3Server, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, str]:
    for name, value in bucket.environment.items():
        monkeypatch.setenv(name, value)
    return bucket.environment


def peer(*words: str, env: Mapping[str, str] | None = None) -> str:
    """What a program of the peers' own environment prints."""
    program = needs_file(PEERS / words[0])
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "AWS_", "OCI_"))}
    done = subprocess.run(
        [program, *words[1:]], env={**plain, **(env or {})}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_aws_command_line_and_we_understand_each_other(aws: Mapping[str, str], tmp_path: Path) -> None:
    store = open_store("s3://training/cli")
    for key, content in KEYS.items():
        store.put(key, content)
    peer("aws", "s3", "cp", "--recursive", "--quiet", "s3://training/cli", str(tmp_path / "got"), env=aws)
    got = {str(path.relative_to(tmp_path / "got")): path.read_bytes() for path in (tmp_path / "got").rglob("*.*")}
    assert got == {key: content for key, content in KEYS.items() if content}
    (tmp_path / "large.bin").write_bytes(os.urandom(20 << 20))
    peer("aws", "s3", "cp", "--quiet", str(tmp_path / "large.bin"), "s3://training/cli/theirs/large 1.bin", env=aws)
    assert store.get("theirs/large 1.bin") == (tmp_path / "large.bin").read_bytes()


def test_s3fs_and_we_understand_each_other(bucket: s3.S3Server, aws: Mapping[str, str]) -> None:
    store = open_store("s3://training/s3fs")
    for key, content in KEYS.items():
        store.put(key, content)
    options = json.dumps({"endpoint_url": bucket.endpoint})
    found = json.loads(peer("python", "-c", _READ, "s3", options, "training/s3fs", env=aws))
    assert {key: bytes.fromhex(content) for key, content in found.items()} == KEYS
    assert store.get("theirs/odd name+&=#.txt") == b"from them"
    assert store.get("theirs/large.bin") == b"0123456789abcdef" * (1 << 20)


def test_ocifs_and_we_understand_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with oracle.started("training") as cloud:
        user = cloud.make_user(tmp_path)
        monkeypatch.setenv("OCI_CONFIG_FILE", str(user.config_file))
        store = open_store(f"oci://training@{cloud.namespace}/ocifs?endpoint={cloud.endpoint}")
        for key, content in KEYS.items():
            store.put(key, content)
        reached = {"config": str(user.config_file), "config_kwargs": {"service_endpoint": cloud.endpoint}}
        options = json.dumps({**reached, "region": cloud.region})
        found = json.loads(peer("python", "-c", _READ, "oci", options, f"training@{cloud.namespace}/ocifs"))
        assert {key: bytes.fromhex(content) for key, content in found.items()} == KEYS
        assert store.get("theirs/odd name+&=#.txt") == b"from them"
        assert store.get("theirs/large.bin") == b"0123456789abcdef" * (1 << 20)
