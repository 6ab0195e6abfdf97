"""Layer order: a folder of src/ includes its own headers and those of the folders that src/README.md allows it; its tests may also
include what tests/ has for all."""

import pathlib
import re

from checks import cpp_source
from checks.tree import Violation, is_test

NAME = "layers"
HELP = "src/README.md's layer order: a folder includes only folders below it, by full quoted paths"

LIST = "src/README.md"
_BLOCK = re.compile(r"^```layers\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LAYER = re.compile(r"^([a-z0-9_]+):((?: [a-z0-9_]+)*)$")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)


def read_layers(text):
    """The list in src/README.md: (folder -> folders it may include, what is wrong with the list)."""
    block = _BLOCK.search(text)
    if not block:
        return {}, [Violation(LIST, 1, "has no ```layers block")]
    layers, wrong = {}, []
    first = cpp_source.line_of(text, block.start(1))
    for line, words in enumerate(block.group(1).splitlines(), first):
        layer = _LAYER.match(words)
        if not layer:
            wrong.append(Violation(LIST, line, f"'{words}' is not of the form 'folder: folders it may include'"))
            continue
        folder, below = layer.group(1), layer.group(2).split()
        wrong += [Violation(LIST, line, f"{folder} may include only folders listed before it, not {name}") for name in below if name not in layers]
        layers[folder] = set(below)
    return layers, wrong


def _check_include(tree, layers, path, line, included):
    folder = path.split("/")[1]
    target = included.split("/")[0]
    if target == "tests" and is_test(path) and tree.exists(included):
        return None
    if not tree.exists(f"src/{included}"):
        return Violation(path, line, f'"{included}" is no file of src/; write "folder/file.h", or <...> for a header of a library')
    if target != folder and target not in layers[folder]:
        return Violation(path, line, f'{folder} may not include {target} ("{included}"): {LIST} puts it not below')
    return None


def run(tree):
    if not tree.exists(LIST):
        return [Violation(LIST, 1, "is missing: it lists the layers")]
    layers, violations = read_layers(tree.text(LIST))
    unlisted = set()
    for path in tree.cpp_files():
        parts = pathlib.PurePosixPath(path).parts
        if parts[0] != "src":
            continue
        if len(parts) < 3 or parts[1] not in layers:
            if parts[1] not in unlisted:
                violations.append(Violation(path, 1, f"src/{parts[1]} is not in the layer list of {LIST}"))
            unlisted.add(parts[1])
            continue
        text = cpp_source.strip_comments(tree.text(path))
        for match in _INCLUDE.finditer(text):
            violations.append(_check_include(tree, layers, path, cpp_source.line_of(text, match.start()), match.group(1)))
    return [violation for violation in violations if violation]
