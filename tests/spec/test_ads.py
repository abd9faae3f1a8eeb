"""Oracle ADS `kind: distributed` files: what they stand for, and what is wrong with them, each with its line."""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.errors import JobError, Problem
from muster.frameworks.registry import Known
from muster.spec.ads_where import Where
from muster.spec.config import Target, load_config
from muster.spec.facts import Facts
from muster.spec.fields import Boolean, Duration, Integer, Kind, TextList
from muster.spec.job import Job, Role, Workers
from muster.spec.load import load_both, load_text
from muster.spec.table import show

pytestmark = pytest.mark.unit

FILES = Path(__file__).parent / "ads"
BOTH = frozenset({"main", "worker"})
IMAGE = "region.ocir.io/tenancy"

BASE = """\
kind: distributed
apiVersion: v1.0
spec:
  infrastructure:
    kind: infrastructure
    type: dataScienceJob
    spec: {compartmentId: ocid1.compartment.oc1..aaa, blockStorageSize: 50}
  cluster:
    kind: dask
    spec:
      workDir: oci://bucket@namespace/dask
      config: {env: [], startOptions: []}
      main: {config: {}}
      worker: {replicas: 2, config: {}}
  runtime:
    kind: python
    spec:
      entryPoint: train.py
"""


class Installed:
    """The four frameworks of ADS, with the options that each has in Muster."""

    horovod: ClassVar[dict[str, Kind]] = {
        **{name: Integer(1) for name in ("min_np", "max_np", "port")},
        "start_timeout": Duration(),
        "start_args": TextList(),
        "timeline": Boolean(),
    }

    def names(self) -> list[str]:
        return ["dask", "horovod", "pytorch", "tensorflow"]

    def facts(self, name: str) -> Facts | None:
        if name == "horovod":
            return Facts(elastic=True, roles=BOTH, options=self.horovod)
        if name == "tensorflow":
            return Facts(elastic=False, roles=BOTH | {"ps"}, options={"port": Integer(1)})
        return Known().facts(name)


def job_of(text: str, folder: Path | str = "/none") -> Job:
    return load_text(text, "train.yaml", folder, Installed())


def changed(**fields: Any) -> str:
    """The file above with some of its fields changed: `worker__replicas=3` of the cluster, `runtime__args=…`."""
    whole = yaml.safe_load(BASE)
    spec = whole["spec"]
    for name, value in fields.items():
        *path, last = name.split("__")
        place = spec["runtime"]["spec"] if path[:1] == ["runtime"] else spec["cluster"]["spec"]
        for key in path[1:] if path[:1] == ["runtime"] else path:
            place = place[key]
        place[last] = value
    return str(yaml.safe_dump(whole, sort_keys=False))


def of(kind: str, text: str = BASE) -> str:
    return text.replace("kind: dask", f"kind: {kind}")


def complaints(text: str) -> list[str]:
    with pytest.raises(JobError) as caught:
        job_of(text)
    return str(caught.value).split("\n")


def complaint(text: str) -> str:
    return "\n".join(complaints(text))


# --- whole files ---------------------------------------------------------------------------------------


WHOLE = {
    "dask": Job(
        name="grid-search",
        framework="dask",
        code="image:/code",
        entry="gridsearch.py",
        args=("--cv", "5"),
        env={"DEFAULT_N_SAMPLES": "5000"},
        workers=Workers(2, 2),
        image=f"{IMAGE}/dask-cluster:dev",
    ),
    "dask-tuned": Job(
        name="tuned",
        framework="dask",
        code="image:/code",
        entry="gridsearch.py",
        env={"DASK_ARRAY__CHUNK_SIZE": "128 MiB", "nthread": "2"},
        workers=Workers(3, 3),
        options={"nthreads": 2},
        roles={
            "main": Role(options={"port": 8788, "start_args": ["--idle-timeout", "3600"]}),
            "worker": Role(
                env={"DASK_DISTRIBUTED__WORKER__MEMORY__SPILL": "0.85"},
                options={
                    "nprocs": 4,
                    "nthreads": 2,
                    "death_timeout": 10.0,
                    "start_args": [
                        *("--worker-port", "8700:8800", "--nanny-port", "3000:3100"),
                        *("--memory-limit", "2GB"),
                    ],
                },
            ),
        },
    ),
    "pytorch": Job(
        name="pytorch-distributed",
        framework="pytorch",
        code="image:/code",
        entry="train.py",
        args=("--data-dir", "/code/data", "--output-dir=/home/datascience/outputs", "--timeout", "5"),
        env={"NCCL_ASYNC_ERROR_HANDLING": "1"},
        workers=Workers(2, 2),
        image=f"{IMAGE}/pytorch:1",
    ),
    "horovod": Job(
        name="horovod-tf",
        framework="horovod",
        code="image:/code",
        entry="train.py",
        args=("--data-dir", "/code/data/mnist.npz"),
        env={
            "MIN_NP": "2",
            "MAX_NP": "4",
            "SLOTS": "2",
            "WORKER_PORT": "12345",
            "START_TIMEOUT": "600",
            "ENABLE_TIMELINE": "0",
            "SYNC_ARTIFACTS": "1",
            "WORKSPACE": "bucket",
            "WORKSPACE_PREFIX": "prefix",
            "HOROVOD_ARGS": "--verbose",
        },
        workers=Workers(1, 1),
        processes=2,
        image=f"{IMAGE}/horovod:1",
        options={
            "min_np": 2,
            "max_np": 4,
            "port": 12345,
            "start_timeout": 600.0,
            "timeline": False,
            "start_args": ["--verbose"],
        },
    ),
    "tensorflow": Job(
        name="tf-multiworker",
        framework="tensorflow",
        code="image:/code",
        entry="train.py",
        args=("--data-dir", "/code/data/"),
        env={"WORKER_PORT": "12345", "SYNC_ARTIFACTS": "1"},
        workers=Workers(1, 1),
        options={"port": 12345},
    ),
    "tensorflow-ps": Job(
        name="tf-ps",
        framework="tensorflow",
        code="image:/code",
        entry="train.py",
        env={"WORKER_PORT": "12345"},
        workers=Workers(1, 1),
        ps=2,
        options={"port": 12345},
        roles={"ps": Role(env={"TF_NUM_INTEROP_THREADS": "2"})},
    ),
    "git": Job(
        name="my-distributed-training",
        framework="pytorch",
        code="git+https://example.org/username/repository.git#abcdef0",
        entry="train.py",
        args=("--config", "conf/small.json", "--epochs", "3"),
        python_path=("src",),
        workers=Workers(1, 1),
        image=f"{IMAGE}/pytorch:1",
    ),
    "remote": Job(
        name="my-distributed-training",
        framework="pytorch",
        code="oci://bucket@namespace/prefix/to/source_code_dir",
        entry="train.py",
        args=("--data", "data"),
        workers=Workers(1, 1),
        image=f"{IMAGE}/pytorch:1",
    ),
    **{
        name: Job(
            name=title,
            framework="dask",
            code="image:/code",
            entry="lgbm_dask.py",
            env=env,
            workers=Workers(2, 2),
            image=f"{IMAGE}/dask-cluster:dev",
            options={
                "tls_ca_file": "/code/dask-tls-ca-cert.pem",
                "tls_cert": "/code/dask-tls-cert.pem",
                "tls_key": "/code/dask-tls-key.pem",
            },
        )
        for name, title, env in (
            ("dask-tls", "my-distributed-training", {}),
            ("dask-certificate", "lgbm-dask", {"SIZE": "1000000"}),
        )
    },
}


