#!/usr/bin/env python3
"""What strangers can do to a running program, from outside: names that mean it, files and hubs that change under it.
strangers.py PROGRAM MODELS
"""
import hashlib
import http.client
import http.server
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from program_rig import MODEL, MODELS, PROGRAM, Program, equal, wait_for

QUESTION = [{"role": "user", "content": "12 + 30"}]


def asked_as(server, host, method="GET", path="/health"):
    connection = http.client.HTTPConnection(server.host, server.port, timeout=30)
    connection.request(method, path, headers={"Host": host, "Sec-Fetch-Site": "same-origin"})
    response = connection.getresponse()
    return response.status, response.read()


def check_rebinding(folder):
    """Where nothing is asked for, another name than ours gets nothing, on any route of either program."""
    paths = [("GET", "/"), ("GET", "/health"), ("GET", "/metrics"), ("POST", "/v1/chat/completions"), ("GET", "/none"),
             ("OPTIONS", "/v1/chat/completions"), ("POST", "/loadmodel"), ("POST", "/api/workers/start"), ("GET", "/v1/models")]
    for verb in ("serve", "control"):
        with Program(folder, "--allowed-host", "box.lan", "--allowed-host", "box2.lan", verb=verb) as server:
            for method, path in paths:
                status, body = asked_as(server, f"evil.example:{server.port}", method, path)
                equal(status, 421, f"{verb} {method} {path}")
                assert b"evil.example" in body and b"--allowed-host" in body, body
            for host in ("localhost", f"127.0.0.1:{server.port}", "box.lan:80", "BOX2.lan", "[::1]:1"):
                equal(asked_as(server, host)[0], 200, f"{verb} {host}")
            server.stop()
        with Program(folder, "--password", "secret", verb=verb) as server:
            equal(asked_as(server, "evil.example")[0], 200, "a password is what a page does not have")


def check_links(folder):
    """Below --model-root no file of a model is a link that leads out."""
    root, outside = Path(folder, "root"), Path(folder, "outside")
    for name in ("whole", "linked", "kept"):
        (root / name).mkdir(parents=True)
        shutil.copy(f"{MODELS}/fulmar-demo.vocab.txt", root / name)
    outside.mkdir()
    shutil.copy(f"{MODELS}/{MODEL}", outside / "model.safetensors")
    shutil.copy(f"{MODELS}/{MODEL}", root / "whole" / "model.safetensors")
    (root / "linked" / "model.safetensors").symlink_to(outside / "model.safetensors")
    (root / "kept" / "model.safetensors").symlink_to(root / "whole" / "model.safetensors")
    with Program(folder, "--model-root", str(root), "--state-db-path", "none") as server:
        for name, status in (("whole", 200), ("kept", 200)):
            equal(server.ask("/loadmodel", {"model_filename": name, "model_viewname": name}).status, status, name)
        refused = server.ask("/loadmodel", {"model_filename": "linked", "model_viewname": "linked"})
        assert refused.status >= 400 and b"linked" not in server.get("/v1/models").body, (refused.status, refused.body)


def check_lost_file(folder):
    """A model's file that is shortened while it is served: the program ends, and says which file it was."""
    model = Path(folder, "m.safetensors")
    shutil.copy(f"{MODELS}/{MODEL}", model)
    shutil.copy(f"{MODELS}/fulmar-demo.vocab.txt", folder)
    process = subprocess.Popen([PROGRAM, "serve", "--device", "cpu", "--port", "0", "--model", str(model), "--state-db-path", "none"],
                               cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    line = next(line for line in process.stdout if "http://" in line)
    port = int(line.split("http://")[1].split("/")[0].split()[0].rsplit(":", 1)[1])
    os.truncate(model, 4096)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps({"messages": QUESTION, "max_tokens": 4}))
        served = connection.getresponse().status == 200  # the weights were in memory of its own
    except (OSError, http.client.HTTPException):
        served = False
    if served:
        process.send_signal(signal.SIGTERM)
        equal(process.wait(timeout=60), 0, "exit code")
    else:
        equal(process.wait(timeout=60), 3, "exit code")
        error = process.stderr.read()
        assert str(model) in error and "renaming" in error, error


def blob(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Hub(http.server.BaseHTTPRequestHandler):
    """Repositories that are made to do harm: a folder where a file is wanted, silence, a file without an end."""
    def log_message(self, *_):
        pass

    def send(self, data):
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        lists = {"evil/x.pth": [("config.json", b"{}"), ("model.safetensors", b"abc")], "evil/y": [("x.pth", b"")]}
        for repository, files in lists.items():
            if f"/api/models/{repository}/" in self.path:
                return self.send(json.dumps([{"type": "file", "path": path, "size": len(data), "oid": blob(data)}
                                             for path, data in files]).encode())
        if "/api/models/silent/" in self.path:
            return self.send(json.dumps([{"type": "file", "path": "m.pth", "size": 1000, "oid": "0" * 40}]).encode())
        if "/api/models/endless/" in self.path:
            return self.send(json.dumps([{"type": "file", "path": "m.pth"}]).encode())
        if "/silent/" in self.path:
            return time.sleep(600)
        if "/endless/" in self.path:
            self.send_response(200)
            self.end_headers()
            try:
                while True:
                    self.wfile.write(b"x" * (1 << 16))
            except OSError:
                return None
        return self.send(b"{}" if self.path.endswith("config.json") else b"abc")


def check_hub(folder):
    """Whatever a hub sends, a pull ends in an error of its own, and the server ends when it is told to."""
    hub = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    hub.daemon_threads = True
    threading.Thread(target=hub.serve_forever, daemon=True).start()
    os.environ.update(HF_ENDPOINT=f"http://127.0.0.1:{hub.server_port}", no_proxy="127.0.0.1", XDG_DATA_HOME=folder)
    with Program(folder, "--state-db-path", "none", "--max-download-gib", "0.01", "--grace", "20") as server:
        server.ask("/api/pull", {"model": "evil/x.pth", "stream": False})
        server.ask("/api/pull", {"model": "evil/y", "stream": False})
        endless = server.ask("/api/pull", {"model": "endless/x", "stream": False})
        assert b"10737418 bytes" in endless.body, endless.body
        equal(server.get("/health").status, 200, "the server goes on")
        answers = []
        asking = threading.Thread(target=lambda: answers.append(server.ask("/api/pull", {"model": "silent/x"}).body))
        asking.start()
        wait_for(lambda: list(Path(folder).rglob("m.pth.0*.part")), "the pull's beginning")
        begin = time.monotonic()
        server.stop()
        assert time.monotonic() - begin < 15, "a pull was waited for as long as running requests may take"
        asking.join()
        assert b"error" in answers[0], answers


def main():
    for check in (check_rebinding, check_links, check_lost_file, check_hub):
        with tempfile.TemporaryDirectory() as folder:
            check(folder)
        print(f"ok {check.__name__}", flush=True)


if __name__ == "__main__":
    main()
