"""What `code` may say of code that is elsewhere, and what each mistake in it is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.spec.locations import Location, resolved_code
from muster.spec.nodes import Scalar
from muster.spec.problems import Problems
from muster.spec.sources import Source, code_source, script_name, without_login

pytestmark = pytest.mark.unit

DIGEST = "0123456789abcdef" * 4

GOOD = {
    "git+https://host/name.git": Source("git", "https://host/name.git"),
    "git+https://host/name#v1": Source("git", "https://host/name", "v1"),
    "git+http://host:8080/name#3f2c1a9": Source("git", "http://host:8080/name", "3f2c1a9"),
    "git+https://[::1]:8443/name": Source("git", "https://[::1]:8443/name"),
    "git+ssh://git@host:22/team/name#feature/x": Source("git", "ssh://git@host:22/team/name", "feature/x"),
    "git+git@host:team/name.git#a#b": Source("git", "git@host:team/name.git", "a#b"),
    "git+file:///srv/name.git#refs/pull/1/head": Source("git", "file:///srv/name.git", "refs/pull/1/head"),
    "git+/srv/a#b/name#v1": Source("git", "/srv/a#b/name", "v1"),
    "git+../name": Source("git", "../name"),
    "git+~/name#v1": Source("git", "~/name", "v1"),
    "https://host/name.git#3f2c1a9": Source("git", "https://host/name.git", "3f2c1a9"),
    "http://host/name.git": Source("git", "http://host/name.git"),
    "ssh://git@host/name": Source("git", "ssh://git@host/name"),
    "git@host:name.git#v1": Source("git", "git@host:name.git", "v1"),
    "https://host/code.zip": Source("web", "https://host/code.zip"),
    "http://host:80/a/code.tar.gz?ref=main": Source("web", "http://host:80/a/code.tar.gz?ref=main"),
    f"https://host/code.tgz#sha256={DIGEST}": Source("web", "https://host/code.tgz", DIGEST),
    "https://host/train.py": Source("web", "https://host/train.py"),
    "s3://bucket/code.zip": Source("bucket", "s3://bucket/code.zip"),
    "oci://b@ns/c.zip": Source("bucket", "oci://b@ns/c.zip"),
    "/srv/code.tar.xz": Source("file", "/srv/code.tar.xz"),
    "code.ZIP": Source("file", "code.ZIP"),
    ".": None,
    "/srv/code": None,
    "train.py": None,
    "image:/app": None,
    "my git+/folder": None,
    "a@b": None,
}

_TAKEN = (
    "expected a path or s3://, oci://, https://host/code.zip, git+https://host/name.git#commit, image:/path, found "
)
_GIT = "Write git+https://host/name.git, git+ssh://git@host/name, git+file:///path or git+path, then #commit."
_CODE = (
    "Write git+https://host/name.git#commit for git, https://host/code.zip for an archive,"
    " or image:/path for code that lies in the image."
)
_REF = "Write the name of a branch or tag, or a commit, behind the #."
_LOGIN = "Take it out; git's own credential helper, or ssh, gives it to git at launch."
_KEY = "Download it yourself and name the file: what a job file says is written down in many places."
_SUM = "Behind the # of a download stands nothing but sha256= and the 64 digits that `sha256sum` prints."

BAD = {
    "git+": (f"{_TAKEN}'git+'", _GIT),
    "git+-x": (f"{_TAKEN}'git+-x'", _GIT),
    "git+--upload-pack=x#v1": (f"{_TAKEN}'git+--upload-pack=x#v1'", _GIT),
    "git+ext::sh -c x": (f"{_TAKEN}'git+ext::sh -c x'", _GIT),
    "git+git://host/name": (f"{_TAKEN}'git+git://host/name'", _GIT),
    "git+ftp://host/name": (f"{_TAKEN}'git+ftp://host/name'", _GIT),
    "git+file://host/name": (f"{_TAKEN}'git+file://host/name'", _GIT),
    "git+https://host": (f"{_TAKEN}'git+https://host'", _GIT),
    "git+ssh://-oProxyCommand=x/name": (f"{_TAKEN}'git+ssh://-oProxyCommand=x/name'", _GIT),
    "git+a@-oProxyCommand=x:name": (f"{_TAKEN}'git+a@-oProxyCommand=x:name'", _GIT),
    "git+git@host:-x": (f"{_TAKEN}'git+git@host:-x'", _GIT),
    "git+https://host/a b": (f"{_TAKEN}'git+https://host/a b'", _GIT),
    "git+https://host/name#": ("'' is no branch, tag or commit", _REF),
    "git+https://host/name#--x": ("'--x' is no branch, tag or commit", _REF),
    "https://host/name.git#a..b": ("'a..b' is no branch, tag or commit", _REF),
    "https://host/name.git#HEAD~1": ("'HEAD~1' is no branch, tag or commit", _REF),
    "git@host:name#a:b": ("'a:b' is no branch, tag or commit", _REF),
    "git+https://ada:pw@host/name": ("'git+https://…@host/name' has a name or password in it", _LOGIN),
    "https://pw@host/name.git": ("'https://…@host/name.git' has a name or password in it", _LOGIN),
    "ssh://ada:pw@host/name": ("'ssh://…@host/name' has a name or password in it", _LOGIN),
    "https://ada:pw@host/code.zip": ("'https://…@host/code.zip' has a name, password or key in it", _KEY),
    "https://host/code.zip?a=1&sig=pw": ("'https://host/code.zip?…' has a name, password or key in it", _KEY),
    "https://host/code.zip?private_token=pw": ("'https://host/code.zip?…' has a name, password or key in it", _KEY),
    "https://host/code.zip#v1": ("'v1' is no checksum", _SUM),
    "https://host/code.zip#sha256=123": ("'sha256=123' is no checksum", _SUM),
    "https://host/page": (f"{_TAKEN}'https://host/page'", _CODE),
    "https://ada:p/w@host/page": (f"{_TAKEN}'https://…@host/page'", _CODE),
    "https:///code.zip": (f"{_TAKEN}'https:///code.zip'", _CODE),
    "https://host/code.rar": (f"{_TAKEN}'https://host/code.rar'", _CODE),
    "image://app": (f"{_TAKEN}'image://app'", _CODE),
    "htps://ada:pw@host/code.zip": (f"{_TAKEN}'htps://…@host/code.zip'", "Did you mean `https://`?"),
}


def read(text: str) -> Problems:
    problems = Problems("job.yaml", {"code": 4})
    Location(("s3", "oci"), code=True).read(Scalar(text, text), "code", problems)
    return problems


@pytest.mark.parametrize("text", GOOD)
def test_code_from_elsewhere_is_known_by_how_it_is_written(text: str) -> None:
    assert read(text).found() == []
    assert code_source(text) == GOOD[text]


@pytest.mark.parametrize("text", BAD)
def test_a_mistake_is_told_with_its_line_and_what_mends_it_and_no_password(text: str) -> None:
    message, fix = BAD[text]
    assert list(map(str, read(text).found())) == [f"job.yaml:4: code: {message}\n    {fix}"]
    assert "pw" not in str(read(text).found())


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("git+../name#v1", "git+/home/name#v1"),
        ("git+name", "git+/home/ada/name"),
        ("git+/srv/name", "git+/srv/name"),
        ("git+git@host:name", "git+git@host:name"),
        ("https://host/name.git#v1", "https://host/name.git#v1"),
        ("git@host:name", "git@host:name"),
        ("file:///a%20b/code.zip", "/a b/code.zip"),
        ("code.zip", "/home/ada/code.zip"),
        ("image:/app", "image:/app"),
        ("s3://bucket/code.zip", "s3://bucket/code.zip"),
    ],
)
def test_paths_are_taken_from_the_folder_of_the_job_file(text: str, found: str) -> None:
    assert resolved_code(text, Path("/home/ada")) == found


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("https://host/a/train.py", "train.py"),
        ("https://host/train.py?raw=1#sha256=0", "train.py"),
        ("https://host/code.zip", None),
        ("/srv/train.py", None),
    ],
)
def test_a_url_may_name_one_script(text: str, name: str | None) -> None:
    assert script_name(text) == name


@given(login=st.text("abcXYZ019:._-%", min_size=1).map(lambda text: f"§{text}"), rest=st.text("/ab?=&#", max_size=9))
def test_no_login_is_shown(login: str, rest: str) -> None:
    assert "§" not in without_login(f"fatal: 'https://{login}@host/{rest}' is wrong")
    assert "§" not in without_login(f"https://host/x?sig={login}")
