"""A terminal for the program: what it shows, and keys."""

import contextlib
import fcntl
import os
import pty
import select
import subprocess
import termios
import time

import support

CTRL_C = b"\x03"
CTRL_D = b"\x04"
ARROW_UP = b"\x1b[A"


class Terminal:
    """Runs the program as the leader of a session on a new terminal."""

    def __init__(self, *arguments, stdout=None):
        self._master, slave = pty.openpty()
        self._shown = b""  # and not yet waited for
        environment = {**os.environ, "TERM": "xterm", "QUIRE_ISA": ""}
        self.process = subprocess.Popen(
            [support.PROGRAM, *map(str, arguments)],
            stdin=slave,
            stdout=slave if stdout is None else stdout,
            stderr=slave,
            env=environment,
            preexec_fn=self._own_terminal,
        )
        os.close(slave)

    @staticmethod
    def _own_terminal():
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)

    def press(self, keys):
        os.write(self._master, keys if isinstance(keys, bytes) else keys.encode())

    def wait_for(self, text):
        """Everything shown up to that text and with it."""
        wanted = text.encode()
        deadline = time.monotonic() + support.DEADLINE_S
        while wanted not in self._shown:
            if not self._read(deadline):
                raise AssertionError(f"the terminal never showed {text!r}, only {self._shown!r}")
        end = self._shown.index(wanted) + len(wanted)
        seen, self._shown = self._shown[:end], self._shown[end:]
        return seen.decode("utf-8", "replace").replace("\r\n", "\n")

    def end(self):
        """Waits for the program's end; its status."""
        deadline = time.monotonic() + support.DEADLINE_S
        while self._read(deadline):
            pass
        return self.process.wait(support.DEADLINE_S)

    def _read(self, deadline):
        ready, _, _ = select.select([self._master], [], [], max(0, deadline - time.monotonic()))
        if not ready:
            return False
        with contextlib.suppress(OSError):  # the program has closed the terminal
            piece = os.read(self._master, 4096)
            self._shown += piece
            return bool(piece)
        return False
