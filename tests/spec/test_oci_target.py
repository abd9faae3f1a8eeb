"""`[targets.NAME]` of the kind oci: every setting, and what is wrong with one, with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.errors import ConfigError
from muster.spec.config import Config, Target, load_config
from muster.spec.oci_kinds import is_far, ocid_type
from muster.spec.oci_target import TABLE, section, toml_example

pytestmark = pytest.mark.unit

LEAST = """\
[targets.prod]
kind = "oci"
work_dir = "oci://bucket@namespace/runs"
compartment_id = "ocid1.compartment.oc1..aaa"
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)


def configured(folder: Path, text: str) -> Config:
    (folder / "muster.toml").write_text(text)
    return load_config(folder)


def complaint(folder: Path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        configured(folder, text)
    return str(caught.value).replace(f"{folder}/", "")


def test_the_least_that_a_target_says(tmp_path: Path) -> None:
    assert configured(tmp_path, LEAST).target("prod") == Target(
        "prod", "oci", "oci://bucket@namespace/runs", {"compartment_id": "ocid1.compartment.oc1..aaa"}
    )


WHOLE = (
    LEAST
    + """\
project_id = "ocid1.datascienceproject.oc1.iad.aaa"
subnet_id = "ocid1.subnet.oc1.iad.aaa"
log_group_id = "ocid1.loggroup.oc1.iad.aaa"
log_id = "ocid1.log.oc1.iad.aaa"
security_group_ids = ["ocid1.networksecuritygroup.oc1.iad.aaa"]
shape_name = "VM.Standard.E4.Flex"
shape_config_details = {ocpus = 0.5, memory_in_gbs = 64}
block_storage_size = 10240
job_infrastructure_type = "STANDALONE"
job_type = "DEFAULT"
multi_node = false
display_name = "a job, of ours"
storage_mount = [
    "oci://data@space/a/set:/mnt/data",
    "ocid1.mounttarget.oc1.iad.aaa@ocid1.export.oc1.iad.bbb:shared",
    {src = "ocid1.mounttarget.oc1.iad.aaa:ocid1.export.oc1.iad.bbb", dest = "/shared"},
    {storage_type = "OBJECT_STORAGE", bucket = "data", namespace = "space", destination_directory_name = "all"},
]
image = "@image"
auth = "security_token"
profile = "TEAM"
region = "us-ashburn-1"
git_secret_id = "ocid1.vaultsecret.oc1.iad.aaa"
ca_cert_id = "ocid1.certificateauthority.oc1.iad.aaa"
cert_id = "ocid1.certificate.oc1.iad.aaa"
workspace = "bucket"
workspace_prefix = "folder"

[targets.prod.defined_tags]
Operations = {team = "vision", year = 2026}

[targets.prod.job_run_names]
main = "chief"
worker = "hand"

[targets.prod.roles.worker]
shape_name = "VM.GPU3.1"
block_storage_size = 100

[targets.prod.roles.ps]
shape_config_details = {ocpus = 1}

[targets.prod.secrets]
WANDB_API_KEY = "ocid1.vaultsecret.oc1.iad.bbb"
"""
)


def test_everything_has_its_place(tmp_path: Path) -> None:
    options = configured(tmp_path, WHOLE).target("prod").options
    assert options.keys() | {"kind", "work_dir"} == {field.name for field in section(toml_example).fields}
    assert options["shape_config_details"] == {"ocpus": 0.5, "memory_in_gbs": 64}
    assert options["roles"] == {
        "worker": {"shape_name": "VM.GPU3.1", "block_storage_size": 100},
        "ps": {"shape_config_details": {"ocpus": 1}},
    }
    assert options["defined_tags"] == {"Operations": {"team": "vision", "year": 2026}}
    assert options["secrets"] == {"WANDB_API_KEY": "ocid1.vaultsecret.oc1.iad.bbb"}
    assert options["job_run_names"] == {"main": "chief", "worker": "hand"}
    assert options["security_group_ids"] == ["ocid1.networksecuritygroup.oc1.iad.aaa"]


def test_storage_is_kept_in_the_words_of_the_service(tmp_path: Path) -> None:
    files = {
        "storage_type": "FILE_STORAGE",
        "mount_target_id": "ocid1.mounttarget.oc1.iad.aaa",
        "export_id": "ocid1.export.oc1.iad.bbb",
    }
    data = {"storage_type": "OBJECT_STORAGE", "bucket": "data", "namespace": "space"}
    assert configured(tmp_path, WHOLE).target("prod").options["storage_mount"] == [
        {**data, "prefix": "a/set", "destination_directory_name": "data", "destination_path": "/mnt"},
        {**files, "destination_directory_name": "shared"},
        {**files, "destination_directory_name": "shared", "destination_path": "/"},
        {**data, "destination_directory_name": "all"},
    ]


@pytest.mark.parametrize("said", ["multi_node = true", 'job_infrastructure_type = "MULTI_NODE"'])
def test_two_settings_say_that_a_run_is_of_the_services_own_kind(tmp_path: Path, said: str) -> None:
    options = configured(tmp_path, f"{LEAST}{said}\n").target("prod").options
    assert (options["multi_node"], options["job_infrastructure_type"]) == (True, "MULTI_NODE")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            'subnet = "ocid1.subnet.oc1.iad.aaa"',
            "subnet: there is no such setting in a target of the kind oci\n    Did you mean `subnet_id`?",
        ),
        (
            'subnet_id = "ocid1.vcn.oc1.iad.aaa"',
            "subnet_id: this is the OCID of a network (VCN), and that of a subnet belongs here\n"
            "    Write one that begins with ocid1.subnet. `oci network subnet list --compartment-id … --vcn-id …`"
            " lists its subnets.",
        ),
        (
            'project_id = "ocid1.instance.oc1.iad.aaa"',
            "project_id: this is the OCID of an instance, and that of a Data Science project belongs here\n"
            "    Write one that begins with ocid1.datascienceproject.",
        ),
        (
            'log_id = "ocid1.log.oc1..<unique>"',
            "log_id: expected the OCID of a log, ocid1.log.…, found the text 'ocid1.log.oc1..<unique>'\n"
            "    Copy it from the console, whole.",
        ),
        (
            "log_group_id = 3",
            "log_group_id: expected the OCID of a log group, ocid1.loggroup.…, found the number 3\n"
            '    Put it in quotes: "3".',
        ),
        (
            'security_group_ids = ["ocid1.securitylist.oc1.iad.aaa"]',
            "security_group_ids[0]: this is the OCID of a security list, and that of a network security group"
            " belongs here\n    Write one that begins with ocid1.networksecuritygroup.",
        ),
        (
            'security_group_ids = "ocid1.networksecuritygroup.oc1.iad.aaa"',
            "security_group_ids: expected a list, each the OCID of a network security group,"
            " ocid1.networksecuritygroup.…, found the text 'ocid1.networksecuritygroup.oc1.iad.aaa'\n"
            "    Write it as a list, in square brackets.",
        ),
        (
            'shape_name = "Standard.E4"',
            "shape_name: expected the name of a shape, such as VM.Standard.E4.Flex, found 'Standard.E4'",
        ),
        (
            "shape_config_details = {ocpu = 1}",
            "shape_config_details.ocpu: there is no such setting in shape_config_details\n    Did you mean `ocpus`?",
        ),
        (
            "shape_config_details = {ocpus = 0}",
            "shape_config_details.ocpus: expected a number above zero, found the number 0",
        ),
        (
            "block_storage_size = 49",
            "block_storage_size: expected a whole number from 50 to 10240, found the number 49",
        ),
        (
            'block_storage_size = "100"',
            "block_storage_size: expected a whole number from 50 to 10240, found the text '100'\n"
            "    Take the quotes off: 100.",
        ),
        (
            'job_infrastructure_type = "STANDALONE"',
            "job_infrastructure_type: STANDALONE is in your own subnet, and none is named\n"
            "    Add `subnet_id`, or write ME_STANDALONE.",
        ),
        (
            'job_infrastructure_type = "standalone"',
            "job_infrastructure_type: expected STANDALONE, ME_STANDALONE or MULTI_NODE, found the text 'standalone'\n"
            "    Did you mean `STANDALONE`?",
        ),
        (
            'multi_node = true\njob_infrastructure_type = "ME_STANDALONE"',
            "multi_node: says one thing, and job_infrastructure_type = ME_STANDALONE another\n    Keep one.",
        ),
        (
            'roles = {workers = {shape_name = "VM.GPU3.1"}}',
            "roles.workers: there is no such setting in roles\n    Did you mean `worker`?",
        ),
        (
            'roles = {worker = {shape_name = "VM.GPU3.1", shape_config_details = {ocpus = 2}}}',
            "roles.worker.shape_config_details: VM.GPU3.1 has its own size: only flexible shapes are given one\n"
            "    Take it out, or name a shape in `shape_name` that ends with .Flex.",
        ),
        ('auth = "key"', "auth: expected api_key, security_token, resource_principal or instance_principal, found the"),
        ('region = "Ashburn 1"', "region: expected a region, such as us-ashburn-1, found 'Ashburn 1'"),
        ('secrets = {KEY = "value"}', "secrets.KEY: expected the OCID of a secret, ocid1.vaultsecret.…"),
        ('secrets = {"A B" = "ocid1.vaultsecret.oc1..a"}', "secrets.A B: expected the name of an environment variable"),
        (
            'defined_tags = {team = "vision"}',
            'defined_tags.team: expected tags by namespace and key, such as {Operations = {team = "vision"}}\n'
            "    Tags without a namespace are the job's `tags`.",
        ),
        ("defined_tags = {a = {b = [1]}}", "defined_tags.a.b: expected a text or a number\n    A tag has one value."),
        ("defined_tags = 3", "defined_tags: expected tags by namespace and key"),
        (
            'image = "<image>"',
            "image: expected @image, or an image such as region.ocir.io/namespace/name:1, found '<image>'",
        ),
        (
            'storage_mount = ["10.0.0.5@/export:data"]',
            "storage_mount[0]: 10.0.0.5 and /export: the service knows a mount target and an export only by their"
            " OCIDs\n    `oci fs mount-target list` and `oci fs export list` tell them. Write both, a colon between"
            " them.",
        ),
        (
            'storage_mount = [{storage_type = "FILE_STORAGE", destination_directory_name = "a", bucket = "b"}]',
            "storage_mount[0]: FILE_STORAGE needs mount_target_id or mount_target\n",
        ),
        (
            "storage_mount = [" + '"oci://b@n:a", ' * 6 + "]",
            "storage_mount: the service takes at most 5, and here are 6",
        ),
    ],
)
def test_a_mistake_says_what_where_and_how_to_mend_it(tmp_path: Path, line: str, told: str) -> None:
    found = complaint(tmp_path, f"{LEAST}{line}\n")
    assert found.startswith(f"muster.toml:5: targets.prod.{told}")


