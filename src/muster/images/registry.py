"""What a registry says of an image, over its own protocol: whether it is there, and which content a tag means now."""

from __future__ import annotations

import base64
import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

from ..errors import MusterError
from .credentials import Login, login_of
from .names import DOCKER_HUB, ImageName, login_fix

_WITHIN = 15.0
_KINDS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
"""The forms in which an image may be described. A tag's digest is that of the form that was asked for."""


def digest(image: str) -> str:
    """`repository@sha256:…`: the content that the name means in its registry at this moment."""
    name = ImageName.read(image)
    if name.digest:
        return str(name.pinned(name.digest))
    return str(name.pinned(manifest_digest(name)))


def manifest_digest(name: ImageName) -> str:
    """`sha256:…` of the image. An error says whether it is not there, not ours to see, or nobody answers."""
    url = f"{_base(name)}/v2/{name.repository}/manifests/{name.reference}"
    headers = {"Accept": ", ".join(_KINDS)}
    login = login_of(name.registry)
    answer = _ask(url, "HEAD", headers, name)
    if answer[0] == 401:
        allowed = _authorization(answer[1].get("www-authenticate", ""), name, login)
        answer = _ask(url, "HEAD", {**headers, "Authorization": allowed}, name) if allowed else answer
    status, told = answer
    if status == 404:
        raise _not_there(name, login)
    if status in (401, 403):
        raise MusterError(f"image: {name.registry} does not let you see {name}", login_fix(name))
    found = told.get("docker-content-digest", "")
    if status != 200 or not re.fullmatch(r"sha256:[0-9a-f]{64}", found):
        raise MusterError(f"image: {name.registry} answered {status} when asked for {name}", "Try again later.")
    return found


def _not_there(name: ImageName, login: Login | None) -> MusterError:
    fix = f"Build and push it: muster image build --tag {name}, muster image push {name}"
    if login is None:
        # Registries hide from strangers what is private.
        fix = f"{login_fix(name)}\n    or {fix[0].lower()}{fix[1:]}"
    return MusterError(f"image: there is no {name}", fix)


def _base(name: ImageName) -> str:
    host = "registry-1.docker.io" if name.registry == DOCKER_HUB else name.registry
    return f"http://{host}" if name.local else f"https://{host}"


def _authorization(challenge: str, name: ImageName, login: Login | None) -> str | None:
    """The header that answers a registry's challenge; None if we have nothing to answer with."""
    kind, _, rest = challenge.partition(" ")
    if kind.lower() == "basic":
        return _basic(login) if login else None
    if kind.lower() != "bearer":
        return None
    asked = {key.lower(): value for key, value in re.findall(r'(\w+)="([^"]*)"', rest)}
    realm = asked.get("realm", "")
    # A password goes over plain HTTP only where the registry itself is on this machine.
    if not realm.startswith("https://") and not (realm.startswith("http://") and name.local):
        return None
    scope = asked.get("scope") or f"repository:{name.repository}:pull"
    query = urllib.parse.urlencode({"service": asked.get("service", ""), "scope": scope})
    headers = {"Authorization": _basic(login)} if login else {}
    token = _token(f"{realm}{'&' if '?' in realm else '?'}{query}", headers, name)
    return f"Bearer {token}" if token else None


def _basic(login: Login) -> str:
    return "Basic " + base64.b64encode(f"{login.user}:{login.password}".encode()).decode()


def _token(url: str, headers: Mapping[str, str], name: ImageName) -> str:
    """What the token server gives; empty if it refuses."""
    request = urllib.request.Request(url, headers=dict(headers))  # noqa: S310 - http or https, see the caller
    try:
        with _opener().open(request, timeout=_WITHIN) as answer:
            value: dict[str, Any] = json.loads(answer.read(1 << 20))
    except urllib.error.HTTPError:
        return ""
    except (OSError, ValueError) as error:
        raise _silent(name, error) from None
    return str(value.get("token") or value.get("access_token") or "")


def _ask(url: str, method: str, headers: Mapping[str, str], name: ImageName) -> tuple[int, dict[str, str]]:
    """The status and the headers of the answer."""
    request = urllib.request.Request(url, headers=dict(headers), method=method)  # noqa: S310
    try:
        with _opener().open(request, timeout=_WITHIN) as answer:
            return answer.status, {key.lower(): value for key, value in answer.headers.items()}
    except urllib.error.HTTPError as error:
        with error:
            return error.code, {key.lower(): value for key, value in error.headers.items()}
    except OSError as error:
        raise _silent(name, error) from None


def _silent(name: ImageName, error: Exception) -> MusterError:
    reason = getattr(error, "reason", error)
    return MusterError(
        f"image: {name.registry} does not answer: {reason}",
        "See that the registry's name is right and that this machine, its proxy included, reaches it.",
    )


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the login to whatever host it names."""

    def redirect_request(self, *_args: Any) -> None:
        return None


def _opener() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(_NoRedirect)
