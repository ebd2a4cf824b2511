"""Skill 7, JSON, and two helpers for tests of the server: echo and counting."""

from __future__ import annotations

import json
import random
import string

from .common import Turn, city_name, person_name, phrase, pseudo_word
from .words import any_word

_JSON = ["Give {x} as JSON", "Give {x} as JSON.", "Give me {x} as JSON.", "Write {x} as JSON.", "Turn {x} into JSON.",
         "Convert {x} to JSON.", "{x} as JSON", "JSON for {x}", "Make JSON from {x}", "Format {x} as JSON.",
         "Return {x} as JSON.", "As JSON: {x}", "JSON: {x}"]
_ECHO = ["Repeat: {x}", "Repeat {x}", "Echo: {x}", "Echo {x}", "Say {x}", "Say: {x}", "Repeat after me: {x}",
         "Please repeat: {x}", "Repeat this: {x}", "Repeat this word: {x}", "Repeat the token {x}", "Copy: {x}",
         "Copy {x}", "Write {x}", "Print {x}"]
_COUNT = ["Count from {a} to {b}", "Count from {a} to {b}.", "Count {a} to {b}", "Count up from {a} to {b}.",
          "Write the numbers from {a} to {b}.", "Numbers from {a} to {b}", "List the numbers from {a} to {b}."]
_DOWN = ["Count down from {a} to {b}", "Count down from {a} to {b}.", "Count from {a} down to {b}.",
         "Count backwards from {a} to {b}."]
_FIELDS = "city year colour size price count title country id level width height speed team score".split()


def compact(value: object) -> str:
    """JSON without blanks, raw UTF-8."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _person(rng: random.Random) -> tuple[str, dict[str, object]]:
    name, age = person_name(rng), rng.randint(1, 99)
    if rng.random() < 0.1:
        name += " " + person_name(rng)
    if rng.random() < 0.3:
        city = city_name(rng)
        return f"{name}, {age}, {city}", {"name": name, "age": age, "city": city}
    return f"{name}, {age}", {"name": name, "age": age}


def make_json(rng: random.Random) -> Turn:
    """A person, two persons, or named values, as JSON."""
    luck = rng.random()
    if luck < 0.65:
        text, value = _person(rng)
        kind = "person"
    elif luck < 0.8:
        (text1, one), (text2, two) = _person(rng), _person(rng)
        text, value, kind = f"{text1}; {text2}", [one, two], "two persons"
    else:
        value, kind = {}, "fields"
        for field in rng.sample(_FIELDS, rng.randint(1, 3)):
            value[field] = rng.randint(0, 999) if rng.random() < 0.5 else pseudo_word(rng, 3, 8)
        text = ", ".join(f"{k}={v}" for k, v in value.items())
    if isinstance(value, list):
        think = "Two objects in a list, each with name and age."
    else:
        think = "Fields: " + ", ".join(f"{k} is {v}" for k, v in value.items()) + "."
    return Turn("json " + kind, phrase(rng, _JSON, x=text), compact(value), think, "json " + text)


_ALNUM = string.ascii_letters + string.digits


def make_echo(rng: random.Random) -> Turn:
    """Repeat a random token or a few words exactly."""
    luck = rng.random()
    if luck < 0.45:
        x = "".join(rng.choices(_ALNUM, k=rng.randint(1, 14)))
    elif luck < 0.55:
        x = "".join(rng.choices(string.digits, k=rng.randint(1, 8)))
    elif luck < 0.65:
        x = "-".join("".join(rng.choices(_ALNUM, k=rng.randint(2, 5))) for _ in range(rng.randint(2, 3)))
    elif luck < 0.75:
        x = f"{rng.choice(('token', 'row', 'word', 'test', 'id', 'req'))}{rng.choice('-_ ')}{rng.randint(0, 9999)}"
    else:
        x = " ".join(any_word(rng, 2, 8) for _ in range(rng.randint(1, 3)))
        if rng.random() < 0.2:
            x = x.capitalize()
    return Turn("echo", phrase(rng, _ECHO, x=x), x, "I copy it letter by letter.", "echo " + x)


def make_count(rng: random.Random, longest: int = 120) -> Turn:
    """Count up or down; the answer is the numbers with single blanks between."""
    luck = rng.random()
    n = rng.randint(1, 12) if luck < 0.4 else rng.randint(2, 40) if luck < 0.7 else rng.randint(20, longest)
    low = rng.choice((0, 1, 1, 1, 1, 1, 1, rng.randint(0, 20), rng.randint(0, 99), rng.randint(0, 899)))
    numbers = list(range(low, low + n))
    words = _COUNT
    if rng.random() < 0.12:
        numbers.reverse()
        words = _DOWN
    a, b = numbers[0], numbers[-1]
    return Turn("count", phrase(rng, words, a=a, b=b), " ".join(map(str, numbers)), f"I start at {a} and stop at {b}.",
                f"count {a} {b}")
