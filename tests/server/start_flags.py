#!/usr/bin/env python3
"""Start lines of the servers that Fulmar replaces: each starts it, and each flag is in `fulmar serve --help`.

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

# System, and its flags after `serve`.
STARTS = [
    ("rwkv_lightning", f"--model-path {MODEL} --host 127.0.0.1 --port 0 --password secret --pp-devices [0]"),
    ("rwkv_lightning_cuda", f"--model-path {MODEL} --vocab-path {VOCABULARY} --port 0 --host 127.0.0.1 --wkv32 --chunk-load "
                            "--chunk-size 128 --state-db-path sessions.db --password secret"),
    ("rwkv_lightning_cuda, a folder of models", f"--model-path {MODELS} --enable-dynamic-loading --port 0"),
    ("Albatross worker", f"--model-path {MODEL} --tokenizer-path {VOCABULARY} --host 127.0.0.1 --port 0 --max-batch-size 4 "
                         "--max-prefill-batch 2 --max-queue-size 10 --prefill-chunk-size 64 --use-cuda-graph"),
    ("conRWKV", f"--model {MODEL} --device cpu --port 0 --max_seq_len 4096 --max_batch_size 4 --max_queue_size 1000000 "
                "--max_completion_tokens 1024"),
    ("RWKV-Infer", "--no-model --localhost 127.0.0.1 --port 0 --debug --workers 8 --dynamic_state_cache_size 512 "
                   "--dynamic_state_cache_store cpu --mrssmax 4"),
]
# Without a GPU these would not start; what they mean is tested elsewhere.
NEEDS_GPU = {"--pp-devices"}


def starts(flags):
    words = flags.split()
    for name in NEEDS_GPU & set(words):
        place = words.index(name)
        del words[place:place + 2]
    with tempfile.TemporaryDirectory() as folder:
        device = [] if "--device" in words else ["--device", "cpu"]
        process = subprocess.Popen([PROGRAM, "serve", *words, *device], cwd=folder, stdout=subprocess.PIPE,
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
        process = subprocess.Popen([PROGRAM, "serve", "--model", MODEL, "--device", "cpu", "--port", "0", "--max-batch-size", "4",
                                    "--state-db-path=none", "--slots", "2"], cwd=folder, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        line = process.stdout.readline()
        found = re.search(r"http://[0-9.]+:\d+", line)
        status = urllib.request.urlopen(found.group() + "/v1/queue/status", timeout=60).read().decode() if found else ""
        process.terminate()
        _, log = process.communicate(timeout=60)
        return "" if '"available_slots":2,' in status else f"{line}{status}{log[-400:]}"


def main():
    listed = set(re.findall(r"--[A-Za-z0-9_-]+", subprocess.run([PROGRAM, "serve", "--help"], capture_output=True,
                                                                text=True, check=True).stdout))
    failures = 0
    for system, flags in STARTS:
        missing = set(re.findall(r"--[A-Za-z0-9_-]+", flags)) - listed
        fault = f"not in --help: {sorted(missing)}" if missing else starts(flags)
        failures += bool(fault)
        print(f"{system}: {fault or 'starts'}", flush=True)
    fault = last_counts()
    failures += bool(fault)
    print(f"an option given twice: {fault or 'the last one counts'}", flush=True)
    two = subprocess.run([PROGRAM, "serve", "--pp-devices", "[998,999]"], capture_output=True, text=True)
    if two.returncode != 3 or "--pp-devices names cuda:998" not in two.stderr:
        failures += 1
        print(f"--pp-devices [998,999]: exit {two.returncode}: {two.stderr}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
