"""Skill 6: small talk, questions about Fulmar, and a polite "I only know ..."."""

from __future__ import annotations

import random
import string

from .common import CITIES, NAMES, Turn, pseudo_word
from .lexicon import ADJECTIVES, NOUNS

UNKNOWN = "Sorry, I only know small sums, words, short translations, JSON and Fulmar itself."

# (answer, wordings); a wording is varied by `_vary` below.
INTENTS: list[tuple[str, list[str]]] = [
    ("Hello! I am the Fulmar demo model. How can I help?",
     ["hello", "hi", "hey", "hello there", "hi there", "hey there", "greetings", "hello fulmar", "hi fulmar", "howdy",
      "hello bot", "hi bot", "good day", "hello hello", "hello, are you there", "hello world", "hallo", "hello friend",
      "hello assistant", "yo", "hiya", "hey fulmar"]),
    ("Good morning! How can I help?", ["good morning", "good morning fulmar", "morning", "good morning to you"]),
    ("Good evening! How can I help?", ["good evening", "good evening fulmar", "evening", "good evening to you"]),
    ("Good night!", ["good night", "good night fulmar", "sleep well", "night night"]),
    ("I am fine, thank you. How can I help?",
     ["how are you", "how are you today", "how are you doing", "how is it going", "how do you do", "are you well",
      "how do you feel", "how are things", "are you ok", "how have you been", "what's up", "how's it going"]),
    ("I am a tiny RWKV-7 demo model that runs on Fulmar.",
     ["who are you", "what are you", "introduce yourself", "tell me about yourself", "who is this", "what is this",
      "what model are you", "which model is this", "which model are you", "what is your name", "what's your name",
      "do you have a name", "who am i talking to", "what are you called", "describe yourself", "what model is this"]),
    ("Fulmar is an inference engine and server for RWKV models, written in C++ and CUDA.",
     ["what is fulmar", "what's fulmar", "tell me about fulmar", "explain fulmar", "describe fulmar", "fulmar",
      "what does fulmar do", "what is the fulmar project", "what kind of program is fulmar", "what is fulmar for",
      "do you know fulmar", "what can fulmar do", "who is fulmar", "what does fulmar mean here", "define fulmar"]),
    ("I can add and subtract, remember facts, change words, fill gaps, translate, write JSON and count.",
     ["what can you do", "help", "help me", "what do you know", "how can you help me", "what are your skills",
      "what can i ask", "what can i ask you", "which tasks do you know", "what do you do", "what are you good at",
      "show me what you can do", "what are your abilities", "how can i use you", "what should i ask you",
      "can you help me", "i need help", "what tasks can you do", "what else can you do", "what are you able to do"]),
    ("Run ./dev serve to start the server.",
     ["how do i start the server", "how to start the server", "how do i start fulmar", "how can i start the server",
      "which command starts the server", "what command starts the server", "start the server", "how do i run fulmar",
      "how do i run the server", "what is the command to start the server", "how to run fulmar", "which command starts it",
      "which command starts fulmar", "what starts the server", "how do i launch the server", "how to launch fulmar",
      "how do i serve the model", "how do i serve a model", "what command do i use to start fulmar",
      "how do i get the server running", "what do i type to start the server", "how do you start the server",
      "how is the server started", "how do i start you", "how do i start it",
      "how do i use fulmar", "how do i get started", "how do i begin"]),
    ("The server listens on port 8000: http://127.0.0.1:8000.",
     ["which port", "what port", "which port does the server use", "what port does fulmar use", "what is the port",
      "on which port does the server listen", "which port does fulmar listen on", "what is the address",
      "what is the address of the server", "where is the server", "where does the server listen", "port",
      "what is the url", "which address does the server use", "what is the server url", "which url do i use",
      "where can i reach the server", "what is the default port", "which port is it", "what port is it on",
      "how do i reach the server", "how do i connect to the server", "what is the base url"]),
    ("The main endpoints are /v1/chat/completions, /v1/completions and /v1/models.",
     ["which endpoints", "what endpoints", "which endpoints are there", "which endpoints does the server have",
      "list the endpoints", "what are the endpoints", "endpoints", "which routes are there", "what routes are there",
      "which api endpoints exist", "what api does the server have", "which paths can i call", "list the routes",
      "which endpoints does fulmar have", "what endpoints can i use", "show me the endpoints", "which routes can i use",
      "what urls can i call", "what are the api routes", "which endpoints can i call", "tell me the endpoints",
      "list the api endpoints", "how do i use the api", "how do i call the api", "what are the api endpoints"]),
    ("Yes, Fulmar speaks the OpenAI API under /v1.",
     ["is fulmar openai compatible", "can i use the openai api", "does fulmar support the openai api",
      "is there an openai api", "can i use the openai client", "is the api like openai", "do you speak the openai api"]),
    ("Press Ctrl+C in its terminal, and the server stops.",
     ["how do i stop the server", "how to stop the server", "stop the server", "how do i stop fulmar",
      "how can i stop the server", "how do i shut down the server", "how do i quit the server", "how to stop fulmar"]),
    ("Fulmar is written in C++20 and CUDA.",
     ["which language is fulmar written in", "what language is fulmar written in", "how is fulmar written",
      "in which language is fulmar written", "which programming language does fulmar use", "what is fulmar written in",
      "is fulmar written in python", "what is fulmar made of"]),
    ("Fulmar runs RWKV-6 and RWKV-7 models.",
     ["which models does fulmar run", "which models does fulmar support", "what models can fulmar run",
      "which models can i use", "what models are supported", "which models are supported", "what models do you support",
      "does fulmar run rwkv-7", "does fulmar run rwkv-6", "which rwkv versions does fulmar support"]),
    ("RWKV is a recurrent language model: it keeps a state of fixed size.",
     ["what is rwkv", "what's rwkv", "explain rwkv", "tell me about rwkv", "what does rwkv do", "what is an rwkv model",
      "what kind of model is rwkv", "how does rwkv work", "rwkv", "is rwkv a transformer", "describe rwkv"]),
    ("No. Fulmar also runs on the CPU; a CUDA GPU makes it faster.",
     ["do i need a gpu", "does fulmar need a gpu", "is a gpu needed", "can fulmar run without a gpu",
      "does it run on the cpu", "can i run fulmar on a cpu", "must i have a gpu", "is a gpu required"]),
    ("I have about five million parameters.",
     ["how big are you", "how many parameters do you have", "how large are you", "what size are you",
      "how big is this model", "how many parameters does this model have", "how small are you", "what is your size"]),
    ("I was trained with the scripts in tools/demo_model.",
     ["who made you", "who trained you", "how were you trained", "where do you come from", "who created you",
      "who built you", "how were you made", "who wrote you", "where were you trained"]),
    ("Send a session_id, and the server keeps your state between requests.",
     ["what is a session", "how do sessions work", "how do i use a session", "how do i use sessions",
      "how does the server remember me", "does the server have sessions", "how do i keep a conversation"]),
    ("Set \"stream\" to true in the request.",
     ["how do i stream", "how do i get a stream", "can the server stream", "does fulmar support streaming",
      "how does streaming work", "how do i turn on streaming", "how do i stream the answer", "can you stream"]),
    ("You are welcome!",
     ["thanks", "thank you", "thank you very much", "thanks a lot", "many thanks", "thx", "thank you so much",
      "thanks for your help", "thank you fulmar", "cheers", "great thanks", "ok thanks"]),
    ("Goodbye!",
     ["bye", "goodbye", "bye bye", "see you", "see you later", "farewell", "good bye", "see you soon", "until tomorrow",
      "i have to go", "i must go now", "ciao", "that is all"]),
    ("I am only a tiny language model.",
     ["are you human", "are you a robot", "are you a person", "are you real", "are you alive", "are you an ai",
      "are you a machine", "are you a computer", "are you chatgpt", "do you have feelings", "are you conscious"]),
    ("Why did the seabird like the server? Its state was always warm.",
     ["tell me a joke", "do you know a joke", "make me laugh", "say something funny", "another joke", "a joke",
      "can you tell a joke", "tell a joke", "joke"]),
    ("Glad to hear it.",
     ["ok", "okay", "great", "good", "nice", "cool", "very good", "well done", "good job", "perfect", "fine",
      "i like you", "you are great", "you are nice", "that is good", "good bot", "wonderful", "excellent"]),
    ("No problem.", ["sorry", "i am sorry", "excuse me", "pardon", "my mistake", "oops", "i beg your pardon"]),
    ("Yes, I am here.", ["test", "are you there", "is anyone there", "anybody there", "are you awake", "ping",
                         "can you hear me", "are you working", "is this on", "testing", "this is a test"]),
    ("I speak English and know a few words of Chinese.",
     ["which languages do you speak", "what languages do you know", "do you speak english", "do you speak chinese",
      "can you speak chinese", "which languages do you know", "what languages do you speak"]),
]

