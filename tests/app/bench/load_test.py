#!/usr/bin/env python3
"""fulmar bench under load, from outside: load_test.py PROGRAM MODEL

Every request is answered in full at its exact length, by a server of the program's own and by one that runs already.
Steps alone need no vocabulary. What drafts bring is measured with and without a draft model.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile


def bench(program, command, *flags):
    done = subprocess.run([program, "bench", command, "-q", *flags], capture_output=True, text=True, timeout=240)
    return done.returncode, done.stdout, done.stderr


def check_own_server(program, model, folder):
    result = os.path.join(folder, "load.json")
    code, out, error = bench(program, "load", "--devices", "cpu", "--model", model, "--rate", "20",
                             "--num-prompts", "12", "--json", result)
    assert code == 0 and "12 of 12" in out and re.search(r"asked for \d+: exact", out), (code, out, error)
    bounds = re.search(r"server +\d+ slots, states f32\nideal schedule +([0-9.]+) s .* took ([0-9.]+) x as long\n"
                       r"planned schedule +([0-9.]+) s .* took ([0-9.]+) x as long", out)
    assert bounds and all(float(number) > 0 for number in bounds.groups()), out
    with open(result, encoding="utf-8") as file:
        figures = json.load(file)
    assert figures["successes"] == figures["exact_lengths"] == 12 and not figures["faults"], figures
    assert figures["e2e_ms"]["count"] == figures["ttft_ms"]["count"] == 12, figures
    assert figures["itl_ms"]["count"] <= figures["answer_tokens"] - 12, figures


def check_running_server(program, model, folder):
    conversations = [{"conversations": [{"value": f"What is {i} + 30, please?"}, {"value": "It is some number."}]}
                     for i in range(12)]
    dataset = os.path.join(folder, "conversations.json")
    with open(dataset, "w", encoding="utf-8") as file:
        json.dump(conversations, file)
    server = subprocess.Popen([program, "serve", "--port", "0", "--device", "cpu", "--model", model, "--slots", "auto",
                               "--state-db-path", "none"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    url = re.search(r"http://[0-9.]+:\d+", server.stdout.readline()).group()
    code, out, error = bench(program, "load", "--rate", "inf", "--num-prompts", "10", "--url", url,
                             "--dataset", dataset)
    assert code == 0 and "10 of 10" in out, (code, out, error)
    code, _, error = bench(program, "load", "--num-prompts", "13", "--url", url, "--dataset", dataset)
    assert code == 2 and "12 conversations" in error, (code, error)
    server.terminate()
    assert server.wait(timeout=60) == 0
    refused = subprocess.run([program, "serve", "--model", model, "--slots", "some"], capture_output=True, text=True)
    assert refused.returncode == 2 and "--slots" in refused.stderr, refused
    code, _, error = bench(program, "load", "--num-prompts", "1", "--url", url)
    assert code == 4 and "cannot connect" in error, (code, error)


def check_streams(program, model):
    code, out, error = bench(program, "serve", "--devices", "cpu", "--model", model, "--streams", "4", "--tokens", "64")
    assert code == 0 and "4 of 64 tokens; 4 answered, 4 of exact length" in out, (code, out, error)
    first = re.search(r"first token +[0-9.]+ ms median, [0-9.]+ ms p99: ([0-9.]+) x the prompts alone, ([0-9.]+) ms", out)
    assert first and all(float(number) > 0 for number in first.groups()), out


def check_without_vocabulary(program, model, folder):
    alone = os.path.join(folder, "alone.safetensors")
    shutil.copy(model, alone)
    steps = ["--device", "cpu", "--model", alone, "--decode", "1", "--prefill", ""]
    code, out, error = bench(program, "steps", *steps)
    assert code == 0 and "tok/s" in out and "tokenizer" not in out, (code, out, error)
    code, _, error = bench(program, "steps", *steps, "--vocab", os.path.join(folder, "none.txt"))
    assert code == 3 and "none.txt" in error, (code, error)
    code, _, error = bench(program, "serve", "--devices", "cpu", "--model", alone, "--streams", "1")
    assert code == 3 and "vocabulary" in error, (code, error)


def check_drafts(program, model, folder):
    result = os.path.join(folder, "drafts.json")
    flags = ["--device", "cpu", "--model", model, "--decode", "1,3", "--speculate-most", "3", "--acceptance", "1",
             "--repeats", "1", "--json", result]
    for source in (["ngram"], ["model", "--draft-model", model], ["model", "--draft-synthetic", "rwkv7-0.1b"]):
        code, out, error = bench(program, "drafts", *flags, "--drafter", *source)
        if source[-1] == "rwkv7-0.1b":  # far dearer than the model that it drafts for
            assert code == 0 and " drafted for by rwkv7-0.1b" in out, (code, out, error)
        with open(result, encoding="utf-8") as file:
            lines = json.load(file)["lines"]
        assert [line["sequences"] for line in lines] == [1, 3], lines
        for line in lines:
            assert len(line["step_seconds"]) == 4 and 0 <= line["drafts"] <= 3, line
            assert (line["draft_step_seconds"] > 0) == (source[0] == "model"), line
            assert source[-1] != "rwkv7-0.1b" or line["drafts"] == 0, line
    for source in (["model"], ["ngram", "--draft-model", model], ["model", "--draft-model", model, "--decode", ""]):
        code, _, error = bench(program, "drafts", "--model", model, "--drafter", *source)
        assert code == 2 and "wanted" in error, (source, code, error)
    for several in (["--state-dtype", "fp32,fp16"], ["--defer-state-writes", "1,4"]):
        code, _, error = bench(program, "drafts", "--model", model, *several)
        assert code == 2 and several[1] in error and several[0] in error, (several, code, error)


def check_structured(program, model, folder):
    result = os.path.join(folder, "structured.json")
    flags = ["--device", "cpu", "--model", model, "--repeats", "1"]
    code, out, error = bench(program, "structured", *flags, "--decode", "1,3", "--json", result)
    assert code == 0 and "steps" in out, (code, out, error)
    with open(result, encoding="utf-8") as file:
        lines = json.load(file)["lines"]
    assert [(line["sequences"], line["whitespace"]) for line in lines] == [
        (1, "none"), (1, "default"), (3, "none"), (3, "default")], lines
    for line in lines:
        assert line["tokens"] / 4 < line["forwarded_tokens"] < line["tokens"], line
        assert line["steps_with"] < line["steps_without"] * 2 / 3, line
    code, _, error = bench(program, "structured", *flags, "--decode", "")
    assert code == 2 and "bench structured measures --decode, which is empty" in error, (code, error)


def check_usage(program, model):
    for flags in (["load", "--client", "other"], ["load", "--rate", "0"], ["load", "--rate", "fast"], ["serve", "--streams", "0"],
                  ["load", "--url", "ftp://x"], ["drafts", "--decode", ""]):
        code, _, error = bench(program, *flags, "--model", model)
        assert code == 2 and error, (flags, code, error)


def check_old_spellings(program, model):
    flags = ["--devices", "cpu", "--model", model, "--decode", "1", "--repeats", "1"]
    for old, now in (([], "steps"), (["--kernels"], "kernels"), (["--drafts", "ngram"], "drafts")):
        done = subprocess.run([program, "bench", *flags, *old], capture_output=True, text=True, timeout=240)
        assert done.returncode == 0 and done.stderr.count(f" {now}") == 1 and "spelled" in done.stderr, (old, done)


def main(program, model):
    with tempfile.TemporaryDirectory() as folder:
        check_own_server(program, model, folder)
        check_running_server(program, model, folder)
        check_without_vocabulary(program, model, folder)
        check_drafts(program, model, folder)
        check_structured(program, model, folder)
    check_streams(program, model)
    check_usage(program, model)
    check_old_spellings(program, model)


if __name__ == "__main__":
    main(*sys.argv[1:])
