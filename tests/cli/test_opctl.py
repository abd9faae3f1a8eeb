"""`muster opctl`: the words of Oracle's ADS, as far as no cloud is needed for them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from muster.cli.opctl import INSTEAD, VERBS, NoSuchVerb, command
from muster.cli.opctl_images import Wish, wanted
from muster.errors import MusterError
from muster.spec.ads_image import BuiltImage
from muster.workdir.opening import open_store
from muster.workdir.twin import point
from tests.harness import Muster, eventually

JOB = "ocid1.datasciencejob.oc1.iad.aaaaaaaajob"
FILE = """\
kind: distributed
apiVersion: v1.0
spec:
  infrastructure:
    kind: infrastructure
    type: dataScienceJob
    spec:
      projectId: ocid1.datascienceproject.oc1.iad.aaa
      compartmentId: ocid1.compartment.oc1..aaa
      subnetId: ocid1.subnet.oc1.iad.aaa
      shapeName: VM.Standard2.4
  cluster:
    kind: dask
    spec:
      image: "@image"
      workDir: oci://bucket@namespace/runs
      name: tiny
      main: {config: {}}
      worker: {replicas: 2}
  runtime:
    kind: python
    spec:
      entryPoint: /code/train.py
"""
SCRIPT = """\
import os
from dask.distributed import Client

with Client(f"{os.environ['SCHEDULER_IP']}:{os.environ['SCHEDULER_PORT']}") as client:
    print(f"{len(client.scheduler_info()['workers'])} workers")
"""


@pytest.fixture
def project(muster: Muster, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an ADS file, of somebody who has no credentials at all."""
    (muster.folder / "train.yaml").write_text(FILE)
    (muster.folder / "src").mkdir()
    (muster.folder / "src" / "train.py").write_text(SCRIPT)
    muster.env["HOME"] = str(muster.folder.parent / "nobody")
    return muster.folder


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


# --- the dry run ---------------------------------------------------------------------------------------


def test_a_dry_run_shows_every_payload_and_touches_nothing(muster: Muster, project: Path) -> None:
    before = files(project.parent)
    words = ("-f", "train.yaml", "--dry-run", "--nobuild", "-t", "3", "-reg", "iad.ocir.io/ns/train")
    shown = muster("opctl", "run", *words)
    assert files(project.parent) == before
    assert shown.stderr == ""
    assert "tiny: dask on oci, 3 nodes" in shown.stdout
    plan, *payloads = shown.stdout.split("\n# job")
    assert "Nothing was created." in plan
    job, *runs = (yaml.safe_load(text.partition("\n")[2]) for text in payloads)
    assert job["compartmentId"] == "ocid1.compartment.oc1..aaa"
    assert job["jobInfrastructureConfigurationDetails"]["subnetId"] == "ocid1.subnet.oc1.iad.aaa"
    assert job["jobEnvironmentConfigurationDetails"]["image"] == "iad.ocir.io/ns/train:3"
    modes = [run["jobConfigurationOverrideDetails"]["environmentVariables"]["MUSTER_MODE"] for run in runs]
    assert modes == ["MAIN", "WORKER", "WORKER"]


def test_a_dry_run_builds_nothing_and_tells_what_would_be_built(muster: Muster, project: Path) -> None:
    ini = "[main]\ntag = 1\nregistry = iad.ocir.io/ns/train\ndockerfile = Dockerfile\nsource_folder = src\n"
    (project / "config.ini").write_text(ini)
    muster.env["PATH"] = ""
    shown = muster("opctl", "run", "-f", "train.yaml", "-r", "--auto_increment")
    assert "would build iad.ocir.io/ns/train:1_v_1 from Dockerfile, and push it" in shown.stderr
    assert "image: iad.ocir.io/ns/train:1_v_1" in shown.stdout
    kept = muster("opctl", "run", "-f", "train.yaml", "-r", "--nopush")
    assert "would build iad.ocir.io/ns/train:1 from Dockerfile\n" in kept.stderr
    plain = muster("opctl", "run", "-f", "train.yaml", "-r", "-nobuild")
    assert ("image: iad.ocir.io/ns/train:1\n" in plain.stdout, plain.stderr) == (True, "")
    assert (project / "config.ini").read_text() == ini


