#!/usr/bin/env python3
"""Runs the commands that the documentation shows: run_docs.py --quire PROGRAM [FILE.md...].

In a block fenced as ```sh a line that begins with "$ " is a command that a reader may type in the repository's root, and it is run
here, the commands of a file one after the other. A line that ends with a backslash goes on in the next one; other lines show
what is printed and are not compared. Commands that install, build or fetch (INSTALLING) are left out.

Each file's commands run in a folder of their own that looks like the repository's root: its entries are links, build/quire is the
program under test, and what a command writes stays there. Exit status: 0 passed, 1 failed, 77 no model is there.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
INSTALLING = re.compile(r"^(?:make\b(?! *(?:$|help\b))|sudo |apt-get |git clone|cd |tools/(?:install-deps|build|run-tests|fuzz|fetch-models)\b)")
SKIPPED_STATUS = 77
DEADLINE_S = 300

_BLOCK = re.compile(r"^```sh[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)


def commands(text):
    """The commands of a Markdown text that are to be run: (line number, command)."""
    found = []
    for block in _BLOCK.finditer(text):
        first = text.count("\n", 0, block.start(1)) + 1
        lines = block.group(1).split("\n")
        for offset, line in enumerate(lines):
            if not line.startswith("$ "):
                continue
            command = line[2:]
            following = offset + 1
            while command.endswith("\\") and following < len(lines):
                command = command[:-1] + lines[following].strip()
                following += 1
            if not INSTALLING.match(command):
                found.append((first + offset, command))
    return found


def lay_out(folder, quire):
    """Makes the folder look like the repository's root, with the program under test as build/quire."""
    for entry in ROOT.iterdir():
        if entry.name not in ("build", ".git"):
            (folder / entry.name).symlink_to(entry)
    (folder / "build").mkdir()
    (folder / "build" / "quire").symlink_to(pathlib.Path(quire).resolve())


def run_file(file, quire):
    """Runs the commands of one file; how many there were and how many failed."""
    failed = 0
    todo = commands(file.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        lay_out(pathlib.Path(folder), quire)
        for line, command in todo:
            start = time.monotonic()
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", command], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=DEADLINE_S, check=False
            )
            state = "ok" if done.returncode == 0 else f"exit status {done.returncode}"
            print(f"{file.name}:{line}: {command}: {state} ({time.monotonic() - start:.1f} s)", flush=True)
            if done.returncode != 0:
                failed += 1
                print((done.stdout + done.stderr).decode("utf-8", "replace"), flush=True)
    return len(todo), failed


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quire", required=True, help="the program under test")
    parser.add_argument("files", nargs="*", type=pathlib.Path, help="README.md and docs/*.md by default")
    options = parser.parse_args(arguments)
    files = options.files or [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    if any("models/" in command for file in files for _, command in commands(file.read_text(encoding="utf-8"))):
        if not list((ROOT / "models").glob("*.gguf")):
            print("skipped: no model is there; tools/fetch-models fetches it")
            return SKIPPED_STATUS
    counts = [run_file(file, options.quire) for file in files]
    total, failed = (sum(column) for column in zip(*counts))
    print(f"commands of the documentation: {total - failed} passed, {failed} failed")
    return 1 if failed or not total else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
