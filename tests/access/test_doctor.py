"""The doctor against an account on loopback, through Oracle's own SDK: all well, and each thing that can be wrong."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from muster.access.doctor_account import clock
from muster.access.doctor_capacity import limits_of
from muster.access.doctor_facts import Machine
from muster.access.doctor_tools import container_tool, disk
from muster.access.findings import Check, Finding, healthy, look, ok
from muster.access.policies import needs_of, policy
from muster.rehearsal.front import Server
from muster.rehearsal.principals import COMPARTMENT, TENANCY, User
from muster.rehearsal.steering import Steering
from muster.spec.config import Target
from muster.spec.job import Job, Workers
from tests.access.account import IMAGE, Account, examine, job, log_in, tool
from tests.needs import needs

ELSEWHERE = "ocid1.{}.oc1.iad.nowhere"
CALLS = 24
"""The most that the doctor may ask of the cloud for an account that is well."""


def bad(found: list[Finding], *checks: str) -> list[Finding]:
    """What is not well, of these checks or of all."""
    return [each for each in found if each.state in ("warn", "fail") and (not checks or each.check in checks)]


def test_an_account_that_is_well(account: Account, server: Server) -> None:
    before = server.counts.so_far()
    found = examine(job(), account.target(log_id=account.log))
    assert bad(found) == []
    assert [each for each in found if each.state == "skipped"] == []
    names = list(dict.fromkeys(each.check for each in found))
    assert names == [
        "key-file",
        "credentials",
        "clock",
        "region",
        "compartment",
        "project",
        "log-group",
        "log",
        "jobs",
        "job-runs",
        "log-search",
        "bucket",
        "subnet",
        "addresses",
        "gateway",
        "ports",
        "shape",
        "quota",
        "repository",
        "image",
        "registry-login",
        "container-tool",
        "disk",
        "runtime",
        "outputs",
    ]
    asked = server.counts.so_far() - before
    assert asked.total <= CALLS
    # Nothing is made, and what is written is taken away.
    assert {method for (method, _), _ in asked.requests.items()} == {"GET", "PUT", "POST", "DELETE"}
    assert (asked.of("put"), asked.of("delete"), asked.of("search_logs", "POST")) == (1, 1, 1)


def test_what_several_checks_need_is_asked_for_once(account: Account, server: Server) -> None:
    before = server.counts.so_far()
    examine(job(), account.target())
    asked = server.counts.so_far() - before
    assert all(count == 1 for (_, kind), count in asked.requests.items() if kind != "other")


def test_the_order_is_always_the_same(account: Account) -> None:
    account.denied |= {"SUBNET_READ"}
    first, second = (examine(job(), account.target()) for _ in range(2))
    assert [(each.check, each.state) for each in first] == [(each.check, each.state) for each in second]


# --- one test per cause -----------------------------------------------------------------------------------


Break = Callable[[Account], None]


def nothing(_account: Account) -> None:
    pass


def deny(*permissions: str) -> Break:
    return lambda account: account.denied.update(permissions)


def change(path: str, thing: str, **said: Any) -> Break:
    return lambda account: (account.network.change(path, getattr(account, thing)["id"], **said), None)[1]


def only_services(account: Account) -> None:
    routes = [rule for rule in account.routes["routeRules"] if "servicegateway" in rule["networkEntityId"]]
    account.network.change("routeTables", account.routes["id"], routeRules=routes)


def take_addresses(account: Account) -> None:
    for _ in range(251):
        account.network.attach(account.subnet["id"])


Case = tuple[str, Break, dict[str, Any], dict[str, Any], tuple[str, str, str, str]]
GROUP = "group muster-users"
CASES: list[Case] = [
    # name, what is broken, the target's options, the job's fields: check, state, part of what, part of fix
    (
        "no compartment",
        nothing,
        {"compartment_id": ELSEWHERE.format("compartment")},
        {},
        ("compartment", "fail", "there is no", "Correct"),
    ),
    (
        "compartment that nobody may use",
        deny("COMPARTMENT_INSPECT", "DATA_SCIENCE_JOB_INSPECT"),
        {},
        {},
        ("compartment", "fail", "there is no compartment", f"Allow {GROUP} to manage data-science-jobs"),
    ),
    (
        "compartment not named",
        nothing,
        {"compartment_id": None},
        {},
        ("compartment", "fail", "names no compartment", "`compartment_id`"),
    ),
    (
        "project that is not there",
        nothing,
        {"project_id": ELSEWHERE.format("datascienceproject")},
        {},
        ("project", "fail", "there is no project", "Correct `project_id`"),
    ),
    (
        "project not to be read",
        deny("DATA_SCIENCE_PROJECT_READ"),
        {},
        {},
        ("project", "fail", "none that you may read", f"Allow {GROUP} to read data-science-projects"),
    ),
    ("project not named", nothing, {"project_id": None}, {}, ("project", "fail", "names no project", "`project_id`")),
    (
        "log group that is not there",
        nothing,
        {"log_group_id": ELSEWHERE.format("loggroup")},
        {},
        ("log-group", "fail", "there is no log group", "Correct `log_group_id`"),
    ),
    (
        "log that is not there",
        nothing,
        {"log_id": ELSEWHERE.format("log")},
        {},
        ("log", "fail", "there is no log", "Correct `log_id`"),
    ),
    (
        "log without a group",
        nothing,
        {"log_group_id": None, "log_id": ELSEWHERE.format("log")},
        {},
        ("log-group", "fail", "no log group", "`log_group_id`"),
    ),
    (
        "logs not to be searched",
        deny("LOG_CONTENT_READ"),
        {},
        {},
        ("log-search", "fail", "may not read", f"Allow {GROUP} to read log-content"),
    ),
    (
        "jobs not to be used",
        deny("DATA_SCIENCE_JOB_INSPECT"),
        {},
        {},
        ("jobs", "fail", "may not list jobs", f"Allow {GROUP} to manage data-science-jobs in compartment id"),
    ),
    (
        "job runs not to be used",
        deny("DATA_SCIENCE_JOB_RUN_INSPECT"),
        {},
        {},
        ("job-runs", "fail", "may not list job runs", f"Allow {GROUP} to manage data-science-job-runs"),
    ),
    (
        "bucket that is not there",
        nothing,
        {"work_dir": "oci://trainnig@rehearsal/team"},
        {},
        ("bucket", "fail", "there is no bucket trainnig", "target.bucket.name = 'trainnig'"),
    ),
    (
        "bucket not to be written",
        deny("OBJECT_CREATE"),
        {},
        {},
        ("bucket", "fail", "none that you may write", "manage objects"),
    ),
    (
        "bucket not to be read",
        deny("OBJECT_READ"),
        {},
        {},
        ("bucket", "fail", "none that you may read", "manage objects"),
    ),
    ("bucket keeps all", deny("OBJECT_DELETE"), {}, {}, ("bucket", "warn", "cannot be deleted", "manage objects")),
    (
        "subnet that is not there",
        nothing,
        {"subnet_id": ELSEWHERE.format("subnet")},
        {},
        ("subnet", "fail", "there is no subnet", "Correct `subnet_id`"),
    ),
    (
        "subnet not to be used",
        deny("SUBNET_READ"),
        {},
        {},
        ("subnet", "fail", "none that you may use", f"Allow {GROUP} to use virtual-network-family"),
    ),
    ("subnet not named", nothing, {"subnet_id": None}, {}, ("subnet", "fail", "4 nodes must reach", "`subnet_id`")),
    (
        "public subnet",
        change("subnets", "subnet", prohibitPublicIpOnVnic=False),
        {},
        {},
        ("subnet", "warn", "is public", "--prohibit-public-ip-on-vnic true"),
    ),
    (
        "subnet of one domain",
        change("subnets", "subnet", availabilityDomain="AD-1"),
        {},
        {},
        ("subnet", "warn", "AD-1 alone", "regional"),
    ),
    (
        "subnet on its way out",
        change("subnets", "subnet", lifecycleState="TERMINATING"),
        {},
        {},
        ("subnet", "fail", "TERMINATING", "available"),
    ),
    (
        "a name without a label",
        change("subnets", "subnet", dnsLabel=None),
        {"storage_mount": [{"storage_type": "FILE_STORAGE", "mount_target": "files.example", "export_path": "/data"}]},
        {},
        ("dns", "warn", "mounted from files.example", "--dns-label"),
    ),
    (
        "no addresses left",
        take_addresses,
        {},
        {},
        ("addresses", "fail", "2 free addresses, and 4 nodes", "larger subnet"),
    ),
    (
        "no gateway",
        change("routeTables", "routes", routeRules=[]),
        {},
        {},
        ("gateway", "fail", "neither to a NAT gateway", "Add a route"),
    ),
    (
        "gateway that blocks",
        change("natGateways", "nat", blockTraffic=True),
        {},
        {},
        ("gateway", "fail", "the NAT gateway blocks", "--block-traffic false"),
    ),
    (
        "gateway to one service",
        change("serviceGateways", "service", services=[{"serviceName": "OCI IAD Object Storage"}]),
        {},
        {},
        ("gateway", "warn", "OCI IAD Object Storage alone", "All …"),
    ),
    (
        "service gateway alone, and requirements",
        only_services,
        {},
        {"requirements": "requirements.txt"},
        ("internet", "warn", "not PyPI", "NAT gateway"),
    ),
    ("service gateway alone", only_services, {}, {}, ("internet", "ok", "not PyPI", "")),
    (
        "nothing comes in",
        change("securityLists", "rules", ingressSecurityRules=[]),
        {},
        {},
        ("ports", "fail", "scheduler (8786 on main) is closed", "Let TCP 8786 in from 10.0.1.0/24"),
    ),
    (
        "nothing goes out",
        change("securityLists", "rules", egressSecurityRules=[]),
        {},
        {},
        ("ports", "fail", "no egress of it", "out to it"),
    ),
    (
        "services cannot be dialled",
        change("securityLists", "rules", egressSecurityRules=[{"protocol": "6", "destination": "10.0.1.0/24"}]),
        {},
        {},
        ("egress", "fail", "port 443", "Add an egress rule"),
    ),
    (
        "pytorch with its port alone",
        change(
            "securityLists",
            "rules",
            ingressSecurityRules=[
                {
                    "protocol": "6",
                    "source": "10.0.1.0/24",
                    "tcpOptions": {"destinationPortRange": {"min": 29399, "max": 29400}},
                }
            ],
        ),
        {},
        {"framework": "pytorch"},
        ("ports", "fail", "gloo and NCCL take random ports", "Let all TCP in"),
    ),
    (
        "stateless one way",
        change(
            "securityLists",
            "rules",
            ingressSecurityRules=[{"protocol": "6", "source": "10.0.1.0/24", "isStateless": True}],
            egressSecurityRules=[
                {
                    "protocol": "6",
                    "destination": "0.0.0.0/0",
                    "tcpOptions": {"destinationPortRange": {"min": 443, "max": 30000}},
                }
            ],
        ),
        {},
        {},
        ("ports", "fail", "a stateless rule needs one for each way", "Let TCP"),
    ),
    (
        "rules not to be seen",
        deny("SECURITY_LIST_READ"),
        {},
        {},
        ("ports", "fail", "may not see", f"Allow {GROUP} to use virtual-network-family"),
    ),
    (
        "shape that is not offered",
        nothing,
        {"shape_name": "VM.Standard.E4.Felx"},
        {},
        ("shape", "fail", "no shape VM.Standard.E4.Felx", "Did you mean VM.Standard.E4.Flex?"),
    ),
    (
        "quota",
        lambda account: account.limits.take("ds-standard-e4-core-regional-count", 60),
        {},
        {},
        ("quota", "fail", "wants 16 of ds-standard-e4-core-regional-count, and 4 are left", "fewer workers"),
    ),
    (
        "quota of GPUs",
        nothing,
        {"shape_name": "VM.GPU.A10.2", "shape_config_details": None},
        {},
        ("quota", "fail", "wants 8 of ds-gpu-a10-count, and 2 are left", "fewer workers"),
    ),
    (
        "no image",
        nothing,
        {"image": None},
        {},
        ("image", "fail", "no image is named", "muster image build"),
    ),
    (
        "nothing built yet",
        nothing,
        {"image": "@image"},
        {},
        ("image", "fail", "none was built", "muster image build"),
    ),
    (
        "repository with a typo",
        nothing,
        {},
        {"image": "iad.ocir.io/rehearsal/team/trian:1"},
        ("repository", "fail", "no repository team/trian", "Did you mean team/train?"),
    ),
    (
        "tag with a typo",
        lambda account: (account.artifacts.push("team/train", "gpu-2"), None)[1],
        {},
        {"image": "iad.ocir.io/rehearsal/team/train:gpu-3"},
        ("image", "fail", "there is no iad.ocir.io/rehearsal/team/train:gpu-3", "Did you mean team/train:gpu-2?"),
    ),
    (
        "namespace of another",
        nothing,
        {},
        {"image": "iad.ocir.io/rehersal/team/train:1"},
        ("registry", "fail", "the tenancy's is rehearsal", "oci os ns get"),
    ),
    (
        "registry of another region",
        nothing,
        {},
        {"image": "phx.ocir.io/rehearsal/team/train:1"},
        ("registry", "warn", "registry of us-phoenix-1", "Push the image"),
    ),
    (
        "image of no registry",
        nothing,
        {},
        {"image": "iad.ocir.io/rehearsal/Team/train:1"},
        ("image", "fail", "is not the name of an image", "no capital letters"),
    ),
    (
        "repositories not to be seen",
        deny("REPOSITORY_INSPECT"),
        {},
        {},
        ("image", "warn", "may not see which repositories", f"Allow {GROUP} to inspect repos"),
    ),
    (
        "no login",
        lambda account: log_in(account.folder, "phx.ocir.io"),
        {},
        {},
        ("registry-login", "warn", "no login for iad.ocir.io", "docker login iad.ocir.io"),
    ),
    (
        "no end",
        nothing,
        {},
        {"ttl": None},
        ("runtime", "warn", "no ttl", "`ttl: 8h`"),
    ),
    ("too long", nothing, {}, {"ttl": 31 * 86400.0}, ("runtime", "fail", "30 days at most", "30d")),
    ("too short", nothing, {}, {"ttl": 300.0}, ("runtime", "warn", "no longer than timeout", "raise ttl")),
    ("no outputs", nothing, {}, {"outputs": None}, ("outputs", "warn", "TensorBoard", "`outputs: outputs`")),
    (
        "flexible shape without a size",
        nothing,
        {"shape_config_details": None},
        {},
        ("shape", "warn", "does not say how large", "shape_config_details"),
    ),
    (
        "disk that cannot be",
        nothing,
        {"block_storage_size": 10},
        {},
        ("block-storage", "fail", "10 GB", "From 50"),
    ),
]


@pytest.mark.parametrize(
    ("broken", "options", "fields", "told"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_a_cause_and_its_fix(
    account: Account, broken: Break, options: dict[str, Any], fields: dict[str, Any], told: tuple[str, str, str, str]
) -> None:
    broken(account)
    check, state, what, fix = told
    found = examine(job(**fields), account.target(**options), only={check, WITHIN_ANOTHER.get(check, "options")})
    fitting = [each for each in found if each.check == check and each.state == state and what in each.what]
    assert fitting, f"{check}, {state}: {what!r} is not among\n" + "\n".join(map(str, found))
    assert fix in fitting[0].fix
    assert healthy(found) == (state in ("ok", "warn"))


WITHIN_ANOTHER = {
    "dns": "subnet",
    "log": "log-group",
    "addresses": "subnet",
    "internet": "gateway",
    "egress": "ports",
    "repository": "image",
    "registry": "image",
    "block-storage": "options",
}
"""Findings that another check makes beside its own."""


# --- who we are -------------------------------------------------------------------------------------------


def test_a_key_that_the_cloud_does_not_know_is_told_once(account: Account, server: Server, user: User) -> None:
    Steering(server.endpoint).ask("POST", "forget", user.key_id)
    found = examine(job(), account.target())
    (told,) = bad(found, "credentials")
    assert told.state == "fail"
    assert "api key of ocid1.user.oc1..tester" in told.what
    assert "Is the API key still one of the user's" in told.fix
    assert [each for each in bad(found) if each is not told] == []
    assert [each.check for each in found if each.state == "skipped"] == ["cloud", "image"]


def test_no_credentials_leave_what_this_machine_can_see(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OCI_CONFIG_FILE")
    (account.folder / ".oci" / "config").rename(account.folder / "gone")
    found = examine(job(), account.target())
    assert [(each.check, each.state) for each in found[:2]] == [("credentials", "fail"), ("cloud", "skipped")]
    assert "oci setup config" in found[0].fix
    assert {each.check for each in found} >= {"container-tool", "registry-login", "runtime", "outputs"}
    (image,) = [each for each in found if each.check == "image"]
    assert image.state == "skipped"


def test_a_key_file_that_others_can_read(account: Account, user: User) -> None:
    user.key_file.chmod(0o644)
    (told,) = bad(examine(job(), account.target(), only=("credentials",)))
    assert (told.check, told.state) == ("key-file", "warn")
    assert told.fix == f"chmod 600 {user.key_file}"


def test_a_key_file_that_is_not_there(account: Account, user: User) -> None:
    user.key_file.unlink()
    found = examine(job(), account.target())
    assert found[0].state == "fail"
    assert str(user.key_file) in found[0].what


@pytest.mark.parametrize(("ahead", "state"), [(-120, "warn"), (120, "warn")])
def test_a_clock_that_is_off(account: Account, ahead: float, state: str) -> None:
    account.clock.ahead = ahead
    (told,) = bad(examine(job(), account.target(), only=("credentials",)))
    assert (told.check, told.state) == ("clock", state)
    assert "120 s" in told.what or "119 s" in told.what or "121 s" in told.what
    assert "timedatectl" in told.fix


def test_a_clock_that_is_so_far_off_that_nobody_is_known(account: Account) -> None:
    account.clock.ahead = 3600
    found = bad(examine(job(), account.target()), "credentials", "clock")
    assert [(each.check, each.state) for each in found] == [("credentials", "fail"), ("clock", "fail")]
    assert "behind Oracle's" in found[1].what


@pytest.mark.unit
def test_a_clock_by_the_date_of_an_answer() -> None:
    date = "Sun, 15 Nov 2026 12:00:00 GMT"
    (told,) = clock(date, now=1794744000.0 + 400)
    assert told.state == "fail"
    assert "400 s ahead" in told.what
    assert [each.state for each in clock(None)] == ["skipped"]


def test_a_region_that_the_tenancy_has_not(account: Account) -> None:
    found = bad(examine(job(), account.target(region="us-ashburn-2")), "region")
    assert [each.state for each in found] == ["fail"]
    assert "Did you mean us-ashburn-1?" in found[0].fix


def test_a_resource_principal_is_told_of_dynamic_groups(
    account: Account, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    from muster.rehearsal import principals

    for name, value in principals.resource_principal(Steering(server.endpoint)).items():
        monkeypatch.setenv(name, value)
    account.denied |= {"DATA_SCIENCE_JOB_INSPECT"}
    found = examine(job(), account.target(auth="resource_principal"), only=("credentials", "jobs"))
    (told,) = bad(found, "jobs")
    assert "Allow dynamic-group muster-users to manage data-science-jobs" in told.fix
    assert [each.what for each in found if each.check == "credentials"] == [
        "resource principal; its namespace is rehearsal"
    ]


# --- policies ---------------------------------------------------------------------------------------------


def strictly(account: Account, made: Job, target: Target, without: str = "") -> list[str]:
    """Only what `muster policy` prints is allowed, less the statements that begin so."""
    texts = [each.text for each in policy(needs_of(made, target)).statements]
    account.policies.attach(TENANCY, [text for text in texts if not (without and without in text)])
    account.strict = True
    return [text for text in texts if without and without in text]


@pytest.mark.parametrize("framework", ["dask", "pytorch", "horovod", "tensorflow"])
def test_the_policy_that_muster_prints_satisfies_the_doctor(account: Account, framework: str) -> None:
    made, target = job(framework=framework), account.target()
    strictly(account, made, target)
    assert bad(examine(made, target)) == []


@pytest.mark.parametrize(
    ("without", "check"),
    [
        ("manage data-science-jobs", "jobs"),
        ("manage data-science-job-runs", "job-runs"),
        ("read data-science-projects", "project"),
        ("use virtual-network-family", "subnet"),
        ("read log-content", "log-search"),
        ("manage log-groups", "log-group"),
        ("manage objects", "bucket"),
        ("read resource-availability", "quota"),
    ],
)
def test_a_statement_that_is_missing_is_the_one_that_is_told(account: Account, without: str, check: str) -> None:
    made, target = job(), account.target()
    gone = strictly(account, made, target, without)
    (told,) = [each for each in bad(examine(made, target, only=(check,)), check) if "policy" in each.fix.lower()]
    assert gone[0] in told.fix


# --- this machine -----------------------------------------------------------------------------------------


def test_no_container_tool(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_CONTAINER_TOOL", "no-such-tool")
    (told,) = bad(examine(job(), account.target(), only=("container-tool",)))
    assert (told.check, told.state) == ("container-tool", "warn")
    assert "Install it" in told.fix
    assert "a run does without" in told.fix


def test_a_daemon_that_does_not_answer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    needs("docker")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    (told,) = container_tool()
    assert (told.check, told.state) == ("container-tool", "warn")
    assert "daemon" in told.what
    assert "systemctl start docker" in told.fix


def test_podman_will_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told = {"version": {"Version": "5.1"}, "store": {"graphRoot": "/"}}
    monkeypatch.setenv("MUSTER_CONTAINER_TOOL", str(tool(tmp_path, told, "podman") / "podman"))
    assert next(each.what for each in container_tool()) == "podman 5.1"


def test_a_disk_that_is_almost_full(tmp_path: Path) -> None:
    (told,) = disk(tmp_path, "podman", room=10**18)
    assert (told.check, told.state) == ("disk", "warn")
    assert "podman system prune" in told.fix
    assert [each.state for each in disk(tmp_path, room=1)] == ["ok"]
    assert list(disk(tmp_path / "in another machine")) == []


def test_no_secret_is_shown(account: Account) -> None:
    account.denied |= {"OBJECT_CREATE", "REPOSITORY_INSPECT"}
    text = json.dumps([each.to_json() for each in examine(job(), account.target())])
    assert "not-a-word-to-print" not in text
    assert "PRIVATE" not in text


@pytest.mark.parametrize(
    ("script", "state"),
    [
        ("writer = SummaryWriter()", "warn"),
        ("writer = SummaryWriter('outputs/tensorboard')", "ok"),
        ("SummaryWriter(os.environ['OCI__SYNC_DIR'])", "ok"),
        ("print('no events')", "ok"),
    ],
)
def test_events_that_would_not_come_home(account: Account, tmp_path: Path, script: str, state: str) -> None:
    (tmp_path / "train.py").write_text(script)
    found = examine(job(entry="train.py"), account.target(), folder=tmp_path, only=("outputs",))
    (told,) = [each for each in found if each.check == "outputs"]
    assert told.state == state
    assert state == "ok" or "SummaryWriter('outputs/tensorboard')" in told.fix


# --- how it looks -----------------------------------------------------------------------------------------


@pytest.mark.unit
def test_a_check_that_does_not_end_is_left_behind() -> None:
    import threading

    held = threading.Event()
    waited: list[str] = []
    checks = [
        Check("slow", lambda: iter([ok("slow", str(held.wait(60)))])),
        Check("quick", lambda: [ok("quick", "done")]),
    ]
    found = look(checks, within=1.2, waiting=lambda names: waited.extend(names))
    held.set()
    assert [(each.check, each.state) for each in found] == [("slow", "fail"), ("quick", "ok")]
    assert "no answer within 1.2 s" in found[0].what
    assert waited == ["slow"]


@pytest.mark.unit
def test_checks_look_at_the_same_time() -> None:
    import threading

    meeting = threading.Barrier(3, timeout=30)

    def meet(name: str) -> Check:
        return Check(name, lambda: [ok(name, str(meeting.wait() >= 0))])

    checks = [meet(name) for name in "abc"]
    assert [each.check for each in look(checks, within=60)] == ["a", "b", "c"]


def test_a_cloud_that_is_away_is_told_within_the_bound(account: Account, server: Server) -> None:
    with Steering(server.endpoint).away("close"):
        found = examine(job(), account.target())
    assert [(each.check, bool(each.fix)) for each in bad(found)] == [("credentials", True)]


def test_a_service_that_is_away_is_told_with_the_others(account: Account, server: Server) -> None:
    Steering(server.endpoint).fail(times=None, status=503, kind="get_subnet")
    found = bad(examine(job(), account.target(), only=("subnet", "jobs")))
    assert [(each.check, each.state) for each in found] == [("subnet", "fail")]
    assert "503" in found[0].what
    assert "Look again" in found[0].fix


def test_throttling_is_waited_for(account: Account, server: Server) -> None:
    Steering(server.endpoint).fail(times=1, status=429, kind="get_subnet")
    assert bad(examine(job(), account.target(), only=("subnet",))) == []


@pytest.mark.unit
@pytest.mark.parametrize(
    ("shape", "limit"),
    [
        ("VM.Standard.E4.Flex", ["ds-standard-e4-core-regional-count"]),
        ("VM.Standard2.4", ["ds-standard2-core-count"]),
        ("VM.GPU.A10.1", ["ds-gpu-a10-count"]),
        ("BM.GPU4.8", []),
    ],
)
def test_a_shape_counts_against_the_limit_of_its_family(shape: str, limit: list[str]) -> None:
    known = ["ds-standard-e4-core-regional-count", "ds-standard2-core-count", "ds-gpu-a10-count", "job-count"]
    assert limits_of(shape, known) == limit


def test_limits_that_may_not_be_listed_are_asked_for_by_their_likely_name(account: Account) -> None:
    account.denied |= {"LIMITS_INSPECT"}
    (told,) = examine(job(), account.target(), only=("quota",))
    assert told.state == "ok"


def test_a_role_may_have_a_machine_of_its_own(account: Account) -> None:
    machines = {"main": Machine("VM.Standard2.4"), "worker": Machine("VM.Standard.E4.Flex", 8)}
    found = examine(job(), account.target(), machines, only=("quota",))
    told = sorted(each.what for each in found if each.check == "quota")
    assert [text.split(" wanted")[0] for text in told] == [
        "24 of ds-standard-e4-core-regional-count",
        "4 of ds-standard2-core-regional-count",
    ]


def test_security_groups_count_as_well_as_lists(account: Account) -> None:
    account.network.change("securityLists", account.rules["id"], ingressSecurityRules=[])
    inside = {"compartmentId": COMPARTMENT, "vcnId": account.subnet["vcnId"]}
    group = account.network.make("networkSecurityGroups", **inside)
    target = account.target(security_group_ids=[group["id"]])
    assert bad(examine(job(), target, only=("ports",)))
    among = {"direction": "INGRESS", "source": group["id"], "sourceType": "NETWORK_SECURITY_GROUP", "protocol": "6"}
    account.network.add_rules(group["id"], [among])
    assert bad(examine(job(), target, only=("ports",))) == []


def test_one_node_needs_no_network(account: Account) -> None:
    found = examine(job(workers=Workers(0, 0)), account.target(subnet_id=None))
    assert bad(found) == []
    assert [each.state for each in found if each.check == "subnet"] == ["skipped"]


def test_an_image_that_was_built_last(account: Account, tmp_path: Path) -> None:
    from muster.images.records import remember_built

    remember_built(IMAGE, "sha256:1", "linux/amd64")
    assert bad(examine(job(), account.target(image="@image"), only=("image",))) == []


def test_an_image_of_another_registry_is_asked_for_there(account: Account) -> None:
    from tests.images.test_registry import BASIC, serving

    with serving() as registry:
        image = f"{registry.host}/team/train"
        login = {"auths": {registry.host: {"auth": BASIC.removeprefix("Basic ")}}}
        (account.folder / ".docker" / "config.json").write_text(json.dumps(login))
        looks = ("image", "registry-login")
        found = examine(job(image=f"{image}:1"), account.target(), only=looks)
        assert [(each.check, each.state) for each in found] == [("image", "ok"), ("registry-login", "ok")]
        (told,) = bad(examine(job(image=f"{image}:2"), account.target(), only=looks))
        assert f"there is no {image}:2" in told.what
        assert "muster image push" in told.fix
        log_in(account.folder, "iad.ocir.io")
        found = bad(examine(job(image=f"{image}:1"), account.target(), only=looks))
        assert [(each.check, each.state) for each in found] == [("image", "fail"), ("registry-login", "warn")]
        assert all(f"docker login {registry.host}" in each.fix for each in found)


def test_a_target_of_another_kind() -> None:
    assert [each.state for each in examine(job(), Target("aws", "aws"))] == ["skipped"]


# --- this machine as a target -------------------------------------------------------------------------------


def test_the_local_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path))
    found = examine(job(), Target("local", "local"))
    assert [(each.check, each.state) for each in found] == [
        ("python", "ok"),
        ("framework", "ok"),
        ("work-dir", "ok"),
        ("disk", "ok"),
    ]
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


def test_the_local_target_without_its_framework_or_work_dir(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    made = job(framework="horovod", python="/usr/bin/python3")
    found = examine(made, Target("local", "local", str(tmp_path / "file" / "runs")))
    assert {(each.check, each.state) for each in bad(found)} >= {("work-dir", "fail")}
    absent = examine(job(python="no-such-python"), Target("local", "local", str(tmp_path)))
    assert [(each.check, each.state) for each in bad(absent)] == [("python", "fail")]
    assert os.sep in found[0].what
