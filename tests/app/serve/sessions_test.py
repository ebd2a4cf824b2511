#!/usr/bin/env python3
"""What becomes of sessions around the life of a server, on the demo model: sessions_test.py PROGRAM MODELS

A second server in the same folder, a model loaded again while turns run, a paused request at the end, a database
that cannot be written, and errors that must not show what stands in a file.
"""
import json
import os
import resource
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

from admin_test import MODEL, SUCCESS, Server, equal


class Kept(Server):
    """A server with a database of its own, whose end is looked at."""

    def __init__(self, program, *flags, log=subprocess.DEVNULL, cwd=None):
        self.process = subprocess.Popen(
            [program, "serve", "--port", "0", "--device", "cpu", *flags], stdout=subprocess.PIPE, stderr=log,
            text=True, cwd=cwd)
        words = self.process.stdout.readline().split()
        self.base = next(word for word in words if word.startswith("http://")).rstrip("/")

    def end(self):
        self.process.terminate()
        return self.process.wait(timeout=60)


def told_of_memory(server, why):
    """A server that keeps sessions in memory though it was not told to says so, wherever it says anything of them."""
    health = server.call("GET", "/health")[1]
    equal(health["status"], "degraded")
    assert why in health["session_store"]["error"] and "in memory only" in health["session_store"]["error"], health
    assert "in memory only" in health["response_store"]["error"], health
    chat = {"session_id": "told", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4}
    for method, path, body, status in (
            ("GET", "/v1/sessions", None, 200), ("POST", "/state/status", {}, 200),
            ("GET", "/v1/sessions/none/state", None, 404), ("DELETE", "/v1/sessions/none", None, 404),
            ("POST", "/state/delete", {"session_id": "none"}, 404), ("GET", "/v1/responses/resp_none", None, 404),
            ("POST", "/v1/chat/completions", chat, 200), ("POST", "/v1/chat/completions", {**chat, "stream": True}, 200),
            ("POST", "/v1/responses", {"input": "Hi", "max_output_tokens": 4}, 200)):
        request = urllib.request.Request(server.base + path, None if body is None else json.dumps(body).encode(),
                                         {"Content-Type": "application/json"}, method=method)
        try:
            answer = urllib.request.urlopen(request, timeout=60)
        except urllib.error.HTTPError as refused:
            answer = refused
        equal(answer.status, status)
        assert "kept in memory only" in answer.headers.get("Fulmar-Warning", ""), (path, answer.headers)
        equal(len(answer.headers.get_all("Fulmar-Warning")), 1)
        text = answer.read().decode()
        assert path in ("/v1/responses", "/v1/responses/resp_none") or status != 200 or "warnings" in text, text


def start_in(program, model, folder, limits):
    """A start in a folder, without room on the disk: each file may hold so many bytes."""
    def no_room():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limits, limits))
    return subprocess.run([program, "serve", "--port", "0", "--device", "cpu", "--model", model], cwd=folder,
                          preexec_fn=no_room, capture_output=True, text=True, timeout=60)


def check_default_database(program, models, folder):
    """What lies under the default name and cannot be used ends the start, whatever the reason; what cannot be made is
    told wherever sessions are spoken of."""
    model, folder = os.path.join(models, MODEL), os.path.join(folder, "default")
    os.mkdir(folder)
    with open(os.path.join(folder, "log"), "w+") as log:
        os.mkdir(os.path.join(folder, "rwkv_sessions.db.lock"))  # no file can be made beside
        server = Kept(program, "--model", model, cwd=folder, log=log)
        told_of_memory(server, "rwkv_sessions.db")
        equal(server.end(), 0)
        log.seek(0)
        assert "sessions live in memory only" in log.read()
    os.rmdir(os.path.join(folder, "rwkv_sessions.db.lock"))
    server = Kept(program, "--model", model, cwd=folder)
    server.turn("s", "My name is Anna.")
    equal(server.call("GET", "/health")[1]["status"], "ok")
    equal(server.end(), 0)
    refused = start_in(program, model, folder, 0)
    equal(refused.returncode, 3)
    assert "rwkv_sessions.db" in refused.stderr and "--state-db-path" in refused.stderr, refused.stderr
    responses = os.path.join(folder, "rwkv_sessions.responses.db")
    os.rename(responses, responses + ".whole")
    os.mkdir(responses)
    refused = start_in(program, model, folder, 1 << 40)
    equal(refused.returncode, 3)
    assert "rwkv_sessions.responses.db" in refused.stderr and "--state-db-path" in refused.stderr, refused.stderr
    os.rmdir(responses)
    os.rename(responses + ".whole", responses)
    server = Kept(program, "--model", model, cwd=folder)
    assert "Anna" in server.turn("s", "What is my name?")
    equal(server.end(), 0)