def test_every_file_of_the_folder_is_among_those_that_are_read() -> None:
    assert {file.stem for file in FILES.glob("*.yaml")} == WHOLE.keys()


@pytest.mark.parametrize("name", WHOLE)
def test_a_file_as_its_users_have_it_is_read_whole(name: str) -> None:
    assert load_both(FILES / f"{name}.yaml", Installed())[0] == WHOLE[name]


@pytest.mark.parametrize("name", WHOLE)
def test_the_job_file_that_it_stands_for_says_the_same(name: str) -> None:
    text = yaml.safe_dump(show(WHOLE[name]))
    assert job_of(text) == WHOLE[name]


# --- where ---------------------------------------------------------------------------------------------


def test_what_says_where_is_a_target_that_muster_toml_can_hold(tmp_path: Path) -> None:
    where = load_both(FILES / "horovod.yaml", Installed())[1]
    assert where == Where(
        "oci://bucket@namespace/prefix",
        {
            "project_id": "ocid1.datascienceproject.oc1.iad.amaaaaaaproject",
            "compartment_id": "ocid1.compartment.oc1..aaaaaaaacompartment",
            "display_name": "my_distributed_training",
            "log_group_id": "ocid1.loggroup.oc1.iad.amaaaaaagroup",
            "log_id": "ocid1.log.oc1.iad.amaaaaaalog",
            "subnet_id": "ocid1.subnet.oc1.iad.aaaaaaaasubnet",
            "shape_name": "VM.Standard2.4",
            "block_storage_size": 50,
            "job_run_names": {"main": "worker-main", "worker": "worker-0"},
            "workspace": "bucket",
            "workspace_prefix": "prefix",
        },
    )
    (tmp_path / "muster.toml").write_text(where.toml())
    assert (
        load_config(tmp_path).targets["oci"] == where.target() == Target("oci", "oci", where.work_dir, where.settings)
    )


@pytest.mark.parametrize("name", WHOLE)
def test_the_table_for_muster_toml_is_the_very_target_of_the_file(name: str, tmp_path: Path) -> None:
    where = load_both(FILES / f"{name}.yaml", Installed())[1]
    assert where is not None
    (tmp_path / "muster.toml").write_text(where.toml("prod"))
    assert load_config(tmp_path).target("prod") == where.target("prod")


def test_secrets_and_certificates_of_the_vault_belong_to_the_target() -> None:
    git = load_both(FILES / "git.yaml", Installed())[1]
    tls = load_both(FILES / "dask-certificate.yaml", Installed())[1]
    assert git is not None
    assert tls is not None
    assert git.settings["git_secret_id"] == "ocid1.vaultsecret.oc1.iad.amaaaaaasecret"
    assert tls.settings["ca_cert_id"] == "ocid1.certificateauthority.oc1.iad.amaaaaaaauthority"
    assert tls.settings["cert_id"] == "ocid1.certificate.oc1.iad.amaaaaaacertificate"


def test_everything_that_infrastructure_can_say_has_a_place(tmp_path: Path) -> None:
    more = {
        "jobType": "DEFAULT",
        "jobInfrastructureType": "ME_STANDALONE",
        "shapeConfigDetails": {"ocpus": 2.5, "memoryInGBs": "16"},
        "storageMount": [{"src": "oci://data@namespace/set", "dest": "/mnt/data"}],
        "definedTags": {"Oper": {"cost center": 42}},
        "freeformTags": {"team": "vision"},
        "projectId": "ocid1.datascienceproject.oc1.iad.aaa",
        "shapeName": "VM.Standard.E4.Flex",
    }
    whole = yaml.safe_load(BASE)
    whole["spec"]["infrastructure"]["spec"] |= more
    (tmp_path / "train.yaml").write_text(yaml.safe_dump(whole))
    job, where = load_both(tmp_path / "train.yaml", Installed())
    assert job.tags == {"team": "vision"}
    assert where is not None
    assert where.settings == {
        "compartment_id": "ocid1.compartment.oc1..aaa",
        "block_storage_size": 50,
        "job_type": "DEFAULT",
        "job_infrastructure_type": "ME_STANDALONE",
        "shape_config_details": {"ocpus": 2.5, "memory_in_gbs": 16},
        "storage_mount": [
            {
                "storage_type": "OBJECT_STORAGE",
                "bucket": "data",
                "namespace": "namespace",
                "prefix": "set",
                "destination_path": "/mnt",
                "destination_directory_name": "data",
            }
        ],
        "defined_tags": {"Oper": {"cost center": 42}},
        "project_id": "ocid1.datascienceproject.oc1.iad.aaa",
        "shape_name": "VM.Standard.E4.Flex",
    }
    (tmp_path / "muster.toml").write_text(where.toml())
    assert load_config(tmp_path).target("oci") == where.target()


