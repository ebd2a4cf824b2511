#!/usr/bin/env python3
"""Fails when a name stands for two things: a type that two files of src define; in src/gpu also a constant or function.

File-local names may repeat for the compiler; a reader who greps one finds both. Kernels are file-local, so src/gpu is held
to more. Definitions at namespace scope are compared, unnamed namespaces included: members, and what functions define, are
read in place, except for types called by one of WORDS. The parser knows as much of C++ as those definitions need.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER, STRICT = "src", "src/gpu/"
# Nouns that fit nearly everything: as the name of a type each has one meaning, inside classes and functions, too.
WORDS = ("Entry", "Part", "Piece", "Place", "Row", "Share", "Slots", "Stage")
WORD_TYPE = re.compile(r"\b(?:struct|class|union|enum(?:\s+class|\s+struct)?)\s+(%s)\b[^;(){}<>,=]*{" % "|".join(WORDS))
SUFFIXES = {".h", ".cpp", ".cu"}
# Files of which a build takes one: the same names are their purpose. A header and its source are one, too.
TWINS = [(re.compile(r"vendor_(cuda|hip)"), "vendor"), (re.compile(r"/(nvidia|amd)/"), "/vendor/")]
# Overloads of one meaning that lie with the types they are for.
OVERLOADS = {"store2", "store4"}
BLANKED = re.compile(r'//[^\n]*|/\*.*?\*/|^[ \t]*#(?:[^\n\\]|\\.)*|"(?:[^"\\\n]|\\.)*"|(?<!\w)\'(?:[^\'\\\n]|\\.)*\'',
                     re.DOTALL | re.MULTILINE)
ATTRIBUTE = re.compile(r"\b(?:__launch_bounds__|__cluster_dims__|alignas|__align__|decltype)\s*\(")
PAIRS = {"(": ")", "[": "]", "{": "}", "<": ">"}


def blanked(text):
    """The text without comments, strings and directives; every line keeps its number."""
    return BLANKED.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)


def behind(text, at):
    """Where the bracket at `at` has closed."""
    opening, closing, depth = text[at], PAIRS[text[at]], 0
    while at < len(text):
        depth += (text[at] == opening) - (text[at] == closing)
        at += 1
        if depth == 0:
            break
    return at


def bare(head):
    """A declaration without its templates' parameters and attributes."""
    head = head.strip()
    while found := re.match(r"template\s*(?=<)", head):
        head = head[behind(head, found.end()):].strip()
    while found := ATTRIBUTE.search(head):
        head = head[:found.start()] + head[behind(head, found.end() - 1):]
    return head


def pieces(text):
    """The text split at commas that are in no bracket."""
    split, begin, at = [], 0, 0
    while at < len(text):
        if text[at] in "([{":
            at = behind(text, at)
            continue
        if text[at] == "," and text.count("<", begin, at) <= text.count(">", begin, at):
            split.append(text[begin:at])
            begin = at + 1
        at += 1
    return split + [text[begin:]]


def is_variable(head):
    """Whether it is one, or several, and no type or function; `head` is bare and ends at a brace or before it."""
    if re.match(r"(struct|class|union|enum)\b|.*\boperator\b", head):
        return False
    first, equals = head.find("("), re.search(r"(?<![=<>!])=(?!=)", head)
    return first < 0 or (equals is not None and equals.start() < first)


def variables_of(head):
    """The names of `type a = 1, b{2}, c[3]`."""
    return [found.group(1) for piece in pieces(head)
            if (found := re.match(r"[^={\[]*?(?<![:\w])(\w+)\s*(?:[={\[]|$)", piece))]


def block_of(head):
    """(name, whether it is a type) of what begins here; no name where it belongs to a class or a specialisation."""
    kind = re.match(r"(?:struct|class|union|enum(?:\s+class|\s+struct)?)\s+([\w:]+)\s*(<?)", head)
    if kind and "(" not in head:
        return (None if kind.group(2) or "::" in kind.group(1) else kind.group(1)), True
    function = re.search(r"([\w:~]+)\s*$", head[:head.find("(")])
    known = function and "::" not in function.group(1) and "operator" not in head
    return (function.group(1) if known else None), False


def definitions(text):
    """(name, line, whether it is a type) of all that a source defines at namespace scope; an alias is no type."""
    text = blanked(text)
    found, begin, at = [], 0, 0

    def take(names, is_type=False):
        start = begin + len(text[begin:]) - len(text[begin:].lstrip())
        found.extend((name, text.count("\n", 0, start) + 1, is_type) for name in names if name)

    while at < len(text):
        sign, head = text[at], text[begin:at]
        if sign in "([":
            at = behind(text, at)
        elif sign == "{" and re.search(r"\bnamespace\b[\w:\s]*$", head):
            begin = at = at + 1
        elif sign == "{" and is_variable(bare(head)):
            at = behind(text, at)
        elif sign == "{":
            at = behind(text, at)
            if re.match(r"\s*[,{]", text[at:]):  # members that a constructor sets up before its body
                continue
            name, is_type = block_of(bare(head))
            take([name], is_type)
            begin = at
        elif sign == ";":
            line = bare(head)
            if alias := re.match(r"using\s+(\w+)\s*=", line):
                take([alias.group(1)])
            elif line and is_variable(line) and not re.match(r"(using|extern|friend|static_assert)\b", line):
                take(variables_of(line))
            begin = at = at + 1
        elif sign == "}":
            begin = at = at + 1
        else:
            at += 1
    return found


def word_types(text):
    """(name, line) of all types called by one of WORDS, wherever they are defined."""
    text = blanked(text)
    return [(found.group(1), text.count("\n", 0, found.start()) + 1) for found in WORD_TYPE.finditer(text)]


def clashes(sources):
    """One line per name that two of the sources, path -> text, define."""
    places = {}
    for path in sorted(sources):
        twin = str(Path(path).with_suffix(""))
        for pattern, one in TWINS:
            twin = pattern.sub(one, twin)
        compared = [(name, line) for name, line, is_type in definitions(sources[path]) if is_type or path.startswith(STRICT)]
        for name, line in compared + word_types(sources[path]):
            places.setdefault(name, {}).setdefault(twin, f"{path}:{line}")
    return [f"{name} is defined in {' and '.join(files.values())}; wanted: one definition, or a telling name each"
            for name, files in sorted(places.items()) if len(files) > 1 and name not in OVERLOADS]


def main():
    files = [path for path in (ROOT / FOLDER).rglob("*") if path.suffix in SUFFIXES]
    problems = clashes({str(path.relative_to(ROOT)): path.read_text() for path in files})
    print("\n".join(problems) if problems else f"names: none of {FOLDER} stands for two things")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
