"""A small source tree of its own for the tests of the checks."""

import pathlib
import tempfile
import unittest

from checks.tree import Tree


class CheckTest(unittest.TestCase):
    """Gives each test a fake tree: tree({path: text}) writes the files and returns it."""

    def tree(self, files):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for path, text in files.items():
            target = pathlib.Path(folder.name) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        return Tree(folder.name)

    def assert_finds(self, violations, *expected):
        """The violations are at these places: (path, line, part of the message)."""
        found = sorted(violations)
        self.assertEqual([(v.path, v.line) for v in found], [(path, line) for path, line, _ in expected], found)
        for violation, (_, _, part) in zip(found, expected):
            self.assertIn(part, violation.message)