def infrastructure(**fields: Any) -> str:
    """The file above with other fields of infrastructure, one a line."""
    own = "\n".join(f"      {name}: {value}" for name, value in fields.items())
    return BASE.replace(
        "    spec: {compartmentId: ocid1.compartment.oc1..aaa, blockStorageSize: 50}", f"    spec:\n{own}"
    )


def target_of(text: str, folder: Path) -> Target:
    (folder / "train.yaml").write_text(text)
    where = load_both(folder / "train.yaml", Installed())[1]
    assert where is not None
    return where.target()


def test_what_the_target_would_not_take_is_told_where_the_file_says_it(tmp_path: Path) -> None:
    text = infrastructure(
        subnetId="ocid1.vcn.oc1.iad.aaa",
        logId="ocid1.log",
        shapeName="VM.Standard2.4",
        shapeConfigDetails="{ocpus: 2}",
        blockStorageSize=20480,
        jobInfrastructureType="STANDALON",
        storageMount="[{src: '10.0.0.5:/export', dest: fss}]",
    )
    with pytest.raises(JobError) as caught:
        target_of(text, tmp_path)
    assert str(caught.value).replace(f"{tmp_path}/", "") == (
        "train.yaml:7: spec.infrastructure.spec.compartmentId: missing\n"
        "    Add it, such as `compartmentId: ocid1.compartment.oc1..…`.\n"
        "train.yaml:7: spec.infrastructure.spec.projectId: missing\n"
        "    Add it, such as `projectId: ocid1.datascienceproject.oc1.…`.\n"
        "train.yaml:8: spec.infrastructure.spec.subnetId: this is the OCID of a network (VCN), and that of a subnet"
        " belongs here\n"
        "    Write one that begins with ocid1.subnet. `oci network subnet list --compartment-id … --vcn-id …` lists"
        " its subnets.\n"
        "train.yaml:9: spec.infrastructure.spec.logId: expected the OCID of a log, ocid1.log.…, found the text"
        " 'ocid1.log'\n"
        "    Copy it from the console, whole.\n"
        "train.yaml:11: spec.infrastructure.spec.shapeConfigDetails: VM.Standard2.4 has its own size: only flexible"
        " shapes are given one\n"
        "    Take it out, or name a shape in `shapeName` that ends with .Flex.\n"
        "train.yaml:12: spec.infrastructure.spec.blockStorageSize: expected a whole number from 50 to 10240, found"
        " the number 20480\n"
        "train.yaml:13: spec.infrastructure.spec.jobInfrastructureType: expected STANDALONE, ME_STANDALONE or"
        " MULTI_NODE, found the text 'STANDALON'\n"
        "    Did you mean `STANDALONE`?\n"
        "train.yaml:14: spec.infrastructure.spec.storageMount[0]: 10.0.0.5 and /export: the service knows a mount"
        " target and an export only by their OCIDs\n"
        "    `oci fs mount-target list` and `oci fs export list` tell them. Write both, a colon between them."
    )


OWN = {"compartmentId": "ocid1.compartment.oc1..aaa", "projectId": "ocid1.datascienceproject.oc1.iad.aaa"}


def test_a_file_that_is_no_good_for_the_cloud_still_runs_here() -> None:
    assert job_of(infrastructure(subnetId="ocid1.vcn.oc1.iad.aaa")).framework == "dask"


def test_who_names_a_subnet_is_in_it_as_in_ads(tmp_path: Path) -> None:
    subnet = "ocid1.subnet.oc1.iad.aaa"
    text = infrastructure(**OWN, subnetId=subnet, jobInfrastructureType="ME_STANDALONE")
    assert target_of(text, tmp_path).options["job_infrastructure_type"] == "STANDALONE"
    without = infrastructure(**OWN, jobInfrastructureType="STANDALONE")
    with pytest.raises(JobError, match=r"train\.yaml:10: .*Type: STANDALONE is in your own subnet, and none is named"):
        target_of(without, tmp_path)


def test_a_work_dir_of_this_machine_is_no_place_for_nodes_elsewhere(tmp_path: Path) -> None:
    text = infrastructure(**OWN).replace("oci://bucket@namespace/dask", "/home/me/runs")
    with pytest.raises(JobError) as caught:
        target_of(text, tmp_path)
    assert "train.yaml:13: spec.cluster.spec.workDir: /home/me/runs is on this machine" in str(caught.value)


