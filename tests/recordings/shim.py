"""Stands in `PATH` in front of a program that tests or builds: writes down how it really ended, and what the files were then."""

import json
import os
import signal
import subprocess
import sys

here = os.environ["RECORDING"]
name = os.path.basename(sys.argv[0])
path = os.environ["PATH"].split(":")
real = next(
    file
    for file in (os.path.join(folder, name) for folder in path if folder != os.path.join(here, "shims"))
    if os.access(file, os.X_OK)
)
# The agents are programs of this kind, too; and what a command starts by itself was not typed.
agent = any(word.startswith(tuple(os.environ["RECORDING_PROGRAMS"].split(":"))) for word in sys.argv[1:2])
if agent or os.environ.get("RECORDING_INSIDE"):
    os.execv(real, [real, *sys.argv[1:]])
sys.path.insert(0, os.environ["RECORDING_CODE"])
import front  # noqa: E402

def note(record):
    with open(os.path.join(here, "ran.jsonl"), "a") as file:
        file.write(json.dumps(record) + "\n")


cwd = os.path.relpath(os.getcwd(), os.path.join(here, "project"))
words = [name, *sys.argv[1:]]
note({"cwd": cwd, "words": words, "exit": None})
child = subprocess.Popen([real, *sys.argv[1:]], env={**os.environ, "RECORDING_INSIDE": "1"})
signal.signal(signal.SIGTERM, lambda *_: child.terminate())
code = child.wait()
code = 128 - code if code < 0 else code
files = front.tree(os.path.join(here, "project"))
note({"cwd": cwd, "words": words, "exit": code, "tree": front.digest(files)})
sys.exit(code)
