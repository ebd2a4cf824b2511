#!/usr/bin/env python3
"""What the operations document promises, on a real control plane with a real worker: operations_test.py PROGRAM MODEL
DOCUMENT

Every figure that /metrics serves is in the document with its kind, and the other way round; with --models-dir a worker
reaches nothing outside of it; and a tuned state that was uploaded is on every worker, also on one that starts later.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request


def documented(path):
    """Kind by name, from the rows | `name{labels}`, ... | kind | meaning | (kinds as many as names, or one for all)."""
    kinds = {}
    with open(path, encoding="utf-8") as document:
        rows = [line.split("|") for line in document if line.startswith("| `fulmar_")]
    for row in rows:
        names, kind = re.findall(r"`(fulmar_\w+)[^`]*`", row[1]), row[2].replace(" ", "").split(",")
        assert len(kind) in (1, len(names)), row
        kinds.update(zip(names, kind * (len(names) if len(kind) == 1 else 1)))
    return kinds


def served(address, key=None):
    request = urllib.request.Request(f"{address}/metrics", headers={"Authorization": f"Bearer {key}"} if key else {})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return dict(re.findall(r"^# TYPE (\w+) (\w+)$", answer.read().decode(), re.MULTILINE))


def ask(address, path, body=None):
    request = urllib.request.Request(address + path, json.dumps(body).encode() if body is not None else None)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read())


def ready_worker(address, model):
    own = f"/api/workers/{ask(address, '/api/workers/start', {'model_path': model})['worker_id']}"
    end = time.monotonic() + 60
    while not ask(address, own)["ready"]:
        assert time.monotonic() < end, "the worker is ready"
        time.sleep(0.1)
    return own


def served_by_key(program, model, folder):
    """The figures that only a worker with keys has: the control plane gives its workers none."""
    keys = f"{folder}/keys.json"
    key = subprocess.run([program, "keys", "add", "alice", "--api-keys", keys], check=True, capture_output=True,
                         text=True, timeout=60).stdout.strip()
    worker = subprocess.Popen([program, "serve", "--port", "0", "--device", "cpu", "--state-db-path", "none", "-m", model,
                               "--api-keys", keys], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        address = next(found[0] for line in worker.stdout if (found := re.findall(r"http://[\w.:]+", line)))
        figures = served(address, key)
    finally:
        worker.terminate()
        worker.wait(30)
    by_key = {name: kind for name, kind in figures.items() if name.startswith("fulmar_key_")}
    assert by_key, figures
    return by_key


def check_figures(address, document, by_key):
    end = time.monotonic() + 60
    ask(address, "/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4})
    # Figures of GPUs are not to be had from workers on the CPU.
    kinds = {name: kind for name, kind in documented(document).items() if not name.startswith("fulmar_gpu_")}
    while (found := served(address) | by_key) != kinds:  # the control plane reads the worker's figures every now and then
        assert time.monotonic() < end, {"served only": found.items() - kinds.items(), "documented only": kinds.items() - found.items()}
        time.sleep(0.2)
    print(f"- {len(kinds)} figures are served and documented")


def status_of(address, path, body):
    try:
        ask(address, path, body)
        return 200
    except urllib.error.HTTPError as refusal:
        return refusal.code


def check_reach(address, own, inside, outside):
    os.symlink(outside, os.path.join(os.path.dirname(inside), "link.safetensors"))
    for path in (outside, "../outside.safetensors", "link.safetensors"):
        assert status_of(address, "/api/workers/start", {"model_path": path}) == 422, path
        load = {"model_filename": path, "model_viewname": "other", "model_strategy": "fp16"}
        assert status_of(address, f"{own}/proxy/loadmodel", load) >= 400, path
        assert [one["id"] for one in ask(address, "/v1/models")["data"]] == ["inside"]
    load = {"model_filename": "inside.safetensors", "model_viewname": "other", "model_strategy": "fp16"}
    assert status_of(address, f"{own}/proxy/loadmodel", load) == 200, "what lies inside is found"
    print("- nothing outside of --models-dir is loaded")


def upload(address, name, path):
    with open(path, "rb") as file:
        form = (f'--x\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode() + file.read() +
                b"\r\n--x--\r\n")
    request = urllib.request.Request(f"{address}/v1/state/upload", form,
                                     {"Content-Type": "multipart/form-data; boundary=x"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read())["state_id"]


def check_states(address, first, state):
    """Uploads and deletions go to whichever worker; each is asked for the state directly."""
    name = upload(address, "shared.pth", state)
    workers = [first, ready_worker(address, "inside.safetensors"), ready_worker(address, "inside.safetensors")]
    wanted = {"prompt": "hello", "max_tokens": 8, "state_id": name, "temperature": 0}
    answers = {ask(address, f"{own}/proxy/v1/completions", wanted)["choices"][0]["text"] for own in workers}
    plain = ask(address, f"{first}/proxy/v1/completions", {**wanted, "state_id": ""})["choices"][0]["text"]
    assert len(answers) == 1 and plain not in answers, (answers, plain)
    later = {"prompt": "hello", "max_tokens": 1, "state_id": upload(address, "later.pth", state)}
    assert [status_of(address, f"{own}/proxy/v1/completions", later) for own in workers] == [200] * 3
    assert ask(address, "/v1/state/delete", {"state_id": name})["deleted"]
    assert [status_of(address, f"{own}/proxy/v1/completions", wanted) for own in workers] == [404] * 3
    assert [len(ask(address, f"{own}/proxy/v1/state/list")["data"]) for own in workers] == [1] * 3
    print("- what is uploaded or deleted is so on every worker")


def main():
    program, model, document = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        inside, outside = f"{folder}/models/inside.safetensors", f"{folder}/outside.safetensors"
        os.mkdir(f"{folder}/models")
        shutil.copy(model, inside)
        shutil.copy(model, outside)
        for vocabulary in glob.glob(f"{os.path.dirname(model)}/*.vocab.txt"):
            shutil.copy(vocabulary, f"{folder}/models")
            shutil.copy(vocabulary, folder)
        control = subprocess.Popen([program, "control", "--port", "0", "--models-dir", f"{folder}/models", "--sessions-dir", folder],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            address = next(found[0] for line in control.stdout if (found := re.findall(r"http://[\w.:]+", line)))
            own = ready_worker(address, "inside.safetensors")
            check_figures(address, document, served_by_key(program, inside, folder))
            check_reach(address, own, inside, outside)
            check_states(address, own, f"{os.path.dirname(model)}/fulmar-demo-pirate.state.pth")
            print("passed")
        finally:
            control.terminate()
            control.wait(30)


if __name__ == "__main__":
    main()
