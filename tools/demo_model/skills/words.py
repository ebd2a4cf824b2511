"""Skill 3: reversal, change of case and sorting of short words."""

from __future__ import annotations

import random
import string

from .common import NAMES, Turn, phrase, pseudo_word
from .lexicon import WORDS

ENGLISH = sorted({e for e, _ in WORDS} | {n.lower() for n in NAMES})

_REVERSE = ["Reverse {w}", "Reverse {w}.", "Reverse the word {w}.", 'Reverse "{w}".', 'Reverse the word "{w}".',
            "Reverse: {w}", "Spell {w} backwards.", "Write {w} backwards.", "What is {w} backwards?",
            "What is {w} reversed?", "Turn {w} around.", "{w} backwards"]
_UPPER = ["Uppercase {w}", "Uppercase: {w}", "Write {w} in upper case.", "Write {w} in capital letters.",
          'Uppercase "{w}".', "Upper-case {w}", "Put {w} in capitals.", "Make {w} upper case.", "Capitalise all of {w}.",
          "{w} in upper case", "Convert {w} to upper case.", "{w} in capital letters"]
_LOWER = ["Lowercase {w}", "Lowercase: {w}", "Write {w} in lower case.", 'Lowercase "{w}".', "Make {w} lower case.",
          "{w} in lower case", "Convert {w} to lower case.", "Write {w} in small letters."]
_LETTERS = ["Sort the letters of {w}.", "Sort the letters in {w}.", 'Sort the letters of "{w}".',
            "Sort the letters of the word {w}.", "Order the letters of {w}.", "Put the letters of {w} in order.",
            "Put the letters of {w} in alphabetical order.", "Letters of {w} in order", "Sort letters: {w}"]
_LIST = ["Sort these words: {w}", "Sort: {w}", "Sort the words {w}", "Sort the words: {w}", "Sort {w}",
         "Sort alphabetically: {w}", "Put these words in order: {w}", "Put in alphabetical order: {w}",
         "Put these words in alphabetical order: {w}", "Order these words: {w}"]


def any_word(rng: random.Random, low: int = 3, high: int = 9) -> str:
    """A word in small letters: English, pronounceable or plain random."""
    luck = rng.random()
    if luck < 0.35:
        while True:
            word = rng.choice(ENGLISH)
            if low <= len(word) <= high:
                return word
    if luck < 0.75:
        return pseudo_word(rng, low, high)
    return "".join(rng.choices(string.ascii_lowercase, k=rng.randint(low, high)))


def _spaced(word: str) -> str:
    return " ".join(word)


def make(rng: random.Random) -> Turn:
    """One of the five word tasks."""
    task = rng.random()
    if task < 0.28:
        w = any_word(rng)
        if rng.random() < 0.1:
            w = w.capitalize()
        r = w[::-1]
        return Turn("reverse", phrase(rng, _REVERSE, w=w), r, f"Letters: {_spaced(w)}. Backwards: {_spaced(r)}.",
                    f"rev {w}")
    if task < 0.48:
        w = any_word(rng, 3, 11)
        if rng.random() < 0.2:
            w += " " + any_word(rng)
        elif rng.random() < 0.1:
            w = w.capitalize()
        return Turn("upper", phrase(rng, _UPPER, w=w), w.upper(), f"Each letter of {w} becomes a capital.", f"up {w}")
    if task < 0.55:
        w = any_word(rng, 3, 11).upper()
        return Turn("lower", phrase(rng, _LOWER, w=w), w.lower(), f"Each letter of {w} becomes small.", f"low {w}")
    if task < 0.78:
        w = any_word(rng, 3, 8)
        s = "".join(sorted(w))
        return Turn("sort-letters", phrase(rng, _LETTERS, w=w), s,
                    f"Letters: {_spaced(w)}. In order: {_spaced(s)}.", f"sort {w}")
    n = rng.choice((2, 3, 3, 3, 4, 4, 5))
    items: list[str] = []
    while len(items) < n:
        w = rng.choice(ENGLISH) if rng.random() < 0.75 else pseudo_word(rng, 3, 7)
        if w not in items:
            items.append(w)
    sep = ", " if rng.random() < 0.75 else " "
    order = sorted(items)
    firsts = ", ".join(f"{w[0]} {w}" for w in items)
    return Turn("sort-words", phrase(rng, _LIST, w=sep.join(items)), sep.join(order), f"By letter: {firsts}.",
                "list " + " ".join(items))
