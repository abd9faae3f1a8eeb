"""Starts a node in an image that has a Python and nothing of Muster: all of this file travels in a variable.

It imports nothing of ours, and Pythons from 3.6 on can read it: those that are too old are told so. It fetches the
node program from the work dir, checks it against its digest, unpacks it into a private folder and becomes it.
"""

import base64
import hashlib
import io
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from email.utils import formatdate
from http.client import HTTPException
from pathlib import Path

WANTED = ""
"""Version and protocol of the launcher's Muster."""
OLDEST = (3, 10)
PATIENCE = 120.0
"""Seconds that a store which is busy or out of reach is asked again."""
BUSY = (408, 425, 429, 500, 502, 503, 504)
UNKEPT = re.compile(r"[\x00-\x1f\x7f\\]|%(?=(?:[01][0-9A-F]|7F|25|5C))")
"""What a work dir writes otherwise in the names of a bucket."""
PRINCIPAL = "OCI_RESOURCE_PRINCIPAL_"
ASK = "import muster; from muster.workdir.records import PROTOCOL; print(muster.__version__, PROTOCOL)"


class Refusal(Exception):
    """The node cannot begin: why, and what mends it."""


class Again(Exception):
    """Another attempt may do."""


def main(env: "dict[str, str]") -> "list[str]":
    """The command that this process is to become."""
    env.pop("MUSTER_BOOT", None)
    own = own_muster(env)
    if own:
        # Where `-m` looks first is the folder that a container starts in, whose modules may be called as Python's own.
        os.chdir("/")
        return [own, "-m", "muster.node"]
    folder = unpacked(fetched(env))
    env["MUSTER_UNPACKED"] = folder
    # A folder with a `__main__` stands first on its own path, so that nothing of it gets into the environment.
    return [sys.executable, folder]


