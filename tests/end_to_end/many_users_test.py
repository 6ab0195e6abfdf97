"""Many users in one memory: the same answers in every budget, under every policy, alone and together, and never killed."""

import json
import random
import resource
import unittest

import support
from terminal import CTRL_D, Terminal

MIB = 1 << 20
POLICIES = ("guaranteed", "expected", "optimistic")

WORDS = ("river stone lamp paper window garden table letter winter summer bridge copper silver engine valley market doctor number answer "
         "forest island mirror ladder basket candle anchor harbor needle button carpet").split()


def words(count, seed):
    chooser = random.Random(seed)
    return " ".join(chooser.choice(WORDS) for _ in range(count))


def chat(index, messages, **body):
    return {"custom_id": f"chat-{index}", "method": "POST", "url": "/v1/chat/completions",
            "body": {"model": "any", "messages": messages, "temperature": 0, **body}}


def completion(index, prompt, **body):
    return {"custom_id": f"text-{index}", "method": "POST", "url": "/v1/completions",
            "body": {"model": "any", "prompt": prompt, "temperature": 0, **body}}


class Batches(unittest.TestCase):
    def setUp(self):
        self.folder = support.scratch_folder()

    def run_batch(self, model, requests, *flags, **how):
        """The texts by custom_id, and the report."""
        given, answers, report = self.folder / "in.jsonl", self.folder / "out.jsonl", self.folder / "report.json"
        given.write_text("".join(json.dumps(request) + "\n" for request in requests))
        answers.unlink(missing_ok=True)
        support.good("batch", given, "-o", answers, "-m", model, "--report", report, *flags, **how)
        texts = {}
        for line in answers.read_text().splitlines():
            answer = json.loads(line)
            self.assertIsNone(answer["error"], line)
            self.assertEqual(answer["response"]["status_code"], 200, line)
            choices = answer["response"]["body"]["choices"]
            self.assertNotIn(answer["custom_id"], texts)
            texts[answer["custom_id"]] = [choice["message"]["content"] if "message" in choice else choice["text"] for choice in choices]
        self.assertEqual(len(texts), len(requests))
        return texts, json.loads(report.read_text())


class TinyTest(Batches):
    """A tiny model, in whose tiny context every way through the scheduler is quick to go."""

    def requests(self, count=60):
        chooser = random.Random(7)
        begin = words(20, 1)
        made = []
        for index in range(count):
            prompt = (begin if index % 3 == 0 else "") + words(chooser.randrange(1, 40), 100 + index)
            made.append(completion(index, prompt[: chooser.randrange(20, 400)], max_tokens=chooser.randrange(1, 60), seed=index,
                                   temperature=0.9 if index % 2 else 0))
        return made

    def check_policies(self, model):
        requests = self.requests()
        texts, report = self.run_batch(model, requests, "--kv-memory", "256MiB")
        self.assertEqual((report["suspensions"], report["refused"]), (0, 0))
        per_token = json.loads(support.good("inspect", model, "--json").text)["kv_bytes_per_token"]
        scarce = str(900 * per_token)
        suspended = 0
        for policy in POLICIES:
            with self.subTest(policy=policy):
                again, report = self.run_batch(model, requests, "--kv-memory", scarce, "--reserve", policy)
                self.assertEqual(again, texts)
                self.assertEqual(report["refused"], 0)
                if policy == "guaranteed":
                    self.assertEqual(report["suspensions"], 0)
                suspended += report["suspensions"]
        self.assertGreater(suspended, 0, "nothing was ever scarce")

    def test_every_policy_gives_the_same_texts_in_a_scarce_budget(self):
        self.check_policies(support.tiny("llama"))

    def test_the_same_with_windows(self):
        self.check_policies(support.tiny("gemma3"))

    def test_alone_or_together_in_chunks_or_whole_on_any_number_of_threads(self):
        for name in ("llama", "gemma3"):
            model, requests = support.tiny(name), self.requests(24)
            texts, _ = self.run_batch(model, requests)
            for flags in (("--max-users", 1), ("--chunk", 7), ("--threads", 1), ("--threads", 8), ("--max-users", 5, "--chunk", 33)):
                with self.subTest(model=name, flags=flags):
                    self.assertEqual(self.run_batch(model, requests, *flags)[0], texts)

    def test_what_exceeds_the_whole_budget_is_refused_with_both_numbers(self):
        given, answers = self.folder / "in.jsonl", self.folder / "out.jsonl"
        requests = [completion(0, words(60, 1)[:300], max_tokens=100), completion(1, "short", max_tokens=2)]
        given.write_text("".join(json.dumps(request) + "\n" for request in requests))
        per_token = json.loads(support.good("inspect", support.tiny("llama"), "--json").text)["kv_bytes_per_token"]
        support.run("batch", given, "-o", answers, "-m", support.tiny("llama"), "--kv-memory", str(200 * per_token))
        by_id = {line["custom_id"]: line for line in map(json.loads, answers.read_text().splitlines())}
        refusal = by_id["text-0"]
        self.assertRegex(json.dumps(refusal), r"needs [\d.]+ \w+.* [\d.]+ \w+")
        self.assertEqual(by_id["text-1"]["response"]["status_code"], 200)

    def test_under_an_address_space_limit(self):
        model, requests = support.tiny("llama"), self.requests()
        texts, _ = self.run_batch(model, requests, "--kv-memory", "64MiB")
        limit = 1 << 30
        limited = {"preexec": lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))}
        self.assertEqual(self.run_batch(model, requests, "--kv-memory", "64MiB", **limited)[0], texts)


