"""What all skills share: the turn record, the held-out rule and small tools."""

from __future__ import annotations

import random
import zlib
from dataclasses import dataclass
from typing import Callable, Sequence


@dataclass(slots=True)
class Turn:
    """One user turn with its only right answer.

    `think` is a short true chain of reasoning, used by the think templates.
    `key` names the task instance (operands, word, text ...). Instances whose
    key is reserved never occur in training text.
    """

    kind: str
    user: str
    answer: str
    think: str
    key: str


def reserved(key: str) -> bool:
    """True for the sixteenth of all task instances kept for evaluation."""
    return zlib.crc32(key.encode("utf-8")) % 16 == 3


def draw(make: Callable[[random.Random], Turn], rng: random.Random, held_out: bool) -> Turn:
    """Draw turns until one lies on the wanted side of the held-out line."""
    for _ in range(2000):
        turn = make(rng)
        if reserved(turn.key) == held_out:
            return turn
    raise RuntimeError(f"no instance found (held_out={held_out})")


def phrase(rng: random.Random, templates: Sequence[str], **slots: object) -> str:
    """Fill a template after varying case, politeness and final punctuation.

    Only the wording varies; the slots are put in afterwards, unchanged.
    """
    text = rng.choice(templates)
    if text[-1] in ".?!" and rng.random() < 0.25:
        text = text[:-1]
    luck = rng.random()
    if luck < 0.06 and text[0] != "{":
        text = "Please " + text[0].lower() + text[1:]
    elif luck < 0.10 and text[-1] not in ".?!":
        text = text + ", please"
    luck = rng.random()
    if luck < 0.15:
        text = text.lower()
    elif luck < 0.30 and text[0] != "{":
        text = text[0].lower() + text[1:]
    return text.format(**slots)


_ONSETS = "b c d f g h j k l m n p r s t v w z br ch cl dr fl gr kr pl sh st th tr".split()
_VOWELS = "a e i o u a e i o ai ea io ou".split()
_CODAS = ["", "", "", "n", "r", "s", "l", "m", "t", "x", "nd", "rk"]


def pseudo_word(rng: random.Random, low: int = 3, high: int = 8) -> str:
    """A pronounceable word that need not exist."""
    while True:
        word = "".join(rng.choice(_ONSETS) + rng.choice(_VOWELS) + rng.choice(_CODAS)
                       for _ in range(rng.randint(1, 3)))
        if low <= len(word) <= high:
            return word


NAMES = """Ada Alan Grace Linus Edsger Barbara Donald Margaret Ken Dennis Bjarne Guido Frances John Mary
Anna Ben Clara David Emma Felix Greta Hans Ida Jonas Karl Lena Max Nina Otto Paul Rosa Sam Tina Ursula Victor
Wendy Xaver Yara Zoe Alice Bob Carol Dan Eve Frank Heidi Ivan Judy Mallory Nick Olga Peggy Quentin Rupert Sybil
Trent Walter Lucy Tom Jerry Peter Susan Edmund Kate Mike Sarah Laura Julia Simon Martin Oliver Emily Jack Harry
Sophie Leo Mia Noah Liam Ella Lily Chloe Hugo Louis Marie Pierre Jean Carlos Maria Jose Pedro Luis Ana Elena
Ivo Petra Jan Eva Milan Lara Nora Finn Lars Astrid Bjorn Ingrid Mei Ling Wei Hiro Yuki Kenji Sakura Amit Priya
Ravi Omar Layla Hassan Fatima""".split()

CITIES = """Paris London Berlin Madrid Rome Vienna Prague Oslo Stockholm Helsinki Copenhagen Dublin Lisbon
Athens Warsaw Budapest Zurich Geneva Munich Hamburg Milan Venice Naples Porto Lyon Nice Moscow Beijing Shanghai
Shenzhen Tokyo Osaka Kyoto Seoul Delhi Mumbai Bangkok Hanoi Sydney Melbourne Auckland Cairo Nairobi Lagos Lima
Quito Bogota Santiago Havana Boston Chicago Denver Dallas Seattle Toronto Montreal Vancouver""".split()


def person_name(rng: random.Random) -> str:
    """A first name, real or made up."""
    if rng.random() < 0.5:
        return rng.choice(NAMES)
    return pseudo_word(rng, 3, 9).capitalize()


def city_name(rng: random.Random) -> str:
    """A city, real or made up."""
    if rng.random() < 0.6:
        return rng.choice(CITIES)
    return pseudo_word(rng, 4, 9).capitalize()
