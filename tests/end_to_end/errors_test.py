"""Whatever is wrong, it is said in one line on stderr; the status is 2 for the command line and 1 for everything else."""

import os
import resource
import signal
import subprocess
import unittest

import support


class ErrorsTest(unittest.TestCase):
    def setUp(self):
        self.folder = support.scratch_folder()
        self.model = support.tiny("llama")

    def file(self, name, content):
        path = self.folder / name
        path.write_bytes(content)
        return path

    def check(self, status, words, *arguments, **how):
        """Fails with that status, nothing on stdout and one line that has the words (and where help is, for the command line)."""
        ran = support.run(*arguments, **how)
        self.assertEqual((ran.status, ran.out), (status, b""), (arguments, ran.err))
        lines = ran.err.splitlines()
        self.assertRegex(lines[0], r"^quire: \S")
        self.assertIn(words, lines[0])
        self.assertLess(len(lines[0]), 400)
        self.assertLessEqual(len(lines), 2 if status == 2 else 1, ran.err)
        for line in lines[1:]:
            self.assertRegex(line, r"^See 'quire.* --help'\.$")

    def test_commands(self):
        self.check(2, "choose one of")
        self.check(2, "'walk' is no command", "walk")
        self.check(2, "'walk' is no command", "walk", "-m", self.model)
        self.check(2, "choose one of engine", "bench")
        self.check(2, "'walk' is no command", "bench", "walk")
        self.check(2, "--bogus", "--bogus")
        for command in (("run",), ("inspect",), ("tokenize",), ("score",), ("bench", "engine")):
            self.check(2, "no model is named", *command)
            more = ("--ids", os.devnull) if command == ("score",) else ()
            self.check(2, "--bogus", *command, "-m", self.model, *more, "--bogus")
        self.check(2, "--model", "run", "-m")
        self.check(2, "ksh", "completion", "ksh")
        self.check(2, "shell", "completion")

    def test_values(self):
        run = ("run", "-m", self.model)
        for flag, value in (
            ("--temperature", "hot"), ("--temperature", -1), ("--temperature", "nan"), ("--temperature", ""), ("--top-k", "1.5"),
            ("--top-p", 2), ("--top-p", 0), ("--min-p", -1), ("--min-p", 2), ("--repeat-penalty", 0), ("--seed", "x"),
            ("--max-tokens", 0), ("--max-tokens", -1), ("--max-tokens", "99999999999999999999"), ("--threads", 0), ("--threads", "two"),
            ("--chunk", 0), ("--chunk", 5000), ("--kv-format", "q8"), ("--context", 0), ("--context", 513),
        ):  # fmt: skip
            with self.subTest(flag=flag, value=value):
                self.check(2, "", *run, flag, value, "hello")
        self.check(2, "--users", "bench", "engine", "-m", self.model, "--users", "1,none")
        self.check(2, "--new", "bench", "engine", "-m", self.model, "--prompt", 500, "--new", 100)
        self.check(2, "--top", "score", "-m", self.model, "--ids", os.devnull, "--top", -1)
        self.check(2, "[--text,--ids]", "score", "-m", self.model)
        self.check(2, "[--text,--ids]", "score", "-m", self.model, "--ids", "a", "--text", "b")
        self.check(2, "there", *run, "hello", "there")

    def test_instruction_sets(self):
        self.check(2, "this processor runs", "run", "-m", self.model, "--isa", "mmx", "hello")
        self.check(2, "'mmx'", "run", "-m", self.model, "hello", environment={"QUIRE_ISA": "mmx"})

    def test_model_files(self):
        whole = self.model.read_bytes()
        wrong = [
            (self.folder / "none.gguf", "no such file"),
            (self.folder, "is a directory"),
            ("/dev/null", "device"),
            (self.file("empty.gguf", b""), "is empty"),
            (self.file("text.gguf", b"not a model at all, but long enough to be one"), "no GGUF file"),
            (self.file("version.gguf", b"GGUF\x09\0\0\0" + whole[8:]), "version"),
            (self.file("cut_header.gguf", whole[:1000]), ""),
            (self.file("cut_data.gguf", whole[: len(whole) // 2]), ""),
            (support.tiny("unknown_key"), "flux_capacitor"),
            (support.tiny("unknown_architecture"), "perceptron"),
        ]
        for path, words in wrong:
            with self.subTest(path=str(path)):
                self.check(1, words, "run", "-m", path, "hello")
                self.check(1, words, "inspect", path)
                self.check(1, str(path), "inspect", path)
        for path, words in wrong[:6]:
            self.check(1, words, "tokenize", "-m", path)

    @support.needs(support.SMOLLM2)
    def test_real_models_cut_short(self):
        with open(support.SMOLLM2, "rb") as file:
            beginning = file.read(3 << 20)
        for size in (7, 100, 4096, 1 << 20, 3 << 20):
            self.check(1, "cut.gguf", "inspect", self.file("cut.gguf", beginning[:size]))

    def test_inputs(self):
        score = ("score", "-m", self.model)
        self.check(1, "none.txt", *score, "--text", self.folder / "none.txt")
        self.check(1, "is a directory", *score, "--text", self.folder)
        self.check(1, "no tokens", *score, "--text", self.file("empty.txt", b""))
        for content, words in (
            (b"", "JSON list"), (b"{}", "JSON list"), (b"[1, 2", "JSON list"), (b"[1, -1]", "element 1"), (b"[5000000]", "element 0"),
            (b"[1.5]", "element 0"), (b'["a"]', "element 0"), (b"[[1]]", "element 0"), (b"[]", "no tokens"), (b"[" * 100000, "JSON list"),
        ):  # fmt: skip
            with self.subTest(content=content[:20]):
                self.check(1, words, *score, "--ids", self.file("ids.json", content))
                if content != b"[]":
                    self.check(1, words, "tokenize", "-m", self.model, "--decode", stdin=content)
        self.check(1, "score it in parts", *score, "--ids", self.file("long.json", b"[5" + b",5" * 512 + b"]"))
        self.check(1, "the prompt has", "run", "-m", self.model, "--raw", "x" * 600)
        self.check(1, "raise --context", "run", "-m", self.model, "--context", 20, "x" * 30)
        self.check(1, "", "run", "-m", self.model, "--chat-template", self.folder / "none.jinja", "hello")
        self.check(1, "chat template", "run", "-m", self.model, "--chat-template", self.file("t.jinja", b"{% if %}"), "hello")
        self.check(1, "the chat template: no way", "run", "-m", self.model, "--chat-template", self.file("r.jinja", b"{{ raise_exception('no way') }}"), "hello")

    def test_outputs(self):
        score = ("score", "-m", self.model, "--ids", self.file("ids.json", b"[5, 6, 7]"))
        self.check(1, "cannot be written", *score, "-o", self.folder / "none" / "out.jsonl")
        self.check(1, "cannot be written", *score, "-o", self.folder)
        self.check(1, "disk full", *score, "-o", "/dev/full")

    def test_a_full_disk_behind_stdout(self):
        with open("/dev/full", "wb") as full:
            for arguments in (("inspect", self.model), ("--help",), ("run", "-m", self.model, "-n", "2", "hello")):
                command = [support.PROGRAM, *map(str, arguments)]
                done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, check=False)
                self.assertEqual(done.returncode, 1, arguments)
                self.assertRegex(done.stderr.decode().splitlines()[-1], "^quire: stdout cannot be written: .*disk")

    def test_a_closed_stderr_is_no_crash(self):
        done = subprocess.run(["bash", "-c", '"$0" walk 2>&-', support.PROGRAM], check=False)
        self.assertEqual(done.returncode, 2)

    def test_a_reader_that_has_seen_enough(self):
        big = self.file("ids.json", b"[" + b"5," * 100000 + b"5]")
        for ignored in (False, True):  # SIGPIPE ends the program, or where it is ignored writing fails
            command = [support.PROGRAM, "tokenize", "-m", str(self.model), "--decode"]
            with open(big, "rb") as stdin:
                how = {"stdin": stdin, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "restore_signals": not ignored}
                with subprocess.Popen(command, **how) as process:
                    process.stdout.read(10)
                    process.stdout.close()
                    self.assertEqual(process.stderr.read(), b"")
            self.assertEqual(process.returncode, 1 if ignored else -signal.SIGPIPE)


class AddressSpaceTest(unittest.TestCase):
    """Too little memory for the process (ulimit -v) is said at any point where it shows."""

    @support.needs(support.SMOLLM2)
    @support.full_only  # sanitizers need terabytes of addresses
    def test_every_limit_ends_well(self):
        outcomes = set()
        for mebibytes in (60, 110, 150, 200, 250, 300, 350, 800):
            limit = mebibytes << 20
            ran = support.run(
                "run", "-m", support.SMOLLM2, "-n", 1, "--threads", 2, "hi",
                preexec=lambda limit=limit: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
            )  # fmt: skip
            self.assertIn(ran.status, (0, 1), (mebibytes, ran.err))
            if ran.status == 1:
                self.assertEqual(ran.out, b"")
                self.assertRegex(ran.err, r"^quire: .*(limit|memory|addresses|chunk).*\n$")
                self.assertEqual(ran.err.count("\n"), 1)
            outcomes.add(ran.status)
        self.assertEqual(outcomes, {0, 1})


if __name__ == "__main__":
    unittest.main()
