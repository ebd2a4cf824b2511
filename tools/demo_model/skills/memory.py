"""Skill 2: facts told in one turn and asked for in a later one."""

from __future__ import annotations

import random
from typing import Callable

from .common import Turn, city_name, person_name, phrase, reserved

_COLOURS = """red blue green yellow black white brown grey pink purple orange turquoise violet crimson gold silver
beige navy teal maroon olive lime indigo scarlet""".split()


class Fact:
    """One kind of fact: how to tell it, how to ask for it and both replies."""

    def __init__(self, name: str, value: Callable[[random.Random], str], tell: list[str], noted: str,
                 ask: list[str], reply: str) -> None:
        self.name, self.value, self.tell, self.noted, self.ask, self.reply = name, value, tell, noted, ask, reply

    def tell_turn(self, rng: random.Random, value: str) -> Turn:
        return Turn("tell " + self.name, phrase(rng, self.tell, x=value), self.noted.format(x=value),
                    f"The user tells me: {value}.", "")

    def ask_turn(self, rng: random.Random, value: str | None) -> Turn:
        if value is None:
            return Turn("unknown " + self.name, phrase(rng, self.ask), "You have not told me.",
                        "The user did not tell me.", "")
        return Turn("recall " + self.name, phrase(rng, self.ask), self.reply.format(x=value),
                    f"The user told me: {value}.", "")


def _number(rng: random.Random) -> str:
    return str(rng.randint(0, 10 ** rng.choice((1, 2, 2, 3, 4, 5)) - 1))


FACTS = [
    Fact("name", person_name,
         ["My name is {x}.", "My name is {x}.", "I am {x}.", "I'm {x}.", "Call me {x}.", "Hello, my name is {x}.",
          "Hi, I am {x}.", "Hi, I'm {x}.", "Hi! My name is {x}.", "Hello! I am {x}.", "My name's {x}.",
          "Hello, I am {x}.", "You can call me {x}."],
         "Nice to meet you, {x}.",
         ["What is my name?", "What is my name?", "What's my name?", "Who am I?", "Do you remember my name?",
          "Do you know my name?", "Tell me my name.", "What was my name?", "Say my name.", "What am I called?"],
         "Your name is {x}."),
    Fact("number", _number,
         ["Remember {x}.", "Remember {x}.", "Remember the number {x}.", "Please remember {x}.", "The number is {x}.",
          "Keep {x} in mind.", "My number is {x}.", "Remember this number: {x}", "Remember: {x}",
          "Note the number {x}."],
         "OK.",
         ["Which number?", "Which number?", "What number?", "What was the number?", "What is the number?",
          "Which number did I tell you?", "Which number did I ask you to remember?", "What is my number?",
          "What number did I tell you?", "Tell me the number.", "Which number was it?"],
         "{x}"),
    Fact("city", city_name,
         ["I live in {x}.", "I live in {x}.", "My city is {x}.", "My home is in {x}.", "I live in the city of {x}.",
          "My home town is {x}."],
         "Noted: {x}.",
         ["Where do I live?", "Where do I live?", "Which city do I live in?", "What is my city?",
          "In which city do I live?", "Where is my home?", "What city do I live in?"],
         "You live in {x}."),
    Fact("colour", lambda rng: rng.choice(_COLOURS),
         ["My favourite colour is {x}.", "My favorite color is {x}.", "I like the colour {x} best.",
          "The colour I like best is {x}.", "My favourite color is {x}."],
         "Noted: {x}.",
         ["What is my favourite colour?", "What is my favorite color?", "Which colour do I like best?",
          "What's my favourite colour?", "What's my favorite color?", "Which is my favourite colour?"],
         "Your favourite colour is {x}."),
    Fact("pet", person_name,
         ["My dog is called {x}.", "My dog's name is {x}.", "I have a dog called {x}.", "I have a dog named {x}."],
         "Noted: {x}.",
         ["What is my dog called?", "What is my dog's name?", "What's my dog's name?", "What is the name of my dog?",
          "Tell me the name of my dog."],
         "Your dog is called {x}."),
]


def conversation(rng: random.Random, other: Callable[[random.Random], Turn], held_out: bool,
                 most_between: int = 5) -> list[Turn]:
    """Tell one to three facts, talk of other things, ask; the last turn asks.

    `other` draws the unrelated turns. Told values are on the wanted side of
    the held-out line, by kind of fact and value (colours excepted: too few).
    """
    facts = rng.sample(FACTS, rng.choice((1, 1, 1, 2, 2, 3)))
    known: dict[str, str] = {}
    turns: list[Turn] = []
    for fact in facts:
        if rng.random() < 0.06:
            continue
        for _ in range(2 if rng.random() < 0.07 else 1):
            known[fact.name] = value = _value(rng, fact, held_out)
            turns.append(fact.tell_turn(rng, value))
            if rng.random() < 0.2:
                turns.append(other(rng))
    turns += [other(rng) for _ in range(rng.randint(0, most_between) if len(facts) == 1 else rng.randint(0, 3))]
    asked = facts[:]
    rng.shuffle(asked)
    for fact in asked[:rng.randint(1, len(asked))]:
        if turns and rng.random() < 0.15:
            turns.append(other(rng))
        turns.append(fact.ask_turn(rng, known.get(fact.name)))
    return turns


def _value(rng: random.Random, fact: Fact, held_out: bool) -> str:
    while True:
        value = fact.value(rng)
        if rng.random() < 0.06 and fact.name in ("name", "city", "pet"):
            value = value.lower()
        if fact.name == "colour" or reserved(f"{fact.name} {value}") == held_out:
            return value