@pytest.mark.parametrize(
    ("mount", "told"),
    [
        ("{src: 'oci://bucket/set', dest: data}", "storageMount[0].src: 'oci://bucket/set' names no storage"),
        ("{src: 'oci://b@n/set', dest: ../data}", "storageMount[0].dest: '../data' is no folder to mount"),
        ("{src: 'oci://b@n/set', dest: /}", "storageMount[0].dest: '/' is no folder to mount"),
        ("{src: 'oci://b@n/set'}", "storageMount[0].dest: missing\n    Add it, such as `dest: /mnt/data`."),
        ("{src: 'oci://b@n', dest: a, ro: true}", "storageMount[0].ro: there is no such setting in a storage mount"),
        ("oci://bucket@namespace", "storageMount[0]: expected {src, dest}, or a text SRC:DEST"),
        ("'host:/export:data'", "storageMount[0]: 'host:/export' names no storage that can be mounted"),
        ("3", "storageMount[0]: expected {src, dest}, or a text SRC:DEST, found the number 3"),
    ],
)
def test_storage_that_cannot_be_mounted_is_told(mount: str, told: str) -> None:
    found = complaint(infrastructure(**OWN, storageMount=f"[{mount}]"))
    assert f"train.yaml:10: spec.infrastructure.spec.{told}" in found


def test_a_job_file_says_nothing_of_a_target(project: Path) -> None:
    (project / "job.yaml").write_text("{name: a, framework: dask, entry: train.py}")
    assert load_both(project / "job.yaml")[1] is None


# --- image ---------------------------------------------------------------------------------------------


def test_the_image_that_was_built_last_is_looked_up_beside_the_file(tmp_path: Path) -> None:
    text = changed(image="@image")
    assert job_of(text, tmp_path).image is None
    (tmp_path / "config.ini").write_text(f"[main]\ntag = 7\nregistry = {IMAGE}/train\n; oci_key_mnt = ~/.oci:/x\n")
    assert job_of(text, tmp_path).image == f"{IMAGE}/train:7"


def test_an_image_that_nothing_names_is_the_targets_to_know(tmp_path: Path) -> None:
    (tmp_path / "train.yaml").write_text(changed(image="@image"))
    where = load_both(tmp_path / "train.yaml", Installed())[1]
    assert where is not None
    assert where.settings["image"] == "@image"
    (tmp_path / "config.ini").write_text("[main]\ntag = 7\nregistry = a/train\n")
    job, where = load_both(tmp_path / "train.yaml", Installed())
    assert where is not None
    assert (job.image, "image" in where.settings) == ("a/train:7", False)


@pytest.mark.parametrize("ini", ["", "[main]\ntag = 1\n", "tag = 1\n", "[main\n"])
def test_a_config_ini_that_names_no_image_is_told(tmp_path: Path, ini: str) -> None:
    (tmp_path / "config.ini").write_text(ini)
    with pytest.raises(JobError) as caught:
        job_of(changed(image="@image"), tmp_path)
    assert f"spec.cluster.spec.image: @image is looked up in {tmp_path}/config.ini, which does not name" in str(
        caught.value
    )


def test_a_roles_image_is_its_own_or_that_of_all() -> None:
    both = job_of(changed(image="a:1", worker__image="b:1"))
    assert (both.image, both.role("worker").image) == ("a:1", "b:1")
    only = job_of(changed(main__image="c:1"))
    assert (only.image, only.roles) == ("c:1", {})


# --- counts and life -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dask", "Dask", "DASK", " dask "])
def test_the_kinds_are_read_in_any_case(kind: str) -> None:
    text = of(f'"{kind}"').replace("kind: distributed", "kind: DISTRIBUTED").replace("kind: python", "kind: Python")
    assert job_of(text).framework == "dask"


def test_a_cluster_without_workers_is_main_alone() -> None:
    whole = yaml.safe_load(BASE)
    del whole["spec"]["cluster"]["spec"]["worker"]
    assert job_of(yaml.safe_dump(whole)).workers == Workers(0, 0)


def test_no_replicas_are_none() -> None:
    assert job_of(changed(worker__replicas=0)) == job_of(changed(worker=None))
    servers = of("tensorflow", changed(ps={"replicas": 0, "config": {"env": env(A=1)}}))
    assert (job_of(servers).ps, job_of(servers).roles) == (0, {})


def test_a_worker_without_replicas_is_one() -> None:
    assert job_of(changed(worker={"name": "worker"})).workers == Workers(1, 1)
    assert job_of(changed(worker__replicas="3")).workers == Workers(3, 3)


@pytest.mark.parametrize("value", [None, True, 1, "1", "None", "True", "yes", ""])
def test_these_mean_that_the_cluster_ends_with_its_script(value: Any) -> None:
    assert job_of(changed(ephemeral=value)).ephemeral is True


@pytest.mark.parametrize("value", [False, 0, "0", "False", "No"])
def test_these_mean_that_it_stays_and_then_no_script_is_needed(value: Any) -> None:
    assert job_of(changed(ephemeral=value)).ephemeral is False
    assert job_of(changed(ephemeral=value, runtime__entryPoint=None)).entry is None
    whole = yaml.safe_load(changed(ephemeral=value))
    del whole["spec"]["runtime"]
    assert job_of(yaml.safe_dump(whole)).entry is None


def env(**values: Any) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in values.items()]


def test_the_life_of_the_cluster_may_stand_in_an_env_list() -> None:
    job = job_of(changed(config__env=env(OCI__TIMEOUT=90, OCI__TTL="2h", OCI__EPHEMERAL=0)))
    assert (job.timeout, job.ttl, job.ephemeral) == (90, 7200, False)
    assert job_of(changed(config__env=env(OCI__EPHEMERAL=0), runtime__entryPoint=None)).entry is None


def test_what_is_left_empty_is_as_if_it_were_not_there() -> None:
    text = changed(
        config=None, main=None, runtime__args=None, runtime__kwargs=None, runtime__env=None, certificate=None
    )
    assert job_of(text) == job_of(BASE)


# --- environments --------------------------------------------------------------------------------------


def test_a_roles_env_lies_over_the_scripts_and_that_over_the_clusters() -> None:
    text = changed(
        config__env=env(A="cluster", B="cluster", C="cluster"),
        runtime__env=env(B="runtime", C="runtime"),
        worker__config={"env": env(C="worker")},
    )
    job = job_of(text)
    assert job.env == {"A": "cluster", "B": "runtime", "C": "runtime"}
    assert job.env_of("worker") == {"A": "cluster", "B": "runtime", "C": "worker"}
    assert job.env_of("main") == job.env


