"""Well-behaved clients, one function per family of routes: each asks for something that only its own request answers.

An answer that is not the likely one counts as wrong only when the same request, asked again, is answered differently: the
demo model errs now and then, but always alike.
"""
import asyncio
import json
import string

from soak_http import Wrong, begins_with, same
from chaos_crowd import Refused

GREEDY = {"top_k": 1, "alpha_presence": 0, "alpha_frequency": 0}  # for the native routes
LONG = 150  # tokens of a stream that is ended early
ENDLESS = 60_000  # tokens of a stream that runs on however late its client comes to cancel it
WORDS = {"apple": "苹果", "water": "水", "heart": "心", "book": "书"}


def token_of(rng):
    return "".join(rng.choices(string.ascii_letters + string.digits, k=5))


def turn(text):
    return f"User: {text}\n\nAssistant:"


def repeat(token):
    return turn(f"Repeat: {token}")


async def stream_text(crowd, answer, limit=None, pause=0.0):
    """The text of the one row of a stream, of at most so many events."""
    if answer.status != 200:
        raise Wrong(f"status {answer.status}: {(await answer.bytes())[:300]!r}")
    text, number = "", 0
    async for event in answer.events():
        for choice in event["choices"]:
            text += choice.get("text") or (choice.get("delta") or {}).get("content") or ""
        number += 1
        if limit and number >= limit:
            break
        if pause:
            await asyncio.sleep(pause)
    return text


async def stream(crowd, path, body, limit=None, pause=0.0):
    answer = await crowd.answer_to("POST", path, {**body, "stream": True})
    try:
        return await asyncio.wait_for(stream_text(crowd, answer, limit, pause), crowd.patience)
    finally:
        answer.close()


async def judge(ask, likely, what):
    found = await ask()
    if found != likely and found != (again := await ask()):
        raise Wrong(f"{what}: {found!r}, then {again!r}; likely is {likely!r}")


async def completion(crowd, rng):
    token = token_of(rng)
    body = {"prompt": repeat(token), "temperature": 0, "max_tokens": 40, "stop": ["\n"]}
    path = crowd.one_of(rng, "/v1/completions", "/completions")
    if rng.random() < 0.5:
        return same((await stream(crowd, path, body)).strip(), token, "completion")
    answer = await crowd.call("POST", path, body)
    same(answer["choices"][0]["text"].strip(), token, "completion")


async def chat(crowd, rng):
    token = token_of(rng)
    body = {"messages": [{"role": "user", "content": f"Repeat: {token}"}], "temperature": 0, "max_tokens": 40}
    path = crowd.one_of(rng, "/v1/chat/completions", "/chat/completions", "/openai/v1/chat/completions")
    if rng.random() < 0.5:
        return same((await stream(crowd, path, body)).strip(), token, "chat")
    answer = await crowd.call("POST", path, {**body, "stream": False})
    same(answer["choices"][0]["message"]["content"].strip(), token, "chat")


async def native_batch(crowd, rng):
    tokens = [token_of(rng) for _ in range(rng.randint(2, 12))]
    path = crowd.one_of(rng, "/v1/chat/completions", "/v2/chat/completions", "/v1/batch/completions", "/v3/chat/completions")
    contents = [f"Repeat: {token}" if path.startswith("/v3") else repeat(token) for token in tokens]
    body = {"contents": contents, "max_tokens": 40, "stop": ["\n"], "chunk_size": rng.randint(1, 4), **GREEDY}
    if rng.random() < 0.5:
        answer = await crowd.call("POST", path, {**body, "stream": False})
        found = {choice["index"]: choice["message"]["content"] for choice in answer["choices"]}
    else:
        found = dict.fromkeys(range(len(tokens)), "")
        answer = await crowd.answer_to("POST", path, {**body, "stream": True})
        try:
            async for event in answer.events():
                for choice in event["choices"]:
                    found[choice["index"]] += choice["delta"].get("content") or ""
        finally:
            answer.close()
    same([found[i].lstrip(" >\n").rstrip() for i in sorted(found)], tokens, path)


async def big_batch(crowd, rng):
    """Sampled with noise: only the shape and the number of rows are known."""
    rows = rng.randint(1, 16)
    answer = await crowd.answer_to("POST", "/big_batch/completions", {
        "contents": [repeat(token_of(rng))] * rows, "max_tokens": 12, "temperature": 1, "noise": 0})
    seen = set()
    try:
        same(answer.status, 200, "status")
        async for event in answer.events():
            seen.update(choice["index"] for choice in event["choices"])
    finally:
        answer.close()
    if not seen <= set(range(rows)):
        raise Wrong(f"big_batch: rows {sorted(seen)} of {rows}")


