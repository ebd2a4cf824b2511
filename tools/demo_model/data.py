"""Packs documents into rows for training, in worker processes."""

from __future__ import annotations

import multiprocessing as mp
import random
from typing import Iterator

import numpy as np

import dialogue
import generate
import vocab
from wkv7 import CHUNK

PROMPT, ANSWER = 1, 2  # weight codes; 0 = padding

Doc = tuple[list[int], list[int], list[int]]
Batch = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def encode(pieces: list[dialogue.Piece], leading_zero: bool) -> Doc:
    """(ids, targets, weight codes).  The target after an answer is id 0, whatever comes next."""
    ids: list[int] = [0] if leading_zero else []
    roles: list[int] = [PROMPT] * len(ids)
    ends: list[int] = []
    for text, is_answer in pieces:
        part = vocab.encode(text)
        ids += part
        roles += [ANSWER if is_answer else PROMPT] * len(part)
        if is_answer:
            ends.append(len(ids) - 1)
        else:  # whether the client asks for thinking is nothing to predict
            forced = len(vocab.encode(text.rpartition("Assistant:")[2])) if "Assistant:" in text else 0
            roles[len(roles) - forced:] = [0] * forced
    targets = ids[1:] + [0]
    codes = roles[1:] + [ANSWER]
    for end in ends:
        targets[end] = 0
        codes[end] = ANSWER
    return ids, targets, codes


def batches(seed: str, rows: int, length: int, pirate: bool) -> Iterator[Batch]:
    """Endless batches: tokens, targets, weight codes [rows, length], document starts per chunk."""
    rng = random.Random("pack " + seed)
    stream = generate.documents(seed, dialogue.pirate_document if pirate else dialogue.document)
    waiting: list[Doc] = []
    while True:
        tokens = np.zeros((rows, length), np.int16)
        targets = np.zeros((rows, length), np.int16)
        codes = np.zeros((rows, length), np.uint8)
        reset = np.zeros((rows, length // CHUNK), np.uint8)
        for row in range(rows):
            at = 0
            while True:
                while len(waiting) < 12:
                    doc = encode(next(stream), rng.random() < 0.1)
                    if len(doc[0]) <= length:
                        waiting.append(doc)
                fits = next((i for i, d in enumerate(waiting) if len(d[0]) <= length - at), None)
                if fits is None:
                    break
                ids, goal, code = waiting.pop(fits)
                end = at + len(ids)
                tokens[row, at:end], targets[row, at:end], codes[row, at:end] = ids, goal, code
                reset[row, at // CHUNK] = 1
                at = -(-end // CHUNK) * CHUNK
                if at >= length:
                    break
        yield tokens, targets, codes, reset


def _work(queue: mp.Queue, seed: str, rows: int, length: int, pirate: bool) -> None:
    for batch in batches(seed, rows, length, pirate):
        queue.put(batch)


class Loader:
    """Batches from several processes, in a fixed order."""

    def __init__(self, seed: str, workers: int, rows: int, length: int, pirate: bool = False) -> None:
        context = mp.get_context("fork")
        self.queues = [context.Queue(maxsize=6) for _ in range(workers)]
        self.processes = [context.Process(target=_work, args=(q, f"{seed} {i}", rows, length, pirate), daemon=True)
                          for i, q in enumerate(self.queues)]
        for process in self.processes:
            process.start()

    def __iter__(self) -> Iterator[Batch]:
        while True:
            for queue in self.queues:
                yield queue.get()

    def close(self) -> None:
        for process in self.processes:
            process.terminate()
