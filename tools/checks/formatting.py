"""Format: clang-format has the last word on C++."""

import re
import shutil
import subprocess

from checks.tree import Violation

NAME = "format"
HELP = "clang-format-16 would change nothing (--fix format lets it)"

PROGRAM = "clang-format-16"
_ERROR = re.compile(r"^(.+?):(\d+):\d+: error: ", re.MULTILINE)


def _clang_format(tree, *options):
    files = tree.cpp_files()
    if not files:
        return ""
    done = subprocess.run([PROGRAM, *options, "--style=file", *files], cwd=tree.root, capture_output=True, text=True, check=False)
    return done.stderr


def run(tree):
    if not shutil.which(PROGRAM):
        return [Violation(".clang-format", 1, f"{PROGRAM} is missing; tools/install-deps lint installs it")]
    first_of_file = {}
    for match in _ERROR.finditer(_clang_format(tree, "--dry-run", "-Werror")):
        first_of_file.setdefault(match.group(1), int(match.group(2)))
    return [Violation(path, line, "is not formatted; make format does it") for path, line in first_of_file.items()]


def fix(tree):
    _clang_format(tree, "-i")
