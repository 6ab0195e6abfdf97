"""inspect, tokenize, bench engine, completion, help and version."""

import json
import os
import re
import subprocess
import unittest

import support

COMMANDS = (("run",), ("inspect",), ("tokenize",), ("score",), ("bench",), ("bench", "engine"), ("completion",))


class InspectTest(unittest.TestCase):
    def check_sums(self, seen):
        self.assertEqual(seen["kv_bytes_per_token"], sum(group["kv_bytes_per_token"] for group in seen["layer_groups"]))
        self.assertEqual(seen["kv_bytes_per_sequence"], sum(group["kv_bytes_per_sequence"] for group in seen["layer_groups"]))
        self.assertEqual(sum(len(group["layers"]) for group in seen["layer_groups"]), seen["layers"])

    def test_a_tiny_model(self):
        model = support.tiny("gemma3")
        seen = json.loads(support.good("inspect", model, "--json").text)
        self.check_sums(seen)
        self.assertEqual((seen["architecture"], seen["context_length"]), ("gemma3", 512))
        self.assertEqual([group["window"] for group in seen["layer_groups"]].count(48), 1)
        self.assertEqual(seen["kv_bytes_per_token"], 6 * 2 * 64 * 2)
        twice = json.loads(support.good("inspect", "-m", model, "--json", "--kv-format", "f32").text)
        self.assertEqual(twice["kv_bytes_per_token"], 2 * seen["kv_bytes_per_token"])
        table = support.good("inspect", model).text
        for word in ("Tiny gemma3", "gemma3", "F32", "weights", "window of 48", "context 512"):
            self.assertIn(word, table)

    @support.needs(support.SMOLLM2)
    def test_smollm2(self):
        seen = json.loads(support.good("inspect", support.SMOLLM2, "--json").text)
        self.check_sums(seen)
        self.assertEqual((seen["architecture"], seen["context_length"]), ("llama", 8192))
        self.assertEqual(seen["kv_bytes_per_token"], 22.5 * 1024)
        self.assertEqual(seen["kv_bytes_per_sequence"], 8192 * 22.5 * 1024)
        self.assertLess(abs(seen["weights_bytes"] / support.SMOLLM2.stat().st_size - 1), 0.05)

    @support.needs(support.GEMMA3)
    def test_gemma3_shows_what_the_window_saves(self):
        seen = json.loads(support.good("inspect", support.GEMMA3, "--json").text)
        self.check_sums(seen)
        self.assertEqual((seen["architecture"], seen["kv_bytes_per_token"]), ("gemma3", 18 * 1024))
        self.assertLess(seen["kv_bytes_per_sequence"], 0.25 * seen["context_length"] * seen["kv_bytes_per_token"])


class TokenizeTest(unittest.TestCase):
    def ids(self, model, text, *flags):
        return json.loads(support.good("tokenize", "-m", model, *flags, stdin=text).text)

    def decoded(self, model, ids, *flags):
        return support.good("tokenize", "-m", model, "--decode", *flags, stdin=json.dumps(ids).encode()).out

    def test_real_vocabularies_on_golden_lines(self):
        models = {"smollm2": support.SMOLLM2, "gemma3": support.GEMMA3}
        lines = (support.ROOT / "src" / "tokenizer" / "testdata" / "tokenize.jsonl").read_text(encoding="utf-8").splitlines()
        golden = [json.loads(line) for line in lines]
        # The tokenizer's own tests go through all of them.
        chosen = [line for number, line in enumerate(golden) if number % 12 == 0 or "ids_with_special" in line]
        checked = 0
        for line in chosen:
            model = models[line["model"]]
            if not model.exists():
                continue
            text = line["text"].encode()
            self.assertEqual(self.ids(model, text), line["ids"], line["text"])
            if "ids_with_special" in line:
                self.assertEqual(self.ids(model, text, "--special"), line["ids_with_special"])
            self.assertEqual(self.decoded(model, line["ids"]), text)
            checked += 1
        if not checked:
            self.skipTest("no real model is there; tools/fetch-models --all fetches them")

    def test_any_bytes_come_back(self):
        texts = (b"", b"a\0b\0", bytes(range(256)), b"\xff\xfe broken \xe2\x82", "\u20ac \U0001f600\n".encode(), b" leading and trailing ")
        for model in (support.tiny("llama"), support.tiny("gemma3")):
            for text in texts:
                self.assertEqual(self.decoded(model, self.ids(model, text)), text)

    def test_special_tokens_and_bos(self):
        model = support.tiny("llama")
        text = b"<|im_start|>a"
        self.assertEqual(self.ids(model, text, "--special")[0], 1)
        self.assertGreater(len(self.ids(model, text)), len(self.ids(model, text, "--special")))
        self.assertEqual(self.ids(model, b"a", "--bos"), [1, *self.ids(model, b"a")])
        self.assertEqual(self.decoded(model, self.ids(model, text, "--special"), "--special"), text)
        self.assertEqual(self.decoded(model, self.ids(model, text, "--special")), b"a")

    def test_a_megabyte_without_a_space(self):
        text = b"x" * (1 << 20)
        self.assertEqual(self.decoded(support.tiny("llama"), self.ids(support.tiny("llama"), text)), text)


