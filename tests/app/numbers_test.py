#!/usr/bin/env python3
"""Every option of every command that takes a number refuses what is none, and what is not finite, as a usage error.

usage: numbers_test.py FULMAR
"""
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from commands import commands, help_of

PROGRAM = Path(sys.argv[1]).resolve()
NO_NUMBERS = ["nan", "NaN", "-nan", "inf", "-inf", "infinity", "1e999", "-1e999", "", "many",
              "0x10", "010", "0b11", "0o7", "+1", " 1", "1_0"]
NUMBER = re.compile(r"^\s+(?:-\w,)?(--[\w-]+)(?:,\S+)? (?:FLOAT|INT|UINT|NUMBER|POSITIVE|NONNEGATIVE)\b")


def run(folder, *words):
    return subprocess.run([PROGRAM, *words], cwd=folder, capture_output=True, text=True, timeout=30,
                          stdin=subprocess.DEVNULL)


def numeric_options(folder, command):
    return [match.group(1) for line in help_of(PROGRAM, folder, *command).splitlines() if (match := NUMBER.match(line))]


def fault(case):
    folder, command, option, value = case
    try:
        done = run(folder, *command, f"{option}={value}")
    except subprocess.TimeoutExpired:
        return f"{' '.join(command)} {option}={value!r} is taken"
    if done.returncode == 2 and option in done.stderr:
        return ""
    return f"{' '.join(command)} {option}={value!r}: exit {done.returncode}: {done.stderr[-200:]}"


def main():
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(4) as several:
        options = [(command, option) for command in commands(PROGRAM, folder) for option in numeric_options(folder, command)]
        cases = [(folder, command, option, value) for command, option in options for value in NO_NUMBERS]
        faults = [text for text in several.map(fault, cases) if text]
    print(f"{len(options)} options, {len(cases)} values: {len(faults)} taken or refused without their name")
    print("\n".join(faults))
    floats = {"--grace", "--session-ttl-days", "--temperature", "--seconds"}
    missed = floats - {option for _, option in options}
    if missed:
        print("not found in the help:", missed)
    return 1 if faults or missed else 0


if __name__ == "__main__":
    sys.exit(main())
