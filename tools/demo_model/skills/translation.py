"""Skill 5: translation of the fixed word list and of short sentences."""

from __future__ import annotations

import random

from .common import Turn, phrase, reserved
from .lexicon import ADJECTIVES, PATTERN_NOUNS, PATTERNS, SENTENCES, WORDS

_TO_CHINESE = ["Translate {x} to Chinese", "Translate to Chinese: {x}", "Translate into Chinese: {x}",
               'How do you say "{x}" in Chinese?', "What is {x} in Chinese?", 'Translate "{x}" into Chinese.',
               "{x} in Chinese", "How do I say {x} in Chinese?", "Chinese for {x}"]
_TO_ENGLISH = ["Translate {x} to English", "Translate to English: {x}", "Translate into English: {x}",
               "What does {x} mean?", "What is {x} in English?", "{x} in English", "What does {x} mean in English?"]


def pair(rng: random.Random, held_out: bool) -> tuple[str, str, str]:
    """(kind, English, Chinese); only pattern sentences can be held out."""
    luck = rng.random()
    if not held_out and luck < 0.45:
        return "word", *rng.choice(WORDS)
    if not held_out and luck < 0.62:
        return "sentence", *rng.choice(SENTENCES)
    while True:
        english, chinese = rng.choice(PATTERNS)
        noun, adjective = rng.choice(PATTERN_NOUNS), rng.choice(ADJECTIVES)
        english = english.format(n=noun[0], a=adjective[0])
        if reserved("tr " + english) == held_out:
            return "pattern", english, chinese.format(n=noun[1], a=adjective[1])


def loosen(rng: random.Random, text: str, kind: str) -> str:
    """Vary the source text: capitals and final punctuation."""
    if kind == "word":
        return text.capitalize() if rng.random() < 0.2 else text
    if rng.random() < 0.2:
        text = text[:-1]
    elif rng.random() < 0.1 and text[-1] in ".。":
        text = text[:-1] + ("!" if text[-1] == "." else "！")
    return text[0].lower() + text[1:] if rng.random() < 0.12 else text


def directed(rng: random.Random, held_out: bool) -> tuple[str, bool, str, str]:
    """(kind, to Chinese?, source text, right translation)."""
    kind, english, chinese = pair(rng, held_out)
    if rng.random() < 0.5:
        return kind, True, loosen(rng, english, kind), chinese
    return kind, False, loosen(rng, chinese, kind), english


def make_chat(rng: random.Random, held_out: bool) -> Turn:
    """A translation asked for in a chat turn."""
    kind, to_chinese, source, target = directed(rng, held_out)
    user = phrase(rng, _TO_CHINESE if to_chinese else _TO_ENGLISH, x=source)
    return Turn("translate " + kind, user, target, f"{source} is {target}", "tr " + source)
