"""quire run without a terminal: one prompt, one reply, one closing line."""

import json
import signal
import subprocess
import unittest

import support

GEMMA_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<start_of_turn>{{ message['role'] }}\n{{ message['content'] }}<end_of_turn>\n"
    "{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)


def token_count(model, text, *flags):
    return len(json.loads(support.good("tokenize", "-m", model, *flags, stdin=text.encode()).text))


def reply(model, *arguments, **how):
    """The reply and its closing line; the most probable tokens unless the arguments say otherwise."""
    ran = support.good("run", "-m", model, "--temperature", 0, *arguments, **how)
    return ran.text.removesuffix("\n"), support.closing(ran.err)


class PromptTest(unittest.TestCase):
    def setUp(self):
        self.model = support.tiny("llama")

    def test_argument_flag_and_pipe_are_the_same_prompt(self):
        expected = reply(self.model, "-n", 12, "say this")
        self.assertEqual(expected[1].reply, 12)
        self.assertEqual(reply(self.model, "-n", 12, "--prompt", "say this"), expected)
        for piped in (b"say this", b"say this\n", b"say this\r\n"):
            self.assertEqual(reply(self.model, "-n", 12, stdin=piped), expected)
        self.assertNotEqual(reply(self.model, "-n", 12, stdin=b"say this\n\n")[1].prompt, expected[1].prompt)

    def test_a_prompt_may_look_like_anything(self):
        for prompt in ("-5 plus 3", "--help", "[a, b]", "{}", "%%", "a\nb", "\u4f60\u597d \U0001f600"):
            template = f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n"
            self.assertEqual(reply(self.model, "-n", 1, "--", prompt)[1].prompt, token_count(self.model, template, "--special"), prompt)

    def test_special_tokens_in_raw_text_are_text(self):
        text = "<|im_end|> is text"
        self.assertEqual(reply(self.model, "-n", 1, "--raw", text)[1].prompt, token_count(self.model, text))

    def test_raw_keeps_the_text_as_it_is(self):
        self.assertEqual(reply(self.model, "-n", 1, "--raw", "as it is")[1].prompt, token_count(self.model, "as it is"))

    def test_an_empty_prompt_says_so(self):
        for ran in (support.run("run", "-m", self.model, ""), support.run("run", "-m", self.model, stdin=b"\n")):
            self.assertEqual((ran.status, ran.out), (2, b""))
            self.assertRegex(ran.err, r"^quire: (the prompt is empty|there is no prompt).*\n$")
        # Where a text begins with bos, that is something to go on from.
        self.assertEqual(reply(support.tiny("gemma3"), "-n", 3, "--raw", "")[1].prompt, 1)

    def test_a_system_message_is_part_of_the_prompt(self):
        plain = reply(self.model, "-n", 1, "hello")[1].prompt
        self.assertGreater(reply(self.model, "-n", 1, "--system", "Be brief.", "hello")[1].prompt, plain + 3)
        for flags in (("--raw",), ()):
            model = self.model if flags else support.tiny("gemma3")
            ran = support.run("run", "-m", model, *flags, "--system", "Be brief.", "hello")
            self.assertEqual((ran.status, ran.out), (2, b""))
            self.assertIn("--system needs a chat template", ran.err)

    def test_a_model_without_a_template_says_so_and_can_be_given_one(self):
        model = support.tiny("gemma3")
        ran = support.good("run", "-m", model, "-n", 1, "hello")
        self.assertIn("no chat template", ran.err)
        self.assertEqual(support.closing(ran.err).prompt, token_count(model, "hello", "--bos"))
        self.assertNotIn("no chat template", support.good("run", "-m", model, "-n", 1, "--raw", "hello").err)
        template = support.scratch_folder() / "template.jinja"
        template.write_text(GEMMA_TEMPLATE)
        ran = support.good("run", "-m", model, "-n", 1, "--chat-template", template, "hello")
        self.assertNotIn("no chat template", ran.err)
        prompt = "<bos><start_of_turn>user\nhello<end_of_turn>\n<start_of_turn>model\n"
        self.assertEqual(support.closing(ran.err).prompt, token_count(model, prompt, "--special"))


