#!/usr/bin/env python3
"""The demo model's JSON answers under a schema of their form: right, and the same whether what the grammar determines is fed
in one step or drawn token by token, as for rows that want log-probabilities.

usage: demo_structured.py FULMAR MODELS
"""
import json
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "server"))
from program_rig import MODELS, Program, equal  # noqa: E402

# Least share of the answers' tokens that is fed without asking, in percent.
FORWARDED = {"none": 50, "default": 30}


def schema_of(value):
    if isinstance(value, dict):
        return {"type": "object", "additionalProperties": False, "required": list(value),
                "properties": {name: schema_of(member) for name, member in value.items()}}
    if isinstance(value, list):
        return {"type": "array", "items": {"anyOf": [schema_of(element) for element in value]}}
    return {"type": "integer" if isinstance(value, int) else "string"}


def cases():
    """Prompts that JSON alone answers, with its values."""
    for line in pathlib.Path(MODELS, "demo-suite.jsonl").read_text().splitlines():
        case = json.loads(line)
        if case["skill"] == "json" and case["answer"].lstrip()[0] in "[{":
            yield case["prompt"], json.loads(case["answer"])


def counters(server):
    text = server.get("/metrics").body.decode()
    return [int(float(re.search(rf"^fulmar_{name}_total (\S+)$", text, re.MULTILINE).group(1)))
            for name in ("steps", "generated_tokens", "fast_forwarded_tokens")]


def answers(server, whitespace, **more):
    """The texts, how many are right, and what it took: steps, tokens, tokens fed without asking."""
    before, texts, right = counters(server), [], 0
    for prompt, value in cases():
        answer = server.post("/v1/completions", prompt=prompt, temperature=0, max_tokens=200, json_schema=schema_of(value),
                             whitespace=whitespace, use_prefix_cache=False, **more)
        texts.append(answer["choices"][0]["text"])
        right += json.loads(texts[-1]) == value
    return texts, right, [now - then for now, then in zip(counters(server), before)]


def main():
    with tempfile.TemporaryDirectory() as folder, Program(folder) as server:
        print("whitespace  answers  right  tokens  fed without asking  steps without  with")
        for whitespace, least in FORWARDED.items():
            drawn, right_drawn, (steps_drawn, _, none) = answers(server, whitespace, logprobs=0)
            texts, right, (steps, tokens, forwarded) = answers(server, whitespace)
            print(f"{whitespace:10} {len(texts):8} {right:6} {tokens:7} {100 * forwarded / tokens:17.1f} % {steps_drawn:14} {steps:5}")
            equal(texts, drawn, "answers without fast-forward")
            equal((right, right_drawn, none), (len(texts), len(texts), 0), "right, right without, forwarded without")
            assert 100 * forwarded > least * tokens, f"{forwarded} of {tokens} tokens; wanted above {least} %"
            assert steps < steps_drawn - forwarded / 2, f"{steps} steps, {steps_drawn} without"
        equal(server.get("/v1/server/status").json()["fast_forwarded_tokens"], counters(server)[2], "status")


main()
