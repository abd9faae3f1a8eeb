"""The policy of the page on work dirs is enough for a run below its prefix, and gives nothing outside."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any

import boto3
import pytest

from muster.errors import AccessDenied
from muster.rehearsal import s3
from muster.workdir.opening import open_store
from tests.docs.markdown import ROOT, blocks
from tests.harness import Muster


def policy() -> dict[str, Any]:
    (text,) = [block.text for block in blocks(ROOT / "docs" / "work-dirs.md") if block.file == "team-a.json"]
    value: dict[str, Any] = json.loads(text)
    return value


@pytest.fixture
def server() -> Iterator[s3.S3Server]:
    with s3.started("training") as made:
        yield made


def keys_of(server: s3.S3Server, granted: Mapping[str, Any]) -> dict[str, str]:
    """The environment of a user who has this policy and no other, on a server that from now on looks at policies."""
    env = server.environment
    iam = boto3.client(
        "iam",
        endpoint_url=server.endpoint,
        region_name="us-east-1",
        aws_access_key_id=env["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=env["AWS_SECRET_ACCESS_KEY"],
    )
    iam.create_user(UserName="someone")
    # AWS asks it of each object; moto asks it of the bucket when several are deleted at once.
    deletes = {"Effect": "Allow", "Action": "s3:DeleteObject", "Resource": "arn:aws:s3:::training"}
    whole = {**granted, "Statement": [*granted["Statement"], deletes]}
    iam.put_user_policy(UserName="someone", PolicyName="team-a", PolicyDocument=json.dumps(whole))
    key = iam.create_access_key(UserName="someone")["AccessKey"]
    iam.close()
    url = f"{server.endpoint}/moto-api/reset-auth"
    request = urllib.request.Request(url, b"0", {"Content-Type": "text/plain"})  # noqa: S310 - on loopback
    urllib.request.urlopen(request).close()  # noqa: S310
    return {**env, "AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}


def test_it_is_enough_for_a_whole_run_and_gives_nothing_outside(
    server: s3.S3Server, muster: Muster, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = keys_of(server, policy())
    muster.env.update(keys)
    script = "import pathlib\npathlib.Path('outputs/a.txt').write_text('a')\nprint('done')\n"
    job = muster.job(script, workers=1, work_dir="s3://training/team-a")
    muster("run", job)
    run = muster.run_id()
    assert "done" in muster("logs", run).stdout
    assert "a.txt" in muster("outputs", run).stdout
    muster("rm", run, "--yes")
    for name, value in keys.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(AccessDenied, match="'team-b/a' in the bucket training") as told:
        open_store("s3://training/team-b").put("a", b"")
    assert "Allow s3:PutObject on arn:aws:s3:::training/team-b/*" in told.value.fix


@pytest.mark.parametrize("action", ["s3:ListBucket", "s3:GetObject", "s3:PutObject"])
def test_it_is_no_more_than_is_needed(server: s3.S3Server, muster: Muster, action: str) -> None:
    less = policy()
    for statement in less["Statement"]:
        actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
        statement["Action"] = [one for one in actions if one != action] or ["s3:ListAllMyBuckets"]
    muster.env.update(keys_of(server, less))
    job = muster.job("print('done')\n", workers=1, work_dir="s3://training/team-a")
    done = muster("run", job, check=None)
    assert done.returncode != 0
    assert f"Allow {action}" in done.stderr
