"""Packages: what tools/packages.txt installs is what docs/dependencies.md gives a reason for."""

import re

from checks.cpp_source import line_of
from checks.tree import Violation

NAME = "packages"
HELP = "tools/packages.txt and the tables of docs/dependencies.md name the same Debian packages"

LIST = "tools/packages.txt"
REASONS = "docs/dependencies.md"
_ROW = re.compile(r"^\|[ \t]*((?:`[a-z0-9.+-]+`(?:, )?)+)[ \t]*\|[ \t]*[^|\s]", re.MULTILINE)
_PACKAGE = re.compile(r"^[a-z0-9][a-z0-9.+-]*$", re.MULTILINE)


def run(tree):
    if not (tree.exists(LIST) and tree.exists(REASONS)):
        return [Violation(LIST, 1, f"{LIST} and {REASONS} belong together; one is missing")]
    listed = {match.group(): line_of(tree.text(LIST), match.start()) for match in _PACKAGE.finditer(tree.text(LIST))}
    reasons = {}
    for row in _ROW.finditer(tree.text(REASONS)):
        for name in re.findall(r"`([^`]+)`", row.group(1)):
            reasons[name] = line_of(tree.text(REASONS), row.start())
    violations = [Violation(LIST, line, f"{name} has no row with a reason in {REASONS}") for name, line in listed.items() if name not in reasons]
    violations += [Violation(REASONS, line, f"{name} is not in {LIST}") for name, line in reasons.items() if name not in listed]
    return violations
