"""Dask in an Oracle ADS file: its certificates, and the start options that are settings of Muster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .ads_draft import Draft
from .ads_lists import Said
from .ads_shape import part
from .ads_words import note
from .problems import Problems
from .variables import span, whole

CLUSTER = "spec.cluster.spec"
TLS = {"--tls-ca-file": "tls_ca_file", "--tls-cert": "tls_cert", "--tls-key": "tls_key"}

_PORT = whole(1, 65535)


def _dashboard(text: str) -> int:
    """The port of an address; on which address it listens is Muster's to choose."""
    return _PORT(text.rpartition(":")[2])


_SETTINGS: dict[str, dict[str, tuple[str, Callable[[str], Any]]]] = {
    "main": {"--port": ("port", _PORT), "--dashboard-address": ("dashboard_port", _dashboard)},
    "worker": {
        "--nworkers": ("nprocs", whole(1)),
        "--nprocs": ("nprocs", whole(1)),
        "--nthreads": ("nthreads", whole(1)),
        "--death-timeout": ("death_timeout", span),
    },
}


_LOCATIONS = {
    "tls_ca_file": ("caCert", "downloadLocation", "ca-cert.pem"),
    "tls_cert": ("cert", "certDownloadLocation", "cert.pem"),
    "tls_key": ("cert", "keyDownloadLocation", "key.pem"),
}


def put_certificate(framework: str, cluster: dict[str, Any], draft: Draft, problems: Problems) -> None:
    """Puts the files of the certificates into the draft; without a vault they have to be there already."""
    certificate = part(cluster, "certificate")
    if certificate and framework not in ("dask", ""):
        message = f"certificates are for Dask: {framework} has no setting for them"
        problems.add(f"{CLUSTER}.certificate", message, "Take it out.")
    elif certificate:
        for option, (owner, name, default) in _LOCATIONS.items():
            given = part(certificate, owner).get(name)
            draft.put(given or default, f"{CLUSTER}.certificate.{owner}.{name}", "options", option)


def put_start_words(role: str, words: list[Said], draft: Draft, problems: Problems) -> None:
    """Puts the start options of one role into the draft; those that Muster has no setting for go as they stand."""
    known = _SETTINGS.get(role, {}) | {option: (name, str) for option, name in TLS.items()}
    left: list[str] = []
    rest = iter(words)
    for word in rest:
        option, equals, value = word.text.partition("=")
        if option not in known:
            left.append(word.text)
            continue
        given = Said(value, word.path) if equals else next(rest, None)
        name, read = known[option]
        if given is None:
            note(word, f"{option} lacks its value", f"Write {option} and its value.", problems)
            continue
        try:
            draft.put(read(given.text), given.path, role, "options", name)
        except ValueError as error:
            note(given, f"{option}: {error}", f"Take {option} out, or give it such a value.", problems)
    if left:
        draft.put(left, words[0].path, role, "options", "start_args")


def fold_certificates(draft: Draft) -> None:
    """Certificates that both programs share are options of the job."""
    for name in TLS.values():
        main, worker = (draft.get(role, "options", name) for role in ("main", "worker"))
        if draft.get("options", name) is None and main is not None and main == worker:
            draft.put(main, draft.origin(f"main.options.{name}"), "options", name)
        for role in ("main", "worker"):
            if draft.get(role, "options", name) == draft.get("options", name):
                draft.drop(role, "options", name)
