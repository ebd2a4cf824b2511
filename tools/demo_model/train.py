#!/usr/bin/env python3
"""Trains the demo model, evaluates it, tunes the pirate state and writes all files.

    train.py --out out --seed 1 --minutes 7            on one GPU (nvcc must be on the PATH)
    train.py --out out --size draft --minutes 2.5      its draft model: the same text, a tenth of the weights
    train.py --out out --steps 3000 --rows 16 --workers 2      on a CPU: many hours

The learning rate falls to zero at the end of the time (or steps) given.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from pathlib import Path
from typing import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

import dialogue
import evaluate
import generate
import plot
import vocab
import wkv7
from data import ANSWER, PROMPT, Batch, Loader
from files import write_safetensors
from model import Config, Decoder, Model
from muon import Muon
from skills.smalltalk import pirate

PROMPT_WEIGHT = 0.03
SIZES = {
    "demo": Config(),
    "draft": Config(layers=2, width=128, ffn=256, rank_w=16, rank_a=16, rank_v=16, rank_g=32),
}


def to_device(batch: Batch, device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """(tokens, targets, weights, keep, reset) on the device."""
    tokens, targets, codes, reset = (torch.from_numpy(a).to(device, non_blocking=True) for a in batch)
    keep = torch.ones(tokens.shape, device=device)
    keep[:, ::wkv7.CHUNK] = 1.0 - reset.float()
    return tokens.long(), targets.long(), codes, keep[..., None], reset


def losses(model: Model, batch: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """Mean cross-entropy over answer tokens and over prompt tokens."""
    tokens, targets, codes, keep, reset = batch
    with torch.autocast(tokens.device.type, torch.bfloat16, enabled=tokens.is_cuda):
        logits = model(tokens, keep, reset)
    each = F.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), reduction="none").view(targets.shape)
    answer, prompt = (codes == ANSWER).float(), (codes == PROMPT).float()
    return (each * answer).sum() / answer.sum(), (each * prompt).sum() / prompt.sum()


class Schedule:
    """Progress from 0 to 1 by time or by steps; linear warm-up, plateau and decay."""

    def __init__(self, minutes: float, steps: int, warmup: int = 100, plateau: float = 0.35) -> None:
        self.minutes, self.steps, self.warmup, self.plateau = minutes, steps, warmup, plateau
        self.begin = time.time()

    def progress(self, step: int) -> float:
        if self.steps:
            return step / self.steps
        return (time.time() - self.begin) / (60 * self.minutes)

    def factor(self, step: int) -> float:
        p = self.progress(step)
        if step < self.warmup:
            return (step + 1) / self.warmup
        return min(1.0, max(0.0, (1 - p) / (1 - self.plateau)))


def optimizers(model: Model, args: argparse.Namespace) -> list[torch.optim.Optimizer]:
    """Muon for the square and FFN matrices of the blocks, AdamW for everything else."""
    matrices, rest = [], []
    for name, p in model.named_parameters():
        if name.startswith("time_state"):
            continue
        hidden = name.startswith("blocks.") and name.endswith(
            ("receptance.weight", "key.weight", "value.weight", "output.weight"))
        (matrices if hidden else rest).append(p)
    fused = next(model.parameters()).is_cuda
    return [Muon(matrices, args.muon_lr, decay=0.02),
            torch.optim.AdamW(rest, args.adam_lr, betas=(0.9, 0.98), eps=1e-10, weight_decay=0.0, fused=fused)]


def train(model: Model, args: argparse.Namespace, device: torch.device, loader: Iterator[Batch]) -> None:
    """The main run; writes training-log.csv as it goes."""
    if device.type == "cuda" and not args.eager:
        for block in model.blocks:
            block.compile()
    steppers = optimizers(model, args)
    bases = [[g["lr"] for g in o.param_groups] for o in steppers]
    trained = [p for n, p in model.named_parameters() if not n.startswith("time_state")]
    schedule = Schedule(args.minutes, args.steps, plateau=args.plateau)
    sums = torch.zeros(3, device=device)
    started = last = time.time()
    step, tested = 0, args.minutes < 3
    with open(args.out / "training-log.csv", "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["step", "seconds", "tokens", "loss_answers", "loss_prompts", "learning_rate_factor"])
        for raw in loader:
            factor = schedule.factor(step)
            if schedule.progress(step) >= 1:
                break
            answer, prompt = losses(model, to_device(raw, device))
            (answer + PROMPT_WEIGHT * prompt).backward()
            torch.nn.utils.clip_grad_norm_(trained, 1.0, foreach=True)
            for stepper, base in zip(steppers, bases):
                for group, lr in zip(stepper.param_groups, base):
                    group["lr"] = lr * factor
                stepper.step()
            model.zero_grad(set_to_none=True)
            with torch.no_grad():
                sums += torch.stack([answer.detach(), prompt.detach(), torch.ones_like(answer)])
            step += 1
            if step == 3 and not args.steps:  # compilation is over: the clock starts here
                if device.type == "cuda":
                    torch.cuda.synchronize()
                print(f"first steps took {time.time() - started:.1f} s")
                schedule.begin = started = last = time.time()
            if step % 100 == 0:
                a, p, n = sums.tolist()
                sums.zero_()
                row = [step, round(time.time() - started, 1), step * args.rows * args.length, round(a / n, 5),
                       round(p / n, 4), round(factor, 4)]
                out.writerow(row)
                file.flush()
                print(*row, f"{args.rows * args.length * 100 / (time.time() - last) / 1e6:.2f} M tokens/s", flush=True)
                last = time.time()
                if schedule.progress(step) > 0.6 and not tested:
                    tested = True
                    cases = generate.suite(77, 60)
                    print(evaluate.table(cases, evaluate.judge(Decoder(half(model), device), cases)), flush=True)
                    save(model, args)
    print(f"{step} steps, {step * args.rows * args.length / 1e6:.0f} M tokens, {time.time() - started:.0f} s", flush=True)


def half(model: Model) -> dict[str, Tensor]:
    """The weights as shipped: rounded to float16."""
    return {n: p.half() for n, p in model.weights().items()}


def save(model: Model, args: argparse.Namespace) -> None:
    """Write the safetensors file, named after the size."""
    name = "fulmar-demo" if args.size == "demo" else f"fulmar-demo-{args.size}"
    tensors = {n: ("F16", tuple(p.shape), p.cpu().contiguous().numpy().tobytes()) for n, p in half(model).items()}
    write_safetensors(args.out / f"{name}.safetensors", tensors,
                      {"format": "pt", "architecture": "rwkv7", "tokenizer": "fulmar-demo.vocab.txt", "name": name,
                       "eos_token_id": "0"})


def tune_pirate(model: Model, args: argparse.Namespace, device: torch.device, loader: Iterator[Batch]) -> list[Tensor]:
    """Train only the initial state, on small talk answered like a pirate.

    It starts from the state that the model reaches by reading a system turn
    that asks for the style.
    """
    decoder = Decoder(half(model), device)
    reached = decoder.zero_state(1)
    with torch.no_grad():
        for token in vocab.encode(f"System: {dialogue.PIRATE_SYSTEMS[0]}\n\n"):
            decoder.step(torch.tensor([token], device=device), reached)
        for p in model.weights().values():
            p.copy_(p.half())
        for s, (_, wkv, _) in zip(model.time_state, reached):
            s.copy_(wkv[0])
    wkv7.want_state_grad = True
    states = list(model.time_state)
    adam = torch.optim.Adam(states, args.state_lr, betas=(0.9, 0.95))
    sums = torch.zeros((), device=device)
    for step, raw in enumerate(loader):
        if step >= args.pirate_steps:
            break
        for group in adam.param_groups:
            group["lr"] = args.state_lr * (1 - step / args.pirate_steps)
        answer, _ = losses(model, to_device(raw, device))
        answer.backward()
        torch.nn.utils.clip_grad_norm_(states, 1.0)
        adam.step()
        model.zero_grad(set_to_none=True)
        sums += answer.detach()
        if (step + 1) % 50 == 0:
            print("state", step + 1, round(sums.item() / 50, 4), flush=True)
            sums.zero_()
    wkv7.want_state_grad = False
    return [s.detach().bfloat16() for s in states]


def pirate_report(weights: dict[str, Tensor], states: list[Tensor], device: torch.device) -> str:
    """How the tuned state changes small talk and how it leaves the rest alone."""
    cases = [c for c in generate.suite(991, 200)]
    talk = [c for c in cases if c["skill"] == "small talk" and str(c["kind"]).endswith("plain")
            and "System:" not in str(c["prompt"]) and str(c["prompt"]).count("User:") == 1]
    rest = [c for c in cases if c["skill"] != "small talk"]
    lines = ["| initial state | small talk answers with \"Ahoy\" | exact pirate answer | other skills right |",
             "|---|---|---|---|"]
    for name, state in (("zero", None), ("pirate", states)):
        decoder = Decoder(weights, device, state)
        answers = [vocab.decode(a).decode("utf-8", "replace")
                   for a in decoder.greedy([vocab.encode(str(c["prompt"])) for c in talk])[0]]
        ahoy = sum("Ahoy" in a for a in answers)
        exact = sum(a == " " + pirate(str(c["answer"])[1:]) for a, c in zip(answers, talk))
        right = evaluate.judge(decoder, rest)
        lines.append(f"| {name} | {100 * ahoy / len(talk):.1f} % | {100 * exact / len(talk):.1f} % | "
                     f"{100 * sum(right) / len(rest):.1f} % |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--size", choices=SIZES, default="demo", help="draft: weights alone, no suite and no tuned state")
    parser.add_argument("--minutes", type=float, default=7.0, help="training time after compilation")
    parser.add_argument("--steps", type=int, default=0, help="fixed number of steps instead of a time")
    parser.add_argument("--rows", type=int, default=96)
    parser.add_argument("--length", type=int, default=768)
    parser.add_argument("--workers", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--suite-seed", type=int, default=20271)
    parser.add_argument("--second", type=int, default=1000, help="cases per skill of the second, larger suite")
    parser.add_argument("--muon-lr", type=float, default=0.015)
    parser.add_argument("--adam-lr", type=float, default=0.003)
    parser.add_argument("--state-lr", type=float, default=0.02)
    parser.add_argument("--pirate-steps", type=int, default=600)
    parser.add_argument("--plateau", type=float, default=0.35, help="share of the run before the rate falls")
    parser.add_argument("--eager", action="store_true", help="do not compile the blocks")
    parser.add_argument("--check", action="store_true", help="check the kernels first")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    loader = Loader(f"{args.seed}", args.workers, args.rows, args.length)  # forks before CUDA starts
    sea = Loader(f"{args.seed} sea", 3, args.rows, args.length, pirate=True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_float32_matmul_precision("high")
    if args.check:
        wkv7.check()
    torch.manual_seed(args.seed)
    model = Model(SIZES[args.size]).to(device)
    print(sum(p.numel() for p in model.weights().values()), "parameters")
    train(model, args, device, iter(loader))
    loader.close()
    save(model, args)
    plot.draw(args.out / "training-log.csv", args.out / "training-loss.svg")
    if args.size == "draft":
        cases = generate.suite(args.suite_seed, 60)
        print(evaluate.table(cases, evaluate.judge(Decoder(half(model), device), cases)), flush=True)
        return

    torch.set_float32_matmul_precision("highest")
    begin = time.time()
    decoder = Decoder(half(model), device)
    cases = generate.suite(args.suite_seed, 300)
    right = evaluate.judge(decoder, cases)
    generate.dump(cases, args.out / "demo-suite.jsonl")
    report = ["## Suite", evaluate.table(cases, right), "## Kinds with misses", evaluate.table(cases, right, True)]
    print(report[1], flush=True)
    more = generate.suite(args.suite_seed + 1, args.second)
    right = evaluate.judge(decoder, more)
    report += ["## Second seed, more cases", evaluate.table(more, right), evaluate.table(more, right, True)]
    print(report[-2], report[-1], f"evaluation took {time.time() - begin:.0f} s", sep="\n", flush=True)
    (args.out / "report.md").write_text("\n\n".join(report) + "\n")

    if args.pirate_steps:
        torch.set_float32_matmul_precision("high")
        states = tune_pirate(model, args, device, iter(sea))
        sea.close()
        torch.save({f"blocks.{i}.att.time_state": s.cpu() for i, s in enumerate(states)},
                   args.out / "fulmar-demo-pirate.state.pth")
        torch.set_float32_matmul_precision("highest")
        report += ["## Pirate state", pirate_report(half(model), states, device)]
        print(report[-1], flush=True)
        (args.out / "report.md").write_text("\n\n".join(report) + "\n")
    (args.out / "run.json").write_text(json.dumps({k: str(v) for k, v in vars(args).items()}))


if __name__ == "__main__":
    main()