@support.needs(support.SMOLLM2)
@support.full_only
class SharedBeginningTest(Batches):
    """64 chats with a beginning of some 1,500 tokens in common, on a real model."""

    def requests(self):
        system = words(1492, 3)
        return [chat(index, [{"role": "system", "content": system}, {"role": "user", "content": words(6, 50 + index)}], max_tokens=48)
                for index in range(64)]

    def test_computed_once_and_answered_alike_in_every_budget(self):
        requests = self.requests()
        texts, report = self.run_batch(support.SMOLLM2, requests, "--kv-memory", "2GiB")
        # The rest of the prompts, and of each reply all tokens but perhaps the last.
        decoded = report["computed_tokens"] - (report["prompt_tokens"] - report["reused_tokens"])
        self.assertLessEqual(decoded, report["generated_tokens"])
        self.assertGreaterEqual(decoded, report["generated_tokens"] - 64)
        own = report["prompt_tokens"] / 64
        # All but the first found the beginning, to the token.
        self.assertGreater(report["reused_tokens"], 63 * 1490)
        self.assertLess(report["computed_tokens"], own + 63 * 40 + 64 * 48)
        # 46 shared tiles and, for each, those of the copied, own and new tokens.
        tile = 32 * json.loads(support.good("inspect", support.SMOLLM2, "--json").text)["kv_bytes_per_token"]
        peak = report["peak_bytes"]
        self.assertLess(peak["live"] + peak["shared"], (48 + 64 * 4) * tile)
        print(f"report: {json.dumps(report)}", flush=True)
        for budget in ("256MiB", "80MiB"):
            with self.subTest(budget=budget):
                self.assertEqual(self.run_batch(support.SMOLLM2, requests, "--kv-memory", budget)[0], texts)


class RealEqualityTest(Batches):
    """The same texts to the byte on real models: alone, in other chunks, on other threads, suspended and computed again."""

    def check(self, model):
        chooser = random.Random(5)
        begin = words(60, 1)
        requests = []
        for index in range(16):
            prompt = (begin if index % 2 else "") + " " + words(chooser.randrange(10, 120), 100 + index)
            requests.append(completion(index, prompt, max_tokens=24, seed=index, temperature=0 if index % 3 else 0.8))
        texts, _ = self.run_batch(model, requests)
        for flags in (("--max-users", 1), ("--chunk", 37, "--threads", 1), ("--threads", 8), ("--kv-memory", "16MiB", "--reserve", "optimistic")):
            with self.subTest(flags=flags):
                again, report = self.run_batch(model, requests, *flags)
                self.assertEqual(again, texts)
        self.assertGreater(report["suspensions"], 0)

    @support.needs(support.SMOLLM2)
    @support.full_only
    def test_smollm2(self):
        self.check(support.SMOLLM2)

    @support.needs(support.GEMMA3)
    @support.full_only
    def test_gemma3_with_windows(self):
        self.check(support.GEMMA3)


@support.needs(support.SMOLLM2)
@support.full_only
class ConversationTest(unittest.TestCase):
    def test_a_long_chat_finds_what_it_said(self):
        """Each turn sends the whole history as text; the tokens of a reply are made anew from its text."""
        earlier = found = differing = 0
        with Terminal("run", "-m", support.SMOLLM2, "--temperature", 0, "-n", 60) as terminal:
            terminal.wait_for("\n> ")
            held = 0
            for turn in range(20):
                terminal.press(words(12, turn) + "\n")
                line = support.closing(terminal.wait_for(" a token]"))
                terminal.wait_for("\n> ")
                earlier += held
                found += min(line.reused, held)
                differing += line.reused < held
                held = line.prompt + line.reply - 1  # the last token of a reply is never computed
            terminal.press(CTRL_D)
            self.assertEqual(terminal.end(), 0)
        print(f"{found} of {earlier} earlier tokens were found; in {differing} of 19 turns some were not", flush=True)
        self.assertGreaterEqual(found, 0.99 * earlier)


class ControlGroupTest(Batches):
    """Where the kernel would kill: 200 requests in a memory control group of weights + budget + margin."""

    def setUp(self):
        super().setUp()
        self.group = support.ControlGroup(self)

    @support.needs(support.SMOLLM2)
    @support.full_only
    def test_200_requests_without_a_kill(self):
        requests = [completion(index, words(30 + index % 50, index), max_tokens=8 + index % 24) for index in range(200)]
        texts, _ = self.run_batch(support.SMOLLM2, requests, "--kv-memory", "2GiB")
        weights = json.loads(support.good("inspect", support.SMOLLM2, "--json").text)["weights_bytes"]
        self.group.limit(weights + 200 * MIB)
        again, report = self.run_batch(support.SMOLLM2, requests, "--chunk", 128, preexec=self.group.enter)
        self.assertEqual(again, texts)
        self.assertEqual(report["refused"], 0)


if __name__ == "__main__":
    unittest.main()
