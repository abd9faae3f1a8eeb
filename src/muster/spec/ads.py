"""Oracle ADS `kind: distributed` files, read as the job files that they stand for.

What says *what* runs becomes a job; what says *where* it runs becomes a target of `muster.toml`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .ads_code import SPEC as RUNTIME
from .ads_code import code_folder, put_args, put_code
from .ads_dask import CLUSTER, fold_certificates, put_certificate, put_start_words
from .ads_draft import Draft
from .ads_env import DEFAULTS, Env, layered, put_env
from .ads_image import LAST_BUILT, named_image
from .ads_lists import Said
from .ads_shape import FILE, part
from .ads_where import Where, where_of
from .ads_words import note, start_words
from .code_paths import relative_env, relative_values
from .nodes import Node, Scalar, Table
from .problems import Problems
from .table import slug


def is_ads(root: Node) -> bool:
    """Whether a file is of this dialect. Its `kind` is written in any case."""
    kind = root.entries.get("kind") if isinstance(root, Table) else None
    return isinstance(kind, Scalar) and kind.raw.strip().casefold() == "distributed"


def read_ads(root: Node, folder: Path, problems: Problems) -> tuple[Draft, Where]:
    """The job file that an ADS file stands for, and where its nodes run. Notes every mistake of the file's own."""
    return _Reading(FILE.read(root, "", problems), folder, problems).done()


