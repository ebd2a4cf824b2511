#!/usr/bin/env python3
"""Options that contradict each other, or that can have no effect, are refused by name before anything is begun.

usage: refusals_test.py FULMAR MODELS
"""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from commands import commands, help_of

PROGRAM, MODELS = (Path(argument).resolve() for argument in sys.argv[1:3])
MODEL = str(MODELS / "fulmar-demo.safetensors")
USAGE, FILE = 2, 3
NOWHERE = "/nonexistent/out"

# Words, the exit code, and what the error holds.
REFUSED = [
    (["serve", "--durable-sessions", "--state-db-path", "none"], USAGE, ["--durable-sessions", "--state-db-path"]),
    (["serve", "--state-db-path", "x.db", "--state-store", "redis://127.0.0.1:1"], USAGE, ["--state-store", "'x.db'"]),
    (["serve", "--announce-as", "x"], USAGE, ["--announce-as", "--directory"]),
    (["serve", "--allowed-host", "a b"], USAGE, ["--allowed-host", "'a b'", "without a port"]),
    (["control", "--allowed-host", "example.com:80"], USAGE, ["--allowed-host", "'example.com:80'"]),
    (["serve", "--host="], USAGE, ["--host"]),
    (["serve", "--config="], USAGE, ["--config"]),
    (["--log", "foo", "models"], USAGE, ["--log", "foo"]),
    (["keys", "add", "x", "--route", "/LOADMODEL"], USAGE, ["--route", "'/LOADMODEL'"]),
    (["keys", "add", "x", "--route", "/v1/chat/completions/"], USAGE, ["--route", "'/v1/chat/completions/'"]),
    (["keys", "add", "x", "--route", "/v9/*"], USAGE, ["--route", "'/v9/*'"]),
    (["tokenize", "-m", MODEL, "--decode", "99999"], USAGE, ["99999", "wanted ids of 0 to "]),
    (["tokenize", "-m", MODEL, "--decode", "72 -1"], USAGE, ["-1", "wanted ids of 0 to "]),
    (["generate", "-m", MODEL, "--threads", "65535", "x"], USAGE, ["--threads", "'65535'", "1024"]),
    (["eval", "-m", MODEL, "--text", MODEL, "--json", "x"], USAGE, ["--json", "--suite"]),
    (["eval", "-m", MODEL, "--suite", "demo", "--json", NOWHERE], FILE, [NOWHERE, "No such file or directory"]),
    (["eval", "--schemas", MODEL, "--json", NOWHERE], FILE, [NOWHERE, "No such file or directory"]),
    (["bench", "steps", "-m", "no-such-model", "--json", "."], FILE, ["Is a directory"]),
    (["generate", "-m", MODEL, "x", "--no-such", "first", "second"], USAGE, ["'--no-such' 'first' 'second'", "fulmar generate --help"]),
    (["generate", "-m", MODEL, "--adapter", "a.pth,alfa=2", "x"], USAGE, ["'alfa'", "wanted alpha, scale or init"]),
    (["chat", "-m", MODEL, "--adapter", NOWHERE], FILE, [NOWHERE]),
    (["convert", MODEL, "x.gguf", "--to", "gguf"], USAGE, ["--to", "is no adapter"]),
    (["convert", MODEL, "x.gguf", "--alpha", "2"], USAGE, ["--alpha", "is no adapter"]),
    (["convert", MODEL, NOWHERE + ".gguf"], FILE, [NOWHERE + ".gguf", "No such file or directory"]),
    (["quantize", MODEL, "/dev/full/x.gguf", "--type", "q8_0"], FILE, ["/dev/full/x.gguf", "Not a directory"]),
    (["chat", "-m", "no-such-model", "--session", NOWHERE], FILE, [NOWHERE, "No such file or directory"]),
]
TAKEN = [
    ["keys", "add", "one", "--route", "/v1/chat/completions"],
    ["keys", "add", "two", "--route", "/v1/*", "--route", "/v1/sessions/mine"],
    ["tokenize", "-m", MODEL, "--decode", "72 0"],
]


# What a command that takes --json needs beside it, where it needs anything.
BESIDE_JSON = {("eval",): ["--suite", "demo"]}


class Refusals(unittest.TestCase):
    def setUp(self):
        self.room = tempfile.TemporaryDirectory()
        self.addCleanup(self.room.cleanup)

    def run_program(self, words):
        return subprocess.run([PROGRAM, *words], cwd=self.room.name, capture_output=True, text=True, timeout=60,
                              stdin=subprocess.DEVNULL)

    def test_each_is_told_by_name_and_changes_nothing(self):
        for words, code, texts in REFUSED:
            with self.subTest(words=words):
                done = self.run_program(words)
                self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
                for text in texts:
                    self.assertIn(text, done.stderr)
                self.assertEqual(list(Path(self.room.name).iterdir()), [])

    def test_where_no_result_can_be_written_none_is_made(self):
        taking = [command for command in commands(PROGRAM, self.room.name)
                  if " --json " in help_of(PROGRAM, self.room.name, *command)]
        self.assertGreaterEqual(len(taking), 7)
        for command in taking:
            with self.subTest(command=command):
                done = self.run_program([*command, *BESIDE_JSON.get(command, []), "--model", "no-such-model", "--json", NOWHERE])
                self.assertEqual((done.returncode, done.stdout), (FILE, ""), done.stderr)
                self.assertIn(f"'{NOWHERE}' cannot be written: No such file or directory", done.stderr)

    def test_their_neighbours_are_taken(self):
        for words in TAKEN:
            with self.subTest(words=words):
                done = self.run_program(words)
                self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