def test_values_are_taken_as_they_were_written() -> None:
    text = BASE.replace("env: []", "env: [{name: A, value: 0.10}, {name: B, value: yes}, {name: C, value: ''}]")
    assert job_of(text).env == {"A": "0.10", "B": "yes", "C": ""}


def test_settings_of_one_framework_are_plain_variables_to_another() -> None:
    own = env(nprocs=4, WORKER_PORT=5, MIN_NP="few", SLOTS=2)
    job = job_of(of("pytorch", changed(config__env=own)))
    assert (job.options, job.processes) == ({}, None)
    assert job.env == {"nprocs": "4", "WORKER_PORT": "5", "MIN_NP": "few", "SLOTS": "2"}


def test_a_roles_env_gives_the_role_its_own_setting() -> None:
    text = of("tensorflow", changed(config__env=env(WORKER_PORT=5), worker__config={"env": env(WORKER_PORT=6)}))
    assert job_of(text).options_of("main")["port"] == 5
    assert job_of(text).options_of("worker")["port"] == 6


def test_start_options_and_horovods_own_variable_are_one_line() -> None:
    text = of("horovod", changed(config={"env": env(HOROVOD_ARGS="--verbose"), "startOptions": ["--cycle-time-ms 2"]}))
    assert job_of(text).options["start_args"] == ["--verbose", "--cycle-time-ms", "2"]


def test_the_folder_that_is_synced_is_the_jobs_outputs() -> None:
    assert job_of(changed(runtime__env=env(OCI__SYNC_DIR="/code/results/"))).outputs == "results"
    plain = job_of(changed(runtime__env=env(OCI__SYNC_DIR="/opt/ml")))
    assert (plain.outputs, plain.env) == ("outputs", {})
    assert "what is brought home lies inside the code folder" in complaint(
        changed(runtime__env=env(OCI__SYNC_DIR="/home/datascience/out"))
    )


# --- arguments and code --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--epochs", 3, True, 0.5], ("--epochs", "3", "true", "0.5")),
        (["--epochs 3", "--data '/code/my set'"], ("--epochs", "3", "--data", "/code/my set")),
        ("--epochs 3 --name 'two words'", ("--epochs", "3", "--name", "two words")),
        (50, ("50",)),
        ([], ()),
        ("$HOME `rm -rf x`; *", ("$HOME", "`rm", "-rf", "x`;", "*")),
    ],
)
def test_arguments_are_a_list_or_shell_words_that_no_shell_touches(args: Any, words: tuple[str, ...]) -> None:
    assert job_of(changed(runtime__args=args)).args == words


def test_named_arguments_come_behind_the_others() -> None:
    assert job_of(changed(runtime__args=[1], runtime__kwargs="--cv 5")).args == ("1", "--cv", "5")
    assert job_of(changed(runtime__kwargs=["--cv", 5])).args == ("--cv", "5")


@pytest.mark.parametrize(
    ("runtime", "code", "entry"),
    [
        ({"entryPoint": "train.py"}, "image:/code", "train.py"),
        ({"entryPoint": "./deep/train.py"}, "image:/code", "deep/train.py"),
        ({"entryPoint": "/code/deep/train.py"}, "image:/code", "deep/train.py"),
        ({"entryPoint": "/opt/app/train.py"}, "image:/opt/app", "train.py"),
        ({"entryPoint": "/opt/app/train.py", "codeDir": "/opt/"}, "image:/opt", "app/train.py"),
        ({"entryPoint": "train.py", "codeDir": "/opt/app"}, "image:/opt/app", "train.py"),
    ],
)
def test_the_script_is_named_from_the_folder_that_the_image_has_it_in(
    runtime: dict[str, str], code: str, entry: str
) -> None:
    job = job_of(changed(**{f"runtime__{name}": value for name, value in runtime.items()}))
    assert (job.code, job.entry) == (code, entry)


def typed(kind: str, **spec: Any) -> str:
    whole = yaml.safe_load(changed(**{f"runtime__{name}": value for name, value in spec.items()}))
    whole["spec"]["runtime"]["type"] = kind
    return str(yaml.safe_dump(whole, sort_keys=False))


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ({"uri": "https://host/a.git"}, "git+https://host/a.git"),
        ({"uri": "https://host/a.git", "branch": "develop"}, "git+https://host/a.git#develop"),
        ({"uri": "https://host/a.git", "branch": "develop", "commit": "abc"}, "git+https://host/a.git#abc"),
        ({"uri": "file:///srv/a.git", "commit": 1234567}, "git+file:///srv/a.git#1234567"),
    ],
)
def test_code_from_git_is_named_with_what_is_checked_out(spec: dict[str, Any], code: str) -> None:
    assert job_of(typed("git", **spec)).code == code


def test_paths_into_a_clone_are_named_from_it() -> None:
    job = job_of(
        typed(
            "git",
            uri="https://host/a.git",
            entryPoint="/code/train.py",
            args=["--data=/code/data", "/code", "/codes"],
            env=env(HERE="/code/x:/usr:/code/y"),
            pythonPath="/code/src:lib",
        )
    )
    assert (job.entry, job.args) == ("train.py", ("--data=data", ".", "/codes"))
    assert (job.env, job.python_path) == ({"HERE": "x:/usr:y"}, ("src", "lib"))


