#!/usr/bin/env python3
"""The commands with which the seed's users start its control plane and workers, word for word: seed_commands_test.py
PROGRAM MODEL

In a network namespace of its own, where port 9000 is free; without one the test needs that port to be free here.
"""
import glob
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
MODEL_NAME = "RWKV-7-World-0.4B-v2.8-20241022-ctx4096"
CONTROL = ["control", "--host", "0.0.0.0", "--port", "9000"]
START_WORKER = r"""curl -s -X POST http://localhost:9000/api/workers/start \
  -H 'Content-Type: application/json' \
  -d '{"model_path":"models/RWKV-7-World-0.4B-v2.8-20241022-ctx4096","gpu_id":0,"max_batch_size":64}'"""


def own_network():
    """Words before a command that runs it with a loopback of its own; [] where that is refused."""
    words = ["unshare", "--net", "--", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    try:
        subprocess.run([*words, "true"], check=True, stderr=subprocess.DEVNULL)
        return words
    except (OSError, subprocess.CalledProcessError):
        return []


def port_is_free():
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", 9000)) != 0


def shell(command):
    return subprocess.run(["bash", "-c", command], check=True, text=True, stdout=subprocess.PIPE).stdout


def get(path):
    return shell(f"curl -s http://localhost:9000{path}")


def post(path, body):
    return shell(f"curl -sN -X POST http://localhost:9000{path} -H 'Content-Type: application/json' -d '{json.dumps(body)}'")


def eventually(condition, what):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.1)


def events(text):
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line]
    assert lines[-1] == "[DONE]", lines[-1:]
    return [json.loads(line) for line in lines[:-1]]


def check():
    eventually(lambda: subprocess.run(["curl", "-s", "http://localhost:9000/health"], stdout=subprocess.DEVNULL,
                                      check=False).returncode == 0, "the control plane answers")
    assert get("/").lstrip().lower().startswith("<!doctype html"), "the dashboard"

    worker = json.loads(shell(START_WORKER))
    assert worker["status"] == "running" and worker["worker_id"].startswith("wkr-"), worker
    assert worker["spec"]["gpu_id"] == 0 and worker["spec"]["max_batch_size"] == 64, worker
    assert worker["spec"]["model_path"].startswith("models/"), worker
    own = f"/api/workers/{worker['worker_id']}"
    eventually(lambda: json.loads(get(own))["ready"], "the worker is ready")
    assert [one["worker_id"] for one in json.loads(get("/api/workers"))] == [worker["worker_id"]]

    text = "".join(event["choices"][0]["text"] for event in
                   events(post(f"{own}/proxy/v1/completions", {"prompt": "User: What is 12 + 30?\n\nAssistant:",
                                                               "max_tokens": 24, "top_k": 1, "stream": True})))
    assert "42" in text, text
    chat = json.loads(post(f"{own}/proxy/v1/chat/completions",
                           {"messages": [{"role": "user", "content": "What is 12 + 30?"}], "max_tokens": 24, "top_k": 1}))
    assert "42" in chat["choices"][0]["message"]["content"], chat

    logs = json.loads(get(f"{own}/logs?tail=200"))
    assert logs["worker_id"] == worker["worker_id"] and logs["lines"], logs
    assert json.loads(get("/api/system"))["python"]["version"]
    assert json.loads(post(f"{own}/stop", {})) == {"status": "ok"}
    ended = json.loads(get(own))
    assert ended["status"] == "exited" and ended["exit_code"] == 0, ended
    print("passed")


def main():
    program, model = map(os.path.abspath, sys.argv[1:])
    if shutil.which("curl") is None:
        print("SKIPPED: curl is not installed")
        return SKIPPED
    if "--inside" not in os.environ.get("FULMAR_SEED_TEST", ""):
        if network := own_network():
            os.execvpe(network[0], [*network, sys.executable, __file__, program, model],
                       dict(os.environ, FULMAR_SEED_TEST="--inside"))
        if not port_is_free():
            print("SKIPPED: port 9000 is taken, and network namespaces are refused here")
            return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(f"{folder}/models")
        for vocabulary in glob.glob(f"{os.path.dirname(model)}/*.vocab.txt"):
            os.symlink(vocabulary, f"{folder}/models/{os.path.basename(vocabulary)}")
        os.symlink(model, f"{folder}/models/{MODEL_NAME}.pth")  # recognised by its content
        with open(f"{folder}/log", "wb") as log:
            control = subprocess.Popen([program, *CONTROL], cwd=folder, stdout=log, stderr=log)
        try:
            check()
        except BaseException:
            with open(f"{folder}/log", encoding="utf-8", errors="replace") as log:
                print(log.read()[-3000:])
            raise
        finally:
            control.send_signal(signal.SIGTERM)
            control.wait(30)
    return 0


if __name__ == "__main__":
    sys.exit(main())