def test_a_subnet_and_the_services_own_network_are_not_both(tmp_path: Path) -> None:
    text = f'{LEAST}subnet_id = "ocid1.subnet.oc1.iad.aaa"\njob_infrastructure_type = "ME_STANDALONE"\n'
    assert complaint(tmp_path, text) == (
        "muster.toml:6: targets.prod.job_infrastructure_type: ME_STANDALONE is in the service's own network, and"
        " `subnet_id` names one of yours\n    Write STANDALONE, or take `subnet_id` out."
    )


@pytest.mark.parametrize(
    ("work_dir", "told"),
    [
        ("runs", "runs is on this machine, where nodes in Oracle's cloud cannot meet"),
        ("file:///runs", "file:///runs is on this machine, where nodes in Oracle's cloud cannot meet"),
        ("memory://runs", "memory://runs is on this machine, where nodes in Oracle's cloud cannot meet"),
        ("oci://bucket/runs", "oci://bucket/runs does not say the bucket's namespace"),
        ("s4://bucket", "expected a path or file://, s3://, oci://, gs://, az://, found 's4://bucket'"),
    ],
)
def test_the_nodes_must_be_able_to_meet(tmp_path: Path, work_dir: str, told: str) -> None:
    found = complaint(tmp_path, LEAST.replace("oci://bucket@namespace/runs", work_dir))
    assert found.startswith(f"muster.toml:3: targets.prod.work_dir: {told}\n")


