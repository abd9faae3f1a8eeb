"""A node begins in an image that has a Python and nothing of Muster: all else arrives with the run."""

from __future__ import annotations

import ast
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.launching import load, record
from muster.node.archive import Program, program, store_program
from muster.node.boot import COMMAND, ENTRYPOINT, boot_environment, standalone
from muster.rehearsal import oracle
from muster.rehearsal.oracle import OracleServer
from muster.spec.config import Target
from muster.targets.base import RUN
from muster.targets.local import Local
from muster.workdir.opening import open_store
from muster.workdir.programs import program_key
from muster.workdir.run import RunFolder
from tests.clouds.oracle_world import at, forget_oracle
from tests.harness import MARK, PLUGINS, Muster

TRAIN = """
import importlib.util, os, pathlib, sys
from muster import report
report(loss=0.5)
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], flush=True)
print("sees", sorted(name for name in os.environ if name.startswith("MUSTER_")), flush=True)
print("path", [entry for entry in os.environ["PYTHONPATH"].split(":") if "program" in entry], flush=True)
print("torchrun", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE" in os.environ, flush=True)
print("poor", all(importlib.util.find_spec(name) is None for name in ("psutil", "oci", "cryptography")), flush=True)
pathlib.Path("outputs").mkdir(exist_ok=True)
pathlib.Path(f"outputs/{os.environ['RANK']}.txt").write_text("model")
"""


@pytest.fixture(scope="module")
def cloud() -> Iterator[OracleServer]:
    with oracle.started("training") as server:
        yield server


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an image: a Python, without any package but one that brings a framework."""
    folder = tmp_path_factory.mktemp("image")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "plugin.pth").write_text(str(PLUGINS))
    return folder / "bin"


@pytest.fixture(autouse=True)
def plain_framework(muster: Muster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The launcher knows it too."""
    monkeypatch.syspath_prepend(str(PLUGINS))
    monkeypatch.setenv("MUSTER_HOME", str(muster.home))


@pytest.fixture
def container(image: Path, tmp_path: Path, mark: str) -> Container:
    return Container(image, tmp_path, {MARK: mark})


class Container:
    """Starts what a container of the image would: it has the image's programs and the environment it is given."""

    def __init__(self, image: Path, folder: Path, env: dict[str, str]) -> None:
        self.home, self.temporary = folder / "container-home", folder / "container-tmp"
        self.temporary.mkdir()
        self.env = {"PATH": str(image), "HOME": str(self.home), "TMPDIR": str(self.temporary), **env}

    def start(self, **env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*ENTRYPOINT, *COMMAND],
            env={**self.env, **env},
            cwd=self.temporary,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def refused(self, **env: str) -> tuple[int, str]:
        """Exit code and words of one that cannot begin."""
        with self.start(**env) as started:
            words, _ = started.communicate(timeout=60)
        assert list(self.temporary.glob("*/muster")) == []
        return started.returncode, words


def launch(muster: Muster, work_dir: str, **fields: Any) -> tuple[str, list[dict[str, str]]]:
    """Records a run as a launcher does; its id, and what each node of it is told."""
    job = load(muster.job(TRAIN, work_dir=work_dir, **fields))
    plan = Local(Target("local", "local", work_dir)).plan(job)
    run = record(plan, lambda _text: None)
    boot = boot_environment(store_program(open_store(work_dir)))
    return run, [
        {**{name: value.replace(RUN, run) for name, value in node.environment.items()}, **boot} for node in plan.nodes
    ]


def finished(container: Container, nodes: list[dict[str, str]], **env: str) -> None:
    started = [container.start(**{**node, **env}) for node in nodes]
    for node in started:
        words, _ = node.communicate(timeout=120)
        assert node.returncode == 0, words
    assert list(container.temporary.glob("muster-*")) == [], "it was not tidied up"


def texts(run: RunFolder) -> list[str]:
    lines = [run.store.get(entry.key) for entry in run.store.list(run.at("logs/"))]
    return [json.loads(line)["text"] for content in lines for line in content.splitlines()]


