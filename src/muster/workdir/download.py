"""Brings one file over http or https: bounded in size, time and redirects, and whole or not at all."""

from __future__ import annotations

import hashlib
import http.client
import math
import socket
import ssl
import sys
import time
import urllib.error
import urllib.request
from email.message import Message
from pathlib import Path
from typing import IO, NamedTuple
from urllib.parse import urlsplit

from ..errors import CodeError
from ..spec.sources import without_login
from ..spec.units import size_text
from .patience import Patience, Say

LARGEST = 2 << 30
_REDIRECTS = 5
_ATTEMPTS = 3
_PAUSE = 0.5
_SILENCE = 30.0
"""Seconds without a byte after which the other side is taken for gone."""
_LONGEST = 1800.0
"""Seconds in all: a server that sends a byte now and then must not hold a launch for ever."""
_CHUNK = 1 << 18
_PASSING = (429, 500, 502, 503, 504)


class _Bounds(NamedTuple):
    size: int
    until: float


class _Passing(CodeError):
    """What may well go better the next time."""


def download(url: str, to: Path, say: Say, bounded: bool = True) -> str:
    """Brings a file and says its sha256. What fails in passing is tried again. Code is bounded, data is not."""
    patience = Patience(say, f"downloading {without_login(url)}")
    bounds = _Bounds(LARGEST, time.monotonic() + _LONGEST) if bounded else _Bounds(sys.maxsize, math.inf)
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return _bring(url, to, patience, bounds)
        except _Passing:
            if attempt == _ATTEMPTS:
                raise
            time.sleep(_PAUSE * attempt)
    raise AssertionError


def _bring(url: str, to: Path, patience: Patience, bounds: _Bounds) -> str:
    shown = without_login(url)
    # What we save is the file itself, so nobody is to pack it for the way.
    request = urllib.request.Request(url, headers={"User-Agent": "muster", "Accept-Encoding": "identity"})  # noqa: S310
    try:
        with _opener().open(request, timeout=_SILENCE) as answer, to.open("wb") as file:
            return _save(answer, file, shown, patience, bounds)
    except urllib.error.HTTPError as error:
        with error:
            raise _answered(shown, error) from None
    except urllib.error.URLError as error:
        raise _unreached(shown, error.reason) from None
    except (TimeoutError, ConnectionError, http.client.HTTPException, ssl.SSLError) as error:
        raise _unreached(shown, error) from None
    except OSError as error:
        raise CodeError(f"cannot save {shown}: {error.strerror}", "Free some space, or set TMPDIR.") from error


def _save(answer: http.client.HTTPResponse, file: IO[bytes], shown: str, patience: Patience, bounds: _Bounds) -> str:
    length = answer.headers.get("Content-Length", "")
    whole = int(length) if length.isdigit() else None
    if whole and whole > bounds.size:
        raise _too_large(shown, whole)
    digest, got = hashlib.sha256(), 0
    while chunk := answer.read1(_CHUNK):
        got += len(chunk)
        if got > bounds.size:
            raise _too_large(shown, got)
        if time.monotonic() > bounds.until:
            raise CodeError(f"{shown} came too slowly: {size_text(got)} in {_LONGEST:g} s")
        digest.update(chunk)
        file.write(chunk)
        patience.look(f"{size_text(got)} of {size_text(whole)}" if whole else size_text(got))
    if whole is not None and got != whole:
        raise _Passing(f"{shown} ended after {got:,} of {whole:,} bytes", "Launch again; the server broke off.")
    return digest.hexdigest()


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows a few, and never to less safe ground."""

    max_redirections = _REDIRECTS
    max_repeats = 1

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> urllib.request.Request:
        before, after = urlsplit(req.full_url).scheme, urlsplit(newurl).scheme
        if after not in ("http", "https") or (before, after) == ("https", "http"):
            fp.close()
            raise _astray(without_login(req.full_url), newurl)
        return urllib.request.Request(newurl, headers=dict(req.headers), unverifiable=True)  # noqa: S310

    http_error_308 = urllib.request.HTTPRedirectHandler.http_error_302
    """Python 3.10 does not know it."""


def _opener() -> urllib.request.OpenerDirector:
    """Knows http and https, and no other scheme that a redirect could name. Proxy variables are followed."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        _Redirects(),
    ):
        opener.add_handler(handler)
    return opener


def _answered(shown: str, error: urllib.error.HTTPError) -> CodeError:
    said = f"{error.code} {error.reason}".strip()
    if error.code in _PASSING:
        return _Passing(f"{shown} answered {said}", "The server has trouble of its own. Launch again later.")
    if "is not allowed" in str(error.reason):  # by urllib, to which file: and the like are nothing to redirect to
        return _astray(shown, error.url)
    if error.code in (301, 302, 303, 307, 308):
        return CodeError(f"{shown} redirects again and again", "Open it in a browser, and name where it leads to.")
    if error.code in (401, 403, 407):
        fix = "Muster sends no login. Download it yourself and name the file, or take the code from git."
        return CodeError(f"{shown} wants a login: {said}", fix)
    if error.code in (404, 410):
        return CodeError(f"there is nothing at {shown}: {said}", "See that the URL is right.")
    return CodeError(f"{shown} answered {said}", "See that the URL is right.")


def _astray(shown: str, to: str) -> CodeError:
    return CodeError(f"{shown} redirects to {without_login(to)}", "Name the place itself, if you trust it.")


def _unreached(shown: str, reason: object) -> CodeError:
    host = urlsplit(shown).netloc
    if isinstance(reason, socket.gaierror):
        return CodeError(f"{shown}: no host is called {host}", "See that the URL is right, and that you are online.")
    if isinstance(reason, ConnectionRefusedError):
        return CodeError(f"{shown}: {host} refuses the connection", "See that the URL is right.")
    if isinstance(reason, ssl.SSLCertVerificationError):
        fix = "If your network has certificates of its own, set SSL_CERT_FILE to them."
        return CodeError(f"{shown}: the certificate of {host} is not trusted: {reason.verify_message}", fix)
    if isinstance(reason, TimeoutError):
        return _Passing(f"{shown}: {host} did not answer within {_SILENCE:g} s", "See that it can be reached.")
    words = str(reason) or type(reason).__name__
    return _Passing(f"{shown}: the connection to {host} broke: {words}", "Launch again.")


def _too_large(shown: str, size: int) -> CodeError:
    return CodeError(
        f"{shown} has {size_text(size)}, and code may have {size_text(LARGEST)}",
        "Bring data along as `inputs` of the job.",
    )
