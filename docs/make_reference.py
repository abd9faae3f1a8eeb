"""Makes `job-file-fields.md` and `job.schema.json` from the table that job files are read with.

python docs/make_reference.py            writes both
python docs/make_reference.py --check    writes nothing; ends with 1 and names what is out of date
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from muster.frameworks.registry import framework
from muster.spec.fields import Field, Kind, Maybe, Section, Text
from muster.spec.schema import schema
from muster.spec.table import job_section

DOCS = Path(__file__).parent
FRAMEWORKS = ("dask", "pytorch")
HEAD = """\
# Every field of a job file

<!-- Made by make_reference.py from the table that job files are read with. Do not edit. -->

You write a job file and want to know what a field takes. [The job file](job-file.md) says how to write one.
A field without a default must be there. Durations are `90s`, `10m`, `1h30m`; a plain number is seconds. Sizes are
`512MB`, `32GB`, `1GiB`; a plain number is bytes.
"""


def rows(section: Section) -> Iterator[tuple[str, ...]]:
    for field in section.fields:
        yield f"`{field.name}`", takes(field.kind), default(section, field), field.help


def takes(kind: Kind) -> str:
    if isinstance(kind, Section):
        return "a mapping with a table of its own here"
    inner = kind.kind if isinstance(kind, Maybe) else kind
    if isinstance(inner, Text) and inner.rule:
        return cell(inner.rule.expected + (", or null" if inner is not kind else ""))
    return cell(kind.expected)


def default(section: Section, field: Field) -> str:
    value = section.default(field)
    if field.example or value is dataclasses.MISSING:
        return ""
    shown = field.kind.show(value)
    return f"`{json.dumps(shown, ensure_ascii=False)}`" if not isinstance(shown, str) else f"`{shown}`"


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def table(heads: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    heads = list(heads)
    whole = [heads, ["---"] * len(heads), *(list(line) for line in lines)]
    return "".join(f"| {' | '.join(line)} |\n" for line in whole)


def page() -> str:
    job = job_section()
    named: Mapping[str, Any] = {field.name: field.kind for field in job.fields}
    heads = ("field", "takes", "default", "what it is")
    parts = [HEAD, table(heads, rows(job))]
    parts += ["## `resources`\n", table(heads, rows(named["resources"]))]
    parts += [
        "## `main`, `worker` and `ps`\n\nWhat a role has of its own. `ps` also takes `count`.\n",
        table(heads, rows(named["main"])),
    ]
    for name in FRAMEWORKS:
        options = framework(name).options()
        lines = ((f"`{option}`", cell(kind.expected)) for option, kind in options.items())
        parts += [f"## `options` of {name}\n", table(("option", "takes"), lines)]
    return "\n".join(parts)


def made() -> dict[Path, str]:
    return {
        DOCS / "job-file-fields.md": page(),
        DOCS / "job.schema.json": json.dumps(schema(), indent=2, ensure_ascii=False) + "\n",
    }


def main() -> int:
    stale = [path for path, text in made().items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if "--check" in sys.argv[1:]:
        sys.stdout.writelines(f"{path.name} is out of date: run python docs/make_reference.py\n" for path in stale)
        return 1 if stale else 0
    for path in stale:
        path.write_text(made()[path], encoding="utf-8")
        sys.stdout.write(f"wrote {path.name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