def reads(cloud: OracleServer, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """This test is one who may look into the bucket."""
    monkeypatch.setenv("OCI_CONFIG_FILE", str(cloud.make_user(folder).config_file))


def test_nodes_of_a_bare_image_are_a_cluster(
    cloud: OracleServer, muster: Muster, container: Container, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads(cloud, monkeypatch, tmp_path)
    url = at(cloud, "team/runs")
    run, nodes = launch(muster, url, workers=2)
    finished(container, nodes, **cloud.resource_principal())
    folder = RunFolder(open_store(url), run)
    result = folder.result()
    assert result
    assert result.state == "succeeded"
    said = texts(folder)
    assert {f"rank {rank} of 3" for rank in range(3)} <= set(said)
    assert said.count("poor True") == 3
    outputs = [entry.key.rpartition("/")[2] for entry in folder.store.list(folder.at("outputs/"))]
    assert {"0.txt", "1.txt", "2.txt"} <= set(outputs)
    seen = next(line for line in said if line.startswith("sees"))
    assert not any(name in seen for name in ("BOOT", "PROGRAM", "UNPACKED", "SCRIPT_PYTHON"))
    paths = [line for line in said if line.startswith("path")]
    assert len(paths) == 3
    assert all(line.count(",") == 0 and line.endswith("/muster/node/shim']") for line in paths)
    reports = [folder.store.get(entry.key) for entry in folder.store.list(folder.at("metrics/"))]
    assert sum(content.count(b'"loss": 0.5') for content in reports) == 3


def test_nodes_that_share_a_folder(muster: Muster, container: Container, tmp_path: Path) -> None:
    work_dir = str(tmp_path / "runs and more")
    run, nodes = launch(muster, work_dir, workers=1)
    finished(container, nodes)
    said = texts(RunFolder(open_store(work_dir), run))
    assert {"rank 0 of 2", "rank 1 of 2"} <= set(said)


@pytest.mark.slow
def test_what_a_node_starts_by_its_path_is_there_too(muster: Muster, container: Container, tmp_path: Path) -> None:
    """Torch's own launcher, through a file of ours, in a Python of the user's which is not the node's."""
    work_dir = str(tmp_path / "runs")
    script = {"framework": "pytorch", "python": sys.executable, "workers": {"min": 0, "max": 1}}
    run, nodes = launch(muster, work_dir, **script)
    finished(container, nodes, PATH=f"{container.env['PATH']}:{os.defpath}")
    said = texts(RunFolder(open_store(work_dir), run))
    assert said.count("torchrun True") == 2


def test_an_image_with_the_very_same_muster_fetches_nothing(
    muster: Muster, container: Container, tmp_path: Path
) -> None:
    work_dir = str(tmp_path / "runs")
    run, nodes = launch(muster, work_dir, workers=0)
    shutil.rmtree(tmp_path / "runs" / "programs")
    finished(container, nodes, MUSTER_NODE_PYTHON=sys.executable, PYTHONPATH=str(PLUGINS))
    said = texts(RunFolder(open_store(work_dir), run))
    assert "rank 0 of 1" in said
    assert "poor True" in said, "the script's Python is the image's, not Muster's"


@pytest.mark.parametrize(("wanted", "named"), [("0.0.1 1", sys.executable), ("", "/nowhere/python")])
def test_an_image_with_another_muster_is_not_used(wanted: str, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standalone, "WANTED", wanted)
    assert standalone.own_muster({"MUSTER_NODE_PYTHON": named}) == ""


class TestPythons:
    def test_none(self, container: Container, tmp_path: Path) -> None:
        code, words = container.refused(PATH=str(tmp_path / "empty"))
        assert code == 127
        assert "there is no Python in this image; looked for python3 python" in words
        assert "MUSTER_BOOT_PYTHON" in words

    def test_one_that_is_too_old(self, container: Container, tmp_path: Path) -> None:
        old = pretender(tmp_path / "old" / "python3", "Python 3.8.18")
        code, words = container.refused(PATH=f"{old.parent}:{os.defpath}", MUSTER_BOOT_PYTHON=str(old))
        assert code == 126
        assert f"need Python 3.10 or newer, with ssl and zlib; in this image {old} is Python 3.8.18" in words

    def test_a_newer_one_under_another_name_while_scripts_keep_the_images_own(
        self, container: Container, tmp_path: Path, image: Path
    ) -> None:
        old = pretender(tmp_path / "old" / "python3", "Python 3.8.18")
        (old.parent / "python3.11").symlink_to(image / "python3")
        code, words = container.refused(PATH=f"{old.parent}:{tmp_path}", MUSTER_BOOT=harmless())
        assert (code, words.split()) == (0, [str(old.parent / "python3.11"), str(old)])

    def test_one_that_is_named(self, container: Container, tmp_path: Path, image: Path) -> None:
        named = tmp_path / "a name; with $(odd) 'letters'" / "python"
        named.parent.mkdir()
        named.symlink_to(image / "python3")
        code, words = container.refused(PATH=os.defpath, MUSTER_BOOT_PYTHON=str(named), MUSTER_BOOT=harmless())
        assert (code, words.strip()) == (0, f"{named} None")

    def test_modules_of_the_users_are_not_taken_for_pythons(self, container: Container, tmp_path: Path) -> None:
        (container.temporary / "zlib.py").write_text("raise SystemExit('not this one')")
        code, words = container.refused(MUSTER_BOOT=harmless(), PYTHONPATH=str(container.temporary))
        assert code == 0, words

    def test_old_ones_can_read_it_so_far_as_to_say_that_they_are_too_old(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        ast.parse(Path(standalone.__file__).read_text(), feature_version=(3, 6))
        monkeypatch.setattr(sys, "version_info", (3, 8, 18))
        with pytest.raises(SystemExit) as caught:
            standalone.begin()
        assert caught.value.code == 126
        assert "this image's Python is 3.8; Muster's nodes need 3.10 or newer" in capsys.readouterr().err


class TestRefusals:
    """What one is told whose program does not come."""

    @pytest.fixture
    def place(self, cloud: OracleServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
        forget_oracle(monkeypatch, tmp_path / "home")
        reads(cloud, monkeypatch, tmp_path)
        url = at(cloud, tmp_path.name)
        made = store_program(open_store(url))
        yield {"MUSTER_WORK_DIR": url, **boot_environment(made), **cloud.resource_principal()}
        cloud.deny()
        cloud.steering.clear()

    def test_another_content(self, container: Container, place: dict[str, str]) -> None:
        key = program_key(place["MUSTER_PROGRAM"])
        open_store(place["MUSTER_WORK_DIR"]).put(key, program().data[:-1])
        code, words = container.refused(**place)
        assert code == 125
        assert f"{key} in {place['MUSTER_WORK_DIR']} is not the program that the run was launched with" in words

    def test_one_that_is_not_there(self, container: Container, place: dict[str, str]) -> None:
        code, words = container.refused(**{**place, "MUSTER_PROGRAM": "0" * 64})
        assert code == 125
        assert "the node program is not in the bucket training" in words

    def test_a_folder_that_is_not_there(self, container: Container, place: dict[str, str]) -> None:
        code, words = container.refused(**{**place, "MUSTER_WORK_DIR": "file:///nowhere"})
        assert code == 125
        assert "cannot read the node program /nowhere/programs/" in words

    def test_no_permission(self, container: Container, cloud: OracleServer, place: dict[str, str]) -> None:
        cloud.deny("OBJECT_READ")
        code, words = container.refused(**place)
        assert code == 125
        assert "no bucket training, or none that this job run may read: Oracle said 404 BucketNotFound" in words
        assert "Allow dynamic-group NAME to manage objects" in words
        assert "target.bucket.name='training'" in words

    def test_nobody_that_the_cloud_knows(self, cloud: OracleServer, place: dict[str, str]) -> None:
        cloud.forget("ST$" + place["OCI_RESOURCE_PRINCIPAL_RPST"])
        assert "cannot read the bucket training: Oracle said 401 NotAuthenticated" in told(place)

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"MUSTER_PROGRAM": ""}, "lacks MUSTER_PROGRAM"),
            ({"MUSTER_WORK_DIR": ""}, "lacks MUSTER_PROGRAM or MUSTER_WORK_DIR"),
            ({"MUSTER_WORK_DIR": "s3://bucket/x"}, "cannot be fetched from a work dir on s3://"),
            ({"OCI_RESOURCE_PRINCIPAL_RPST": ""}, "lacks OCI_RESOURCE_PRINCIPAL_RPST"),
            ({"OCI_RESOURCE_PRINCIPAL_PRIVATE_PEM": "secret"}, "is no RSA key that can be read"),
        ],
    )
    def test_an_environment_that_is_not_whole(self, place: dict[str, str], change: dict[str, str], words: str) -> None:
        assert words in told({**place, **change})
        assert "secret" not in told({**place, **change})

    def test_what_is_busy_or_breaks_off_is_asked_again(self, cloud: OracleServer, place: dict[str, str]) -> None:
        cloud.steering.fail(times=1, status=503, kind="get")
        cloud.steering.fail(times=1, status=429, kind="get")
        cloud.steering.lose(times=1, kind="get", way="cut")
        before = cloud.steering.counts()
        assert standalone.fetched(place) == program().data
        assert (cloud.steering.counts() - before).of("get") == 4

    def test_what_stays_busy_is_told(
        self, cloud: OracleServer, place: dict[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(standalone, "PATIENCE", 0.1)
        with cloud.steering.away():
            assert "cannot fetch the node program: Oracle said 503" in told(place)
        assert "does not answer" in told({**place, "MUSTER_WORK_DIR": "oci://b@n/x?endpoint=http://127.0.0.1:1"})

    def test_a_token_in_a_file_is_read_again_after_a_refusal(
        self, cloud: OracleServer, place: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        mine = {**place, **cloud.resource_principal(folder=tmp_path / "principal")}
        cloud.forget("ST$" + (tmp_path / "principal" / "rpst").read_text())
        monkeypatch.setattr(time, "sleep", lambda _pause: cloud.resource_principal(folder=tmp_path / "principal"))
        assert standalone.fetched(mine) == program().data

    @pytest.mark.parametrize("prefix", ["", "team a/ünits/", "50%25 o\\f\x7fit", "%0A"])
    def test_work_dirs_of_any_name(self, cloud: OracleServer, place: dict[str, str], prefix: str) -> None:
        url = at(cloud, prefix)
        store_program(open_store(url))
        assert standalone.fetched({**place, "MUSTER_WORK_DIR": url}) == program().data

    def test_without_a_namespace_it_is_asked_for(self, cloud: OracleServer, place: dict[str, str]) -> None:
        url = place["MUSTER_WORK_DIR"].replace(f"@{cloud.namespace}", "")
        assert standalone.fetched({**place, "MUSTER_WORK_DIR": url}) == program().data

    def test_names_that_lead_out_of_the_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        for name in ("../outside.py", "/outside.py", "muster/../../outside.py", "other/x.py", "muster/x.so"):
            with pytest.raises(standalone.Refusal, match="strange name"):
                standalone.unpacked(zipped(name))
        with pytest.raises(standalone.Refusal, match="cannot be unpacked"):
            standalone.unpacked(b"nothing of the kind")
        folder = Path(standalone.unpacked(zipped("muster/x.py")))
        assert folder.stat().st_mode & 0o777 == 0o700
        assert (folder / "muster" / "x.py").read_text() == "1"
        assert list(tmp_path.rglob("outside.py")) == []


@pytest.mark.unit
def test_what_oracle_takes_is_not_exceeded() -> None:
    assert len("".join([*ENTRYPOINT, *COMMAND]).encode()) < 2048
    made = boot_environment(Program("0" * 64, b""), "https://objectstorage.us-luke-1.oraclegovcloud.com")
    assert len(made["MUSTER_BOOT"]) < 10_000
    assert set(made) == {"MUSTER_BOOT", "MUSTER_PROGRAM", "OCI_OBJECTSTORAGE_SERVICE_ENDPOINT"}
    assert set(boot_environment(Program("0" * 64, b""))) == {"MUSTER_BOOT", "MUSTER_PROGRAM"}


@pytest.mark.unit
@pytest.mark.parametrize("form", ["PKCS8", "TraditionalOpenSSL"])
def test_its_signatures_are_those_of_everybody(form: str) -> None:
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import padding, rsa

    key = rsa.generate_private_key(65537, 2048)
    shape = getattr(serialization.PrivateFormat, form)
    pem = key.private_bytes(serialization.Encoding.PEM, shape, serialization.NoEncryption()).decode()
    value = standalone.signature(f"{pem}OCI_API_KEY\n", b"a message")
    key.public_key().verify(value, b"a message", padding.PKCS1v15(), hashes.SHA256())
    locked = key.private_bytes(serialization.Encoding.PEM, shape, serialization.BestAvailableEncryption(b"x")).decode()
    with pytest.raises(standalone.Refusal, match="without a passphrase"):
        standalone.signature(locked, b"a message")


def told(place: dict[str, str]) -> str:
    with pytest.raises(standalone.Refusal) as caught:
        standalone.fetched(dict(place))
    return " ".join(map(str, caught.value.args))


def zipped(name: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(name, "1")
    return made.getvalue()


def harmless() -> str:
    """A boot that only says which Python it is, and which is the script's."""
    import base64
    import zlib

    said = b"import os, sys; print(sys.executable, os.environ.get('MUSTER_SCRIPT_PYTHON'))"
    return base64.b64encode(zlib.compress(said)).decode()


def pretender(path: Path, version: str) -> Path:
    """A program that answers as an old Python does."""
    path.parent.mkdir(parents=True)
    answers = f'-V) echo "{version}";; *"(3, 6)"*) ;; *) exit 2;;'
    path.write_text(f'#!/bin/sh\ncase "$*" in {answers} esac\n')
    path.chmod(0o755)
    return path
