"""An agent on a terminal: what is typed, and what a terminal answers to the questions of a program that draws on it."""

import fcntl
import os
import re
import signal
import struct
import subprocess
import termios
import threading
import time

# Questions of a program to its terminal, and the answers of a plain dark one.
QUESTIONS = [
    (re.compile(rb"\x1b\[6n"), b"\x1b[1;1R"),
    (re.compile(rb"\x1b\[0?c"), b"\x1b[?62;22c"),
    (re.compile(rb"\x1b\]10;\?(\x07|\x1b\\)"), b"\x1b]10;rgb:ffff/ffff/ffff\x1b\\"),
    (re.compile(rb"\x1b\]11;\?(\x07|\x1b\\)"), b"\x1b]11;rgb:0000/0000/0000\x1b\\"),
]
ESCAPES = re.compile(rb"\x1b\[[0-9;?<>=]*[a-zA-Z]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)|\x1b[()][A-B0-2]|\x1b[=>78]")
ROWS, COLUMNS = 50, 160


class Screen:
    def __init__(self, command, **options):
        self.terminal, inner = os.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))

        def own_terminal():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            command, stdin=inner, stdout=inner, stderr=inner, preexec_fn=own_terminal, **options
        )  # fmt: skip
        os.close(inner)
        self.shown, self.changed = b"", time.monotonic()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        while True:
            try:
                data = os.read(self.terminal, 65536)
            except OSError:
                return
            if not data:
                return
            self.shown += data
            self.changed = time.monotonic()
            for question, answer in QUESTIONS:
                for _ in question.finditer(data):
                    os.write(self.terminal, answer)

    def text(self):
        return ESCAPES.sub(b" ", self.shown).decode(errors="replace")

    def settle(self, seconds=1.0, limit=30):
        """Waits until nothing is drawn for a time; what blinks or spins ends the wait at the limit."""
        until = time.monotonic() + limit
        while time.monotonic() < until and time.monotonic() - self.changed < seconds:
            time.sleep(0.05)

    def press(self, keys):
        os.write(self.terminal, keys)

    def type(self, line):
        """A line and Enter, apart from each other: together they are a paste."""
        for character in line:
            self.press(character.encode())
            time.sleep(0.004)
        time.sleep(0.6)
        self.press(b"\r")

    def close(self):
        if self.process.poll() is None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except OSError:
                self.process.kill()
            self.process.wait()
        os.close(self.terminal)
