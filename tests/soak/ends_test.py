#!/usr/bin/env python3
"""Conversations through ends of every kind: ends_test.py PROGRAM MODEL [--conversations N] [--ends N] [--seed N]

Clients talk while the server comes to a random end, and the next server must have what docs/operations.md promises
under "What survives what": after TERM, a reload of the model and a second server on the same file every turn that was
answered; after KILL those that were answered longer than --state-flush-seconds ago; with a store that fails for a
while every turn, with one that stays away or is full until the end those from before, and the exit code and the last
line count the rest. In full: --conversations 2000 --ends 300.
"""
import argparse
import collections
import concurrent.futures
import http.client
import os
import queue
import random
import re
import resource
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from soak_server import Connection, Server, kept_sessions
from soak_talk import Talk, prompt_of

TURNS = 4  # of a conversation
CLIENTS = 4
TALKS = 16  # at a time
KINDS = ("term", "term", "term", "kill", "away", "back", "full", "second", "reload")
TURNS_LOST = 6  # exit code
FULL_BYTES = 512 << 10  # of a file, on a disk that is full


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class EarlyServer(Server):
    """Serves as soon as it answers, before it has said so."""

    def launch(self, most_bytes=None):
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write beyond fails instead
            if most_bytes is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
        self.host, self.port = "127.0.0.1", free_port()
        command = [str(self.port) if word == "0" and before == "--port" else word
                   for before, word in zip([None, *self.command], self.command)]
        self.log.unlink(missing_ok=True)
        # The limit is for files of sessions: the log goes through a pipe.
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=self.folder,
                                        preexec_fn=limit, restore_signals=False)
        self.reader = threading.Thread(target=lambda: self.log.write_bytes(self.process.stderr.read()))
        self.reader.start()
        while True:
            assert self.process.poll() is None, "the server did not start"
            try:
                if self.call("GET", "/health")[0] == 200:
                    return
            except (OSError, http.client.HTTPException):
                time.sleep(0.001)

    def end(self, number):
        self.process.send_signal(number)
        code = self.process.wait(timeout=120)
        self.reader.join()
        return code


