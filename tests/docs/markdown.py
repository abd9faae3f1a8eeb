"""A page as what a reader does with it: the files it shows, the commands it gives, the links it has."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

_FENCE = re.compile(
    r"(?:^<!-- file: (?P<file>\S+) -->\n+)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """One fenced block, and the file that the page says it is."""

    language: str
    text: str
    line: int
    file: str | None = None


@dataclass(frozen=True)
class Command:
    """One command as a reader types it, and what the page shows below it."""

    text: str
    shown: str


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(found["language"], found["text"], text.count("\n", 0, found.start("text")), found["file"])
        for found in _FENCE.finditer(text)
    ]


def commands(block: Block) -> list[Command]:
    """The lines after `$ `, each with the lines below it; `> ` goes on with a command."""
    found: list[Command] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append(Command(line[2:], ""))
            continue
        last = found[-1]
        if line.startswith("> ") and not last.shown:
            found[-1] = Command(f"{last.text}\n{line[2:]}", "")
        else:
            found[-1] = Command(last.text, f"{last.shown}{line}\n")
    return found


def links(page: Path) -> list[str]:
    """What a page points to, code blocks left out."""
    return _LINK.findall(_FENCE.sub("", page.read_text(encoding="utf-8")))


def anchors(page: Path) -> set[str]:
    """The headings of a page, as links name them."""
    heads = re.findall(r"^#+ (.+)$", _FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def matches(shown: str, printed: str) -> bool:
    """Whether this was printed, where `...` is any text in a line and, alone on a line, any number of lines."""
    pattern = ""
    for line in shown.splitlines():
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*?".join(re.escape(part) for part in line.rstrip().split("...")) + r"[ \t]*\n"
    return re.fullmatch(pattern, printed if printed.endswith("\n") or not printed else printed + "\n") is not None
