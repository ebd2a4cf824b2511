#!/usr/bin/env python3
"""`bench` refuses options that say nothing to the model it makes, or to the one it reads, by both names.

usage: bench_options_test.py FULMAR
"""
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(sys.argv[1]).resolve()
OF_FILES = [["--model", "no-such.pth"], ["--quantize", "q4_k"], ["--quantize-keep-head"], ["--allow-nonfinite"]]
CASES = [(["--synthetic", "rwkv7-0.1b", *words], words[0]) for words in OF_FILES] + [(["--zeros", "0.9"], "--zeros")]


def fault(words, named):
    done = subprocess.run([PROGRAM, "bench", "--devices", "cpu", *words], capture_output=True, text=True, timeout=60)
    if done.returncode == 2 and named in done.stderr and "--synthetic" in done.stderr:
        return ""
    return f"{' '.join(words)}: exit {done.returncode}: {done.stderr[-200:]}"


faults = [text for words, named in CASES if (text := fault(words, named))]
print("\n".join(faults) or f"{len(CASES)} refused")
sys.exit(1 if faults else 0)
