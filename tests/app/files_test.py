#!/usr/bin/env python3
"""Whatever an option names, the program ends: no name is waited for, and none ends it by a signal.

usage: files_test.py FULMAR MODELS
"""
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from commands import commands, help_of

PROGRAM, MODELS = (Path(argument).resolve() for argument in sys.argv[1:3])
MODEL = str(MODELS / "fulmar-demo.safetensors")
OPTION = re.compile(r"^\s+(?:-\w,)?(--[\w-]+)(?:,\S+)? (?!FLOAT|INT|UINT)[A-Z]")
PATIENCE = 60  # seconds that any command may take on a busy machine; one that waits for a pipe takes for ever

BENCH = {"--model": MODEL, "--threads": "1", "--seconds": "0.001"}
# What each command needs to come as far as its files, and to be soon done with them.
WORDS = {
    "serve": {"--model": MODEL, "--threads": "1"},  # and a port that is taken
    "control": {},
    "fleet haproxy": {"--once": None},
    "chat": {"--model": MODEL, "--threads": "1", "--max-tokens": "1"},
    "generate": {"--model": MODEL, "--threads": "1", "--max-tokens": "1", "--prompt": "x"},
    "tokenize": {"--model": MODEL, "": ["x"]},
    "tokenizer import": {"": ["words.txt"]},
    "inspect": {"--model": MODEL, "--quick": None, "--plan": None},
    "pull": {"": ["a/b"], "--endpoint": "http://127.0.0.1:1"},
    "models": {},
    "convert": {"": [MODEL, "out.gguf"], "--force": None},
    "quantize": {"": [MODEL, "out.gguf"], "--force": None, "--type": "q8_0"},
    "merge": {"": [MODEL, "words.txt", "out.gguf"], "--force": None},
    "tune": {"--model": MODEL, "--data": "words.txt", "--output": "run"},
    "bench steps": {**BENCH, "--decode": "1", "--prefill": "1x1", "--repeats": "1"},
    "bench kernels": {**BENCH, "--decode": "1", "--prefill": "1x1", "--repeats": "1"},
    "bench serve": {**BENCH, "--streams": "1", "--tokens": "2", "--repeats": "1"},
    "bench load": {**BENCH, "--url": "http://127.0.0.1:1"},
    "bench drafts": {**BENCH, "--decode": "1", "--repeats": "1"},
    "bench structured": {**BENCH, "--decode": "1", "--repeats": "1"},
    "eval": {"--model": MODEL, "--threads": "1", "--text": "words.txt"},
    "keys add": {"": ["x"]},
    "keys list": {},
    "keys remove": {"": ["x"]},
    "doctor": {"--model": MODEL},
}
# Files that are read whole: an error that names them, and the exit code of a file.
READ_WHOLE = [
    "serve --config", "serve --api-keys", "keys list --api-keys", "keys add --api-keys", "eval --text", "eval --suite",
    "eval --lambada", "eval --schemas", "chat --session", "quantize --calibrate", "tokenize --vocab",
    "bench load --dataset", "tune --data",
]
# What is made where it is missing, and what no lock can lie beside.
NOT_READ = [("keys add --api-keys", "none"), ("chat --session", "none"), ("keys add --api-keys", "/proc/self/mem")]


class Place:
    """A folder with a pipe that nobody writes to, a folder and an ordinary file; and a port that is taken."""

    def __init__(self, folder):
        self.folder = Path(folder)
        os.mkfifo(self.folder / "pipe")
        (self.folder / "folder").mkdir()
        (self.folder / "words.txt").write_text("Some words of which none is long.\n" * 4)
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = str(self.socket.getsockname()[1])

    def run(self, *words):
        environment = {**os.environ, "XDG_DATA_HOME": str(self.folder / "data")}
        return subprocess.run([PROGRAM, *words], cwd=self.folder, capture_output=True, text=True, timeout=PATIENCE,
                              input="hi\n", errors="replace", env=environment)

    def command(self, name, option=None, value=None):
        """The words of a command with one option that has this value."""
        words = dict(WORDS[name])
        if name in ("serve", "control"):
            words["--port"] = self.port
        if option == "--schemas":
            words["--vocab"] = str(MODELS / "fulmar-demo.vocab.txt")
        if name == "bench load":
            words.pop("--seconds")
        if option == "--dataset":
            words.pop("--url")  # of a server of its own, since it is asked before the file
        positional = words.pop("", [])
        words.pop(option, None)
        given = [word if one is None else f"{word}={one}" for word, one in words.items()]
        return [*name.split(), *given, *([f"{option}={value}"] if option else []), *positional]

    def options(self, name):
        return [match.group(1) for line in help_of(PROGRAM, self.folder, *name.split()).splitlines() if (match := OPTION.match(line))]


class Names(unittest.TestCase):
    def setUp(self):
        self.room = tempfile.TemporaryDirectory()
        self.addCleanup(self.room.cleanup)
        self.place = Place(self.room.name)
        self.addCleanup(self.place.socket.close)

    def fault(self, case):
        name, option, value = case
        words = self.place.command(name, option, value)
        try:
            done = self.place.run(*words)
        except subprocess.TimeoutExpired:
            return f"{words} waits"
        ended = 0 <= done.returncode <= 6 and "terminate called" not in done.stderr and "bug at" not in done.stderr
        return "" if ended else f"{words} ends with {done.returncode}: {done.stderr[-300:]}"

    def test_every_command_is_known_here(self):
        self.assertEqual(sorted(" ".join(command) for command in commands(PROGRAM, self.room.name)), sorted(WORDS))

    def test_no_name_is_waited_for_and_none_ends_the_program(self):
        cases = [(name, option, value) for name in WORDS for option in self.place.options(name)
                 for value in ("pipe", "folder", "/proc/self/mem")]
        self.assertGreater(len(cases), 200)
        with ThreadPoolExecutor(2) as several:
            self.assertEqual([text for text in several.map(self.fault, cases) if text], [])

    def test_what_is_read_whole_is_named_with_the_code_of_a_file(self):
        for case in READ_WHOLE:
            name, _, option = case.rpartition(" ")
            for value in ("pipe", "folder", "/proc/self/mem", "none"):
                if (case, value) in NOT_READ:
                    continue
                done = self.place.run(*self.place.command(name, option, value))
                self.assertEqual(done.returncode, 3, (case, value, done.stderr))
                self.assertIn(f"{value}' cannot be ", done.stderr.splitlines()[-1], (case, value))

    def test_a_pipe_in_the_place_of_the_keys_does_not_hold_up_signals(self):
        keys = self.place.folder / "keys.json"
        self.assertEqual(self.place.run("keys", "add", "x", "--api-keys", str(keys)).returncode, 0)
        server = subprocess.Popen([PROGRAM, "serve", "--model", MODEL, "--threads", "1", "--port", "0", "--quiet",
                                   "--state-db-path", "none", "--api-keys", str(keys)],
                                  cwd=self.place.folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.stderr.close)
        self.addCleanup(lambda: server.poll() is None and server.kill())
        for line in server.stdout:
            if "http://" in line:
                break
        keys.unlink()
        os.mkfifo(keys)
        server.send_signal(signal.SIGHUP)
        server.send_signal(signal.SIGTERM)  # of two that are pending HUP is taken first
        self.assertEqual(server.wait(PATIENCE), 0)
        self.assertIn(f"keys not changed: key file '{keys}' cannot be read: it is no regular file", server.stderr.read())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
