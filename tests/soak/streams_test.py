#!/usr/bin/env python3
"""Many streams at once, ended in every way: streams_test.py PROGRAM MODEL [--streams N] [--seconds S] ...

Clients read to the end, leave in the middle, cancel, pause and resume, read slowly, or send nonsense. Every prompt holds
a token that its answer must repeat. Afterwards no slot, memory or file descriptor may be missing, and a server built with
a thread sanitizer must have reported nothing.
"""
import argparse
import asyncio
import collections
import json
import random
import string
import sys
import tempfile
import time
from pathlib import Path

from soak_http import Answer, Wrong, begins_with, same
from soak_server import Server

LONG = 120  # tokens of a stream that somebody ends early
ENDLESS = 60_000  # tokens of a stream that runs on however late its client comes to cancel it


def new_token():
    return "".join(random.choices(string.ascii_letters + string.digits, k=5))


def prompt_of(token):
    return f"User: Repeat: {token}\n\nAssistant:"


def completion(token, **more):
    return {"prompt": prompt_of(token), "temperature": 0, "stream": True, "max_tokens": 40, "stop": ["\n"], **more}


class Soak:
    def __init__(self, server):
        self.server, self.port = server, server.port
        self.count, self.problems = collections.Counter(), []

    async def read_text(self, answer, limit=None, pause=0.0):
        same(answer.status, 200, "status")
        text, number = "", 0
        async for event in answer.events():
            text += event["choices"][0]["text"]
            number += 1
            if limit and number >= limit:
                return text
            if pause:
                await asyncio.sleep(pause)
        return text

    async def whole(self):
        token = new_token()
        answer = await Answer.to(self.port, "POST", "/v1/completions", completion(token))
        same((await self.read_text(answer)).strip(), token, "completion")
        answer.close()

    async def chat(self):
        token = new_token()
        body = {"messages": [{"role": "user", "content": f"Repeat: {token}"}], "temperature": 0, "stream": True,
                "max_tokens": 40}
        answer = await Answer.to(self.port, "POST", "/v1/chat/completions", body)
        same(answer.status, 200, "status")
        text = ""
        async for event in answer.events():
            text += event["choices"][0]["delta"].get("content") or ""
        same(text.strip(), token, "chat")
        answer.close()

    async def batch(self):
        tokens = [new_token() for _ in range(random.randint(2, 12))]
        body = {"contents": [prompt_of(token) for token in tokens], "stop": ["\n"], "top_k": 1, "max_tokens": 40,
                "alpha_presence": 0, "alpha_frequency": 0, "stream": True}
        answer = await Answer.to(self.port, "POST", "/v2/chat/completions", body)
        same(answer.status, 200, "status")
        texts = [""] * len(tokens)
        async for event in answer.events():
            for choice in event["choices"]:
                texts[choice["index"]] += choice["delta"]["content"]
        same([text.strip() for text in texts], tokens, "batch")
        answer.close()

    async def in_one_piece(self):
        token = new_token()
        answer = await Answer.to(self.port, "POST", "/v1/completions", completion(token, stream=False))
        same((await answer.json())["choices"][0]["text"].strip(), token, "one piece")
        answer.close()

    async def session(self):
        token, name = new_token(), f"soak-{random.randrange(100)}-{time.monotonic_ns()}"
        body = {"session_id": name, "contents": [prompt_of(token)], "stop": ["\n"], "top_k": 1, "max_tokens": 40,
                "alpha_presence": 0, "alpha_frequency": 0, "stream": False}
        answer = await Answer.to(self.port, "POST", "/state/chat/completions", body)
        same((await answer.json())["choices"][0]["message"]["content"].strip(), token, "session")
        answer.close()
        answer = await Answer.to(self.port, "POST", "/state/delete", {"session_id": name})
        same(answer.status, 200, "deleting a session")
        answer.close()

    async def leave(self):
        token = new_token()
        answer = await Answer.to(self.port, "POST", "/v1/completions", completion(token, ignore_eos=True, max_tokens=LONG))
        begins_with(await self.read_text(answer, limit=random.randint(1, 30)), token)
        answer.close()

    async def leave_at_once(self):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        data = json.dumps(completion(new_token(), ignore_eos=True, max_tokens=LONG)).encode()
        request = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data
        writer.write(request[:random.randint(1, len(request))])
        await asyncio.sleep(random.uniform(0, 0.3))
        writer.transport.abort()

    async def cancel(self):
        token = new_token()
        answer = await Answer.to(self.port, "POST", "/v1/completions", completion(token, ignore_eos=True, max_tokens=ENDLESS))
        same(answer.status, 200, "status")
        text, number, at, choice = "", 0, random.randint(1, 20), {}
        async for event in answer.events():  # goes on to [DONE]
            choice = event["choices"][0]
            text += choice["text"]
            number += 1
            if number == at:
                other = await Answer.to(self.port, "DELETE", f"/v1/requests/{answer.headers['x-request-id']}", b"")
                same(other.status, 200, "cancelling")
                other.close()
        begins_with(text, token)
        same(choice.get("stop_reason"), "cancelled", f"the reason for which a cancelled stream ended after {number} events")
        answer.close()

    async def pause_and_resume(self):
        token = new_token()
        answer = await Answer.to(self.port, "POST", "/v1/completions", completion(token, ignore_eos=True, max_tokens=LONG))
        same(answer.status, 200, "status")
        request, text, paused = answer.headers["x-request-id"], "", None
        async for event in answer.events():
            text += event["choices"][0]["text"]
            if paused is None:
                other = await Answer.to(self.port, "POST", "/v1/server/pause", {"request_id": request})
                paused = (await other.json()).get("paused", False)
                other.close()
        answer.close()
        if paused:
            while True:
                other = await Answer.to(self.port, "POST", "/v1/server/resume", {"request_id": request})
                if other.status != 503:  # no slot is free
                    break
                other.close()
                await asyncio.sleep(0.05)
            if other.status == 404:  # its engine has gone
                self.count["paused and gone"] += 1
            else:
                same(other.status, 200, "resuming")
                async for event in other.events():
                    choice = event["choices"][0]
                    text += choice.get("text") or choice.get("delta", {}).get("content") or ""
            other.close()
        begins_with(text, token)

    async def read_slowly(self):
        token = new_token()
        answer = await Answer.to(self.port, "POST", "/v1/completions", completion(token))
        same((await self.read_text(answer, pause=0.1)).strip(), token, "slow reader")
        answer.close()

    async def nonsense(self):
        path, body = random.choice([
            ("/v1/completions", b"{"), ("/v1/completions", {}), ("/v1/completions", {"prompt": 5}),
            ("/v1/completions", {"prompt": "x", "temperature": -1}), ("/v1/chat/completions", {"messages": "x"}),
            ("/v1/chat/completions", {"messages": [], "contents": []}), ("/v2/chat/completions", {"contents": [1]}),
            ("/state/chat/completions", {"contents": ["x"]}), ("/state/delete", {"session_id": "nobody"}),
            ("/big_batch/completions", {"contents": []}), ("/nowhere", {}), ("/v1/completions", b"\xff\xfe"),
            ("/FIM/v1/batch-FIM", {"prefix": ["a"], "suffix": []}), ("/v1/completions", b"[" * 1000)])
        answer = await Answer.to(self.port, "POST", path, body)
        if not 400 <= answer.status < 500:
            raise Wrong(f"{path} {body!r}: HTTP {answer.status}")
        await answer.json()
        answer.close()

    async def noise(self):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(random.randbytes(random.randint(1, 400)) + b"\r\n\r\n")
        await asyncio.wait_for(reader.read(4096), 60)
        writer.transport.abort()

    KINDS = {whole: 25, chat: 15, batch: 8, in_one_piece: 6, session: 6, leave: 12, leave_at_once: 5, cancel: 6,
             pause_and_resume: 4, read_slowly: 4, nonsense: 7, noise: 2}

    async def client(self, until):
        while time.monotonic() < until:
            kind = random.choices(list(self.KINDS), self.KINDS.values())[0]
            try:
                await asyncio.wait_for(kind(self), 300)
                self.count[kind.__name__] += 1
            except Exception as failure:  # whatever it is, it is a finding
                self.problems.append(f"{kind.__name__}: {type(failure).__name__}: {failure}")
                await asyncio.sleep(0.5)

    async def run(self, clients, seconds):
        until = time.monotonic() + seconds
        await asyncio.gather(*[self.client(until) for _ in range(clients)])


