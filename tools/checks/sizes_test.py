from checks import sizes
from checks.fake_tree import CheckTest


def body(lines, line):
    return line * lines


class SizesTest(CheckTest):
    def test_seventy_lines_are_fine_and_seventy_one_are_not(self):
        tree = self.tree(
            {
                "src/a.cc": "void ok() {\n" + body(68, "  f();\n") + "}\n",
                "src/b.cc": "namespace x {\nvoid long_one() {\n" + body(69, "  f();\n") + "}\n}\n",
            }
        )
        self.assert_finds(sizes.run(tree), ("src/b.cc", 2, "function of 71 lines"))

    def test_python_and_shell_functions(self):
        tree = self.tree(
            {
                "tools/a.py": "def f():\n" + body(71, "    g()\n"),
                "tools/b": "#!/usr/bin/env python3\nclass A:\n    def f(self):\n" + body(70, "        g()\n"),
                "tools/c": "#!/usr/bin/env bash\nf() {\n" + body(69, "  g\n") + "}\n",
            }
        )
        self.assert_finds(sizes.run(tree), ("tools/a.py", 1, "72 lines"), ("tools/b", 3, "71 lines"), ("tools/c", 2, "71 lines"))

    def test_a_file_of_more_than_a_thousand_lines(self):
        tree = self.tree({"src/a.h": "\n" * 1000, "src/b.h": "\n" * 1001, "tools/c.py": "\n" * 1001, "docs/d.md": "\n" * 5000})
        self.assert_finds(sizes.run(tree), ("src/b.h", 1, "1001 lines"), ("tools/c.py", 1, "1001 lines"))
