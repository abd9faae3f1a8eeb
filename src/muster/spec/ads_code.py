"""The runtime of an Oracle ADS file: where the code is, which script runs, and with which arguments."""

from __future__ import annotations

import json
import posixpath
from typing import Any

from .ads_draft import Draft
from .ads_lists import Said
from .ads_shape import part
from .ads_words import words
from .code_paths import IMAGE, relative, relative_word
from .problems import Problems
from .sources import ARCHIVES

CODE_DIR = "/code"
"""Where images of ADS have the code."""
SPEC = "spec.runtime.spec"
_ONLY_GIT = ("branch", "commit", "gitSecretId")


def code_folder(runtime: dict[str, Any]) -> str:
    """The folder in the image that is the code folder."""
    spec = part(runtime, "spec")
    base, entry = _base(spec), str(spec.get("entryPoint") or "")
    if runtime.get("type") == "remote":
        return posixpath.join(base, _copied_folder(str(spec.get("uri") or ""), _inside(entry, base)))
    elsewhere = entry.startswith("/") and relative(entry, base) == entry
    return posixpath.dirname(entry) if elsewhere and not runtime.get("type") and not spec.get("codeDir") else base


def _base(spec: dict[str, Any]) -> str:
    """Where images have the code, or where it is fetched to."""
    return posixpath.normpath(spec.get("codeDir") or CODE_DIR)


def _copied_folder(uri: str, entry: str) -> str:
    """The folder's name, where a whole folder is copied: then the script lies in a folder of that name."""
    name = posixpath.basename(uri.rstrip("/"))
    return name if name and not name.endswith(ARCHIVES) and entry.startswith(f"{name}/") else ""


def _inside(path: str, folder: str) -> str:
    return relative(path, folder).removeprefix("./")


def put_code(runtime: dict[str, Any], folder: str, draft: Draft, problems: Problems) -> None:
    """Puts code, entry and Python's paths into the draft."""
    spec, kind = part(runtime, "spec"), runtime.get("type")
    _check_fields(spec, kind, problems)
    if kind is None:
        draft.put(f"{IMAGE}{folder}", f"{SPEC}.codeDir" if spec.get("codeDir") else f"{SPEC}.entryPoint", "code")
        if not folder.startswith("/"):
            problems.add(f"{SPEC}.codeDir", f"{folder!r} is not absolute", "Write the image's folder, such as /code.")
    elif spec.get("uri"):
        draft.put(_git(spec) if kind == "git" else spec["uri"], f"{SPEC}.uri", "code")
    if spec.get("entryPoint"):
        _put_entry(spec, folder, draft, problems)
    if spec.get("pythonPath"):
        paths = [_python_path(path, folder) for path in _paths(spec["pythonPath"])]
        draft.put(paths, f"{SPEC}.pythonPath", "python_path")


def _check_fields(spec: dict[str, Any], kind: str | None, problems: Problems) -> None:
    if kind and not spec.get("uri") and problems.clean(f"{SPEC}.uri"):
        example = "uri: https://host/name.git" if kind == "git" else "uri: oci://bucket@namespace/folder"
        problems.add(f"{SPEC}.uri", f"missing: the code is taken from there by `type: {kind}`", f"Add `{example}`.")
    if kind is None and spec.get("uri"):
        fix = "Add `type: git` or `type: remote` beside `kind: python`, or take uri out."
        problems.add(f"{SPEC}.uri", "not used: without a type the code is in the image", fix)
    for name in _ONLY_GIT:
        if spec.get(name) and kind != "git":
            problems.add(f"{SPEC}.{name}", "only code from git has this", "Add `type: git`, or take it out.")


def _git(spec: dict[str, Any]) -> str:
    """A commit says all that its branch would."""
    reference = spec.get("commit") or spec.get("branch")
    return f"git+{spec['uri']}" + (f"#{reference}" if reference else "")


def _put_entry(spec: dict[str, Any], folder: str, draft: Draft, problems: Problems) -> None:
    entry = spec["entryPoint"]
    # A relative path starts where the code is copied to, which a folder that is copied then lies in.
    inside = _inside(posixpath.join(_base(spec), _inside(entry, _base(spec))), folder)
    if inside.startswith("/"):
        fix = f"Name a script below {folder}, or say in codeDir where the code is."
        problems.add(f"{SPEC}.entryPoint", f"{entry} lies outside of the code folder {folder}", fix)
        return
    draft.put(inside, f"{SPEC}.entryPoint", "entry")


def put_args(spec: dict[str, Any], folder: str, kind: str | None, draft: Draft, problems: Problems) -> None:
    """Arguments, and behind them the named ones."""
    given: list[Said] = [*(spec.get("args") or ()), *(spec.get("kwargs") or ())]
    found = words(given, problems)
    if found:
        name = "args" if spec.get("args") else "kwargs"
        # Code from elsewhere has no image whose path a target could know.
        moved = [relative_word(word, folder) for word in found] if kind else found
        draft.put(moved, f"{SPEC}.{name}", "args")


def _paths(given: tuple[Said, ...]) -> list[str]:
    """A list, one text with colons, or a JSON array in a text."""
    found: list[str] = []
    for said in given:
        try:
            parsed = json.loads(said.text) if said.text.lstrip().startswith("[") else None
        except (ValueError, RecursionError):
            parsed = None
        found += [str(item) for item in parsed] if isinstance(parsed, list) else said.text.split(":")
    return [path for path in found if path.strip()]


def _python_path(path: str, folder: str) -> str:
    return relative(path.strip(), folder).rstrip("/") or "."