def check_second_server(program, models, folder):
    model = os.path.join(models, MODEL)
    database = os.path.join(folder, "one.db")
    first = Kept(program, "--model", model, "--state-db-path", database)
    first.turn("s", "My name is Anna.")
    refused = subprocess.run([program, "serve", "--port", "0", "--device", "cpu", "--model", model, "--state-db-path",
                              database], capture_output=True, text=True, timeout=60)
    equal(refused.returncode, 4)
    assert "in use by another server" in refused.stderr, refused.stderr
    equal(first.end(), 0)
    # In its own default place a second one serves with memory alone, and says so.
    first = Kept(program, "--model", model, cwd=folder)
    first.turn("s", "My name is Anna.")
    with open(os.path.join(folder, "log"), "w+") as log:
        second = Kept(program, "--model", model, cwd=folder, log=log)
        told_of_memory(second, "in use by another server")
        second.turn("s", "My name is Ben.")
        equal(second.end(), 0)
        log.seek(0)
        assert "sessions live in memory only" in log.read()
    assert "Anna" in first.turn("s", "What is my name?")
    equal(first.end(), 0)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Impatient(Kept):
    """A server that is talked to as soon as it answers, before it has printed where it is."""

    def __init__(self, program, *flags):
        port = free_port()
        self.base = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen([program, "serve", "--port", str(port), "--device", "cpu", *flags],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while True:
            try:
                if urllib.request.urlopen(self.base + "/health", timeout=5).status == 200:
                    break
            except OSError:
                assert self.process.poll() is None


def check_stop_behind_the_first_answer(program, models, folder):
    """A stop that comes as early as it can: turns are kept, and streams are let finish."""
    flags = ("--model", os.path.join(models, MODEL), "--state-db-path", os.path.join(folder, "early.db"))
    for turns in range(6):
        server = Impatient(program, *flags)
        server.turn(f"s{turns}", "My name is Anna.")
        equal(server.end(), 0)
        server = Impatient(program, *flags)
        equal(len(server.call("GET", "/v1/sessions")[1]["data"]), turns + 1)
        body = {"messages": [{"role": "user", "content": "Count from 1 to 20"}], "stream": True, "max_tokens": 60}
        stream = urllib.request.urlopen(urllib.request.Request(
            server.base + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}))
        first = stream.readline()
        server.process.terminate()
        assert (first + stream.read()).endswith(b"data: [DONE]\n\n")
        equal(server.process.wait(timeout=60), 0)


TURNS = ["My name is Anna.", "What is my name?", "What is 12 + 30?", "What is my name?"]


def check_reload(program, models, folder):
    """A model is loaded under its own name, over and over, while conversations go on: they must go as they go on a
    server that nobody disturbs."""
    server = Kept(program, "--model", os.path.join(models, MODEL), "--model-root", models, "--state-db-path",
                  os.path.join(folder, "two.db"))
    undisturbed = [server.turn("undisturbed", text) for text in TURNS]
    answers, stop = {}, threading.Event()

    def talk(client):
        number = 0
        while not stop.is_set():
            session = f"{client}.{number}"
            answers[session] = [server.turn(session, text) for text in TURNS]
            number += 1

    talks = [threading.Thread(target=talk, args=(client,)) for client in "abcd"]
    for thread in talks:
        thread.start()
    for _ in range(4):
        equal(server.call("POST", "/loadmodel", {"model_filename": MODEL, "model_viewname": "fulmar-demo"}), SUCCESS)
    stop.set()
    for thread in talks:
        thread.join()
    for session, found in answers.items():
        assert found == undisturbed, (session, found, undisturbed)
    kept = {entry["id"] for entry in server.call("GET", "/v1/sessions")[1]["data"]}
    equal(sorted(kept), sorted([*answers, "undisturbed"]))
    equal(server.end(), 0)


