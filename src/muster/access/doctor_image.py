"""The images of a job: whether the registry has them, and whether this machine can build and push them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..errors import CloudError, MusterError
from ..images.credentials import login_of
from ..images.names import ImageName, login_fix
from ..spec.problems import nearest
from .doctor_facts import Facts
from .doctor_policies import unseen
from .findings import Finding, fail, ok, skipped, warn

LAST_BUILT = "@image"


def images_of(facts: Facts) -> dict[str, list[str]]:
    """The job's images, each with the roles that run it; under the empty name those that have none."""
    found: dict[str, list[str]] = {}
    for role in facts.nodes:
        image = facts.job.role(role).image or facts.job.image or facts.option("image")
        found.setdefault(_last(image) if image == LAST_BUILT else image, []).append(role)
    return found


def _last(image: str) -> str:
    from ..images.records import last_built

    built = last_built()
    return built.name if built else image


def login(facts: Facts) -> Iterator[Finding]:
    """Whether the container tool is logged in to the registries: read from its own files, and never shown."""
    for registry, name in sorted({name.registry: name for name in _names(facts)}.items()):
        if login_of(registry):
            yield ok("registry-login", f"there is a login for {registry}")
        else:
            told = f"the container tool has no login for {registry}: nothing can be pushed there from here"
            yield warn("registry-login", told, login_fix(name))


def _names(facts: Facts) -> Iterator[ImageName]:
    for image in images_of(facts):
        try:
            if image and image != LAST_BUILT:
                yield ImageName.read(image)
        except MusterError:
            continue  # `images` tells of it


def images(facts: Facts) -> Iterator[Finding]:
    """Whether each image is there, and what it is at this moment."""
    for image, roles in images_of(facts).items():
        if not image:
            fix = "Write `image: REGION.ocir.io/NAMESPACE/REPOSITORY:TAG` into the job; `muster image build` makes one."
            yield fail("image", f"{', '.join(roles)}: no image is named, and each node is a container", fix)
        elif image == LAST_BUILT:
            yield fail("image", "none was built from this account yet", "Build one: muster image build")
        else:
            yield from _one(facts, image)


def _one(facts: Facts, image: str) -> Iterator[Finding]:
    try:
        name = ImageName.read(image)
    except MusterError as error:
        yield fail("image", error.message, error.fix)
        return
    yield from _in_oracle(facts, name) if name.oracle else _elsewhere(name)


def _elsewhere(name: ImageName) -> Iterator[Finding]:
    """Asks the registry itself, with the login that the container tool has."""
    from ..images.registry import manifest_digest

    try:
        digest = manifest_digest(name)
    except MusterError as error:
        yield fail("image", error.message, error.fix)
        return
    yield _there(name, digest)
    if not name.local:
        fix = f"Push it to Oracle's registry: muster image push REGION.ocir.io/NAMESPACE/{name.repository}"
        yield warn("registry", f"job runs pull from Oracle's own registry, and {name.registry} is another", fix)


def _there(name: ImageName, digest: str) -> Finding:
    told = f"{name} is there" + ("" if name.digest else f", and is {digest[:19]}… now; a plan pins that")
    return ok("image", told)


def _in_oracle(facts: Facts, name: ImageName) -> Iterator[Finding]:
    if facts.cloud is None:
        yield skipped("image", f"{name}: the registry cannot be asked without credentials")
        return
    namespace, _, repository = name.repository.partition("/")
    yield from _place(facts, name, namespace)
    try:
        known = _repositories(facts, repository)
    except CloudError as error:
        yield unseen(facts, "image", error, "REPOSITORY_INSPECT", f"{name}: may not see which repositories there are")
        return
    yield from _in_repository(facts, name, repository, known)


def _repositories(facts: Facts, wanted: str) -> dict[str, Mapping[str, Any]]:
    """Those of the compartment and, where it is not among them, those of all the tenancy that we may see."""
    listed, refusal = "list_container_repositories", None
    found: dict[str, Mapping[str, Any]] = {}
    places = {facts.compartment: False, facts.tenancy or facts.compartment: True}
    for place, deep in places.items():
        try:
            rows = facts.items("artifacts", listed, place, compartment_id_in_subtree=deep, limit=500)
        except CloudError as error:
            refusal = error
            continue
        refusal = None
        found |= {str(row["displayName"]): row for row in rows}
        if wanted in found:
            break
    if refusal and not found:
        raise refusal
    return found


def _place(facts: Facts, name: ImageName, namespace: str) -> Iterator[Finding]:
    """Whether it is the registry of this tenancy and region."""
    region = region_of(name.registry)
    if region and facts.session.region and region != facts.session.region:
        told = f"{name.registry} is the registry of {region}, and the job runs in {facts.session.region}"
        yield warn("registry", told, f"Push the image to the registry of {facts.session.region}: job runs pull there.")
    try:
        own = str(facts.ask("object_storage", "get_namespace").data)
    except CloudError:
        return  # `credentials` tells of it
    if own != namespace:
        fix = f"Write {name.registry}/{own}/…; `oci os ns get` tells the namespace."
        yield fail("registry", f"the image's namespace is {namespace}, and the tenancy's is {own}", fix)


def region_of(registry: str) -> str:
    """`us-ashburn-1` of `iad.ocir.io` and of `ocir.us-ashburn-1.oci.oraclecloud.com`."""
    from oci.regions import REGIONS_SHORT_NAMES

    word = registry.split(".")[1 if registry.startswith("ocir.") else 0]
    return str(REGIONS_SHORT_NAMES.get(word, word))


def _in_repository(
    facts: Facts, name: ImageName, repository: str, known: Mapping[str, Mapping[str, Any]]
) -> Iterator[Finding]:
    if repository not in known:
        guess = nearest(repository, known)
        meant = f"Did you mean {guess}? Else " if guess else ""
        # A push would make it, too, but in the root compartment, where the job's policies do not reach.
        made = f"oci artifacts container repository create --compartment-id {facts.compartment}"
        fix = f"{meant}make it, and push the image: {made} --display-name {repository}"
        yield fail("repository", f"there is no repository {repository} in this tenancy's registry", _sentence(fix))
        return
    yield ok("repository", repository)
    place = str(known[repository]["compartmentId"])
    try:
        found = facts.items("artifacts", "list_container_images", place, repository_name=repository, limit=500)
    except CloudError as error:
        yield unseen(facts, "image", error, "REPOSITORY_INSPECT", f"{name}: may not see which images there are")
        return
    yield _image(name, repository, found)


def _image(name: ImageName, repository: str, found: Sequence[Mapping[str, Any]]) -> Finding:
    key = "digest" if name.digest else "version"
    match = next((row for row in found if row.get(key) == name.reference), None)
    if match is None:
        tags = [str(row["version"]) for row in found if row.get("version")]
        guess = nearest(name.reference, tags) if not name.digest else None
        meant = f"Did you mean {repository}:{guess}? " if guess else ""
        has = f"It has {', '.join(tags[:8])}. " if tags else "It is empty. "
        return fail("image", f"there is no {name}", f"{meant}{has}Build and push it: muster image push {name}")
    if not match.get("digest"):
        return fail("image", f"{name} is there without a digest", f"Push it again: muster image push {name}")
    return _there(name, str(match["digest"]))


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]
