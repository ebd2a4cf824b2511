#!/usr/bin/env python3
"""Three workers with the demo model and 200 sessions through HAProxy: fleet_test.py PROGRAM MODEL CONFIG

While everybody talks, a worker is killed, Redis is cut off for ten seconds, a worker sleeps and wakes with old states, a
worker is told to end. No committed turn may be lost, and whatever fails must fail cleanly. Exit code 77 means that Redis
or HAProxy is not installed.
"""
import concurrent.futures
import http.client
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter

from rig import Fleet, eventually

SKIPPED = 77
SESSIONS = 200
NAMES = ["Alice", "Bob", "Emma", "Tom", "Anna", "Max"]
TALKERS = 16
STREAMS = 9
ENDLESS = 10**6
CLEAN = {409, 429, 502, 503, 504}


class Failed(Exception):
    """A request that failed as it should: a status, an error in the stream, or a cut connection."""


def text_of_stream(response):
    text, done = "", False
    for line in response.read().decode().splitlines():
        if not line.startswith("data: "):
            continue
        data = line.removeprefix("data: ")
        if data == "[DONE]":
            done = True
            continue
        event = json.loads(data)
        if "error" in event:
            raise Failed("error event")
        text += "".join(choice["delta"].get("content") or "" for choice in event["choices"])
    assert done, "a stream that looks complete lacks its end"
    return text


def turn(fleet, session, text, stream):
    connection = http.client.HTTPConnection("127.0.0.1", fleet.port, timeout=60)
    body = json.dumps({"contents": [f"User: {text}\n\nAssistant:"], "session_id": session, "stream": stream,
                       "max_tokens": 24, "top_k": 1, "alpha_presence": 0, "alpha_frequency": 0})
    try:
        connection.request("POST", "/state/chat/completions", body, {"X-Fulmar-Session": session})
        response = connection.getresponse()
        if response.status == 200:
            return text_of_stream(response) if stream else json.loads(response.read())["choices"][0]["message"]["content"]
        answer = response.read()
    except TimeoutError as failure:
        raise AssertionError(f"session {session} hung") from failure
    except (http.client.HTTPException, OSError) as failure:
        raise Failed(type(failure).__name__) from failure
    finally:
        connection.close()
    assert response.status in CLEAN, (response.status, answer)
    raise Failed(response.status)


