#!/usr/bin/env python3
"""fulmar pull against a hub that breaks off, lies and redirects: pull_test.py PROGRAM MODELS

Whatever the hub does, a file is under its name only when it is whole and the one that was listed.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

from fake_hub import WEIGHTS, Hub, Proxy

VOCABULARY = "fulmar-demo.vocab.txt"


class Case:
    def __init__(self, program, hub, home):
        self.program, self.hub, self.home = program, hub, Path(home)
        self.models = self.home / "fulmar" / "models"

    def run(self, *command, **environment):
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith(("HF_", "SSL_")) and not name.lower().endswith("_proxy")}
        done = subprocess.run([self.program, *command], capture_output=True, text=True, timeout=120,
                              env={**clean, "XDG_DATA_HOME": str(self.home), **environment})
        return done.returncode, done.stdout, done.stderr

    def pull(self, *flags, name="owner/tiny", trick="", **environment):
        self.hub.trick, self.hub.broken, self.hub.requests = trick, 0, []
        return self.run("pull", name, "--endpoint", self.hub.address, *flags, **environment)

    def files(self):
        paths = self.models.iterdir() if self.models.exists() else []
        return sorted(path.name for path in paths if path.name != ".pulled")

    def clear(self):
        for path in self.models.iterdir() if self.models.exists() else []:
            path.unlink()

    def check_whole(self, result):
        code, out, error = result
        assert code == 0, (code, out, error)
        assert self.files() == [WEIGHTS, VOCABULARY], self.files()
        for name in self.files():
            assert (self.models / name).read_bytes() == self.hub.files[name], f"{name} differs"

    def check_refused(self, result, code, *words):
        assert result[0] == code, result
        for word in words:
            assert word in result[2], (word, result)
        assert WEIGHTS not in self.files(), self.files()


def check_tricks(case):
    for trick in ("", "breaks off", "ignores ranges", "busy twice"):
        case.check_whole(case.pull(trick=trick))
        if trick == "breaks off":
            ranges = [wanted for path, wanted, _ in case.hub.requests if path.endswith(WEIGHTS)]
            assert ranges[0] is None and all(ranges[1:]) and len(ranges) == 4, ranges
        case.clear()
    case.check_refused(case.pull(trick="wrong hash"), 3, "checksum", "0" * 64)
    assert case.files() == [VOCABULARY], case.files()  # nobody goes on from a part that is wrong
    case.check_refused(case.pull(trick="listed too long"), 4, "ended at byte")
    case.clear()
    case.check_refused(case.pull(trick="listed too short"), 3, "sends more")
    case.check_refused(case.pull(trick="sends more"), 3, "sends more")
    case.check_refused(case.pull(trick="wrong range"), 3, "goes on at byte 0")
    case.clear()
    case.check_refused(case.pull(trick="in circles"), 4, "redirects")
    case.check_refused(case.pull(trick="gone"), 3, "HTTP 404")
    case.check_refused(case.pull(trick="hostile names"), 3, "no .pth, .safetensors, .st, .gguf or .rwkvq")
    assert not list(case.home.glob("*.safetensors")), "a file outside the folder"
    case.clear()


def check_that_it_is_a_model(case):
    case.clear()
    whole = case.hub.files[WEIGHTS]
    for broken in (b"GGUF", whole[:-4], b"<html>not here</html>"):
        case.hub.files[WEIGHTS] = broken
        case.check_refused(case.pull(), 3, WEIGHTS, "is no model and was removed")
        assert case.files() == [VOCABULARY], case.files()
    case.hub.files[WEIGHTS] = whole
    case.check_whole(case.pull())
    case.clear()


def check_resuming(case):
    case.check_refused(case.pull(trick="never ends"), 4)
    part = next(name for name in case.files() if name.endswith(".part"))
    there = (case.models / part).stat().st_size
    assert 0 < there < len(case.hub.files[WEIGHTS])
    out = case.run("models")[1]
    assert "incomplete" in out and "fulmar-demo.safetensors" in out, out
    assert case.run("generate", "x", "--model", "fulmar-demo")[0] == 3
    case.check_whole(case.pull())
    assert case.hub.requests[-1][1] == f"bytes={there}-", case.hub.requests
    case.clear()
    # A part whose bytes are wrong costs a second transfer and nothing else.
    (case.models / part).write_bytes(b"?" * there)
    case.check_whole(case.pull())


def check_again(case):
    case.check_whole(case.pull())
    assert not [path for path, _, _ in case.hub.requests if "resolve" in path], "what is there was fetched again"
    kept = (case.models / WEIGHTS).read_bytes()
    (case.models / WEIGHTS).write_bytes(b"mine")
    code, _, error = case.pull()
    assert code == 2 and "--as" in error, (code, error)
    assert (case.models / WEIGHTS).read_bytes() == b"mine"
    (case.models / WEIGHTS).write_bytes(kept)
    assert case.pull("--as", "other")[0] == 0
    assert case.files() == [WEIGHTS, VOCABULARY, "other.safetensors", "other.vocab.txt"], case.files()
    out = case.run("models")[1]
    assert re.search(r"^other .*other.vocab.txt", out, re.M) and "fulmar-demo " in out, out
    code, out, error = case.run("generate", "User: 12 + 30\n\nAssistant:", "-t", "0", "--model", "other", "--device", "cpu")
    assert code == 0 and "42" in out, (code, out, error)


def check_tokens_and_redirects(case, elsewhere):
    case.clear()
    case.check_refused(case.pull(trick="needs a token"), 2, "HTTP 401", "HF_TOKEN")
    case.check_whole(case.pull(trick="needs a token", HF_TOKEN="sesame"))
    case.clear()
    case.hub.elsewhere, elsewhere.requests = elsewhere, []
    case.check_whole(case.pull(HF_TOKEN="sesame"))
    case.hub.elsewhere = None
    assert elsewhere.requests and all(token is None for _, _, token in elsewhere.requests), elsewhere.requests
    assert all(token == "Bearer sesame" for _, _, token in case.hub.requests), case.hub.requests


def check_pages(case, elsewhere):
    case.clear()
    case.check_whole(case.pull(trick="pages"))
    assert len([path for path, _, _ in case.hub.requests if "/tree/" in path]) == 4, case.hub.requests
    case.clear()
    case.check_refused(case.pull(trick="pages without end"), 3, "more than", "pages")
    case.hub.elsewhere, elsewhere.requests = elsewhere, []
    case.check_refused(case.pull(trick="pages elsewhere", HF_TOKEN="sesame"), 3, elsewhere.address, case.hub.address)
    case.hub.elsewhere = None
    assert not elsewhere.requests, elsewhere.requests


def certificate(folder, name, address):
    """A file with a key and a certificate for that address, signed by itself."""
    file = Path(folder) / f"{name}.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                    "-subj", f"/CN={name}", "-addext", f"subjectAltName={address}", "-keyout", file, "-out", f"{file}.part"],
                   check=True, capture_output=True)
    file.write_text(file.read_text() + Path(f"{file}.part").read_text())
    return str(file)


def check_certificates(case):
    """Encrypted hubs are trusted by the machine's certificates alone, for the host that was meant; none leads back to plain HTTP."""
    if not shutil.which("openssl"):
        print("skipped check_certificates: no openssl")
        return
    known, other = certificate(case.home, "known", "IP:127.0.0.1"), certificate(case.home, "other", "DNS:elsewhere.test")
    plain, files = case.hub, case.hub.files
    for file, trusted, word in ((known, known, None), (known, other, "not trusted"), (other, other, "not trusted")):
        case.hub = Hub(files, file)
        case.clear()
        result = case.pull(SSL_CERT_FILE=trusted, HF_TOKEN="sesame")
        if word:
            case.check_refused(result, 4, word, "SSL_CERT_FILE")
            assert not case.hub.requests, "something was said to a host that is not trusted"
        else:
            case.check_whole(result)
    case.hub = Hub(files, known)
    case.hub.elsewhere, plain.requests = plain, []
    case.clear()
    case.check_refused(case.pull(SSL_CERT_FILE=known), 3, "wanted https")
    assert not plain.requests, plain.requests
    proxy = Proxy()
    case.hub = Hub(files, known)
    case.check_whole(case.pull(SSL_CERT_FILE=known, https_proxy=proxy.address, HF_TOKEN="sesame"))
    assert {(command, token) for command, _, token in proxy.asked} == {("CONNECT", None)}, proxy.asked
    case.hub = plain