def test_the_infrastructure_may_be_what_ads_was_configured_with(muster: Muster, project: Path) -> None:
    whole = yaml.safe_load(FILE)
    del whole["spec"]["infrastructure"]
    (project / "train.yaml").write_text(yaml.safe_dump(whole))
    missing = muster("opctl", "run", "-f", "train.yaml", "-r", "-nobuild", "-t", "1", "-reg", "a/b", check=2)
    assert "spec.infrastructure.spec.compartmentId: missing" in missing.stderr
    own = Path(muster.env["HOME"]) / ".ads_ops"
    own.mkdir(parents=True)
    (own / "config.ini").write_text("[OCI]\noci_profile = TEAM\nauth = api_key\n")
    (own / "ml_job_config.ini").write_text(
        "[TEAM]\ncompartment_id = ocid1.compartment.oc1..team\nproject_id = ocid1.datascienceproject.oc1.iad.team\n"
        "subnet_id = ocid1.subnet.oc1.iad.team\n"
    )
    shown = muster("opctl", "run", "-f", "train.yaml", "-r", "-nobuild", "-t", "1", "-reg", "a/b", "--job-name", "mine")
    assert "compartmentId: ocid1.compartment.oc1..team" in shown.stdout
    assert "displayName: mine" in shown.stdout


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            "subnetId: ocid1.subnet.",
            "subnetId: ocid1.vcn.",
            "train.yaml:10: spec.infrastructure.spec.subnetId: this is the OCID of a network (VCN)",
        ),
        ("replicas: 2", "replica: 2", "train.yaml:19: spec.cluster.spec.worker.replica: there is no such setting"),
        (
            "      workDir: oci://bucket@namespace/runs\n",
            "",
            "train.yaml:14: spec.cluster.spec.workDir: missing",
        ),
        ("oci://bucket@namespace/runs", "/tmp/runs", "train.yaml:16: spec.cluster.spec.workDir: /tmp/runs is on this"),
    ],
)
def test_a_mistake_in_the_file_is_told_with_its_line(
    muster: Muster, project: Path, old: str, new: str, told: str
) -> None:
    (project / "train.yaml").write_text(FILE.replace(old, new))
    for words in (("-r", "-nobuild", "-t", "1", "-reg", "a/b"), ("-nobuild", "-t", "1", "-reg", "a/b")):
        done = muster("opctl", "run", "-f", "train.yaml", *words, check=2)
        assert (told in done.stderr, done.stdout) == (True, "")
        assert "Traceback" not in done.stderr


def test_counting_builds_and_wanting_none_is_a_contradiction(muster: Muster, project: Path) -> None:
    refused = muster("opctl", "run", "-f", "train.yaml", "--auto_increment", "--nobuild", check=2)
    assert "--auto_increment counts builds, and --nobuild wants none" in refused.stderr


# --- on this machine -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_local_backend_is_the_whole_cluster(muster: Muster, project: Path) -> None:
    shown = muster("opctl", "run", "-f", "train.yaml", "-b", "local", "-s", "src", "--dry-run")
    assert "tiny: dask on local, 3 nodes" in shown.stdout
    assert f"code          {project}/src" in shown.stdout
    done = muster("opctl", "run", "-f", "train.yaml", "-b", "local", "-s", "src")
    assert "[main script] 2 workers" in done.stdout


def test_the_exit_code_is_the_scripts_own(muster: Muster, project: Path) -> None:
    (project / "src" / "train.py").write_text("raise SystemExit(7)\n")
    (project / "train.yaml").write_text(FILE.replace("replicas: 2", "replicas: 0"))
    (project / "config.ini").write_text("[main]\ntag = 1\nregistry = a\nsource_folder = src\n")
    muster("opctl", "run", "-f", "train.yaml", "-b", "local", check=7)


# --- a run that is there -------------------------------------------------------------------------------


STAYS = """\
import pathlib, time

print("here I am", flush=True)
pathlib.Path(".").joinpath("up").touch()
while True:
    time.sleep(0.1)
"""


@pytest.fixture
def known(muster: Muster) -> str:
    """A run that goes on, with the folder of a job's OCID in its work dir as clusters of the cloud have it."""
    run = muster("run", muster.job(STAYS, workers=1, retries=0), "--detach").stdout.strip()
    point(open_store(str(muster.runs)), JOB, run)
    eventually(lambda: "here I am" in muster("logs", run).stdout)
    info = {"jobId": JOB, "mainJobRunId": {"main": "ocid1.datasciencejobrun.oc1.iad.a"}, "workDir": str(muster.runs)}
    (muster.folder / "info.yaml").write_text(yaml.safe_dump(info) + "# a comment, as ADS adds one\n")
    return run


