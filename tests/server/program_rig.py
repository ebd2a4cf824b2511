"""The program under test for the scripts of this folder, and what its answers are checked with."""
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

PROGRAM, MODELS = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
MODEL = "fulmar-demo.safetensors"
PATIENCE = 120


def equal(found, wanted, what=""):
    assert found == wanted, f"{what}: found {found!r}, wanted {wanted!r}"


def wait_for(condition, what, patience=PATIENCE):
    end = time.monotonic() + patience
    while not (found := condition()):
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.05)
    return found


class Answer:
    def __init__(self, response):
        self.status, self.headers = response.status, response.headers
        self.body = response.read()

    def json(self):
        return json.loads(self.body)


class Program:
    """`fulmar serve` or `fulmar control` in a folder of its own."""
    patience = PATIENCE

    def __init__(self, folder, *flags, verb="serve"):
        if verb == "serve":
            flags = ("--devices", "cpu", "--model", f"{MODELS}/{MODEL}", *flags)
        self.process = subprocess.Popen([PROGRAM, verb, "--port", "0", *flags], cwd=folder, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for line in self.process.stdout:
            if found := re.search(r"http://([0-9.]+):(\d+)", line):
                self.host, self.port = found.group(1), int(found.group(2))
                break
        else:
            raise AssertionError("the program printed no address")
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def open(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=self.patience)
        connection.request(method, path, None if body is None else json.dumps(body), headers or {})
        return connection, connection.getresponse()

    def ask(self, path, body=None, headers=None, method="POST"):
        connection, response = self.open(method, path, body, headers)
        answer = Answer(response)
        connection.close()
        return answer

    def get(self, path):
        return self.ask(path, method="GET")

    def post(self, path, **body):
        answer = self.ask(path, body)
        equal(answer.status, 200, f"{path} {answer.body[:300]!r}")
        return answer.json()

    def events(self, path, **body):
        """The payloads of a stream whose framing is checked."""
        answer = self.ask(path, body)
        equal(answer.status, 200, answer.body[:300])
        equal(answer.headers["Content-Type"], "text/event-stream; charset=utf-8")
        return parse_events(answer.body.decode())

    def texts(self, path, **body):
        return [choice["message"]["content"] for choice in self.post(path, **body)["choices"]]

    def text(self, path, **body):
        return self.texts(path, **body)[0]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        equal(self.process.wait(timeout=self.patience), 0, "exit code")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(timeout=self.patience)


def parse_events(text):
    events = text.split("\n\n")
    equal(events.pop(), "", "end of the stream")
    assert all(event.startswith("data: ") and "\n" not in event for event in events), text[:300]
    payloads = [event[len("data: "):] for event in events]
    equal(payloads.pop(), "[DONE]")
    assert "[DONE]" not in payloads
    return [json.loads(payload) for payload in payloads]


def joined(events):
    """Text and reasons by index; nothing may follow a reason."""
    texts, reasons = {}, {}
    for event in events:
        for choice in event["choices"]:
            index = choice["index"]
            assert index not in reasons, f"index {index} goes on after its reason"
            texts[index] = texts.get(index, "") + choice["delta"]["content"]
            if choice.get("finish_reason"):
                reasons[index] = choice["finish_reason"]
    return texts, reasons


class OpenStream:
    """A stream under way; its first event has come."""

    def __init__(self, server, path="/v1/chat/completions", **body):
        self.connection, self.response = server.open("POST", path, body)
        self.id = self.response.headers["X-Request-Id"]
        self.begin = self.response.readline() + self.response.readline()

    def rest(self):
        events = parse_events((self.begin + self.response.read()).decode())
        self.connection.close()
        return events