def check_pause(program, models):
    """A paused request holds neither the process nor a model that was removed."""
    server = Kept(program, "--model", os.path.join(models, MODEL), "--state-db-path", "none")
    body = {"prompt": "Once", "max_tokens": 60000, "stream": True, "ignore_eos": True}
    request = urllib.request.Request(server.base + "/v1/completions", data=json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=120) as stream:
        stream.readline()
        status, answer = server.call("POST", "/v1/server/pause", {})
        equal(status, 200)
        stream.read()
    equal(len(server.call("GET", "/v1/server/status")[1]["paused_requests"]), 1)
    equal(server.end(), 0)


def check_full_store(program, models, folder):
    """Turns that could not be stored are no clean end."""
    database = os.path.join(folder, "three.db")
    server = Kept(program, "--model", os.path.join(models, MODEL), "--state-db-path", database)
    other = sqlite3.connect(database, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")  # nobody else can write
    server.turn("s", "My name is Anna.")
    equal(server.end(), 6)
    other.execute("ROLLBACK")
    other.close()


def check_removed_database(program, models, folder):
    """A database file, or that of stored responses, whose name is taken away is noticed and is no clean end."""
    for removed, named in (("four.db", "session_store"), ("four.responses.db", "response_store")):
        database = os.path.join(folder, "four.db")
        server = Kept(program, "--model", os.path.join(models, MODEL), "--state-db-path", database)
        server.turn("s", "My name is Anna.")
        equal(server.call("GET", "/health")[1]["status"], "ok")
        os.remove(os.path.join(folder, removed))
        server.turn("s", "And yours?")
        equal(server.call("POST", "/v1/responses", {"input": "Hello", "max_output_tokens": 4})[0], 200)
        while server.call("GET", "/health")[1]["status"] == "ok":  # until the turn is to be written
            time.sleep(0.05)
        health = server.call("GET", "/health")[1]
        assert "was removed, moved or replaced" in health[named]["error"], health
        equal(server.end(), 6)


def check_errors(program, models, folder):
    secret = os.path.join(folder, "notes.pth")
    with open(secret, "w") as file:
        file.write("secret: 12345\n" * 10)
    shutil.copy(os.path.join(models, MODEL), folder)
    server = Kept(program, "--model", "none", "--model-root", folder, "--state-db-path", "none")
    for body in ({"model_filename": "notes.pth"}, {"model_filename": MODEL, "vocab_filename": "notes.pth"}):
        status, answer = server.call("POST", "/loadmodel", body)
        equal(status, 400)
        assert "secret" not in json.dumps(answer) and "notes.pth" in answer["detail"], answer
    equal(server.end(), 0)
    empty = os.path.join(folder, "empty")
    os.mkdir(empty)
    for command in (["inspect", empty], ["serve", "--model", empty, "--state-db-path", "none"]):
        ended = subprocess.run([program, *command], capture_output=True, text=True, timeout=60)
        equal(ended.returncode, 3)
        assert empty in ended.stderr, ended.stderr


def main(program, models):
    program, models = os.path.abspath(program), os.path.abspath(models)
    with tempfile.TemporaryDirectory() as folder:
        check_stop_behind_the_first_answer(program, models, folder)
        check_default_database(program, models, folder)
        check_second_server(program, models, folder)
        check_reload(program, models, folder)
        check_pause(program, models)
        check_full_store(program, models, folder)
        check_removed_database(program, models, folder)
        check_errors(program, models, folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
