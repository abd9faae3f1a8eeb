"""A plan in words."""

from __future__ import annotations

from ..spec.units import duration_text, size_text
from ..targets.base import Plan, Resource


def lines(plan: Plan) -> list[str]:
    job = plan.job
    told = [
        f"{job.name}: {job.framework} on {plan.target}, {len(plan.nodes)} node{'s' if len(plan.nodes) > 1 else ''}",
        f"  work dir      {plan.work_dir}",
        f"  python        {plan.python}" + (f", with {plan.requirements}" if plan.requirements else ""),
    ]
    if plan.code:
        counted = f"{plan.code.files} files, {size_text(plan.code.bytes)}, {plan.code.digest[:12]}"
        told.append(f"  code          {plan.code.source}" + (f": {counted}" if plan.code.digest else ""))
    if job.entry:
        told.append(f"  script        {' '.join([job.entry, *map(repr, job.args)])}")
    if job.env:
        told.append(f"  environment   {', '.join(f'{name}={value}' for name, value in job.env.items())}")
    if job.secrets:
        told.append(f"  secrets       {', '.join(job.secrets)} (from your environment; never written down)")
    told += [
        f"  ready within  {duration_text(job.timeout)}",
        f"  ends within   {duration_text(job.ttl) if job.ttl else 'no bound: it has no ttl'}"
        + ("" if job.ephemeral else " (it stays after the script)"),
        f"  retries       {job.retries}",
        f"  network       {plan.network}",
        f"  price         {'nothing' if plan.kind == 'local' else plan.price_per_hour or 'unknown'}",
        "",
    ]
    told += [f"  note: {note}" for note in plan.notes]
    for node in plan.nodes:
        ports = ", ".join(f"{name} {number}" for name, number in node.ports.items()) or "none"
        told.append(f"  {node.name:<12}  ports {ports}" + (f"; folder {node.folder}" if node.folder else ""))
    told += [f"  creates       {one.kind} {one.name}: {_described(one)}" for one in plan.resources]
    told += [f"  needs         {statement}" for statement in plan.statements]
    return [*told, "", "Nothing was created. `muster run` does just this."]


def _described(one: Resource) -> str:
    """The parts of a payload that a reader looks for; `--json` has all of it."""
    machine = one.payload.get("jobInfrastructureConfigurationDetails") or {}
    size = machine.get("jobShapeConfigDetails") or {}
    container = one.payload.get("jobEnvironmentConfigurationDetails") or {}
    parts = [
        one.payload["displayName"],
        machine.get("shapeName"),
        f"{size['ocpus']} OCPUs, {size['memoryInGBs']} GB" if {"ocpus", "memoryInGBs"} <= size.keys() else None,
        container.get("image") or one.payload.get("image"),
        f"on {one.payload['network']}" if "network" in one.payload else None,
        *one.payload.get("mounts", ()),
    ]
    return ", ".join(str(part) for part in parts if part)
