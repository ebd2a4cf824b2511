#!/usr/bin/env python3
"""Fails on a comment above a function that does not begin with a verb of what it does: "Returns", "Writes", "Parses".

Headers and sources of src are read: comments that stand directly above a function, member or kernel. The reader of
C++ is that of check_names.py.
"""
import re
import sys
from pathlib import Path

from check_functions import SUFFIXES, statements
from check_names import behind, blanked

ROOT = Path(__file__).resolve().parent.parent
VERB = re.compile(r"[A-Z][a-z]+(?:-[a-z]+)*s\b")
# Words that end like a verb of the third person and are none.
OTHERS = {"Access", "Addends", "As", "Attributes", "Bits", "Bytes", "Characters", "Clients", "Codes", "Columns",
          "Counters", "Digits", "Entries", "Errors", "Fields", "Figures", "Files", "Functions", "Ids", "Is", "Items",
          "Its", "Kernels", "Keys", "Less", "Lines", "Members", "Messages", "Models", "Numbers", "Others",
          "Positions", "Requests", "Results", "Rows", "Scalars", "Schemas", "Seconds", "Sequences", "Sessions",
          "Shards", "Slots", "States", "Steps", "Strings", "Tags", "Tensors", "Texts", "This", "Threads", "Thus",
          "Tokens", "Units", "Values", "Weights", "Words", "Workers", "Zeros"}
TYPE = re.compile(r"(?:struct|class|union|enum|using|typedef|friend class|friend struct|static_assert)\b")


def without_angles(head):
    """A declaration without the parameters of the templates that it names."""
    at = 0
    while found := re.compile(r"(?<=\w)<(?=[^<=])").search(head, at):
        if head[:found.start()].endswith("operator"):
            at = found.end()
            continue
        head = head[:found.start()] + head[behind(head, found.start()):]
    return head


def is_function(head):
    """Whether a statement declares or defines one; what is deleted or by default is none that a comment tells of."""
    head = without_angles(head)
    signature = head.split("{")[0]
    at = signature.find("(")
    if TYPE.match(head) or at < 0 or re.match(r"\(\s*\*", signature[at:]) or re.search(r"=\s*(delete|default)$", head):
        return False
    return "operator" in head or "=" not in signature[:at]


def comments(text):
    """(line, text) of the comments that stand directly above a function."""
    lines = text.split("\n")
    found = []
    code = blanked(text)
    for head, start, _, _ in statements(code):
        last = code.count("\n", 0, start)
        first = last
        while first > 0 and lines[first - 1].lstrip().startswith("//"):
            first -= 1
        if first < last and is_function(head):
            found.append((first + 1, " ".join(line.strip().lstrip("/ ") for line in lines[first:last])))
    return found


def begins_well(comment):
    """Whether a comment begins with a verb in the third person."""
    word = VERB.match(comment)
    return word is not None and word.group() not in OTHERS


def problems_of(path, text):
    """One line for each comment of a source that begins with something else."""
    return [f"{path}:{line}: '{comment[:60]}'; wanted: a verb that says what the function does, such as Returns"
            for line, comment in comments(text) if not begins_well(comment)]


def main():
    files = sorted(path for path in (ROOT / "src").rglob("*") if path.suffix in SUFFIXES)
    problems = [line for path in files for line in problems_of(path.relative_to(ROOT), path.read_text())]
    print("\n".join(problems) if problems else "comments: those of functions begin with a verb")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