class _Reading:
    """One file on its way to a draft."""

    def __init__(self, whole: Any, folder: Path, problems: Problems) -> None:
        self.folder, self.problems = folder, problems
        self.whole = whole if isinstance(whole, dict) else {}
        self.infrastructure = part(self.whole, "spec", "infrastructure", "spec")
        self.framework: str = part(self.whole, "spec", "cluster").get("kind", "")
        self.cluster = _present(part(self.whole, "spec", "cluster", "spec"))
        self.runtime = part(self.whole, "spec", "runtime")
        self.script = part(self.runtime, "spec")
        self.code = code_folder(self.runtime)
        self.draft = Draft()

    def done(self) -> tuple[Draft, Where]:
        self._put_identity()
        self._put_counts()
        put_code(self.runtime, self.code, self.draft, self.problems)
        put_args(self.script, self.code, self.runtime.get("type"), self.draft, self.problems)
        self._put_images()
        put_certificate(self.framework, self.cluster, self.draft, self.problems)
        env = self._put_env()
        self._check_script()
        self._put_start_options(env)
        fold_certificates(self.draft)
        if self.runtime.get("type"):
            self._leave_image()
        where = where_of(self.infrastructure, self.cluster, self.script, env, self.problems)
        # What was built last is the target's to know, unless `config.ini` has told it already.
        return self.draft, where.without("image") if self.draft.get("image") else where

    # --- what runs ---------------------------------------------------------------------------------------

    def _put_identity(self) -> None:
        names = {
            f"{CLUSTER}.name": self.cluster.get("name"),
            "spec.name": part(self.whole, "spec").get("name"),
            "metadata.name": part(self.whole, "metadata").get("name"),
            "spec.infrastructure.spec.displayName": self.infrastructure.get("displayName"),
            "spec.cluster.kind": self.framework or "job",
        }
        origin, name = next((path, slug(str(name))) for path, name in names.items() if name and slug(str(name)))
        self.draft.put(name, origin, "name")
        self.draft.put(self.framework, "spec.cluster.kind", "framework")
        if self.cluster.get("ephemeral") is not None:
            self.draft.put(self.cluster["ephemeral"], f"{CLUSTER}.ephemeral", "ephemeral")
        if tags := self.infrastructure.get("freeformTags"):
            self.draft.put(tags, "spec.infrastructure.spec.freeformTags", "tags")

    def _put_counts(self) -> None:
        worker, ps = part(self.cluster, "worker"), part(self.cluster, "ps")
        workers = worker["replicas"] if worker else 0
        self.draft.put(workers, f"{CLUSTER}.worker.replicas", "workers")
        if ps:
            self.draft.put(ps["replicas"], f"{CLUSTER}.ps", "ps", "count")
        if part(self.cluster, "main").get("replicas", 1) not in (1, None):
            fix = "Write 1, and more workers: main is one node, and in all but dask it computes too."
            self.problems.add(f"{CLUSTER}.main.replicas", "a cluster has one main", fix)

    def _check_script(self) -> None:
        missing = not self.script.get("entryPoint") and self.problems.clean("spec.runtime")
        if missing and self.draft.get("ephemeral") is not False and self.problems.clean(f"{CLUSTER}.ephemeral"):
            message = "missing: a cluster ends with its script, and there is none"
            fix = "Add `runtime: {kind: python, spec: {entryPoint: train.py}}`, or `ephemeral: false` to the cluster."
            self.problems.add(f"{RUNTIME}.entryPoint" if self.runtime else "spec.runtime", message, fix)

    def _put_images(self) -> None:
        roles = {role: part(self.cluster, role).get("image") for role in ("main", "worker", "ps")}
        # As in ADS, any role's image is that of all where the cluster has none.
        image = self.cluster.get("image") or roles["main"] or roles["worker"]
        own = {role: name for role, name in roles.items() if name != image}
        for keys, name in (((), image), *(((role,), name) for role, name in own.items())):
            path = ".".join((CLUSTER, *keys, "image"))
            found = named_image(name, self.folder, path, self.problems)
            if found and found != LAST_BUILT:
                self.draft.put(found, path, *keys, "image")

    # --- environments and start options ------------------------------------------------------------------

    def _env_of(self, *keys: str) -> Env:
        found = part(self.cluster, *keys, "config").get("env")
        return found if isinstance(found, dict) else {}

    def _put_env(self) -> Env:
        """Puts all env lists into the draft, and returns what holds for every node."""
        # As in ADS: the script's over the cluster's, and a role's own over both.
        shared = layered(self._env_of(), self.script.get("env") or {})
        put_env(shared, None, self.framework, self.code, self.draft, self.problems)
        for role in ("main", "worker", "ps"):
            put_env(self._env_of(role), role, self.framework, self.code, self.draft, self.problems)
        return shared

    def _put_start_options(self, shared: Env) -> None:
        given = {role: part(self.cluster, role, "config").get("startOptions") for role in ("main", "worker", "ps")}
        common = part(self.cluster, "config").get("startOptions")
        if self.framework == "dask":
            # The scheduler and the workers are two programs, so what is said to both is said to each.
            for role in ("main", "worker") if self.draft.get("workers") else ("main",):
                words = self._start_words(given[role] or common, role, shared)
                put_start_words(role, words, self.draft, self.problems)
            return
        for role, said in {"": common, **given}.items():
            words = self._start_words(said, role, shared)
            if words and self.framework in ("pytorch", "tensorflow"):
                fix = "Take them out: its scripts are started as they are, by no launcher that would read them."
                note(words[0], f"{self.framework} takes no start options", fix, self.problems)
            elif words:
                place = (role, "options", "start_args") if role else ("options", "start_args")
                before = self.draft.get(*place) or []
                self.draft.put([*before, *(word.text for word in words)], words[0].path, *place)

    def _start_words(self, said: Any, role: str, shared: Env) -> list[Said]:
        known = {name: variable.value for name, variable in layered(shared, self._env_of(role) if role else {}).items()}
        counts = {"OCI__WORKER_COUNT": str(self.draft.get("workers"))}
        return start_words(said or (), {**DEFAULTS.get(self.framework, {}), **counts, **known}, self.problems)

    def _leave_image(self) -> None:
        """Code from elsewhere has no image whose path a target could know: what lies in it is named from there."""
        settings = self.draft.settings
        for table in (settings, *(settings.get(role, {}) for role in ("main", "worker", "ps"))):
            table.update(
                **({"env": relative_env(table["env"], self.code)} if "env" in table else {}),
                **({"options": relative_values(table["options"], self.code)} if "options" in table else {}),
            )


def _present(cluster: dict[str, Any]) -> dict[str, Any]:
    """The cluster without roles that have no node: ADS makes one of `replicas: 0`, which nobody asked for."""
    absent = [role for role in ("worker", "ps") if part(cluster, role).get("replicas") == 0]
    roles = {role: _counted(part(cluster, role)) for role in ("worker", "ps") if part(cluster, role)}
    return {name: value for name, value in {**cluster, **roles}.items() if name not in absent}


def _counted(role: dict[str, Any]) -> dict[str, Any]:
    """A role whose number is left open is one node."""
    return {**role, "replicas": 1} if role.get("replicas") is None else role
