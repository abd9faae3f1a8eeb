"""`muster.toml` names the targets; what is wrong in it is told with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.errors import ConfigError
from muster.spec.config import Config, Target, load_config

pytestmark = pytest.mark.unit

LOCAL = Target("local", "local")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder without any configuration."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return folder


def configured(folder: Path, text: str) -> Config:
    (folder / "muster.toml").write_text(text)
    return load_config(folder)


def complaint(folder: Path, text: str, target: str | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        configured(folder, text).target(target)
    return str(caught.value).replace(str(folder), "HERE")


def test_without_a_file_there_is_the_local_target(tmp_path: Path) -> None:
    config = load_config(tmp_path)
    assert config.target() == config.target("local") == LOCAL


def test_targets_are_read_with_their_paths_from_the_files_folder(tmp_path: Path, home: Path) -> None:
    config = configured(
        tmp_path,
        """
default = "fast"

[targets.fast]
kind = "local"
work_dir = "runs"
python = ".venv/bin/python"
scratch = "~/scratch"

[targets."team a"]
kind = "local"
work_dir = "s3://bucket/runs"
python = "python3.12"
""",
    )
    assert config.target() == Target(
        "fast",
        "local",
        str(tmp_path / "runs"),
        {"python": str(tmp_path / ".venv/bin/python"), "scratch": str(home / "scratch")},
    )
    assert config.target("team a") == Target("team a", "local", "s3://bucket/runs", {"python": "python3.12"})
    assert config.target("local") == LOCAL


def test_the_local_target_can_be_given_a_work_dir(tmp_path: Path) -> None:
    config = configured(tmp_path, '[targets.local]\nkind = "local"\nwork_dir = "/data/runs"\n')
    assert config.target() == Target("local", "local", "/data/runs")


def test_the_users_own_file_is_used_where_the_folder_has_none(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = home / ".config" / "muster"
    mine.mkdir(parents=True)
    (mine / "muster.toml").write_text('[targets.mine]\nkind = "local"\nwork_dir = "runs"\n')
    assert load_config(tmp_path).target("mine").work_dir == str(mine / "runs")

    other = tmp_path / "xdg" / "muster"
    other.mkdir(parents=True)
    (other / "muster.toml").write_text('[targets.other]\nkind = "local"\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    assert "other" in load_config(tmp_path).targets

    (tmp_path / "muster.toml").write_text("")
    assert list(load_config(tmp_path).targets) == ["local"]


def test_a_relative_config_home_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "muster").mkdir()
    (tmp_path / "muster" / "muster.toml").write_text("broken")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", ".")
    assert load_config(tmp_path).target() == LOCAL


def test_a_target_that_is_not_there_names_those_that_are(tmp_path: Path) -> None:
    assert complaint(tmp_path, '[targets.laptop]\nkind = "local"\n', "labtop") == (
        "HERE/muster.toml: there is no target 'labtop'\n"
        "    Did you mean `laptop`? Targets are: local, laptop. Add `[targets.labtop]` to HERE/muster.toml"
        " for a new one."
    )


def test_without_a_file_it_says_where_to_put_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path).target("aws")
    assert str(caught.value) == (
        "there is no target 'aws'\n"
        "    Targets are: local. Add `[targets.aws]` to a muster.toml beside the job file for a new one."
    )


@pytest.mark.parametrize("kind", ["aws", "pool"])
def test_a_cloud_target_may_stand_there_but_cannot_be_used_yet(tmp_path: Path, kind: str) -> None:
    text = f'\n[targets.prod]\nkind = "{kind}"\ncompartment = "ocid1"\nwork_dir = "oci://b@ns/runs"\n'
    assert configured(tmp_path, text).target("local") == LOCAL
    assert complaint(tmp_path, text, "prod") == (
        f"HERE/muster.toml:2: targets.prod: targets of the kind '{kind}' are not in this version\n"
        "    Use one that runs on this machine: `local`."
    )


def test_all_mistakes_are_told_at_once_with_their_lines(tmp_path: Path) -> None:
    text = """\
# where we run
defualt = "a"

[targets.a]
kind = "locl"

[targets.b]
work_dir = "s4://bucket"

[targets.c]
kind = "local"
workdir = "runs"
python = 3

[targets.'d e']
kind = "local"
scratch = ""
"""
    assert complaint(tmp_path, text) == (
        "HERE/muster.toml:2: defualt: there is no such setting in muster.toml\n"
        "    Did you mean `default`?\n"
        "HERE/muster.toml:5: targets.a.kind: expected local, oci, aws or pool, found the text 'locl'\n"
        "    Did you mean `local`?\n"
        "HERE/muster.toml:7: targets.b.kind: missing\n"
        '    Add it, such as `kind = "local"`.\n'
        "HERE/muster.toml:8: targets.b.work_dir: expected a path or file://, s3://, oci://, gs://, az://,"
        " found 's4://bucket'\n"
        "    Did you mean `s3://`?\n"
        "HERE/muster.toml:12: targets.c.workdir: there is no such setting in a local target\n"
        "    Did you mean `work_dir`?\n"
        "HERE/muster.toml:13: targets.c.python: expected a text, found the number 3\n"
        '    Put it in quotes: "3".\n'
        "HERE/muster.toml:17: targets.d e.scratch: expected a text, found the text ''"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("default = 'x'\n", "HERE/muster.toml:1: default: there is no target 'x'\n    Targets are: local."),
        (
            "default = 3\n",
            'HERE/muster.toml:1: default: expected a text, found the number 3\n    Put it in quotes: "3".',
        ),
        (
            "targets = 3\n",
            "HERE/muster.toml:1: targets: expected a table for each target\n"
            '    Write `[targets.NAME]` and `kind = "local"`.',
        ),
        (
            "[targets]\na = 3\n",
            "HERE/muster.toml:2: targets.a: expected a mapping, found the number 3",
        ),
        (
            "[targets.a]\nkind = local\n",
            'HERE/muster.toml:2: not valid TOML: invalid value\n    Texts need quotes in TOML: kind = "local".',
        ),
        (
            "[targets.a]\nkind = 'local'\nscratch = 2024-01-01\n",
            "HERE/muster.toml:3: targets.a.scratch: a value of the type date has no place here\n"
            "    Give text, numbers, booleans, lists and mappings of them.",
        ),
    ],
)
def test_the_whole_message_of_a_mistake(tmp_path: Path, text: str, message: str) -> None:
    assert complaint(tmp_path, text) == message


def test_a_file_in_another_encoding_names_the_line(tmp_path: Path) -> None:
    (tmp_path / "muster.toml").write_bytes(b'default = "local"\n# \xff\n')
    with pytest.raises(ConfigError, match=r"muster\.toml:2: not UTF-8 text"):
        load_config(tmp_path)


def test_nesting_without_end_is_a_mistake(tmp_path: Path) -> None:
    assert "nested too deep to be read" in complaint(tmp_path, "a = " + "[" * 10_000)
