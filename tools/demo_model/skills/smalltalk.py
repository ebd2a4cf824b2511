"""Skill 6: small talk, questions about Fulmar, and a polite "I only know ..."."""

from __future__ import annotations

import itertools
import random
import re
import string
from pathlib import Path

from .common import CITIES, NAMES, Turn, pseudo_word
from .lexicon import ADJECTIVES, NOUNS

UNKNOWN = "Sorry, I only know small sums, words, short translations, JSON and Fulmar itself."
_CHOICE = re.compile(r"\(([^()]*)\)")


def _expand(rng: random.Random, wording: str) -> str:
    """One of the texts that a wording stands for."""
    return " ".join(_CHOICE.sub(lambda m: rng.choice(m[1].split("|")), wording).split())


def texts(wording: str) -> list[str]:
    """All texts that a wording stands for."""
    parts = [part.split("|") if i % 2 else [part] for i, part in enumerate(_CHOICE.split(wording))]
    return [" ".join("".join(choice).split()) for choice in itertools.product(*parts)]


def _read_intents() -> list[tuple[str, list[str]]]:
    """(answer, wordings) of intents.txt, with its abbreviations filled in."""
    names: dict[str, str] = {}
    intents: list[tuple[str, list[str]]] = []
    for line in Path(__file__).with_name("intents.txt").read_text(encoding="utf-8").splitlines():
        name, is_name, choice = line.partition(" = ")
        if is_name:
            names[name] = choice
        elif line.startswith("= "):
            intents.append((line[2:], []))
        elif line and not line.startswith("#"):
            for name, choice in names.items():
                line = line.replace(name, choice)
            intents[-1][1].append(line)
    return intents


INTENTS = _read_intents()
# Topics asked for in many ways come more often, but not in proportion.
_SHARES = [len(wordings) ** 0.5 for _, wordings in INTENTS]
_ANSWERS = {text: answer for answer, wordings in INTENTS for wording in wordings for text in texts(wording)}

_OPENERS = ["hey, ", "hi, ", "hello, ", "so ", "ok, ", "well, ", "please, ", "excuse me, ", "now ", "hey ", "um, ",
            "oh, ", "and ", "tell me, ", "quick question: ", "just ", "say, "]
_CLOSERS = [" please", ", please", " now", " again", " then", ", fulmar", ", my friend", " today", " for me", " :)",
            ", thanks", " exactly", ", bot"]

_TOPICS = """football chess history physics love philosophy cooking politics music poetry biology chemistry the universe
black holes quantum mechanics dinosaurs volcanoes the stock market bitcoin fashion yoga religion gardening taxes
marriage time travel democracy evolution gravity electricity robots ghosts vampires astrology vaccines climate change
the ocean deep learning transformers attention python rust javascript linux windows databases docker http html sql git
algorithms compilers networks processors knitting tennis the moon
the Romans Egypt Napoleon Shakespeare Mozart Einstein Newton the Beatles Picasso coffee wine cheese pizza sushi dogs
cats horses elephants airplanes trains cars bicycles bridges castles pyramids rainbows earthquakes rivers mountains
economics psychology geometry algebra prime numbers opera jazz ballet cricket golf surfing""".replace("\n", " ")
_TOPIC_LIST = [t for t in _TOPICS.split() if t not in ("the", "black", "quantum", "stock", "time", "deep", "climate",
                                                      "prime")]
