"""How near the program is to an exact pass over a text of some 1,400 tokens, in both real models."""

import json
import re
import unittest

import golden
import support

PREFIX = 150  # what the reference kernels take in some seconds; each position depends on those before it alone


class AccuracyTest(unittest.TestCase):
    def setUp(self):
        self.folder = support.scratch_folder()

    def score(self, path, tokens, *flags):
        ids = self.folder / "ids.json"
        ids.write_text(json.dumps(tokens))
        out = self.folder / "scores.jsonl"
        ran = support.good("score", "-m", path, "--ids", ids, "-o", out, *flags)
        rows = golden.read(out)
        self.assertEqual([row["token"] for row in rows], tokens)
        self.assertEqual([row["position"] for row in rows], list(range(len(tokens))))
        self.assertIsNone(rows[-1]["next_logprob"])
        return rows, float(re.search(r"perplexity ([\d.]+)", ran.text).group(1))

    def check_fast_kernels(self, model, path, bound, exact_perplexity):
        rows, perplexity = self.score(path, golden.ids(model), "--top", 64)
        self.assertTrue(all(len(row["top"]) == 64 for row in rows))
        self.assertLessEqual(golden.mean_divergence(golden.rows(model), rows), bound)
        self.assertLess(abs(perplexity / exact_perplexity - 1), 0.02)

    def check_reference_kernels(self, model, path, kv_format, mean_bound, bound):
        rows, _ = self.score(path, golden.ids(model, PREFIX), "--reference", "--kv-format", kv_format)
        differences = golden.differences(golden.rows(model)[:PREFIX], rows)
        self.assertEqual(len(differences), PREFIX - 1)
        self.assertLessEqual(max(differences), bound)
        self.assertLessEqual(sum(differences) / len(differences), mean_bound)

    @support.needs(support.SMOLLM2)
    @support.full_only
    def test_fast_kernels_smollm2(self):
        self.check_fast_kernels("smollm2", support.SMOLLM2, 0.0023, 22.201)

    @support.needs(support.GEMMA3)
    @support.full_only
    def test_fast_kernels_gemma3(self):
        self.check_fast_kernels("gemma3", support.GEMMA3, 0.0037, 20.979)

    @support.needs(support.SMOLLM2)
    @support.full_only
    def test_reference_kernels_smollm2(self):
        self.check_reference_kernels("smollm2", support.SMOLLM2, "f32", 0.0005, 0.002)

    @support.needs(support.GEMMA3)
    @support.full_only
    def test_reference_kernels_gemma3(self):
        self.check_reference_kernels("gemma3", support.GEMMA3, "f32", 0.0005, 0.002)

    @support.needs(support.SMOLLM2)
    @support.full_only
    def test_reference_kernels_with_f16_records(self):
        self.check_reference_kernels("smollm2", support.SMOLLM2, "f16", 0.002, 0.05)

    @support.needs(support.SMOLLM2)
    def test_a_short_text_in_any_build(self):
        rows, _ = self.score(support.SMOLLM2, golden.ids("smollm2", 40), "--top", 64)
        self.assertLessEqual(golden.mean_divergence(golden.rows("smollm2")[:40], rows), 0.005)


class TextTest(unittest.TestCase):
    """--text is --ids of the text's tokens, with bos where the model wants it."""

    def check(self, model, path):
        folder = support.scratch_folder()
        text = golden.TEXT.read_bytes()[:300]
        (folder / "text.txt").write_bytes(text)
        ids = json.loads(support.good("tokenize", "-m", path, stdin=text).text)
        if model == "gemma3":
            ids.insert(0, 2)
        self.assertEqual(ids[:30], golden.ids(model, 30))
        (folder / "ids.json").write_text(json.dumps(ids))
        for kind in ("text", "ids"):
            name = "text.txt" if kind == "text" else "ids.json"
            support.good("score", "-m", path, f"--{kind}", folder / name, "-o", folder / f"{kind}.jsonl")
        self.assertEqual((folder / "text.jsonl").read_bytes(), (folder / "ids.jsonl").read_bytes())

    @support.needs(support.SMOLLM2)
    def test_smollm2_adds_no_bos(self):
        self.check("smollm2", support.SMOLLM2)

    @support.needs(support.GEMMA3)
    def test_gemma3_adds_bos(self):
        self.check("gemma3", support.GEMMA3)


if __name__ == "__main__":
    unittest.main()
