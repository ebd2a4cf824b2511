#!/usr/bin/env python3
"""What calibration buys: calibration_gains.py PROGRAM [--cases N] NAME=MODEL:TASK:TEXT[:VOCABULARY] ...

Prints a table in Markdown: for every kind and model the error of `fulmar quantize --keep head` against the model itself,
without and with `--calibrate TEXT`, from `fulmar eval --against`: relative error of the logits, divergence in nats, share of
positions with the same most likely token, along the answers where TASK is a suite. TASK is as in quantisation_costs.py;
cases of it that TEXT has as well are left out of that. TEXT may be `digits`, too: other numbers than those of the task.
"""
import argparse
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from quantisation_costs import digit_cases, suite_lines

KINDS = ["fp8", "q5_1", "q5_0", "q4_k", "iq4_nl", "q4_1", "q4_0", "nf4", "int4", "q3_k", "q2_k"]
IN_SAFETENSORS = ("nf4", "int8", "int4", "fp8")
OTHER_SEED = 11
NUMBER = r"([0-9.]+)"


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def distance(program, small, model, task, vocabulary):
    """Relative error, divergence in nats, share of equal most likely tokens in percent."""
    suite = str(task).endswith(".jsonl")
    out = run(program, "--log", "error", "eval", "--device", "cpu", "-q", "-m", small, "--against", model,
              "--suite" if suite else "--text", task, *vocabulary)
    pattern = rf"relative +{NUMBER}.*\ndivergence +{NUMBER} nats\nsame top +{NUMBER}"
    found = re.search(pattern, out)
    if not found:
        sys.exit(f"no distance in {out}")
    return [float(value) for value in found.groups()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--cases", type=int, default=200, help="of a suite that has more")
    parser.add_argument("--kinds", nargs="+", default=KINDS)
    parser.add_argument("--models", nargs="+", required=True, metavar="NAME=MODEL:TASK:TEXT[:VOCABULARY]")
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        names, models = [], []
        for argument in flags.models:
            name, model, task, text, vocabulary = re.fullmatch(r"([^=]+)=([^:]+):([^:]+):([^:]+):?(.*)", argument).groups()
            lines = suite_lines(task, flags.cases)
            if lines is not None:
                task = folder / f"{len(models)}.jsonl"
                task.write_text("\n".join(lines) + "\n", encoding="utf-8")
            if text == "digits" or text.endswith(".jsonl"):
                others = list(digit_cases(OTHER_SEED)) if text == "digits" else Path(text).read_text(encoding="utf-8").splitlines()
                others = [line for line in others if line not in set(lines or ())]
                random.Random(OTHER_SEED).shuffle(others)
                text = folder / f"calibrate-{len(models)}.jsonl"
                text.write_text("\n".join(others) + "\n", encoding="utf-8")
            names.append(name)
            models.append((model, task, text, ["--vocab", vocabulary] if vocabulary else []))
        head = ["kind"] + [f"{what} of {name}" for name in names for what in ("error", "nats", "same top")]
        print(f"| {' | '.join(head)} |\n{'|---' * len(head)}|")
        for kind in flags.kinds:
            cells = [f"`{kind}`"]
            for model, task, text, vocabulary in models:
                pairs = []
                for how in ((), ("--calibrate", text)):
                    small = folder / ("small.safetensors" if kind in IN_SAFETENSORS else "small.gguf")
                    run(flags.program, "--log", "error", "quantize", "-q", "--force", model, small, "--type", kind,
                        "--keep", "head", *vocabulary, *how)
                    pairs.append(distance(flags.program, small, model, task, vocabulary))
                (error, nats, top), (error2, nats2, top2) = pairs
                cells += [f"{error:.3g} → {error2:.3g}", f"{nats:.2g} → {nats2:.2g}", f"{top:.1f} → {top2:.1f}"]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
