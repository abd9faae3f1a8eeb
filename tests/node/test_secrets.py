"""A secret reaches the script and nothing else: no file, no plan, no log, no command line, no node program."""

from __future__ import annotations

from pathlib import Path

from tests.harness import Muster, eventually, marked
from tests.node.hands import heard, parent_of, record_of, result_of, texts_of

SECRET = "correct horse battery staple"
MANY = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSjAgEA\n-----END KEY-----"

SCRIPT = """
import os, pathlib, sys, time

secret, key = os.environ["WANDB_API_KEY"], os.environ["SIGNING_KEY"]
print("it is", secret, flush=True)
print(key, flush=True)
print("in two", "writes:", end=" ")
sys.stdout.write(secret[:5])
sys.stdout.flush()
time.sleep(0.2)
sys.stdout.write(secret[5:] + chr(10))
print(len(secret), len(key), file=sys.stderr, flush=True)
while not pathlib.Path(os.environ["GO"]).exists():
    time.sleep(0.02)
raise RuntimeError(f"cannot log in with {secret}")
"""


def holding(folder: Path, word: bytes) -> list[Path]:
    """The files below a folder that hold this word, even in a part of a line; packed or not."""
    found = []
    for path in folder.rglob("*"):
        try:
            if path.is_file() and not path.is_symlink() and word in path.read_bytes():
                found.append(path)
        except FileNotFoundError:
            continue  # it was there for a moment
    return found


def test_a_secret_is_in_the_scripts_environment_and_nowhere_else(muster: Muster, mark: str, tmp_path: Path) -> None:
    go = muster.folder / "go"
    job = muster.job(SCRIPT, workers=1, secrets=["WANDB_API_KEY", "SIGNING_KEY"])
    env = {"WANDB_API_KEY": SECRET, "SIGNING_KEY": MANY, "GO": str(go)}
    planned = muster("plan", job, check=0, **env)
    assert "WANDB_API_KEY" in planned.stdout
    assert SECRET not in planned.stdout
    assert SECRET not in muster("plan", job, "--json", check=0, **env).stdout
    launcher = muster.start("run", job, **env)
    run = muster.run_id()
    heard(muster, run, "in two writes: ***", times=2)
    words = [SECRET.encode(), b"MIIEvQIBADANBgkqhkiG9w0B", b"AQEFAASCBKcwggSjAgEA"]
    for word in words:
        assert holding(tmp_path, word) == []
        assert not [line for line in marked(mark).values() if word.decode() in line]
    for node in ("main", "worker-1"):
        program = record_of(muster, run, node)["pid"]
        for pid in (program, parent_of(program)):
            assert SECRET.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
    go.touch()
    shown, told = launcher.communicate(timeout=60)
    assert launcher.returncode == 1
    for word in words:
        assert holding(tmp_path, word) == []
        assert word.decode() not in shown + told
    assert "RuntimeError: cannot log in with ***" in told
    assert texts_of(muster, run, "err").count(f"{len(SECRET)} {len(MANY)}") == 2
    for verb in (["logs", run], ["logs", run, "--json"], ["status", run], ["status", run, "--json"]):
        assert SECRET not in muster(*verb).stdout


def test_a_detached_run_has_its_secrets_too(muster: Muster, tmp_path: Path) -> None:
    go = muster.folder / "go"
    go.touch()
    job = muster.job("import os\nprint(len(os.environ['TOKEN']))\n", workers=0, secrets=["TOKEN"])
    run = muster("run", job, "--detach", TOKEN=SECRET).stdout.strip()
    eventually((muster.runs / run / "result.json").exists)
    assert texts_of(muster, run) == [str(len(SECRET))]
    assert holding(tmp_path, SECRET.encode()) == []


def test_a_missing_secret_is_an_error_before_anything_exists(muster: Muster) -> None:
    job = muster.job(SCRIPT, workers=1, secrets=["WANDB_API_KEY", "SIGNING_KEY"])
    for words in (["run"], ["run", "--detach"]):
        done = muster(*words, job, check=120, SIGNING_KEY="here")
        assert "secrets: WANDB_API_KEY not in your environment" in done.stderr
        assert "export WANDB_API_KEY=" in done.stderr
        assert "SIGNING_KEY not" not in done.stderr
        assert not muster.home.exists()


def test_secrets_that_are_too_large_are_refused(muster: Muster) -> None:
    job = muster.job("", workers=0, secrets=["A"])
    done = muster("run", job, check=120, A="x" * 70_000)
    assert "more than 60,000 bytes" in done.stderr
    assert result_of(muster, muster.run_id())["end"] == "launch-refused"