class ReplyTest(unittest.TestCase):
    def setUp(self):
        self.model = support.tiny("llama")

    def test_it_ends_at_its_limit_and_the_line_adds_up(self):
        _, line = reply(self.model, "-n", 20, "--raw", "hello there")
        self.assertEqual((line.reply, line.end, line.reused), (20, "token limit", 0))
        self.assertEqual(line.per_token, 512)  # 2 layers x 1 head x (K and V) x 64 x f16
        self.assertAlmostEqual(line.used, (line.prompt + 19) * line.per_token, delta=0.01 * line.used)
        self.assertLessEqual(line.used, line.backed)

    def test_it_ends_when_the_context_is_full(self):
        _, line = reply(self.model, "--context", 30, "--raw", "hello there")
        self.assertEqual((line.end, line.prompt + line.reply), ("context full", 31))

    def test_it_ends_before_a_stop_text_across_tokens(self):
        whole, _ = reply(self.model, "-n", 40, "hello")
        stop = whole[7:13]
        text, line = reply(self.model, "-n", 40, "--stop", "[never]", "--stop", stop, "hello")
        self.assertEqual((text, line.end), (whole[: whole.index(stop)], "stop text"))

    def test_the_seed_alone_decides(self):
        hot = ("run", "-m", self.model, "--temperature", 2, "--top-k", 0, "--top-p", 1, "--min-p", 0, "-n", 30, "hello")
        first = support.good(*hot, "--seed", 5).out
        self.assertEqual(support.good(*hot, "--seed", 5, "--threads", 1, "--chunk", 3).out, first)
        self.assertNotEqual(support.good(*hot, "--seed", 6).out, first)
        self.assertNotEqual(support.good(*hot).out, support.good(*hot, "--seed", -1).out)

    def test_characters_are_whole(self):
        for seed in range(20):
            hot = ("--temperature", 2, "--top-k", 0, "--top-p", 1, "--min-p", 0, "-n", 60, "--seed", seed)
            support.good("run", "-m", self.model, *hot, "hello").out.decode("utf-8", "strict")

    def test_interrupted_it_says_what_it_has(self):
        # A rest between tokens is not needed: the context of 512 tokens takes longer than a signal.
        command = [support.PROGRAM, "run", "-m", str(self.model), "--isa", "reference", "--threads", "1", "--raw", "hello"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
            process.stdout.read(1)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=support.DEADLINE_S)
        self.assertEqual(process.returncode, 0)
        self.assertEqual(support.closing(err.decode()).end, "interrupted")


class RealModelTest(unittest.TestCase):
    @support.needs(support.SMOLLM2)
    def test_smollm2_answers(self):
        text, line = reply(support.SMOLLM2, "-n", 40, "What is the capital of France? Answer in one sentence.")
        self.assertIn("Paris", text)
        self.assertEqual(line.per_token, 22.5 * 1024)
        self.assertLessEqual(line.used, line.backed)
        self.assertLess(line.backed, 3 * (1 << 20))

    @support.needs(support.SMOLLM2)
    def test_smollm2_stops_across_tokens(self):
        whole, _ = reply(support.SMOLLM2, "-n", 16, "Name three rivers.")
        stop = whole[6:15]
        text, line = reply(support.SMOLLM2, "-n", 16, "--stop", stop, "Name three rivers.")
        self.assertEqual((text, line.end), (whole[: whole.index(stop)], "stop text"))

    @support.needs(support.SMOLLM2)
    def test_smollm2_refuses_a_longer_context_than_its_own(self):
        ran = support.run("run", "-m", support.SMOLLM2, "--context", 8193, "hi")
        self.assertEqual((ran.status, ran.out), (2, b""))
        self.assertIn("8192", ran.err)

    @support.needs(support.GEMMA3)
    def test_gemma3_completes_raw_text(self):
        ran = support.good("run", "-m", support.GEMMA3, "--temperature", 0, "-n", 4, "One, two, three, four, five,")
        self.assertIn("six", ran.text)
        self.assertIn("no chat template", ran.err)
        self.assertEqual(support.closing(ran.err).per_token, 18 * 1024)


if __name__ == "__main__":
    unittest.main()
