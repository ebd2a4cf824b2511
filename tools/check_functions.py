#!/usr/bin/env python3
"""Fails on functions of src that are longer than a screen, kernels and members included.

A function reaches from its first line, template parameters included, to its closing brace; lambdas count as part of the
function that they stand in. The reader of C++ is that of check_names.py.
"""
import re
import sys
from pathlib import Path

from check_names import bare, behind, blanked, is_variable

ROOT = Path(__file__).resolve().parent.parent
SUFFIXES = {".h", ".cpp", ".cu"}
LONGEST = 70  # lines
SCOPE = re.compile(r'(?:inline\s+)?namespace\b|extern\s*$|(?:struct|class|union)\b')


def statements(text):
    """(head, start, end, whether it is a function with its body) of what a blanked source has at namespace and class scope."""
    begin = at = 0
    while at < len(text):
        sign, head = text[at], bare(text[begin:at])
        if sign in "([":
            at = behind(text, at)
        elif sign == "{" and SCOPE.match(head) and "(" not in head:
            begin = at = at + 1
        elif sign == "{" and ("(" not in head or is_variable(head)):
            at = behind(text, at)
        elif sign == "{":
            at = behind(text, at)
            if re.match(r"\s*[,{]", text[at:]):  # members that a constructor sets up before its body
                continue
            yield head, begin + len(text[begin:]) - len(text[begin:].lstrip()), at, True
            begin = at
        elif sign in ";}" or (sign == ":" and head in ("public", "private", "protected")):
            if sign == ";" and head:
                yield head, begin + len(text[begin:]) - len(text[begin:].lstrip()), at, False
            begin = at = at + 1
        else:
            at += 1


def functions(text):
    """(name, first line, lines) of all functions that a source defines."""
    text = blanked(text)
    return [(head[:head.find("(")].split()[-1], text.count("\n", 0, start) + 1, text.count("\n", start, at) + 1)
            for head, start, at, is_defined in statements(text) if is_defined]


def too_long(path, text):
    """One line for each function of a source that is longer than LONGEST."""
    return [f"{path}:{line}: {name} has {lines} lines; wanted: at most {LONGEST}, the rest in functions of its own"
            for name, line, lines in functions(text) if lines > LONGEST]


def main():
    files = sorted(path for path in (ROOT / "src").rglob("*") if path.suffix in SUFFIXES)
    problems = [line for path in files for line in too_long(path.relative_to(ROOT), path.read_text())]
    print("\n".join(problems) if problems else f"functions: none of src has more than {LONGEST} lines")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
