#!/usr/bin/env python3
"""Answers to a seventh of the demo model's suite are the same with drafts and without: demo_speculation.py FULMAR MODELS."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile


def answers(program, models, suite, folder, speculate):
    """Runs the suite; its cases as (skill, prompt, output), and what was printed."""
    path = folder / f"{speculate}.jsonl"
    printed = subprocess.run(
        [program, "eval", "--quiet", "--suite", str(suite), "--slots", "4", "--speculate", speculate, "--json", str(path),
         "--model", str(pathlib.Path(models) / "fulmar-demo.safetensors")],
        check=True, capture_output=True, text=True).stdout
    cases = [json.loads(line) for line in path.read_text().splitlines()]
    return [{key: value for key, value in case.items() if key != "gap"} for case in cases], printed


def main():
    program, models = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        suite = folder / "suite.jsonl"
        suite.write_text("".join((pathlib.Path(models) / "demo-suite.jsonl").read_text().splitlines(keepends=True)[::7]))
        plain, _ = answers(program, models, suite, folder, "off")
        drafted, printed = answers(program, models, suite, folder, "ngram")
    print(printed)
    assert len(plain) > 300, f"{len(plain)} cases"
    different = [(a, b) for a, b in zip(plain, drafted, strict=True) if a != b]
    assert not different, f"{len(different)} answers differ, first: {different[0]}"
    shares = [float(share) for share in re.findall(r"% +[0-9.]+ +([0-9.]+) %", printed)]
    assert shares and max(shares) > 25, f"shares of accepted drafts: {shares}"


main()