@pytest.mark.parametrize(
    ("uri", "entry", "found"),
    [
        ("oci://bucket@space/train.py", "train.py", "train.py"),
        ("oci://bucket@space/deep/src", "src/train.py", "train.py"),
        ("oci://bucket@space/deep/src/", "/code/src/a/train.py", "a/train.py"),
        ("oci://bucket@space/deep/src", "./src/train.py", "train.py"),
        ("oci://bucket@space/deep/src.zip", "src/train.py", "src/train.py"),
        ("oci://bucket@space/deep/src.tar.gz", "/code/train.py", "train.py"),
    ],
)
def test_code_from_elsewhere_is_named_as_it_lies_there(uri: str, entry: str, found: str) -> None:
    job = job_of(typed("remote", uri=uri, entryPoint=entry))
    assert (job.code, job.entry) == (uri, found)


def test_a_folder_may_be_copied_to_another_place() -> None:
    job = job_of(
        typed("remote", uri="oci://b@n/src", codeDir="/opt/x", entryPoint="/opt/x/src/train.py", args=["/opt/x/src/a"])
    )
    assert (job.entry, job.args) == ("train.py", ("a",))


@pytest.mark.parametrize("given", [["src", "lib"], "src:lib", '["src", "lib"]', ["/code/src/", "lib"]])
def test_pythons_paths_are_a_list_or_a_text(given: Any) -> None:
    assert job_of(changed(runtime__pythonPath=given)).python_path == ("src", "lib")


# --- start options -------------------------------------------------------------------------------------


def test_what_is_said_to_the_cluster_is_said_to_each_program_that_has_nothing_of_its_own() -> None:
    job = job_of(changed(config__startOptions=["--preload a.py"], worker__config={"startOptions": ["--no-nanny"]}))
    assert job.role("main").options == {"start_args": ["--preload", "a.py"]}
    assert job.role("worker").options == {"start_args": ["--no-nanny"]}


def test_variables_in_start_options_are_filled_in_from_the_layers_below() -> None:
    text = changed(
        config__env=env(memory="1GB", nthread=2),
        worker__config={
            "env": env(memory="2GB"),
            "startOptions": [
                "--memory-limit ${memory} --nthreads=$nthread",
                "--nworkers ${nprocs} --name ${missing:-w}",
                "--resources 'GPU=\\$1'",
            ],
        },
    )
    assert job_of(text).role("worker").options == {
        "nprocs": 1,
        "nthreads": 2,
        "start_args": ["--memory-limit", "2GB", "--name", "w", "--resources", "GPU=\\$1"],
    }


def test_certificates_may_differ_by_role() -> None:
    words = ["--tls-ca-file /ca --tls-cert /cert"]
    text = changed(
        main__config={"startOptions": [*words, "--tls-key /main"]},
        worker__config={"startOptions": [*words, "--tls-key /worker"]},
    )
    job = job_of(text)
    assert job.options == {"tls_ca_file": "/ca", "tls_cert": "/cert"}
    assert job.options_of("main")["tls_key"] == "/main"
    assert job.options_of("worker")["tls_key"] == "/worker"


def test_certificates_have_adss_own_names_where_none_are_given() -> None:
    job = job_of(changed(certificate={"caCert": {"id": "ocid1.ca"}, "cert": {"id": "ocid1.cert"}}))
    assert job.options == {"tls_ca_file": "ca-cert.pem", "tls_cert": "cert.pem", "tls_key": "key.pem"}


# --- mistakes ------------------------------------------------------------------------------------------


MISTAKEN = """\
kind: distributed
apiVersion: v2
spec:
  infrastucture: {}
  infrastructure:
    kind: infrastructure
    type: dataFlow
    spec:
      compartmentId: ocid1.compartment.oc1..<unique_id>
      projectId: ocid1.xxxxxx
      subnetId: "{subnet}"
      shapeName: TODO
      blockStorageSize: 20
  cluster:
    kind: dusk
    spec:
      image: region.ocir.io/<tenancy>/image:tag
      ephemral: true
      main: {replicas: 2}
      worker: {replicas: none}
      ps: {replicas: some}
      config:
        env:
          - name: WORKSPACE
            value: <bucket_name>
          - {name: OCI__WORKER_COUNT, value: 2}
          - {name: A, valu: 2}
          - {name: 2X, value: 2}
        startOptions: --a $b
  runtime:
    kind: notebook
    spec:
      entryPoint: train.py
      args: {epochs: 3}
      kwargs: it's
"""


