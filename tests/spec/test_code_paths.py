"""Paths of an image's code folder, as a machine without the image means them."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.spec.code_paths import from_image, relative, relative_env, relative_word
from muster.spec.job import Job, Role

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/code/train.py", "train.py"),
        ("/code//deep/", "deep/"),
        ("/code", "."),
        ("/code/", "."),
        ("/code/deep/..", "."),
        ("/codes/train.py", "/codes/train.py"),
        ("/code/../etc/passwd", "/code/../etc/passwd"),
        ("code/train.py", "code/train.py"),
        ("/", "/"),
        ("", ""),
    ],
)
@pytest.mark.parametrize("folder", ["/code", "/code/"])
def test_a_path_inside_the_folder_is_named_from_it(path: str, found: str, folder: str) -> None:
    assert relative(path, folder) == found


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("--data=/code/x", "--data=x"),
        ("-d=/code", "-d=."),
        ("a=/code/x", "a=/code/x"),
        ("--a=b=/code/x", "--a=b=/code/x"),
    ],
)
def test_an_options_value_is_a_path_too(word: str, found: str) -> None:
    assert relative_word(word, "/code") == found


def test_variables_hold_one_path_or_several() -> None:
    env = {"A": "/usr:/code/lib", "B": "/code/x", "C": "host:/code/x", "D": "in /code/x"}
    assert relative_env(env, "/code") == {"A": "/usr:lib", "B": "x", "C": "host:/code/x", "D": "in /code/x"}


def test_all_of_a_job_is_moved_and_a_job_of_its_own_code_is_not(tmp_path: Path) -> None:
    job = Job(
        name="a",
        framework="dask",
        code="image:/app",
        entry="/app/a.py",
        args=("/app/x",),
        env={"A": "/app/x"},
        options={"tls_key": "/app/x", "start_args": ["--preload", "/app/x"], "nprocs": 2},
        roles={"main": Role(env={"B": "/app"}, options={"tls_key": "/other"})},
    )
    assert from_image(job, tmp_path) == Job(
        name="a",
        framework="dask",
        code=str(tmp_path),
        entry="a.py",
        args=("x",),
        env={"A": "x"},
        options={"tls_key": "x", "start_args": ["--preload", "x"], "nprocs": 2},
        roles={"main": Role(env={"B": "."}, options={"tls_key": "/other"})},
    )
    plain = Job(name="a", framework="dask", code="/app", args=("/app/x",))
    assert from_image(plain, tmp_path) is plain
