#!/usr/bin/env python3
"""deploy/haproxy.cfg with a real HAProxy before three workers: haproxy_test.py FAKE_WORKER CONFIG

Exit code 77 means that HAProxy is not installed.
"""
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SKIPPED = 77
SESSIONS = 200


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def eventually(condition, what, patience=20.0):
    end = time.monotonic() + patience
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"never: {what}")
        time.sleep(0.02)


def ask(port, session=None, tokens=1, pace=0, **more):
    """The worker that answered, and the text."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {"X-Fulmar-Session": session} if session else {}
    body = json.dumps({"prompt": "x", "max_tokens": tokens, "pace_ms": pace, "stream": True, **more})
    connection.request("POST", "/v1/completions", body, headers)
    response = connection.getresponse()
    text = response.read().decode()
    assert response.status == 200, (response.status, text)
    return response.getheader("X-Served-By"), text


def queue(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/v1/queue/status")
    return json.loads(connection.getresponse().read())


def answers(port):
    try:
        with socket.create_connection(("127.0.0.1", port), 1):
            return True
    except OSError:
        return False


class Fleet:
    def __init__(self, program, config, folder):
        self.folder, self.program = folder, program
        self.port, self.socket = free_port(), f"{folder}/admin.sock"
        self.ports = [free_port() for _ in range(3)]
        self.workers = [self.start(i) for i in range(3)]
        eventually(lambda: all(map(answers, self.ports)), "workers answer")
        environment = dict(os.environ, FULMAR_BIND=f"127.0.0.1:{self.port}", FULMAR_ADMIN_SOCKET=self.socket)
        for i, port in enumerate(self.ports):
            environment[f"FULMAR_WORKER_{i + 1}"] = f"127.0.0.1:{port}"
        self.proxy = subprocess.Popen(["haproxy", "-db", "-f", config], env=environment,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
        eventually(lambda: answers(self.port) and self.up() == {"w1", "w2", "w3"}, "HAProxy sees all workers")

    def start(self, i):
        return subprocess.Popen([self.program, f"--model={self.folder}/w{i + 1}.pth", "--port", str(self.ports[i])],
                                stdout=subprocess.DEVNULL)

    def admin(self, command):
        with socket.socket(socket.AF_UNIX) as door:
            door.connect(self.socket)
            door.sendall(command.encode() + b"\n")
            answer = b""
            while piece := door.recv(65536):
                answer += piece
        return answer.decode()

    def up(self):
        rows = [line.split(",") for line in self.admin("show stat").splitlines() if line.startswith("workers,w")]
        return {row[1] for row in rows if row[17].startswith("UP")}

    def homes(self):
        return {f"s{i}": ask(self.port, f"s{i}")[0] for i in range(SESSIONS)}

    def stop(self):
        for process in [self.proxy, *self.workers]:
            process.kill()
            process.wait()


def moved(before, after):
    return {before[session] for session in before if before[session] != after[session]}


def check(fleet):
    homes = fleet.homes()
    assert set(homes.values()) == {"w1", "w2", "w3"}, "every worker has sessions"
    assert moved(homes, fleet.homes()) == set(), "sessions stay"

    # Without the header a conversation is known by its session_id, or else by its first turn.
    for i in range(20):
        homes_of_id = {ask(fleet.port, session_id=f"s{i}")[0] for _ in range(3)}
        assert homes_of_id == {homes[f"s{i}"]}, "the same key, wherever it is found"
    rules, hello = {"role": "system", "content": "Be kind."}, [{"role": "user", "content": f"Hello {i}"} for i in range(30)]
    answer = {"role": "assistant", "content": "Hello!"}
    for opening in ([rules], []):
        begun = [ask(fleet.port, messages=[*opening, first])[0] for first in hello]
        assert set(begun) == {"w1", "w2", "w3"}, "first turns differ"
        again = [ask(fleet.port, messages=[*opening, first, answer, hello[0]])[0] for first in hello]
        assert again == begun, "later turns follow the first"
    assert {ask(fleet.port)[0] for _ in range(30)} == {"w1", "w2", "w3"}, "what belongs to no conversation is spread"

    # A drained worker loses its sessions, finishes what runs, and gets its own sessions back.
    on_w2 = next(session for session, home in homes.items() if home == "w2")
    connection = http.client.HTTPConnection("127.0.0.1", fleet.port, timeout=30)
    connection.request("POST", "/v1/completions", json.dumps({"prompt": "x", "max_tokens": 100, "pace_ms": 10}),
                       {"X-Fulmar-Session": on_w2})
    running = connection.getresponse()
    fleet.admin("set server workers/w2 state drain")
    assert moved(homes, fleet.homes()) == {"w2"}, "only the drained worker's sessions move"
    assert running.read().decode().count("data: ") == 101, "its stream comes to its end"
    fleet.admin("set server workers/w2 state ready")
    eventually(lambda: "w2" in fleet.up(), "w2 is back")
    assert moved(homes, fleet.homes()) == set(), "all are home again"

    # A client that leaves cancels at the worker.
    before = queue(fleet.ports[1])["stats"]["cancelled_requests"]
    leaving = socket.create_connection(("127.0.0.1", fleet.port))
    body = json.dumps({"prompt": "x", "max_tokens": 100000, "pace_ms": 5})
    leaving.sendall((f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nX-Fulmar-Session: {on_w2}\r\n"
                     f"Content-Length: {len(body)}\r\n\r\n{body}").encode())
    assert leaving.recv(65536)
    leaving.close()
    eventually(lambda: queue(fleet.ports[1])["stats"]["cancelled_requests"] == before + 1, "cancelled upstream")

    # A killed worker is noticed; the others' sessions stay where they are.
    fleet.workers[2].kill()
    fleet.workers[2].wait()
    eventually(lambda: "w3" not in fleet.up(), "w3 is marked down")
    assert moved(homes, fleet.homes()) == {"w3"}, "only the dead worker's sessions move"


def main():
    program, config = sys.argv[1:]
    if shutil.which("haproxy") is None:
        print("SKIPPED: haproxy is not installed")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        for i in range(3):
            Path(folder, f"w{i + 1}.pth").touch()
        fleet = Fleet(program, config, folder)
        try:
            check(fleet)
        finally:
            fleet.stop()
    print("passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
