"""Banned calls: each rule names what, where it is allowed, and what to do instead."""

import dataclasses
import re

from checks import cpp_source
from checks.tree import Violation, is_test

NAME = "banned"
HELP = "calls that a library must not make: printing, exit, clocks, getenv, ..."

# A call by its bare or std:: name, not a member or another function whose name ends alike.
_CALL = r"(?<![\w.:>~])(?:std::|::)?(?:{})\s*\("


@dataclasses.dataclass(frozen=True)
class Rule:
    pattern: re.Pattern
    allowed: tuple  # prefixes of the paths where it is allowed
    allowed_in_tests: bool
    instead: str


RULES = (
    Rule(
        re.compile(_CALL.format(r"v?f?printf|f?puts|putchar|perror|fmt::print") + r"|\bfmt::print\s*\(|\bstd::(?:cout|cerr|clog)\b"),
        ("src/app/", "tools/make-model/", "examples/", "src/base/check.cc"),
        True,
        "libraries never print; return a Result or hand the text to the caller",
    ),
    Rule(
        re.compile(_CALL.format(r"abort|exit|_exit|_Exit|quick_exit|terminate")),
        ("src/app/", "examples/", "src/base/check.cc"),
        True,
        "a bug is QUIRE_CHECK, everything else returns",
    ),
    Rule(
        re.compile(
            r"\b(?:steady_clock|system_clock|high_resolution_clock|sleep_for|sleep_until)\b|"
            + _CALL.format(r"u?sleep|nanosleep|clock_nanosleep|clock_gettime|gettimeofday")
            + r"|(?<![\w.>])(?:std::|::)?time\s*\(\s*(?:nullptr|NULL|0|&)|\bstd::clock\b"
        ),
        ("src/port/",),
        False,
        "time comes from port/, so that tests can turn it",
    ),
    Rule(re.compile(_CALL.format(r"(?:secure_)?getenv|setenv|putenv")), ("src/app/",), True, "the environment is read in app/ only; pass the value"),
    Rule(re.compile(_CALL.format(r"s?rand|rand_r")), (), False, "use a seeded generator"),
    Rule(re.compile(r"\busing\s+namespace\s+std\b"), (), False, "name what you use"),
)


def run(tree):
    violations = []
    for path in tree.cpp_files():
        code = cpp_source.strip(tree.text(path))
        for rule in RULES:
            if path.startswith(rule.allowed) or (rule.allowed_in_tests and is_test(path)):
                continue
            for match in rule.pattern.finditer(code):
                words = " ".join(match.group().strip(" (").split())
                violations.append(Violation(path, cpp_source.line_of(code, match.start()), f"'{words}' is banned here: {rule.instead}"))
    return violations
