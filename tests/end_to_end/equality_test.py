"""The same tokens have the same scores to the byte: in any chunks, on any number of threads, in every set of one arithmetic."""

import json
import unittest

import golden
import support

# The sets whose arithmetic is fused: equal to each other. The portable and the reference sets have an order of their own.
FUSED = ("avx2", "avx512", "avx512-vnni")

# Each chunk and each number of threads at least once.
WAYS = ((512, 1), (1, 2), (7, 8), (32, 2))
FEW_WAYS = ((512, 2), (7, 1), (32, 8))


class EqualityTest(unittest.TestCase):
    def setUp(self):
        self.folder = support.scratch_folder()

    def scores(self, model, tokens, chunk, threads, *flags, environment=None):
        ids = self.folder / "ids.json"
        ids.write_text(json.dumps(tokens))
        out = self.folder / "scores.jsonl"
        how = ("--chunk", chunk, "--threads", threads, *flags)
        support.good("score", "-m", model, "--ids", ids, "-o", out, "--top", 3, *how, environment=environment)
        return out.read_bytes()

    def check(self, model, tokens, isa, ways):
        first = self.scores(model, tokens, *ways[0], "--isa", isa)
        self.assertEqual(first.count(b"\n"), len(tokens))
        for chunk, threads in ways[1:]:
            self.assertEqual(self.scores(model, tokens, chunk, threads, "--isa", isa), first, f"{isa}, chunk {chunk}, {threads} threads")
        return first

    def check_sets(self, model, tokens, few_tokens):
        by_set = {}
        for isa in support.instruction_sets():
            fused = isa in FUSED
            by_set[isa] = self.check(model, tokens if fused else few_tokens, isa, WAYS if fused else FEW_WAYS)
        fused = [scores for isa, scores in by_set.items() if isa in FUSED]
        self.assertEqual(len(set(fused)), min(1, len(fused)), "sets with fused arithmetic differ")
        if fused:
            self.assertNotEqual(by_set["reference"], fused[0])

    def test_tiny_llama(self):
        tokens = [3 + i * 7 % 250 for i in range(200)]
        self.check_sets(support.tiny("llama"), tokens, tokens)

    def test_tiny_gemma3_with_a_window(self):
        tokens = [6 + i * 7 % 250 for i in range(200)]
        self.check_sets(support.tiny("gemma3"), tokens, tokens)

    @support.needs(support.SMOLLM2)
    @support.full_only
    def test_smollm2(self):
        self.check_sets(support.SMOLLM2, golden.ids("smollm2", 140), golden.ids("smollm2", 34))

    @support.needs(support.GEMMA3)
    @support.full_only
    def test_gemma3_with_the_fastest_set(self):
        self.check(support.GEMMA3, golden.ids("gemma3", 140), support.instruction_sets()[-1], WAYS)

    @support.needs(support.GEMMA3)
    @support.full_only
    def test_gemma3_beyond_its_window(self):
        tokens = golden.ids("gemma3", 700)
        self.check(support.GEMMA3, tokens, support.instruction_sets()[-1], ((512, 2), (100, 1)))

    def test_the_environment_chooses_a_set_as_the_flag_does(self):
        tokens = [3 + i for i in range(40)]
        model = support.tiny("llama")
        for isa in support.instruction_sets():
            by_flag = self.scores(model, tokens, 512, 2, "--isa", isa)
            self.assertEqual(self.scores(model, tokens, 512, 2, environment={"QUIRE_ISA": isa}), by_flag, isa)
        reference = self.scores(model, tokens, 512, 2, "--reference")
        self.assertEqual(self.scores(model, tokens, 512, 2, environment={"QUIRE_ISA": "reference"}), reference)


if __name__ == "__main__":
    unittest.main()
