from checks import layers
from checks.fake_tree import CheckTest

LIST = "# Layers\n```layers\nbase:\nport: base\nkv: port base\n```\n"


class LayersTest(CheckTest):
    def files(self, **more):
        return {"src/README.md": LIST, "src/base/a.h": "", "src/port/b.h": '#include "base/a.h"\n', **more}

    def test_downward_and_own_includes_are_fine(self):
        tree = self.tree({**self.files(), "src/port/c.cc": '#include "port/b.h"\n#include <vector>\n#include "base/a.h"\n'})
        self.assert_finds(layers.run(tree))

    def test_an_upward_include_is_found(self):
        tree = self.tree({**self.files(), "src/base/x.cc": '#include <map>\n#include "port/b.h"\n'})
        self.assert_finds(layers.run(tree), ("src/base/x.cc", 2, "base may not include port"))

    def test_an_include_in_a_comment_is_none(self):
        self.assert_finds(layers.run(self.tree({**self.files(), "src/base/x.cc": '// #include "port/b.h"\n'})))

    def test_an_include_relative_to_the_folder_is_found(self):
        tree = self.tree({**self.files(), "src/port/x.cc": '#include "b.h"\n'})
        self.assert_finds(layers.run(tree), ("src/port/x.cc", 1, "is no file of src/"))

    def test_tests_may_include_what_tests_has_for_all(self):
        line = '#include "tests/support/s.h"\n'
        tree = self.tree({**self.files(), "tests/support/s.h": "", "src/port/x_test.cc": line, "src/port/y.cc": line})
        self.assert_finds(layers.run(tree), ("src/port/y.cc", 1, "is no file of src/"))

    def test_a_folder_that_is_not_listed_is_found_once(self):
        tree = self.tree({**self.files(), "src/misc/x.cc": "", "src/misc/y.cc": ""})
        self.assert_finds(layers.run(tree), ("src/misc/x.cc", 1, "src/misc is not in the layer list"))

    def test_a_list_that_is_out_of_order_is_found(self):
        tree = self.tree({"src/README.md": "```layers\nbase: port\nport: base\n```\n"})
        self.assert_finds(layers.run(tree), ("src/README.md", 2, "only folders listed before it"))

    def test_a_list_that_is_missing_is_found(self):
        self.assert_finds(layers.run(self.tree({"src/base/a.h": ""})), ("src/README.md", 1, "is missing"))
        self.assert_finds(layers.run(self.tree({"src/README.md": "words"})), ("src/README.md", 1, "no ```layers block"))
