"""Oracle's own command line, `oci`, against the rehearsed cloud: it takes what the cloud answers for the real one."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from muster.rehearsal.oracle import OracleServer
from muster.workdir.opening import open_store
from tests.harness import Muster, eventually
from tests.rehearsal.peers import NOWHERE, Peer, peer
from tests.targets.oracle_place import IMAGE, OCIDS, There, account, reach, target_toml
from tests.targets.target_contract import SAYS, job, logs, status

COMPARTMENT, PROJECT, SUBNET, LOG_GROUP = OCIDS.values()
TENANCY = OracleServer.tenancy
HOME = ("--compartment-id", COMPARTMENT)
SAYS_WHAT_IT_IS = "import os; print('A is', os.environ['A'], 'in', os.environ['JOB_RUN_OCID'], flush=True)"

LOOKS: dict[str, tuple[tuple[str, ...], str, Any]] = {
    "namespace": (("os", "ns", "get"), "data", "rehearsal"),
    "bucket": (("os", "bucket", "get", "--bucket-name", "training"), 'data."compartment-id"', COMPARTMENT),
    "project": (("data-science", "project", "list", *HOME), "data[].id", [PROJECT]),
    "shapes": (
        ("data-science", "job-shape", "list", *HOME, "--all"),
        "contains(data[].name, 'VM.Standard.E4.Flex')",
        True,
    ),
    "subnet": (("network", "subnet", "get", "--subnet-id", SUBNET), 'data."cidr-block"', "10.0.1.0/24"),
    "gateway": (
        ("network", "nat-gateway", "list", *HOME),
        'data[]."lifecycle-state"',
        ["AVAILABLE"],
    ),
    "compartments": (("iam", "compartment", "list", "--compartment-id", TENANCY), "data[].name", ["training"]),
    "limit": (
        (
            *("limits", "resource-availability", "get", "--compartment-id", TENANCY),
            *("--service-name", "data-science", "--limit-name", "ds-gpu-a10-count"),
        ),
        "[data.available, data.used]",
        [2, 0],
    ),
    "log group": (("logging", "log-group", "list", *HOME), "data[].id", [LOG_GROUP]),
    "repository": (
        ("artifacts", "container", "repository", "list", *HOME),
        '[data."image-count", data.items[0]."image-count", data.items[0]."display-name"]',
        [1, 1, "train"],
    ),
    "image": (("artifacts", "container", "image", "list", *HOME), 'data.items[]."display-name"', ["train:1"]),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OracleServer]:
    with account(tmp_path_factory.mktemp("cloud")) as found:
        yield found


@pytest.fixture(scope="module")
def user(server: OracleServer, tmp_path_factory: pytest.TempPathFactory) -> Peer:
    return peer(server, tmp_path_factory.mktemp("user"))


def oci(user: Peer, *words: str) -> Any:
    """What the command answers, read as JSON."""
    said = user("oci", *words).stdout
    return json.loads(said) if said.strip() else None


@pytest.mark.parametrize("look", LOOKS)
def test_the_command_line_sees_what_there_is(user: Peer, look: str) -> None:
    words, query, expected = LOOKS[look]
    assert oci(user, *words, "--query", query) == expected


@pytest.mark.slow
def test_a_job_is_made_run_read_canceled_and_deleted_by_the_command_line(server: OracleServer, user: Peer) -> None:
    server.steering.ask("POST", "images", {"image": IMAGE, "argv": [sys.executable, "-c", SAYS_WHAT_IT_IS]})
    made = oci(user, "data-science", "job", "create", *job_options(), "--wait-for-state", "ACTIVE", *soon())["data"]
    found = oci(user, "data-science", "job", "list", *HOME, "--display-name", "by-hand", "--query", "data[].id")
    assert found == [made["id"]]
    done = oci(user, *new_run(made["id"], "one"), "--wait-for-state", "SUCCEEDED", *soon())["data"]
    assert done["job-configuration-override-details"]["environment-variables"] == {"A": "run"}
    assert search(user, done["id"]) == [f"A is run in {done['id']}"]
    server.steering.ask("POST", "images", {"image": IMAGE, "argv": ["sleep", "600"]})
    going = oci(user, *new_run(made["id"], "two"), "--wait-for-state", "IN_PROGRESS", *soon())["data"]
    oci(user, "data-science", "job-run", "cancel", "--job-run-id", going["id"])
    eventually(lambda: server.job_runs()[-1]["lifecycleState"] == "CANCELED")
    said = 'data[].["display-name", "lifecycle-state"]'
    runs = oci(user, "data-science", "job-run", "list", *HOME, "--job-id", made["id"], "--query", said)
    assert sorted(runs) == [["one", "SUCCEEDED"], ["two", "CANCELED"]]
    oci(user, "data-science", "job", "delete", "--job-id", made["id"], "--force", "--delete-related-job-runs", "true")
    state = oci(user, "data-science", "job", "get", "--job-id", made["id"], "--query", 'data."lifecycle-state"')
    assert state in ("DELETING", "DELETED")


def job_options() -> list[str]:
    shape = {"ocpus": 1, "memoryInGBs": 16}
    details = {
        "configuration-details": {"jobType": "DEFAULT", "environmentVariables": {"A": "job"}},
        "infrastructure-configuration-details": {
            "jobInfrastructureType": "STANDALONE",
            "shapeName": "VM.Standard.E4.Flex",
            "jobShapeConfigDetails": shape,
            "blockStorageSizeInGBs": 50,
            "subnetId": SUBNET,
        },
        "job-environment-configuration-details": {"jobEnvironmentType": "OCIR_CONTAINER", "image": IMAGE},
        "log-configuration-details": {
            "enableLogging": True,
            "enableAutoLogCreation": True,
            "logGroupId": LOG_GROUP,
        },
    }
    words = [word for name, value in details.items() for word in (f"--{name}", json.dumps(value))]
    return [*HOME, "--project-id", PROJECT, "--display-name", "by-hand", *words]


def new_run(made: str, name: str) -> list[str]:
    over = json.dumps({"jobType": "DEFAULT", "environmentVariables": {"A": "run"}})
    words = ["data-science", "job-run", "create", *HOME, "--project-id", PROJECT, "--job-id", made]
    return [*words, "--display-name", name, "--configuration-override-details", over]


def soon() -> list[str]:
    return ["--wait-interval-seconds", "1"]


def search(user: Peer, run: str) -> Any:
    """The lines that a run has written, as the logging service finds them."""
    asked = f"""search "{COMPARTMENT}/{LOG_GROUP}" | where source = '*{run}' | sort by datetime asc"""
    now = datetime.now(timezone.utc)
    span = {"start": now - timedelta(hours=1), "end": now + timedelta(hours=1)}
    words = [word for side, time in span.items() for word in (f"--time-{side}", time.isoformat())]
    query = ("--search-query", asked, "--query", "data.results[].data.logContent.data.message")
    return oci(user, "logging-search", "search-logs", *query, *words)


def test_objects_of_the_command_line_are_objects_to_us(
    server: OracleServer, user: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = user.folder / "up"
    (folder / "deep").mkdir(parents=True)
    (folder / "one.txt").write_bytes(b"one")
    (folder / "deep" / "two & 2.txt").write_bytes(b"two")
    (user.folder / "large.bin").write_bytes(bytes(range(256)) * 12_000)
    put = ("os", "object", "put", "--bucket-name", "training")
    oci(user, *put, "--name", "cli/large.bin", "--file", "large.bin", "--part-size", "1")
    oci(user, "os", "object", "bulk-upload", "--bucket-name", "training", "--src-dir", "up", "--object-prefix", "cli/")
    monkeypatch.setenv("OCI_CONFIG_FILE", str(user.folder / ".oci" / "config"))
    store = open_store(f"oci://training@{server.namespace}/cli?endpoint={server.endpoint}")
    assert store.get("large.bin") == bytes(range(256)) * 12_000
    assert store.get("deep/two & 2.txt") == b"two"
    store.put("ours ünïcödé.txt", b"ours")
    listed = ("os", "object", "list", "--bucket-name", "training", "--prefix", "cli/", "--query", "data[].name")
    names = ["cli/deep/two & 2.txt", "cli/large.bin", "cli/one.txt", "cli/ours ünïcödé.txt"]
    assert oci(user, *listed) == names
    got = ("os", "object", "get", "--bucket-name", "training", "--name", names[-1], "--file", "got")
    user("oci", *got)
    assert (user.folder / "got").read_bytes() == b"ours"


def test_keys_and_tokens_sign_and_nobody_else(server: OracleServer, user: Peer, tmp_path: Path) -> None:
    """By the options of the command line itself, with nothing in the environment."""
    session = server.make_session(tmp_path / "session")
    stranger = server.make_user(tmp_path / "stranger", "stranger")
    server.forget(stranger.key_id)
    asks = ["oci", "os", "ns", "get", "--endpoint", server.endpoint]
    by_token = user(*asks, "--config-file", session.config_file, "--auth", "security_token", OCI_CLI_ENDPOINT=NOWHERE)
    assert json.loads(by_token.stdout) == {"data": "rehearsal"}
    by_key = ("--config-file", stranger.config_file, "--auth", "api_key", "--no-retry")
    refused = user(*asks, *by_key, check=1, OCI_CLI_ENDPOINT=NOWHERE)
    assert '"code": "NotAuthenticated"' in refused.stderr


# --- what Muster prints for this command line ----------------------------------------------------------------


@pytest.fixture
def place(muster: Muster, mark: str, tmp_path: Path) -> Iterator[There]:
    with account(tmp_path, mark) as own:
        yield reach(muster, own, tmp_path, groups=("muster-users",))


@pytest.mark.slow
def test_the_policy_that_muster_prints_is_made_by_bash_and_is_enough(place: There, tmp_path: Path) -> None:
    place.server.steering.ask("PUT", "strict", True)
    path = job(place, SAYS, workers=1)
    refused = place.muster("run", path, "--on", "oci", check=None)
    assert refused.returncode != 0
    assert "add the policy `Allow group" in refused.stderr
    commands = place.muster("policy", path, "--on", "oci", "--compartment", "training", "--cli").stdout
    administrator = peer(place.server, tmp_path / "administrator", groups=("Administrators",))
    administrator("bash", "-euc", commands, TENANCY=place.server.tenancy)
    groups = ("iam", "dynamic-group", "list", "--compartment-id", TENANCY, "--query", "data[].name")
    assert oci(administrator, *groups) == ["muster-runs"]
    place.muster("run", path, "--on", "oci")
    run = place.muster.run_id()
    assert status(place, run)["result"]["state"] == "succeeded"
    assert "rank 1 of 2" in logs(place, run)


@pytest.mark.slow
def test_the_ports_that_muster_prints_are_opened_by_bash(place: There, tmp_path: Path) -> None:
    user = peer(place.server, tmp_path / "user")
    path = job(place, SAYS, framework="dask", workers=1)
    words = ("ports", path, "--on", "oci", "--cidr", "10.0.1.0/24")
    wanted = json.loads(place.muster(*words, "--json").stdout)
    subnet = oci(user, "network", "subnet", "get", "--subnet-id", SUBNET)["data"]
    ours = subnet["security-list-ids"][0]
    user("bash", "-euc", place.muster(*words, "--cli").stdout.replace("SECURITY_LIST_OCID", ours))
    found = oci(user, "network", "security-list", "get", "--security-list-id", ours)["data"]
    assert ports(found["ingress-security-rules"]) == ports_of(wanted["ingressSecurityRules"])
    assert ports(found["egress-security-rules"]) == ports_of(wanted["egressSecurityRules"])
    made = ("network", "nsg", "create", *HOME, "--vcn-id", subnet["vcn-id"], "--query", "data.id", "--raw-output")
    group = user("oci", *made).stdout.strip()
    config = Path(place.muster.env["XDG_CONFIG_HOME"]) / "muster" / "muster.toml"
    config.write_text(target_toml(place.server, security_group_ids=[group]), encoding="utf-8")
    user("bash", "-euc", place.muster(*words, "--cli").stdout)
    rules = oci(user, "network", "nsg", "rules", "list", "--nsg-id", group)["data"]
    assert ports(rules) == ports_of(wanted["securityGroupRules"])


def ports(rules: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Rules as the command line writes them: direction, addresses, first and last port."""
    ranges = [(rule.get("tcp-options") or {}).get("destination-port-range") or {} for rule in rules]
    return sorted(
        (rule.get("direction", ""), rule.get("source") or rule.get("destination"), span.get("min"), span.get("max"))
        for rule, span in zip(rules, ranges, strict=True)
    )


def ports_of(rules: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """The same of rules as they are on the wire."""
    spans = [(rule.get("tcpOptions") or {}).get("destinationPortRange") for rule in rules]
    renamed = [
        {**rule, "tcp-options": {"destination-port-range": span}} for rule, span in zip(rules, spans, strict=True)
    ]
    return ports(renamed)
