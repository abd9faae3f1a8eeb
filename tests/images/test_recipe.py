"""The recipe: one Dockerfile for every framework, in the order in which layers change."""

from __future__ import annotations

import pytest

from muster.errors import MusterError
from muster.images.recipe import Recipe, recipe

pytestmark = pytest.mark.unit

WHOLE = """\
# An image for Muster, framework dask. Change it as you like, and build it with
#   muster image build --dockerfile Dockerfile
# The build sees: requirements.txt (what the script needs), muster/ (the node program), code/ (the job's code, \
without what .musterignore names).

FROM registry/base@sha256:0
USER root

RUN apt-get update \\
 && apt-get install --yes --no-install-recommends git libgomp1 \\
 && rm -rf /var/lib/apt/lists/*

# The script's Python: what the base image has, and what is installed here.
RUN python3 -m venv --system-site-packages /opt/python
ENV PATH=/opt/python/bin:$PATH
COPY requirements.txt /opt/requirements.txt
RUN pip install --no-cache-dir --disable-pip-version-check -r /opt/requirements.txt 'dask>=2024.5'

# The node program, in a Python of its own: it shares nothing with the script's.
COPY muster/ /opt/muster-wheel/
RUN PATH="${PATH#/opt/python/bin:}" python3 -m venv /opt/muster \\
 && for wheel in /opt/muster-wheel/*.whl; do /opt/muster/bin/pip install --no-cache-dir \
--disable-pip-version-check "$wheel[aws]"; done
ENV MUSTER_NODE_PYTHON=/opt/muster/bin/python MUSTER_SCRIPT_PYTHON=/opt/python/bin/python

# Nothing runs as root. Whoever it runs as may write beside the code: outputs and checkpoints arise there.
RUN (id 1000 >/dev/null 2>&1 || useradd --uid 1000 --create-home muster) \\
 && install -d -o 1000 -m 0777 /code
COPY --chown=1000 code/ /code/
WORKDIR /code
USER 1000

ENTRYPOINT ["/opt/muster/bin/python", "-I", "-m", "muster.node"]
"""


def test_the_dockerfile_is_this_text_whole() -> None:
    made = recipe(
        Recipe(
            "dask",
            base="registry/base@sha256:0",
            apt=("libgomp1", "git"),
            packages=("dask>=2024.5",),
            requirements=True,
            extras=("aws",),
        )
    )
    assert made == WHOLE


@pytest.mark.parametrize("framework", ["dask", "pytorch", "horovod", "tensorflow", "plugin"])
def test_every_framework_has_the_same_order_of_layers(framework: str) -> None:
    made = recipe(Recipe(framework, apt=("git",), packages=("numpy",), requirements=True))
    assert "FROM python:3.11-slim\n" in made
    marks = [
        "FROM ",
        "apt-get install",
        "requirements.txt /opt",
        "/opt/muster-wheel/",
        "COPY --chown=1000 code/",
        "USER 1000",
    ]
    places = [made.index(mark) for mark in marks]
    assert places == sorted(places)
    assert ("muster setup horovod" in made) is (framework == "horovod")


def test_code_that_comes_with_the_run_is_not_in_the_image() -> None:
    made = recipe(Recipe("dask", code=None))
    assert "code/" not in made
    assert "WORKDIR /code\n" in made


def test_packages_of_conda_come_by_micromamba() -> None:
    made = recipe(Recipe("pytorch", requirements=True, conda=True))
    assert "micromamba create --yes --root-prefix /opt/conda --prefix /opt/python --file /opt/env.yaml" in made
    assert "requirements.txt" not in made


def test_pips_settings_are_there_only_while_pip_runs() -> None:
    made = recipe(Recipe("dask", packages=("dask",), pip_config=True))
    installs = [
        line for line in made.splitlines() if line.startswith("RUN") and ("pip" in line or "venv /opt/muster" in line)
    ]
    assert len(installs) == 2
    assert all("--mount=type=secret,id=pip,target=/etc/pip.conf" in line for line in installs)


@pytest.mark.parametrize(
    "wrong",
    [
        {"apt": ("git; rm -rf /",)},
        {"apt": ("$(id)",)},
        {"packages": ("dask' && id '",)},
        {"base": "python:3.11\nRUN id"},
        {"python": "3.11 && id"},
        {"code": "/code /etc"},
        {"extras": ("aws]\nRUN id",)},
    ],
)
def test_nothing_given_means_more_to_a_shell_than_a_name(wrong: dict[str, object]) -> None:
    with pytest.raises(MusterError, match="cannot be a"):
        recipe(Recipe("dask", **wrong))  # type: ignore[arg-type]