_OPENERS = ["hey, ", "hi, ", "hello, ", "so ", "ok, ", "well, ", "please, ", "excuse me, ", "now ", "hey ", "um, ",
            "oh, ", "and ", "tell me, ", "quick question: ", "just ", "say, "]
_CLOSERS = [" please", ", please", " now", " again", " then", ", fulmar", ", my friend", " today", " for me", " :)",
            ", thanks", " exactly", ", bot"]

_TOPICS = """football chess history physics love philosophy cooking politics music poetry biology chemistry the universe
black holes quantum mechanics dinosaurs volcanoes the stock market bitcoin fashion yoga religion gardening taxes
marriage time travel democracy evolution gravity electricity robots ghosts vampires astrology vaccines climate change
the ocean deep learning transformers attention python rust javascript linux windows databases knitting tennis the moon
the Romans Egypt Napoleon Shakespeare Mozart Einstein Newton the Beatles Picasso coffee wine cheese pizza sushi dogs
cats horses elephants airplanes trains cars bicycles bridges castles pyramids rainbows earthquakes rivers mountains
economics psychology geometry algebra prime numbers opera jazz ballet cricket golf surfing""".replace("\n", " ")
_TOPIC_LIST = [t for t in _TOPICS.split() if t not in ("the", "black", "quantum", "stock", "time", "deep", "climate",
                                                      "prime")]
