"""Dask over TLS, on real nodes: strangers are turned away, and the key stays where it belongs."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.clouds.pems import Pems
from muster.errors import NodeError
from muster.frameworks.base import Certificates
from muster.frameworks.dask import Dask
from muster.node import tls
from muster.node.settings import Settings, read_settings
from muster.rehearsal import oracle, principals
from muster.rehearsal.certificate_service import CertificateService
from muster.rehearsal.front import Server
from muster.rehearsal.identity import Identity
from muster.rehearsal.object_storage import ObjectStorage
from muster.rehearsal.oracle_cloud import OracleCloud
from muster.rehearsal.steering import Steering
from muster.spec.job import Job
from muster.workdir.home import certificates_folder, keep_node_folder, tidy_node_folder
from muster.workdir.memory import MemoryStore
from muster.workdir.records import PROTOCOL
from muster.workdir.run import RunFolder
from muster.workdir.tls import certificates_of, lay_out, made_here
from tests.harness import Muster, eventually, marked
from tests.node.hands import by_hand, ended, read_json, script_of, texts_of
from tests.node.test_secrets import holding

SCRIPT = """
import json, os, pathlib, time
from distributed import Client

client = Client()
again = Client(f"{os.environ['SCHEDULER_IP']}:{os.environ['SCHEDULER_PORT']}")
print("sum", again.submit(sum, range(10)).result(), flush=True)

def places():
    found = client.scheduler_info(n_workers=-1)
    workers = found["workers"].items()
    return [found["address"], *(place for address, worker in workers for place in (address, worker["nanny"]))]

while not pathlib.Path(os.environ["LEAVE"]).exists():
    whole = pathlib.Path(os.environ["PLACES"])
    whole.with_suffix(".part").write_text(json.dumps(places()))
    whole.with_suffix(".part").rename(whole)
    time.sleep(0.1)
