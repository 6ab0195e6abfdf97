"""Tests of run_docs.py itself: which lines are commands, and that a failing one fails."""

import contextlib
import io
import pathlib
import tempfile
import unittest

import run_docs


class CommandsTest(unittest.TestCase):
    def test_only_dollar_lines_of_sh_blocks(self):
        text = "$ no\n```sh\n$ a b\noutput\n$ c \\\n    d\n```\n```\n$ no\n```\n```sh\nmake no\n```\n"
        self.assertEqual(run_docs.commands(text), [(3, "a b"), (5, "c d")])

    def test_what_installs_is_left_out(self):
        for command in ("make run", "make test", 'make run PROMPT="x"', "sudo x", "git clone x", "tools/fetch-models --all"):
            self.assertEqual(run_docs.commands(f"```sh\n$ {command}\n```\n"), [], command)
        for command in ("make", "make help", "tools/check --list", "makeshift"):
            self.assertEqual(len(run_docs.commands(f"```sh\n$ {command}\n```\n")), 1, command)


class RunTest(unittest.TestCase):
    def run_text(self, text):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            file = pathlib.Path(folder) / "x.md"
            file.write_text(text)
            return run_docs.main(["--quire", "/bin/true", str(file)])

    def test_a_failing_command_fails(self):
        self.assertEqual(self.run_text("```sh\n$ build/quire\n$ test -f README.md\n```\n"), 0)
        self.assertEqual(self.run_text("```sh\n$ build/quire\n$ false | true\n```\n"), 1)

    def test_what_is_written_stays_in_the_folder_for_the_next_command(self):
        self.assertEqual(self.run_text("```sh\n$ echo x > out-of-run-docs-test\n$ test -f out-of-run-docs-test\n```\n"), 0)
        self.assertFalse((run_docs.ROOT / "out-of-run-docs-test").exists())

    def test_no_command_at_all_is_no_success(self):
        self.assertEqual(self.run_text("words\n"), 1)


if __name__ == "__main__":
    unittest.main()
