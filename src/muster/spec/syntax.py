"""What a YAML parser could not read, in words that say what to do about it."""

from __future__ import annotations

import yaml

from .problems import Problems


def note(error: Exception, text: str, problems: Problems) -> None:
    """Notes the one mistake that kept the text from being read."""
    error = _worded(error, text)
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:
        line = text.count("\n", 0, getattr(error, "position", 0)) + 1
        fix = "Save the file as plain UTF-8 text, without control characters."
        problems.add("", "there is a character here that YAML does not allow", fix, line=line)
        return
    lines = text.split("\n")
    line = min(mark.line + 1, len(lines))
    message, fix = _explained(error, lines[line - 1], line)
    problems.add("", message, fix, line=line)


def _worded(error: Exception, text: str) -> Exception:
    """The same mistake as the parser written in Python puts it, which says more and counts lines better."""
    try:
        yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as better:
        return better
    except RecursionError:
        pass
    return error


def _explained(error: Exception, written: str, line: int) -> tuple[str, str]:
    if "\t" in written[: len(written) - len(written.lstrip())]:
        return "a tab in the indentation", "YAML indents with spaces only: put spaces in its place."
    context, problem = getattr(error, "context", None) or "", getattr(error, "problem", None) or ""
    if "single document" in context:
        return "a second document begins here", "One file holds one: take out this `---` and what follows it."
    began = getattr(error, "context_mark", None)
    since = f", begun on line {began.line + 1}" if began and began.line + 1 != line else ""
    where = f" ({context}{since})" if context else ""
    return f"not valid YAML: {problem}{where}", _mend(problem)


def _mend(problem: str) -> str:
    if "mapping values are not allowed" in problem:
        return "A text that holds ': ' needs quotes, and the keys of one mapping need the same indentation."
    if "undefined alias" in problem or "cannot start any token" in problem:
        return "A text that starts with a special character such as * @ % ` needs quotes."
    return "Look for a bracket, a quote or a colon that is missing here or on the line before."
