"""A node's certificates: where they come from, and laid out in its own folder, which goes with it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from ..clouds.pems import Pems
from ..errors import NodeError, NotFound
from ..frameworks.base import Certificates, Framework
from ..spec.job import Job
from ..workdir import certify
from ..workdir.home import certificates_folder
from ..workdir.run import RunFolder
from ..workdir.tls import can_make, certificates_of, keep_certificates, lay_out, lifetime, made_here
from .python import can_import
from .settings import CERTIFICATE, TLS, Settings
from .waiting import delays

_MODULE = "cryptography"
_SLOWEST = 5.0


def lay_out_certificates(
    settings: Settings,
    run: RunFolder,
    job: Job,
    framework: Framework,
    code: Path,
    python: str,
    say: Callable[[str], None],
) -> Certificates | None:
    """The files by which this node's processes speak TLS; None where they do without. Blocks while they are fetched."""
    ids = settings.certificates
    if not framework.encrypts(job, wished=settings.tls or ids is not None):
        return None
    named = framework.certificate_files(job, settings.role)
    if named and not ids:
        return _there(Certificates(*(code / path for path in named)))
    if ids:
        from ..clouds.oci_certificates import certificates

        pems = certificates(ids)
    else:
        pems = _of_the_run(settings, run, job, python)
    files = Certificates(*lay_out(pems, certificates_folder(settings.folder)))
    if named:
        _show(files, Certificates(*(code / path for path in named)), say)
    return files


def provide(run: RunFolder, job: Job, framework: Framework, environment: Mapping[str, str]) -> None:
    """Makes the certificates of a run whose nodes will have this environment; what cannot be done here, main does."""
    elsewhere = environment.get(CERTIFICATE) or framework.certificate_files(job, "main")
    if not elsewhere and framework.encrypts(job, environment.get(TLS) == "1") and can_make():
        keep_certificates(run, lambda: made_here(lifetime(job.ttl)))


def _there(files: Certificates) -> Certificates:
    absent = [str(path) for path in files if not path.is_file()]
    if absent:
        message = f"the job names certificates that are not on this machine: {', '.join(absent)}"
        raise NodeError(message, "Put them there; or take the options out, and the run makes its own.")
    return files


def _show(files: Certificates, places: Certificates, say: Callable[[str], None]) -> None:
    """Links what was fetched to where the job says that its script looks for it. Nothing stays there but the link."""
    for path, place in zip(files, places, strict=True):
        if place.is_symlink():
            place.unlink()  # of an earlier start of this node, or of a run before it
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(path)
        except OSError as error:
            say(f"{place} is not the certificate that was fetched ({error.strerror}); Dask itself uses {path}")


def _of_the_run(settings: Settings, run: RunFolder, job: Job, python: str) -> Pems:
    until = time.monotonic() + job.timeout
    for delay in delays(_SLOWEST, first=0.1):
        try:
            return certificates_of(run)
        except NotFound:
            if settings.role == "main":
                return keep_certificates(run, lambda: _made(lifetime(job.ttl), python))
        if time.monotonic() + delay > until:
            break
        time.sleep(delay)
    message = f"run {run.run} has no certificates yet, after {job.timeout:g} s"
    raise NodeError(message, "Its launcher makes them, or main. Is TLS on there too (MUSTER_TLS=1)?")


def _made(seconds: float, python: str) -> Pems:
    """Here, or in the script's Python: Muster alone brings nothing that can make a certificate."""
    if can_make():
        return made_here(seconds)
    if not can_import(python, _MODULE):
        raise NodeError(
            f"TLS needs certificates, and neither {sys.executable} nor {python} has {_MODULE} to make them",
            f"Install it with:  {python} -m pip install {_MODULE}\n"
            "    or give the job certificates of your own, or `options: {tls: false}`.",
        )
    made = subprocess.run([python, certify.__file__, str(seconds)], capture_output=True, check=False, text=True)
    if made.returncode:
        last = (made.stderr.strip().splitlines() or ["no word"])[-1]
        raise NodeError(f"{python} could not make certificates: {last}", f"Is its {_MODULE} whole?")
    return Pems.of_bundle(made.stdout)
