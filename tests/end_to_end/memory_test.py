"""What the program takes: the weights once, keys and values for the tokens there are; and what it does where that is not to be had."""

import json
import os
import subprocess
import tempfile
import time
import unittest

import golden
import support

MIB = 1 << 20


def peak_of(*arguments):
    """Runs the program; its largest resident size and what it said on stderr."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen([support.PROGRAM, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        err.seek(0)
        said = err.read().decode()
    if process.returncode != 0:
        raise AssertionError(f"status {process.returncode}: {said}")
    return usage.ru_maxrss * 1024, said


def inspected(model):
    return json.loads(support.good("inspect", model, "--json").text)


class ResidentTest(unittest.TestCase):
    @support.needs(support.SMOLLM2)
    @support.full_only
    def test_weights_once_and_little_else(self):
        seen = inspected(support.SMOLLM2)
        peak, said = peak_of("run", "-m", support.SMOLLM2, "--temperature", 0, "-n", 16, "Name three rivers.")
        # The file's pages are given back as it is packed; the vocabulary, the program and one tensor of the file come on top.
        self.assertLess(peak, seen["weights_bytes"] + 120 * MIB)
        line = support.closing(said)
        self.assertLess(line.backed, (line.prompt + line.reply + 32) * line.per_token)
        self.assertLess(line.backed, 0.02 * seen["kv_bytes_per_sequence"])

    @support.needs(support.SMOLLM2)
    @support.full_only
    def test_scoring_takes_no_more_than_its_tokens(self):
        ids = support.scratch_folder() / "ids.json"
        ids.write_text(json.dumps(golden.ids("smollm2")))
        peak, _ = peak_of("score", "-m", support.SMOLLM2, "--ids", ids)
        seen = inspected(support.SMOLLM2)
        self.assertLess(peak, seen["weights_bytes"] + 1472 * seen["kv_bytes_per_token"] + 120 * MIB)

    @support.needs(support.GEMMA3)
    @support.full_only
    def test_a_long_prompt_shows_the_window(self):
        seen = inspected(support.GEMMA3)
        text = golden.TEXT.read_bytes() * 15
        ran = support.good("run", "-m", support.GEMMA3, "--raw", "-n", 1, stdin=text)
        line = support.closing(ran.err)
        self.assertGreater(line.prompt, 20000)
        full, windowed = sorted(seen["layer_groups"], key=lambda group: group["window"] or 0)
        self.assertIsNone(full["window"])
        # What a layer of full attention takes for these tokens, and the window with the tiles that it cuts.
        expected = line.prompt * full["kv_bytes_per_token"] + (windowed["window"] + 64) * windowed["kv_bytes_per_token"]
        self.assertLess(line.backed, 1.02 * expected)
        self.assertLess(line.backed, 0.25 * line.prompt * line.per_token)

    def test_a_window_of_a_tiny_model(self):
        line = support.closing(support.good("run", "-m", support.tiny("gemma3"), "--raw", "-n", 1, "x" * 480).err)
        self.assertEqual(line.prompt, 481)
        self.assertLess(line.backed, 0.5 * line.prompt * line.per_token)

    @support.needs(support.SMOLLM2)
    def test_the_first_token_is_timed(self):
        """Measured, not judged: machines and their loads differ."""
        start = time.monotonic()
        command = [support.PROGRAM, "run", "-m", str(support.SMOLLM2), "-n", "1", "hi"]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            self.assertTrue(process.stdout.read(1))
            print(f"first byte of a reply after {time.monotonic() - start:.2f} s", flush=True)
            process.communicate(timeout=support.DEADLINE_S)


class ControlGroupTest(unittest.TestCase):
    """Where the kernel would kill: a memory control group."""

    def setUp(self):
        self.group = support.ControlGroup(self)

    def run_within(self, mebibytes, *arguments):
        self.group.limit(mebibytes * MIB)
        return support.run(*arguments, preexec=self.group.enter)

    def check_refusal(self, ran, mebibytes):
        self.assertEqual((ran.status, ran.out), (1, b""), f"{mebibytes} MiB: {ran.err}")
        self.assertRegex(ran.err, r"^quire: .* (take|needs) .* (close other programs|shorten|choose).*\n$")

    @support.needs(support.SMOLLM2)
    @support.full_only
    def test_it_refuses_or_ends_a_reply_and_is_never_killed(self):
        prompt = ("run", "-m", support.SMOLLM2, "--temperature", 0)
        self.check_refusal(self.run_within(40, *prompt, "-n", 2, "hi"), 40)
        weights = inspected(support.SMOLLM2)["weights_bytes"] // MIB
        for mebibytes in range(weights, weights + 100, 2):
            ran = self.run_within(mebibytes, *prompt, "-n", 2, "hi")
            if ran.status == 0:
                break
            self.check_refusal(ran, mebibytes)
        self.assertEqual(ran.status, 0, ran.err)
        # Enough for a short reply: a long one ends where memory does.
        ran = self.run_within(mebibytes + 3, *prompt, "Write a very long story about a dog.")
        self.assertEqual((ran.status, support.closing(ran.err).end), (0, "out of memory"), ran.err)
        self.assertGreater(len(ran.text), 20)


if __name__ == "__main__":
    unittest.main()