def test_every_mistake_is_told_with_its_line_and_what_mends_it() -> None:
    told = complaints(MISTAKEN)
    found = [line.removeprefix("train.yaml:") for line in told if not line.startswith("    ")]
    cluster, infrastructure = "spec.cluster.spec", "spec.infrastructure.spec"
    assert [line.split(": ", 2)[:2] for line in found] == [
        ["2", "apiVersion"],
        ["4", "spec.infrastucture"],
        ["7", "spec.infrastructure.type"],
        ["9", f"{infrastructure}.compartmentId"],
        ["10", f"{infrastructure}.projectId"],
        ["11", f"{infrastructure}.subnetId"],
        ["12", f"{infrastructure}.shapeName"],
        ["13", f"{infrastructure}.blockStorageSize"],
        ["15", "spec.cluster.kind"],
        ["16", f"{cluster}.workDir"],
        ["17", f"{cluster}.image"],
        ["18", f"{cluster}.ephemral"],
        ["19", f"{cluster}.main.replicas"],
        ["20", f"{cluster}.worker.replicas"],
        ["21", f"{cluster}.ps.replicas"],
        ["25", f"{cluster}.config.env[0].value"],
        ["26", f"{cluster}.config.env[1].value"],
        ["27", f"{cluster}.config.env[2].valu"],
        ["27", f"{cluster}.config.env[2].value"],
        ["28", f"{cluster}.config.env[3].name"],
        ["29", f"{cluster}.config.startOptions"],
        ["31", "spec.runtime.kind"],
        ["34", "spec.runtime.spec.args"],
        ["35", "spec.runtime.spec.kwargs"],
    ]
    # What a number is and has to be says all by itself.
    assert len(told) == 2 * len(found) - 3


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            of("ray"),
            "train.yaml:9: spec.cluster.kind: Ray is not among the frameworks of Muster\n"
            "    Muster makes clusters of dask, horovod, pytorch or tensorflow. Keep this file for ADS.",
        ),
        (
            of("dusk"),
            "train.yaml:9: spec.cluster.kind: expected dask, horovod, pytorch or tensorflow, found the text 'dusk'\n"
            "    Did you mean `dask`?",
        ),
        (
            BASE.replace("workDir: oci://bucket@namespace/dask", "name: a"),
            "train.yaml:10: spec.cluster.spec.workDir: missing\n"
            "    Add it, such as `workDir: oci://bucket@namespace/folder`.",
        ),
        (
            BASE.replace("oci://bucket@namespace/dask", "oci://<your-bucket>@namespace/dask"),
            "train.yaml:11: spec.cluster.spec.workDir: '<your-bucket>' is a placeholder that was not filled in\n"
            "    Write the bucket and folder where the nodes meet, such as oci://bucket@namespace/folder.",
        ),
        (
            BASE.replace("replicas: 2", "replicas: -1"),
            "train.yaml:14: spec.cluster.spec.worker.replicas: expected a whole number of at least 0, found the number"
            " -1",
        ),
        (
            BASE.replace("replicas: 2", "replica: 2"),
            "train.yaml:14: spec.cluster.spec.worker.replica: there is no such setting in worker\n"
            "    Did you mean `replicas`?",
        ),
        (
            BASE.replace("entryPoint: train.py", "args: [1]"),
            "train.yaml:17: spec.runtime.spec.entryPoint: missing: a cluster ends with its script, and there is none\n"
            "    Add `runtime: {kind: python, spec: {entryPoint: train.py}}`, or `ephemeral: false` to the cluster.",
        ),
        (
            BASE.partition("  runtime:")[0],
            "train.yaml:3: spec.runtime: missing: a cluster ends with its script, and there is none\n"
            "    Add `runtime: {kind: python, spec: {entryPoint: train.py}}`, or `ephemeral: false` to the cluster.",
        ),
        (
            BASE.replace("startOptions: []", "startOptions: ['--nthreads $nthred']"),
            "train.yaml:12: spec.cluster.spec.config.startOptions[0]: the variable $nthred is not known when the"
            " cluster starts\n    Did you mean `nthread`? Or give it a value in an env list.",
        ),
        (
            of("pytorch", BASE.replace("startOptions: []", "startOptions: [--a]")),
            "train.yaml:12: spec.cluster.spec.config.startOptions[0]: pytorch takes no start options\n"
            "    Take them out: its scripts are started as they are, by no launcher that would read them.",
        ),
        (
            BASE.replace("worker: {", "ps: {replicas: 1}\n      worker: {"),
            "train.yaml:14: spec.cluster.spec.ps: dask has no parameter servers\n    Take ps out.",
        ),
        (
            BASE.replace("env: []", "env: [{name: nprocs, value: many}]"),
            "train.yaml:12: spec.cluster.spec.config.env[0].value: nprocs: expected a whole number of at least 1,"
            " found 'many'\n    Write such a value, or take it out.",
        ),
        (
            BASE.replace("env: []", "env: [{name: OCI__EPHEMERAL, value: 0}]").replace(
                "workDir:", "ephemeral: true\n      workDir:"
            ),
            "train.yaml:13: spec.cluster.spec.config.env[0].value: OCI__EPHEMERAL says 0, and"
            " spec.cluster.spec.ephemeral says True\n    Keep one of the two.",
        ),
        (
            BASE.replace("env: []", "env: [{name: A, value: 1}, {name: A, value: 2}]"),
            "train.yaml:12: spec.cluster.spec.config.env[1].value: A is given twice, on lines 12 and 12\n"
            "    Keep one of the two.",
        ),
        (
            BASE.replace("config: {}}\n  runtime", "config: {env: [{name: OCI__TIMEOUT, value: 5}]}}\n  runtime"),
            "train.yaml:14: spec.cluster.spec.worker.config.env[0].value: OCI__TIMEOUT holds for all nodes, not for"
            " worker alone\n    Move it to the env list of the cluster's own config.",
        ),
        (
            BASE.replace("env: []", "env: [{name: RANK, value: 1}]"),
            "train.yaml:12: spec.cluster.spec.config.env[0].value: RANK is set on each node by itself\n"
            "    Take it out.",
        ),
        (
            BASE.replace("env: []", "env: [{name: PROFILE, value: 1}]"),
            "train.yaml:12: spec.cluster.spec.config.env[0].value: a profiler's command around the script is not"
            " something Muster does\n    Take PROFILE out, and start the profiler in the script.",
        ),
        (
            BASE.replace("env: []", "env: {A: 1}"),
            "train.yaml:12: spec.cluster.spec.config.env: expected a list of {name: …, value: …}, found a mapping\n"
            "    Write each variable as `- name: X`, and below it `value: Y`.",
        ),
        (
            BASE.replace("entryPoint: train.py", "entryPoint: /opt/train.py\n      codeDir: /code"),
            "train.yaml:18: spec.runtime.spec.entryPoint: /opt/train.py lies outside of the code folder /code\n"
            "    Name a script below /code, or say in codeDir where the code is.",
        ),
        (
            BASE.replace("entryPoint: train.py", "entryPoint: train.py\n      uri: https://host/a.git"),
            "train.yaml:19: spec.runtime.spec.uri: not used: without a type the code is in the image\n"
            "    Add `type: git` or `type: remote` beside `kind: python`, or take uri out.",
        ),
        (
            BASE.replace("kind: python", "kind: python\n    type: git"),
            "train.yaml:18: spec.runtime.spec.uri: missing: the code is taken from there by `type: git`\n"
            "    Add `uri: https://host/name.git`.",
        ),
        (
            BASE.replace("worker: {", "certificate: {caCert: {id: ocid1.a}}\n      worker: {"),
            "train.yaml:14: spec.cluster.spec.certificate.cert: missing\n"
            "    Add it, such as `cert: {id: ocid1.certificate…, certDownloadLocation: /code/cert.pem}`.",
        ),
        (
            of(
                "pytorch",
                BASE.replace("worker: {", "certificate: {caCert: {id: ocid1.a}, cert: {id: ocid1.b}}\n      worker: {"),
            ),
            "train.yaml:14: spec.cluster.spec.certificate: certificates are for Dask: pytorch has no setting for"
            " them\n    Take it out.",
        ),
        (
            BASE.replace("main: {config: {}}", "main: {config: {startOptions: [--tls-cert /a]}}"),
            "train.yaml:13: spec.cluster.spec.main.config.startOptions[0]: TLS takes tls_ca_file, tls_cert, tls_key,"
            " all three, on main and on the workers\n    Give all of them, to both; or take them out.",
        ),
        (
            BASE.replace("main: {config: {}}", "main: {config: {startOptions: [--port]}}"),
            "train.yaml:13: spec.cluster.spec.main.config.startOptions[0]: --port lacks its value\n"
            "    Write --port and its value.",
        ),
        (
            BASE.replace("config: {}}\n  runtime", "config: {startOptions: [--nworkers auto]}}\n  runtime"),
            "train.yaml:14: spec.cluster.spec.worker.config.startOptions[0]: --nworkers: expected a whole number of"
            " at least 1, found 'auto'\n    Take --nworkers out, or give it such a value.",
        ),
        (
            BASE.replace("startOptions: []", "startOptions: ['$(nproc)', '`nproc`', \"it's\"]"),
            "train.yaml:12: spec.cluster.spec.config.startOptions[0]: '$(' means nothing here: no shell reads it\n"
            "    Variables are written $name or ${name}; write \\$ for the sign itself.\n"
            "train.yaml:12: spec.cluster.spec.config.startOptions[1]: a command in backquotes is not run\n"
            "    Write what it would print.\n"
            "train.yaml:12: spec.cluster.spec.config.startOptions[2]: expected words as a shell reads them: no closing"
            " quotation\n    Quotes come in pairs; write \\' or \\\" for one that is meant.",
        ),
    ],
)
def test_a_mistake_says_what_where_and_how_to_mend_it(text: str, told: str) -> None:
    assert complaint(text) == told


