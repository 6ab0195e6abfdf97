"""Switched-off tests: one that is off needs a reason and a date, and fails the check after it."""

import datetime
import re

from checks import cpp_source
from checks.tree import Violation

NAME = "disabled"
HELP = "switched-off tests need '// DISABLED until YYYY-MM-DD: reason', skipped ones a reason; no code under #if 0"

_OFF = re.compile(r"\bDISABLED_\w+")
_REASON = re.compile(r"//\s*DISABLED until (\d{4}-\d\d-\d\d): \S")
_SKIP_WITHOUT_REASON = re.compile(r"\bGTEST_SKIP\(\)\s*;")
_IF_0 = re.compile(r"^[ \t]*#[ \t]*if[ \t]+(?:0|false)\b", re.MULTILINE)


def _problem(lines, line, today):
    """What is wrong with the test that is switched off on this line, or None."""
    reason = _REASON.search("\n".join(lines[max(0, line - 2) : line]))
    if not reason:
        return "a switched-off test needs '// DISABLED until YYYY-MM-DD: reason' on its line or the line before"
    try:
        until = datetime.date.fromisoformat(reason.group(1))
    except ValueError:
        return f"'{reason.group(1)}' is no date"
    if today > until:
        return f"was switched off until {until}; mend it or remove it"
    return None


def run(tree, today=None):
    today = today or datetime.date.today()
    violations = []
    for path in tree.cpp_files():
        text = tree.text(path)
        code = cpp_source.strip(text)
        lines = text.split("\n")
        for match in _OFF.finditer(code):
            line = cpp_source.line_of(code, match.start())
            problem = _problem(lines, line, today)
            if problem:
                violations.append(Violation(path, line, f"{match.group()}: {problem}"))
        for pattern, message in ((_SKIP_WITHOUT_REASON, "GTEST_SKIP() needs a reason: << ..."), (_IF_0, "code that is never built: remove it")):
            violations += [Violation(path, cpp_source.line_of(code, match.start()), message) for match in pattern.finditer(code)]
    return violations
