"""Oracle ADS files on this machine: real clusters of several nodes, with scripts that know only what ADS tells them."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.harness import Muster, eventually
from tests.needs import needs

pytestmark = pytest.mark.slow

DASK = """\
kind: distributed
apiVersion: v1.0
spec:
  infrastructure:
    kind: infrastructure
    type: dataScienceJob
    apiVersion: v1.0
    spec: {compartmentId: ocid1.compartment.oc1..aaa, subnetId: ocid1.subnet.oc1..bbb, shapeName: VM.Standard2.4}
  cluster:
    kind: DASK
    apiVersion: v1.0
    spec:
      image: "@image"
      workDir: "oci://bucket@namespace/dask/001"
      name: Grid Search
      config:
        env:
          - {name: nthread, value: 2}
          - {name: WHO, value: cluster}
      main:
        config:
          startOptions: ["--port 8788"]
      worker:
        replicas: 2
        config:
          env:
            - {name: WHO, value: worker}
          startOptions:
            - --worker-port 8700:8800
            - --nanny-port 3000:3100
            - --nworkers ${nprocs} --nthreads $nthread
  runtime:
    kind: python
    apiVersion: v1.0
    spec:
      entryPoint: "/code/gridsearch.py"
      args: --data /code/data
      kwargs: "--cv 5"
      env:
        - {name: SIZE, value: 7}
"""

GRID_SEARCH = """
import argparse, json, os
from dask.distributed import Client
from helper import square

parser = argparse.ArgumentParser()
parser.add_argument("--data")
parser.add_argument("--cv", type=int)
args = parser.parse_args()
client = Client(f"{os.environ['SCHEDULER_IP']}:{os.environ.get('SCHEDULER_PORT', '8786')}")
workers = client.scheduler_info(n_workers=-1)["workers"].values()
names = ("MODE", "CLUSTER_TYPE", "WORKER_COUNT", "PS_COUNT", "EPHEMERAL", "ENTRY_SCRIPT")
found = {
    "cv": args.cv,
    "data": open(os.path.join(args.data, "numbers.txt")).read(),
    "squares": client.gather(client.map(square, range(int(os.environ["SIZE"])))),
    "threads": sorted(worker["nthreads"] for worker in workers),
    "who": sorted(client.run(lambda: os.environ["WHO"] + " " + os.environ["OCI__MODE"]).values()),
    "mine": os.environ["WHO"],
    "oci": {name: os.environ.get("OCI__" + name) for name in names},
    "code": os.path.samefile(os.environ["OCI__CODE_DIR"], "."),
    "work": os.path.isdir(os.path.join(os.environ["OCI__WORK_DIR"], os.environ["JOB_OCID"])),
    "run": os.environ["JOB_RUN_OCID"] == os.environ["JOB_OCID"] + "/main",
    "rank": os.environ.get("OCI__RANK"),
    "scheduler": client.scheduler.address,
}
with open(os.path.join(os.environ["OCI__SYNC_DIR"], "result.json"), "w") as file:
    json.dump(found, file)
