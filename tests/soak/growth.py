#!/usr/bin/env python3
"""What one large text costs in any field of any route: growth.py PROGRAM MODEL [--mib 1] [--seconds 2] [--routes PART]

Starts a server, takes the routes and their fields from /openapi.json and puts each pattern, repeated to the size, into each field
that may hold a text, alone and as the first of a list. /health is asked all the while. Fails where an answer is 5xx,
takes longer than --seconds, or holds up /health for longer than a tenth of that. Hours on a small machine: no part of CI.
"""
import argparse
import http.client
import json
import re
import subprocess
import sys
import threading
import time

PATTERNS = ["a", " ", "\n", "\r\n", "\t", "\0", '"', "\\", "[", "]", "{", "}", "<", ">", "$", "7", ":", "\u273f", "<think>",
            "</think>", "\n\nUser:", "```json\n", "<tool_call>", "\u00e9", "\U0001f600", "&amp;"]
# What routes want besides the field that is tried.
USUAL = {"messages": [{"role": "user", "content": "x"}], "prompt": "x", "input": "x", "contents": ["x"], "text_list": ["x"],
         "source_lang": "en", "target_lang": "zh-CN", "prefix": ["x"], "suffix": ["x"], "session_id": "s", "max_tokens": 1,
         "input_prefix": "x", "input_suffix": "x", "content": "x", "text": "x"}
NESTED = {"messages": lambda text: [{"role": "user", "content": text}],
          "tools": lambda text: [{"type": "function", "function": {"name": "f", "description": text}}],
          "input": lambda text: [{"role": "user", "content": text}],
          "response_format": lambda text: {"type": "json_schema", "json_schema": {"name": "x", "schema": {"const": text}}},
          "options": lambda text: {"stop": [text]}, "params": lambda text: {"stop": [text]}}
# Routes that change or end what is served.
LEFT_OUT = re.compile(r"/loadmodel|/removemodel|/api/pull|/v1/server/stop|/v1/model/load")


class Server:
    def __init__(self, program, model):
        self.process = subprocess.Popen([program, "serve", "-m", model, "--device", "cpu", "--port", "0", "--state-db-path", "none"],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.port = int(re.search(r":(\d+)", self.process.stdout.readline().split("http://")[1]).group(1))

    def ask(self, method, path, body=None, timeout=120):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        begun = time.monotonic()
        connection.request(method, path, body=body)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, time.monotonic() - begun, text


def bodies(fields, text):
    """Each field with the text in it, beside what the route wants."""
    names = [name for name in fields if name not in ("stream", "max_tokens")]
    usual = {name: USUAL[name] for name in fields if name in USUAL}
    for name in names:
        if name != "messages" and "messages" in usual and name in ("prompt", "contents", "input"):
            rest = {key: value for key, value in usual.items() if key != "messages"}
        else:
            rest = {key: value for key, value in usual.items() if name in ("prompt", "contents", "input") or
                    key not in ("prompt", "contents", "input") or "messages" not in usual}
        if name == "prompt":  # goes on from no session
            rest.pop("session_id", None)
        for value in (text, [text], *([NESTED[name](text)] if name in NESTED else [])):
            yield name, json.dumps({**rest, name: value}, ensure_ascii=False).encode()


def watch_health(server, worst, over):
    while not over.is_set():
        worst[0] = max(worst[0], server.ask("GET", "/health")[1])
        time.sleep(0.02)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--mib", type=float, default=1)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--routes", default="")
    flags = parser.parse_args()
    server = Server(flags.program, flags.model)
    worst, over = [0.0], threading.Event()
    threading.Thread(target=watch_health, args=(server, worst, over), daemon=True).start()
    document = json.loads(server.ask("GET", "/openapi.json")[2])
    paths, schemas = document["paths"], document["components"]["schemas"]
    tried, faults = 0, []
    try:
        for path, methods in paths.items():
            content = methods.get("post", {}).get("requestBody", {}).get("content", {}).get("application/json")
            if not content or LEFT_OUT.search(path) or flags.routes not in path:
                continue
            groups = [schemas[group["$ref"].rpartition("/")[2]] for group in content["schema"]["allOf"]]
            fields = {name: field for group in reversed(groups) for name, field in group["properties"].items()}
            for name, body in bodies(fields, "x"):
                if b"not kept on this route" in server.ask("POST", re.sub(r"\{\w+\}", "x", path), body)[2]:
                    faults.append(f"{path} {name} is tried beside a field that the route refuses")
                    print(faults[-1], flush=True)
            for pattern in PATTERNS:
                text = pattern * int(flags.mib * 2**20 / len(pattern.encode()))
                for name, body in bodies(fields, text):
                    worst[0] = 0.0
                    status, seconds, _ = server.ask("POST", re.sub(r"\{\w+\}", "x", path), body)
                    tried += 1
                    if status >= 500 or seconds > flags.seconds or worst[0] > flags.seconds / 10:
                        faults.append(f"{path} {name} of {pattern!r}: {status} after {seconds:.2f} s, /health {worst[0]:.2f} s")
                        print(faults[-1], flush=True)
    finally:
        over.set()
        server.process.terminate()
        code = server.process.wait(timeout=60)
    print(f"{tried} requests, {len(faults)} faults, exit code {code}")
    sys.exit(1 if faults or code != 0 else 0)


if __name__ == "__main__":
    main()
