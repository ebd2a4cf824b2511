#!/usr/bin/env python3
"""Start lines of the servers that Fulmar replaces: each starts it, given directly and behind --as, and a file of settings.

usage: start_flags.py FULMAR MODELS
"""
import re
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

PROGRAM, MODELS = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
MODEL, VOCABULARY = MODELS / "fulmar-demo.safetensors", MODELS / "fulmar-demo.vocab.txt"

# System as --as names it, and its options.
STARTS = [
    ("rwkv_lightning", f"--model-path {MODEL} --host 127.0.0.1 --port 0 --password secret --pp-devices [0]"),
    ("rwkv_lightning_cuda", f"--model-path {MODEL} --vocab-path {VOCABULARY} --port 0 --host 127.0.0.1 --wkv32 --chunk-load "
                            "--chunk-size 128 --state-db-path sessions.db --password secret"),
    ("rwkv_lightning_cuda", f"--model-path {MODELS} --enable-dynamic-loading --port 0"),
    ("albatross", f"--model-path {MODEL} --tokenizer-path {VOCABULARY} --host 127.0.0.1 --port 0 --max-batch-size 4 "
                         "--max-prefill-batch 2 --max-queue-size 10 --prefill-chunk-size 64 --use-cuda-graph"),
    ("conrwkv", f"--model {MODEL} --device cpu --port 0 --max_seq_len 4096 --max_batch_size 4 --max_queue_size 1000000 "
                "--max_completion_tokens 1024"),
    ("rwkv_infer", "--no-model --localhost 127.0.0.1 --port 0 --debug --workers 8 --dynamic_state_cache_size 512 "
                   "--dynamic_state_cache_store cpu --mrssmax 4"),
]
# Without a GPU these would not start; what they mean is tested elsewhere.
NEEDS_GPU = {"--pp-devices"}


def starts(flags, first=()):
    words = flags.split()
    for name in NEEDS_GPU & set(words):
        place = words.index(name)
        del words[place:place + 2]
    with tempfile.TemporaryDirectory() as folder:
        device = [] if "--device" in words else ["--device", "cpu"]
        process = subprocess.Popen([PROGRAM, "serve", *first, *words, *device], cwd=folder, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        found = None
        for line in process.stdout:
            if found := re.search(r"http://[0-9.]+:\d+", line):
                break
        healthy = found and urllib.request.urlopen(found.group() + "/healthcheck", timeout=60).status == 200
        process.terminate()
        _, log = process.communicate(timeout=60)
        return "" if healthy and process.returncode == 0 else f"exit {process.returncode}: {log[-400:]}"


def last_counts():
    """Of an option given twice, by whatever name, the last one: a worker's own arguments follow the control plane's."""
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen([PROGRAM, "serve", "--model", MODEL, "--device", "cpu", "--port", "0", "--slots", "4",
                                    "--state-db-path=none", "--slots", "2"], cwd=folder, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        line = process.stdout.readline()
        found = re.search(r"http://[0-9.]+:\d+", line)
        status = urllib.request.urlopen(found.group() + "/v1/queue/status", timeout=60).read().decode() if found else ""
        process.terminate()
        _, log = process.communicate(timeout=60)
        return "" if '"available_slots":2,' in status else f"{line}{status}{log[-400:]}"


def settings_file():
    """The command line goes before the file, and what is wrong in the file is named with its line."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "serve.toml"
        path.write_text(f'model = "{MODEL}"\ndevices = cpu\nport = 999999\nstate-db-path = none # of no use\n')
        fault = starts("--device cpu --port 0", ["--config", path])
        if fault:
            return fault
        for text, *parts in (("slots = 1\nprot = 1\n", "line 2", "there is no option 'prot'"), ("port = x\n", "line 1", "--port", "x"),
                             ("slots = 2\nslots = 3\n", "line 1 and line 2"), ("[serve]\n", "line 1 is '[serve]'")):
            path.write_text(text)
            done = subprocess.run([PROGRAM, "serve", "--config", path], capture_output=True, text=True)
            if done.returncode != 2 or any(part not in done.stderr for part in (str(path), *parts)):
                return f"{text!r}: exit {done.returncode}: {done.stderr}"
    return ""


def main():
    failures = 0
    for system, flags in STARTS:
        fault = starts(flags) or starts(flags, ["--as", system, "--"])
        failures += bool(fault)
        print(f"{system}: {fault or 'starts'}", flush=True)
    fault = settings_file()
    failures += bool(fault)
    print(f"a file of settings: {fault or 'is read'}", flush=True)
    fault = last_counts()
    failures += bool(fault)
    print(f"an option given twice: {fault or 'the last one counts'}", flush=True)
    two = subprocess.run([PROGRAM, "serve", "--pp-devices", "[998,999]"], capture_output=True, text=True)
    if two.returncode != 3 or "--devices names cuda:998" not in two.stderr:
        failures += 1
        print(f"--pp-devices [998,999]: exit {two.returncode}: {two.stderr}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
