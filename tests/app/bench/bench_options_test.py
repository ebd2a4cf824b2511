#!/usr/bin/env python3
"""Each command of `bench` refuses options that say nothing to the model it makes, or to the one it reads, by both names,
and has its own options alone.

usage: bench_options_test.py FULMAR
"""
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(sys.argv[1]).resolve()
OF_FILES = [["--model", "no-such.pth"], ["--quantize", "q4_k"], ["--allow-nonfinite"]]
CASES = [(["--synthetic", "rwkv7-0.1b", *words], words[0]) for words in OF_FILES] + [(["--zeros", "0.9"], "--zeros")]
# An option of each command, and the commands that take it.
OWN = {"--decode": {"steps", "kernels", "drafts", "structured"}, "--prefill": {"steps", "kernels"}, "--rate": {"load"},
       "--streams": {"serve"}, "--acceptance": {"drafts"}, "--repeats": {"steps", "kernels", "serve", "drafts", "structured"},
       "--slots": {"load", "serve"}, "--state-dtype": {"steps", "kernels", "load", "serve", "drafts", "structured"}}
COMMANDS = sorted(set().union(*OWN.values()))


def run(*words):
    return subprocess.run([PROGRAM, "bench", *words], capture_output=True, text=True, timeout=60)


def fault(command, words, named):
    done = run(command, "--devices", "cpu", *words)
    if done.returncode == 2 and named in done.stderr and "--synthetic" in done.stderr:
        return ""
    return f"{command} {' '.join(words)}: exit {done.returncode}: {done.stderr[-200:]}"


def stranger(command, option, owners):
    """Whether a command has an option of others, or lacks its own."""
    known = f"\n  {option} " in run(command, "--help").stdout
    return "" if known == (command in owners) else f"{command}: {option} is {'known' if known else 'not known'}"


faults = [text for command in COMMANDS for words, named in CASES if (text := fault(command, words, named))]
faults += [text for command in COMMANDS for option, owners in OWN.items() if (text := stranger(command, option, owners))]
print("\n".join(faults) or f"{len(COMMANDS)} commands: each has its own options alone")
sys.exit(1 if faults else 0)