def test_a_run_is_shown_watched_and_cancelled_by_the_ocid_of_its_job(muster: Muster, known: str) -> None:
    training = ("opctl", "distributed-training")
    shown = muster(*training, "show-config", "-j", JOB).stdout
    assert shown.startswith("Main Info:\n")
    assert yaml.safe_load(shown.partition("\n")[2])["node"] == "main"
    more = muster(*training, "show-config", "-f", "info.yaml", "--worker-info").stdout
    assert more.startswith(shown.rstrip())
    assert yaml.safe_load(more.partition("Worker Info from worker-1.json\n")[2])["role"] == "worker"
    assert muster(*training, "show-config", "-j", known, "--work-dir", muster.runs).stdout == shown

    watching = muster.start("opctl", "watch", JOB)
    cancelled = muster(*training, "cancel", "-f", "info.yaml")
    assert cancelled.stdout == f"{known}: stopped (stop-requested)\n"
    assert "here I am" in watching.communicate(timeout=60)[0]
    assert watching.returncode == 0
    again = muster(*training, "cancel", "-j", JOB, "--work-dir", muster.runs)
    assert again.stdout == cancelled.stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("cancel",), "name the run once: by -j JOB, or by -f FILE"),
        (("cancel", "-j", JOB, "-f", "info.yaml"), "name the run once: by -j JOB, or by -f FILE"),
        (("cancel", "-f", "none.yaml"), "none.yaml cannot be read: No such file or directory"),
        (("cancel", "-f", "train.yaml"), "train.yaml says what to run, not what runs"),
        (("show-config", "-f", "empty.yaml"), "empty.yaml has no jobId"),
        (("show-config", "-f", "broken.yaml"), "broken.yaml cannot be read: "),
        (("cancel", "-j", JOB), f"no run is known of the job {JOB}"),
        (("init", "-f", "ray"), "Ray is not among the frameworks of Muster"),
        (("init", "-f", "dask", "--version", "v9"), "there is no version 'v9'"),
        (("build-image", "-reg", "a/b", "-df", "Dockerfile"), "-t missing: the image needs a name"),
        (("build-image", "-t", "1", "-reg", "a/b"), "-df is missing: there is no Dockerfile to build from"),
        (("build-image", "-t", "1", "-reg", "a/b", "-df", "none/Dockerfile"), "there is no Dockerfile"),
        (("publish-image",), "no image is named, and there is no config.ini here that names one"),
    ],
)
def test_what_is_wrong_with_a_command_is_told(muster: Muster, project: Path, words: tuple[str, ...], told: str) -> None:
    (project / "empty.yaml").write_text("")
    (project / "broken.yaml").write_text("{")
    before = files(project)
    done = muster("opctl", "distributed-training", *words, check=None)
    assert done.returncode != 0
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert files(project) == before


def test_a_main_that_has_written_nothing_down_is_told(muster: Muster, project: Path) -> None:
    point(open_store(str(muster.runs)), JOB, "tiny-1")
    (muster.runs / "tiny-1").mkdir()
    done = muster("opctl", "distributed-training", "show-config", "-j", JOB, "--work-dir", muster.runs, check=125)
    assert "main of tiny-1 has written nothing down yet" in done.stderr


def test_init_writes_what_muster_init_writes(muster: Muster) -> None:
    muster("opctl", "distributed-training", "init", "-f", "horovod-pytorch", "--version", "v1", "theirs")
    muster("init", "ours", "-f", "horovod")
    assert files(muster.folder / "theirs") == files(muster.folder / "ours")
    assert "framework: horovod" in (muster.folder / "theirs" / "job.yaml").read_text()


# --- words ---------------------------------------------------------------------------------------------


@pytest.mark.unit
@pytest.mark.parametrize("verb", INSTEAD)
def test_other_verbs_of_ads_say_what_there_is_in_their_place(verb: str) -> None:
    with pytest.raises(NoSuchVerb) as caught:
        command.main([verb, "--whatever", "x"], standalone_mode=False)
    assert f"there is no `muster opctl {verb}`" in str(caught.value)
    assert caught.value.fix
    assert verb not in VERBS


@pytest.mark.unit
@pytest.mark.parametrize(
    ("wish", "image", "found"),
    [
        (Wish(), None, BuiltImage("r/kept", "1", "Dockerfile", "src")),
        (Wish(), "iad.ocir.io/ns/own:2", BuiltImage("iad.ocir.io/ns/own", "2", "Dockerfile", "src")),
        (Wish(tag="3"), "iad.ocir.io/ns/own:2", BuiltImage("iad.ocir.io/ns/own", "3", "Dockerfile", "src")),
        (Wish(), "host:5000/own", BuiltImage("host:5000/own", "latest", "Dockerfile", "src")),
        (Wish("4", "r/x", "d/File", "."), "own:2", BuiltImage("r/x", "4", "d/File", ".")),
    ],
)
def test_an_option_goes_before_the_file_and_that_before_what_was_built_last(
    tmp_path: Path, wish: Wish, image: str | None, found: BuiltImage
) -> None:
    (tmp_path / "config.ini").write_text(
        "[main]\ntag = 1\nregistry = r/kept\ndockerfile = Dockerfile\nsource_folder = src\n"
    )
    assert wanted(wish, tmp_path, image) == found


@pytest.mark.unit
def test_signing_in_is_told_to_all_that_signs_in(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OCI_CONFIG_FILE", "OCI_CONFIG_PROFILE", "OCI_IAM_TYPE"):
        monkeypatch.setenv(name, "before")
    words = ["distributed-training", "cancel", "-f", "none.yaml", "--oci-config", "a", "--oci-profile", "b"]
    with pytest.raises(MusterError):
        command.main([*words, "--auth", "api_key"], standalone_mode=False)
    found = [os.environ[name] for name in ("OCI_CONFIG_FILE", "OCI_CONFIG_PROFILE", "OCI_IAM_TYPE")]
    assert found == ["a", "b", "api_key"]
