#!/usr/bin/env python3
"""What an operator sees of `fulmar serve`: its port, keys that are reloaded, metrics, a restart and a graceful stop.

usage: running.py FULMAR MODELS
"""
import functools
import http.client
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import program_rig
from program_rig import Program, equal

PROGRAM, MODELS = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
MODEL = MODELS / "fulmar-demo.safetensors"
PATIENCE = 60
wait_for = functools.partial(program_rig.wait_for, patience=PATIENCE)


def run(folder, *words):
    return subprocess.run([PROGRAM, *words], cwd=folder, capture_output=True, text=True, timeout=PATIENCE)


class Server(Program):
    """With what it says at its start, and its log."""
    patience = PATIENCE

    def __init__(self, folder, *flags, launcher=()):
        self.log = open(Path(folder) / "log.txt", "a+")
        self.process = subprocess.Popen([*launcher, PROGRAM, "serve", "--port", "0", "--device", "cpu", *flags],
                                        cwd=folder, stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.greeting = ""
        for line in self.process.stdout:
            self.greeting += line
            if line == "\n" and "open the page" in self.greeting:
                break
        found = re.search(r"http://([0-9.]+):(\d+)", self.greeting)
        assert found, (Path(folder) / "log.txt").read_text()[-1000:]
        self.address = (found.group(1), int(found.group(2)))

    def connect(self):
        return http.client.HTTPConnection(*self.address, timeout=PATIENCE)

    def ask(self, method, path, body=None, key=None, connection=None):
        connection = connection or self.connect()
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        answer = connection.getresponse()
        answer.text = answer.read().decode()
        return answer

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.log.close()


PROMPT = {"prompt": "Reverse: fulmar", "max_tokens": 4, "temperature": 0}


def a_taken_port_is_known_before_the_model(folder):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ended = run(folder, "serve", "-m", "no-such-model.pth", "--port", str(taken.getsockname()[1]))
    equal(ended.returncode, 3, ended.stderr)
    assert "in use" in ended.stderr and "no-such-model" not in ended.stderr, ended.stderr


def a_model_that_does_not_load_ends_the_server(folder):
    ended = run(folder, "serve", "-m", "no-such-model.pth", "--port", "0")
    assert ended.returncode == 3 and "no-such-model" in ended.stderr, (ended.returncode, ended.stderr)


def without_a_model_health_and_greeting_say_so(folder):
    with Server(folder, "--model", "none") as server:
        answer = server.ask("GET", "/health")
        assert answer.status == 503 and "No model loaded" in answer.text, answer.text
        assert "no model yet" in server.greeting and "curl" not in server.greeting, server.greeting
        server.stop()


def keys_are_made_limited_and_reloaded(folder):
    file = ("--api-keys", "keys.json")
    key = run(folder, "keys", "add", "alice", *file, "--requests-per-minute", "2").stdout.strip()
    assert key.startswith("fmk-"), key
    assert key not in (Path(folder) / "keys.json").read_text()
    equal((Path(folder) / "keys.json").stat().st_mode & 0o777, 0o600, "mode of the file")
    equal(run(folder, "keys", "add", "alice", *file).returncode, 2, "a name twice")
    equal(run(folder, "keys", "remove", "nobody", *file).returncode, 3, "an unknown name")
    with Server(folder, "-m", str(MODEL), "--state-db-path", "none", *file) as server:
        equal(server.ask("POST", "/v1/completions", PROMPT).status, 401, "without a key")
        equal(server.ask("POST", "/v1/completions", PROMPT, key).status, 200)
        equal(server.ask("POST", "/v1/completions", PROMPT, key).status, 200)
        refused = server.ask("POST", "/v1/completions", PROMPT, key)
        equal(refused.status, 429, refused.text)
        assert int(refused.headers["Retry-After"]) >= 1

        second = run(folder, "keys", "add", "bob", *file).stdout.strip()
        equal(run(folder, "keys", "remove", "alice", *file).returncode, 0)
        assert "bob" in run(folder, "keys", "list", *file).stdout
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: server.ask("POST", "/v1/completions", PROMPT, second).status == 200, "the new key")
        equal(server.ask("POST", "/v1/completions", PROMPT, key).status, 401, "the removed key")

        (Path(folder) / "keys.json").write_text("{broken")
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "keys not changed" in (Path(folder) / "log.txt").read_text(), "the log")
        equal(server.ask("POST", "/v1/completions", PROMPT, second).status, 200, "a broken file changes nothing")
        server.stop()


def metrics_pass_the_check_of_prometheus(folder):
    promtool = shutil.which("promtool")
    if not promtool:
        return "skipped: promtool (package prometheus) is not here"
    run(folder, "keys", "add", "carol", "--api-keys", "metrics-keys.json")
    with Server(folder, "-m", str(MODEL), "--state-db-path", "none", "--password", "p", "--api-keys",
                "metrics-keys.json") as server:
        equal(server.ask("POST", "/v1/completions", PROMPT, "p").status, 200)
        text = server.ask("GET", "/metrics", key="p").text
        assert "fulmar_key_requests_total" in text
        checked = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True)
        equal((checked.returncode, checked.stdout + checked.stderr), (0, ""), "promtool")
        server.stop()
    return None


