#!/usr/bin/env python3
"""Sessions over all levels through SIGKILLs at random moments: crash_test.py PROGRAM MODEL [--sessions N] [--kills N] ...

Every session alternates between being told a number and being asked for it, so that each answer shows which turn its
state has. After each kill the server must hold every turn that was answered longer than the flush time ago; what is
younger may be gone, then the session goes on from the turn before. A wrong answer counts only if a session that runs
the same turns without interruption answers differently.
"""
import argparse
import collections
import concurrent.futures
import http.client
import random
import sys
import tempfile
import threading
import time
from pathlib import Path

from soak_server import Connection, Server, kept_sessions
from soak_talk import Talk, likely_answer, prompt_of

TURNS = 16  # then a session is deleted and begins anew
CLIENTS = 16


class Succession(Talk):
    """A client's sessions, one after the other, each under a name of its own."""

    def __init__(self, index):
        self.index, self.generation = index, 0
        self.begin()

    def begin(self):
        self.generation += 1
        self.leaving = False  # its deletion was asked for: a kill may come before the answer to that
        super().__init__(f"s{self.index}.{self.generation}")


class Crash:
    def __init__(self, flags, folder):
        self.flags = flags
        self.server = Server(flags.program, flags.model, folder, "--state-flush-seconds", str(flags.flush),
                             *kept_sessions(flags.device, flags.host), "--slots", "16")
        self.talks = [Succession(i) for i in range(flags.sessions)]
        self.count = collections.Counter()
        self.problems, self.lock, self.oldest_gone = [], threading.Lock(), 0.0

    def problem(self, text):
        with self.lock:
            self.problems.append(text)
            print(f"PROBLEM {text}", flush=True)

    def say(self, connection, session, prompt):
        status, answer = connection.post("/state/chat/completions", {
            "session_id": session, "contents": [prompt], "stop_tokens": [0], "top_k": 1, "max_tokens": 24,
            "alpha_presence": 0, "alpha_frequency": 0, "stream": False})
        if status != 200:
            raise AssertionError(f"{session}: HTTP {status}: {answer}")
        return answer["choices"][0]["message"]["content"]

    def uninterrupted(self, connection, name, turn):
        """What the same turns give when nothing happens in between."""
        probe = f"probe.{name}"
        for earlier in range(turn + 1):
            answer = self.say(connection, probe, prompt_of(name, earlier))
        self.server.call("POST", "/state/delete", {"session_id": probe})
        return answer

    def one_turn(self, connection, talk):
        if talk.turn == TURNS:
            talk.leaving = True
            self.server.call("POST", "/state/delete", {"session_id": talk.name})
            talk.begin()
        turn = talk.turn
        found = self.say(connection, talk.name, prompt_of(talk.name, turn))
        at = time.monotonic()
        self.count["turns"] += 1
        if found.strip() != likely_answer(talk.name, turn):
            wanted = self.uninterrupted(connection, talk.name, turn)
            self.count["compared with an uninterrupted run"] += 1
            if found != wanted:
                self.problem(f"{talk.name} turn {turn}: {found!r}; an uninterrupted run says {wanted!r}")
        talk.add(found, at)

    def tokens_by_session(self):
        status, answer = self.server.call("GET", "/v1/sessions")
        assert status == 200, answer
        self.count.update(f"seen on {entry['level']}" for entry in answer["data"])
        return {entry["id"]: entry["tokens"] for entry in answer["data"]}

    def talk_until_killed(self, order, killed):
        connection = Connection(self.server)
        try:
            while not killed.is_set():
                try:
                    talk = order.popleft()
                except IndexError:
                    return
                try:
                    self.one_turn(connection, talk)
                except (OSError, http.client.HTTPException):
                    return  # the kill came first
                order.append(talk)
        except AssertionError as failure:
            self.problem(str(failure))
        finally:
            connection.close()

    def life(self, seconds):
        """All clients talk; the server dies after so many seconds."""
        order = collections.deque(random.sample(self.talks, len(self.talks)))
        killed = threading.Event()
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            for _ in range(CLIENTS):
                pool.submit(self.talk_until_killed, order, killed)
            time.sleep(seconds)
            at = time.monotonic()
            if seconds > 1.5:
                self.tokens_by_session()
                at = time.monotonic()
            self.server.kill()
            killed.set()
        return at

    def check_after(self, killed_at):
        """Every session against what its clients know; moves them back where younger turns are gone."""
        stored = self.tokens_by_session()
        for talk in self.talks:
            if talk.leaving and talk.name not in stored:
                talk.begin()
            tokens, lengths = stored.get(talk.name, 0), talk.lengths()
            if tokens not in lengths:
                self.problem(f"{talk.name}: a state of {tokens} tokens; wanted one of {lengths}")
            kept = lengths.index(tokens) if tokens in lengths else 0
            ages = [killed_at - at for at in talk.answered_at]
            if kept < talk.turn:
                self.oldest_gone = max(self.oldest_gone, ages[kept])
            if kept < talk.turn and ages[kept] > self.flags.flush + self.flags.slack:
                self.problem(f"{talk.name}: {kept} turns kept; the next was answered {ages[kept]:.2f} s before the kill")
            self.count["younger turns gone"] += max(0, talk.turn - kept)
            self.count["turns kept whose answer was cut off"] += max(0, kept - talk.turn)
            talk.fall_back(kept, killed_at - 3600)

    def check_levels(self):
        levels = {level: self.count[f"seen on {level}"] for level in ("device", "host", "store")}
        if self.flags.sessions > self.flags.device + self.flags.host and not all(levels.values()):
            self.problem(f"sessions were to be on every level: {levels}")

    def everybody_once(self):
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            def once(talk):
                connection = Connection(self.server)
                try:
                    self.one_turn(connection, talk)
                except AssertionError as failure:
                    self.problem(str(failure))
                finally:
                    connection.close()
            list(pool.map(once, self.talks))

    def run(self):
        begin = time.monotonic()
        self.server.start()
        for kill in range(self.flags.kills):
            killed_at = self.life(random.uniform(self.flags.least, self.flags.most))
            restart = time.monotonic()
            self.server.start()
            self.count["restart ms"] = max(self.count["restart ms"], int((time.monotonic() - restart) * 1000))
            self.check_after(killed_at)
            if (kill + 1) % 10 == 0:
                print(f"{kill + 1} kills, {self.count['turns']} turns, {time.monotonic() - begin:.0f} s", flush=True)
        self.everybody_once()
        self.tokens_by_session()
        self.check_levels()
        for line in self.server.log_lines("corrupt", "checksum", " error "):
            self.problem(f"log: {line}")
        for problem in self.server.problem_of_stop():
            self.problem(problem)
        for name, value in sorted(self.count.items()):
            print(f"{name}: {value}")
        print(f"oldest turn gone: answered {self.oldest_gone:.2f} s before its kill")
        print(f"{len(self.problems)} problems after {self.flags.kills} kills")
        return 1 if self.problems else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--device", type=int, default=16, help="sessions on the first level")
    parser.add_argument("--host", type=int, default=32, help="sessions on the second level")
    parser.add_argument("--flush", type=float, default=2, help="--state-flush-seconds of the server")
    parser.add_argument("--slack", type=float, default=0, help="seconds forgiven on a busy machine")
    parser.add_argument("--least", type=float, default=0.2, help="shortest life in seconds")
    parser.add_argument("--most", type=float, default=8, help="longest one")
    parser.add_argument("--seed", type=int, default=1)
    flags = parser.parse_args()
    flags.program, flags.model = str(Path(flags.program).resolve()), str(Path(flags.model).resolve())
    random.seed(flags.seed)
    with tempfile.TemporaryDirectory() as folder:
        return Crash(flags, folder).run()


if __name__ == "__main__":
    sys.exit(main())
