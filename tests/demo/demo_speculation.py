#!/usr/bin/env python3
"""Answers to a fourteenth of the demo model's suite are the same with drafts and without: demo_speculation.py FULMAR MODELS."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile


# What drafts, and the share of its drafts that must be right in the skill that it knows best.
SOURCES = {"ngram": 25, "model": 90, "both": 90}


def answers(program, models, suite, folder, speculate):
    """Runs the suite; its cases as (skill, prompt, output), and what was printed."""
    path = folder / f"{speculate}.jsonl"
    draft = ["--draft-model", str(models / "fulmar-demo-draft.safetensors")] if speculate in ("model", "both") else []
    printed = subprocess.run(
        [program, "eval", "--quiet", "--suite", str(suite), "--slots", "4", "--drafts", speculate, "--json", str(path),
         "--model", str(models / "fulmar-demo.safetensors"), *draft],
        check=True, capture_output=True, text=True).stdout
    cases = [json.loads(line) for line in path.read_text().splitlines()]
    return [{key: value for key, value in case.items() if key != "gap"} for case in cases], printed


def main():
    program, models = sys.argv[1], pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        suite = folder / "suite.jsonl"
        suite.write_text("".join((models / "demo-suite.jsonl").read_text().splitlines(keepends=True)[::14]))
        plain, _ = answers(program, models, suite, folder, "off")
        assert len(plain) > 150, f"{len(plain)} cases"
        for source, wanted in SOURCES.items():
            drafted, printed = answers(program, models, suite, folder, source)
            print(source, printed, sep="\n")
            different = [(a, b) for a, b in zip(plain, drafted, strict=True) if a != b]
            assert not different, f"{source}: {len(different)} answers differ, first: {different[0]}"
            shares = [float(share) for share in re.findall(r"% +[0-9.]+ +([0-9.]+) %", printed)]
            assert shares and max(shares) > wanted, f"{source}: shares of accepted drafts {shares}; wanted one above {wanted}"


main()
