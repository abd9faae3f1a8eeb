"""Real servers that the tests of stores start, and the world of credentials around them."""

from __future__ import annotations

import getpass
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from muster.rehearsal import s3
from tests.harness import eventually
from tests.needs import needs, needs_file

BUCKET = "training"
AZURITE_ACCOUNT = "devstoreaccount1"
AZURITE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The key that every Azurite has, as its own documentation prints it."""


def forget_aws(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """A machine that nobody has configured for AWS, and that is none of Amazon's."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(folder / "aws-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(folder / "aws-credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def use(monkeypatch: pytest.MonkeyPatch, environment: Mapping[str, str]) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


@dataclass(frozen=True)
class Keys:
    """What a user or a role of AWS signs with."""

    access: str
    secret: str
    token: str = ""

    @property
    def environment(self) -> dict[str, str]:
        return {"AWS_ACCESS_KEY_ID": self.access, "AWS_SECRET_ACCESS_KEY": self.secret}


@dataclass(frozen=True)
class Guarded:
    """S3 that checks signatures and policies. The administrator may do anything."""

    server: s3.S3Server
    administrator: Keys

    def client(self, service: str) -> Any:
        """boto3's, as the administrator."""
        return client(self.server, service, self.administrator)

    def user(self, name: str, *statements: Mapping[str, Any]) -> Keys:
        """A new user who may do what these statements of a policy say."""
        return _user(self.client("iam"), name, statements)

    def role(self, name: str, *statements: Mapping[str, Any]) -> Keys:
        """A new role that may do what these statements say, already taken on."""
        anyone = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": "*"}}
        iam, trust = self.client("iam"), _policy([anyone])
        arn = iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust)["Role"]["Arn"]
        iam.put_role_policy(RoleName=name, PolicyName="rights", PolicyDocument=_policy(statements))
        made = self.client("sts").assume_role(RoleArn=arn, RoleSessionName="test")["Credentials"]
        return Keys(made["AccessKeyId"], made["SecretAccessKey"], made["SessionToken"])

    def dismiss(self, name: str) -> None:
        """This role may do nothing any more."""
        self.client("iam").delete_role_policy(RoleName=name, PolicyName="rights")


@contextmanager
def guarded() -> Iterator[Guarded]:
    """A server that enforces IAM, with the bucket."""
    with s3.started(BUCKET) as server:
        everything = {"Effect": "Allow", "Action": "*", "Resource": "*"}
        administrator = _user(client(server, "iam", Keys("rehearsal", "rehearsal")), "administrator", [everything])
        assert asked("POST", f"{server.endpoint}/moto-api/reset-auth", b"0", {"Content-Type": "text/plain"}) == 200
        yield Guarded(server, administrator)


def client(server: s3.S3Server, service: str, keys: Keys) -> Any:
    import boto3

    return boto3.client(
        service,
        endpoint_url=server.endpoint,
        region_name=s3.REGION,
        aws_access_key_id=keys.access,
        aws_secret_access_key=keys.secret,
    )