async def infill(crowd, rng):
    first, count = rng.randint(1, 90), rng.randint(1, 3)
    numbers = [str(first + i) for i in range(count + 5)]
    body = {"prefix": [", ".join(numbers[:3]) + ","], "suffix": [", " + ", ".join(numbers[3 + count:])],
            "max_tokens": 24, "stream": False, **GREEDY}
    path = crowd.one_of(rng, "/FIM/v1/batch-FIM", "/v1/advanced/fim")

    async def ask():
        return (await crowd.call("POST", path, body))["choices"][0]["message"]["content"].strip()
    await judge(ask, ", ".join(numbers[3:3 + count]), "infill")


async def translate(crowd, rng):
    words = rng.sample(list(WORDS), k=rng.randint(1, len(WORDS)))
    path = crowd.one_of(rng, "/translate/v1/batch-translate", "/v1/advanced/translate")

    async def ask():
        answer = await crowd.call("POST", path, {"source_lang": "en", "target_lang": "zh-CN", "text_list": words})
        return [entry["text"] for entry in answer["translations"]]
    await judge(ask, [WORDS[word] for word in words], "translation")


async def embeddings(crowd, rng):
    """Two texts and the first once more: vectors of length 1, alike where the texts are."""
    texts = [token_of(rng), token_of(rng)]
    answer = await crowd.call("POST", "/v1/embeddings", {"input": [*texts, texts[0]]})
    first, second, again = (entry["embedding"] for entry in answer["data"])
    length = sum(x * x for x in first)
    distance = max(abs(x - y) for x, y in zip(first, again))
    if abs(length - 1) > 1e-3 or distance > 1e-3 or first == second:
        raise Wrong(f"embeddings: length {length}, the same text {distance} apart, another text the same: {first == second}")


async def structured(crowd, rng):
    """A schema that only one answer fits."""
    token = token_of(rng)
    schema = {"type": "object", "properties": {"id": {"const": token}, "n": {"enum": [rng.randint(0, 999)]}},
              "required": ["id", "n"], "additionalProperties": False}
    answer = await crowd.call("POST", "/v1/chat/completions", {
        "messages": [{"role": "user", "content": "Give Ada, 36 as JSON"}], "max_tokens": 80, "temperature": 0,
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}})
    same(json.loads(answer["choices"][0]["message"]["content"])["id"], token, "structured answer")


async def tools(crowd, rng):
    token = token_of(rng)
    parameters = {"type": "object", "properties": {"text": {"const": token}}, "required": ["text"],
                  "additionalProperties": False}
    function = {"name": "note", "strict": True, "parameters": parameters}
    answer = await crowd.call("POST", "/v1/chat/completions", {
        "messages": [{"role": "user", "content": "hello"}], "max_tokens": 120, "temperature": 0,
        "tools": [{"type": "function", "function": function}], "tool_choice": "required"})
    (call,) = answer["choices"][0]["message"]["tool_calls"][:1]
    same(json.loads(call["function"]["arguments"]), {"text": token}, "arguments of a call")


async def responses(crowd, rng):
    """A number told in one response is known to the next and to a branch; deleted, it is gone."""
    number = rng.randint(100, 999)
    path, more = "/v1/responses", {"model": "fulmar-demo", "max_output_tokens": 12, "temperature": 0}
    told = await crowd.call("POST", path, {"input": f"Remember {number}.", **more})

    async def ask():
        answer = await crowd.call("POST", path, {"input": "Which number?", "previous_response_id": told["id"], **more})
        await crowd.call("DELETE", f"{path}/{answer['id']}")
        return "".join(part["text"] for item in answer["output"] for part in item.get("content", [])).strip()
    await judge(ask, str(number), "response")
    same((await crowd.call("GET", f"{path}/{told['id']}"))["id"], told["id"], "a stored response")
    await crowd.call("DELETE", f"{path}/{told['id']}")
    await crowd.call("GET", f"{path}/{told['id']}", wanted=404)


async def branches(crowd, rng):
    """Two branches of one tree, each with a number of its own."""
    name = f"tree-{token_of(rng)}"
    numbers = [rng.randint(100, 999), rng.randint(100, 999)]

    async def step(node, text):
        answer = await crowd.call("POST", "/multi_state/chat/completions", {
            "session_id": name, "dialogue_idx": node, "contents": [turn(text)], "temperature": 0, "max_tokens": 16,
            "stop_tokens": [0]})
        return answer["dialogue_idx"], answer["choices"][0]["message"]["content"].strip()
    nodes = [(await step(0, f"Remember {number}."))[0] for number in numbers]
    for node, number in zip(nodes, numbers):
        async def ask():
            return (await step(node, "Which number?"))[1]
        await judge(ask, str(number), f"branch {node}")
    await crowd.call("POST", "/state/delete", {"session_id": name, "delete_prefix": True})


