#!/usr/bin/env python3
"""The 25 conformance cases of the HTTP contract against the program itself, with the demo model.

usage: conformance.py FULMAR MODELS [CASE...]

Texts are never compared with fixed ones: a case says how two requests relate, or what shape an answer has.
"""
import concurrent.futures
import json
import random
import re
import sys
import tempfile
import time

from program_rig import MODEL, MODELS, OpenStream, Program, equal, joined, wait_for

STATE = "fulmar-demo-pirate.state.pth"
PLAIN = {"top_k": 1, "alpha_presence": 0, "alpha_frequency": 0}  # greedy, nothing subtracted
CASES = {}


def case(number):
    def add(body):
        CASES[number] = body
        return body
    return add


def tokens_of(server, prompt, count):
    """The texts of the tokens that a greedy run draws."""
    answer = server.post("/v1/completions", prompt=prompt, temperature=0, max_tokens=count, logprobs=0, ignore_eos=True)
    return answer["choices"][0]["logprobs"]["tokens"]


def turn(text):
    return f"User: {text}\n\nAssistant:"


def session(server, name, prompt, **more):
    body = {"session_id": name, "contents": [prompt], "max_tokens": 24, "stop_tokens": [0], **PLAIN, **more}
    return server.text("/state/chat/completions", **body)


def session_tokens(server, name):
    listed = {entry["id"]: entry["tokens"] for entry in server.get("/v1/sessions").json()["data"]}
    return listed.get(name)


CHAT = "/v1/chat/completions"
USER = [{"role": "user", "content": "What is 12 + 30?"}]


@case(1)
def native_batch(server):
    body = {"contents": ["A", "B"], "max_tokens": 8, "stream": False, "stop_tokens": [0, 261, 24281]}
    answer = server.post(CHAT, **body)
    equal((answer["id"], answer["object"]), ("rwkv7-batch", "chat.completion"))
    equal([choice["index"] for choice in answer["choices"]], [0, 1])
    for choice in answer["choices"]:
        assert isinstance(choice["message"]["content"], str) and choice["finish_reason"] in ("stop", "length")
    drawn = tokens_of(server, "A", 8)
    place, ids = next((i, ids) for i, text in enumerate(drawn) if i > 0
                      and len(ids := server.post("/tokenize", content=text)["tokens"]) == 1)
    cut = server.post(CHAT, contents=["A"], max_tokens=8, stop_tokens=ids, **PLAIN)["choices"][0]
    equal((cut["finish_reason"], cut["stop_reason"]), ("stop", ids[0]))
    first = drawn.index(drawn[place])
    equal(cut["message"]["content"], "".join(drawn[:first]), "text before the stop id")


@case(2)
def native_stream(server):
    body = {"contents": ["A", "B"], "max_tokens": 8, "stop_tokens": [0, 261, 24281], "top_k": 1}
    whole = server.texts(CHAT, **body, stream=False)
    texts, reasons = joined(server.events(CHAT, **body, stream=True, chunk_size=3))
    equal(sorted(reasons), [0, 1])
    equal([texts[0], texts[1]], whole)


@case(3)
def chat(server):
    answer = server.post(CHAT, messages=[{"role": "user", "content": "hi"}], max_tokens=32)
    content = answer["choices"][0]["message"]["content"]
    assert answer["id"].startswith("chatcmpl-") and answer["usage"]["completion_tokens"] > 0
    assert content == content.lstrip() and "</think" not in content, content
    equal(answer["choices"][0]["message"]["role"], "assistant")


def openai_error(server, body):
    answer = server.ask(CHAT, body)
    equal(answer.status, 400)
    return answer.json()["error"]


@case(4)
def two_inputs(server):
    error = openai_error(server, {"messages": USER, "contents": ["x"]})
    equal((error["code"], error["param"]), ("ambiguous_input", "contents"))


@case(5)
def no_input(server):
    equal(openai_error(server, {})["code"], "missing_input")
    equal(openai_error(server, {"contents": []}), "Empty prompts list")
    equal(len(server.texts(CHAT, messages=[], contents=["x"], max_tokens=2)), 1)


