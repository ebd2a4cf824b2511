"""Skill 1: sums and differences of numbers of up to three digits."""

from __future__ import annotations

import random

from .common import Turn, phrase

_ADD = ["What is {a} + {b}?", "What is {a}+{b}?", "{a} + {b} = ?", "{a}+{b}=?", "{a} + {b}", "{a}+{b}", "{a} + {b} =",
        "{a}+{b}=", "Calculate {a} + {b}.", "Compute {a} + {b}.", "What is {a} plus {b}?", "{a} plus {b}",
        "How much is {a} plus {b}?", "How much is {a} + {b}?", "Add {a} and {b}.", "Add {b} to {a}.",
        "What is the sum of {a} and {b}?", "Sum of {a} and {b}", "Tell me {a} + {b}.", "What's {a} + {b}?",
        "What's {a} plus {b}?", "Solve {a} + {b}."]
_SUB = ["What is {a} - {b}?", "What is {a}-{b}?", "{a} - {b} = ?", "{a}-{b}=?", "{a} - {b}", "{a}-{b}", "{a} - {b} =",
        "{a}-{b}=", "Calculate {a} - {b}.", "Compute {a} - {b}.", "What is {a} minus {b}?", "{a} minus {b}",
        "How much is {a} minus {b}?", "How much is {a} - {b}?", "Subtract {b} from {a}.", "Take {b} from {a}.",
        "Take {b} away from {a}.", "Tell me {a} - {b}.", "What's {a} - {b}?", "What's {a} minus {b}?",
        "Solve {a} - {b}."]
_DIFF = ["What is the difference between {a} and {b}?", "Difference of {a} and {b}"]


def _number(rng: random.Random) -> int:
    digits = rng.choice((1, 2, 2, 3, 3, 3))
    return rng.randint(0 if digits == 1 else 10 ** (digits - 1), 10 ** digits - 1)


def add_steps(a: int, b: int) -> str:
    """Column addition from the right, with every carry."""
    steps, carry, x, y = [], 0, a, b
    while True:
        total = x % 10 + y % 10 + carry
        step = f"{x % 10}+{y % 10}" + ("+1" if carry else "") + f"={total}"
        carry = total // 10
        x, y = x // 10, y // 10
        steps.append(step + (", carry 1" if carry else ""))
        if not (x or y):
            return f"{a} + {b}: " + "; ".join(steps) + f". So {a + b}."


def sub_steps(a: int, b: int) -> str:
    """Column subtraction from the right, with every borrow."""
    if a < b:
        return f"{a} - {b}: {a} is less than {b}, so minus the rest of {sub_steps(b, a)[:-1]}, minus: {a - b}."
    steps, borrow, x, y = [], 0, a, b
    while True:
        top, low = x % 10, y % 10 + borrow
        less = f"-{y % 10}" + ("-1" if borrow else "")
        if top < low:
            steps.append(f"{top}{less} borrow, {top + 10}{less}={top + 10 - low}")
            borrow = 1
        else:
            steps.append(f"{top}{less}={top - low}")
            borrow = 0
        x, y = x // 10, y // 10
        if not (x or y):
            return f"{a} - {b}: " + "; ".join(steps) + f". So {a - b}."


def make(rng: random.Random) -> Turn:
    """A sum or a difference in one of many wordings."""
    a, b = _number(rng), _number(rng)
    if rng.random() < 0.5:
        return Turn("add", phrase(rng, _ADD, a=a, b=b), str(a + b), add_steps(a, b), f"{a}+{b}")
    if a < b and rng.random() < 0.7:
        a, b = b, a
    words = _DIFF if a >= b and rng.random() < 0.1 else _SUB
    return Turn("subtract", phrase(rng, words, a=a, b=b), str(a - b), sub_steps(a, b), f"{a}-{b}")