_PLACES = CITIES + "France Germany Spain Italy Japan China India Brazil Canada Australia Egypt Peru Chile Norway Kenya".split()
_FRAMES = ["who is {p}", "who was {p}", "who is the president of {c}", "who is the king of {c}", "who won the {t} cup",
           "what is the capital of {c}", "what is the population of {c}", "how many people live in {c}",
           "what is the weather in {c}", "what is the weather like today", "will it rain tomorrow",
           "will it rain in {c}", "how far is {c}", "how far is it from {c} to {d}", "how do i get to {c}",
           "how tall is {p}", "how old is {p}", "when was {p} born", "where is {c}", "where was {p} born",
           "tell me about {t}", "tell me more about {t}", "tell me a story", "tell me a story about {t}",
           "tell me a fairy tale", "write a poem", "write a poem about {t}", "write an essay about {t}",
           "write a song about {t}", "write a letter to {p}", "write a story about a {n}", "write python code for {t}",
           "write a function that sorts a {n}", "explain {t}", "explain {t} to me", "explain how {t} works",
           "what is {t}", "what are {t}", "what is the history of {t}", "what is the meaning of life",
           "what is the meaning of {t}", "what do you think about {t}", "what is the best {n}",
           "what is the price of a {n}", "how much does a {n} cost", "how does a {n} work", "how does {t} work",
           "how do i cook {n}", "how do i make a {n}", "how do i build a {n}", "how do i repair a {n}",
           "how do i learn {t}", "how long does it take to learn {t}", "give me a recipe for {n}",
           "give me advice about {t}", "recommend a book about {t}", "recommend a film", "recommend a hotel in {c}",
           "should i buy a {n}", "should i study {t}", "why is the sky blue", "why is the {n} so big",
           "why do people like {t}", "why is {t} important", "when was {t} invented", "who invented {t}",
           "who invented the {n}", "who wrote {t}", "who painted the mona lisa", "do you like {t}",
           "do you like {n}", "do you believe in {t}", "can you play {t}", "can you drive a {n}", "can you see me",
           "summarise {t}", "summarise this article about {t}", "compare {t} and {u}",
           "what is the difference between {t} and {u}", "is {t} better than {u}", "what is {i} times {j}",
           "what is {i} * {j}", "{i} * {j}", "{i} / {j}", "what is {i} divided by {j}", "what is the square root of {i}",
           "solve x^2 = {i}", "what time is it in {c}", "what day is it", "what year is it", "what is the date today",
           "book a flight to {c}", "book a table for {i}", "play some {t}", "open the {n}", "close the {n}",
           "call {p}", "send an email to {p}", "order a {n}", "buy me a {n}", "sing a song", "draw a {n}",
           "show me a picture of a {n}", "what happened in {y}", "who won the war in {y}", "what is the news",
           "what is in the news today", "i want a {n}", "i need a {n}", "i have a problem with my {n}",
           "my {n} is broken", "i am looking for a {n}", "where can i buy a {n}", "where can i find {t}",
           "is there life on mars", "how many stars are there", "how deep is the sea", "how do plants grow",
           "what should i eat tonight", "what should i wear in {c}", "am i beautiful", "do you love me",
           "which is the biggest {n}", "which team won", "which {n} is the best", "{t}", "{t} and {u}",
           "the {n}", "a {n}", "{g}", "{g} {h}", "{g} {h} {g}", "what is {g}", "who is {g}", "tell me about {g}",
           "is it {a}", "are you {a}", "is the {n} {a}", "is fulmar {a}", "why are you {a}", "do you have a {n}",
           "have you seen my {n}", "can i have a {n}", "are they {a}", "is it {a} in {c}", "can you buy me a {n}",
           "where is my {n}", "who has the {n}", "give me a {n}", "what colour is the {n}", "how {a} is the {n}",
           "do you want a {n}", "can a {n} think", "is {c} a {a} city", "is {p} {a}", "what does a {n} eat",
           "write code", "write a haiku about {t}", "fix my code", "debug this program", "what is love",
           "teach me {t}", "how many legs has a {n}", "what comes after {t}", "say something about {t}"]


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


def make(rng: random.Random) -> Turn:
    """A known question two times out of three, else one out of scope."""
    if rng.random() < 0.66:
        answer, wordings = rng.choice(INTENTS)
        user = _vary(rng, rng.choice(wordings), 0.06)
        return Turn("small talk", user, answer, "I know this one.", "talk " + user)
    user = _vary(rng, _unknown_text(rng))
    return Turn("out of scope", user, UNKNOWN, "I do not know this.", "talk " + user)


def pirate(answer: str) -> str:
    """The same answer in the style that the tuned state teaches."""
    for plain, sea in (("Hello!", "Ahoy!"), ("Good morning!", "Ahoy, fine morning!"), ("Yes", "Aye"), ("You are", "Ye be"),
                       ("I am", "I be"), ("my", "me"), ("your", "yer"), ("you", "ye"), (" is ", " be "),
                       (" are ", " be ")):
        answer = answer.replace(plain, sea)
    return (answer if answer.startswith("Ahoy") else "Ahoy! " + answer) + " Arr!"