"""


def brought_home(muster: Muster, name: str = "result.json") -> Any:
    muster("outputs", muster.run_id(), "--to", muster.folder / "brought")
    return json.loads((muster.folder / "brought" / name).read_text())


def ads_project(muster: Muster) -> Path:
    """What a user of ADS has: the file, and beside it what its image has under /code."""
    folder = muster.folder / "project"
    (folder / "data").mkdir(parents=True)
    (folder / "train.yaml").write_text(DASK)
    (folder / "gridsearch.py").write_text(GRID_SEARCH)
    (folder / "helper.py").write_text("def square(number):\n    return number * number\n")
    (folder / "data" / "numbers.txt").write_text("0 1 2")
    return folder / "train.yaml"


FOUND = {
    "cv": 5,
    "data": "0 1 2",
    "squares": [0, 1, 4, 9, 16, 25, 36],
    "threads": [2, 2],
    "who": ["worker WORKER", "worker WORKER"],
    "mine": "cluster",
    "oci": {
        "MODE": "MAIN",
        "CLUSTER_TYPE": "DASK",
        "WORKER_COUNT": "2",
        "PS_COUNT": None,
        "EPHEMERAL": "1",
        "ENTRY_SCRIPT": "gridsearch.py",
    },
    "code": True,
    "work": True,
    "run": True,
    "rank": None,
}


def test_a_dask_file_of_ads_runs_as_a_cluster_of_three(muster: Muster) -> None:
    # As inside a job run of ADS's, whose own environment must not be taken for that of the nodes.
    done = muster("run", ads_project(muster), OCI__MODE="PS", OCI__WORKER_COUNT="9", OCI__RANK="5")
    assert "infrastructure and workDir (oci://bucket@namespace/dask/001) are for Oracle's cloud" in done.stderr
    found = brought_home(muster)
    assert found.pop("scheduler").startswith("tcp://127.0.0.1:")
    assert found == FOUND


def test_the_code_may_lie_elsewhere_and_what_convert_prints_runs_the_same(muster: Muster) -> None:
    file = ads_project(muster)
    alone = muster.folder / "alone" / "train.yaml"
    alone.parent.mkdir()
    file.rename(alone)
    refused = muster("run", alone, check=125)
    assert f"entry: there is no 'gridsearch.py' in {alone.parent}" in refused.stderr
    assert "`--code DIR` names another" in refused.stderr
    muster("convert", alone, "-o", alone.with_name("job.yaml"))
    muster("run", alone.with_name("job.yaml"), "--code", file.parent)
    found = brought_home(muster)
    del found["scheduler"]
    assert found == FOUND


PYTORCH = """\
kind: distributed
apiVersion: v1.0
spec:
  cluster:
    kind: PyTorch
    apiVersion: v1.0
    spec:
      image: region.ocir.io/tenancy/pytorch:1
      workDir: oci://bucket@namespace/pytorch
      config: {env: [{name: OMP_NUM_THREADS, value: 1}]}
      main: {name: PyTorch-main, replicas: 1}
      worker: {name: PyTorch-worker, replicas: 2}
  runtime:
    kind: python
    apiVersion: v1.0
    spec:
      entryPoint: /opt/app/train.py
      codeDir: /opt/app
      pythonPath: [/opt/app/src]
      args: [--out, /opt/app/out, --factor, 2]
"""

TRAIN = """
import argparse, json, os
import torch, torch.distributed
import model

