"""The pages on the network and the doctor: their commands make what the doctor wants, their tables have all it says."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from muster.access import doctor
from muster.access.network import Walls
from muster.access.ports import rules
from muster.clouds.oci import session
from muster.clouds.oci_services import Services
from muster.rehearsal.principals import COMPARTMENT
from tests.access.account import Account, examine, job
from tests.docs.markdown import ROOT, blocks

PAGE = ROOT / "docs" / "oci-network.md"
DOCTOR = ROOT / "docs" / "doctor.md"
_STEP = re.compile(r"^(\w+)=\$\((oci .*)\)$")


def steps() -> list[tuple[str, str]]:
    (text,) = [block.text for block in blocks(PAGE) if block.text.startswith("compartment=")]
    return [found.groups() for line in text.splitlines() if (found := _STEP.match(line))]  # type: ignore[misc]


def words_of(command: str, known: dict[str, str]) -> list[str]:
    """What a shell makes of a command of the page."""
    done = subprocess.run(
        ["/bin/sh", "-c", f"for word in {command}; do printf '%s\\0' \"$word\"; done"],
        env=known,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split("\0")[:-1]


def carried_out(services: Services, words: list[str]) -> Any:
    """What `oci network NOUN VERB --option value` does, with the names of the SDK's own models."""
    import oci

    noun, verb = words[2].replace("-", "_"), words[3]
    given = {words[at][2:].replace("-", "_"): words[at + 1] for at in range(4, len(words) - 1, 2)}
    query = given.pop("query")
    if verb == "list":
        (found,) = [each for each in services.call("network", "list_services").data if each["name"].startswith("All ")]
        return found["cidrBlock"] if "cidr-block" in query else found["id"]
    name = "".join(part.title() for part in noun.split("_"))
    model = getattr(oci.core.models, f"{verb.title()}{name}Details")()
    body = {}
    for option, text in given.items():
        kind = model.swagger_types[option]
        body[model.attribute_map[option]] = text if kind == "str" else json.loads(text)
    return services.call("network", f"{verb}_{noun}", body).data["id"]


@pytest.fixture
def services(account: Account) -> Services:
    return Services(session(), patience=30)


def test_the_commands_of_the_page_make_a_network_that_the_doctor_finds_well(
    account: Account, services: Services
) -> None:
    known = {"compartment": COMPARTMENT}
    for name, command in steps():
        known[name] = carried_out(services, words_of(command, known))
    made = job(framework="pytorch")
    looks = ("subnet", "gateway", "ports")
    target = account.target(subnet_id=known["subnet"])
    closed = [each.check for each in examine(made, target, only=looks) if each.state == "fail"]
    assert set(closed) == {"ports"}
    from muster.access.rules import command as opening

    words = shlex.split(opening(rules(made), "10.0.1.0/24", security_list=known["ports"]))
    given = options_of(words)
    change = {
        "ingressSecurityRules": json.loads(given["--ingress-security-rules"]),
        "egressSecurityRules": json.loads(given["--egress-security-rules"]),
    }
    services.call("network", "update_security_list", given["--security-list-id"], change)
    found = examine(made, target, only=looks)
    assert [each for each in found if each.state != "ok"] == []


def options_of(words: list[str]) -> dict[str, str]:
    """Options with their values; `--force` has none."""
    rest = [word for word in words[4:] if word != "--force"]
    return dict(zip(rest[::2], rest[1::2], strict=True))


@pytest.mark.unit
def test_the_page_says_what_the_frameworks_say() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for framework in ("dask", "tensorflow", "pytorch", "horovod"):
        (row,) = re.findall(rf"^\| {framework} \|.*$", text, re.MULTILINE)
        for rule in rules(job(framework=framework)):
            if rule.name != "control":
                assert ("all TCP" if rule.ports == "all" else rule.ports) in row, (framework, rule)
    (control,) = [rule for rule in rules(job()) if rule.name == "control"]
    assert f"| every one | {control.ports}," in text


@pytest.mark.unit
def test_the_table_of_the_doctor_has_every_check_and_no_other() -> None:
    folder = Path(doctor.__file__).parent
    made = re.compile(r"\b(?:ok|warn|fail|skipped|Finding)\(\s*\"([a-z-]+)\"|(?:refused|unseen)\(facts, \"([a-z-]+)\"")
    named = re.compile(r"work_dir\(place, \"([a-z-]+)\"|check: str = \"([a-z-]+)\"|_asked\(facts, \"([a-z-]+)\"")
    sources = [path.read_text(encoding="utf-8") for path in folder.glob("doctor*.py")]
    sources.append((folder.parent / "cli" / "doctor.py").read_text(encoding="utf-8"))
    found = {name for text in sources for each in (made, named) for row in each.findall(text) for name in _words(row)}
    rows = re.findall(r"^\| (`[a-z`, -]+) \|", DOCTOR.read_text(encoding="utf-8"), re.MULTILINE)
    told = {name for row in rows for name in re.findall(r"`([a-z-]+)`", row)}
    assert found - {"cloud", "target", "probe"} == told
    for name in ("cloud", "target", "probe"):
        assert f"`{name}`" in DOCTOR.read_text(encoding="utf-8")


def _words(row: Any) -> list[str]:
    return [word for word in ([row] if isinstance(row, str) else row) if word]


@pytest.mark.unit
def test_walls_are_read_from_what_the_service_says() -> None:
    lists = [{"ingressSecurityRules": [{"protocol": "1", "source": "0.0.0.0/0"}], "egressSecurityRules": []}]
    assert Walls.of({"cidrBlock": "10.0.1.0/24"}, lists, {}).ingress == ()