async def text_routes(crowd, rng):
    text = token_of(rng) + "é水\n\nUser"
    ids = (await crowd.call("POST", "/tokenize", {"content": text}))["tokens"]
    same((await crowd.call("POST", "/detokenize", {"tokens": ids}))["content"], text, "text from its tokens")
    await crowd.call("POST", "/v1/tokens/count", {"text": text})


async def status_pages(crowd, rng):
    path = crowd.one_of(rng, "/metrics", "/slots", "/props", "/v1/stats", "/v1/queue/status", "/v1/server/status", "/v1/models",
                       "/models", "/v1/models/fulmar-demo", "/v1/sessions", "/healthz", "/v1/state/list")
    await crowd.call("GET", path)


async def leave(crowd, rng):
    """Reads a part of a stream and goes."""
    token = token_of(rng)
    text = await stream(crowd, "/v1/completions", {"prompt": repeat(token), "temperature": 0, "ignore_eos": True,
                                                   "max_tokens": LONG}, limit=rng.randint(1, 30))
    begins_with(text, token)


async def leave_at_once(crowd, rng):
    """Half a request, a whole one nobody waits for, or a connection that says nothing."""
    body = {"prompt": repeat(token_of(rng)), "temperature": 0, "ignore_eos": True, "max_tokens": LONG, "stream": True}
    await crowd.send_and_leave("POST", "/v1/completions", body, rng.random(), rng.uniform(0, 0.3),
                               reset=rng.random() < 0.5)


async def read_slowly(crowd, rng):
    token = token_of(rng)
    body = {"prompt": repeat(token), "temperature": 0, "max_tokens": 40, "stop": ["\n"]}
    same((await stream(crowd, "/v1/completions", body, pause=0.1)).strip(), token, "slow reader")


async def cancel(crowd, rng):
    token = token_of(rng)
    answer = await crowd.answer_to("POST", "/v1/completions", {
        "prompt": repeat(token), "temperature": 0, "ignore_eos": True, "max_tokens": ENDLESS, "stream": True})
    text, number, at, choice = "", 0, rng.randint(1, 20), {}
    try:
        same(answer.status, 200, "status")
        async for event in answer.events():  # goes on to [DONE]
            choice = event["choices"][0]
            text += choice["text"]
            number += 1
            if number == at:
                await crowd.call("DELETE", f"/v1/requests/{answer.headers['x-request-id']}")
    finally:
        answer.close()
    begins_with(text, token)
    same(choice.get("stop_reason"), "cancelled", f"the reason for which a cancelled stream ended after {number} events")


async def pause_and_resume(crowd, rng):
    token = token_of(rng)
    answer = await crowd.answer_to("POST", "/v1/completions", {
        "prompt": repeat(token), "temperature": 0, "ignore_eos": True, "max_tokens": LONG, "stream": True})
    text, paused = "", None
    try:
        same(answer.status, 200, "status")
        request = answer.headers["x-request-id"]
        async for event in answer.events():
            text += event["choices"][0]["text"]
            if paused is None:
                paused = (await crowd.call("POST", "/v1/server/pause", {"request_id": request}))["paused"]
    finally:
        answer.close()
    begins_with(text, token)
    while paused:
        try:
            other = await crowd.answer_to("POST", "/v1/server/resume", {"request_id": request})
        except Refused:  # no slot is free
            await asyncio.sleep(0.1)
            continue
        try:
            if other.status == 404:  # its engine has gone
                crowd.count["paused and gone"] += 1
            else:
                begins_with(text + await stream_text(crowd, other), token)
        finally:
            other.close()
        break


KINDS = {completion: 20, chat: 14, native_batch: 10, big_batch: 3, infill: 6, translate: 5, embeddings: 4, structured: 6,
         tools: 4, responses: 5, branches: 4, text_routes: 3, status_pages: 4, leave: 7, leave_at_once: 6, read_slowly: 4,
         cancel: 5, pause_and_resume: 4}


async def visitor(crowd, rng, visits, without=()):
    """One client's visits, each of a kind of its own."""
    kinds = {kind: weight for kind, weight in KINDS.items() if kind not in without}
    for _ in range(visits):
        if crowd.over:
            return
        (kind,) = rng.choices(list(kinds), kinds.values())
        await crowd.client(kind(crowd, rng))