def own_muster(env: "dict[str, str]") -> "str":
    """The Python of the image that has just the Muster which the launcher is, if there is one."""
    named = env.get("MUSTER_NODE_PYTHON", "")
    if not named:
        return ""
    try:
        told = subprocess.run([named, "-c", ASK], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    except OSError:
        return ""
    if told.stdout.decode(errors="replace").strip() != WANTED:
        return ""
    # A script without a Python of its own is run by the image's, as it would be without Muster.
    env.setdefault("MUSTER_SCRIPT_PYTHON", sys.executable)
    return named


# --- fetching ----------------------------------------------------------------------------------------------


def fetched(env: "dict[str, str]") -> bytes:
    """The archive, if it is the one that the launcher meant."""
    digest, place = env.get("MUSTER_PROGRAM", ""), env.get("MUSTER_WORK_DIR", "")
    if not re.fullmatch("[0-9a-f]{64}", digest) or not place:
        raise Refusal("the environment lacks MUSTER_PROGRAM or MUSTER_WORK_DIR")
    key = f"programs/{digest}.pyz"
    scheme = place.partition("://")[0].lower() if "://" in place else "file"
    if scheme not in ("file", "oci"):
        raise Refusal(f"a node program cannot be fetched from a work dir on {scheme}://")
    data = from_folder(place, key) if scheme == "file" else patiently(Bucket(place, env), key)
    found = hashlib.sha256(data).hexdigest()
    if found != digest:
        raise Refusal(
            f"{key} in {place} is not the program that the run was launched with: its digest is {found}",
            "Delete it there and launch again.",
        )
    return data


def from_folder(place: str, key: str) -> bytes:
    rest = place.partition("://")[2].partition("/")[2]
    folder = Path("/" + urllib.parse.unquote(rest)) if "://" in place else Path(place).expanduser()
    try:
        return (folder / key).read_bytes()
    except OSError as error:
        raise Refusal(f"cannot read the node program {folder / key}: {error.strerror}") from None


def patiently(bucket: "Bucket", key: str) -> bytes:
    until, pause = time.monotonic() + PATIENCE, 0.5
    while True:
        try:
            return bucket.get(key)
        except Again as why:
            if time.monotonic() + pause > until:
                raise Refusal(f"cannot fetch the node program: {why}") from None
        time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - many nodes must not come back at once
        pause = min(2 * pause, 8.0)


class Bucket:
    """A work dir in Oracle's object storage, as a resource principal sees it."""

    def __init__(self, place: str, env: "dict[str, str]") -> None:
        path, _, query = place.partition("?")
        options = dict(urllib.parse.parse_qsl(query))
        where, _, prefix = path.partition("://")[2].partition("/")
        self.prefix = UNKEPT.sub(lambda found: f"%{ord(found.group()):02X}", prefix.rstrip("/"))
        self.bucket, _, self.namespace = where.partition("@")
        self.env, self.renewed = env, False
        region = options.get("region") or env.get(PRINCIPAL + "REGION") or env.get("OCI_REGION") or ""
        given = options.get("endpoint") or env.get("OCI_OBJECTSTORAGE_SERVICE_ENDPOINT")
        if not given and not region:
            raise Refusal(f"nothing says in which region the work dir {place} is")
        self.endpoint = (given or f"https://objectstorage.{region}.oraclecloud.com").rstrip("/")

    def get(self, key: str) -> bytes:
        if not self.namespace:
            self.namespace = json.loads(self.ask("/n"))
        name = f"{self.prefix}/{key}" if self.prefix else key
        parts = ("n", self.namespace, "b", self.bucket, "o", name)
        return self.ask("/" + "/".join(urllib.parse.quote(part, safe="") for part in parts))

    def ask(self, path: str) -> bytes:
        request = urllib.request.Request(self.endpoint + path, headers=self.signed(path))  # noqa: S310
        try:
            with opener().open(request, timeout=60) as answer:
                content: bytes = answer.read()
                return content
        except urllib.error.HTTPError as error:
            with error:
                raise self.refused(error.code, error.read(10000)) from None
        except OSError as error:  # urllib's own errors are among them
            reason = str(getattr(error, "reason", error))
            if "CERTIFICATE_VERIFY_FAILED" in reason:
                fix = "Set SSL_CERT_FILE to a file with the authorities to trust: this image has none that fits."
                raise Refusal(f"the certificate of {self.endpoint} was refused: {reason}", fix) from None
            raise Again(f"{self.endpoint} does not answer: {reason}") from None
        except HTTPException as error:
            raise Again(f"{self.endpoint} broke off: {type(error).__name__}") from None

    def refused(self, status: int, body: bytes) -> Exception:
        try:
            code = json.loads(body.decode())["code"]
        except (ValueError, KeyError, TypeError):
            code = ""
        told = f"Oracle said {status} {code}"
        if status in BUSY:
            return Again(told)
        if status == 401 and not self.renewed:
            self.renewed = True  # its token may have been renewed while we asked
            return Again(told)
        name = self.bucket
        if status == 401:
            fix = "Its token has ended, or this machine's clock is wrong."
            return Refusal(f"cannot read the bucket {name}: {told}", fix)
        if code == "ObjectNotFound":
            return Refusal(f"the node program is not in the bucket {name}", "Launch again: `muster run` puts it there.")
        statement = f"Allow dynamic-group NAME to manage objects in compartment NAME where target.bucket.name='{name}'"
        return Refusal(
            f"there is no bucket {name}, or none that this job run may read: {told}",
            f"Put the job runs into a dynamic group and add the policy `{statement}`.",
        )

    def signed(self, path: str) -> "dict[str, str]":
        host, date = urllib.parse.urlsplit(self.endpoint).netloc, formatdate(usegmt=True)
        message = f"date: {date}\n(request-target): get {path}\nhost: {host}"
        value = base64.b64encode(signature(self.said("PRIVATE_PEM"), message.encode())).decode()
        names = f'headers="date (request-target) host",keyId="ST${self.said("RPST")}"'
        told = f'Signature algorithm="rsa-sha256",{names},signature="{value}",version="1"'
        return {"date": date, "authorization": told}

    def said(self, name: str) -> str:
        """What the service says in a variable, or in the file that it names."""
        value = self.env.get(PRINCIPAL + name, "")
        if value.startswith("/"):
            try:
                value = Path(value).read_text()
            except OSError as error:
                raise Again(f"cannot read {value}: {error.strerror}") from None
        if not value.strip():
            fix = "A node finds its program as a resource principal, which the service makes every job run."
            raise Refusal(f"the environment lacks {PRINCIPAL}{name}", fix)
        return value.strip()


def opener() -> urllib.request.OpenerDirector:
    """With the authorities that come with certifi, where the image itself has none."""
    import ssl

    paths = ssl.get_default_verify_paths()
    if paths.cafile or (paths.capath and any(Path(paths.capath).iterdir())) or os.environ.get("SSL_CERT_FILE"):
        return urllib.request.build_opener()
    try:
        import certifi
    except ImportError:
        return urllib.request.build_opener()
    context = ssl.create_default_context(cafile=certifi.where())
    return urllib.request.build_opener(urllib.request.HTTPSHandler(context=context))


# --- signing -----------------------------------------------------------------------------------------------


def signature(pem: str, message: bytes) -> bytes:
    """RSASSA-PKCS1-v1_5 with SHA-256, of the few messages of a boot."""
    n, d = key_numbers(pem)
    size = (n.bit_length() + 7) // 8
    told = bytes.fromhex("3031300d060960864801650304020105000420") + hashlib.sha256(message).digest()
    padded = b"\0\1" + b"\xff" * (size - len(told) - 3) + b"\0" + told
    return pow(int.from_bytes(padded, "big"), d, n).to_bytes(size, "big")


def key_numbers(pem: str) -> "tuple[int, int]":
    """Modulus and private exponent, from PKCS#1 or PKCS#8."""
    block = re.search("-----BEGIN (RSA )?PRIVATE KEY-----(.*?)-----END", pem, re.DOTALL)
    try:
        parts = elements(elements(base64.b64decode(block.group(2) if block else ""))[0])
        if len(parts) < 9:
            parts = elements(elements(parts[2])[0])
        n, _, d = (int.from_bytes(part, "big") for part in parts[1:4])
        if n.bit_length() < 1024 or "ENCRYPTED" in pem:
            raise ValueError
        return n, d
    except (ValueError, IndexError):
        raise Refusal(
            f"the key in {PRINCIPAL}PRIVATE_PEM is no RSA key that can be read without a passphrase"
        ) from None


def elements(der: bytes) -> "list[bytes]":
    found, at = [], 0
    while at < len(der):
        size, at = der[at + 1], at + 2
        if size & 128:
            digits = size & 127
            size, at = int.from_bytes(der[at : at + digits], "big"), at + digits
        found.append(der[at : at + size])
        at += size
    return found


# --- unpacking ---------------------------------------------------------------------------------------------


def unpacked(data: bytes) -> str:
    """A new folder that only we can read, with the content of the archive."""
    folder = tempfile.mkdtemp(prefix="muster-program-")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for name in archive.namelist():
                if not re.fullmatch(r"(muster/([A-Za-z0-9_]+/)*)?[A-Za-z0-9_]+\.py", name):
                    raise Refusal(f"the node program holds a file of a strange name: {name!r}")
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(archive.read(name))
    except (zipfile.BadZipFile, OSError) as error:
        raise Refusal(f"the node program cannot be unpacked into {folder}: {error}") from None
    return folder


def begin() -> None:
    if sys.version_info < OLDEST:
        found = ".".join(map(str, sys.version_info[:2]))
        fix = "Name a newer one in MUSTER_BOOT_PYTHON, or build the image from a newer Python."
        sys.stderr.write(f"muster: this image's Python is {found}; Muster's nodes need 3.10 or newer\n    {fix}\n")
        sys.exit(126)
    env = dict(os.environ)
    try:
        command = main(env)
        sys.stdout.flush()
        os.execve(command[0], command, env)  # noqa: S606
    except Refusal as refusal:
        sys.stderr.write("muster: " + "\n    ".join(map(str, refusal.args)) + "\n")
        sys.exit(125)


if __name__ == "__main__":
    begin()
