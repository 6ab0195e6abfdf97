"""quire run at a terminal: turns, history, Ctrl-C, Ctrl-D, /clear."""

import subprocess
import unittest

import support
from terminal import ARROW_UP, CTRL_C, CTRL_D, Terminal

PROMPT = "\n> "  # before it is shown, the terminal is not the editor's: keys pressed earlier may get lost


class ChatTest(unittest.TestCase):
    def setUp(self):
        self.model = support.tiny("llama")

    def chat(self, *flags, **how):
        return Terminal("run", "-m", self.model, "--temperature", 0, "-n", 10, *flags, **how)

    def ask(self, terminal, text):
        """Types a line at the prompt; the closing line of its reply."""
        terminal.press(text + "\n")
        line = support.closing(terminal.wait_for(" a token]"))
        terminal.wait_for(PROMPT)
        return line

    def test_a_second_turn_uses_the_first_ones_tokens_again(self):
        with self.chat() as terminal:
            self.assertIn("Ctrl-D", terminal.wait_for(PROMPT))
            first = self.ask(terminal, "hello")
            second = self.ask(terminal, "and again")
            self.assertEqual(first.reused, 0)
            self.assertGreaterEqual(second.reused, first.prompt)
            self.assertGreater(second.prompt, second.reused)
            terminal.press(CTRL_D)
            self.assertEqual(terminal.end(), 0)

    def test_clear_begins_anew(self):
        with self.chat() as terminal:
            terminal.wait_for(PROMPT)
            first = self.ask(terminal, "hello")
            self.ask(terminal, "more")
            terminal.press("/clear\n")
            terminal.wait_for("begins anew.\r\n")
            self.assertEqual(self.ask(terminal, "hello"), first)
            terminal.press("/exit\n")
            self.assertEqual(terminal.end(), 0)

    def test_arrow_up_brings_earlier_lines_back(self):
        # The lines have no letter in common, so that the editor draws the whole of the earlier one.
        with self.chat() as terminal:
            terminal.wait_for(PROMPT)
            self.ask(terminal, "abc")
            self.ask(terminal, "0123")
            terminal.press(ARROW_UP)
            terminal.wait_for("0123")
            terminal.press(ARROW_UP)
            terminal.wait_for("abc")
            terminal.press("\n")
            terminal.wait_for(" a token]")
            terminal.wait_for(PROMPT)
            terminal.press(CTRL_D)
            self.assertEqual(terminal.end(), 0)

    def test_control_c_drops_the_line_that_is_being_written(self):
        with self.chat() as terminal:
            terminal.wait_for(PROMPT)
            fresh = self.ask(terminal, "hello")
            terminal.press("/clear\n")
            terminal.wait_for(PROMPT)
            terminal.press("dropped")
            terminal.wait_for("dropped")
            terminal.press(CTRL_C)
            terminal.wait_for(PROMPT)
            self.assertEqual(self.ask(terminal, "hello").prompt, fresh.prompt)
            terminal.press(CTRL_D)
            self.assertEqual(terminal.end(), 0)

    def test_empty_lines_are_no_questions_and_a_full_context_no_end(self):
        with self.chat("--context", 60) as terminal:
            terminal.wait_for(PROMPT)
            terminal.press("\n")
            terminal.wait_for(PROMPT)
            self.ask(terminal, "hi")
            terminal.press("far too long a question for what is left of this small context, and then some\n")
            self.assertIn("begin anew with /clear or raise --context", terminal.wait_for("--context"))
            terminal.press("/clear\n")
            terminal.wait_for("begins anew.")
            terminal.wait_for(PROMPT)
            self.ask(terminal, "hi")
            terminal.press(CTRL_D)
            self.assertEqual(terminal.end(), 0)

    def test_a_piped_stdout_gets_the_replies_alone(self):
        alone = support.good("run", "-m", self.model, "--temperature", 0, "-n", 10, "hello").out
        with self.chat(stdout=subprocess.PIPE) as terminal:
            terminal.wait_for(PROMPT)  # on the terminal, where it can be seen
            self.ask(terminal, "hello")
            terminal.press(CTRL_D)
            with terminal.process.stdout as stdout:
                self.assertEqual(stdout.read(), alone)
            self.assertEqual(terminal.end(), 0)


class ControlCTest(unittest.TestCase):
    @support.needs(support.SMOLLM2)
    def test_it_stops_the_reply_and_not_the_program(self):
        with Terminal("run", "-m", support.SMOLLM2, "--temperature", 0) as terminal:
            terminal.wait_for(PROMPT)
            terminal.press("Write a very long story about a dog.\n")
            terminal.wait_for("dog.\r\n")  # the echo
            terminal.wait_for("o")
            terminal.press(CTRL_C)
            line = support.closing(terminal.wait_for(" a token]"))
            self.assertEqual(line.end, "interrupted")
            terminal.wait_for(PROMPT)
            terminal.press("Say hi.\n")
            self.assertGreater(support.closing(terminal.wait_for(" a token]")).reused, 30)
            terminal.wait_for(PROMPT)
            terminal.press(CTRL_D)
            self.assertEqual(terminal.end(), 0)


if __name__ == "__main__":
    unittest.main()
