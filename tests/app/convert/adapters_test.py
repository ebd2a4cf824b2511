#!/usr/bin/env python3
"""A trained adapter through the commands: beside its model, converted and merged, it answers alike.

usage: adapters_test.py FULMAR SHARED      SHARED: the folder of models and adapters beside the checkout
"""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM, SHARED = (Path(argument).resolve() for argument in sys.argv[1:3])
MODEL = SHARED / "models/rwkv7-reverse/reverse-v64-f32.safetensors"
VOCAB = SHARED / "models/rwkv7-reverse/vocab_v64.txt"
ADAPTERS = SHARED / "models/adapters"
NINES = ADAPTERS / "reverse-nines-lora-r8-alpha16.pth"
ANSWERS = {"123,": "678", "90817,": "28190"}  # the nines' complement, reversed


def run(*words, text=None):
    return subprocess.run([PROGRAM, *map(str, words)], input=text, capture_output=True, text=True, timeout=120)


@unittest.skipUnless(NINES.exists(), "no trained adapter here")
class Adapters(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def generate(self, prompt, *words, model=MODEL):
        done = run("generate", "-m", model, "--vocab", VOCAB, "--raw", "-t", "0", "-n", "12", "-p", prompt, *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def test_every_way_answers_alike(self):
        ways = [("--adapter", f"{NINES},alpha=16"), ("--adapter", f"{NINES},scale=2")]
        for name in ("peft", "lora.gguf"):
            out = self.folder / name
            done = run("convert", NINES, out, "--alpha", "16", "--base", MODEL)
            self.assertEqual(done.returncode, 0, done.stderr)
            ways.append(("--adapter", out))
        merged = self.folder / "merged.safetensors"
        self.assertEqual(run("merge", MODEL, NINES, merged, "--alpha", "16", "-q").returncode, 0)
        for prompt, answer in ANSWERS.items():
            for words in ways:
                self.assertEqual(self.generate(prompt, *words), answer, words)
            self.assertEqual(self.generate(prompt, model=merged), answer)
            self.assertEqual(self.generate(prompt), prompt[-2::-1])
        chat = run("chat", "-m", MODEL, "--vocab", VOCAB, "-t", "0", "-n", "8", *ways[0], text="123,\n")
        self.assertIn("678", chat.stdout)

    def test_initial_states_are_adapters_too(self):
        self.assertEqual(self.generate("123,", "--adapter", ADAPTERS / "reverse-suffix007-state.pth"), "321007")

    def test_what_cannot_be_computed_beside_a_model_names_the_command(self):
        for form in ("rwkv-peft-lora.pth,alpha=4", "peft-bat"):
            done = run("generate", "-m", MODEL, "--vocab", VOCAB, "--raw", "-p", "1,", "--adapter", ADAPTERS / "forms" / form)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn(f"fulmar merge '{MODEL}' '{ADAPTERS}/forms/{form.split(',')[0]}'", done.stderr)

    def test_what_a_form_cannot_hold_is_named(self):
        done = run("convert", NINES, self.folder / "x.pth", "--alpha", "16", "--base", MODEL)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("'blocks.0.att.key.weight': a MiSS package has no place for LoRA", done.stderr)
        self.assertFalse((self.folder / "x.pth").exists())
        again = run("convert", ADAPTERS / "forms/peft-miss", self.folder / "x.pth", "--base", MODEL)
        self.assertEqual(again.returncode, 0, again.stderr)
        there = run("convert", ADAPTERS / "forms/peft-miss", self.folder / "x.pth", "--base", MODEL)
        self.assertIn("--force replaces it", there.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
