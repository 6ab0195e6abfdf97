"""Shell scripts: strict mode, and nothing that shellcheck warns about."""

import re
import shutil
import subprocess

from checks.tree import Violation

NAME = "shell"
HELP = "shell scripts set -euo pipefail and pass shellcheck"

_FINDING = re.compile(r"^(.+?):(\d+):\d+: (.*)$", re.MULTILINE)


def run(tree):
    scripts = tree.scripts("bash")
    violations = [Violation(path, 1, "lacks 'set -euo pipefail'") for path in scripts if "\nset -euo pipefail\n" not in tree.text(path)]
    if not scripts:
        return violations
    if not shutil.which("shellcheck"):
        return violations + [Violation(scripts[0], 1, "shellcheck is missing; tools/install-deps lint installs it")]
    done = subprocess.run(["shellcheck", "--format=gcc", *scripts], cwd=tree.root, capture_output=True, text=True, check=False)
    return violations + [Violation(match.group(1), int(match.group(2)), match.group(3)) for match in _FINDING.finditer(done.stdout)]
