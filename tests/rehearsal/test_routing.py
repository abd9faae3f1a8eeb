"""A cloud of one's own: routes, a further service behind the same check of signatures, and a policy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oci.exceptions import ServiceError

from muster.rehearsal import oracle
from muster.rehearsal.collisions import Collisions
from muster.rehearsal.front import Server
from muster.rehearsal.identity import Identity, Principal
from muster.rehearsal.messages import Answer, Body, Request
from muster.rehearsal.object_storage import ObjectStorage
from muster.rehearsal.oracle_cloud import OracleCloud
from muster.rehearsal.principals import make_user
from muster.rehearsal.routing import Call, Refusal, Route, Router, json_answer
from muster.rehearsal.steering import Steering

from .conftest import Connect


def ask(router: Router, method: str, target: str) -> tuple[Route, dict[str, str]] | None:
    import io

    return router.find(Request(method, target, {}, Body(io.BytesIO(), 0)))


def nothing(call: Call) -> Answer:
    return Answer(204)


def test_a_part_of_a_path_ends_at_a_slash_and_the_rest_does_not() -> None:
    one, rest = Route("GET", "/b/{bucket}", nothing), Route("GET", "/b/{bucket}/o/{name...}", nothing)
    router = Router([one, rest])
    assert ask(router, "GET", "/b/x%2Fy?q=1") == (one, {"bucket": "x/y"})
    assert ask(router, "GET", "/b/x/o/a/b%20c") == (rest, {"bucket": "x", "name": "a/b c"})
    assert ask(router, "GET", "/b/x/o/") is None
    assert ask(router, "PUT", "/b/x") is None


@given(st.text(min_size=1))
def test_any_name_comes_through(name: str) -> None:
    from urllib.parse import quote

    try:
        path = quote(name, safe="")
    except UnicodeEncodeError:
        return
    found = ask(Router([Route("GET", "/o/{name...}", nothing)]), "GET", f"/o/{path}")
    assert found is not None
    assert found[1] == {"name": name}


def test_only_a_write_on_condition_collides() -> None:
    collisions = Collisions(on=True)
    with collisions.writing("x", True) as first, collisions.writing("x", True) as second:
        assert (first, second) == (True, False)
        with collisions.writing("y", True) as elsewhere, collisions.writing("x", False) as without:
            assert (elsewhere, without) == (True, True)
        with collisions.writing("x", True) as third:
            assert third is False
    with collisions.writing("x", True) as later:
        assert later is True
    with Collisions(on=False).writing("x", True) as off:
        assert off is True


def test_further_services_and_a_policy_share_one_front(tmp_path: Path, connect: Connect) -> None:
    seen: list[tuple[str, str, str, str]] = []

    def allowed(principal: Principal, permission: str, bucket: str, name: str) -> bool:
        seen.append((principal.id, permission, bucket, name))
        return "readers" not in principal.claims["groups"] or permission != "OBJECT_CREATE"

    def get_job(call: Call) -> Answer:
        if call.parts["job"] != "known":
            raise Refusal(404, "NotAuthorizedOrNotFound", "there is no such job")
        return json_answer({"id": call.parts["job"], "caller": call.principal.id})

    identity = Identity()
    storage = ObjectStorage(tmp_path, allowed=allowed)
    storage.make_bucket("training")
    routes = [*storage.routes(), Route("GET", "/20190101/jobs/{job}", get_job)]
    with Server(OracleCloud(identity, routes, oracle.controls(identity, storage))) as server:
        steering = Steering(server.endpoint)
        seen_by_sdk = oracle.OracleServer(server.endpoint, 0, "rehearsal", steering)
        ann = connect(seen_by_sdk, make_user(steering, tmp_path / "ann", "ann").config_file)
        bob = connect(seen_by_sdk, make_user(steering, tmp_path / "bob", "bob", ("readers",)).config_file)
        ann.put_object("rehearsal", "training", "x", b"1")
        with pytest.raises(ServiceError) as caught:
            bob.put_object("rehearsal", "training", "y", b"1")
        assert (caught.value.status, caught.value.code) == (404, "BucketNotFound")
        assert "not authorized" in caught.value.message
        assert bob.get_object("rehearsal", "training", "x").data.content == b"1"
        assert seen[0] == ("ocid1.user.oc1..ann", "OBJECT_CREATE", "training", "x")
        assert job(bob, "known") == {"id": "known", "caller": "ocid1.user.oc1..bob"}
        with pytest.raises(ServiceError) as missing:
            job(bob, "unknown")
        assert missing.value.code == "NotAuthorizedOrNotFound"


def job(client: Any, name: str) -> Any:
    said = client.base_client.call_api(f"/20190101/jobs/{name}", "GET", response_type="str").data
    return json.loads(said) if isinstance(said, str) else said