@pytest.mark.parametrize(
    "value",
    ["<ocid>", "ocid1.compartment.oc1..<unique_ID>", "{compartment}", "${COMPARTMENT}", "ocid1.xxx", "TODO", "…"],
)
def test_what_a_template_left_open_is_found(value: str) -> None:
    assert "is a placeholder that was not filled in" in complaint(
        BASE.replace("ocid1.compartment.oc1..aaa", f'"{value}"')
    )


@pytest.mark.parametrize("value", ["{'a': 1}", "a<b>c", "$HOME", "xxx", "to do"])
def test_values_of_the_users_own_may_hold_any_sign(value: str) -> None:
    assert job_of(changed(runtime__env=env(A=value))).env == {"A": value}
    assert "placeholder" in complaint(changed(runtime__env=env(A="<your value>")))
    assert "placeholder" in complaint(changed(runtime__args=["--bucket", "<bucket_name>"]))


# --- nothing makes it stumble --------------------------------------------------------------------------


WHOLE_TREES = [yaml.safe_load(file.read_text()) for file in sorted(FILES.glob("*.yaml"))]
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(max_size=12),
    st.sampled_from(
        [
            "",
            "0",
            "<x>",
            "$x",
            "${",
            "'",
            "[",
            "/code",
            "/code/",
            "image:/",
            "--port",
            "@image",
            "git+x#y",
            "\0",
            "oci://",
        ]
    ),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["name", "value", "spec", "kind", "env", "config", "x"]), inner, max_size=3),
    ),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found += places(inner, (*path, key))
    return found


@st.composite
def broken_files(draw: st.DrawFn) -> str:
    """A file as its users have it, with a few of its values replaced, renamed or taken out."""
    whole = copy.deepcopy(draw(st.sampled_from(WHOLE_TREES)))
    for _ in range(draw(st.integers(1, 4))):
        *path, last = draw(st.sampled_from(places(whole) or [("kind",)]))
        place: Any = whole
        for key in path:
            place = place[key]
        if draw(st.booleans()):
            place[last] = draw(VALUES)
        elif isinstance(place, dict):
            inner = place.pop(last, None)
            place |= {draw(st.text("abkKindspec_", max_size=6)): inner} if draw(st.booleans()) else {}
    return str(yaml.safe_dump(whole))


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(broken_files())
def test_no_file_of_this_kind_gives_a_traceback(text: str) -> None:
    told = told_of(text)
    assert all(problem.line > 0 for problem in told)


def told_of(text: str) -> tuple[Problem, ...]:
    """What is wrong with a file, on this machine or in the cloud; what is right with it says the same in our words."""
    try:
        job, where = load_parts(text)
        assert job_of(yaml.safe_dump(show(job))) == job
        target = where.target() if where else None
    except JobError as error:
        return error.problems
    assert target is None or toml_target(where.toml() if where else "") == target
    return ()


def load_parts(text: str) -> tuple[Job, Where | None]:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "train.yaml").write_text(text, encoding="utf-8")
        return load_both(Path(folder) / "train.yaml", Installed())


def toml_target(text: str) -> Target:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "muster.toml").write_text(text, encoding="utf-8")
        return load_config(folder).target("oci")
