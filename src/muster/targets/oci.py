"""Oracle's Data Science Jobs: one job for a cluster, one run of it for each node.

Why so, and what speaks against other ways, is told in docs/design.md.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..access.ports import control_port
from ..errors import CloudError, LaunchError, MusterError, ScaleError
from ..frameworks.base import Framework
from ..frameworks.registry import framework
from ..spec.code_paths import image_folder
from ..spec.config import Target as TargetConfig
from ..spec.job import Job
from ..spec.oci_kinds import is_far
from ..workdir.loglines import LogLine
from ..workdir.opening import open_store
from ..workdir.records import EXIT_CODES, PROTOCOL, End, Verdict, fold
from ..workdir.run import RunFolder
from .base import RUN, CodePlan, NodePlan, Plan, Say, Sight, Swept
from .bundling import code_plan
from .local import node_names
from .oci_facts import check_far_inputs, for_boot, last_image, notes, region, storage
from .oci_home import HomeBound
from .oci_payloads import CODE, JOB, MARGIN, SUBNET, UNTIL, check_size, rendered, resources, run_payload

if TYPE_CHECKING:
    from ..access.findings import Finding
    from ..clouds.oci_services import Services
    from .oci_jobs import Jobs
    from .oci_launch import Launch
    from .oci_nodes import OciNodes

_NEEDED = ("compartment_id", "project_id")
_GRACE = 60.0
"""Seconds that nodes have to end by themselves once their run has ended."""


class Oci:
    remote = True

    def __init__(self, config: TargetConfig) -> None:
        self.config = config
        self._known_jobs: dict[str, str] = {}

    # --- the plan ----------------------------------------------------------------------------------------

    def plan(self, job: Job) -> Plan:
        from ..access.policies import needs_of, policy

        made = framework(job.framework)
        options = self._options(job)
        work_dir = self._work_dir(job)
        job = replace(job, work_dir=work_dir)
        check_far_inputs(job)
        code = code_plan(job, ())
        nodes = tuple(self._node(job, made, name, work_dir, code) for name in node_names(job))
        planned = resources(job, options, nodes)
        for one in planned:
            if "jobConfigurationOverrideDetails" in one.payload:
                check_size(one.payload)
        return Plan(
            target=self.config.name,
            kind="oci",
            job=job,
            work_dir=work_dir,
            code=code,
            python=job.python or "the image's own",
            requirements=job.requirements,
            nodes=nodes,
            network=f"between the nodes, inside the subnet: {made.open_ports(job)}; control {control_port(job)}",
            notes=tuple(notes(job, options)),
            resources=planned,
            statements=tuple(one.text for one in policy(needs_of(job, self.config)).statements),
            settings=options,
        )

    def _options(self, job: Job) -> dict[str, Any]:
        options = {name: value for name, value in self.config.options.items() if name != "code"}
        where = f"[targets.{self.config.name}] of muster.toml, or `infrastructure` of an ADS file"
        if missing := [name for name in _NEEDED if not options.get(name)]:
            raise LaunchError(f"the target {self.config.name} lacks {' and '.join(missing)}", f"Write it into {where}.")
        count = 1 + job.workers.max + job.ps
        if count > 1 and not options.get("subnet_id"):
            raise LaunchError(
                f"the target {self.config.name} lacks subnet_id, and {count} nodes must reach each other",
                f"Name a private subnet in {where}.",
            )
        if job.image:
            options.pop("image", None)
        elif options.get("image") == "@image":
            options["image"] = last_image()
        unknown = [name for name in job.secrets if name not in (options.get("secrets") or {})]
        if unknown:
            raise LaunchError(
                f"secrets: {', '.join(unknown)} has no place in Oracle's Vault",
                f'Write `secrets = {{{unknown[0]} = "ocid1.vaultsecret…"}}` into [targets.{self.config.name}].',
            )
        return options

    def _work_dir(self, job: Job) -> str:
        work_dir = job.work_dir or self.config.work_dir
        if not work_dir or not is_far(work_dir):
            raise LaunchError(
                f"nodes on Oracle's cloud cannot meet in the work dir {work_dir or '(none)'}",
                "Name a bucket: `work_dir: oci://BUCKET@NAMESPACE/PREFIX`.",
            )
        open_store(self.reach(work_dir))
        return work_dir

    def _node(self, job: Job, made: Framework, name: str, work_dir: str, code: CodePlan | None) -> NodePlan:
        from ..node.archive import program
        from ..node.boot import COMMAND, ENTRYPOINT, boot_environment

        role, options = name.partition("-")[0], self.config.options
        environment = {
            "MUSTER_LAUNCHED": "1",
            "MUSTER_PROTOCOL": str(PROTOCOL),
            "MUSTER_WORK_DIR": work_dir,
            "MUSTER_RUN_ID": RUN,
            "MUSTER_MODE": role.upper(),
            "MUSTER_NODE": name,
            "MUSTER_CONTROL_PORT": str(control_port(job)),
            "MUSTER_CLOUD": "oci",
            "MUSTER_COMPARTMENT": options["compartment_id"],
            "MUSTER_TLS": "1",
            "OCI_IAM_TYPE": "resource_principal",
            **for_boot(job.env_of(role)),
            **boot_environment(program(), storage(region(options))),
        }
        if options.get("subnet_id"):
            environment["MUSTER_SUBNET"] = SUBNET
        if options.get("cert_id"):
            environment["MUSTER_CERTIFICATE_OCID"] = options["cert_id"]
            environment["MUSTER_CERTIFICATE_AUTHORITY_OCID"] = options.get("ca_cert_id", "")
        if references := {name: options["secrets"][name] for name in job.secrets}:
            environment["MUSTER_SECRET_REFERENCES"] = " ".join(f"{name}={ocid}" for name, ocid in references.items())
        if code:
            environment["MUSTER_CODE"] = CODE
        elif place := image_folder(job):
            environment["MUSTER_CODE_DIR"] = place
        ports = {port.name: str(port) for port in made.ports(job, role)}
        return NodePlan(name, role, (*ENTRYPOINT, *COMMAND), environment, folder="", ports=ports)

    # --- the cloud ---------------------------------------------------------------------------------------

    @cached_property
    def services(self) -> Services:
        from ..clouds.oci import session
        from ..clouds.oci_services import Services

        options = self.config.options
        return Services(session(options.get("auth"), options.get("profile"), options.get("region")))

    @cached_property
    def jobs(self) -> Jobs:
        from .oci_jobs import Jobs

        return Jobs(self.services, self.config.options["compartment_id"])

    def logged_in(self, plan: Plan) -> AbstractContextManager[None]:
        secret = plan.settings.get("git_secret_id")
        if not secret:
            return nullcontext()
        from .oci_git import with_key

        return with_key(self.services, secret)

    def reach(self, work_dir: str) -> str:
        """Who we are to the cloud stands in the target, and holds for its bucket too. Nodes are somebody else."""
        if not work_dir.startswith("oci://"):
            return work_dir
        from ..workdir.addresses import with_defaults

        options = self.config.options
        ours = {name: str(options[name]) for name in ("auth", "profile", "region") if options.get(name)}
        return with_defaults(work_dir, ours)

    def folder(self, plan: Plan, run: str) -> RunFolder:
        return RunFolder(open_store(self.reach(plan.work_dir)), run)

    def launch(self, plan: Plan, run: str, say: Say) -> OciNodes:
        """Makes the job and all its runs, or nothing: what was made before a refusal is taken back."""
        from ..node.archive import store_program
        from ..node.asking import begin
        from .oci_launch import Launch
        from .oci_nodes import OciNodes

        folder = self.folder(plan, run)
        launch = Launch(self.jobs, plan, folder)
        # All at once: each answer takes its time, and none needs another's.
        storing, looking = begin(store_program, folder.store), begin(folder.latest_launch)
        learning = begin(self.known, plan, folder)
        try:
            storing.result()
            made = launch(learning.result(), again=looking.result()[0] > 1)
        except (MusterError, KeyboardInterrupt) as error:
            why = error.message if isinstance(error, MusterError) else "the launch was interrupted"
            say(why)
            _refused(folder, why)
            _take_back(launch, error, say)
            raise
        say(f"job {launch.job}: {len(made)} job run{'s' if len(made) > 1 else ''} accepted")
        return OciNodes(self, plan, folder, made, say)

    def known(self, plan: Plan, folder: RunFolder) -> dict[str, str]:
        """What stands in the payloads in place of their marks. The same at every launch of the run."""
        until = folder.read_job().created_at + plan.job.timeout + (plan.job.ttl or 30 * 86_400) + 2 * MARGIN
        known = {RUN: folder.run, UNTIL: str(int(until)), CODE: plan.code.digest if plan.code else ""}
        if subnet := plan.settings.get("subnet_id"):
            known[SUBNET] = self.cidr(subnet)
        return known

    def cidr(self, subnet: str) -> str:
        try:
            found = self.services.get("network", "iaas", f"/20160918/subnets/{subnet}").data
            return " ".join(dict.fromkeys([found["cidrBlock"], *(found.get("ipv4CidrBlocks") or ())]))
        except CloudError as error:
            if error.status not in (401, 404):
                raise
            raise LaunchError(
                f"the subnet {subnet} cannot be seen: {error.told}",
                "Is it in this region? Or else a policy is missing: `muster policy` prints all that this job needs.",
            ) from error

    def node_payload(self, plan: Plan, name: str, known: Mapping[str, str]) -> dict[str, Any]:
        """The job run of a node, also of one that was not there at first."""
        planned = next((one.payload for one in plan.resources if one.kind == "job run" and one.name == name), None)
        if planned is None:
            made = framework(plan.job.framework)
            node = self._node(plan.job, made, name, plan.work_dir, plan.code)
            planned = run_payload(plan.job, plan.settings, node, plan.nodes)
        payload: dict[str, Any] = rendered(planned, known)
        return payload

    def observe(self, plan: Plan, run: str) -> list[Sight]:
        from .oci_jobs import latest

        job = self.job(plan, run)
        return list(latest(self.jobs.runs(job)).values()) if job else []

    def said(self, plan: Plan, run: str, since: float) -> Iterator[LogLine]:
        from .oci_logs import service_lines

        return service_lines(self.services, plan, self.observe(plan, run), since)

    def finish(self, plan: Plan, run: str, say: Say) -> None:
        if job := self.job(plan, run):
            # Nodes that know of the end end by themselves, and bring home what they have; the others never will.
            folder = self.folder(plan, run)
            self.jobs.take_away(job, say, _GRACE if folder.nodes() else 0.0, HomeBound(folder))

    def scale(self, plan: Plan, run: str, workers: int) -> list[str]:
        """Further job runs, so that there are as many workers as asked for. Those too many main lets go itself."""
        from ..node.archive import store_program
        from .oci_launch import more_workers

        if plan.settings.get("multi_node"):
            raise ScaleError(
                f"run {run} is one job run with all its nodes, which keeps its size",
                "Leave `multi_node` out of the target: then each node is a job run of its own.",
            )
        folder = self.folder(plan, run)
        job = self.job(plan, run)
        if job is None:
            return []
        store_program(folder.store)
        known = {**self.known(plan, folder), JOB: job}
        return more_workers(self.jobs, plan, run, job, workers, lambda name: self.node_payload(plan, name, known))

    def sweep(self, say: Say, dry: bool = False) -> list[Swept]:
        from .oci_sweep import sweep

        work_dir = self.reach(self.config.work_dir) if self.config.work_dir else None
        return sweep(self.jobs, work_dir, say, dry, time.time())

    def probe(self, job: Job) -> list[Finding]:
        """Starts two nodes for a minute, and tries every port that the job needs between them."""
        from .oci_probe import probe

        return probe(self, job)

    def is_gone(self, plan: Plan, run: str) -> bool:
        """Whether the run's job was deleted by somebody."""
        job = self.job(plan, run)
        return job is not None and self.jobs.is_gone(job)

    def job(self, plan: Plan, run: str) -> str | None:
        """The OCID of the run's job: as the launcher wrote it down, else by its tag, else None."""
        if run not in self._known_jobs:
            noted = self.folder(plan, run).cloud().get("job")
            name = (plan.settings.get("display_name") or RUN).replace(RUN, run)
            found = {"id": noted} if noted else self.jobs.find(run, name)
            if found is None:
                return None
            self._known_jobs[run] = str(found["id"])
        return self._known_jobs[run]


def _take_back(launch: Launch, error: BaseException, say: Say) -> None:
    """What cannot be taken back is named, beside the reason why it had to be."""
    try:
        launch.take_back(say)
    except CloudError as left:
        if launch.job is None and isinstance(error, LaunchError):
            return  # nothing was made, as far as anybody can say
        raise LaunchError(
            f"{error}\nThe job {launch.job} could not be taken back: {left.message}",
            "Later: `muster sweep`, which finds it by its tag.",
        ) from error


def _refused(folder: RunFolder, why: str) -> None:
    verdict = Verdict(End.LAUNCH_REFUSED, EXIT_CODES[End.LAUNCH_REFUSED], why)
    result = fold(folder.run, [verdict], generation=0, started_at=time.time(), ended_at=time.time())
    if result:
        folder.write_result(result)
