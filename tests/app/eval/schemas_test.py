#!/usr/bin/env python3
"""fulmar eval --schemas: a suite of its own, and 500 schemas of a public one where that lies beside the checkout.

    schemas_test.py PROGRAM MODELS

The second part wants ../shared/suites/maskbench-a.jsonl.xz and the World vocabulary in ../shared/vocab, which are data of
others and no part of the project; without them it says so.
"""
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM, MODELS = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
SHARED = Path(__file__).resolve().parents[3].parent / "shared"
SUITE = SHARED / "suites/maskbench-a.jsonl.xz"
VOCABULARY = SHARED / "vocab/rwkv_vocab_v20230424.txt"
# What 500 of the suite reach at least; raised with the compiler.
LEAST_COMPILED, LEAST_PASSED, MOST_INVALID = 480, 465, 0

OWN = [
    {"id": "own---pass", "schema": {"type": "integer"}, "tests": [{"valid": True, "data": 5}, {"valid": False, "data": "x"}]},
    {"id": "own---wrong", "schema": {"type": "integer"}, "tests": [{"valid": False, "data": 5}]},
    {"id": "own---refused", "schema": {"type": "string", "pattern": "(a)\\1"}, "tests": []},
]


def run(*arguments):
    done = subprocess.run([PROGRAM, "eval", *arguments], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return done.stdout


def row(table, name):
    """The numbers of a row: schemas, compile, pass, invalid taken, crashes, time-outs."""
    found = re.search(rf"^{name} +(\d+) +(\d+) +(\d+) +(\d+) +(\d+) +(\d+)$", table, re.M)
    assert found, f"no row {name!r} in\n{table}"
    return [int(number) for number in found.groups()]


def own_suite():
    with tempfile.TemporaryDirectory() as folder:
        suite, verdicts = Path(folder) / "own.jsonl", Path(folder) / "verdicts.jsonl"
        suite.write_text("".join(json.dumps(one) + "\n" for one in OWN))
        out = run("--schemas", suite, "--vocab", MODELS / "fulmar-demo.vocab.txt", "--each", "--json", verdicts)
        assert row(out, "own") == row(out, "all") == [3, 2, 1, 1, 0, 0], out
        assert out.rstrip().splitlines()[-1].startswith("all "), out
        assert "own---wrong tests[0] invalid, taken compact: 5" in out, out
        assert "own---refused refused: schema keyword 'pattern'" in out, out
        lines = [json.loads(line) for line in verdicts.read_text().splitlines()]
        assert [line["status"] for line in lines] == ["pass", "fail", "refused"], lines
        assert lines[0]["tests"][0]["valid"] and lines[0]["tests"][0]["right"], lines
    print("own suite: as wanted")


def public_suite():
    if not (SUITE.exists() and VOCABULARY.exists()):
        print(f"skipped: no {SUITE} or {VOCABULARY}")
        return
    out = run("--schemas", SUITE, "--vocab", VOCABULARY, "--sample", "500")
    schemas, compiled, passed, invalid, crashes, timeouts = row(out, "all")
    print(out)
    assert schemas == 500
    assert compiled >= LEAST_COMPILED, f"{compiled} of 500 compile; wanted {LEAST_COMPILED}"
    assert passed >= LEAST_PASSED, f"{passed} of 500 pass; wanted {LEAST_PASSED}"
    assert invalid <= MOST_INVALID, f"{invalid} invalid instances are taken; wanted at most {MOST_INVALID}"
    assert crashes == 0 and timeouts == 0, f"{crashes} crashes, {timeouts} time-outs"


own_suite()
public_suite()
