"""Skill 4: fill in the middle of sequences, alphabets, brackets and a little code."""

from __future__ import annotations

import random
import string

from .common import Turn
from .words import any_word

_DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
_MONTHS = "January February March April May June July August September October November December".split()
_PAIRS = {"(": ")", "[": "]", "{": "}", "<": ">"}
_CODE = [("def add(a, b):\n    return ", "a + b", "\n"), ("def sub(a, b):\n    return ", "a - b", "\n"),
         ("def mul(a, b):\n    return ", "a * b", "\n"), ("int add(int a, int b) {\n    return ", "a + b;", "\n}"),
         ("for i in range(10):\n    ", "print(i)", "\n"), ("def square(x):\n    return ", "x * x", "\n"),
         ("if x > 0:\n    print(\"positive\")\n", "else:", "\n    print(\"not positive\")"),
         ("#include <cstdio>\nint main() { ", "puts(\"hello\");", " }")]


def prompt(prefix: str, suffix: str) -> str:
    """The fill-in-the-middle template; nothing is trimmed."""
    return f"✿prefix✿✿suffix✿{suffix}✿middle✿{prefix}"


def _cut(rng: random.Random, items: list[str], sep: str, before: int, middle: int) -> tuple[str, str, str]:
    """Cut a sequence after `before` items, take `middle` items out."""
    left = sep.join(items[:before]) + sep
    gap = sep.join(items[before:before + middle])
    right = sep + sep.join(items[before + middle:])
    if before > 1 and rng.random() < 0.3:       # the separators belong to the middle
        blanks = len(sep)
        left, gap, right = left[:-blanks], sep + gap + sep, right[blanks:]
    elif rng.random() < 0.3 and len(gap) > 2:   # a cut inside an item
        shift = rng.randint(1, min(3, len(gap) - 1))
        left, gap = left + gap[:shift], gap[shift:]
    return left, gap, right


def make(rng: random.Random) -> Turn:
    """One fill-in-the-middle task; `user` holds the whole raw prompt."""
    luck = rng.random()
    if luck < 0.45:
        kind, step = "numbers", rng.choice((1, 1, 1, 1, 2, 2, 3, 5, 10, -1, -2))
        before, middle, after = rng.randint(2, 6), rng.randint(1, 5), rng.randint(1, 4)
        count = before + middle + after
        low = rng.choice((1, 1, 2, 5, 10, rng.randint(0, 30), rng.randint(0, 99), rng.randint(0, 400)))
        if step < 0:
            low += -step * count
        items = [str(low + step * i) for i in range(count)]
        left, gap, right = _cut(rng, items, rng.choice((", ", ", ", ",", " ", "\n")), before, middle)
    elif luck < 0.66:
        kind = "alphabet"
        before, middle, after = rng.randint(1, 8), rng.randint(1, 8), rng.randint(1, 6)
        middle = rng.randint(8, 14) if rng.random() < 0.1 else middle
        after = min(after, 26 - before - middle)
        letters = rng.choice((string.ascii_lowercase, string.ascii_lowercase, string.ascii_uppercase))
        start = rng.randint(0, 26 - before - middle - after)
        items = list(letters[start:start + before + middle + after])
        if rng.random() < 0.5:
            word = "".join(items)
            middle = 0 if rng.random() < 0.05 else middle
            left, gap, right = word[:before], word[before:before + middle], word[before + middle:]
        else:
            left, gap, right = _cut(rng, items, rng.choice((", ", ",", " ", "-")), before, middle)
    elif luck < 0.86:
        kind = "brackets"
        opened = rng.choices("([{<" if rng.random() < 0.3 else "([{", k=rng.randint(1, 6))
        closed = [_PAIRS[c] for c in reversed(opened)]
        body = rng.choice(("", "x", "1", any_word(rng, 1, 5)))
        split = rng.randint(1, len(closed))
        if rng.random() < 0.4:
            opened = [rng.choice(("", "", any_word(rng, 1, 3))) + c for c in opened]
        left, gap, right = "".join(opened) + body, "".join(closed[:split]), "".join(closed[split:])
        if not right and rng.random() < 0.5:
            right = ";"
    elif luck < 0.95:
        kind, cycle = "calendar", rng.choice((_DAYS, _MONTHS))
        before, middle, after = rng.randint(1, 3), rng.randint(1, 3), rng.randint(1, 2)
        start = rng.randrange(len(cycle))
        items = [cycle[(start + i) % len(cycle)] for i in range(before + middle + after)]
        left, gap, right = _cut(rng, items, rng.choice((", ", " ", ",")), before, middle)
    else:
        left, gap, right = rng.choice(_CODE)
        return Turn("fim code", prompt(left, right), gap, "", "code")  # too few to hold any out
    return Turn("fim " + kind, prompt(left, right), gap, "", f"fim {left}|{right}")
