"""What `ads opctl configure` and `build-image` of ADS wrote down is read as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.errors import ConfigError, JobError
from muster.spec.ads_config import AdsHome, read_home
from muster.spec.ads_image import BuiltImage, read_built, write_built
from muster.spec.ads_where import Source, Where

pytestmark = pytest.mark.unit

SILENT = Where("oci://b@n/runs", {}, Source("train.yaml", {"spec.cluster.spec.workDir": 4}))
SPOKEN = Where(
    "oci://b@n/runs",
    {"compartment_id": "ocid1.compartment.oc1..own"},
    Source("train.yaml", {"spec.infrastructure.spec.compartmentId": 6}),
)
JOBS = """\
[DEFAULT]
compartment_id = ocid1.compartment.oc1..default
project_id = ocid1.datascienceproject.oc1.iad.default
[TEAM]
compartment_id = ocid1.compartment.oc1..team
project_id = ocid1.datascienceproject.oc1.iad.team
subnet_id = ocid1.subnet.oc1.iad.team
log_group_id =
shape_name = VM.Standard.E4.Flex
block_storage_size_in_GBs = 100
ocpus = 2
memory_in_gbs = 16.5
docker_registry = iad.ocir.io/ns
[RESOURCE_PRINCIPAL]
compartment_id = ocid1.compartment.oc1..principal
"""


def home(folder: Path, sign_in: str = "", jobs: str = JOBS, profile: str | None = None) -> AdsHome:
    (folder / "config.ini").write_text(sign_in)
    (folder / "ml_job_config.ini").write_text(jobs)
    return read_home(folder, profile)


def test_a_file_that_names_no_infrastructure_has_that_of_its_profile(tmp_path: Path) -> None:
    made = home(tmp_path, "[OCI]\noci_config = ~/.oci/config\noci_profile = TEAM\nauth = api_key\n[CONDA]\n")
    assert made.complete(SILENT).target().options == {
        "auth": "api_key",
        "profile": "TEAM",
        "compartment_id": "ocid1.compartment.oc1..team",
        "project_id": "ocid1.datascienceproject.oc1.iad.team",
        "subnet_id": "ocid1.subnet.oc1.iad.team",
        "shape_name": "VM.Standard.E4.Flex",
        "block_storage_size": 100,
        "shape_config_details": {"ocpus": 2, "memory_in_gbs": 16.5},
    }


def test_one_that_names_some_has_no_other(tmp_path: Path) -> None:
    made = home(tmp_path, "[OCI]\noci_profile = TEAM\n")
    assert made.complete(SPOKEN).settings == {"compartment_id": "ocid1.compartment.oc1..own", "profile": "TEAM"}


def test_the_profile_of_the_command_line_goes_before_and_the_default_behind(tmp_path: Path) -> None:
    assert home(tmp_path, "[OCI]\noci_profile = TEAM\n", profile="OTHER").jobs["compartment_id"].endswith("default")
    assert home(tmp_path, "", profile="TEAM").jobs["compartment_id"].endswith("team")


def test_a_principal_has_a_section_of_its_own_and_no_profile(tmp_path: Path) -> None:
    made = home(tmp_path, "[OCI]\noci_profile = TEAM\nauth = RESOURCE_PRINCIPAL\n")
    assert (made.auth, made.profile) == ("resource_principal", None)
    assert made.jobs["compartment_id"].endswith("principal")


def test_what_the_file_or_the_command_line_says_stays(tmp_path: Path) -> None:
    made = home(tmp_path, "[OCI]\noci_profile = TEAM\nauth = security_token\n")
    said = Where("oci://b@n/runs", {"profile": "MINE"}, SPOKEN.source)
    assert made.complete(said).settings == {"profile": "MINE", "auth": "security_token"}


def test_without_the_folder_nothing_is_added(tmp_path: Path) -> None:
    assert read_home(tmp_path / "none").complete(SILENT) == SILENT


def test_a_mistake_in_it_names_its_file(tmp_path: Path) -> None:
    made = home(tmp_path, "", JOBS.replace("_in_GBs = 100", "_in_GBs = much"), "TEAM")
    with pytest.raises(JobError) as caught:
        made.complete(SILENT).target()
    assert str(caught.value) == (
        f"{tmp_path}/ml_job_config.ini: block_storage_size: expected a whole number from 50 to 10240, found the text"
        " 'much'"
    )
    with pytest.raises(ConfigError, match=r"config\.ini: OCI\.auth: no way to sign in is called 'key'"):
        home(tmp_path, "[OCI]\nauth = key\n")
    with pytest.raises(ConfigError, match=r"config\.ini: cannot be read: "):
        home(tmp_path, "[OCI\n")


# --- the image that was built last ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tag", "following"),
    [("1", "1_v_1"), ("1_v_1", "1_v_2"), ("dev_v_09", "dev_v_10"), ("dev_v_99", "dev_v_100"), ("v_1x", "v_1x_v_1")],
)
def test_the_next_tag_is_counted_as_ads_counts_it(tag: str, following: str) -> None:
    assert BuiltImage("a", tag).next().tag == following


def test_config_ini_is_read_and_written_as_ads_does(tmp_path: Path) -> None:
    text = (
        "[main]\ntag = 1\nregistry = iad.ocir.io/ns/train\ndockerfile = docker/Dockerfile\nsource_folder = src\n"
        "; mount oci keys for local testing\noci_key_mnt = ~/.oci:/home/oci_dist_training/.oci\n"
    )
    (tmp_path / "config.ini").write_text(text)
    built = read_built(tmp_path)
    assert built == BuiltImage("iad.ocir.io/ns/train", "1", "docker/Dockerfile", "src")
    write_built(tmp_path, built.next())
    assert read_built(tmp_path) == built.next()
    assert "oci_key_mnt = ~/.oci:/home/oci_dist_training/.oci" in (tmp_path / "config.ini").read_text()


def test_a_file_of_neither_is_told(tmp_path: Path) -> None:
    assert read_built(tmp_path) is None
    (tmp_path / "config.ini").write_text("[OCI]\n")
    with pytest.raises(ConfigError, match="cannot be read as what was built last"):
        read_built(tmp_path)
    (tmp_path / "config.ini").write_text("[main]\ntag = 1\nregistry = a\ndockerfile = DUMMY_PATH\n")
    assert read_built(tmp_path) == BuiltImage("a", "1")
