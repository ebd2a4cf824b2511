#!/usr/bin/env python3
"""Three workers with the demo model, Redis, HAProxy and the adapter between them: fleet_test.py PROGRAM MODEL CONFIG

Sessions tell their names, then a worker is killed, Redis is cut off, a worker is told to end: no committed turn
may be lost. Exit code 77 means that Redis or HAProxy is not installed.
"""
import concurrent.futures
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
SESSIONS = 200
NAMES = ["Alice", "Bob", "Emma", "Tom", "Anna", "Max"]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def eventually(condition, what, patience=60.0):
    end = time.monotonic() + patience
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"never: {what}")
        time.sleep(0.05)


class Fleet:
    def __init__(self, program, model, config, folder):
        self.program, self.model, self.folder = program, model, folder
        self.redis_port, self.port, self.socket = free_port(), free_port(), f"{folder}/admin.sock"
        self.url = f"redis://127.0.0.1:{self.redis_port}"
        self.others = [
            self.run("redis", ["redis-server", "--port", str(self.redis_port), "--bind", "127.0.0.1", "--save", "",
                               "--appendonly", "no", "--dir", folder])]
        self.redis = self.others[0]
        nowhere = {f"FULMAR_WORKER_{i}": "127.0.0.1:1" for i in (1, 2, 3)}  # all servers come from the directory
        self.others.append(self.run("haproxy", ["haproxy", "-db", "-f", config], FULMAR_BIND=f"127.0.0.1:{self.port}",
                                    FULMAR_ADMIN_SOCKET=self.socket, **nowhere))
        self.others.append(self.run("adapter", [program, "fleet", "haproxy", "--directory", self.url,
                                                "--socket", self.socket, "--every", "0.2"]))
        self.workers = {}
        for name in ("a", "b", "c"):
            self.start(name)
        self.wait_for({"a", "b", "c"})

    def run(self, name, words, **environment):
        log = open(f"{self.folder}/{name}.log", "ab")
        return subprocess.Popen(words, env=dict(os.environ, **environment), stdout=log, stderr=log)

    def start(self, name):
        self.workers[name] = self.run(name, [
            self.program, "serve", "--model", self.model, "--port", "0", "--threads", "1", "--quiet", "--grace", "20",
            "--state-store", self.url, "--directory", self.url, "--announce-as", name, "--announce-host", "127.0.0.1"])

    def up(self):
        with socket.socket(socket.AF_UNIX) as door:
            door.connect(self.socket)
            door.sendall(b"show stat\n")
            answer = b""
            while piece := door.recv(65536):
                answer += piece
        rows = [line.split(",") for line in answer.decode().splitlines() if line.startswith("workers,fulmar-")]
        return {row[1].removeprefix("fulmar-") for row in rows if row[17].startswith("UP")}

    def wait_for(self, names):
        def aligned():
            try:
                return self.up() == names
            except OSError:
                return False
        eventually(aligned, f"HAProxy has {sorted(names)}")

    def stop(self):
        os.kill(self.redis.pid, signal.SIGCONT)
        for process in [*self.workers.values(), *self.others]:
            process.kill()
            process.wait()


def turn(fleet, session, text):
    """(answer, None) or (None, clean failure). Anything else is an error of the test."""
    connection = http.client.HTTPConnection("127.0.0.1", fleet.port, timeout=60)
    body = json.dumps({"contents": [f"User: {text}\n\nAssistant:"], "session_id": session, "stream": False,
                       "max_tokens": 24, "top_k": 1, "alpha_presence": 0, "alpha_frequency": 0})
    try:
        connection.request("POST", "/state/chat/completions", body, {"X-Fulmar-Session": session})
        response = connection.getresponse()
        answer = json.loads(response.read()) if response.getheader("Content-Type", "").startswith("application/json") else None
    except (http.client.HTTPException, OSError) as failure:
        return None, failure  # the connection was cut
    if response.status != 200:
        return None, response.status
    return answer["choices"][0]["message"]["content"], None


def everyone(fleet, text_of):
    """Asks in all sessions at once; a clean failure is tried again, as clients do."""
    failures = []

    def ask(i):
        for _ in range(20):
            answer, failure = turn(fleet, f"s{i}", text_of(i))
            if failure is None:
                return answer
            failures.append(failure)
            time.sleep(0.3)
        raise AssertionError(f"session {i} never answered: {failures[-5:]}")

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        return list(pool.map(ask, range(SESSIONS))), failures


def name_of(i, renamed=0):
    return NAMES[(i + renamed) % len(NAMES)]


def remembered(fleet, moment, renamed=0):
    answers, failures = everyone(fleet, lambda i: "What is my name?")
    wrong = [(i, name_of(i, renamed), answer) for i, answer in enumerate(answers) if name_of(i, renamed) not in answer]
    print(f"- {moment}: {SESSIONS - len(wrong)} of {SESSIONS} names right, {len(failures)} requests failed and were repeated")
    assert not wrong, f"{moment}: {wrong[:5]}"


def check(fleet):
    answers, _ = everyone(fleet, lambda i: f"My name is {name_of(i)}.")
    print(f"- introduced; the first answer: {answers[0]!r}")
    remembered(fleet, "all is well")

    fleet.workers["a"].kill()
    fleet.workers["a"].wait()
    remembered(fleet, "a worker was killed")
    fleet.start("a")
    fleet.wait_for({"a", "b", "c"})
    remembered(fleet, "it is back, with sessions that went on elsewhere")

    os.kill(fleet.redis.pid, signal.SIGSTOP)
    resume = time.monotonic() + 10
    while time.monotonic() < resume:
        turn(fleet, "s0", "What is my name?")
        time.sleep(0.2)
    os.kill(fleet.redis.pid, signal.SIGCONT)
    fleet.wait_for({"a", "b", "c"})
    remembered(fleet, "Redis was away for ten seconds")

    # A worker that was away comes back with old states in its memory.
    os.kill(fleet.workers["c"].pid, signal.SIGSTOP)
    fleet.wait_for({"a", "b"})
    everyone(fleet, lambda i: f"My name is {name_of(i, 1)}.")
    os.kill(fleet.workers["c"].pid, signal.SIGCONT)
    fleet.wait_for({"a", "b", "c"})
    remembered(fleet, "a worker slept while its sessions went on elsewhere", 1)

    fleet.workers["b"].terminate()
    assert fleet.workers["b"].wait(30) == 0
    remembered(fleet, "a worker was told to end", 1)


def main():
    program, model, config = sys.argv[1:]
    for needed in ("redis-server", "haproxy"):
        if shutil.which(needed) is None:
            print(f"SKIPPED: {needed} is not installed")
            return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(program, model, config, folder)
        try:
            check(fleet)
        except BaseException:
            for name in ("a", "b", "c", "adapter"):
                with open(f"{folder}/{name}.log", encoding="utf-8", errors="replace") as log:
                    print(f"---- {name}\n{log.read()[-1500:]}")
            raise
        finally:
            fleet.stop()
    print("passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