def rates_fall_to_zero_when_nothing_runs(folder):
    with Server(folder, "-m", str(MODEL), "--state-db-path", "none") as server:
        server.ask("POST", "/v1/completions", {**PROMPT, "max_tokens": 200, "ignore_eos": True})

        def idle():
            text = server.ask("GET", "/metrics").text
            return all(re.search(rf"^fulmar_{name}_tokens_per_second 0$", text, re.M) for name in ("decode", "prefill"))

        begun = time.monotonic()
        wait_for(idle, "rates of 0")
        assert time.monotonic() - begun < 10, "long after the last token"
        server.stop()


def stored_responses_outlive_a_restart(folder):
    flags = ("-m", str(MODEL), "--state-db-path", "turns.db")
    with Server(folder, *flags) as server:
        first = json.loads(server.ask("POST", "/v1/responses", {"input": "My name is Ada.", "max_output_tokens": 8}).text)
        server.stop()
    with Server(folder, *flags) as server:
        equal(json.loads(server.ask("GET", "/v1/responses/" + first["id"]).text)["output"], first["output"])
        going_on = server.ask("POST", "/v1/responses", {"input": "And?", "previous_response_id": first["id"],
                                                        "max_output_tokens": 8})
        equal(going_on.status, 200, going_on.text)
        server.stop()
    for path in Path(folder).glob("turns*"):
        equal(path.stat().st_mode & 0o777, 0o600, str(path))


def responses_in_the_background_outlive_servers(folder):
    """One that is stopped and one that is killed: the next server makes what they have not."""
    flags = ("-m", str(MODEL), "--state-db-path", "jobs.db", "--grace", "0")
    long = {"input": "Count from 1 to 900", "background": True, "max_output_tokens": 3000, "ignore_eos": True}

    def state_of(server, ident):
        return json.loads(server.ask("GET", "/v1/responses/" + ident).text)

    def kill(server):
        wait_for(lambda: b"job:" + ident.encode() in stored(folder), "the job on the disk")
        server.process.kill()
        server.process.wait()

    with Server(folder, *flags) as server:
        ident = json.loads(server.ask("POST", "/v1/responses", long).text)["id"]
        kill(server)
    with Server(folder, *flags) as server:
        assert state_of(server, ident)["status"] in ("in_progress", "incomplete"), "behind a kill"
        server.stop()
    with Server(folder, *flags) as server:
        made = wait_for(lambda: (now := state_of(server, ident))["status"] == "incomplete" and now, "the answer")
        equal((made["usage"]["output_tokens"], made["background"]), (3000, True))
        server.stop()
    with Server(folder, *flags) as server:
        equal(state_of(server, ident), made, "what is over stays")
        server.stop()


def stored(folder):
    return b"".join(path.read_bytes() for path in Path(folder).glob("jobs*"))


def a_stop_answers_what_still_comes(folder):
    with Server(folder, "-m", str(MODEL), "--state-db-path", "none", "--drain-delay", "1") as server:
        kept = server.connect()
        equal(server.ask("POST", "/v1/completions", PROMPT, connection=kept).status, 200)
        server.process.send_signal(signal.SIGTERM)
        wait_for(lambda: server.ask("GET", "/health").status == 503, "health to say that it ends")
        late = server.ask("POST", "/v1/completions", PROMPT, connection=kept)
        equal((late.status, late.headers["Connection"]), (200, "close"))
        equal(server.process.wait(timeout=PATIENCE), 0, "exit code")


def a_terminal_that_closes_ends_the_server_in_order(folder):
    store = ("-m", str(MODEL), "--state-db-path", "hangup.db")
    with Server(folder, *store) as server:
        equal(server.ask("POST", "/v1/completions", PROMPT).status, 200)
        server.process.send_signal(signal.SIGHUP)
        equal(server.process.wait(timeout=PATIENCE), 0, "exit code")
        assert "stopped all requests finished" in (Path(folder) / "log.txt").read_text()
    command = [sys.executable, "-c", "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); "
               "os.execv(sys.argv[1], sys.argv[1:])"]
    with Server(folder, *store, launcher=command) as server:
        server.process.send_signal(signal.SIGHUP)
        equal(server.ask("GET", "/health").status, 200, "under nohup")
        server.stop()
        assert f"signal={int(signal.SIGTERM)}" in (Path(folder) / "log.txt").read_text().splitlines()[-2]


CASES = [a_taken_port_is_known_before_the_model, a_model_that_does_not_load_ends_the_server,
         without_a_model_health_and_greeting_say_so, keys_are_made_limited_and_reloaded,
         metrics_pass_the_check_of_prometheus, rates_fall_to_zero_when_nothing_runs, stored_responses_outlive_a_restart,
         responses_in_the_background_outlive_servers, a_stop_answers_what_still_comes,
         a_terminal_that_closes_ends_the_server_in_order]


def main():
    failures = 0
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            try:
                verdict = case(folder) or "holds"
            except Exception as failure:  # one broken case must not hide the others
                failures += 1
                verdict = f"FAILS: {type(failure).__name__}: {failure}"[:1500]
        print(f"{case.__name__}: {verdict}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
