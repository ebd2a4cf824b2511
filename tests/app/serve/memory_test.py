#!/usr/bin/env python3
"""What a server keeps of memory that was let go: memory_test.py PROGRAM MODEL [--cycles N]

Loads, replaces and removes models again and again, then sends large bodies that are refused again and again. Memory of its own
(anonymous pages) stays near what it was, and the totals of /metrics never fall, whatever comes and goes.
"""
import argparse
import json
import os
import re
import subprocess
import urllib.error
import urllib.request

MIB = 1 << 20
MOST_KEPT = 40  # MiB beyond the start: one heap's free end for each thread, and what sessions and prompts may keep
MOST_GROWTH = 8  # MiB between the middle and the end of the cycles: nothing is left behind by each


class Server:
    def __init__(self, program, model):
        self.process = subprocess.Popen(
            [program, "serve", "--port", "0", "--device", "cpu", "-m", model, "--state-db-path", "none", "--slots", "24",
             "--cache-host", "28"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.base = re.search(r"http://[0-9.:]+", self.process.stdout.readline()).group()

    def send(self, path, body=None):
        try:
            with urllib.request.urlopen(urllib.request.Request(self.base + path, data=body), timeout=120) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def call(self, path, body):
        status, answer = self.send(path, json.dumps(body).encode())
        assert status == 200, (path, status, answer[:300])

    def own_mib(self):
        rollup = open(f"/proc/{self.process.pid}/smaps_rollup").read()
        return int(re.search(r"^Anonymous: +(\d+) kB", rollup, re.MULTILINE).group(1)) / 1024

    def totals(self):
        text = self.send("/metrics")[1].decode()
        return {name: float(value) for name, value in re.findall(r"^(fulmar_\w+_total(?:{.*})?) (\S+)$", text, re.MULTILINE)}


def change_models(server, model):
    totals = server.totals()

    def load(name):
        server.call("/loadmodel", {"model_filename": model, "model_viewname": name})

    def ask(name):
        server.call("/v1/completions", {"model": name, "prompt": "Repeat: abc", "max_tokens": 8, "ignore_eos": True})
    served = os.path.basename(model).split(".")[0]
    changes = [lambda: load("extra"), lambda: ask("extra"), lambda: load("extra"), lambda: ask("extra"), lambda: load(served),
               lambda: ask(served), lambda: server.call("/removemodel", {"model_viewname": "extra"})]
    for change in changes:
        change()
        before, totals = totals, server.totals()
        fallen = {name: (value, totals.get(name)) for name, value in before.items() if totals.get(name, -1) < value}
        assert not fallen, f"totals fell: {fallen}"


def refuse_bodies(server, _model):
    size = 16 * MIB
    for body in (b'{"prompt":[' + b"0," * (size // 2) + b"-1]}", b'{"x":[' + b'"",' * (size // 4) + b'""]}',
                 b'{"prompt":5,"x":"' + b"y" * size + b'"}'):
        status, answer = server.send("/v1/completions", body)
        assert status == 400, (status, answer[:300])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--cycles", type=int, default=8, help="of each kind")
    flags = parser.parse_args()
    server = Server(flags.program, os.path.abspath(flags.model))
    try:
        start = server.own_mib()
        for cycle in (change_models, refuse_bodies):
            kept = []
            for _ in range(flags.cycles):
                cycle(server, os.path.abspath(flags.model))
                kept.append(round(server.own_mib() - start, 1))
            print(f"{cycle.__name__}: MiB beyond the {start:.0f} of the start, by cycle: {kept}")
            half = len(kept) // 2
            growth = min(kept[half:]) - max(kept[:half])
            assert min(kept[half:]) <= MOST_KEPT, f"{kept} MiB are kept; wanted at most {MOST_KEPT}"
            assert growth <= MOST_GROWTH, f"the later cycles keep {growth:.0f} MiB more than the first; wanted at most {MOST_GROWTH}"
    finally:
        server.process.terminate()
        code = server.process.wait(timeout=60)
    assert code == 0, f"exit code {code} after SIGTERM; wanted 0"


if __name__ == "__main__":
    main()
