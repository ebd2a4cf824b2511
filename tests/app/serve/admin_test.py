#!/usr/bin/env python3
"""The real server with the demo model on the CPU: admin_test.py PROGRAM MODELS

Starts without a model; loads one and a tuned state by name, a second one beside them; takes sessions out, puts
them in and copies them; embeds; switches models under a running stream.
"""
import base64
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

MODEL, STATE = "fulmar-demo.safetensors", "fulmar-demo-pirate.state.pth"
BAD_STATE = {"detail": "State file is incorrect. check filename or tensor size."}
SUCCESS = (200, {"status": "success"})
# What becomes of the weights under names of other servers.
STRATEGIES = {
    "bf16": "f16",  # as the file has them
    "fp6": "q6_k",
    "attn_int8_ffn_int4": "int8, int4",
}


class Server:
    def __init__(self, program, *flags):
        self.process = subprocess.Popen(
            [program, "serve", "--port", "0", "--device", "cpu", "--state-db-path", "none", *flags],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        line = self.process.stdout.readline()
        self.base = re.search(r"http://[0-9.:]+", line).group()

    def raw(self, method, path, body=None):
        request = urllib.request.Request(self.base + path, data=body, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def call(self, method, path, body=None):
        status, answer = self.raw(method, path, None if body is None else json.dumps(body).encode())
        return status, json.loads(answer)

    def ids(self):
        return [entry["id"] for entry in self.call("GET", "/models")[1]]

    def chat(self, model, text="hello"):
        status, answer = self.call("POST", "/v1/chat/completions", {
            "model": model, "messages": [{"role": "user", "content": text}], "temperature": 0, "max_tokens": 32})
        return answer["choices"][0]["message"]["content"] if status == 200 else status

    def turn(self, session, text):
        body = {"session_id": session, "contents": [f"User: {text}\n\nAssistant:"], "stream": False,
                "temperature": 0, "max_tokens": 32}
        return self.call("POST", "/state/chat/completions", body)[1]["choices"][0]["message"]["content"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        assert self.process.wait(timeout=60) == 0


# Names of files that are no tuned states, and what a load of them is answered.
BAD_FILES = ((MODEL, 400), ("none.pth", 404), ("../README.md", 400), ("/etc/passwd", 400), ("link.pth", 400))


def equal(found, wanted):
    assert found == wanted, f"found {found!r}, wanted {wanted!r}"


def check_models_and_states(server):
    equal(server.ids(), [])
    equal(server.chat("any"), 503)
    equal(server.call("POST", "/loadstatemodel", {"state_filename": STATE, "state_viewname": "S"}), (503, BAD_STATE))
    equal(server.call("POST", "/loadmodel", {"model_filename": MODEL, "model_viewname": "A"}), SUCCESS)
    equal(server.call("POST", "/loadstatemodel", {"state_filename": STATE, "state_viewname": "S"}), SUCCESS)
    equal(server.ids(), ["A", "A S"])
    plain, pirate = server.chat("A"), server.chat("A S")
    assert pirate.startswith("Ahoy") and not plain.startswith("Ahoy"), (plain, pirate)

    for bad, status in BAD_FILES:
        equal(server.call("POST", "/loadstatemodel", {"state_filename": bad, "state_viewname": "T"}), (status, BAD_STATE))
    equal(server.ids(), ["A", "A S"])

    for strategy in ("nonsense", "attn_int8", "INT8"):
        status, answer = server.call("POST", "/loadmodel", {
            "model_filename": MODEL, "model_viewname": "Q", "model_strategy": strategy})
        assert status == 400 and "fp16" in answer["detail"], (status, answer)
    for strategy, weights in STRATEGIES.items():
        equal(server.call("POST", "/loadmodel", {
            "model_filename": MODEL, "model_viewname": "Q", "model_strategy": strategy}),
            (200, {"status": "success", "model_strategy": strategy, "weights": weights}))
        assert server.chat("Q"), strategy
    equal(server.call("POST", "/removemodel", {"model_viewname": "Q"}), SUCCESS)
    equal(server.call("POST", "/loadmodel", {"model_filename": "../README.md"})[0], 400)
    equal(server.call("POST", "/loadmodel", {"model_filename": STATE, "model_viewname": "A"})[0], 400)
    equal(server.chat("A"), plain)

    equal(server.call("POST", "/loadmodel", {"model_filename": MODEL, "model_viewname": "B"}), SUCCESS)
    equal(server.ids(), ["B", "A", "A S"])
    equal([server.chat("B"), server.chat("A"), server.chat("A S")], [plain, plain, pirate])
    equal(server.call("POST", "/removemodel", {"model_viewname": "B"}), SUCCESS)
    # The same name again: the state moves over.
    equal(server.call("POST", "/loadmodel", {"model_filename": MODEL, "model_viewname": "A"}), SUCCESS)
    equal(server.chat("A S"), pirate)
    equal(server.call("POST", "/removestatemodel"), SUCCESS)
    equal(server.ids(), ["A"])
    equal(server.chat("A S"), plain)


def check_mixtures(server):
    plain, pirate = server.chat("A"), None
    equal(server.call("POST", "/loadstatemodel", {"state_filename": STATE, "state_viewname": "S"}), SUCCESS)
    pirate = server.chat("A S")
    mixture = {"state_viewname": "M", "state_filenames": [STATE], "contain_originalstate": "True"}
    equal(server.call("POST", "/mrss_loadstatemodel", {**mixture, "state_gatingweight": ["1", 0]}), SUCCESS)
    equal(server.chat("A M"), pirate)
    equal(server.call("POST", "/mrss_set_gatingweight", {"state_viewname": "A M", "state_gatingweight": [0, 1]}), SUCCESS)
    equal(server.chat("A M"), plain)
    # The same model again: states and mixtures move over.
    equal(server.call("POST", "/loadmodel", {"model_filename": MODEL, "model_viewname": "A"}), SUCCESS)
    equal([server.chat("A M"), server.chat("A S")], [plain, pirate])
    for bad, status in BAD_FILES:
        equal(server.call("POST", "/mrss_loadstatemodel", {**mixture, "state_filenames": [STATE, bad]}), (status, BAD_STATE))
    equal(server.chat("A M"), plain)
    status, answer = server.call("POST", "/state/chat/completions", {
        "model": "A M", "session_id": "m", "contents": ["x"], "max_tokens": 1})
    assert status == 400 and "mixture" in answer["error"], answer
    equal(server.call("POST", "/removestatemodel"), SUCCESS)
    equal(server.ids(), ["A"])


def send_state(server, name, content):
    body = (b'--XX\r\nContent-Disposition: form-data; name="file"; filename="' + name.encode() + b'"\r\n\r\n'
            + content + b"\r\n--XX--\r\n")
    request = urllib.request.Request(server.base + "/v1/state/upload", data=body, method="POST",
                                     headers={"Content-Type": "multipart/form-data; boundary=XX"})
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def check_state_files(server, models):
    with open(os.path.join(models, STATE), "rb") as file:
        content = file.read()
    plain = server.chat("A")
    status, kept = send_state(server, "pirate.pth", content)
    equal((status, kept["object"], kept["state_id"]), (200, "rwkv.state", "pirate"))
    assert kept["layers"] == kept["tensor_count"] > 0 and kept["heads"] > 0 and kept["head_size"] > 0, kept
    assert server.chat("A pirate").startswith("Ahoy")
    (entry,) = server.call("GET", "/v1/state/list")[1]["data"]
    equal((entry["state_id"], entry["filename"], entry["size_bytes"]), ("pirate", "pirate.pth", len(content)))
    assert entry["tensor_count"] > 0
    for name, bytes_sent in (("../x.pth", content), ("x.txt", content), (".x.pth", content), ("x y.pth", content),
                             ("pirate.pth", b"no state"), ("cut.pth", content[:-100]), ("empty.pth", b"")):
        equal(send_state(server, name, bytes_sent)[0], 400)
    equal(len(server.call("GET", "/v1/state/list")[1]["data"]), 1)
    assert server.chat("A pirate").startswith("Ahoy")
    equal(server.call("DELETE", "/v1/state/delete", {"state_id": "pirate"})[0], 200)
    equal(server.call("DELETE", "/v1/state/delete", {"state_id": "pirate"})[0], 404)
    equal(server.chat("A pirate"), plain)


def check_kept_state_files(program, models):
    with tempfile.TemporaryDirectory() as folder:
        flags = ("--model", os.path.join(models, MODEL), "--state-dir", folder)
        with Server(program, *flags) as server:
            with open(os.path.join(models, STATE), "rb") as file:
                equal(send_state(server, "pirate.pth", file.read())[0], 200)
        equal(os.listdir(folder), ["pirate.pth"])
        with Server(program, *flags) as server:
            assert server.chat("fulmar-demo pirate").startswith("Ahoy")
            equal(server.call("POST", "/v1/state/delete", {"state_id": "pirate"})[0], 200)
        equal(os.listdir(folder), [])


# While no slot is free a state cannot be prepared; what is refused then changes neither list nor folder.
def check_refused_state_files(program, models):
    with open(os.path.join(models, STATE), "rb") as file:
        content = file.read()
    with tempfile.TemporaryDirectory() as folder:
        flags = ("--model", os.path.join(models, MODEL), "--state-dir", folder, "--slots", "1")
        with Server(program, *flags) as server:
            equal(send_state(server, "pirate.pth", content)[0], 200)
            kept = os.stat(os.path.join(folder, "pirate.pth")).st_ino
            body = {"prompt": "Once", "max_tokens": 60000, "stream": True, "ignore_eos": True}
            request = urllib.request.Request(server.base + "/v1/completions", data=json.dumps(body).encode())
            with urllib.request.urlopen(request, timeout=120) as stream:
                stream.readline()
                for name in ("pirate.pth", "other.pth"):
                    equal(send_state(server, name, content)[0], 503)
            equal([entry["state_id"] for entry in server.call("GET", "/v1/state/list")[1]["data"]], ["pirate"])
            equal(os.listdir(folder), ["pirate.pth"])
            equal(os.stat(os.path.join(folder, "pirate.pth")).st_ino, kept)


def check_branches(server):
    def step(node, text):
        return server.call("POST", "/multi_state/chat/completions", {
            "session_id": "tree", "dialogue_idx": node, "contents": [f"User: {text}\n\nAssistant:"], "temperature": 0,
            "max_tokens": 32, "stop_tokens": [0]})
    status, first = step(0, "My name is Anna.")
    equal((status, first["dialogue_idx"]), (200, 1))
    branches = [step(1, "What is my name?")[1] for _ in range(2)]
    equal([branch["dialogue_idx"] for branch in branches], [2, 3])
    equal(branches[0]["choices"], branches[1]["choices"])
    other = step(0, "My name is Ben.")[1]["dialogue_idx"]
    equal(other, 4)
    assert step(4, "What is my name?")[1]["choices"] != branches[0]["choices"]
    equal(step(99, "x"), (404, {"error": "State not found for dialogue_idx=99"}))
    equal(server.call("POST", "/state/delete", {"session_id": "tree", "delete_prefix": True})[0], 200)
    equal(step(1, "x")[0], 404)


def check_sessions(server):
    server.turn("one", "My name is Anna.")
    status, blob = server.raw("GET", "/v1/sessions/one/state")
    equal((status, blob[:8]), (200, b"FULMARST"))
    equal(server.call("POST", "/v1/sessions/one/fork", {"session_id": "two"})[0], 200)
    answer = server.turn("one", "What is my name?")
    equal(server.turn("two", "What is my name?"), answer)
    equal(server.raw("PUT", "/v1/sessions/three/state", blob)[0], 200)
    equal(server.turn("three", "What is my name?"), answer)
    broken = bytearray(blob)
    broken[-1] ^= 1
    equal(server.raw("PUT", "/v1/sessions/four/state", bytes(broken))[0], 400)
    equal(sorted(entry["id"] for entry in server.call("GET", "/v1/sessions")[1]["data"]), ["one", "three", "two"])
    # Weights that are quantised are another model; the same kind of weights is the same one again.
    for strategy, refused in (("int8", True), ("q8_0", True), ("fp16", False)):
        load = {"model_filename": MODEL, "model_viewname": "Q", "model_strategy": strategy}
        equal(server.call("POST", "/loadmodel", load)[0], 200)
        status, answer = server.raw("PUT", "/v1/sessions/five/state", blob)
        equal(status, 400 if refused else 200)
        assert not refused or b"quantised in another way" in answer, answer
        server.turn("own", "My name is Ben.")
        own = server.raw("GET", "/v1/sessions/own/state")[1]
        equal(server.call("POST", "/loadmodel", load)[0], 200)
        equal(server.raw("PUT", "/v1/sessions/again/state", own)[0], 200)
        assert "Ben" in server.turn("again", "What is my name?")
    equal(server.call("POST", "/removemodel", {"model_viewname": "Q"}), SUCCESS)
    for extra in ("five", "own", "again"):
        server.call("DELETE", f"/v1/sessions/{extra}")
    equal(server.call("DELETE", "/v1/sessions/one")[0], 200)
    equal(server.raw("GET", "/v1/sessions/one/state")[0], 404)


def check_embeddings(server):
    status, answer = server.call("POST", "/v1/embeddings", {"input": ["good morning", "good evening"]})
    equal(status, 200)
    first = answer["data"][0]["embedding"]
    assert abs(sum(x * x for x in first) - 1) < 1e-4
    assert answer["usage"]["prompt_tokens"] > 0 and first != answer["data"][1]["embedding"]
    coded = server.call("POST", "/v1/embeddings", {"input": "good morning", "encoding_format": "base64"})[1]
    numbers = base64.b64decode(coded["data"][0]["embedding"])
    for found, wanted in zip(struct.unpack(f"<{len(first)}f", numbers), first):
        assert abs(found - wanted) < 1e-4
    short = server.call("POST", "/v1/embeddings", {"input": "good morning", "dimensions": 8})[1]["data"][0]["embedding"]
    assert len(short) == 8 and abs(sum(x * x for x in short) - 1) < 1e-4


def check_removal_under_a_stream(server):
    body = {"prompt": "Once", "max_tokens": 400, "stream": True, "ignore_eos": True}
    request = urllib.request.Request(server.base + "/v1/completions", data=json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=120) as stream:
        stream.readline()
        equal(server.call("POST", "/removemodel"), SUCCESS)
        equal(server.chat("A"), 503)
        text = stream.read().decode()
    assert text.endswith("data: [DONE]\n\n") and '"finish_reason":"length"' in text, text[-300:]


def check_switching(program, models):
    with Server(program, "--model", models) as server:
        equal(server.chat(""), 503)
        equal(server.call("GET", "/v1/models")[1], {
            "object": "list", "data": [], "loaded": None, "available": ["fulmar-demo", "fulmar-demo-draft"]})
        equal(server.call("POST", "/v1/model/load", {"model": "../x"})[0], 400)
        equal(server.call("POST", "/v1/model/load", {"model": "fulmar-demo"}),
              (200, {"object": "model", "id": "fulmar-demo", "loaded": True}))
        equal(server.call("GET", "/v1/models")[1]["loaded"], "fulmar-demo")


def main(program, models):
    with tempfile.TemporaryDirectory() as folder:
        for name in os.listdir(models):
            shutil.copy(os.path.join(models, name), folder)
        os.symlink("/etc/passwd", os.path.join(folder, "link.pth"))
        with Server(program, "--model", "none", "--model-root", folder) as server:
            check_models_and_states(server)
            check_mixtures(server)
            check_state_files(server, models)
            check_branches(server)
            check_sessions(server)
            check_embeddings(server)
            check_removal_under_a_stream(server)
    check_switching(program, models)
    check_kept_state_files(program, models)
    check_refused_state_files(program, models)


if __name__ == "__main__":
    main(*sys.argv[1:])
