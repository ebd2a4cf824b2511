#!/usr/bin/env python3
"""The real server with the demo model and two keys: owners_test.py PROGRAM MODELS

Starts without keys, then with them on the same files: what was made before is the administrator's. Two keys use
one session id, one response and uploaded states of one name without meeting; all of it outlives a restart.
"""
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile

PROGRAM, MODELS = sys.argv[1], sys.argv[2]
STATE = "fulmar-demo-pirate.state.pth"


class Server:
    def __init__(self, folder, *flags):
        self.process = subprocess.Popen(
            [PROGRAM, "serve", "--model", f"{MODELS}/fulmar-demo.safetensors", "--port", "0", "--device", "cpu",
             "--state-db-path", f"{folder}/sessions.db", "--state-dir", f"{folder}/states", *flags],
            stdout=subprocess.PIPE, stderr=open(f"{folder}/log", "ab"), text=True, cwd=folder)
        self.port = int(re.search(r"http://[0-9.]+:([0-9]+)", self.process.stdout.readline()).group(1))

    def ask(self, method, path, body=None, key=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        if key:
            headers["Authorization"] = f"Bearer {key}"
        data = json.dumps(body) if isinstance(body, dict) else body
        connection.request(method, path, body=data, headers=headers)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, text

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0


def chat(text, **more):
    return {"messages": [{"role": "user", "content": text}], "max_tokens": 8, "temperature": 0, **more}


def add_key(folder, name, *more):
    out = subprocess.run([PROGRAM, "keys", "add", name, "--api-keys", f"{folder}/keys.json", *more],
                         capture_output=True, text=True, check=True)
    return out.stdout.strip()


def ids(answer):
    assert answer[0] == 200, answer
    return sorted(entry["id"] for entry in answer[1]["data"])


def form(name):
    with open(f"{MODELS}/{STATE}", "rb") as file:
        content = file.read()
    head = f'--b\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode()
    return head + content + b"\r\n--b--\r\n"


def upgrade(folder):
    server = Server(folder)
    assert server.ask("POST", "/v1/chat/completions", chat("hello", session_id="old"))[0] == 200
    response = server.ask("POST", "/v1/responses", {"input": "hello", "max_output_tokens": 4})[1]["id"]
    assert server.ask("GET", f"/v1/responses/{response}")[0] == 200
    server.stop()
    return response


def two_keys(folder, response):
    alice, bob = add_key(folder, "alice", "--route", "/*"), add_key(folder, "bob", "--route", "/*")
    ops = add_key(folder, "ops", "--admin")
    flags = ("--api-keys", f"{folder}/keys.json", "--password", "p")
    server = Server(folder, *flags)
    for key in (ops, "p"):
        assert ids(server.ask("GET", "/v1/sessions", key=key)) == ["old"]
        assert server.ask("GET", f"/v1/responses/{response}", key=key)[0] == 200
    for key in (alice, bob):
        assert ids(server.ask("GET", "/v1/sessions", key=key)) == []
        assert server.ask("GET", f"/v1/responses/{response}", key=key)[0] == 404

    # One session id, two sessions.
    assert server.ask("POST", "/v1/chat/completions", chat("hello", session_id="s"), key=alice)[0] == 200
    assert server.ask("GET", "/v1/sessions/s/state", key=bob)[0] == 404
    assert server.ask("DELETE", "/v1/sessions/s", key=bob)[0] == 404
    assert server.ask("POST", "/v1/chat/completions", chat("hello", session_id="s"), key=bob)[0] == 200
    listed = server.ask("GET", "/v1/sessions", key=ops)[1]["data"]
    assert sorted((entry.get("owner", ""), entry["id"]) for entry in listed if entry["id"] == "s") == [
        ("alice", "s"), ("bob", "s")]
    assert server.ask("GET", "/v1/sessions/s/state", key=ops)[0] == 409
    exported = server.ask("GET", "/v1/sessions/s/state", key=ops, **{"Fulmar-Owner": "alice"})
    assert exported[0] == 200 and exported == server.ask("GET", "/v1/sessions/s/state", key=alice)
    assert server.ask("GET", "/v1/sessions/s/state", key=bob, **{"Fulmar-Owner": "alice"})[0] == 403

    # Responses.
    mine = server.ask("POST", "/v1/responses", {"input": "hello", "max_output_tokens": 4}, key=alice)[1]["id"]
    further = {"input": "more", "previous_response_id": mine, "max_output_tokens": 4}
    assert server.ask("POST", "/v1/responses", further, key=bob)[0] == 404
    assert server.ask("POST", "/v1/responses", further, key=alice)[0] == 200
    assert server.ask("GET", f"/v1/responses/{mine}", key=ops)[0] == 200

    # States of one name, bob's beside alice's; another user's is unknown.
    multipart = {"Content-Type": "multipart/form-data; boundary=b"}
    assert server.ask("POST", "/v1/state/upload", form("tuned.pth"), key=alice, **multipart)[0] == 200
    tuned = chat("hello", state_id="tuned")
    assert server.ask("POST", "/v1/chat/completions", tuned, key=bob)[0] == 404
    assert server.ask("POST", "/v1/state/upload", form("tuned.pth"), key=bob, **multipart)[0] == 200
    assert server.ask("POST", "/v1/state/delete", {"state_id": "tuned"}, key=bob)[0] == 200
    assert server.ask("POST", "/v1/state/upload", form("shared.pth"), key=ops, **multipart)[0] == 200

    # What was cached tells nothing of others.
    prompt = {"messages": [{"role": "user", "content": "The patient Jane Roe has " + "a rare condition " * 8}],
              "max_tokens": 1}
    cached = [server.ask("POST", "/v1/chat/completions", prompt, key=key)[1]["usage"].get(
        "prompt_tokens_details", {}).get("cached_tokens", 0) for key in (alice, bob, alice, bob)]
    assert cached[:2] == [0, 0] and min(cached[2:]) > 0, cached
    server.stop()

    server = Server(folder, *flags)
    assert "s" in ids(server.ask("GET", "/v1/sessions", key=alice))
    assert server.ask("GET", f"/v1/responses/{mine}", key=alice)[0] == 200
    assert server.ask("GET", f"/v1/responses/{mine}", key=bob)[0] == 404
    assert server.ask("POST", "/v1/chat/completions", tuned, key=alice)[0] == 200
    assert server.ask("POST", "/v1/chat/completions", tuned, key=bob)[0] == 404
    for key in (alice, bob):
        assert server.ask("POST", "/v1/chat/completions", chat("hi", state_id="shared"), key=key)[0] == 200
    server.stop()
    with open(f"{folder}/log", errors="replace") as log:
        text = log.read()
    assert "the key 'alice' lists /*, which opens no administration" in text, text[-2000:]


def main():
    with tempfile.TemporaryDirectory(prefix="fulmar-owners-") as folder:
        os.mkdir(f"{folder}/states")
        two_keys(folder, upgrade(folder))
    print("owners: kept apart")


main()
