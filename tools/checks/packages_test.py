from checks import packages
from checks.fake_tree import CheckTest


class PackagesTest(CheckTest):
    def test_the_lists_must_agree(self):
        tree = self.tree(
            {
                "tools/packages.txt": "# words\n[build]\ncmake\ng++\nninja-build\n",
                "docs/dependencies.md": "| package | why |\n|---|---|\n| `cmake`, `g++` | to build |\n| `extra` | because |\n",
            }
        )
        self.assert_finds(packages.run(tree), ("docs/dependencies.md", 4, "extra is not in"), ("tools/packages.txt", 5, "ninja-build has no row"))

    def test_a_row_without_a_reason_is_none(self):
        tree = self.tree({"tools/packages.txt": "cmake\n", "docs/dependencies.md": "| `cmake` | |\n"})
        self.assertEqual(len(packages.run(tree)), 1)

    def test_both_must_be_there(self):
        self.assertEqual(len(packages.run(self.tree({"tools/packages.txt": "cmake\n"}))), 1)
