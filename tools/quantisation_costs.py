#!/usr/bin/env python3
"""What each quantisation costs: quantisation_costs.py PROGRAM NAME=MODEL:FILE[:VOCABULARY] ... > TABLE

For every kind and every model one `fulmar eval --quantize KIND --quantize-keep-head --against MODEL`, on a suite (FILE
ends in .jsonl) or on a text. The table is tab-separated: kind, then for each model the relative rms of its logits, behind
a suite directly after the prompts, and the share of right answers in percent or the bits of a byte.
"""
import re
import subprocess
import sys

KINDS = ["q8_0", "int8_g128", "int8", "q6_k", "fp8", "q5_1", "q5_0", "q5_k", "q4_1", "iq4_nl", "q4_k", "q4_0", "int4",
         "nf4", "q3_k", "q2_k"]


def right_answers(output):
    """Cases and right ones over all skills of a suite's table."""
    skills = re.findall(r"^\S.* +(\d+) +(\d+) +[0-9.]+ % ", output, re.MULTILINE)
    return [sum(int(skill[i]) for skill in skills) for i in (0, 1)]


def measure(program, kind, model, file, vocabulary):
    suite = file.endswith(".jsonl")
    command = [program, "--log", "error", "eval", "--device", "cpu", "--threads", "1", "-q", "-m", model, "--against", model,
               "--quantize", kind, "--quantize-keep-head", "--suite" if suite else "--text", file]
    if vocabulary:
        command += ["--vocab", vocabulary]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    relative = re.search(r"^prompts +([0-9.]+)" if suite else r"^relative +([0-9.]+)", done.stdout, re.MULTILINE)
    if done.returncode != 0 or relative is None:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}: {done.stderr.strip()}")
    if not suite:
        return [relative.group(1), re.search(r"^bits +([0-9.]+)", done.stdout, re.MULTILINE).group(1)]
    cases, right = right_answers(done.stdout)
    return [relative.group(1), f"{100 * right / cases:.1f}"]


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    program = sys.argv[1]
    models = [re.fullmatch(r"([^=]+)=([^:]+):([^:]+):?(.*)", argument).groups() for argument in sys.argv[2:]]
    print("\t".join(["kind"] + [f"{part} of {name}" for name, *_ in models for part in ("error", "score")]))
    for kind in KINDS:
        cells = [kind]
        for _, *what in models:
            cells += measure(program, kind, *what)
        print("\t".join(cells), flush=True)


if __name__ == "__main__":
    main()
