#!/usr/bin/env python3
"""fulmar tune on the demo model, from lines of JSON to a state that a model answers with: tune_test.py PROGRAM MODELS"""
import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM, MODELS = (Path(argument).resolve() for argument in sys.argv[1:3])
MODEL = str(MODELS / "fulmar-demo.safetensors")
LINES = [{"text": "The sea is wide."}, {"prompt": "Who are you?", "completion": " A captain."},
         {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Ahoy!"}]}]
METHODS = [("state", "state-final", "0.05"), ("lora", "adapter-final", "0.002"), ("miss", "adapter-final", "0.002")]


class Tune(unittest.TestCase):
    def setUp(self):
        room = tempfile.TemporaryDirectory()
        self.addCleanup(room.cleanup)
        self.room = Path(room.name)
        (self.room / "data.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LINES))

    def run_program(self, *words):
        return subprocess.run([PROGRAM, *words], cwd=self.room, capture_output=True, text=True, timeout=120)

    def tune(self, *words):
        return self.run_program("tune", "-m", MODEL, "--data", "data.jsonl", "--batch", "3", "--warmup", "1", *words)

    def test_a_run_learns_is_taken_up_and_gives_files_that_fit_the_model(self):
        for method, name, rate in METHODS:
            with self.subTest(method):
                words = ["--method", method, "--steps", "4", "--save-every", "2", "--lr", rate]
                done = self.tune(*words, "--output", method)
                self.assertEqual(done.returncode, 0, done.stderr)
                log = [json.loads(line) for line in (self.room / method / "tune.jsonl").read_text().splitlines()]
                self.assertEqual([line["step"] for line in log], [1, 2, 3, 4])
                self.assertLess(log[3]["loss"], log[0]["loss"])

                # as if it had ended after step 3, behind the checkpoint of step 2
                again = self.room / (method + "-again")
                shutil.copytree(self.room / method, again)
                shutil.rmtree(again / "checkpoint-4")
                (again / (name + ".pth")).unlink()
                done = self.tune(*words, "--resume", again.name)
                self.assertEqual(done.returncode, 0, done.stderr)
                whole, taken_up = ((folder / (name + ".pth")).read_bytes() for folder in (self.room / method, again))
                self.assertEqual(whole, taken_up)
                losses = [json.loads(line)["loss"] for line in (again / "tune.jsonl").read_text().splitlines()]
                self.assertEqual(losses, [line["loss"] for line in log])

                done = self.run_program("merge", MODEL, f"{method}/{name}.pth", method + ".safetensors")
                self.assertEqual(done.returncode, 0, done.stderr)
                done = self.run_program("generate", "-m", method + ".safetensors", "--vocab", MODELS / "fulmar-demo.vocab.txt",
                                        "--max-tokens", "2", "Hello")
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_what_cannot_be_tuned_is_refused_before_anything_is_written(self):
        (self.room / "bad.jsonl").write_text('{"text":"fine"}\n{"text":7}\n')
        (self.room / "full").mkdir()
        (self.room / "full" / "file").write_text("")
        for words, wanted in [
                (["--data", "bad.jsonl", "--output", "x"], "bad.jsonl: line 2: 'text' is number 7"),
                (["--output", "full"], "full is not empty"),
                (["--resume", "full"], "full holds no checkpoint"),
                ([], "--output"),
                (["--output", "x", "--rank", "4"], "--rank has no effect with --method state"),
                (["--output", "x", "--method", "miss", "--alpha", "4"], "--alpha has no effect with --method miss"),
                (["--output", "x", "--steps", "4", "--epochs", "4"], "--epochs has no effect with --steps"),
        ]:
            done = self.run_program("tune", "-m", MODEL, *([] if "--data" in words else ["--data", "data.jsonl"]), *words)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(wanted, done.stderr)
            self.assertFalse((self.room / "x").exists())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
