"""Sessions through everything: talks whose every turn that was answered must be there afterwards."""
import asyncio
import time

from chaos_crowd import Refused
from soak_http import Cut, Wrong
from soak_talk import Talk, likely_answer, prompt_of

TURNS = 10  # then a talk rests; it must still be there


async def say(crowd, session, prompt, path="/state/chat/completions"):
    body = {"session_id": session, "contents": [prompt], "stop_tokens": [0], "top_k": 1, "max_tokens": 24,
            "alpha_presence": 0, "alpha_frequency": 0, "stream": False}
    return (await crowd.call("POST", path, body))["choices"][0]["message"]["content"]


async def uninterrupted(crowd, talk, turn):
    """What the same turns give under another name."""
    probe = f"probe.{talk.name}"
    for earlier in range(turn + 1):
        answer = await say(crowd, probe, prompt_of(talk.name, earlier))
    await crowd.call("POST", "/state/delete", {"session_id": probe})
    return answer


async def one_turn(crowd, talk):
    turn = talk.turn
    try:
        found = await say(crowd, talk.name, prompt_of(talk.name, turn))
    except (Cut, TimeoutError, asyncio.TimeoutError):
        talk.unsure = True
        raise
    talk.add(found, time.monotonic())
    crowd.count["turns"] += 1
    if found.strip() != likely_answer(talk.name, turn):
        wanted = await uninterrupted(crowd, talk, turn)
        crowd.count["compared with an uninterrupted run"] += 1
        if found != wanted:
            talk.broken = True
            raise Wrong(f"{talk.name} turn {turn}: {found!r}; an uninterrupted run says {wanted!r}")


async def tokens_by_session(crowd):
    return {entry["id"]: entry["tokens"] for entry in (await crowd.call("GET", "/v1/sessions"))["data"]}


def check_talk(talk, tokens):
    """What is wrong with a state of so many tokens; the turns it has. A turn in doubt may be there or not."""
    lengths = talk.lengths()
    if tokens not in lengths:
        return f"{talk.name}: a state of {tokens} tokens; wanted one of {lengths} (turns: {talk.turn})", talk.turn
    kept = lengths.index(tokens)
    if kept > talk.turn and not talk.unsure:
        return f"{talk.name}: {kept} turns kept; only {talk.turn} were answered, none is in doubt", kept
    return "", kept


class ChaosTalk(Talk):
    def __init__(self, name):
        super().__init__(name)
        self.unsure = False  # the last turn may have been taken or not
        self.broken = False  # a violation was seen: what follows from it is not looked at


class Talks:
    """A circle of sessions on one server."""

    def __init__(self, prefix, count):
        self.all = [ChaosTalk(f"{prefix}.{i}") for i in range(count)]

    async def client(self, crowd, index, clients, turns):
        """Takes its share of the talks forward, turn by turn in a circle."""
        share = self.all[index::clients]
        for i in range(turns):
            talk = share[i % len(share)]
            if crowd.over or talk.broken or talk.turn >= TURNS:
                continue
            if talk.unsure:
                await crowd.client(self.resume(crowd, talk))
            await crowd.client(one_turn(crowd, talk))

    async def resume(self, crowd, talk):
        """After a turn in doubt: goes on from what the server has."""
        problem, kept = check_talk(talk, (await tokens_by_session(crowd)).get(talk.name, 0))
        if problem or kept < talk.turn:
            raise Wrong(problem or f"{talk.name}: {kept} turns kept of {talk.turn}")
        talk.fall_back(kept, time.monotonic())
        talk.unsure = False

    async def check(self, crowd, ended_at=None, young=0.0):
        """Every turn is there; those answered less than `young` seconds before `ended_at` may be gone."""
        stored = await tokens_by_session(crowd)
        for talk in [each for each in self.all if not each.broken]:
            problem, kept = check_talk(talk, stored.get(talk.name, 0))
            if problem:
                crowd.violations.add(problem)
            elif kept < talk.turn and (ended_at is None or talk.answered_at[kept] < ended_at - young):
                age = "" if ended_at is None else f"; the next was answered {ended_at - talk.answered_at[kept]:.2f} s before"
                crowd.violations.add(f"{talk.name}: {kept} of {talk.turn} answered turns are there{age}")
                problem = "turns are gone"
            if problem:
                talk.broken = True
                continue
            crowd.count["answered turns found again"] += min(kept, talk.turn)
            crowd.count["young turns gone"] += max(0, talk.turn - kept)
            talk.fall_back(kept, time.monotonic())
            talk.unsure = False

    async def forget(self, crowd):
        for talk in self.all:
            await crowd.call("POST", "/state/delete", {"session_id": talk.name}, wanted=None)


async def export_and_fork(crowd, rng, name):
    """A state goes out, comes back under another name, and both know the number."""
    talk = ChaosTalk(name)
    await one_turn(crowd, talk)
    blob = await crowd.call("GET", f"/v1/sessions/{name}/state")
    broken = bytearray(blob)
    broken[rng.randrange(len(broken))] ^= 1 << rng.randrange(8)
    await crowd.call("PUT", f"/v1/sessions/{name}.broken/state", bytes(broken), wanted=400)
    await crowd.call("PUT", f"/v1/sessions/{name}.copy/state", blob)
    await crowd.call("POST", f"/v1/sessions/{name}/fork", {"session_id": f"{name}.fork"})
    answers = {await say(crowd, each, prompt_of(name, 1)) for each in (name, f"{name}.copy", f"{name}.fork")}
    for each in (name, f"{name}.copy", f"{name}.fork"):
        await crowd.call("DELETE", f"/v1/sessions/{each}")
    if len(answers) != 1:
        raise Wrong(f"{name}, its copy and its fork answer {sorted(answers)}")


async def pause_under_a_turn(crowd, rng, name):
    """A paused turn that comes back must not undo a later one, nor revive a session that was deleted."""
    talk = ChaosTalk(name)
    body = {"session_id": name, "contents": [prompt_of(name, 0)], "top_k": 1, "max_tokens": 200, "ignore_eos": True,
            "alpha_presence": 0, "alpha_frequency": 0, "stream": True}
    answer = await crowd.answer_to("POST", "/state/chat/completions", body)
    paused = False
    try:
        if answer.status != 200:
            raise Wrong(f"status {answer.status}")
        request = answer.headers["x-request-id"]
        async for _ in answer.events():
            if not paused:
                paused = (await crowd.call("POST", "/v1/server/pause", {"request_id": request}))["paused"]
    finally:
        answer.close()
    if not paused:
        return
    await crowd.call("POST", "/state/delete", {"session_id": name}, wanted=None)
    deleted = rng.random() < 0.3
    if not deleted:
        await one_turn(crowd, talk)
    await resume_to_the_end(crowd, request)
    if deleted:
        if name in await tokens_by_session(crowd):
            raise Wrong(f"{name} was deleted; a resumed turn brought it back")
    else:
        await one_turn(crowd, talk)  # asks for the number of the later turn
    await crowd.call("POST", "/state/delete", {"session_id": name}, wanted=None)


async def resume_to_the_end(crowd, request):
    """Takes a paused turn on; refusal is as good."""
    try:
        answer = await crowd.answer_to("POST", "/v1/server/resume", {"request_id": request, "max_tokens": 8})
    except Refused:
        return
    try:
        await answer.bytes()
    finally:
        answer.close()
