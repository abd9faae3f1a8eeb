"""Dask over TLS: which certificates a job names, and how each of Dask's programs is told of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ..spec.job import Job
from .base import Objection, Scene

if TYPE_CHECKING:
    from ..spec.fields import Kind

FILES = ("tls_ca_file", "tls_cert", "tls_key")
_SETTINGS = "DASK_DISTRIBUTED__COMM__"


def tls_options() -> Mapping[str, Kind]:
    from ..spec.code_paths import CodeFile
    from ..spec.switch import Switch

    return {"tls": Switch(), **{name: CodeFile() for name in FILES}}


def tls_objections(job: Job) -> Iterator[Objection]:
    """Half of the certificates, or of the nodes, is a mistake: nobody could connect."""
    roles = ("main", "worker") if job.workers.max else ("main",)
    given = {role: [name for name in FILES if job.options_of(role).get(name)] for role in roles}
    if any(given.values()) and any(len(names) < len(FILES) for names in given.values()):
        why = f"TLS takes {', '.join(FILES)}, all three, on main and on the workers"
        own = next((role for role in roles if given[role] and not job.options.keys() & set(FILES)), None)
        field = f"{own}.options" if own else "options"
        yield Objection(field, why, "Give all of them, to both; or take them out.")
    wishes = [job.options_of(role).get("tls", "auto") for role in roles]
    if any(wish != wishes[0] for wish in wishes):
        own = next(role for role in roles if "tls" in job.role(role).options)
        why = "TLS is on or off for the whole cluster"
        yield Objection(f"{own}.options.tls", why, "Move `tls` to the `options` of the job.")
    elif wishes[0] is False and any(given.values()):
        why = f"tls is false, and {', '.join(next(filter(None, given.values())))} are for TLS"
        yield Objection("options.tls", why, "Take `tls` out, or the certificates.")


def wants_tls(job: Job, wished: bool) -> bool:
    """What the job says; where it leaves it open, its own certificates or the target's wish."""
    said = job.options_of("main").get("tls", "auto")
    return bool(said) if isinstance(said, bool) else wished or named_files(job, "main") is not None


def named_files(job: Job, role: str) -> tuple[str, str, str] | None:
    authority, certificate, key = (job.options_of(role).get(name) for name in FILES)
    return (str(authority), str(certificate), str(key)) if authority and certificate and key else None


def scheme(scene: Scene) -> str:
    return "tls" if scene.certificates else "tcp"


def tls_words(scene: Scene) -> list[str]:
    """For `dask scheduler` and `dask worker`, whose nanny takes the same."""
    if not scene.certificates:
        return []
    named = zip(FILES, scene.certificates, strict=True)
    files = [word for name, path in named for word in (f"--{name.replace('_', '-')}", str(path))]
    return ["--protocol", "tls", *files]


def tls_settings(scene: Scene) -> dict[str, str]:
    """Dask's own settings, by which a client in any of the processes finds the certificates."""
    if not scene.certificates:
        return {}
    names = ("CA_FILE", "CLIENT__CERT", "CLIENT__KEY")
    files = {f"{_SETTINGS}TLS__{name}": str(path) for name, path in zip(names, scene.certificates, strict=True)}
    return {**files, f"{_SETTINGS}REQUIRE_ENCRYPTION": "true"}