class BenchTest(unittest.TestCase):
    FLAGS = ("--prompt", 32, "--new", 8, "--runs", 2)

    def bench(self, *flags):
        return support.good("bench", "engine", "-m", support.tiny("llama"), *self.FLAGS, *flags).text

    def test_one_user_is_an_object(self):
        seen = json.loads(self.bench("--json"))
        for key in ("prefill_tps", "decode_tps", "total_tps", "memory_gbps", "bandwidth_share", "rss_mib"):
            self.assertGreater(seen[key], 0, key)
        self.assertEqual((seen["prompt_tokens"], seen["new_tokens"], seen["users"]), (32, 8, 1))
        self.assertIn("users", self.bench())

    def test_several_users_are_a_list(self):
        seen = json.loads(self.bench("--users", "1,3", "--shared-prefix", 64, "--json"))
        self.assertEqual([s["users"] for s in seen], [1, 3])
        self.assertEqual([s["prompt_tokens"] for s in seen], [96, 288])
        # What all have in common was computed before.
        self.assertEqual([s["reused_tokens"] for s in seen], [64, 192])

    def test_sweep_finds_the_end_of_memory(self):
        seen = json.loads(self.bench("--users", 16, "--sweep", "--json"))
        self.assertIsNone(seen["limit"])
        self.assertEqual([s["users"] for s in seen["sweep"]], [1, 2, 4, 8, 16])
        scarce = json.loads(self.bench("--users", 64, "--sweep", "--kv-memory", "256KiB", "--json"))
        self.assertGreater(scarce["limit"]["request"], 1)


class CompletionTest(unittest.TestCase):
    def complete(self, line):
        """What bash offers at the end of a line."""
        script = 'source <("$1" completion bash); COMP_WORDS=($2); [[ $2 == *" " ]] && COMP_WORDS+=(""); '
        script += 'COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _quire; printf "%s\\n" "${COMPREPLY[@]}"'
        done = subprocess.run(["bash", "-c", script, "-", support.PROGRAM, line], capture_output=True, text=True, check=True, cwd=self.folder)
        return done.stdout.split("\n")[:-1]

    def setUp(self):
        self.folder = support.scratch_folder()
        (self.folder / "my model.gguf").touch()

    def test_bash(self):
        self.assertIn("run", self.complete("quire "))
        self.assertEqual(self.complete("quire to"), ["tokenize"])
        self.assertEqual(self.complete("quire score --te"), ["--text"])
        self.assertEqual(self.complete("quire run --temp"), ["--temperature", "--temp"])
        self.assertEqual(self.complete("quire bench en"), ["engine"])
        self.assertIn("--json", self.complete("quire bench engine --"))
        self.assertIn("my model.gguf", self.complete("quire inspect m"))

    def test_other_shells(self):
        for shell in ("zsh", "fish"):
            self.assertIn("tokenize", support.good("completion", shell).text)


class HelpTest(unittest.TestCase):
    def test_every_command_has_help_with_an_example_and_no_help_on_stderr(self):
        for command in ((), *COMMANDS):
            for flag in ("--help", "-h"):
                ran = support.good(*command, flag)
                self.assertIn("Example: ", ran.text, command)
                self.assertEqual(ran.err, "")

    @support.needs(support.SMOLLM2)
    def test_the_examples_parse(self):
        for command in COMMANDS:
            if command in (("bench",), ("completion",)):
                continue
            example = re.search(r"Example: (?:.*\| )?(quire .*)", support.good(*command, "--help").text).group(1)
            # One unknown flag more: it alone is refused.
            words = f"{example} --no-such-flag".replace("quire ", '"$PROGRAM" ', 1)
            done = subprocess.run(
                ["bash", "-c", words], capture_output=True, text=True, check=False, env={**os.environ, "PROGRAM": support.PROGRAM}, cwd=support.ROOT
            )
            self.assertEqual(done.returncode, 2)
            self.assertIn("--no-such-flag", done.stderr.splitlines()[0], example)

    def test_version(self):
        version = (support.ROOT / "VERSION").read_text().strip()
        self.assertRegex(support.good("--version").text, rf"^quire {re.escape(version)} \(arithmetic \d+, [\w-]+\)\n$")


if __name__ == "__main__":
    unittest.main()
