"""What the end-to-end tests share: the program, its models, and what running it gave."""

import atexit
import dataclasses
import functools
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DATA = ROOT / "tests" / "data"
PROGRAM = os.environ.get("QUIRE_PROGRAM", str(ROOT / "build" / "quire"))
MAKE_TINY_MODELS = os.environ.get("QUIRE_MAKE_TINY_MODELS", "make_tiny_models")
# Builds with checks or sanitizers are slow: there what takes long is left out.
FULL = os.environ.get("QUIRE_END_TO_END", "full") == "full"

SMOLLM2 = ROOT / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
GEMMA3 = ROOT / "models" / "gemma-3-270m-q4_k_m.gguf"

# One run may take this long on a busy machine; it ends a test that hangs.
DEADLINE_S = 500

_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_CLOSING_LINE = re.compile(
    r"\[prompt (?P<prompt>\d+) tokens(?: \((?P<reused>\d+) reused\))?, (?P<prompt_tps>\d+) tokens/s; "
    r"reply (?P<reply>\d+) tokens, (?P<reply_tps>\d+) tokens/s, (?P<end>[a-z ]+); "
    r"KV (?P<used>[\d.]+ \w+) used, (?P<backed>[\d.]+ \w+) backed, (?P<per_token>[\d.]+ \w+) a token\]"
)


def needs(model):
    """Skips a test where a model is missing."""
    return unittest.skipUnless(model.exists(), f"{model.relative_to(ROOT)} is missing; tools/fetch-models --all fetches it")


full_only = unittest.skipUnless(FULL, "takes too long in a build that is not Release")


@dataclasses.dataclass(frozen=True)
class Ran:
    """What a run of the program left."""

    status: int
    out: bytes
    err: str

    @property
    def text(self):
        return self.out.decode("utf-8")


def run(*arguments, stdin=b"", environment=None, preexec=None):
    done = subprocess.run(
        [PROGRAM, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
        env={**os.environ, "QUIRE_ISA": "", **(environment or {})},
        preexec_fn=preexec,
    )
    return Ran(done.returncode, done.stdout, done.stderr.decode("utf-8", "replace"))


def good(*arguments, **how):
    """The same for a run that must go well."""
    ran = run(*arguments, **how)
    if ran.status != 0:
        raise AssertionError(f"quire {' '.join(map(str, arguments))}: status {ran.status}: {ran.err}")
    return ran


@functools.cache
def tiny(name):
    """The path of a tiny model: llama, gemma3, unknown_key, unknown_architecture."""
    return _tiny_folder() / f"{name}.gguf"


@functools.cache
def _tiny_folder():
    folder = scratch_folder()
    subprocess.run([MAKE_TINY_MODELS, str(folder)], check=True, timeout=DEADLINE_S)
    return folder


def scratch_folder():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="quire-end-to-end-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


class ControlGroup:
    """A memory control group of version 1 for the length of a test, which is skipped where none can be made."""

    def __init__(self, test):
        self._folder = pathlib.Path("/sys/fs/cgroup/memory") / f"quire-test-{os.getpid()}"
        try:
            self._folder.mkdir()
            test.addCleanup(self._folder.rmdir)
            self.limit(1 << 40)
        except OSError as error:
            test.skipTest(f"no memory control group of version 1 can be made here: {error}")

    def limit(self, byte_limit):
        (self._folder / "memory.limit_in_bytes").write_text(str(byte_limit))

    def enter(self):
        """In a process that is about to become the program."""
        (self._folder / "cgroup.procs").write_text(str(os.getpid()))


def byte_count(text):
    """"1.41 MiB" as a number."""
    number, unit = text.split()
    return float(number) * _UNITS[unit]


@dataclasses.dataclass(frozen=True)
class Closing:
    """The closing line of quire run."""

    prompt: int
    reused: int
    reply: int
    end: str
    used: float
    backed: float
    per_token: float


def closing(text):
    """The last closing line in a text."""
    found = list(_CLOSING_LINE.finditer(text))
    if not found:
        raise AssertionError(f"no closing line in {text!r}")
    parts = found[-1].groupdict()
    sizes = {key: byte_count(parts[key]) for key in ("used", "backed", "per_token")}
    return Closing(int(parts["prompt"]), int(parts["reused"] or 0), int(parts["reply"]), parts["end"], **sizes)


@functools.cache
def instruction_sets():
    """The sets that this processor runs, the fastest last."""
    refusal = run("score", "-m", tiny("llama"), "--isa", "none-such", "--ids", os.devnull)
    return re.search(r"this processor runs (.*)", refusal.err).group(1).split(", ")
