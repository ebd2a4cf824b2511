#!/usr/bin/env python3
"""Every answer of the demo model's suite is the same with drafts and without: demo_speculation.py FULMAR MODELS."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile


def answers(program, models, folder, speculate):
    """Runs the suite; its cases as (skill, prompt, output), and what was printed."""
    path = folder / f"{speculate}.jsonl"
    printed = subprocess.run(
        [program, "eval", "--quiet", "--suite", "demo", "--slots", "4", "--speculate", speculate, "--json", str(path),
         "--model", str(pathlib.Path(models) / "fulmar-demo.safetensors")],
        check=True, capture_output=True, text=True).stdout
    cases = [json.loads(line) for line in path.read_text().splitlines()]
    return [{key: value for key, value in case.items() if key != "gap"} for case in cases], printed


def main():
    program, models = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        plain, _ = answers(program, models, pathlib.Path(folder), "off")
        drafted, printed = answers(program, models, pathlib.Path(folder), "ngram")
    print(printed)
    assert len(plain) > 1000, f"{len(plain)} cases"
    different = [(a, b) for a, b in zip(plain, drafted, strict=True) if a != b]
    assert not different, f"{len(different)} answers differ, first: {different[0]}"
    shares = [float(share) for share in re.findall(r"% +[0-9.]+ +([0-9.]+) %", printed)]
    assert shares and max(shares) > 50, f"shares of accepted drafts: {shares}"


main()
