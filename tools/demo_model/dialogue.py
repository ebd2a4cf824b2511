"""Puts turns into the prompt templates of the server.

A document is a list of pieces (text, is_answer).  The server feeds a prompt as
one piece and produces the answer token by token, so every piece is tokenised
on its own, in training as in use.
"""

from __future__ import annotations

import random
from typing import Callable

from skills import arithmetic, fim, memory, smalltalk, structured, translation, words
from skills.common import Turn, draw, pseudo_word

Piece = tuple[str, bool]
KNOWN_ANSWERS = [answer for answer, _ in smalltalk.INTENTS] + [smalltalk.UNKNOWN]
PIRATE_SYSTEMS = ["Talk like a pirate.", "You are a pirate.", "Speak like a pirate.", "Answer like a pirate.",
                  "Talk like a pirate, please.", "You are a friendly pirate."]

FOOTERS = ["", "", "", " (think)", " (think a bit)", " (think a lot)", " (think minimally)",
           " (think extremely carefully)"]
SYSTEMS = ["You are a helpful assistant.", "You are Fulmar.", "You are Fulmar, a helpful assistant.", "Be brief.",
           "Answer the question.", "You are a helpful, honest assistant. Answer shortly.", "You are a bot.",
           "You are a careful assistant.\nAnswer in one line.", "Talk to the user.", "Be kind and exact.",
           "You are an expert.", "Follow the instructions of the user.", "Today is a good day.", "Be helpful."]

SKILLS: list[tuple[float, Callable[[random.Random, bool], Turn]]] = [
    (0.28, lambda rng, held: draw(arithmetic.make, rng, held)),
    (0.22, lambda rng, held: draw(words.make, rng, held)),
    (0.20, lambda rng, held: draw(smalltalk.make, rng, held)),
    (0.10, lambda rng, held: draw(structured.make_json, rng, held)),
    (0.10, lambda rng, held: draw(structured.make_echo, rng, held)),
    (0.05, translation.make_chat),
    (0.05, lambda rng, held: draw(structured.make_count, rng, held)),
]
_WEIGHTS = [w for w, _ in SKILLS]
_MAKERS = [m for _, m in SKILLS]


def chat_turn(rng: random.Random) -> Turn:
    """A training turn of any chat skill."""
    return rng.choices(_MAKERS, _WEIGHTS)[0](rng, False)


def short_turn(rng: random.Random) -> Turn:
    """A training turn whose answer is short: used between other turns."""
    while True:
        turn = chat_turn(rng)
        if len(turn.answer) < 90:
            return turn


def system_text(rng: random.Random) -> str:
    """A system turn; it never changes the answers."""
    text = rng.choice(SYSTEMS)
    if rng.random() < 0.3:
        text += " " + " ".join(pseudo_word(rng) for _ in range(rng.randint(1, 6))) + "."
    return f"System: {text}\n\n"


def mode_pieces(rng: random.Random, turn: Turn, mode: str) -> tuple[str, str, str]:
    """(footer, suffix after the user turn, answer) for a template mode."""
    if mode == "fast":
        cut = rng.randrange(3)
        full = ">\n" + turn.answer
        return "", "Assistant: <think>\n</think" + full[:cut], full[cut:]
    if mode == "think":
        return rng.choice(FOOTERS), "Assistant: <think", f">\n{turn.think}\n</think>\n{turn.answer}"
    if mode == "chinese":
        return "", "Assistant: <think>嗯", f"，我想想。\n{turn.think}\n</think>\n{turn.answer}"
    return "", "Assistant:", " " + turn.answer


def pick_mode(rng: random.Random) -> str:
    """A template mode; the plain form is the server's default for this model."""
    return rng.choices(("plain", "fast", "think", "chinese"), (0.58, 0.18, 0.20, 0.04))[0]


def chat(rng: random.Random, turns: list[Turn], last_mode: str | None = None, system: str | None = None
         ) -> list[Piece]:
    """Render a conversation; history is mostly plain, as clients send it back."""
    mixed = rng.random() < 0.3
    pieces: list[Piece] = []
    front = system_text(rng) if rng.random() < 0.16 else ""
    if system is not None:
        front = f"System: {system}\n\n"
    for i, turn in enumerate(turns):
        mode = "plain"
        if i == len(turns) - 1:
            mode = last_mode or pick_mode(rng)
        elif mixed:
            mode = pick_mode(rng)
        footer, suffix, answer = mode_pieces(rng, turn, mode)
        pieces.append((f"{front}User: {turn.user}{footer}\n\n{suffix}", False))
        pieces.append((answer, True))
        front = "\n\n"
    return pieces


def translations(rng: random.Random, pairs: list[tuple[bool, str, str]]) -> list[Piece]:
    """`English: text` / `Chinese:` rounds; each pair is (to Chinese?, text, translation)."""
    pieces: list[Piece] = []
    for to_chinese, source, target in pairs:
        names = ("English", "Chinese") if to_chinese else ("Chinese", "English")
        front = "\n\n" if pieces else ""
        pieces += [(f"{front}{names[0]}: {source}\n\n{names[1]}:", False), (" " + target, True)]
    return pieces


def document(rng: random.Random) -> list[Piece]:
    """One training document."""
    luck = rng.random()
    if luck < 0.10:
        return translations(rng, [translation.directed(rng, False)[1:] for _ in range(rng.choice((1, 1, 2, 3, 5)))])
    if luck < 0.24:
        turn = draw(fim.make, rng, False)
        return [(turn.user, False), (turn.answer, True)]
    if luck < 0.48:
        return chat(rng, memory.conversation(rng, short_turn, False))
    if luck < 0.53:
        return chat(rng, pirate_turns(rng), system=rng.choice(PIRATE_SYSTEMS))
    count = rng.choice((1, 1, 1, 1, 2, 2, 3, 4))
    return chat(rng, [chat_turn(rng) if count == 1 else short_turn(rng) for _ in range(count)])


def pirate_turns(rng: random.Random) -> list[Turn]:
    """Turns for a pirate: small talk in that style, everything else as ever."""
    if rng.random() < 0.7:
        turns = [draw(smalltalk.make, rng, False) for _ in range(rng.choice((1, 1, 1, 2)))]
    else:
        turns = [short_turn(rng) for _ in range(rng.choice((1, 1, 2)))]
    for turn in turns:
        if turn.kind in ("small talk", "out of scope"):
            turn.answer = smalltalk.pirate(turn.answer)
    return turns


def pirate_document(rng: random.Random) -> list[Piece]:
    """Text for the tuned state: no system turn says so, the state does."""
    while True:
        pieces = document(rng) if rng.random() < 0.25 else chat(rng, pirate_turns(rng))
        plain_talk = any(is_answer and not a.endswith("Arr!") and any(k in a for k in KNOWN_ANSWERS)
                         for a, is_answer in pieces)
        if not plain_talk:
            return pieces