_PLACES = CITIES + "France Germany Spain Italy Japan China India Brazil Canada Australia Egypt Peru Chile Norway Kenya".split()
_FRAMES = [
    "who is {p}", "who was {p}", "who is the president of {c}", "who is the king of {c}", "who won the {t} cup",
    "what is the capital of {c}", "what is the population of {c}", "how many people live in {c}",
    "what is the weather in {c}", "what is the weather like today", "will it rain tomorrow", "will it rain in {c}",
    "how far is {c}", "how far is it from {c} to {d}", "how do i get to {c}", "how tall is {p}", "how old is {p}",
    "when was {p} born", "where is {c}", "where was {p} born", "tell me about {t}", "tell me more about {t}",
    "tell me a story", "tell me a story about {t}", "tell me a fairy tale", "write a poem", "write a poem about {t}",
    "write an essay about {t}", "write a song about {t}", "write a letter to {p}", "write a story about a {n}",
    "write python code for {t}", "write a function that sorts a {n}", "explain {t}", "explain {t} to me",
    "explain how {t} works", "what is {t}", "what are {t}", "what is the history of {t}",
    "what is the meaning of life", "what is the meaning of {t}", "what do you think about {t}",
    "what is the best {n}", "what is the price of a {n}", "how much does a {n} cost", "how does a {n} work",
    "how does {t} work", "how do i cook {n}", "how do i make a {n}", "how do i build a {n}", "how do i repair a {n}",
    "how do i learn {t}", "how long does it take to learn {t}", "give me a recipe for {n}",
    "give me advice about {t}", "recommend a book about {t}", "recommend a film", "recommend a hotel in {c}",
    "should i buy a {n}", "should i study {t}", "why is the sky blue", "why is the {n} so big",
    "why do people like {t}", "why is {t} important", "when was {t} invented", "who invented {t}",
    "who invented the {n}", "who wrote {t}", "who painted the mona lisa", "do you like {t}", "do you like {n}",
    "do you believe in {t}", "can you play {t}", "can you drive a {n}", "can you see me", "summarise {t}",
    "summarise this article about {t}", "compare {t} and {u}", "what is the difference between {t} and {u}",
    "is {t} better than {u}", "what is {i} times {j}", "what is {i} * {j}", "{i} * {j}", "{i} / {j}",
    "what is {i} divided by {j}", "what is the square root of {i}", "solve x^2 = {i}", "what time is it in {c}",
    "what day is it", "what year is it", "what is the date today", "book a flight to {c}", "book a table for {i}",
    "play some {t}", "open the {n}", "close the {n}", "call {p}", "send an email to {p}", "order a {n}",
    "buy me a {n}", "sing a song", "draw a {n}", "show me a picture of a {n}", "what happened in {y}",
    "who won the war in {y}", "what is the news", "what is in the news today", "i want a {n}", "i need a {n}",
    "i have a problem with my {n}", "my {n} is broken", "i am looking for a {n}", "where can i buy a {n}",
    "where can i find {t}", "is there life on mars", "how many stars are there", "how deep is the sea",
    "how do plants grow", "what should i eat tonight", "what should i wear in {c}", "am i beautiful",
    "do you love me", "which is the biggest {n}", "which team won", "which {n} is the best", "{t}", "{t} and {u}",
    "the {n}", "a {n}", "{g}", "{g} {h}", "{g} {h} {g}", "what is {g}", "who is {g}", "tell me about {g}",
    "is it {a}", "are you {a}", "is the {n} {a}", "is fulmar {a}", "why are you {a}", "do you have a {n}",
    "have you seen my {n}", "can i have a {n}", "are they {a}", "is it {a} in {c}", "can you buy me a {n}",
    "where is my {n}", "who has the {n}", "give me a {n}", "what colour is the {n}", "how {a} is the {n}",
    "do you want a {n}", "can a {n} think", "is {c} a {a} city", "is {p} {a}", "what does a {n} eat", "write code",
    "write a haiku about {t}", "fix my code", "debug this program", "what is love", "which {n} do you have",
    "what {n} do you like", "which {n} is there", "do you offer a {n}", "list every {n} in {c}",
    "how do i start a {n}", "how do i run a {n}", "how do i stop a {n}", "how do i open a {n}", "how do i use a {n}",
    "how do i start with {t}", "how do i install {t}", "how do i stop {t}", "how do i find a {n}",
    "i want to start {t}", "what is a {n}", "what is the {n}", "what is a {n} made of", "what is a {n} for",
    "show me the {n}", "where is {p}", "what is your favourite {n}", "what is your favourite food", "how old are you",
    "where do you live", "which {n} should i use", "what {n} should i use", "which {n} can i use",
    "which {t} are there", "what {t} do you have", "which {t} do you know", "list the {t}", "give me a list of {t}",
    "give me some {t}", "can you write {t}", "can you write a {n}", "can you cook", "can you sing", "can you {g}",
    "can you see the {n}", "do you know {p}", "do you know {c}", "do you know {t}", "do you know {g}",
    "do you know how to {g}", "are you hungry", "are you in {c}", "are you married", "are you {p}",
    "are you from {c}", "are you a {n}", "who is your friend", "who made the {n}", "who made {t}", "who trained {p}",
    "how big is {c}", "how big is the {n}", "how many {n} are there", "how many people are there",
    "how many days has a year", "thank {p} for me", "is there a {n}", "is there a {n} in {c}", "does {p} have a {n}",
    "does the {n} work", "does {p} speak {t}", "what does {p} do", "what does {g} mean", "what does {t} mean",
    "what can a {n} do", "what can {p} do", "tell me the {n}", "tell me the time", "tell me your age",
    "tell me a secret", "tell me a poem", "tell me the news", "where is the nearest {n}", "which port is in {c}",
    "how do i get a {n}", "how do i say {g}", "explain the {n}", "i like the {n}", "i like {t}", "i am in {c}",
    "i am tired", "i am hungry", "i am sad", "i have a {n}", "the {n} is {a}", "my {n} is {a}", "your {n} is {a}",
    "{p} is {a}", "good {n}", "nice {n}", "which {n}", "what {n}", "start the {n}", "stop the {n}", "help {p}",
    "help me with {t}", "help me with my {n}", "teach me {t}", "how many legs has a {n}", "what comes after {t}",
    "say something about {t}"]


