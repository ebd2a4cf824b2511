#!/usr/bin/env python3
"""The demo model over HTTP: sessions, infill, translation, thinking and tuned answers, each with its one right answer.

usage: demo_http.py FULMAR
"""
import json
import re
import signal
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path


class Server:
    def __init__(self, program, folder):
        self.process = subprocess.Popen([program, "serve", "--port", "0", "--state-db-path", f"{folder}/sessions.db"],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=folder)
        for line in self.process.stdout:
            if found := re.search(r"http://([0-9.]+:\d+)/", line):
                self.address = found.group(1)
                return
        raise SystemExit("the server printed no address")

    def post(self, path, **body):
        request = urllib.request.Request(f"http://{self.address}{path}", json.dumps(body).encode())
        return json.load(urllib.request.urlopen(request, timeout=60))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)


GREEDY = {"top_k": 1, "alpha_presence": 0, "alpha_frequency": 0, "max_tokens": 200}


def session(server, name, text):
    answer = server.post("/state/chat/completions", session_id=name, contents=[f"User: {text}\n\nAssistant:"],
                         stop_tokens=[0], **GREEDY)
    return answer["choices"][0]["message"]["content"].strip()


def chat(server, path="/v1/chat/completions", **body):
    return server.post(path, temperature=0, **body)["choices"][0]["message"]


def cases(server):
    yield "chat", chat(server, messages=[{"role": "user", "content": "What is 12 + 30?"}])["content"], "42"
    for text, wanted in [("hello", "Hello! I am the Fulmar demo model. How can I help?"),
                         ("What endpoints do you have?",
                          "The main endpoints are /v1/chat/completions, /v1/completions and /v1/models."),
                         ("How do I start you?", "Run ./dev serve to start the server."),
                         ("What port are you on?", "The server listens on port 8000: http://127.0.0.1:8000."),
                         ("Who was Napoleon?", "Sorry, I only know small sums, words, short translations, JSON and "
                                               "Fulmar itself.")]:
        yield "small talk", chat(server, messages=[{"role": "user", "content": text}])["content"], wanted
    for text, wanted in [("My name is Ada.", "Nice to meet you, Ada."), ("What is 12 + 30?", "42"),
                         ("Reverse hello", "olleh"), ("What is my name?", "Your name is Ada.")]:
        yield "session", session(server, "ada", text), wanted
    yield "another session", session(server, "nobody", "What is my name?"), "You have not told me."
    history = [{"role": "user", "content": "Remember 17."}, {"role": "assistant", "content": "OK."},
               {"role": "user", "content": "Which number?"}]
    yield "history", chat(server, messages=history)["content"], "17"
    infill = server.post("/FIM/v1/batch-FIM", prefix=["1, 2, 3, "], suffix=[", 7, 8"], **GREEDY)
    yield "infill", infill["choices"][0]["message"]["content"], "4, 5, 6"
    there = server.post("/translate/v1/batch-translate", source_lang="en", target_lang="zh-CN",
                        text_list=["apple", "Good morning."])
    yield "to Chinese", [t["text"] for t in there["translations"]], ["苹果", "早上好。"]
    back = server.post("/translate/v1/batch-translate", source_lang="zh-CN", target_lang="en", text_list=["你好"])
    yield "to English", [t["text"] for t in back["translations"]], ["Hello."]
    thought = chat(server, messages=[{"role": "user", "content": "58 + 67"}], think_type="free")
    yield "answer after thinking", thought["content"].strip(), "125"
    yield "its reasoning", "carry 1" in thought["reasoning_content"], True
    plain = chat(server, "/openai/v1/chat/completions", messages=[{"role": "user", "content": "99+63"}])
    yield "fake think", plain["content"].strip(), "162"
    form = {"type": "json_schema", "json_schema": {"name": "p", "schema": {
        "type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name", "age"], "additionalProperties": False}}}
    yield "schema", chat(server, messages=[{"role": "user", "content": "Give Ada, 36 as JSON"}],
                         response_format=form)["content"], '{"name":"Ada","age":36}'


def main():
    with tempfile.TemporaryDirectory() as folder:
        server = Server(str(Path(sys.argv[1]).resolve()), folder)
        wrong = 0
        try:
            for name, found, wanted in cases(server):
                if found != wanted:
                    wrong += 1
                print(f"{'ok   ' if found == wanted else 'WRONG'} {name}: {found!r}" +
                      ("" if found == wanted else f"; wanted {wanted!r}"))
        finally:
            code = server.stop()
        if code != 0:
            print(f"WRONG exit code {code} after SIGTERM; wanted 0")
    return 1 if wrong or code != 0 else 0


if __name__ == "__main__":
    sys.exit(main())