@case(6)
def either_path(server):
    equal(server.post(CHAT, prompt="x", max_tokens=2)["object"], "text_completion")
    equal(server.post("/v1/completions", messages=USER, max_tokens=2)["object"], "chat.completion")


@case(7)
def password(_):
    with tempfile.TemporaryDirectory() as folder, Program(folder, "--password", "p", "--state-db-path", "none") as server:
        body = {"contents": ["x"], "max_tokens": 1}
        equal(server.ask(CHAT, {**body, "password": "p"}).status, 200)
        equal(server.ask(CHAT, body, {"Authorization": "Bearer p"}).status, 200)
        refused = server.ask(CHAT, body)
        equal((refused.status, refused.body), (401, b'{"error":"Unauthorized: invalid or missing password"}'))
        texts = {"target_lang": "en", "text_list": ["x"]}
        equal(server.ask("/translate/v1/batch-translate", texts).status, 401)
        equal(server.ask("/translate/v1/batch-translate?key=p", texts).status, 200)


@case(8)
def ignored_header(server):
    answer = server.ask("/v1/completions", {"prompt": "x", "max_tokens": 1}, {"Authorization": "Bearer None"})
    equal(answer.status, 200)


@case(9)
def padding(server):
    body = {"contents": ["x"], "temperature": 0, "max_tokens": 4}
    first = server.texts("/v2/chat/completions", **body)
    equal(server.texts("/v2/chat/completions", **body), first)
    equal(server.texts("/v2/chat/completions", **body, pad_zero=True), first)


@case(10)
def v3_thinks(server):
    body = {"top_k": 1, "max_tokens": 16}
    answer = server.post("/v3/chat/completions", messages=[{"role": "user", "content": "Q"}], enable_think=True, **body)
    equal(answer["id"], "rwkv7-batch-v3")
    text = answer["choices"][0]["message"]["content"]
    assert not text.startswith("<think")
    equal(text, server.text(CHAT, contents=["User: Q\n\nAssistant: <think"], **body))


@case(11)
def infill(server):
    answer = server.post("/FIM/v1/batch-FIM", prefix=["a"], suffix=["b"], top_k=1, max_tokens=16, stop_tokens=[0])
    equal(answer["object"], "FIM.completion")
    raw = "\u273Fprefix\u273F\u273Fsuffix\u273Fb\u273Fmiddle\u273Fa"
    equal([answer["choices"][0]["message"]["content"]],
          server.texts(CHAT, contents=[raw], top_k=1, max_tokens=16, stop_tokens=[0]))
    equal(server.ask("/FIM/v1/batch-FIM", {"prefix": ["a", "b"], "suffix": ["c"]}).status, 400)


@case(12)
def translation(server):
    body = {"source_lang": "en", "target_lang": "zh-CN", "text_list": ["apple", "Good morning."]}
    first = server.post("/translate/v1/batch-translate", **body)["translations"]
    equal([entry["detected_source_lang"] for entry in first], ["en", "en"])
    assert all(entry["text"] == entry["text"].strip() for entry in first)
    equal(server.post("/translate/v1/batch-translate", **body)["translations"], first, "greedy again")
    alone = server.post("/translate/v1/batch-translate", **{**body, "text_list": ["Good morning."]})["translations"]
    equal(alone, first[1:], "order")


@case(13)
def big_batch(server):
    texts, reasons = joined(server.events("/big_batch/completions", contents=[f"{i}." for i in range(2000)], max_tokens=4))
    equal(sorted(reasons), list(range(2000)))
    equal(sorted(texts), list(range(2000)))


@case(14)
def big_batch_without_noise(server):
    body = {"contents": ["User: Reverse hello\n\nAssistant:", "The cat"], "max_tokens": 12, "stream": False}
    equal(server.texts("/big_batch/completions", **body, noise=0), server.texts(CHAT, **body, **PLAIN))


@case(15)
def session_equals_one_prompt(server):
    one, two = turn("Remember 17."), turn("Which number?")
    first = session(server, "case15", one)
    second = session(server, "case15", two)
    equal(second, server.text(CHAT, contents=[one + first + "\n\n" + two], max_tokens=24, stop_tokens=[0], **PLAIN))