"""


def places_of(muster: Muster, workers: int) -> list[str]:
    """Where scheduler, workers and nannies listen, once there are so many workers."""

    def look() -> list[str] | None:
        found: list[str] = json.loads(path.read_text()) if path.exists() else []
        return found if len(found) == 1 + 2 * workers else None

    path = muster.folder / "places"
    return list(eventually(look, within=90))


def env_of(muster: Muster) -> dict[str, str]:
    return {"LEAVE": str(muster.folder / "leave"), "PLACES": str(muster.folder / "places")}


# --- strangers -----------------------------------------------------------------------------------------------


def answered(place: str, context: ssl.SSLContext | None) -> bytes:
    """What Dask says first to who comes in this way, with TLS or without; an error where it does not let them in."""
    host, _, port = place.removeprefix("tls://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        if context is None:
            connection.sendall(b"\0" * 64)
            return connection.recv(64)
        with context.wrap_socket(connection) as encrypted:
            return encrypted.recv(64)


def visitor(trusted: Path, certificate: Path | None = None, key: Path | None = None) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=str(trusted))
    made.check_hostname = False
    if certificate:
        made.load_cert_chain(certificate, key)
    return made


def turned_away(place: str, context: ssl.SSLContext | None) -> bool:
    """By a word of TLS (which is an alert's, where it is not understood), or without a word."""
    try:
        return answered(place, context)[:1] in (b"", b"\x15")
    except (ssl.SSLError, ConnectionResetError):
        return True


def test_only_nodes_of_the_run_are_let_in_and_the_key_is_in_their_folders_alone(
    muster: Muster, mark: str, tmp_path: Path
) -> None:
    job = muster.job(SCRIPT, "dask", workers=2, options={"tls": True}, env=env_of(muster))
    launcher = muster.start("run", job)
    run = muster.run_id()
    places = places_of(muster, 2)
    assert {place.partition("://")[0] for place in places} == {"tls"}
    folders = [certificates_folder(muster.home / "nodes" / run / node) for node in ("main", "worker-1", "worker-2")]
    authority, certificate, key = (folders[0] / name for name in ("ca.pem", "cert.pem", "key.pem"))
    _, foreign_certificate, foreign_key = lay_out(made_here(60), tmp_path / "stranger")
    for place in places:
        assert answered(place, visitor(authority, certificate, key)), "whoever has the certificate is let in"
        assert turned_away(place, visitor(authority)), "a client without a certificate"
        assert turned_away(place, visitor(authority, foreign_certificate, foreign_key)), "one of another authority"
        assert turned_away(place, None), "one that does not encrypt"
    for folder in folders:
        assert folder.stat().st_mode & 0o777 == 0o700
        assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
        assert (folder / "key.pem").read_bytes() == key.read_bytes()
    secret = key.read_text().splitlines()[1].encode()
    kept = muster.runs / run / "tls.pem"
    assert sorted(holding(muster.home, secret)) == sorted([kept, *(folder / "key.pem" for folder in folders)])
    assert kept.stat().st_mode & 0o777 == 0o600
    assert answered(places[0], visitor(kept, kept)), "who may read the work dir needs no other file"
    processes = marked(mark)
    assert len(processes) > 6
    for pid, line in processes.items():
        assert secret.decode() not in line
        assert secret not in Path(f"/proc/{pid}/environ").read_bytes()
    (muster.folder / "leave").touch()
    shown, told = launcher.communicate(timeout=90)
    assert launcher.returncode == 0, told
    assert "sum 45" in shown
    assert secret.decode() not in shown + told
    assert holding(muster.home, secret) == [kept]


# --- certificates of the user's own, and another size --------------------------------------------------------


@pytest.mark.slow
def test_a_cluster_with_certificates_of_its_user_grows_and_shrinks(muster: Muster, tmp_path: Path) -> None:
    bounds = {"min": 1, "max": 2}
    authority, certificate, key = lay_out(made_here(600), tmp_path / "mine")
    options = {"tls_ca_file": str(authority), "tls_cert": "cert.pem", "tls_key": str(key)}
    job = muster.job(SCRIPT, "dask", workers=bounds, options=options, env=env_of(muster))
    (job.parent / "code" / "cert.pem").write_bytes(certificate.read_bytes())
    launcher = muster.start("run", job)
    run = muster.run_id()
    before = places_of(muster, 2)
    muster("scale", run, "1")
    assert set(places_of(muster, 1)) < set(before)
    muster("scale", run, "2")
    after = places_of(muster, 2)
    assert {place.partition("://")[0] for place in before + after} == {"tls"}
    assert answered(after[0], visitor(authority, certificate, key))
    (muster.folder / "leave").touch()
    _, told = launcher.communicate(timeout=90)
    assert launcher.returncode == 0, told
    assert "may leave with work undone" not in told, "what retires workers speaks TLS too"
    assert not (muster.runs / run / "tls.pem").exists(), "certificates were made that nobody needs"


# --- certificates of Oracle's service ------------------------------------------------------------------------

AS_ADS_SAYS = """
import os
from distributed import Client
from distributed.security import Security

own = Security(
    tls_ca_file=os.environ["OCI__CA_DOWNLOAD_LOCATION"],
    tls_client_cert=os.environ["OCI__CERTIFICATE_DOWNLOAD_LOCATION"],
    tls_client_key=os.environ["OCI__CERTIFICATE_KEY_DOWNLOAD_LOCATION"],
    require_encryption=True,
)
address = os.environ["SCHEDULER_IP"] + ":" + os.environ["SCHEDULER_PORT"]
with Client(address, security=own) as client, Client() as bare:
    print(client.scheduler_info()["address"].partition("://")[0], bare.submit(sum, range(10)).result(), flush=True)
"""


@pytest.fixture
def rehearsed(tmp_path: Path) -> Iterator[tuple[CertificateService, dict[str, str]]]:
    """A Certificates service, and the environment of a job run that may ask it."""
    identity, service = Identity(), CertificateService()
    controls = oracle.controls(identity, ObjectStorage(tmp_path / "objects"))
    with Server(OracleCloud(identity, service.routes(), controls)) as server:
        env = principals.resource_principal(Steering(server.endpoint))
        yield service, {**env, "MUSTER_OCI_ENDPOINT": server.endpoint}


def test_certificates_of_the_service_are_fetched_by_each_node_and_go_with_it(
    muster: Muster, tmp_path: Path, rehearsed: tuple[CertificateService, dict[str, str]]
) -> None:
    service, principal = rehearsed
    pems = made_here(600)
    ids = service.keep("dask", pems)
    nodes = []
    script = script_of(muster, AS_ADS_SAYS)
    for number, mode in enumerate(("MAIN", "WORKER")):
        folder = tmp_path / "download" / str(number)
        env = {
            **principal,
            "CLUSTER_TYPE": "dask",
            "OCI__CERTIFICATE_AUTHORITY_OCID": ids.authority,
            "OCI__CERTIFICATE_OCID": ids.certificate,
            "OCI__CA_DOWNLOAD_LOCATION": str(folder / "ca.pem"),
            "OCI__CERTIFICATE_DOWNLOAD_LOCATION": str(folder / "cert.pem"),
            "OCI__CERTIFICATE_KEY_DOWNLOAD_LOCATION": str(folder / "key.pem"),
            "OCI__START_ARGS": f"--tls-ca-file {folder}/ca.pem --tls-cert={folder}/cert.pem --tls-key {folder}/key.pem",
        }
        nodes.append(by_hand(muster, "run-1", mode, script, **env))
    assert ended(*nodes, within=120) == [0, 0]
    assert texts_of(muster, "run-1") == ["tls 45"]
    assert holding(tmp_path, pems.key.splitlines()[1].encode()) == []
    assert not (muster.runs / "run-1" / "tls.pem").exists()


# --- certificates that the run makes -------------------------------------------------------------------------

SCHEME = "from distributed import Client\nprint(Client().scheduler_info()['address'][:6])"


def test_main_makes_the_certificates_where_no_launcher_did(muster: Muster) -> None:
    script = script_of(muster, SCHEME)
    env = {"CLUSTER_TYPE": "dask", "MUSTER_TLS": "1", "TIMEOUT": "100"}
    worker = by_hand(muster, "run-1", "WORKER", script, **env)
    eventually(lambda: list((muster.runs / "run-1" / "nodes").glob("worker-*.json")), within=60)
    assert ended(by_hand(muster, "run-1", "MAIN", script, **env), worker, within=120) == [0, 0]
    assert texts_of(muster, "run-1") == ["tls://"]
    assert Pems.of_bundle((muster.runs / "run-1" / "tls.pem").read_text())
    assert read_json(muster.runs / "run-1" / "result.json")["end"] == "script-ended"


@pytest.fixture
def run() -> RunFolder:
    return RunFolder(MemoryStore("tls"), "run-1")


def job_with(**options: Any) -> Job:
    return Job(name="j", framework="dask", options=options, timeout=0.1)


def settings_of(folder: Path, role: str = "main", **more: Any) -> Settings:
    return Settings("memory", "run-1", role, role, None, folder, **more)


@pytest.mark.parametrize(
    ("environment", "options", "made"),
    [
        ({"MUSTER_TLS": "1"}, {}, True),
        ({}, {"tls": True}, True),
        ({}, {}, False),
        ({"MUSTER_TLS": "1"}, {"tls": False}, False),
        ({"MUSTER_TLS": "1", "MUSTER_CERTIFICATE_OCID": "ocid1.certificate"}, {}, False),
        ({"MUSTER_TLS": "1"}, {"tls_ca_file": "a", "tls_cert": "b", "tls_key": "c"}, False),
    ],
)
def test_a_launcher_makes_them_where_the_run_needs_its_own(
    run: RunFolder, environment: dict[str, str], options: dict[str, Any], made: bool
) -> None:
    tls.provide(run, job_with(**options), Dask(), environment)
    assert ("run-1/tls.pem" in [entry.key for entry in run.store.list("")]) is made


def test_a_launcher_that_cannot_make_them_leaves_it_to_main(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "can_make", lambda: False)
    tls.provide(run, job_with(tls=True), Dask(), {})
    assert list(run.store.list("")) == []
    # Its own Python cannot, and the script's can.
    files = tls.lay_out_certificates(
        settings_of(tmp_path), run, job_with(tls=True), Dask(), tmp_path, sys.executable, print
    )
    assert files is not None
    assert files.key.read_text() == certificates_of(run).key


def test_where_no_python_can_make_them_the_line_that_mends_it_is_told(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    monkeypatch.setattr(tls, "can_make", lambda: False)
    python = str(tmp_path / "bare" / "bin" / "python")
    with pytest.raises(NodeError, match=r"nor .* has cryptography to make them") as caught:
        tls.lay_out_certificates(settings_of(tmp_path), run, job_with(tls=True), Dask(), tmp_path, python, print)
    assert f"{python} -m pip install cryptography" in caught.value.fix


def test_a_worker_that_waits_in_vain_says_for_what(run: RunFolder, tmp_path: Path) -> None:
    settings = settings_of(tmp_path, "worker", tls=True)
    with pytest.raises(NodeError, match=r"run run-1 has no certificates yet, after 0.1 s"):
        tls.lay_out_certificates(settings, run, job_with(), Dask(), tmp_path, sys.executable, print)


def test_files_that_the_job_names_and_that_are_not_there_are_named(run: RunFolder, tmp_path: Path) -> None:
    job = job_with(tls_ca_file="ca.pem", tls_cert="/no/cert.pem", tls_key="key.pem")
    (tmp_path / "ca.pem").touch()
    with pytest.raises(NodeError) as caught:
        tls.lay_out_certificates(settings_of(tmp_path), run, job, Dask(), tmp_path, sys.executable, print)
    assert caught.value.message.endswith(f"not on this machine: /no/cert.pem, {tmp_path}/key.pem")


def test_a_file_that_stands_where_a_link_belongs_is_left_and_told(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text("somebody's")
    said: list[str] = []
    laid_out = Certificates(*lay_out(made_here(60), tmp_path / "tls"))
    places = Certificates(*(tmp_path / path.name for path in laid_out))
    for _ in range(2):  # a node that starts again finds its own links
        tls._show(laid_out, places, said.append)
    assert (tmp_path / "key.pem").read_text() == "somebody's"
    assert (tmp_path / "cert.pem").resolve() == laid_out.certificate
    assert len(said) == 2
    assert str(laid_out.key) in said[0]


def test_a_folder_that_is_kept_keeps_no_key(tmp_path: Path) -> None:
    lay_out(made_here(60), certificates_folder(tmp_path / "node"))
    keep_node_folder(tmp_path / "node", keep=True)
    assert not tidy_node_folder(tmp_path / "node")
    assert [path.name for path in (tmp_path / "node").iterdir()] == ["kept"]


PLACE = {"WORK_DIR": "/runs", "MODE": "WORKER", "CLUSTER_TYPE": "dask", "JOB_OCID": "run-1"}
LAUNCHED = {
    "MUSTER_LAUNCHED": "1",
    "MUSTER_PROTOCOL": str(PROTOCOL),
    "MUSTER_WORK_DIR": "/runs",
    "MUSTER_RUN_ID": "run-1",
    "MUSTER_MODE": "WORKER",
}
IDS = {"OCI__CERTIFICATE_AUTHORITY_OCID": "ocid1.ca", "OCI__CERTIFICATE_OCID": "ocid1.cert"}


def test_a_launched_node_hears_its_launcher_alone() -> None:
    ours = {name.replace("OCI__", "MUSTER_"): value for name, value in IDS.items()}
    assert read_settings({**LAUNCHED, **IDS}).certificates is None
    bare = {name.replace("OCI__", ""): value for name, value in IDS.items()}
    for env in ({**LAUNCHED, **ours}, {**PLACE, **IDS}, {**PLACE, **ours}, {**PLACE, **bare}):
        found = read_settings(env).certificates
        assert found is not None
        assert (found.authority, found.certificate) == ("ocid1.ca", "ocid1.cert")
    assert read_settings({**LAUNCHED, "MUSTER_TLS": "1"}).tls
    assert not read_settings(LAUNCHED).tls


def test_half_of_the_ids_is_a_mistake() -> None:
    with pytest.raises(NodeError, match="is set, and not the other"):
        read_settings({**PLACE, "OCI__CERTIFICATE_OCID": "ocid1.cert"})


def test_certificates_among_the_words_for_dask_are_options_on_every_node() -> None:
    words = "--tls-ca-file /ca --memory-limit 1GB --tls-cert=/cert --tls-key /key"
    job = read_settings({**PLACE, "START_ARGS": words}).job
    assert job is not None
    assert job.options == {
        "tls_ca_file": "/ca",
        "tls_cert": "/cert",
        "tls_key": "/key",
        "start_args": ["--memory-limit", "1GB"],
    }