def check_proxies(case):
    proxy = Proxy()
    case.clear()
    case.check_whole(case.pull(http_proxy=proxy.address))
    assert proxy.asked and all(path.startswith(case.hub.address) for _, path, _ in proxy.asked), proxy.asked
    case.clear()
    case.check_refused(case.pull(http_proxy=proxy.address.replace("secret", "wrong")), 4, "HTTP 407")
    count = len(proxy.asked)
    case.check_whole(case.pull(http_proxy=proxy.address, no_proxy="127.0.0.1"))
    assert len(proxy.asked) == count, proxy.asked
    case.clear()
    case.check_refused(case.pull(http_proxy="socks5://ann:secret@127.0.0.1:1"), 2, "wanted http://HOST:PORT")


def split_weights(data, shards):
    """A safetensors file as the repository of Transformers' Rwkv7ForCausalLM: name -> content."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    parts, where = [({}, b"") for _ in range(shards)], {}
    for number, (name, entry) in enumerate(header.items()):
        begin, end = entry["data_offsets"]
        public = name if name == "head.weight" else "model." + name.replace("emb.weight", "embeddings.weight")
        tensors, payload = parts[number % shards]
        tensors[public] = {**entry, "data_offsets": [len(payload), len(payload) + end - begin]}
        parts[number % shards] = (tensors, payload + data[8 + length + begin:8 + length + end])
        where[public] = f"model-{number % shards + 1:05}-of-{shards:05}.safetensors"
    files = {"model.safetensors.index.json": json.dumps({"weight_map": where}).encode()}
    for number, (tensors, payload) in enumerate(parts):
        text = json.dumps(tensors).encode()
        files[f"model-{number + 1:05}-of-{shards:05}.safetensors"] = len(text).to_bytes(8, "little") + text + payload
    rows, width = header["emb.weight"]["shape"]
    layers = 1 + max(int(name.split(".")[1]) for name in header if name.startswith("blocks."))
    files["config.json"] = json.dumps({"architectures": ["Rwkv7ForCausalLM"], "hidden_size": width, "vocab_size": rows,
                                       "num_hidden_layers": layers, "embedding_layer_norm_fused": False}).encode()
    return files


def check_repository(case):
    """An official repository comes whole into a folder, answers like the file it was made of, and says what is missing."""
    kept = case.hub.files
    case.hub.files = split_weights(kept[WEIGHTS], 3) | {"vocab.txt": kept[VOCABULARY], "README.md": b"r", "code.py": b""}
    folder = case.models / "tiny"
    code, out, error = case.pull(trick="busy twice")
    assert code == 0 and f"model       {folder}" in out and "--model tiny" in out, (code, out, error)
    there = sorted(path.name for path in folder.iterdir())
    assert there == sorted(set(case.hub.files) - {"README.md", "code.py"}), there
    assert re.search(r"^tiny .*vocab.txt", case.run("models")[1], re.M), case.run("models")
    prompt = ("generate", "User: 12 + 30\n\nAssistant:", "-t", "0", "--device", "cpu", "--model")
    wanted = case.run(*prompt[:-1])[1]
    for name in ("tiny", f"{folder}/", f"{folder}/model.safetensors.index.json"):
        code, out, error = case.run(*prompt, name)
        assert code == 0 and out == wanted and "42" in out, (name, code, out, error)
    code, out, error = case.run("inspect", "tiny", "--quick")
    assert code == 0 and "3 shards" in out and "Rwkv7ForCausalLM" in out, (out, error)
    (folder / "model-00002-of-00003.safetensors").unlink()
    code, _, error = case.run(*prompt, "tiny")
    assert code == 3 and "model-00002-of-00003.safetensors" in error and error.count("\n") == 1, (code, error)
    assert "incomplete" in case.run("models")[1]
    assert case.pull()[0] == 0
    assert [path.rsplit("/", 1)[1] for path, _, _ in case.hub.requests if "/resolve/" in path] == \
        ["model-00002-of-00003.safetensors"], case.hub.requests
    (folder / "other.vocab.txt").write_bytes(kept[VOCABULARY] + b"60000 'zzzz' 4\n")
    code, _, error = case.run(*prompt, "tiny")
    assert code != 0 and "two different vocabularies" in error, (code, error)
    shutil.rmtree(folder)
    case.hub.files = kept


class Server:
    """fulmar serve with the demo model, whose hub and folder of models are those of `case`."""

    def __init__(self, case, models, *flags):
        self.process = subprocess.Popen(
            [case.program, "serve", "--port", "0", "--device", "cpu", "--slots", "4", "--state-db-path", "none", "-m",
             str(Path(models) / WEIGHTS), *flags], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env={**os.environ, "XDG_DATA_HOME": str(case.home), "HF_ENDPOINT": case.hub.address})
        for line in self.process.stdout:
            if found := re.search(r"http://[0-9.]+:\d+", line):
                self.base = found.group()
                break

    def ask(self, path, **body):
        request = urllib.request.Request(self.base + path, json.dumps(body).encode() if body else None)
        with urllib.request.urlopen(request, timeout=120) as answer:
            return [json.loads(line) for line in answer.read().splitlines()]

    def names(self, path):
        return [model["name"] for model in self.ask(path)[0]["models"]]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=60)
        self.process.stdout.close()


def check_pull_by_clients(case, models):
    """/api/pull brings a repository; its name then means that model, in a later server, too, and for --model."""
    kept = case.hub.files
    case.hub.files = split_weights(kept[WEIGHTS], 3) | {"vocab.txt": kept[VOCABULARY]}
    case.hub.trick = ""
    question = [{"role": "user", "content": "What is 12 + 30?"}]
    with Server(case, models) as server:
        equal(server.names("/api/tags"), ["fulmar-demo"])
        lines = server.ask("/api/pull", model="owner/tiny")
        equal([lines[0]["status"], lines[-1]["status"]], ["pulling manifest", "success"])
        whole = [line for line in lines if line["status"].endswith("model-00002-of-00003.safetensors")][-1]
        equal(whole["completed"], len(case.hub.files["model-00002-of-00003.safetensors"]))
        equal(whole["total"], whole["completed"])
        equal(server.names("/api/tags"), ["fulmar-demo", "owner/tiny"])
        equal(server.names("/api/ps"), ["fulmar-demo"])
        equal(server.ask("/api/show", model="owner/tiny")[0]["details"]["family"], "rwkv7")
        answer = server.ask("/api/chat", model="owner/tiny:latest", messages=question, stream=False,
                            options={"temperature": 0})[0]
        assert "42" in answer["message"]["content"], answer
        equal(sorted(server.names("/api/ps")), ["fulmar-demo", "owner/tiny"])
        (first, _) = server.ask("/v1/models")[0]["data"]
        equal(first["id"], "fulmar-demo")
    with Server(case, models) as server:
        equal(server.names("/api/tags"), ["fulmar-demo", "owner/tiny"])
        server.ask("/loadmodel", model_filename="owner/tiny", model_viewname="T")
        equal(server.ask("/v1/models/T")[0]["id"], "T")
    code, out, error = case.run("generate", "User: 12 + 30\n\nAssistant:", "-t", "0", "--device", "cpu", "--model", "owner/tiny")
    assert code == 0 and "42" in out, (code, out, error)
    shutil.rmtree(case.models / "tiny")
    (case.models / ".pulled").unlink()
    case.hub.files = kept


def equal(found, wanted):
    assert found == wanted, (found, wanted)


def check_usage(case):
    code, _, error = case.run("pull", "owner/tiny")
    assert code == 2 and "HF_ENDPOINT" in error, (code, error)
    for name in ("tiny", "../tiny", "owner/..", "owner/tiny:../x.pth", "owner/tiny:/etc/passwd"):
        assert case.pull(name=name)[0] == 2, name
        assert not case.hub.requests, name
    assert case.pull(name="owner/tiny:none.pth")[0] == 3
    assert case.pull("--as", "../x")[0] == 2
    case.clear()
    assert case.run("pull", "owner/tiny", HF_ENDPOINT=case.hub.address)[0] == 0


def main(program, models):
    files = {name: (Path(models) / name).read_bytes() for name in (WEIGHTS, VOCABULARY)}
    files["README.md"] = b"tiny"
    with tempfile.TemporaryDirectory() as home:
        hub, elsewhere = Hub(files), Hub(files)
        case = Case(program, hub, home)
        for check in (check_tricks, check_resuming, check_again):
            check(case)
            print(f"ok {check.__name__}", flush=True)
        check_that_it_is_a_model(case)
        print("ok check_that_it_is_a_model")
        check_tokens_and_redirects(case, elsewhere)
        print("ok check_tokens_and_redirects")
        check_pages(case, elsewhere)
        print("ok check_pages")
        check_proxies(case)
        print("ok check_proxies")
        check_certificates(case)
        print("ok check_certificates")
        check_repository(case)
        print("ok check_repository")
        check_pull_by_clients(case, models)
        print("ok check_pull_by_clients")
        check_usage(case)
        print("ok check_usage")


if __name__ == "__main__":
    main(*sys.argv[1:])
