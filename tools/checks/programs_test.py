"""The checks that ask other programs: clang-format, shellcheck, the compiler."""

import json
import shutil
import unittest

from checks import formatting, headers, shell
from checks.fake_tree import CheckTest


@unittest.skipUnless(shutil.which(formatting.PROGRAM), "clang-format is not installed")
class FormatTest(CheckTest):
    def test_finds_and_mends(self):
        tree = self.tree({".clang-format": "BasedOnStyle: Google\n", "src/a.cc": "int a;\nint  b ;\n", "src/c.cc": "int c;\n"})
        self.assert_finds(formatting.run(tree), ("src/a.cc", 2, "not formatted"))
        formatting.fix(tree)
        self.assert_finds(formatting.run(tree))

    def test_a_tree_without_sources(self):
        self.assert_finds(formatting.run(self.tree({"README.md": ""})))


@unittest.skipUnless(shutil.which("shellcheck"), "shellcheck is not installed")
class ShellTest(CheckTest):
    def test_finds_warnings_and_missing_strict_mode(self):
        tree = self.tree(
            {
                "tools/good": '#!/usr/bin/env bash\nset -euo pipefail\necho "$1"\n',
                "tools/loose": '#!/usr/bin/env bash\necho "$1"\n',
                "tools/warned.sh": "#!/bin/bash\nset -euo pipefail\necho $1\n",
            }
        )
        self.assert_finds(shell.run(tree), ("tools/loose", 1, "set -euo pipefail"), ("tools/warned.sh", 3, "SC2086"))


@unittest.skipUnless(shutil.which("g++"), "g++ is not installed")
class HeadersTest(CheckTest):
    def tree_with_build(self, files):
        commands = [{"directory": "", "command": "ccache g++ -Isrc -DWIDTH=3 -O2 -o x.o -c src/a/x.cc", "file": "src/a/x.cc"}]
        tree = self.tree({**files, "build/release/compile_commands.json": ""})
        commands[0]["directory"] = str(tree.root)
        (tree.root / "build/release/compile_commands.json").write_text(json.dumps(commands))
        return tree

    def test_finds_a_header_that_needs_another(self):
        tree = self.tree_with_build(
            {
                "src/a/good.h": "#pragma once\n#include <vector>\nstatic_assert(WIDTH == 3);\ninline std::vector<int> f() { return {}; }\n",
                "src/a/user.h": '#pragma once\n#include "a/good.h"\ninline int n = f().size();\n',
                "src/a/needy.h": "#pragma once\n\ninline std::vector<int> g() { return {}; }\n",
                "src/a/part-inl.h": "this is no header of its own\n",
            }
        )
        self.assert_finds(headers.run(tree), ("src/a/needy.h", 3, "does not compile alone"))

    def test_names_an_include_that_is_not_there(self):
        tree = self.tree_with_build({"src/b/x.h": '#include "b/none.h"\n'})
        self.assert_finds(headers.run(tree), ("src/b/x.h", 1, "none.h"))

    def test_says_when_there_is_no_build(self):
        self.assert_finds(headers.run(self.tree({"src/a/a.h": ""})), ("src/a/a.h", 1, "not configured"))

    def test_flags_of_a_folder(self):
        commands = [
            {"directory": "/r/build", "command": "g++ -I/r/src -isystem /x -O2 -std=c++20 -c ../src/a/x.cc", "file": "../src/a/x.cc"},
            {"directory": "/r/build", "command": "g++ -I/r/src -DB -c ../src/b/y.cc", "file": "../src/b/y.cc"},
        ]
        flags = headers.flags_by_folder(commands, "/r")
        self.assertEqual(flags["a"], [("-I/r/src",), ("-isystem", "/x"), ("-std=c++20",)])
        self.assertEqual(flags["b"], [("-I/r/src",), ("-DB",)])
        self.assertEqual(len(flags[""]), 4)