@case(16)
def session_after_a_stop_text(server):
    one, two = turn("Remember 17."), turn("Which number?")
    drawn = tokens_of(server, one, 8)
    # A stop text of several tokens that the answer is known to contain, in the place of "\nUser:".
    stop = "".join(drawn[2:4])
    first = session(server, "case16", one, stop_tokens=None, stop=[stop])
    equal(first, "".join(drawn)[:"".join(drawn).index(stop)])
    second = session(server, "case16", two)
    equal(second, server.text(CHAT, contents=[one + first + "\n\n" + two], max_tokens=24, stop_tokens=[0], **PLAIN))


@case(17)
def one_session_many_requests(server):
    body = {"session_id": "case17", "max_tokens": 10, "ignore_eos": True, **PLAIN}
    with concurrent.futures.ThreadPoolExecutor() as pool:
        both = [pool.submit(server.post, "/state/chat/completions", contents=[turn(text)], **body)
                for text in ("Remember 17.", "Remember 23.")]
        usages = [done.result()["usage"] for done in both]
    fed = sum(usage["prompt_tokens"] + usage["completion_tokens"] for usage in usages)
    equal(session_tokens(server, "case17"), fed, "tokens after both, one after the other")
    before = server.get("/v1/sessions/case17/state").body
    endless = {**body, "contents": [turn("Count.")], "max_tokens": 60000, "stream": True, "chunk_size": 1}
    connection, response = server.open("POST", "/state/chat/completions", endless)
    response.readline()
    response.close()
    connection.close()
    wait_for(lambda: server.get("/v1/queue/status").json()["total_active"] == 0, "the row of the gone client to end")
    equal(server.get("/v1/sessions/case17/state").body, before)


def level_counts(server):
    status = server.post("/state/status")
    return [status[key] for key in ("l1_cache_count", "l2_cache_count", "database_count", "total_sessions")]


@case(18)
def levels_and_restart(_):
    prompt, later = turn("Remember 17."), turn("Which number?")
    with tempfile.TemporaryDirectory() as folder:
        with Program(folder) as server:
            first = session(server, "s0", prompt)
            for i in range(1, 60):
                session(server, f"s{i}", "x", max_tokens=1)
            equal(level_counts(server), [16, 32, 12, 60])
            server.stop()
        with Program(folder) as server:
            equal(level_counts(server), [0, 0, 60, 60])
            expected = server.text(CHAT, contents=[prompt + first + "\n\n" + later], max_tokens=24, stop_tokens=[0], **PLAIN)
            equal(session(server, "s0", later), expected)


@case(19)
def deletion(server):
    session(server, "case19", "x", max_tokens=1)
    equal(server.ask("/state/delete", {"session_id": "case19"}).json(),
          {"status": "success", "message": "Session case19 deleted successfully"})
    again = server.ask("/state/delete", {"session_id": "case19"})
    equal((again.status, again.json()["status"]), (404, "not_found"))
    missing = server.ask("/state/delete", {})
    equal((missing.status, missing.body), (400, b'{"error":"Missing session_id parameter"}'))


def load_request(server, prompt, length):
    """As conRWKV's load client reads it: every line but [DONE] is JSON with choices[0].text."""
    body = {"model": "rwkv", "prompt": prompt, "temperature": 0.0, "best_of": 1, "max_tokens": length, "stream": True,
            "ignore_eos": True}
    connection, response = server.open("POST", "/v1/completions", body, {"Authorization": "Bearer None"})
    equal(response.status, 200)
    text, reason = "", None
    for line in response:
        line = line.strip().decode()
        if not line or line == "data: [DONE]":
            continue
        choice = json.loads(line.removeprefix("data: "))["choices"][0]
        text += choice["text"]
        reason = choice["finish_reason"] or reason
    connection.close()
    equal(reason, "length")
    return text