def _policy(statements: Iterable[Mapping[str, Any]]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


def _user(iam: Any, name: str, statements: Iterable[Mapping[str, Any]]) -> Keys:
    iam.create_user(UserName=name)
    iam.put_user_policy(UserName=name, PolicyName="rights", PolicyDocument=_policy(statements))
    made = iam.create_access_key(UserName=name)["AccessKey"]
    return Keys(made["AccessKeyId"], made["SecretAccessKey"])


@dataclass
class Role:
    """What gives a machine or a container its credentials, at the addresses that EC2, ECS and EKS have for it.

    Each request for credentials gets those of `given` in turn, the last one again and again.
    """

    url: str
    given: list[tuple[Keys, float]] = field(default_factory=list)
    """Keys, and how many seconds they live."""
    asked: list[str] = field(default_factory=list)
    token: str = ""
    """What a container must show, if anything."""

    def answer(self, handler: BaseHTTPRequestHandler) -> bytes | None:
        path = handler.path
        self.asked.append(f"{handler.command} {path}")
        if path == "/latest/api/token" and handler.command == "PUT":
            return b"a-session"
        if path.startswith("/latest/") and handler.headers.get("X-aws-ec2-metadata-token") != "a-session":
            return None
        if path == "/latest/meta-data/iam/security-credentials/":
            return b"a-role"
        if path == "/container" and handler.headers.get("Authorization", "") != self.token:
            return None
        return self._credentials()

    def _credentials(self) -> bytes:
        keys, seconds = self.given.pop(0) if len(self.given) > 1 else self.given[0]
        until = datetime.now(timezone.utc) + timedelta(seconds=seconds)
        said = {
            "Code": "Success",
            "Type": "AWS-HMAC",
            "AccessKeyId": keys.access,
            "SecretAccessKey": keys.secret,
            "Token": keys.token,
            "LastUpdated": "2026-01-01T00:00:00Z",
            "Expiration": until.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        return json.dumps(said).encode()


@contextmanager
def role() -> Iterator[Role]:
    """Such a service on loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = service.answer(self)
            self.send_response(401 if found is None else 200)
            self.send_header("Content-Length", str(len(found or b"")))
            self.end_headers()
            self.wfile.write(found or b"")

        def do_PUT(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    service = Role(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=lambda: server.serve_forever(0.02), daemon=True)
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass(frozen=True)
class Sshd:
    """An ssh server of one test's own, for the user who runs it."""

    port: int
    folder: Path
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        return f"sftp://{getpass.getuser()}@127.0.0.1:{self.port}{self.folder}"


@contextmanager
def sshd(folder: Path, read_only: bool = False) -> Iterator[Sshd]:
    """OpenSSH's own server on loopback, which knows one key: that of the home which it makes in `folder`."""
    needs("sshd", "ssh-keygen")
    home = folder / "home" / ".ssh"
    home.mkdir(parents=True, mode=0o700)
    for path in (folder / "host_key", home / "id_ed25519"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    port = free_port()
    host = (folder / "host_key.pub").read_text().split()[:2]
    (home / "known_hosts").write_text(f"[127.0.0.1]:{port} {' '.join(host)}\n")
    Path("/run/sshd").mkdir(exist_ok=True) if os.geteuid() == 0 else None
    settings = {
        "Port": port,
        "ListenAddress": "127.0.0.1",
        "HostKey": folder / "host_key",
        "AuthorizedKeysFile": home / "id_ed25519.pub",
        "PidFile": "none",
        "PasswordAuthentication": "no",
        "StrictModes": "no",
        "UsePAM": "no",
        "PermitRootLogin": "yes",
        "MaxStartups": "100",
        "MaxSessions": "100",
        "Subsystem": f"sftp internal-sftp{' -R' if read_only else ''}",
    }
    (folder / "config").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    log = (folder / "log").open("wb")
    program = str(shutil.which("sshd"))
    with log, subprocess.Popen([program, "-D", "-e", "-f", folder / "config"], stderr=log) as process:
        try:
            eventually(lambda: _listens(port) or process.poll() is not None, within=120)
            assert process.poll() is None, (folder / "log").read_text()
            yield Sshd(port, folder / "served", process)
        finally:
            process.terminate()


@contextmanager
def azurite(folder: Path) -> Iterator[str]:
    """Azure's own emulator of Blob Storage, with the container; its endpoint."""
    program = needs_file(Path(sys.prefix) / "azurite" / "node_modules" / ".bin" / "azurite-blob")
    needs("node")
    port = free_port()
    words = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(folder), "--silent"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [program, *words, "--disableTelemetry", "--skipApiVersionCheck"], stdout=log, stderr=log
        )
        try:
            eventually(lambda: _listens(port) or process.poll() is not None, within=120)
            assert process.poll() is None, (folder / "log").read_text()
            endpoint = f"http://127.0.0.1:{port}/{AZURITE_ACCOUNT}"
            make_container(endpoint, BUCKET)
            yield endpoint
        finally:
            process.terminate()
            process.wait()


def make_container(endpoint: str, name: str) -> None:
    """Signed by hand: the store has no business making containers."""
    import base64
    import hashlib
    import hmac

    now = datetime.now(timezone.utc).strftime("%a, %d %b %Y %H:%M:%S GMT")
    version = "2021-12-02"
    place = f"/{AZURITE_ACCOUNT}/{AZURITE_ACCOUNT}/{name}\nrestype:container"
    said = "PUT" + "\n" * 12 + f"x-ms-date:{now}\nx-ms-version:{version}\n{place}"
    signature = base64.b64encode(hmac.digest(base64.b64decode(AZURITE_KEY), said.encode(), hashlib.sha256)).decode()
    headers = {
        "x-ms-date": now,
        "x-ms-version": version,
        "Authorization": f"SharedKey {AZURITE_ACCOUNT}:{signature}",
        "Content-Length": "0",
    }
    assert asked("PUT", f"{endpoint}/{name}?restype=container", b"", headers) == 201


def asked(method: str, url: str, body: bytes, headers: Mapping[str, str]) -> int:
    """The status of the answer to one plain request."""
    place = urlsplit(url)
    connection = HTTPConnection(place.netloc, timeout=30)
    try:
        connection.request(method, f"{place.path}?{place.query}" if place.query else place.path, body, dict(headers))
        return connection.getresponse().status
    finally:
        connection.close()


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
