#!/usr/bin/env python3
"""What each kind of weights costs: quantisation_costs.py PROGRAM [--cases N] NAME=MODEL:TASK[:VOCABULARY] ...

Prints a table in Markdown: for every kind and model one `fulmar eval --quantize KIND+stored_head --against
MODEL`. A TASK that ends in .jsonl is a suite, of which N cases are taken at random (default 200): error of the logits
directly behind the prompts and cases answered right. `digits` is the suite of the model that reverses digit strings, two
of each length from 1 to 60. Any other TASK is a text: error behind every token and bits of a byte.
"""
import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

KINDS = ["q8_0", "int8_g128", "int8", "q6_k", "fp8", "q5_1", "q5_0", "q5_k", "q4_1", "iq4_nl", "q4_k", "q4_0", "int4",
         "nf4", "q3_k", "q2_k"]
LONGEST_NUMBER = 60  # digits
SEED = 7


def digit_cases(seed=SEED):
    draw = random.Random(seed)
    for length in range(1, LONGEST_NUMBER + 1):
        for _ in range(2):
            digits = str(draw.randrange(10 ** (length - 1), 10 ** length))
            yield json.dumps({"skill": "digits", "prompt": digits + ",", "answer": digits[::-1]})


def suite_lines(task, cases):
    """The cases to run, as lines; None: the task is a text."""
    if task == "digits":
        return list(digit_cases())
    if not task.endswith(".jsonl"):
        return None
    lines = Path(task).read_text(encoding="utf-8").splitlines()
    return random.Random(SEED).sample(lines, cases) if len(lines) > cases else lines


def find(pattern, output, command):
    found = re.findall(pattern, output, re.MULTILINE)
    if not found:
        sys.exit(f"{' '.join(map(str, command))} printed no {pattern}: {output}")
    return found


def measure(program, kind, model, task, vocabulary):
    """Error and score; `kind` empty: the score of the model itself."""
    suite = str(task).endswith(".jsonl")
    command = [program, "--log", "error", "eval", "--device", "cpu", "--threads", "1", "-q", "-m", model,
               "--suite" if suite else "--text", task]
    command += ["--quantize", kind + "+stored_head", "--against", model] if kind else []
    command += ["--vocab", vocabulary] if vocabulary else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}: {done.stderr.strip()}")
    error = find(r"^prompts +([0-9.]+)" if suite else r"^relative +([0-9.]+)", done.stdout, command)[0] if kind else 0
    if not suite:
        return float(error), find(r"^bits +([0-9.]+)", done.stdout, command)[0]
    skills = find(r"^\S.* +(\d+) +(\d+) +[0-9.]+ % ", done.stdout, command)
    return float(error), str(sum(int(right) for _, right in skills))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--cases", type=int, default=200, help="of a suite that has more")
    parser.add_argument("models", nargs="+", metavar="NAME=MODEL:TASK[:VOCABULARY]")
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        head, models = ["kind"], []
        for argument in flags.models:
            name, model, task, vocabulary = re.fullmatch(r"([^=]+)=([^:]+):([^:]+):?(.*)", argument).groups()
            lines = suite_lines(task, flags.cases)
            if lines is not None:
                task = Path(folder) / f"{len(models)}.jsonl"
                task.write_text("\n".join(lines) + "\n", encoding="utf-8")
            head += [f"error of {name}", "bits a byte" if lines is None else f"right of {len(lines)}"]
            models.append((model, task, vocabulary))
        print(f"| {' | '.join(head)} |\n{'|---' * len(head)}|")
        for kind in ["", *KINDS]:
            cells = [f"`{kind}`" if kind else "as stored"]
            for model in models:
                error, score = measure(flags.program, kind, *model)
                cells += [f"{error:.2g}", score]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
