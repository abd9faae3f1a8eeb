from tests.harness import Muster
SCRIPT = """
import json, os, pathlib, signal, time
import torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank(); root = pathlib.Path("checkpoints")
have = sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())
print("have", have, flush=True)
gen = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
def save(step):
    d = root / f"step-{step}.tmp"; d.mkdir(); (d / f"shard-{rank}").write_text(f"{step}"); d.rename(root / f"step-{step}")
if gen == 0:
    save(1); dist.barrier(); time.sleep(1)
    if rank == 0:
        save(2); time.sleep(30)
    else:
        d = root / "step-2"; d.mkdir(); f = open(d / "shard-1", "w"); f.write("half"); f.flush(); os.kill(os.getpid(), signal.SIGKILL)
elif gen == 1:
    save(2); dist.barrier()
    os.kill(os.getpid(), signal.SIGKILL) if rank == 1 else time.sleep(30)
"""
def test_whole(muster: Muster):
    done = muster("run", muster.job(SCRIPT, framework="pytorch", workers=1, retries=2))
    print(done.stdout); print(done.stderr)
    lines = [l for l in done.stdout.splitlines() if "have" in l]
    both1 = "['step-1/shard-0', 'step-1/shard-1']"
    both2 = "['step-1/shard-0', 'step-1/shard-1', 'step-2/shard-0', 'step-2/shard-1']"
    for rank in "01":
        mine = [l.partition("have ")[2] for l in lines if l.startswith(f"[rank {rank}]")]
        assert mine == ["[]", both1, both2], mine