@case(20)
def load_client(server):
    draw = random.Random(1)
    requests = [(turn(f"What is {draw.randrange(90)} + {draw.randrange(90)}?"), draw.randrange(4, 24)) for _ in range(200)]
    before = server.get("/v1/stats").json()["total_tokens_generated"]
    with concurrent.futures.ThreadPoolExecutor(200) as pool:
        futures = []
        for prompt, length in requests:
            futures.append(pool.submit(load_request, server, prompt, length))
            time.sleep(draw.expovariate(20))
        for future in futures:
            future.result()
    # Tokens drawn are published with the end of a step.
    wanted = sum(length for _, length in requests)
    wait_for(lambda: server.get("/v1/stats").json()["total_tokens_generated"] - before == wanted, f"{wanted} tokens")


@case(21)
def choices_and_usage(server):
    body = {"messages": USER, "stream": True, "n": 2, "seed": 7, "max_tokens": 12}
    runs = [server.events(CHAT, **body, stream_options={"include_usage": True}) for _ in range(2)]

    def told(events, index):
        return [[choice["delta"], choice["finish_reason"]] for event in events for choice in event["choices"]
                if choice["index"] == index]
    by_index = [[told(run, index) for index in (0, 1)] for run in runs]
    equal(by_index[0], by_index[1], "the same seed")
    for entries in by_index[0]:
        equal(entries[0][0], {"role": "assistant", "content": ""})
        assert any(delta.get("content") for delta, _ in entries[1:-1]) and entries[-1][1] in ("stop", "length")
    for run in runs:
        equal([event["choices"] == [] for event in run], [False] * (len(run) - 1) + [True])
        assert run[-1]["usage"]["completion_tokens"] > 0 and all(event["usage"] is None for event in run[:-1])
    assert all("usage" not in event for event in server.events(CHAT, **body))


