"""Sizes: a function fits on a screen or little more, a file can be read in one go."""

import ast
import re

from checks import cpp_source
from checks.tree import Violation

NAME = "sizes"
HELP = "functions of at most 70 lines (C++, Python, shell), source files of at most 1,000"

FUNCTION_LINES = 70
FILE_LINES = 1000


def _python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


def _shell_functions(text):
    for match in re.finditer(r"^(\w+)\(\) [{(].*?^[})]$", text, re.MULTILINE | re.DOTALL):
        yield match.group(1), cpp_source.line_of(text, match.start()), match.group().count("\n") + 1


def _cpp_functions(text):
    for function in cpp_source.functions(text):
        yield function.head[:80], function.first_line, function.length


def run(tree):
    violations = []
    kinds = ((tree.cpp_files(), _cpp_functions), (tree.scripts("python3"), _python_functions), (tree.scripts("bash"), _shell_functions))
    for paths, functions in kinds:
        for path in paths:
            text = tree.text(path)
            lines = text.count("\n")
            if lines > FILE_LINES:
                violations.append(Violation(path, 1, f"has {lines} lines, more than {FILE_LINES}"))
            for name, line, length in functions(text):
                if length > FUNCTION_LINES:
                    violations.append(Violation(path, line, f"function of {length} lines, more than {FUNCTION_LINES}: {name}"))
    return violations
