#!/usr/bin/env python3
"""What a command cannot show on standard output is told, with the system's reason, and no secret is lost.

usage: output_test.py FULMAR MODELS
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from commands import commands

PROGRAM, MODELS = (Path(argument).resolve() for argument in sys.argv[1:3])
MODEL = str(MODELS / "fulmar-demo.safetensors")
FILE, RESOURCES = 3, 4  # a pipe that nobody reads, a full disk

# Commands that show a result. The demonstration's parts are read from its folder.
SHOWING = [
    ["--version"], ["models"], ["inspect", MODEL], ["tokenize", "-m", MODEL, "a text"],
    ["tokenize", "-m", MODEL, "a" * 3000], ["generate", "-m", MODEL, "-n", "3", "--devices", "cpu", "x"],
    ["keys", "list"], ["keys", "add", "fresh"],
]


class Output(unittest.TestCase):
    def setUp(self):
        room = tempfile.TemporaryDirectory()
        self.addCleanup(room.cleanup)
        self.room = Path(room.name)
        self.run_program(["keys", "add", "old"], subprocess.PIPE)
        self.keys = (self.room / "api-keys.json").read_bytes()

    def run_program(self, words, stdout):
        return subprocess.run([PROGRAM, *words], cwd=self.room, stdout=stdout, stderr=subprocess.PIPE, text=True,
                              timeout=60, stdin=subprocess.DEVNULL)

    def check(self, words, stdout, code, reason):
        with self.subTest(words=[word[:40] for word in words], reason=reason):
            done = self.run_program(words, stdout)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertEqual(done.stderr.count(f"fulmar: standard output cannot be written: {reason}\n"), 1, done.stderr)
            self.assertEqual((self.room / "api-keys.json").read_bytes(), self.keys)

    def check_everywhere(self, words):
        with open("/dev/full", "wb") as full:
            self.check(words, full, RESOURCES, "No space left on device")
        reading, writing = os.pipe()
        os.close(reading)
        self.addCleanup(os.close, writing)
        self.check(words, writing, FILE, "Broken pipe")

    def test_results(self):
        for words in SHOWING:
            self.check_everywhere(words)

    def test_the_help_of_every_command(self):
        known = commands(PROGRAM, self.room)
        self.assertGreater(len(known), 15)
        for words in [(), *known]:
            self.check_everywhere([*words, "--help"])

    def test_a_key_that_was_shown_is_kept(self):
        done = self.run_program(["keys", "add", "fresh"], subprocess.PIPE)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.strip())
        self.assertEqual(len(json.loads((self.room / "api-keys.json").read_text())["keys"]), 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
