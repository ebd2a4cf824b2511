"""Hostile clients: requests made to cost much or to break something. Whatever they are, they are answered in time, nobody
else waits for them, and nothing of them is left behind."""
import asyncio
import json
import time

from chaos_clients import LONG, repeat, stream, token_of
from soak_http import Answer, Peer, Wrong, begins_with, head_of, same

LONG_PROMPT = 20_000  # bytes
MIB = 1 << 20


async def answered(crowd, path, body, method="POST", least=200, most=503, headers=()):
    """Any answer of a status in these bounds."""
    answer = await crowd.answer_to(method, path, body, headers)
    try:
        content = await asyncio.wait_for(answer.bytes(), crowd.patience)
    finally:
        answer.close()
    if not least <= answer.status <= most or answer.status == 500:
        raise Wrong(f"{method} {path} {str(body)[:120]}: HTTP {answer.status} {content[:300]!r}")


def format_body(schema):
    return {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 4, "temperature": 0,
            "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}}


def tool_body(schema):
    return {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 4, "temperature": 0, "tool_choice": "required",
            "tools": [{"type": "function", "function": {"name": "f", "parameters": schema}}]}


def deep_references(rng):
    depth = rng.choice([100, 5000, 20000])
    defs = {f"d{i}": {"items": {"$ref": f"#/$defs/d{i + 1}"}} for i in range(depth)}
    return {"$defs": {**defs, f"d{depth}": {"type": "integer"}}, "$ref": "#/$defs/d0"}


def wide_alternatives(rng):
    """Two alternatives whose members refer to themselves: pairs of pairs of pairs."""
    names = [f"p{i}" for i in range(rng.choice([4, 10, 16]))]
    member = {"type": "object", "required": names, "properties": {name: {"$ref": "#/$defs/a"} for name in names}}
    return {"$defs": {"a": member, "b": {**member, "title": "b"}},
            "oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}]}


def many_strings(rng):
    texts = [f"{i:x}{'y' * rng.randrange(8)}" for i in range(rng.choice([300, 3000, 30000]))]
    return {"enum": texts} if rng.random() < 0.5 else {"anyOf": [{"const": text} for text in texts]}


def many_required(rng):
    names = [f"n{i}" for i in range(rng.choice([200, 5000]))]
    return {"type": "object", "required": names, "properties": {name: {"type": "null"} for name in names}}


def hard_pattern(rng):
    return {"type": "string", "pattern": rng.choice([
        "^(a+)+$", "(a|aa){1,2000}", "^" + "(" * 2000 + "a" + ")" * 2000 + "$", "((a{1,100}){1,100}){1,100}",
        "[" + "a-z" * 5000 + "]{0,500}"])}


def large_counts(rng):
    return {"type": "array", "minItems": rng.choice([0, 10**6]), "maxItems": rng.choice([10**6, 10**12, 2**63 - 1]),
            "items": {"type": "string", "minLength": 10**6, "maxLength": 10**9}}


def deep_nesting(rng):
    schema = {"type": "integer"}
    for _ in range(rng.choice([60, 400])):
        schema = {"type": "array", "items": schema} if rng.random() < 0.5 else {"properties": {"x": schema}}
    return schema


SCHEMAS = [deep_references, wide_alternatives, many_strings, many_required, hard_pattern, large_counts, deep_nesting]


async def hostile_schema(crowd, rng):
    body = rng.choice([format_body, tool_body])(rng.choice(SCHEMAS)(rng))
    if "tools" in body and len(json.dumps(body)) > LONG_PROMPT:  # tools are part of the prompt, which then takes minutes
        return await crowd.send_and_leave("POST", "/v1/chat/completions", {**body, "stream": True}, 1, rng.uniform(0.5, 2))
    await answered(crowd, "/v1/chat/completions", body)


async def huge_stop(crowd, rng):
    stop = rng.choice([["x" * (40 * MIB)], [f"{i}{'z' * 40}" for i in range(20000)], ["\n" * 100000 + "x"]])
    await answered(crowd, "/v1/completions", {"prompt": repeat("abc"), "stop": stop, "max_tokens": 8, "temperature": 0})


async def huge_names(crowd, rng):
    """Names come back in every chunk, or become keys of what is kept."""
    name = rng.choice(["n" * 3 * MIB, "n" * 5000, "a\nFORGED line", "\x1b[31mred", "é" * 2000, "../../etc/passwd"])
    body = {"prompt": repeat("abc"), "max_tokens": 8, "temperature": 0, "stream": rng.random() < 0.5}
    field = rng.choice(["model", "session_id", "state_id", "user"])
    if field == "session_id":
        body = {"session_id": name, "contents": [repeat("abc")], "max_tokens": 8, "stream": False}
        await answered(crowd, "/state/chat/completions", body)
        return await answered(crowd, "/state/delete", {"session_id": name})
    await answered(crowd, "/v1/completions", {**body, field: name})


async def huge_body(crowd, rng):
    size = rng.choice([4, 30, 60]) * MIB
    path = rng.choice(["/v1/completions", "/v1/chat/completions", "/v1/responses", "/tokenize", "/v2/chat/completions"])
    body = rng.choice([
        lambda: b'{"prompt":[' + b"-1," * (size // 3) + b"0]}", lambda: b"[" * size, lambda: b'{"a":' * (size // 5),
        lambda: b'{"prompt":5,"x":"' + b"y" * size + b'"}', lambda: b'{"x":[' + b'"",' * (size // 3) + b'""]}'])()
    await answered(crowd, path, body, least=400)  # refused: as many ids of tokens would be a prompt that takes minutes


async def many_rows(crowd, rng):
    """A queue full of rows, left after a moment."""
    rows = rng.choice([200, 2000, 4096])
    await crowd.send_and_leave("POST", "/v2/chat/completions", {
        "contents": [repeat(token_of(rng))] * rows, "max_tokens": 50, "stream": True}, 1, rng.uniform(0.2, 1.5))


async def long_prompt(crowd, rng):
    """A prompt that takes minutes, left after a moment."""
    await crowd.send_and_leave("POST", "/v1/completions", {
        "prompt": "abcdefgh" * rng.choice([2000, 250000]), "max_tokens": 1, "stream": True}, 1, rng.uniform(0.5, 2))


async def odd_numbers(crowd, rng):
    odd = [-1, 0, 1e308, -1e308, 2**63, 1e-320, "x", [], {}, True, "1e5", None]
    fields = ["max_tokens", "temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty",
              "penalty_decay", "seed", "chunk_size", "n", "best_of", "logprobs", "logit_bias", "stop_tokens", "echo"]
    body = {"prompt": repeat("abc"), "max_tokens": 4, **{field: rng.choice(odd) for field in rng.sample(fields, k=3)}}
    if body["max_tokens"] not in (4, 1):
        body["max_tokens"] = rng.choice([-1, "x", 2])
    await answered(crowd, "/v1/completions", {**body, "stream": False})


async def stored_fields(crowd, rng):
    """Large fields of responses, which are kept with them."""
    await answered(crowd, "/v1/responses", {
        "input": "hello", "max_output_tokens": 2, "instructions": "", "user": "u" * MIB,
        "metadata": {f"k{i}": "v" * (MIB // 4) for i in range(rng.choice([4, 40]))}})


async def bad_states(crowd, rng):
    """Files that are no states, for both doors."""
    junk = rng.choice([b"", b"FULMARST", b"FULMARST" + bytes([1, 0, 0, 0, 255, 255, 255, 127]), rng.randbytes(50000),
                       b"PK\x03\x04" + rng.randbytes(5000), b"\x10\0\0\0\0\0\0\0{\"a\":{\"dtype\":1}}"])
    await answered(crowd, f"/v1/sessions/{token_of(rng)}/state", junk, "PUT", least=400)
    form = (b'--XX\r\nContent-Disposition: form-data; name="file"; filename="' + token_of(rng).encode() + b'.pth"\r\n\r\n'
            + junk + b"\r\n--XX--\r\n")
    await answered(crowd, "/v1/state/upload", form, least=400, headers=["Content-Type: multipart/form-data; boundary=XX"])


async def raw_bytes(crowd, rng):
    """What is not HTTP, or two kinds of it: one answer or none, and the connection is closed."""
    data = rng.choice([
        rng.randbytes(rng.randint(1, 3000)) + b"\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
        b"GET " + b"a" * 100000 + b" HTTP/1.1\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % i for i in range(5000)) + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: \x00\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n"])
    crowd.tally.unsure["/"] += 1
    crowd.tally.unsure["/v1/completions"] += 1
    peer = await Peer.open(crowd.port)
    try:
        await peer.send(data)
        peer.writer.write_eof()
        await asyncio.wait_for(peer.reader.read(), crowd.patience)
    except OSError:
        pass
    finally:
        peer.close()


async def half_open(crowd, rng):
    """Connections that stop in the middle of a head or a large body, and stay for a while."""
    head = head_of("POST", "/v1/completions", 60 * MIB)
    peers = []
    try:
        for _ in range(rng.randint(2, 20)):
            peer = await Peer.open(crowd.port)
            peers.append(peer)
            crowd.tally.unsure["/v1/completions"] += 1
            await peer.send(rng.choice([head[:30], head, head + b'{"prompt":"' + b"x" * rng.choice([10, MIB])]))
        await asyncio.sleep(rng.uniform(0.5, 2))
    finally:
        for peer in peers:
            peer.close()


async def pipeline(crowd, rng):
    """Many requests in one breath; the answers come in their order, or the client has gone before."""
    texts, count = [token_of(rng) for _ in range(rng.randint(5, 40))], 0
    peer = await Peer.open(crowd.port)
    try:
        data = b""
        for text in texts:
            body = json.dumps({"content": text}).encode()
            data += head_of("POST", "/tokenize", len(body), keep=True) + body
        crowd.tally.unsure["/tokenize"] += len(texts)
        await peer.send(data)
        for text in texts[:rng.randint(1, len(texts))]:
            answer = await asyncio.wait_for(Answer.read_from(peer), crowd.patience)
            same(len((await answer.json())["tokens"]), len(text), "tokens of a pipelined request")
            count += 1
            crowd.tally.unsure["/tokenize"] -= 1
            crowd.tally.head("/tokenize", answer.status)
    finally:
        peer.close()


async def never_read(crowd, rng):
    """A long stream whose client takes nothing for a while: it holds up nobody."""
    token = token_of(rng)
    answer = await crowd.answer_to("POST", "/v1/completions", {
        "prompt": repeat(token), "ignore_eos": True, "max_tokens": 3000, "temperature": 0, "stream": True})
    answer.peer.writer.transport.pause_reading()
    await asyncio.sleep(rng.uniform(1, 3))
    answer.close()


async def forgotten_pause(crowd, rng):
    """A stream that is paused and never resumed; most of them are cancelled, since only so many can be paused."""
    answer = await crowd.answer_to("POST", "/v1/completions", {
        "prompt": repeat(token_of(rng)), "ignore_eos": True, "max_tokens": LONG, "temperature": 0, "stream": True})
    try:
        async for _ in answer.events():
            request = answer.headers["x-request-id"]
            await crowd.call("POST", "/v1/server/pause", {"request_id": request})
            if rng.random() < 0.9:
                await crowd.call("DELETE", f"/v1/requests/{request}", wanted=None)
            break
    finally:
        answer.close()


def odd_request(rng, name):
    """Method, path and body."""
    file = rng.choice(["/etc/passwd", "/dev/zero", "/proc/self/mem", "x" * 5000])
    output = {"type": "function_call_output", "call_id": "x", "output": []}
    return rng.choice([
        ("POST", "/multi_state/chat/completions",
         {"session_id": name, "dialogue_idx": rng.choice([-1, 2**40, "x", 1.5]), "contents": ["x"]}),
        ("POST", "/v1/chat/completions", {"model": "fulmar-demo nobody", "messages": [], "mrss_gatingweight": [1e308, -1]}),
        ("POST", "/mrss_set_gatingweight", {"state_viewname": name, "state_gatingweight": ["nan"]}),
        ("POST", "/v1/responses", {"input": [{"role": "user"}, output]}),
        ("POST", "/v1/responses", {"input": "x", "previous_response_id": "resp_" + "0" * 5000}),
        ("POST", "/v1/embeddings", {"input": [[1, 2], [10**9]], "dimensions": 10**9}),
        ("POST", "/detokenize", {"tokens": [-1, 2**62, 319]}), ("POST", "/v1/server/pause", {"request_id": name}),
        ("POST", "/v1/server/resume", {"request_id": name}), ("DELETE", f"/v1/requests/{name}", {}),
        ("POST", f"/v1/sessions/{name}/fork", {"session_id": name}), ("DELETE", f"/v1/sessions/{name}", {}),
        ("POST", "/state/delete", {"session_id": "", "delete_prefix": True}),
        ("POST", "/loadmodel", {"model_filename": file, "model_viewname": name}),
        ("POST", "/loadstatemodel", {"state_filename": "/dev/urandom", "state_viewname": name}),
        ("POST", "/v1/completions", {"prompt": "x", "n": 10**6, "best_of": 10**6, "max_tokens": 1}),
        ("POST", "/translate/v1/batch-translate",
         {"source_lang": "", "target_lang": "xx\n\nUser", "text_list": ["", " ", "x"]})])


async def odd_uses(crowd, rng):
    """Requests that are well-formed and mean nothing, for routes with rules of their own."""
    method, path, body = odd_request(rng, f"odd.{token_of(rng)}")
    answer = await crowd.answer_to(method, path, body)
    try:
        content = await asyncio.wait_for(answer.bytes(), crowd.patience)
    finally:
        answer.close()
    if answer.status >= 500 and not path.startswith("/load"):  # those answer 500 as the servers that they come from do
        raise Wrong(f"{method} {path} {str(body)[:120]}: HTTP {answer.status} {content[:300]!r}")
    if b"root:" in content:
        raise Wrong(f"{path}: an error shows what is in a file: {content[:300]!r}")


ATTACKS = [hostile_schema, huge_stop, huge_names, huge_body, many_rows, long_prompt, odd_numbers, stored_fields, bad_states,
           raw_bytes, half_open, pipeline, never_read, forgotten_pause, odd_uses]


async def attacker(crowd, rng, kinds):
    for kind in kinds:
        if not crowd.over:
            await crowd.client(kind(crowd, rng))


async def pulse(crowd, rng, until_done):
    """Short requests one after the other while something else happens: each is served in a quarter of the patience."""
    while not until_done.is_set() and not crowd.over:
        begin, token = time.monotonic(), token_of(rng)

        async def short():
            text = await stream(crowd, "/v1/completions", {"prompt": repeat(token), "temperature": 0, "max_tokens": 12,
                                                           "stop": ["\n"]})
            begins_with(text, token)
        await crowd.client(short())
        waited = time.monotonic() - begin
        if waited > crowd.patience / 4 and not crowd.over:
            crowd.violations.add(f"a short answer took {waited:.1f} s beside hostile clients; wanted {crowd.patience / 4}")
        crowd.count["slowest short answer in ms"] = max(crowd.count["slowest short answer in ms"], round(waited * 1000))
        await asyncio.sleep(0.2)
