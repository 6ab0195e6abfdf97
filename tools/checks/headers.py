"""Self-contained headers: each compiles when it is the first thing that is included."""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess

from checks.tree import Violation

NAME = "headers"
HELP = "each header of src/ compiles alone, with the flags of its folder (needs a configured build; *-inl.h are parts of others)"

DEFAULT_BUILD = "build/release"
_KEPT_WITH_VALUE = {"-I", "-isystem", "-D", "-include"}
_ERROR = re.compile(r"^(?:\S+/)?(src/\S+?):(\d+):\d+: (?:fatal )?error: (.*)$", re.MULTILINE)


def flags_by_folder(commands, root):
    """From compile_commands.json: folder of src/ -> flags that matter for reading headers; '' -> those of all folders together."""
    found = {"": {}}
    for command in commands:
        words = shlex.split(command["command"])
        file = os.path.relpath(os.path.join(command["directory"], command["file"]), root)
        parts = pathlib.PurePosixPath(file).parts
        folder = parts[1] if len(parts) > 2 and parts[0] == "src" else ""
        for flag in _header_flags(words):
            found.setdefault(folder, {})[flag] = None
            found[""][flag] = None
    return {folder: list(flags) for folder, flags in found.items()}


def _header_flags(words):
    """Include paths, definitions and the standard, each as a tuple of words."""
    position = 0
    while position < len(words):
        word = words[position]
        if word in _KEPT_WITH_VALUE:
            yield (word, words[position + 1])
            position += 1
        elif word.startswith(("-I", "-isystem", "-D", "-std=", "-m", "-f")):
            yield (word,)
        position += 1


def _compiler(commands):
    """The C++ compiler of the build, without a launcher before it."""
    words = shlex.split(commands[0]["command"])
    return next(word for word in words if not word.endswith("ccache"))


def _compile(tree, compiler, header, flags, objects):
    """Compiles the header alone. ccache, where it is there, makes the next time quick."""
    launcher = ["ccache"] if shutil.which("ccache") else []
    name = hashlib.sha256(header.encode()).hexdigest()[:16]
    command = [*launcher, compiler, "-O0", *(word for flag in flags for word in flag), "-include", header]
    command += ["-x", "c++", "-c", str(objects / "empty.cc"), "-o", str(objects / f"{name}.o")]
    environment = {**os.environ, "CCACHE_BASEDIR": str(tree.root), "CCACHE_NOHASHDIR": "1", "LC_ALL": "C"}
    done = subprocess.run(command, cwd=tree.root, env=environment, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    error = _ERROR.search(done.stderr)
    if error and error.group(1) == header:
        return Violation(header, int(error.group(2)), f"does not compile alone: {error.group(3)}")
    lines = [line for line in done.stderr.splitlines() if "error:" in line] or done.stderr.splitlines() or ["no words"]
    return Violation(header, 1, f"does not compile alone: {lines[0]}")


def run(tree, build=DEFAULT_BUILD):
    headers = [path for path in tree.with_suffix(".h") if path.startswith("src/") and not path.endswith("-inl.h")]
    if not headers:
        return []
    try:
        commands = json.loads((tree.root / build / "compile_commands.json").read_text())
    except (OSError, ValueError):
        return [Violation(headers[0], 1, f"{build} is not configured, so its flags are unknown; make build does it")]
    flags = flags_by_folder(commands, tree.root)
    objects = tree.root / build / "header-check"
    objects.mkdir(parents=True, exist_ok=True)
    (objects / "empty.cc").write_text("")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [
            pool.submit(_compile, tree, _compiler(commands), header, flags.get(header.split("/")[1], flags[""]), objects)
            for header in headers
        ]
        return [violation for violation in (job.result() for job in jobs) if violation]
