"""The recipe of an image: one Dockerfile for every framework, in small layers that change ever more often. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import MusterError

MARK = "# An image for Muster"
"""How our own Dockerfiles begin. What the build of one sees is said in its next lines."""
COPIES_CODE = "COPY --chown=1000 code/"
PYTHON = "3.11"
CODE = "/code"
PLATFORM = "linux/amd64"
"""What clouds run, whatever machine builds it."""

_APT = re.compile(r"[a-z0-9][a-z0-9+.-]+(?:=[A-Za-z0-9.+:~-]+)?")
_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?:\[[A-Za-z0-9,._-]+\])?(?:[<>=!~]=?[A-Za-z0-9.*+!_-]+,?)*")
_PLACE = re.compile(r"/[A-Za-z0-9._/-]+")
_ENTRYPOINT = 'ENTRYPOINT ["/opt/muster/bin/python", "-I", "-m", "muster.node"]'
_BUILD_TOOLS = ("cmake", "g++", "make")
_PIP = "pip install --no-cache-dir --disable-pip-version-check"


@dataclass(frozen=True)
class Recipe:
    """What differs between images."""

    framework: str
    base: str = ""
    """The image to start from; without one, Python's own of the wished version. A digest in it pins it."""
    python: str = PYTHON
    apt: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    """What pip installs beside the user's requirements, in the same step."""
    requirements: bool = False
    """Whether the build has a `requirements.txt` of the user's, or with `conda` an `env.yaml`."""
    conda: bool = False
    code: str | None = CODE
    """Where the code is baked in; None where it comes with the run."""
    extras: tuple[str, ...] = ()
    """Of the node program: `aws` where the work dir is a bucket there."""
    pip_config: bool = False
    """Whether pip's settings come as a secret of the build. They stay out of the image."""


def recipe(what: Recipe) -> str:
    """The Dockerfile."""
    _check(what)
    steps = [
        _head(what),
        f"FROM {what.base or f'python:{what.python}-slim'}\nUSER root",
        _apt(what),
        _conda(what) if what.conda else _venv(what),
        _program(what),
        _horovod(what),
        _user(what),
        _ENTRYPOINT,
    ]
    return "\n\n".join(step for step in steps if step) + "\n"


def _check(what: Recipe) -> None:
    """Nothing that a user gives may mean more to the build's shell than a name."""
    for kind, pattern, words in (
        ("apt package", _APT, what.apt),
        ("package", _PACKAGE, what.packages),
        ("extra", re.compile(r"[a-z]+"), what.extras),
        ("base image", re.compile(r"[\w./:@-]+"), (what.base,) if what.base else ()),
        ("version of Python", re.compile(r"3\.\d+(\.\d+)?"), (what.python,)),
        ("folder for the code", _PLACE, (what.code,) if what.code else ()),
    ):
        if wrong := next((word for word in words if not pattern.fullmatch(word)), None):
            raise MusterError(f"image: {wrong!r} cannot be a {kind}", "Mend its name.")


def _head(what: Recipe) -> str:
    sees = [f"{_listed(what)} (what the script needs)"] if what.requirements else []
    sees.append("muster/ (the node program)")
    if what.code:
        sees.append("code/ (the job's code, without what .musterignore names)")
    return (
        f"{MARK}, framework {what.framework}. Change it as you like, and build it with\n"
        "#   muster image build --dockerfile Dockerfile\n"
        f"# The build sees: {', '.join(sees)}."
    )


def _listed(what: Recipe) -> str:
    return "env.yaml" if what.conda else "requirements.txt"


def _apt(what: Recipe) -> str:
    tools = _BUILD_TOOLS if what.framework == "horovod" else ()
    wanted = sorted({*what.apt, *tools})
    if not wanted:
        return ""
    return (
        "RUN apt-get update \\\n"
        f" && apt-get install --yes --no-install-recommends {' '.join(wanted)} \\\n"
        " && rm -rf /var/lib/apt/lists/*"
    )


def _venv(what: Recipe) -> str:
    steps = [
        "# The script's Python: what the base image has, and what is installed here.",
        "RUN python3 -m venv --system-site-packages /opt/python",
        "ENV PATH=/opt/python/bin:$PATH",
    ]
    if what.requirements:
        steps.append("COPY requirements.txt /opt/requirements.txt")
    wanted = " ".join(filter(None, ["-r /opt/requirements.txt" if what.requirements else "", _quoted(what.packages)]))
    if wanted:
        steps.append(f"RUN {_secret(what)}{_PIP} {wanted}")
    return "\n".join(steps)


def _conda(what: Recipe) -> str:
    steps = [
        "# The script's Python: a conda environment, made by micromamba.",
        "COPY --from=docker.io/mambaorg/micromamba:2.0 /bin/micromamba /usr/local/bin/micromamba",
        "COPY env.yaml /opt/env.yaml",
        "RUN micromamba create --yes --root-prefix /opt/conda --prefix /opt/python --file /opt/env.yaml \\\n"
        " && rm -rf /opt/conda",
        "ENV PATH=/opt/python/bin:$PATH",
    ]
    if what.packages:
        steps.append(f"RUN {_secret(what)}python -m {_PIP} {_quoted(what.packages)}")
    return "\n".join(steps)


def _quoted(packages: tuple[str, ...]) -> str:
    return " ".join(f"'{one}'" for one in packages)


def _program(what: Recipe) -> str:
    extras = f"[{','.join(what.extras)}]" if what.extras else ""
    return "\n".join(
        [
            "# The node program, in a Python of its own: it shares nothing with the script's.",
            "COPY muster/ /opt/muster-wheel/",
            # The base image's Python: the script's may be too old for it.
            f'RUN {_secret(what)}PATH="${{PATH#/opt/python/bin:}}" python3 -m venv /opt/muster \\\n'
            f' && for wheel in /opt/muster-wheel/*.whl; do /opt/muster/bin/{_PIP} "$wheel{extras}"; done',
            "ENV MUSTER_NODE_PYTHON=/opt/muster/bin/python MUSTER_SCRIPT_PYTHON=/opt/python/bin/python",
        ]
    )


def _horovod(what: Recipe) -> str:
    if what.framework != "horovod":
        return ""
    return f"RUN {_secret(what)}/opt/muster/bin/muster setup horovod --python /opt/python/bin/python"


def _user(what: Recipe) -> str:
    place = what.code or CODE
    steps = [
        "# Nothing runs as root. Whoever it runs as may write beside the code: outputs and checkpoints arise there.",
        "RUN (id 1000 >/dev/null 2>&1 || useradd --uid 1000 --create-home muster) \\\n"
        f" && install -d -o 1000 -m 0777 {place}",
    ]
    if what.code:
        steps.append(f"{COPIES_CODE} {place}/")
    return "\n".join([*steps, f"WORKDIR {place}", "USER 1000"])


def _secret(what: Recipe) -> str:
    """pip's own settings may hold a password, so that they are there only while pip runs."""
    return "--mount=type=secret,id=pip,target=/etc/pip.conf,mode=0444 " if what.pip_config else ""