class Ends:
    def __init__(self, flags, folder):
        self.flags, self.folder = flags, Path(folder)
        self.database = self.folder / "sessions.db"
        self.server = EarlyServer(flags.program, flags.model, folder, "--state-db-path", str(self.database),
                                  "--state-flush-seconds", str(flags.flush), *kept_sessions(3, 4))
        self.begun = 0
        self.talks, self.over = [self.begin() for _ in range(TALKS)], []
        self.count, self.problems, self.lock = collections.Counter(), [], threading.Lock()

    def begin(self):
        self.begun += 1
        return Talk(f"c{self.begun}")

    def problem(self, text):
        with self.lock:
            self.problems.append(text)
            print(f"PROBLEM {text}", flush=True)

    def talk_on(self, waiting, ended):
        """One client: turn after turn of whatever conversation is free, until the end."""
        connection = Connection(self.server)
        while not ended.is_set():
            talk = waiting.get()
            try:
                status, answer = connection.post("/state/chat/completions", {
                    "session_id": talk.name, "contents": [prompt_of(talk.name, talk.turn)], "stop_tokens": [0],
                    "top_k": 1, "max_tokens": 24, "alpha_presence": 0, "alpha_frequency": 0, "stream": False})
            except (OSError, http.client.HTTPException):
                return
            if status == 503:
                return
            if status != 200:
                return self.problem(f"{talk.name}: HTTP {status}: {answer}")
            talk.add(answer["choices"][0]["message"]["content"], time.monotonic())
            self.count["turns"] += 1
            waiting.put(talk)

    def life(self, kind):
        """Clients talk until the end of this kind. Returns from when on turns may be missing (None: never), and how
        many conversations may have one missing (None: any)."""
        self.server.launch(FULL_BYTES if kind == "full" else None)
        launched = time.monotonic()
        self.check()
        waiting, ended = queue.Queue(), threading.Event()
        for talk in random.sample(self.talks, len(self.talks)):
            waiting.put(talk)
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            clients = [pool.submit(self.talk_on, waiting, ended) for _ in range(CLIENTS)]
            time.sleep(random.uniform(0, self.flags.most))
            promise = self.end(kind, launched)
            ended.set()
            for _ in clients:
                waiting.put(Talk("nobody"))  # for a client that waits for one
            for client in clients:
                client.result()
        return promise

    def end(self, kind, launched):
        if kind == "kill":
            at = time.monotonic()
            self.server.end(signal.SIGKILL)
            return at - self.flags.flush - self.flags.slack, None
        if kind == "reload":
            path = os.path.basename(self.flags.model)
            status, answer = self.server.call("POST", "/loadmodel", {"model_filename": self.flags.model})
            if status != 200:
                self.problem(f"reload of {path}: HTTP {status}: {answer}")
        if kind == "second":
            second = subprocess.run([*self.server.command], cwd=self.folder, capture_output=True, text=True, timeout=60)
            if second.returncode != 4:
                self.problem(f"a second server ended with {second.returncode}: {second.stderr[-300:]}")
        other, since = None, time.monotonic()
        if kind in ("away", "back"):
            other = sqlite3.connect(self.database, isolation_level=None, timeout=10)
            other.execute("BEGIN IMMEDIATE")
            since = time.monotonic()
            time.sleep(random.uniform(0, self.flags.most))
            if kind == "back":
                other.close()
        code = self.server.end(signal.SIGTERM)
        if kind == "away":
            other.close()
        if kind == "full":
            since = launched
        log = self.server.log.read_text(errors="replace")
        counted = re.search(r"no store has: (\d+)", log)
        lost = int(counted.group(1)) if counted else 0
        if code != (TURNS_LOST if lost else 0) or (lost and kind not in ("away", "full")):
            self.problem(f"{kind}: exit code {code}, {lost} turns counted as lost; its log ends: {log[-600:]}")
        return (since - self.flags.flush - self.flags.slack, lost) if lost else (None, 0)

    def check(self):
        """What the server has of each conversation against what the last end promises."""
        kind, (since, most) = self.last
        status, answer = self.server.call("GET", "/v1/sessions")
        assert status == 200, answer
        stored = {entry["id"]: entry["tokens"] for entry in answer["data"]}
        missing = 0
        for talk in self.talks + self.over:
            lengths, tokens = talk.lengths(), stored.get(talk.name, 0)
            if tokens not in lengths:
                self.problem(f"{kind}: {talk.name} has {tokens} tokens; wanted one of {lengths}")
                continue
            kept = lengths.index(tokens)
            if kept < talk.turn:
                missing += 1
                self.count[f"turns gone by {kind}"] += talk.turn - kept
                if since is None or talk.answered_at[kept] < since:
                    self.problem(f"{kind}: {talk.name} lost turn {kept + 1} of {talk.turn}")
            talk.fall_back(kept, 0)
        if most is not None and missing > most:
            self.problem(f"{kind}: {missing} conversations lost a turn; {most} were counted")
        for talk in [talk for talk in self.over if talk.turn >= TURNS]:
            self.server.call("POST", "/state/delete", {"session_id": talk.name})
        done = [talk for talk in self.talks if talk.turn >= TURNS]
        self.over = done  # looked at once more after the next end, then deleted
        self.talks = [talk for talk in self.talks if talk.turn < TURNS]
        self.talks += [self.begin() for _ in range(TALKS - len(self.talks))]

    def run(self):
        self.last = ("none", (None, 0))
        while self.count["ends"] < self.flags.ends or self.begun - TALKS < self.flags.conversations:
            kind = random.choice(KINDS) if self.count["ends"] >= len(KINDS) else KINDS[self.count["ends"]]
            self.last = (kind, self.life(kind))
            self.count["ends"] += 1
            self.count[f"ends by {kind}"] += 1
            if self.count["ends"] % 20 == 0:
                print(f"{self.count['ends']} ends, {self.begun - TALKS} conversations, {self.count['turns']} turns",
                      flush=True)
        self.server.launch()
        self.check()
        self.server.end(signal.SIGTERM)
        for name, value in sorted(self.count.items()):
            print(f"{name}: {value}")
        print(f"{len(self.problems)} problems after {self.count['ends']} ends of {self.begun - TALKS} conversations")
        return 1 if self.problems else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--conversations", type=int, default=0, help="go on until so many have ended")
    parser.add_argument("--ends", type=int, default=300, help="and the server has so often")
    parser.add_argument("--flush", type=float, default=0.5, help="--state-flush-seconds of the server")
    parser.add_argument("--slack", type=float, default=0, help="seconds forgiven on a busy machine")
    parser.add_argument("--most", type=float, default=0.8, help="longest life in seconds")
    parser.add_argument("--seed", type=int, default=1)
    flags = parser.parse_args()
    flags.program, flags.model = str(Path(flags.program).resolve()), str(Path(flags.model).resolve())
    random.seed(flags.seed)
    with tempfile.TemporaryDirectory() as folder:
        return Ends(flags, folder).run()


if __name__ == "__main__":
    sys.exit(main())
