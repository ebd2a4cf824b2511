#!/usr/bin/env python3
"""Greedy accuracy of the demo model on a suite of held-out cases.

    evaluate.py --model fulmar-demo.safetensors --suite demo-suite.jsonl     (PyTorch)
    evaluate.py --numpy --cases 20 ...                                       (numpy only)

A case counts when the greedy answer from the zero state up to id 0 is exactly
the expected text.  With --gaps FILE the suite is written again with the
smallest gap between the two best logits of each case.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import defaultdict
from pathlib import Path

import generate
import vocab

Case = generate.Case


def table(cases: list[Case], right: list[bool], by_kind: bool = False) -> str:
    """A Markdown table of accuracy by skill, or by skill and kind."""
    count: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for case, ok in zip(cases, right):
        name = str(case["skill"]) + (f": {case['kind']}" if by_kind else "")
        count[name][0] += ok
        count[name][1] += 1
    lines = ["| skill | right | cases | accuracy |", "|---|---|---|---|"]
    for name, (ok, n) in count.items():
        if not by_kind or ok < n:
            lines.append(f"| {name} | {ok} | {n} | {100 * ok / n:.1f} % |")
    return "\n".join(lines)


def judge(decoder, cases: list[Case], group: int = 768) -> list[bool]:
    """Run all cases with a PyTorch `Decoder`; stores `gap` in each case, prints some misses."""
    order = sorted(range(len(cases)), key=lambda i: len(str(cases[i]["prompt"])))
    right = [False] * len(cases)
    shown: dict[str, int] = defaultdict(int)
    for start in range(0, len(order), group):
        part = order[start:start + group]
        answers, gaps = decoder.greedy([vocab.encode(str(cases[i]["prompt"])) for i in part])
        for i, answer, gap in zip(part, answers, gaps):
            want = str(cases[i]["answer"])
            right[i] = vocab.decode(answer) == want.encode("utf-8")
            cases[i]["gap"] = round(gap, 3)
            if not right[i] and shown[str(cases[i]["skill"])] < 6:
                shown[str(cases[i]["skill"])] += 1
                print("miss", cases[i]["skill"], "|", repr(str(cases[i]["prompt"])[-110:]), "| want", repr(want[-90:]),
                      "| got", repr(vocab.decode(answer).decode("utf-8", "replace")[-90:]))
    return right


def load_torch(path: Path, device):
    """Weights of a safetensors file as float32 tensors."""
    import torch

    from files import read_safetensors
    kinds = {"F16": torch.float16, "F32": torch.float32, "BF16": torch.bfloat16}
    tensors, _ = read_safetensors(path)
    return {n: torch.frombuffer(bytearray(data), dtype=kinds[dtype]).reshape(shape).to(device).float()
            for n, (dtype, shape, data) in tensors.items()}


def main() -> None:
    models = Path(__file__).resolve().parents[2] / "models"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=models / "fulmar-demo.safetensors")
    parser.add_argument("--suite", type=Path, default=models / "demo-suite.jsonl")
    parser.add_argument("--seed", type=int, help="generate a fresh suite from this seed instead")
    parser.add_argument("--per-skill", type=int, default=300)
    parser.add_argument("--cases", type=int, help="only this many cases, chosen at random")
    parser.add_argument("--numpy", action="store_true", help="independent forward pass without PyTorch")
    parser.add_argument("--gaps", type=Path, help="write the suite with logit gaps here")
    parser.add_argument("--kinds", action="store_true", help="also show the kinds with misses")
    args = parser.parse_args()
    if args.seed is not None:
        cases = generate.suite(args.seed, args.per_skill)
    else:
        cases = [json.loads(line) for line in args.suite.read_text(encoding="utf-8").splitlines()]
    if args.cases:
        cases = random.Random(0).sample(cases, args.cases)
    begin = time.time()
    if args.numpy:
        from numpy_model import NumpyModel
        model = NumpyModel(args.model)
        right = []
        for case in cases:
            answer, gap = model.greedy(vocab.encode(str(case["prompt"])))
            right.append(vocab.decode(answer) == str(case["answer"]).encode("utf-8"))
            case["gap"] = round(gap, 3)
            if not right[-1]:
                print("miss", case, "got", vocab.decode(answer))
    else:
        import torch

        from model import Decoder
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        right = judge(Decoder(load_torch(args.model, device), device), cases)
    print(table(cases, right))
    if args.kinds:
        print(table(cases, right, by_kind=True))
    print(f"{sum(right)} of {len(cases)} right in {time.time() - begin:.1f} s")
    if args.gaps:
        generate.dump(cases, args.gaps)


if __name__ == "__main__":
    main()