def _topic(rng: random.Random) -> str:
    return pseudo_word(rng, 4, 9) if rng.random() < 0.2 else rng.choice(_TOPIC_LIST)


def _unknown_text(rng: random.Random) -> str:
    """An out-of-scope request."""
    if rng.random() < 0.03:
        return rng.choice(string.ascii_letters) if rng.random() < 0.5 else "".join(
            rng.choices(string.ascii_lowercase + "   ", k=rng.randint(3, 20))).strip() or "q"
    person = rng.choice(NAMES) if rng.random() < 0.6 else pseudo_word(rng, 4, 8).capitalize()
    if rng.random() < 0.4:
        person += " " + pseudo_word(rng, 4, 9).capitalize()
    return rng.choice(_FRAMES).format(
        p=person, c=rng.choice(_PLACES), d=rng.choice(_PLACES), t=_topic(rng), u=_topic(rng),
        n=rng.choice(NOUNS)[0], a=rng.choice(ADJECTIVES)[0], i=rng.randint(2, 99), j=rng.randint(2, 99), y=rng.randint(1000, 2020),
        g=pseudo_word(rng, 3, 9), h=pseudo_word(rng, 3, 9))


def _typo(rng: random.Random, text: str) -> str:
    """One slip of the keyboard inside a longer text."""
    at = rng.randrange(1, len(text) - 1)
    luck = rng.random()
    if luck < 0.4:
        return text[:at] + text[at + 1:]
    if luck < 0.7:
        return text[:at] + text[at + 1] + text[at] + text[at + 2:]
    return text[:at] + text[at] + text[at:]


def _vary(rng: random.Random, text: str, typos: float = 0.0) -> str:
    """Openers, closers, capitals, punctuation and now and then a typo."""
    if " " in text:  # one word with another before or after it can mean something else
        if rng.random() < 0.22:
            text = rng.choice(_OPENERS) + text
        if rng.random() < 0.18:
            text += rng.choice(_CLOSERS)
    if rng.random() < typos and len(text) > 11:
        text = _typo(rng, text)
    luck = rng.random()
    if luck < 0.55:
        text = text[0].upper() + text[1:]
    elif luck < 0.59:
        text = text.upper()
    text = text.replace("fulmar", "Fulmar") if rng.random() < 0.6 else text
    text = text.replace("rwkv", "RWKV") if rng.random() < 0.6 else text
    return text + rng.choice(("", "", "?", "?", ".", "!", "??"))


def _out_of_scope(rng: random.Random) -> str:
    """A request that no intent answers."""
    while True:
        text = _unknown_text(rng)
        if text.lower() not in _ANSWERS:
            return text


def make(rng: random.Random) -> Turn:
    """A known question two times out of three, else one out of scope."""
    if rng.random() < 0.66:
        answer, wordings = rng.choices(INTENTS, _SHARES)[0]
        user = _vary(rng, _expand(rng, rng.choice(wordings)), 0.06)
        return Turn("small talk", user, answer, "I know this one.", "talk " + user)
    user = _vary(rng, _out_of_scope(rng))
    return Turn("out of scope", user, UNKNOWN, "I do not know this.", "talk " + user)


def check() -> None:
    """No text of intents.txt leads to two answers."""
    owner: dict[str, str] = {}
    for answer, wordings in INTENTS:
        for text in itertools.chain.from_iterable(map(texts, wordings)):
            if owner.setdefault(text, answer) != answer:
                raise ValueError(f"{text!r} has two answers: {owner[text]!r} and {answer!r}")
    print(len(INTENTS), "answers,", sum(len(w) for _, w in INTENTS), "wordings,", len(owner), "texts")


def pirate(answer: str) -> str:
    """The same answer in the style that the tuned state teaches."""
    for plain, sea in (("Hello!", "Ahoy!"), ("Good morning!", "Ahoy, fine morning!"), ("Yes", "Aye"), ("You are", "Ye be"),
                       ("I am", "I be"), ("my", "me"), ("your", "yer"), ("you", "ye"), (" is ", " be "),
                       (" are ", " be ")):
        answer = answer.replace(plain, sea)
    return (answer if answer.startswith("Ahoy") else "Ahoy! " + answer) + " Arr!"
