"""Just enough reading of C++: text without comments and strings, and where functions begin and end.

This is no parser. It relies on the format that clang-format keeps and on balanced braces, which strings, comments, macros and
the branches of #if cannot disturb because they are blanked first.
"""

import dataclasses
import re

_TOKENS = re.compile(
    r"""
    (?P<comment> //[^\n]* | /\*.*?\*/ )
  | (?P<raw>     \b(?:u8|[uUL])?R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)" )
  | (?P<string>  "(?:[^"\\\n]|\\.)*" )
  | (?P<number>  \b\d(?:'?[\w.])* )
  | (?P<char>    '(?:[^'\\\n]|\\.)+' )
    """,
    re.VERBOSE | re.DOTALL,
)


def _blank(text):
    return re.sub(r"[^\n]", " ", text)


def strip_comments(text):
    """The text with comments blanked; the lines stay where they are."""
    return _TOKENS.sub(lambda match: _blank(match.group()) if match.lastgroup == "comment" else match.group(), text)


def strip(text):
    """The text with comments blanked and the insides of strings and characters too; the lines stay where they are."""

    def replace(match):
        if match.group("number"):
            return match.group()
        if match.group("comment"):
            return _blank(match.group())
        quote = "'" if match.group("char") else '"'
        return quote + _blank(match.group()[1:-1]) + quote

    return _TOKENS.sub(replace, text)


def _blank_preprocessor(stripped):
    """Blanks directives with their continuations, and the #else branches, whose braces would count twice."""
    out = []
    in_directive = False
    skipping = []  # for each open #if: whether its #else branch is being left out
    for line in stripped.split("\n"):
        directive = re.match(r"\s*#\s*(\w+)", line) if not in_directive else None
        word = directive.group(1) if directive else ""
        if word in ("if", "ifdef", "ifndef"):
            skipping.append(False)
        elif word in ("else", "elif") and skipping:
            skipping[-1] = True
        elif word == "endif" and skipping:
            skipping.pop()
        blanked = bool(directive) or in_directive or any(skipping)
        in_directive = (bool(directive) or in_directive) and line.endswith("\\")
        out.append("" if blanked else line)
    return "\n".join(out)


@dataclasses.dataclass(frozen=True)
class Function:
    head: str
    first_line: int
    last_line: int

    @property
    def length(self):
        return self.last_line - self.first_line + 1


_CONTAINER = re.compile(r"^(?:(?:inline|export|extern|static|typedef|constexpr)\s+)*(?:namespace|class|struct|union|enum)\b|^extern\s*\"")
_TEMPLATE_HEAD = re.compile(r"^(?:template\s*<|requires\b|alignas\s*\(|\[\[)")
_ACCESS = re.compile(r"^(?:public|private|protected)\s*:(?!:)\s*")
_INITIALIZER_LIST = re.compile(r"\)\s*(?:noexcept(?:\s*\([^()]*\))?\s*)?:(?!:)")
_FUNCTION_TAIL = re.compile(r"(?:\)|\bconst|\bnoexcept|\boverride|\bfinal|\bmutable|\btry)\s*$|->[^{}]*$")


def _after_template(head):
    """The head without leading template<...>, alignas(...) and attributes, to see whether a class follows."""
    head = head.strip()
    while _TEMPLATE_HEAD.match(head):
        depth = 0
        for index, character in enumerate(head):
            depth += character in "<([" and head[index - 1 : index + 1] != "->"
            depth -= character in ">)]" and head[index - 1 : index + 1] != "->"
            if depth == 0 and character in ">)]":
                break
        head = head[index + 1 :].strip()
    return head


def _kind(head):
    """What the block after the head is: a container to look into, a function, or part of an expression."""
    head = head.strip()
    plain = _after_template(head)
    if not plain or (_CONTAINER.match(plain) and not _FUNCTION_TAIL.search(plain)):
        return "container"
    if "(" not in head or head.endswith(("=", "return", ",")):
        return "expression"
    listed = _INITIALIZER_LIST.search(head)
    if listed and re.search(r"[\w>]\s*$", head) and not _FUNCTION_TAIL.search(head[listed.end() :]):
        return "expression"  # member_{value} of a constructor's initializer list
    return "function"


def functions(text):
    """The functions of a C++ source outside other functions, in order; lambdas and local classes belong to theirs."""
    code = _blank_preprocessor(strip(text))
    found = []
    head_start = 0  # where the current declaration begins
    inside = []  # kinds of the open blocks that are not containers
    parens = 0
    for index, character in enumerate(code):
        if inside:
            if character == "{":
                inside.append("nested")
            elif character == "}":
                kind, start = inside.pop(), head_start
                if kind == "function":
                    found.append(_function(code, start, index))
                    head_start = index + 1
        elif character in "()":
            parens = max(0, parens + (1 if character == "(" else -1))
        elif character == "{" and parens:
            inside.append("expression")
        elif character == "{":
            kind = _kind(_declaration(code, head_start, index))
            if kind == "container":
                head_start = index + 1
            else:
                inside.append(kind)
        elif character in ";}" and not parens:
            head_start = index + 1
    return found


def _declaration(code, start, end):
    head = code[start:end].strip()
    while access := _ACCESS.match(head):
        head = head[access.end() :]
    return head


def _function(code, start, end):
    head = _declaration(code, start, code.index("{", start))
    begin = code.index(head.split(None, 1)[0], start) if head else start
    return Function(" ".join(head.split()), code.count("\n", 0, begin) + 1, code.count("\n", 0, end) + 1)


def line_of(text, index):
    return text.count("\n", 0, index) + 1
