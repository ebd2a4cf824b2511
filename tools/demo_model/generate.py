#!/usr/bin/env python3
"""Deterministic text for the demo model: training documents and held-out suites.

    generate.py text  --seed 1 --count 20          training documents, to read
    generate.py suite --seed 2 --per-skill 300     held-out cases, JSON lines
    generate.py vocab --out FILE                   the vocabulary file
    generate.py check                              lexicon and intents: no question has two answers
    generate.py overlap --suite FILE --count 1000000
                   how many prompts of a suite occur in that many training documents

Standard library only.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from pathlib import Path
from typing import Callable, Iterator

import dialogue
import vocab
from skills import arithmetic, fim, lexicon, memory, smalltalk, structured, translation, words
from skills.common import Turn, draw
from skills.lexicon import SENTENCES, WORDS

Case = dict[str, object]
MOST_ANSWER_TOKENS = 390


def _case(skill: str, kind: str, pieces: list[dialogue.Piece]) -> Case:
    prompt = "".join(text for text, _ in pieces[:-1])
    return {"skill": skill, "kind": kind, "prompt": prompt, "answer": pieces[-1][0]}


def _chat_case(skill: str, make: Callable[[random.Random], Turn], rng: random.Random) -> Case:
    """The last turn is a held-out instance; sometimes other turns come before."""
    last = draw(make, rng, True)
    before = rng.choice((0, 0, 0, 0, 1, 2))
    turns = [dialogue.short_turn(rng) for _ in range(before)] + [last]
    mode = dialogue.pick_mode(rng)
    return _case(skill, f"{last.kind}, {mode}", dialogue.chat(rng, turns, mode))


def _talk_case(rng: random.Random) -> Case:
    """Small talk; a few cases under a system turn that asks for the pirate style."""
    if rng.random() > 0.08:
        return _chat_case("small talk", smalltalk.make, rng)
    turn = draw(smalltalk.make, rng, True)
    turn.answer = smalltalk.pirate(turn.answer)
    return _case("small talk", "pirate system turn",
                 dialogue.chat(rng, [turn], "plain", rng.choice(dialogue.PIRATE_SYSTEMS)))


def _memory_case(rng: random.Random) -> Case:
    turns = memory.conversation(rng, dialogue.short_turn, True, most_between=4)
    mode = dialogue.pick_mode(rng)
    return _case("memory", f"{turns[-1].kind}, {mode}", dialogue.chat(rng, turns, mode))


def _fim_case(rng: random.Random) -> Case:
    turn = draw(fim.make, rng, True)
    return _case("fim", turn.kind, [(turn.user, False), (turn.answer, True)])


def _translation_case(rng: random.Random) -> Case:
    luck = rng.random()
    if luck < 0.12:
        turn = translation.make_chat(rng, True)
        return _case("translation", "chat pattern", dialogue.chat(rng, [turn], "plain"))
    if luck < 0.55:
        pairs = [translation.directed(rng, False)[1:] for _ in range(rng.choice((0, 0, 1, 2)))]
        return _case("translation", "new sentence",
                     dialogue.translations(rng, pairs + [translation.directed(rng, True)[1:]]))
    word = rng.random() < 0.65
    english, chinese = rng.choice(WORDS if word else SENTENCES)
    to_chinese = rng.random() < 0.5
    pair = (to_chinese, english, chinese) if to_chinese else (to_chinese, chinese, english)
    return _case("translation", "listed word" if word else "listed sentence", dialogue.translations(rng, [pair]))


SUITES: list[tuple[float, Callable[[random.Random], Case]]] = [
    (1.0, lambda rng: _chat_case("arithmetic", arithmetic.make, rng)),
    (1.0, _memory_case),
    (1.0, lambda rng: _chat_case("words", words.make, rng)),
    (1.0, _fim_case),
    (1.0, _translation_case),
    (1.0, _talk_case),
    (1.0, lambda rng: _chat_case("json", structured.make_json, rng)),
    (0.5, lambda rng: _chat_case("echo", structured.make_echo, rng)),
    (0.2, lambda rng: _chat_case("count", structured.make_count, rng)),
]


def suite(seed: int, per_skill: int) -> list[Case]:
    """Held-out cases; no prompt occurs twice and no answer is too long."""
    rng = random.Random(f"suite {seed}")
    cases: list[Case] = []
    for share, make in SUITES:
        seen: set[str] = set()
        while len(seen) < round(share * per_skill):
            case = make(rng)
            if case["prompt"] in seen or len(vocab.encode(str(case["answer"]))) > MOST_ANSWER_TOKENS:
                continue
            seen.add(str(case["prompt"]))
            cases.append(case)
    return cases


def documents(seed: str, make: Callable[[random.Random], list[dialogue.Piece]] = dialogue.document
              ) -> Iterator[list[dialogue.Piece]]:
    """Endless training documents of one stream."""
    rng = random.Random(f"train {seed}")
    while True:
        yield make(rng)


def overlap(cases: list[Case], count: int, workers: int = 10) -> str:
    """Look for the exact prompts of a suite in training documents, by kind."""
    kinds = {str(c["prompt"]): f"{c['skill']}: {c['kind']}" for c in cases}
    found: set[str] = set()
    for worker in range(workers):
        stream = documents(f"{1 + worker % 2} {worker}")
        for _ in range(count // workers):
            text = ""
            for piece, is_answer in next(stream):
                if is_answer and text in kinds:
                    found.add(text)
                text += piece
    by_kind: dict[str, int] = {}
    for prompt in found:
        by_kind[kinds[prompt]] = by_kind.get(kinds[prompt], 0) + 1
    lines = [f"{len(found)} of {len(kinds)} prompts occur in {count} training documents"]
    return "\n".join(lines + [f"  {kind}: {n}" for kind, n in sorted(by_kind.items())])


def dump(cases: list[Case], out: Path | None) -> None:
    """Write cases as JSON lines."""
    text = "".join(json.dumps(c, ensure_ascii=False) + "\n" for c in cases)
    if out is None:
        sys.stdout.write(text)
    else:
        out.write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("text", "suite", "vocab", "check", "overlap"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=20, help="text, overlap: number of documents")
    parser.add_argument("--per-skill", type=int, default=300, help="suite: cases of a main skill")
    parser.add_argument("--suite", type=Path, help="overlap: the suite file")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.what == "vocab":
        vocab.write(args.out or Path("fulmar-demo.vocab.txt"))
    elif args.what == "check":
        lexicon.check()
        smalltalk.check()
    elif args.what == "overlap":
        print(overlap([json.loads(line) for line in args.suite.read_text(encoding="utf-8").splitlines()], args.count))
    elif args.what == "suite":
        dump(suite(args.seed, args.per_skill), args.out)
    else:
        stream = documents(f"{args.seed} 0 0")
        for _ in range(args.count):
            print("".join(text for text, _ in next(stream)))
            print("-" * 60)


if __name__ == "__main__":
    main()
