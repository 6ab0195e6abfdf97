"""The files that the checks look at, and what a check says about them."""

import dataclasses
import functools
import pathlib

# Folders that hold nothing of ours to check: what was built, fetched or belongs to git.
SKIPPED = {".git", ".cache", "build", "models", "__pycache__"}

CPP_SUFFIXES = {".h", ".cc"}


@dataclasses.dataclass(frozen=True, order=True)
class Violation:
    path: str
    line: int
    message: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.message}"


class Tree:
    """A source tree. Paths are strings relative to its root, with forward slashes."""

    def __init__(self, root):
        self.root = pathlib.Path(root)

    @functools.cached_property
    def files(self):
        """All files below the root, sorted; links are not followed."""
        found = []
        pending = [self.root]
        while pending:
            for entry in pending.pop().iterdir():
                if entry.is_symlink() or entry.name in SKIPPED:
                    continue
                if entry.is_dir():
                    pending.append(entry)
                else:
                    found.append(entry.relative_to(self.root).as_posix())
        return sorted(found)

    def cpp_files(self):
        return [path for path in self.files if pathlib.PurePosixPath(path).suffix in CPP_SUFFIXES]

    def with_suffix(self, suffix):
        return [path for path in self.files if path.endswith(suffix)]

    @functools.cache
    def text(self, path):
        return (self.root / path).read_text(encoding="utf-8", errors="replace")

    @functools.cache
    def first_line(self, path):
        with open(self.root / path, "rb") as file:
            return file.readline(200).decode("utf-8", "replace")

    def exists(self, path):
        return (self.root / path).exists()

    def scripts(self, interpreter):
        """Files whose first line names the interpreter, or whose suffix says the same."""
        suffix = {"python3": ".py", "bash": ".sh"}[interpreter]
        return [
            path
            for path in self.files
            if path.endswith(suffix) or (self.first_line(path).startswith("#!") and interpreter in self.first_line(path))
        ]


def is_test(path):
    """Whether a C++ file is built only into tests, fuzz targets or benchmarks."""
    stem = pathlib.PurePosixPath(path).stem
    return stem.endswith(("_test", "_fuzz", "_bench")) or path.startswith(("tests/", "bench/"))
