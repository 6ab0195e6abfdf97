from checks import links
from checks.fake_tree import CheckTest


class LinksTest(CheckTest):
    def test_links_to_files_folders_and_headings(self):
        tree = self.tree(
            {
                "README.md": "# A b\n[x](docs/x.md) [y](docs/) [z](docs/x.md#two-words-here) [a](#a-b) [w](https://example.org/)\n",
                "docs/x.md": "# One\n## Two `words`, here\n[up](../README.md)\n",
            }
        )
        self.assert_finds(links.run(tree))

    def test_what_leads_nowhere_is_found(self):
        tree = self.tree({"docs/x.md": "# One\n[a](y.md)\n[b](x.md#two)\n[c](#three)\n[d](../../etc/passwd)\n"})
        self.assert_finds(
            links.run(tree),
            ("docs/x.md", 2, "leads nowhere"),
            ("docs/x.md", 3, "names a heading"),
            ("docs/x.md", 4, "names a heading"),
            ("docs/x.md", 5, "out of the repository"),
        )

    def test_code_is_not_read(self):
        self.assert_finds(links.run(self.tree({"x.md": "`[a](b)`\n```sh\n[c](d)\n```\n"})))

    def test_headings_of_the_same_words_are_numbered(self):
        self.assertEqual(links.anchors("# A\n# A\n```\n# no\n```\n"), {"a", "a-1"})
