"""The folder that a build sees: the recipe, and only what it needs. No file's name ever reaches a shell."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ..errors import MusterError
from ..spec.code_paths import image_folder
from ..spec.job import Job
from ..spec.sources import code_source
from ..workdir.scan import scan
from ..workdir.unpacking import copy_code
from .recipe import MARK
from .requirements import Listed
from .tool import Say
from .wheel import wheel, wheel_name

FILE = "Dockerfile"


@contextmanager
def own_context(dockerfile: str, listed: Listed, job: Job, folder: Path, code: bool, say: Say) -> Iterator[Path]:
    """What the recipe's own Dockerfiles see. `folder` has code that the job says lies in its image."""
    with tempfile.TemporaryDirectory(prefix="muster-image-") as made, ExitStack() as held:
        place = Path(made)
        (place / FILE).write_text(dockerfile, encoding="utf-8")
        (place / "muster").mkdir()
        (place / "muster" / wheel_name()).write_bytes(wheel())
        if listed.content:
            (place / ("env.yaml" if listed.conda else "requirements.txt")).write_text(listed.content, encoding="utf-8")
        if code:
            source = _code(job, folder, held, say)
            copy_code(source, scan(source), place / "code")
        yield place


@contextmanager
def foreign_context(dockerfile: Path) -> Iterator[Path]:
    """What somebody else's Dockerfile sees: the folder that it is in, without what `.musterignore` names."""
    with tempfile.TemporaryDirectory(prefix="muster-image-") as made:
        place = Path(made) / "context"
        source = dockerfile.parent.absolute()
        copy_code(source, scan(source), place)
        (place / FILE).write_bytes(dockerfile.read_bytes())
        yield place


def read_dockerfile(path: Path) -> tuple[str, bool]:
    """A Dockerfile of the user's, and whether it was made by our recipe."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise MusterError(f"cannot read {path}: {error.strerror}", "Write one: muster image build --write") from error
    return text, text.startswith(MARK)


def _code(job: Job, folder: Path, held: ExitStack, say: Say) -> Path:
    """The code's folder on this machine: the job's, or of code that lies in the image the one it is made from."""
    if job.code is None or image_folder(job) is not None:
        return folder
    if code_source(job.code):
        from ..workdir.fetching import fetched

        return held.enter_context(fetched(job.code, job.entry, say)).folder
    return Path(job.code)
