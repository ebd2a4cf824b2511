#!/usr/bin/env python3
"""One model over several devices, from the command line: pipeline_test.py PROGRAM MODELS

CPU stages stand for GPUs: what is asked of the flags, the plan and the server is the same.
"""
import json
import re
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

PROGRAM, MODELS = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
MODEL, SUITE = MODELS / "fulmar-demo.safetensors", MODELS / "demo-suite.jsonl"
problems = []


def run(*arguments, code=0):
    done = subprocess.run([PROGRAM, "--log", "error", *map(str, arguments)], capture_output=True, text=True, timeout=200)
    if done.returncode != code:
        problems.append(f"{arguments}: exit {done.returncode}, wanted {code}: {done.stderr.strip()}")
    return done.stdout + done.stderr


def expect(what, text, *parts):
    for part in parts:
        if part not in text:
            problems.append(f"{what}: no {part!r} in {text.strip()!r}")


def ask(url, path, body=None, raw=False):
    data = body if raw else json.dumps(body).encode() if body is not None else None
    with urllib.request.urlopen(urllib.request.Request(url + path, data), timeout=60) as answer:
        content = answer.read()
    return content if raw or path.endswith("/metrics") else json.loads(content)


class Server:
    def __init__(self, folder, *flags):
        self.process = subprocess.Popen([PROGRAM, "serve", "-m", MODEL, "--port", "0", "--state-db-path", "sessions.db", *flags],
                                        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.url = ""
        for line in self.process.stdout:
            if found := re.search(r"http://[0-9.]+:\d+", line):
                self.url = found.group()
                break

    def say(self, session, text):
        answer = ask(self.url, "/v1/chat/completions", {"messages": [{"role": "user", "content": text}], "temperature": 0,
                                                        "max_tokens": 24, "session_id": session})
        return answer["choices"][0]["message"]["content"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.communicate(timeout=60)
        if self.process.returncode != 0:
            problems.append(f"the server ended with {self.process.returncode}")


def main():
    question = "What is 12 + 30?"
    alone = run("generate", "-m", MODEL, "-t", "0", "--device", "cpu", question)
    for flags in (["--devices", "cpu,cpu"], ["--devices", "[cpu, cpu, cpu]", "--split", "1,2,3"],
                  ["--devices", "cpu,cpu", "--split", "4,2", "--pp-steps", "4"], ["--devices", "cpu,cpu", "--tp", "all"],
                  ["--tp", "2", "--device", "cpu"], ["--devices", "cpu,cpu,cpu,cpu", "--tp", "2"],
                  ["--pp-devices", "cpu,cpu", "--pp-split", "2,4"], ["--tp-devices", "cpu,cpu"]):
        told = run("generate", "-m", MODEL, "-t", "0", *flags, question)
        if told != alone:
            problems.append(f"{flags}: {told!r}, alone {alone!r}")

    with tempfile.TemporaryDirectory() as folder:
        some = Path(folder) / "some.jsonl"
        some.write_text("".join(SUITE.read_text().splitlines(keepends=True)[::15]))
        suites = [run("eval", "-q", "-m", MODEL, "--suite", some, "--slots", "16", *flags)
                  for flags in (["--device", "cpu"], ["--devices", "cpu,cpu"], ["--devices", "cpu,cpu", "--tp", "2"])]
    scores = [re.sub(r"[0-9.]+ s\b.*", "", suite) for suite in suites]
    for spread in scores[1:]:
        if spread != scores[0]:
            problems.append(f"the demo suite: {spread!r}, alone {scores[0]!r}")

    plan = run("inspect", "--quick", "--plan", "--slots", "8", "--devices", "cpu,cpu", "--split", "1,5", MODEL)
    expect("the plan", plan, "layers 0 to 0, embedding,", "layers 1 to 5, head and draws,", "8 states", "free")
    expect("too many states", run("inspect", "--quick", "--plan", "--slots", "100000000", "--devices", "cpu,cpu", MODEL,
                                  code=4),
           "the model needs", "for layers 0 to ", "100000000 states of", "MiB free")

    plan = run("inspect", "--quick", "--plan", "--slots", "8", "--devices", "cpu,cpu", "--tp", "2", MODEL)
    expect("the plan of slices", plan, "layers 0 to 5, heads 0 to ", "1/2 of the head and draws,", "8 states", "free")

    for flags, *parts in ((["--devices", "cpu,x"], "--devices is 'cpu,x' and names 'x'"),
                          (["--tp", "x"], "--tp is 'x'; wanted all or 1 to 64"),
                          (["--device", "cpu", "--activation", "fp8"], "--activation is 'fp8', which is for a GPU"),
                          (["--devices", "cpu,cpu,cpu,cpu,cpu", "--tp", "all"], "heads, which cannot be divided equally among 5"),
                          (["--devices", "cpu,cpu,cpu", "--tp", "2"], "3 devices do not make stages of 2"),
                          (["--devices", "cpu,gpu"], "--devices is 'cpu,gpu' and names 'gpu'"),
                          (["--devices", "cpu,"], "names ''"),
                          (["--devices", "cpu,cpu", "--split", "1,1"], "split as 1,1", "6 together"),
                          (["--devices", "cpu,cpu", "--split", "x"], "--split is 'x'"),
                          (["--split", "2,2"], "--split is '2,2' and --devices 'auto', which is one device"),
                          (["--devices", "cpu,cpu,cpu,cpu,cpu,cpu,cpu"], "6 layers cannot be spread over 7 devices")):
        expect(flags, run("generate", "-m", MODEL, *flags, "x", code=2), *parts)

    table = run("bench", "steps", "-q", "-m", MODEL, "--devices", "cpu,cpu", "--decode", "1,4", "--prefill", "2x32", "--repeats", "1")
    expect("bench", table, "cpu (", " > cpu (", "decode", "prefill")

    table = run("bench", "steps", "-q", "-m", MODEL, "--devices", "cpu", "--tp", "2", "--decode", "1,4", "--prefill", "2x32", "--repeats", "1")
    expect("bench of slices", table, "cpu (", " + cpu (", "decode", "prefill")

    # A conversation that begins on one device, goes on over two in either form, and ends on one.
    with tempfile.TemporaryDirectory() as folder:
        words = ["My name is Ada.", "What is 2 + 2?", "What is 3 + 4?", "What is my name?"]
        with Server(folder, "--device", "cpu") as one:
            stayed = [one.say("stays", text) for text in words]
            moved = [one.say("moves", words[0])]
        with Server(folder, "--devices", "cpu,cpu") as two:
            moved.append(two.say("moves", words[1]))
            if "fulmar_steps_total" not in ask(two.url, "/metrics").decode():
                problems.append("no metrics from a pipeline")
        with Server(folder, "--devices", "cpu,cpu", "--tp", "2") as two:
            moved.append(two.say("moves", words[2]))
        with Server(folder, "--device", "cpu") as one:
            moved.append(one.say("moves", words[3]))
        if moved != stayed:
            problems.append(f"a session that moves says {moved}, one that stays {stayed}")

    print("\n".join(problems) or "one model over several devices answers as on one")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
