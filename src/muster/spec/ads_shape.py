"""The shape of an Oracle ADS `kind: distributed` file: each of its keys, declared once."""

from __future__ import annotations

from typing import Any

from .ads_kinds import ClusterKind, Filled, Number, OneOf, Word, WorkDir, Yes
from .ads_lists import EnvList, Texts
from .fields import Anything, Field, Maybe, Section, TextMap
from .kinds import Kind
from .oci_kinds import ListOf
from .oci_mounts import MOST, StorageMount

_VERSION = Field("apiVersion", OneOf(("v1", "v1.0"), "Write v1.0."))


def _maybe(name: str, kind: Kind, example: str = "") -> Field:
    """A key that may be left empty, as templates of ADS often are."""
    return Field(name, Maybe(kind), example=example)


def _own(name: str, what: str) -> Field:
    return _maybe(name, Filled(what=what))


_SHAPE_CONFIG = Section(
    (_maybe("ocpus", Number(whole=False)), _maybe("memoryInGBs", Number(whole=False))), owner="in shapeConfigDetails"
)

_INFRASTRUCTURE = Section(
    (
        Field("kind", OneOf(("infrastructure",))),
        Field("type", OneOf(("dataScienceJob",))),
        _VERSION,
        _maybe(
            "spec",
            Section(
                (
                    _own("displayName", "a name for the job"),
                    _own("compartmentId", "the OCID of your compartment"),
                    _own("projectId", "the OCID of your project"),
                    _own("logGroupId", "the OCID of your log group"),
                    _own("logId", "the OCID of your log"),
                    _own("subnetId", "the OCID of your subnet"),
                    _own("shapeName", "a shape, such as VM.Standard2.4"),
                    _maybe("blockStorageSize", Number(50)),
                    _own("jobType", "DEFAULT"),
                    _own("jobInfrastructureType", "STANDALONE or ME_STANDALONE"),
                    _maybe("shapeConfigDetails", _SHAPE_CONFIG),
                    _maybe("storageMount", ListOf(StorageMount(yaml=True), MOST)),
                    _maybe("freeformTags", TextMap()),
                    _maybe("definedTags", Anything()),
                ),
                owner="in spec of infrastructure",
            ),
        ),
    ),
    owner="in infrastructure",
)

_CONFIG = Section((_maybe("env", EnvList()), _maybe("startOptions", Texts())), owner="in config")


def _role(name: str, replicas: Kind) -> Section:
    fields = (
        _maybe("name", Word()),
        _own("image", "the image, such as region.ocir.io/namespace/name:tag"),
        _maybe("replicas", replicas),
        _maybe("config", _CONFIG),
    )
    return Section(fields, owner=f"in {name}")


_CERTIFICATE = Section(
    (
        Field(
            "caCert",
            Section((_own("id", "its OCID"), _maybe("downloadLocation", Word())), owner="in caCert"),
            example="caCert: {id: ocid1.certificateauthority…, downloadLocation: /code/ca-cert.pem}",
        ),
        Field(
            "cert",
            Section(
                (
                    _own("id", "its OCID"),
                    _maybe("certDownloadLocation", Word()),
                    _maybe("keyDownloadLocation", Word()),
                ),
                owner="in cert",
            ),
            example="cert: {id: ocid1.certificate…, certDownloadLocation: /code/cert.pem}",
        ),
    ),
    owner="in certificate",
)

_CLUSTER = Section(
    (
        Field("kind", ClusterKind(), example="kind: dask"),
        _VERSION,
        Field(
            "spec",
            Section(
                (
                    _own("image", "the image, such as region.ocir.io/namespace/name:tag"),
                    Field("workDir", WorkDir(), example="workDir: oci://bucket@namespace/folder"),
                    _maybe("name", Word()),
                    _maybe("ephemeral", Yes()),
                    _maybe("config", _CONFIG),
                    _maybe("main", _role("main", Number())),
                    _maybe("worker", _role("worker", Number(0))),
                    _maybe("ps", _role("ps", Number(0))),
                    _maybe("certificate", _CERTIFICATE),
                ),
                owner="in spec of cluster",
            ),
            example="spec: {workDir: oci://bucket@namespace/folder}",
        ),
    ),
    owner="in cluster",
)

_RUNTIME = Section(
    (
        Field("kind", OneOf(("python",), "Only `kind: python` runs a script on a cluster.")),
        _maybe("type", OneOf(("git", "remote"), "Write git or remote, or leave it out for code in the image.")),
        _VERSION,
        _maybe(
            "spec",
            Section(
                (
                    _own("entryPoint", "the script, such as /code/train.py"),
                    _maybe("args", Texts()),
                    _maybe("kwargs", Texts()),
                    _maybe("env", EnvList()),
                    _own("uri", "where the code is"),
                    _own("branch", "a branch"),
                    _own("commit", "a commit"),
                    _own("gitSecretId", "the OCID of the secret"),
                    _own("codeDir", "the folder of the code in the image"),
                    _maybe("pythonPath", Texts()),
                ),
                owner="in spec of runtime",
            ),
        ),
    ),
    owner="in runtime",
)

FILE = Section(
    (
        Field("kind", OneOf(("distributed",))),
        _VERSION,
        _maybe("metadata", Anything()),
        Field(
            "spec",
            Section(
                (
                    _maybe("name", Word()),
                    _maybe("infrastructure", _INFRASTRUCTURE),
                    Field(
                        "cluster",
                        _CLUSTER,
                        example="cluster: {kind: dask, spec: {workDir: oci://bucket@namespace/runs}}",
                    ),
                    _maybe("runtime", _RUNTIME),
                ),
                owner="in spec",
            ),
            example="spec: {cluster: {…}, runtime: {…}}",
        ),
    ),
    owner="in a `kind: distributed` file",
)


def part(values: Any, *keys: str) -> dict[str, Any]:
    """A section of what was read; empty where it was left out, left empty or wrong."""
    for key in keys:
        values = values.get(key) if isinstance(values, dict) else None
    return values if isinstance(values, dict) else {}