@pytest.mark.parametrize("work_dir", ["s3://bucket/runs", "sftp://host/runs", "oci://b@n", "oci://b@n/r?region=iad"])
def test_any_store_that_is_not_on_this_machine_will_do(tmp_path: Path, work_dir: str) -> None:
    found = configured(tmp_path, LEAST.replace("oci://bucket@namespace/runs", work_dir))
    assert found.target("prod").work_dir == work_dir
    assert is_far(work_dir)


def test_what_must_be_there_is_missed(tmp_path: Path) -> None:
    assert complaint(tmp_path, '[targets.prod]\nkind = "oci"\n') == (
        "muster.toml:1: targets.prod.work_dir: missing\n"
        '    Add it, such as `work_dir = "oci://bucket@namespace/folder"`.\n'
        "muster.toml:1: targets.prod.compartment_id: missing\n"
        '    Add it, such as `compartment_id = "ocid1.compartment.oc1..…"`.'
    )


def test_without_a_target_of_this_name_there_is_one_to_paste(tmp_path: Path) -> None:
    config = configured(tmp_path, "")
    with pytest.raises(ConfigError) as caught:
        config.target("oci")
    told = str(caught.value)
    assert f"Write one into {tmp_path}/muster.toml, with your own OCIDs:\n    [targets.oci]\n" in told
    pasted = "\n".join(line.strip() for line in told.splitlines()[2:]).replace("…", "iad.aaa")
    assert configured(tmp_path, pasted).target("oci").options["shape_config_details"]["ocpus"] == 4
    assert TABLE.format(name="x").startswith("[targets.x]\n")


def test_what_a_jobs_own_file_says_is_taken_where_no_target_has_the_name(tmp_path: Path) -> None:
    own = Target("oci", "oci", "oci://b@n/own")
    assert configured(tmp_path, LEAST).target("oci", own) is own
    named = configured(tmp_path, LEAST.replace("prod", "oci"))
    assert named.target("oci", own).work_dir == "oci://bucket@namespace/runs"
    with pytest.raises(ConfigError, match="there is no target 'other'"):
        named.target("other", own)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("ocid1.compartment.oc1..aaaaaaaaexample", "compartment"),
        ("ocid1.subnet.oc1.us-ashburn-1.aaaa", "subnet"),
        ("ocid1.vaultsecret.oc1.iad.future.aaaa", "vaultsecret"),
        ("ocid1.compartment.oc1", None),
        ("ocid.compartment.oc1..a", None),
        ("ocid1.compartment.oc1..a b", None),
        ("", None),
    ],
)
def test_an_ocid_says_what_it_is_the_ocid_of(text: str, kind: str | None) -> None:
    assert ocid_type(text) == kind