def wait_until_idle(server):
    """The counters once nothing runs; the last ones seen when that does not come."""
    for _ in range(600):
        metrics = server.metrics()
        if not any(metrics[name] for name in ("fulmar_slots_used", "fulmar_requests_running", "fulmar_requests_waiting")):
            break
        time.sleep(0.1)
    time.sleep(1)
    return server.metrics()


def check_nothing_lost(server, soak, before, flags):
    metrics = wait_until_idle(server)
    for name in ("fulmar_slots_used", "fulmar_requests_running", "fulmar_requests_waiting", "fulmar_rows_waiting"):
        if metrics[name] != 0:
            soak.problems.append(f"{name} is {metrics[name]} when idle; wanted 0")
    for _ in range(100):  # the last connection may still be on its way out
        files, memory = server.open_files(), server.resident_mib()
        if files <= before["files"]:
            break
        time.sleep(0.1)
    print(f"open files {before['files']} before, {files} after; memory {before['memory']:.1f} MiB before, {memory:.1f} after")
    if files > before["files"]:
        soak.problems.append(f"{files} files are open; {before['files']} were before")
    if memory > before["memory"] + flags.memory:
        soak.problems.append(f"memory grew from {before['memory']:.1f} to {memory:.1f} MiB; allowed are {flags.memory}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--streams", type=int, default=500, help="clients at once")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--warm-up", type=float, default=20, help="of the same load, before memory and files are noted")
    parser.add_argument("--memory", type=float, default=24, help="MiB that the process may have grown by")
    parser.add_argument("--seed", type=int, default=1)
    flags = parser.parse_args()
    random.seed(flags.seed)
    model = str(Path(flags.model).resolve())
    with tempfile.TemporaryDirectory() as folder:
        server = Server(str(Path(flags.program).resolve()), model, folder, "--slots", "48", "--cache-host", "32",
                        "--max-queue", "4000", "--state-db-path", "sessions.db").start()
        soak = Soak(server)
        asyncio.run(soak.run(flags.streams, flags.warm_up))
        wait_until_idle(server)
        before = {"files": server.open_files(), "memory": server.resident_mib()}
        soak.count.clear()
        asyncio.run(soak.run(flags.streams, flags.seconds))
        check_nothing_lost(server, soak, before, flags)
        soak.problems += server.problem_of_stop()
        soak.problems += [f"log: {line}" for line in server.log_lines("ThreadSanitizer", "AddressSanitizer", "runtime error")]
        if server.log_lines("ThreadSanitizer"):
            Path("soak-sanitizer.log").write_text(server.log.read_text(errors="replace"))
    for name, value in sorted(soak.count.items()):
        print(f"{name}: {value}")
    for problem in soak.problems[:20]:
        print(f"PROBLEM {problem}")
    print(f"{sum(soak.count.values())} requests by {flags.streams} clients, {len(soak.problems)} problems")
    return 1 if soak.problems else 0


if __name__ == "__main__":
    sys.exit(main())
