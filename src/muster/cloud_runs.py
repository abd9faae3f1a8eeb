"""Runs as their clouds know them: by OCIDs, and by the tags that a sweep goes by."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from .errors import MusterError, NotFound, RunNotFound
from .launching import Run, Say, read_plan
from .spec.config import Target as TargetConfig
from .spec.config import load_config
from .targets.base import Swept, Target
from .targets.registry import target
from .workdir.index import entries
from .workdir.names import node_order
from .workdir.opening import open_store
from .workdir.run import RunFolder
from .workdir.twin import run_behind


def sweep(
    on: str | None = None, folder: str | os.PathLike[str] = ".", say: Say = lambda _text: None, dry: bool = False
) -> list[Swept]:
    """Ends what runs left behind in a target's cloud, found by its tags; without `on`, in all that are known here."""
    config = load_config(folder)
    if on is not None:
        return target(config.target(on)).sweep(say, dry)
    swept: dict[str, Swept] = {}
    for one in _clouds(list(config.targets.values())):
        swept |= {found.resource: found for found in one.sweep(say, dry)}
    return list(swept.values())


def _clouds(known: list[TargetConfig]) -> Iterator[Target]:
    """Every cloud that a target of the file, or the plan of a run launched from here, names; each place once."""
    for entry in entries():
        try:
            plan = read_plan(RunFolder(open_store(entry.work_dir), entry.run))
        except MusterError:
            continue  # of a run that is gone, or cannot be reached from here
        known.append(plan.config())
    seen = set()
    for config in known:
        place = (config.kind, config.options.get("compartment_id"), config.options.get("region"), config.work_dir)
        if config.kind not in ("local", "aws", "pool") and place not in seen:
            seen.add(place)
            yield target(config)


def cloud_ids(run: Run) -> dict[str, Any]:
    """A run on Oracle's cloud by its OCIDs, in the words and the form of ADS."""
    seen = {sight.node: sight.id for sight in run.observe()}
    main = {"main": seen.pop("main")} if "main" in seen else None
    others = [{node: seen[node]} for node in sorted(seen, key=node_order)]
    return {
        "jobId": run.folder.cloud().get("job"),
        "mainJobRunId": main,
        "otherJobRunIds": others,
        "workDir": run.launch_plan.work_dir if run.launch_plan else run.work_dir,
    }


def find_by_job(job: str, work_dir: str | None = None) -> Run:
    """The run that a job's OCID stands for; in any work dir that runs were launched with, if none is given."""
    places = [work_dir] if work_dir else list(dict.fromkeys(entry.work_dir for entry in entries()))
    for place in places:
        try:
            return Run(run_behind(open_store(place), job), place)
        except NotFound:
            continue
    raise RunNotFound(f"no run is known of the job {job}", "Name its work dir with --work-dir.")
