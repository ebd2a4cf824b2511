#!/usr/bin/env python3
"""What the prefix cache saves, and that it changes nothing: prefix_test.py PROGRAM MODEL [--chats N] [--requests N] ...

Chats that share a prompt of 600 tokens and differ in their last words feed at most 40 tokens each after the first; a
system prompt of 4,000 tokens is computed once, also when all its requests come together; answers with the cache, in
sessions and in every mixture of requests equal those of a server that runs one request at a time without a cache.
"""
import argparse
import concurrent.futures
import random
import sys
import tempfile
from pathlib import Path

from soak_server import Connection, Server

WORDS = "the harbour was quiet and seven gulls sat on a rope over the stone pier while rain fell on paper boats".split()
PROMPT_TOKENS, SYSTEM_TOKENS, MOST_FED = 600, 4000, 40
CLIENTS = 24


def prose(tokens, seed):
    """A byte is a token of the demo model."""
    chosen, text = random.Random(seed), ""
    while len(text) < tokens:
        text += chosen.choice(WORDS) + " "
    return text[:tokens - 1] + "."


def in_parallel(server, jobs, clients=CLIENTS):
    """[(path, body)] to answers, in order."""
    free = [Connection(server) for _ in range(clients)]

    def run(job):
        connection = free.pop()
        try:
            status, answer = connection.post(*job)
            assert status == 200, (status, answer)
            return answer
        finally:
            free.append(connection)

    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        answers = list(pool.map(run, jobs))
    for connection in free:
        connection.close()
    return answers


def chat(system, text, **more):
    messages = [{"role": "system", "content": system}] if system else []
    return "/v1/chat/completions", {"messages": messages + [{"role": "user", "content": text}], "temperature": 0,
                                    "max_tokens": 12, **more}


def fed(answer):
    usage = answer["usage"]
    return usage["prompt_tokens"] - usage.get("prompt_tokens_details", {}).get("cached_tokens", 0)


def check_last_words(server, chats):
    shared = prose(PROMPT_TOKENS, 1)
    jobs = [("/v1/completions", {"prompt": f"User: {shared} Repeat: {i:04d}\n\nAssistant:", "temperature": 0, "max_tokens": 4})
            for i in range(chats)]
    answers = in_parallel(server, jobs)
    counts = sorted(fed(answer) for answer in answers)
    length = answers[0]["usage"]["prompt_tokens"]
    print(f"{chats} chats of {length} tokens: fed {counts[-1]} by the first, then {counts[0]} to {counts[-2]}")
    return [] if counts[-2] <= MOST_FED else [f"a chat fed {counts[-2]} tokens; wanted at most {MOST_FED}"]


def check_system_prompt(server, requests):
    system = prose(SYSTEM_TOKENS, 2)
    before = server.metrics()["fulmar_prompt_tokens_total"]
    answers = in_parallel(server, [chat(system, f"Repeat: {i:04d}") for i in range(requests)], clients=64)
    total = server.metrics()["fulmar_prompt_tokens_total"] - before
    counts = sorted(fed(answer) for answer in answers)
    print(f"{requests} requests with {SYSTEM_TOKENS} tokens of system prompt: {total:.0f} tokens fed, "
          f"{counts[-1]} by the first, then {counts[0]} to {counts[-2]}")
    problems = []
    if counts[-2] > MOST_FED:
        problems.append(f"a request fed {counts[-2]} tokens of a shared system prompt; wanted at most {MOST_FED}")
    if total != sum(counts):
        problems.append(f"the server fed {total} prompt tokens; its answers say {sum(counts)}")
    return problems


def conversation(seed):
    """Turns whose answers depend on what came before."""
    chosen = random.Random(seed)
    number, name = chosen.randint(100, 999), chosen.choice(["Ada", "Bob", "Emma", "Tom"])
    turns = [f"My name is {name}.", f"Remember {number}.", "Reverse stone", "Which number?", "What is my name?"]
    return turns[:chosen.randint(2, len(turns))]


def mixture(count):
    """Requests of every kind; many share beginnings of different lengths."""
    beginnings = [prose(tokens, tokens) + " " for tokens in (0, 40, 300, 1100, 1500)]
    jobs = []
    for i in range(count):
        chosen = random.Random(i)
        system = chosen.choice(beginnings).strip()[1:]
        text = chosen.choice([f"Repeat: {i:04d}", f"{i} + {i + 7}", "Count from 1 to 9", "Reverse lantern", "Say hello"])
        jobs.append(chat(system, text, max_tokens=chosen.randint(1, 40)))
    return jobs


def texts_of(answers):
    return [answer["choices"][0]["message"]["content"] for answer in answers]


def run_session(server, number, seed):
    connection, said, turns = Connection(server), [], conversation(seed)
    for text in turns:
        status, answer = connection.post("/state/chat/completions", {
            "session_id": f"session-{number}", "contents": [f"User: {text}\n\nAssistant:"], "stop_tokens": [0], "top_k": 1,
            "alpha_presence": 0, "alpha_frequency": 0, "max_tokens": 24})
        assert status == 200, answer
        said.append(answer["choices"][0]["message"]["content"])
    connection.close()
    return said


def prompt_of_session(turns, said):
    """The last turn of a session as one prompt."""
    text = ""
    for turn, answer in zip(turns, said + [""]):
        text += f"User: {turn}\n\nAssistant:{answer}\n\n"
    return text.removesuffix("\n\n")


def check_equal(server, fresh, count):
    jobs = mixture(count)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:  # sessions beside everything else
        sessions = [pool.submit(run_session, server, i, i) for i in range(count // 4)]
        found = [texts_of(in_parallel(server, jobs)), texts_of(in_parallel(server, list(reversed(jobs))))[::-1]]
        said = [session.result() for session in sessions]
    alone = [(path, {**body, "use_prefix_cache": False}) for path, body in jobs]
    wanted = texts_of(in_parallel(fresh, alone, clients=1))
    problems = [f"{job[1]['messages'][-1]}: {text!r}; a fresh run says {want!r}"
                for texts in found for job, text, want in zip(jobs, texts, wanted) if text != want]
    prompts = [prompt_of_session(conversation(i), answers[:-1]) for i, answers in enumerate(said)]
    whole = in_parallel(fresh, [("/v1/completions", {"prompt": prompt, "temperature": 0, "max_tokens": 24,
                                                     "use_prefix_cache": False}) for prompt in prompts], clients=1)
    problems += [f"session {i}: {answers[-1]!r}; one prompt says {answer['choices'][0]['text']!r}"
                 for i, (answers, answer) in enumerate(zip(said, whole)) if answers[-1] != answer["choices"][0]["text"]]
    print(f"{2 * len(jobs)} requests and {len(said)} sessions compared with fresh runs: {len(problems)} differ")
    return problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--chats", type=int, default=1000)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--mixture", type=int, default=200)
    flags = parser.parse_args()
    program, model, problems = str(Path(flags.program).resolve()), str(Path(flags.model).resolve()), []
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
        server = Server(program, model, folder, "--state-db-path", "none", "--slots", "32").start()
        fresh = Server(program, model, other, "--state-db-path", f"{other}/s.db", "--slots", "1", "--cache-device", "0",
                       "--cache-host", "0").start()
        problems += check_last_words(server, flags.chats)
        problems += check_system_prompt(server, flags.requests)
        problems += check_equal(server, fresh, flags.mixture)
        for each in (server, fresh):
            problems += each.problem_of_stop()
    for problem in problems[:20]:
        print(f"PROBLEM {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