class Round:
    """Everybody says one thing; clean failures are repeated, as clients do. Leaving it waits for all answers."""

    def __init__(self, fleet, text_of):
        self.fleet, self.text_of = fleet, text_of
        self.failures, self.lock, self.answered = Counter(), threading.Lock(), 0
        self.pool = concurrent.futures.ThreadPoolExecutor(TALKERS)

    def __enter__(self):
        self.futures = [self.pool.submit(self.ask, i) for i in range(SESSIONS)]
        return self

    def __exit__(self, *failure):
        self.pool.shutdown(cancel_futures=failure[0] is not None)
        self.answers = [] if failure[0] else [future.result() for future in self.futures]

    def ask(self, i):
        patience = time.monotonic() + 40
        while True:
            try:
                answer = turn(self.fleet, f"s{i}", self.text_of(i), stream=i % 2 == 1)
            except Failed as failure:
                with self.lock:
                    self.failures[str(failure)] += 1
                assert time.monotonic() < patience, f"session {i} never answered: {self.failures}"
                time.sleep(0.3)
                continue
            with self.lock:
                self.answered += 1
            return answer

    def halfway(self):
        eventually(lambda: self.answered >= SESSIONS // 4, "a quarter of the sessions was answered")


def name_of(i, shift):
    return NAMES[(i + shift) % len(NAMES)]


def introduce(fleet, shift):
    return Round(fleet, lambda i: f"My name is {name_of(i, shift)}.")


def remembered(fleet, moment, shift):
    with Round(fleet, lambda i: "What is my name?") as talk:
        pass
    wrong = [(i, name_of(i, shift), answer) for i, answer in enumerate(talk.answers) if name_of(i, shift) not in answer]
    print(f"- {moment}: {SESSIONS - len(wrong)} of {SESSIONS} names right; {time.monotonic() - BEGUN:.0f} s", flush=True)
    assert not wrong, f"{moment}: {wrong[:5]}"


def told(moment, talk):
    print(f"- {moment}: {SESSIONS} of {SESSIONS} answered in the end; failed cleanly and repeated: "
          f"{dict(talk.failures) or 'none'}", flush=True)


def lines_as_they_come(response):
    """Unlike iterating over the response itself, this raises where the connection is cut."""
    rest = b""
    while piece := response.read1(65536):
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines


class Streams:
    """Long answers outside of all sessions, under way on every worker; those of ENDLESS tokens go on until `leave`."""

    def __init__(self, fleet, tokens):
        self.tokens, self.left, self.lock, self.begun = tokens, threading.Event(), threading.Lock(), 0
        self.pool = concurrent.futures.ThreadPoolExecutor(STREAMS)
        self.futures = [self.pool.submit(self.listen, fleet, i) for i in range(STREAMS)]
        eventually(lambda: self.begun == STREAMS, "every stream has begun")

    def listen(self, fleet, i):
        connection = http.client.HTTPConnection("127.0.0.1", fleet.port, timeout=120)
        body = json.dumps({"contents": ["User: Count."], "stream": True, "max_tokens": self.tokens, "ignore_eos": True,
                           "stop_tokens": []})
        try:
            connection.request("POST", "/v1/chat/completions", body, {"X-Fulmar-Session": f"long{i}"})
            response = connection.getresponse()
            with self.lock:
                self.begun += 1
            return self.follow(response) if response.status == 200 else str(response.status)
        except (http.client.HTTPException, ConnectionError):
            return "cut"
        finally:
            connection.close()

    def follow(self, response):
        for line in lines_as_they_come(response):
            if line.startswith(b"data: [DONE]"):
                return "whole"
            if line.startswith(b'data: {"error"'):
                return "cut"
            if self.left.is_set() and line.startswith(b"data: "):
                return "going on"
        raise AssertionError("a stream that looks complete lacks its end")

    def ended(self):
        return sum(future.done() for future in self.futures)

    def leave(self):
        self.left.set()

    def outcomes(self):
        self.pool.shutdown()
        return Counter(future.result() for future in self.futures)


def kill_one(fleet):
    streams = Streams(fleet, ENDLESS)
    with introduce(fleet, 0) as talk:
        talk.halfway()
        fleet.workers["a"].kill()
    told("a worker is killed while all introduce themselves", talk)
    eventually(lambda: streams.ended() > 0, "the streams of the killed worker are cut")
    streams.leave()
    outcomes = streams.outcomes()
    assert outcomes.keys() == {"cut", "going on"}, f"its streams are cut and look so, the others go on: {outcomes}"
    fleet.start("a")
    fleet.wait_for({"a", "b", "c"})
    remembered(fleet, "it is back, with sessions that went on elsewhere", 0)


def cut_redis_off(fleet):
    with introduce(fleet, 1) as talk:
        talk.halfway()
        fleet.cut_redis()
        time.sleep(10)
        fleet.mend_redis()
    told("Redis is cut off for ten seconds while all get new names", talk)
    failures = sum(fleet.metric(name, "fulmar_state_store_failures_total") for name in "abc")
    assert failures > 0, "the outage was not noticed"
    fleet.wait_for({"a", "b", "c"})
    remembered(fleet, "Redis is back", 1)


def let_one_sleep(fleet):
    os.kill(fleet.workers["c"].pid, signal.SIGSTOP)
    fleet.wait_for({"a", "b"})
    with introduce(fleet, 2) as talk:
        pass
    told("a worker sleeps while all get new names", talk)
    os.kill(fleet.workers["c"].pid, signal.SIGCONT)
    fleet.wait_for({"a", "b", "c"})
    remembered(fleet, "it wakes with old states in its memory", 2)


def end_one(fleet):
    streams = Streams(fleet, 2000)
    with introduce(fleet, 3) as talk:
        fleet.workers["b"].terminate()
    told("a worker is told to end while all get new names", talk)
    outcomes = streams.outcomes()
    assert outcomes == {"whole": STREAMS}, f"no stream is dropped: {outcomes}"
    assert fleet.workers["b"].wait(30) == 0, "it ends well"
    assert not talk.failures.keys() - {"503"}, f"draining cuts nothing: {talk.failures}"
    fleet.start("b")
    fleet.wait_for({"a", "b", "c"})
    remembered(fleet, "another one has taken its place", 3)


def main():
    program, model, config = sys.argv[1:]
    for needed in ("redis-server", "haproxy"):
        if shutil.which(needed) is None:
            print(f"SKIPPED: {needed} is not installed")
            return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(program, model, config, folder)
        try:
            print(f"- workers in {fleet.network.kind}")
            for name in "abc":
                fleet.start(name)
            fleet.wait_for({"a", "b", "c"})
            for scene in (kill_one, cut_redis_off, let_one_sleep, end_one):
                scene(fleet)
        except BaseException:
            for name, log in fleet.logs():
                print(f"---- {name}\n{log}")
            raise
        finally:
            fleet.stop()
    print("passed")
    return 0


if __name__ == "__main__":
    BEGUN = time.monotonic()
    sys.exit(main())
