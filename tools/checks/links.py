"""Links of the documentation: the file is there, and so is the heading."""

import posixpath
import re

from checks.cpp_source import line_of
from checks.tree import Violation

NAME = "links"
HELP = "relative links in *.md lead to files and headings that exist"

_FENCE = re.compile(r"^(```|~~~).*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
_HEADING = re.compile(r"^#{1,6}[ \t]+(.*?)[ \t#]*$", re.MULTILINE)


def _blank(match):
    return re.sub(r"[^\n]", " ", match.group())


def anchors(text):
    """The names under which the headings of a Markdown text are linked."""
    found = set()
    for match in _HEADING.finditer(_FENCE.sub(_blank, text)):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match.group(1)).lower()
        name = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        suffix = 0
        while (name if not suffix else f"{name}-{suffix}") in found:
            suffix += 1
        found.add(name if not suffix else f"{name}-{suffix}")
    return found


def _problem(tree, path, target):
    file, _, anchor = target.partition("#")
    resolved = posixpath.normpath(posixpath.join(posixpath.dirname(path), file)) if file else path
    if resolved.startswith(".."):
        return f"the link {target} leads out of the repository"
    if not tree.exists(resolved):
        return f"the link {target} leads nowhere"
    if anchor and resolved.endswith(".md") and anchor not in anchors(tree.text(resolved)):
        return f"the link {target} names a heading that {resolved} does not have"
    return None


def run(tree):
    violations = []
    for path in tree.with_suffix(".md"):
        text = _CODE.sub(_blank, _FENCE.sub(_blank, tree.text(path)))
        for match in _LINK.finditer(text):
            if re.match(r"[a-z][a-z0-9+.-]*:", match.group(1)):
                continue
            problem = _problem(tree, path, match.group(1))
            if problem:
                violations.append(Violation(path, line_of(text, match.start()), problem))
    return violations