parser = argparse.ArgumentParser()
parser.add_argument("--out")
parser.add_argument("--factor", type=int)
args = parser.parse_args()
world_size, rank, local_rank = (int(os.environ[name]) for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK"))
assert os.environ["MASTER_ADDR"] and os.environ["MASTER_PORT"]
torch.distributed.init_process_group("gloo")
total = torch.tensor([model.value(rank) * args.factor])
torch.distributed.all_reduce(total)
os.makedirs(args.out, exist_ok=True)
with open(os.path.join(args.out, "rank.txt"), "w") as file:
    file.write(f"{rank} {local_rank} {os.environ['OCI__MODE']}")
if rank == 0:
    with open(os.path.join(os.environ["OCI__SYNC_DIR"], "result.json"), "w") as file:
        json.dump({"total": int(total), "world": world_size, "out": os.listdir(args.out)}, file)
torch.distributed.destroy_process_group()
"""


def test_a_pytorch_file_of_ads_runs_on_three_nodes(muster: Muster) -> None:
    folder = muster.folder / "app"
    (folder / "src").mkdir(parents=True)
    (folder / "train.yaml").write_text(PYTORCH)
    (folder / "train.py").write_text(TRAIN)
    (folder / "src" / "model.py").write_text("def value(rank):\n    return 10 ** rank\n")
    muster("run", folder / "train.yaml")
    assert brought_home(muster) == {"total": 222, "world": 3, "out": ["rank.txt"]}


def test_code_from_git_runs_with_its_own_folders_on_the_path(muster: Muster) -> None:
    needs("git")
    repository = muster.folder / "repository"
    (repository / "src").mkdir(parents=True)
    (repository / "train.py").write_text(TRAIN)
    (repository / "src" / "model.py").write_text("def value(rank):\n    return 100 ** rank\n")
    git = [
        "git",
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b",
        "-c",
        "init.defaultBranch=develop",
        "-C",
        str(repository),
    ]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *words], check=True)
    (repository / "src" / "model.py").write_text("raise RuntimeError('not committed')\n")
    whole = yaml.safe_load(PYTORCH)
    whole["spec"]["cluster"]["spec"]["worker"]["replicas"] = 1
    whole["spec"]["runtime"] |= {"type": "git"}
    whole["spec"]["runtime"]["spec"] |= {"uri": repository.as_uri(), "branch": "develop"}
    (muster.folder / "train.yaml").write_text(yaml.safe_dump(whole))
    muster("run", "train.yaml")
    assert brought_home(muster) == {"total": 202, "world": 2, "out": ["rank.txt"]}


FILES = Path(__file__).parents[1] / "spec" / "ads"

SERVERS = """
import json, os, socket, time

config = json.loads(os.environ["TF_CONFIG"])
kind, index = config["task"]["type"], config["task"]["index"]


def place(text):
    host, _, port = text.rpartition(":")
    return host, int(port)


own = socket.create_server(place(config["cluster"][kind][index]))
print(os.environ["OCI__MODE"], kind, index, os.environ["OCI__PS_COUNT"], os.environ.get("TF_NUM_INTEROP_THREADS"))
if kind == "chief":
    for other in (text for places in config["cluster"].values() for text in places):
        for _ in range(600):
            try:
                with socket.create_connection(place(other)) as link:
                    link.sendall(b"chief")
                break
            except ConnectionRefusedError:
                time.sleep(0.1)
    print("all answered")
elif kind == "worker":
    while own.accept()[0].recv(5) != b"chief":  # others only look whether somebody is there
        pass
else:
    time.sleep(1000)
"""


def needs_module(name: str) -> None:
    if find_spec(name) is None:
        pytest.skip(f"this test needs {name}")


def run_file(muster: Muster, name: str, script: str) -> list[str]:
    """Runs one of the files with this as its script; the lines that it printed, in order."""
    (muster.folder / "train.yaml").write_text((FILES / f"{name}.yaml").read_text())
    (muster.folder / "train.py").write_text(script)
    return sorted(muster("run", "train.yaml").stdout.splitlines())


def test_a_tensorflow_file_of_ads_runs_with_its_parameter_servers(muster: Muster) -> None:
    needs_module("tensorflow")
    assert run_file(muster, "tensorflow-ps", SERVERS) == [
        "[ps-1 ps-1] PS ps 0 2 2",
        "[ps-2 ps-2] PS ps 1 2 2",
        "[rank 0] MAIN chief 0 2 None",
        "[rank 0] all answered",
        "[rank 1] WORKER worker 0 2 None",
    ]


def test_a_horovod_file_of_ads_runs_with_its_slots(muster: Muster) -> None:
    needs_module("horovod")
    script = (
        "import os, sys, torch, horovod.torch as hvd\n"
        "hvd.init()\n"
        "total = hvd.allreduce(torch.tensor([hvd.rank()]), op=hvd.Sum).item()\n"
        "print(os.environ['OCI__MODE'], hvd.local_rank(), hvd.size(), total, sys.argv[1:])\n"
    )
    args = "['--data-dir', 'data/mnist.npz']"
    assert run_file(muster, "horovod", script) == [
        f"[rank 0] MAIN 0 4 6 {args}",
        f"[rank 1] MAIN 1 4 6 {args}",
        f"[rank 2] WORKER 0 4 6 {args}",
        f"[rank 3] WORKER 1 4 6 {args}",
    ]


# --- Dask over TLS -------------------------------------------------------------------------------------


def certificates(folder: Path) -> None:
    """A certificate authority, and a certificate with its key that it signed."""
    needs("openssl")
    key = ("-newkey", "rsa:2048", "-nodes")
    authority = ("-keyout", "ca-key.pem", "-out", "ca-cert.pem", "-days", "2", "-subj", "/CN=authority")
    subject = ("-keyout", "key.pem", "-out", "request.pem", "-subj", "/CN=cluster")
    sign = ("-req", "-in", "request.pem", "-CA", "ca-cert.pem", "-CAkey", "ca-key.pem", "-CAcreateserial", "-days", "2")
    for words in (("req", "-x509", *key, *authority), ("req", *key, *subject), ("x509", *sign, "-out", "cert.pem")):
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


def with_tls(muster: Muster) -> Path:
    file = ads_project(muster)
    whole = yaml.safe_load(file.read_text())
    whole["spec"]["cluster"]["spec"]["certificate"] = {
        "caCert": {"id": "ocid1.certificateauthority.oc1..a", "downloadLocation": "/code/ca-cert.pem"},
        "cert": {
            "id": "ocid1.certificate.oc1..b",
            "certDownloadLocation": "/code/cert.pem",
            "keyDownloadLocation": "/code/key.pem",
        },
    }
    file.write_text(yaml.safe_dump(whole))
    return file


def test_dask_over_tls_runs_a_script_that_knows_nothing_of_it(muster: Muster) -> None:
    file = with_tls(muster)
    missing = muster("run", file, check=125)
    assert f"options.tls_ca_file: there is no file {file.with_name('ca-cert.pem')}" in missing.stderr
    certificates(file.parent)
    muster("run", file)
    found = brought_home(muster)
    assert found.pop("scheduler").startswith("tls://127.0.0.1:")
    assert found == FOUND


CONNECT = """
import sys
from dask.distributed import Client
from distributed.security import Security

address, patience, ca, cert, key = sys.argv[1:]
security = Security(tls_ca_file=ca, tls_client_cert=cert, tls_client_key=key, require_encryption=True) if ca else None
with Client(address, security=security, timeout=patience) as client:
    print(client.submit(sum, [1, 2]).result())
"""


def test_a_client_without_the_certificate_is_refused(muster: Muster) -> None:
    file = with_tls(muster)
    certificates(file.parent)
    (file.parent / "other").mkdir()
    certificates(file.parent / "other")
    whole = yaml.safe_load(file.read_text())
    whole["spec"]["cluster"]["spec"]["ephemeral"] = False
    del whole["spec"]["runtime"]["spec"]["entryPoint"]
    file.write_text(yaml.safe_dump(whole))
    muster("run", file, "--detach")
    run = muster.run_id()
    status = eventually(lambda: ready(muster, run), within=60)
    main = next(node for node in status["nodes"] if node["node"] == "main")
    place = f"127.0.0.1:{main['ports']['scheduler']}"

    def connect(scheme: str, folder: Path | None, patience: str = "60s") -> subprocess.CompletedProcess[str]:
        files = [str(folder / name) if folder else "" for name in ("ca-cert.pem", "cert.pem", "key.pem")]
        words = [sys.executable, "-c", CONNECT, f"{scheme}://{place}", patience, *files]
        return subprocess.run(words, env=muster.env, capture_output=True, text=True, timeout=120)

    assert connect("tls", file.parent).stdout == "3\n"
    plain, stranger = connect("tcp", None, "15s"), connect("tls", file.parent / "other", "15s")
    assert (plain.stdout, stranger.stdout) == ("", "")
    assert "Connection reset by peer" in plain.stderr or "Timed out" in plain.stderr
    assert "CERTIFICATE_VERIFY_FAILED" in stranger.stderr
    # It was the certificate, and not that nobody was there.
    assert connect("tls", file.parent).stdout == "3\n"
    muster("stop", run)


def ready(muster: Muster, run: str) -> Any:
    status = json.loads(muster("status", run, "--json", check=None).stdout or "{}")
    return (
        status if status.get("state") == "running" and all(n["state"] == "running" for n in status["nodes"]) else None
    )