@case(22)
def schema_and_logprobs(server):
    schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 20}}, "required": ["name"]}
    answer = server.post(CHAT, messages=[{"role": "user", "content": "Give Ada, 36 as JSON"}], max_tokens=200, seed=1,
                         logprobs=True, top_logprobs=3,
                         response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": schema}})
    choice = answer["choices"][0]
    assert isinstance(json.loads(choice["message"]["content"])["name"], str)
    entries = choice["logprobs"]["content"]
    equal(len(entries), answer["usage"]["completion_tokens"])
    assert all(len(entry["top_logprobs"]) <= 3 for entry in entries)
    text = "User: hello\n\nAssistant: Hello"
    scores = server.post("/v1/completions", prompt=text, echo=True, logprobs=1, max_tokens=0)["choices"][0]["logprobs"]
    equal("".join(scores["tokens"]), text)
    equal([value is None for value in scores["token_logprobs"]], [i == 0 for i in range(len(scores["tokens"]))])
    equal(scores["text_offset"][:3], [0, 4, 5])


@case(23)
def administration(_):
    with tempfile.TemporaryDirectory() as folder, Program(folder, "--model", "none", "--state-db-path", "none") as server:
        success = {"status": "success"}

        def say(model):
            return server.post(CHAT, model=model, messages=[{"role": "user", "content": "hello"}], temperature=0,
                               max_tokens=24)["choices"][0]["message"]["content"]
        equal(server.post("/loadmodel", model_filename=f"{MODELS}/{MODEL}", model_viewname="M",
                          default_temperature="1.0", default_top_p="0.3"), success)
        equal(server.post("/loadstatemodel", state_filename=f"{MODELS}/{STATE}", state_viewname="S"), success)
        equal([entry["id"] for entry in server.get("/models").json()], ["M", "M S"])
        assert say("M S") != say("M")
        equal(server.post("/removestatemodel"), success)
        equal([entry["id"] for entry in server.get("/models").json()], ["M"])
        bad = server.ask("/loadstatemodel", {"state_filename": f"{MODELS}/{MODEL}", "state_viewname": "S"})
        equal((bad.status, bad.json()), (400, {"detail": "State file is incorrect. check filename or tensor size."}))


@case(24)
def control_plane(_):
    keys = ["model_path", "tokenizer_path", "host", "port", "gpu_id", "max_batch_size", "max_prefill_batch",
            "max_queue_size", "prefill_chunk_size", "use_cuda_graph"]
    with tempfile.TemporaryDirectory() as folder, Program(folder, "--sessions-dir", folder, verb="control") as control:
        worker = control.post("/api/workers/start", model_path=f"{MODELS}/{MODEL}", gpu_id=0, max_batch_size=4)
        assert all(key in worker["spec"] for key in keys), worker
        assert re.fullmatch(r"wkr-[0-9a-f]{10}", worker["worker_id"]) and worker["status"] == "running"
        path = "/api/workers/" + worker["worker_id"]
        wait_for(lambda: control.get(path).json().get("ready"), "the worker to be ready")
        equal([entry["worker_id"] for entry in control.get("/api/workers").json()], [worker["worker_id"]])
        assert control.get(path + "/logs?tail=5").json()["lines"]
        endless = {"prompt": "x", "max_tokens": 60000, "stream": True, "ignore_eos": True}
        connection, response = control.open("POST", path + "/proxy/v1/completions", endless)
        assert response.readline().startswith(b"data: "), "the first event while the generation goes on"
        queue = path + "/proxy/v1/queue/status"
        equal(control.get(queue).json()["total_active"], 1)
        response.close()
        connection.close()
        wait_for(lambda: control.get(queue).json()["stats"]["cancelled_requests"] == 1, "the cancel to arrive")
        equal(control.post(path + "/stop"), {"status": "ok"})
        gone = control.get(queue)
        equal((gone.status, gone.json()), (502, {"detail": "worker unreachable"}))
        unknown = control.get("/api/workers/wkr-0000000000")
        equal((unknown.status, unknown.json()), (404, {"detail": "worker not found"}))


@case(25)
def steering(server):
    endless = {"contents": ["x"], "max_tokens": 60000, "ignore_eos": True, "stream": True, "chunk_size": 1, **PLAIN}
    stream = OpenStream(server, **endless)
    answer = server.ask("/v1/requests/" + stream.id, method="DELETE")
    equal((answer.status, answer.json()), (200, {"status": "cancelled", "request_id": stream.id}))
    assert stream.rest()[-1]["choices"][0]["finish_reason"]

    stream = OpenStream(server, **endless)
    # Status pages are some milliseconds behind.
    wait_for(lambda: server.get("/v1/server/status").json()["active_request"], "the request to be listed")
    answer = server.post("/v1/server/stop")
    equal((answer["ok"], answer["stopped"], answer["active_request"]["id"]), (True, True, stream.id))
    assert stream.rest()[-1]["choices"][0]["finish_reason"]

    endless["contents"] = ["Once"]
    stream, said = OpenStream(server, **endless), []
    resume = {"path": "/v1/server/resume", "request_id": stream.id}
    for again in [resume, {**resume, "max_tokens": 100}]:
        answer = server.post("/v1/server/pause", request_id=stream.id)
        equal((answer["ok"], answer["paused"], answer["request_id"]), (True, True, resume["request_id"]))
        said.append(joined(stream.rest())[0][0])
        stream = OpenStream(server, **again)
    said.append(joined(stream.rest())[0][0])
    assert all(said)
    text = "".join(said)
    whole = {**endless, "stream": False, "max_tokens": len(text.encode()) + 8}  # no token is less than a byte
    equal(server.text(CHAT, **whole)[:len(text)], text, "paused and resumed")
    equal(server.ask("/v1/server/resume", {"request_id": stream.id}).status, 404)


def main():
    chosen = [int(number) for number in sys.argv[3:]] or sorted(CASES)
    failures = []
    with tempfile.TemporaryDirectory() as folder, Program(folder) as server:
        for number in chosen:
            began = time.monotonic()
            try:
                CASES[number](server)
                verdict = "holds"
            except Exception as failure:  # one broken case must not hide the others
                failures.append(number)
                verdict = f"FAILS: {type(failure).__name__}: {failure}"[:1500]
            print(f"case {number:2d} {CASES[number].__name__}: {verdict} ({time.monotonic() - began:.1f} s)", flush=True)
        if 18 not in failures:
            server.stop()
    print(f"{len(chosen) - len(failures)} of {len(chosen)} cases hold")
    return 1 if failures or (len(sys.argv) == 3 and len(CASES) != 25) else 0


if __name__ == "__main__":
    sys.exit(main())
