"""The steps of a chaos run: what its clients do at once, which fault meets them, and what must hold afterwards.

A step takes everything it chooses from generators that are seeded with the run's seed and the step's number.
"""
import asyncio
import resource
import time

from chaos_attacks import ATTACKS, MIB, answered, attacker, forgotten_pause, hostile_schema, pulse
from chaos_clients import LONG, repeat, responses, stream, token_of, turn, visitor
from chaos_crowd import Refused
from chaos_fleet import fleet_step
from chaos_servers import NotStarted, SmallDisk, SmallFiles
from chaos_talks import Talks, export_and_fork, pause_under_a_turn, say
from soak_http import Cut, Peer, Wrong, begins_with, same

NEW_ON_FULL_DISK = 24  # sessions; their states are larger than what a database has room for in its files
FLUSH = 1  # --state-flush-seconds of every server here


def visitors(run, crowd, count, visits, without=()):
    return [visitor(crowd, run.rng(f"visitor {i}"), visits, without) for i in range(count)]


def talkers(crowd, talks, clients, turns):
    return [talks.client(crowd, i, clients, turns) for i in range(clients)]


async def then(event, work):
    """Sets the event when the work is over."""
    try:
        await work
    finally:
        event.set()


async def crowd_step(run):
    """Clients of every family at once, and sessions in every use."""
    crowd, rng = run.main, run.rng("crowd")
    more = [crowd.client(export_and_fork(crowd, rng, f"file.{run.step}.{i}")) for i in range(2)]
    more += [crowd.client(pause_under_a_turn(crowd, rng, f"pause.{run.step}.{i}")) for i in range(3)]
    await crowd.run(visitors(run, crowd, run.clients, 5) + talkers(crowd, run.talks(4), 4, 6) + more)


async def attack_step(run):
    """Hostile clients beside ordinary ones, who must not notice."""
    crowd, done = run.main, asyncio.Event()
    attacks = [attacker(crowd, run.rng(f"attacker {i}"), run.rng(f"kinds {i}").choices(ATTACKS, k=4)) for i in range(3)]
    attacks.append(attacker(crowd, run.rng("schemas"), [hostile_schema] * 3))
    await crowd.run([then(done, asyncio.gather(*attacks)), pulse(crowd, run.rng("pulse"), done)]
                    + visitors(run, crowd, run.clients // 3, 3) + talkers(crowd, run.talks(2), 2, 6))


async def load(crowd, name, path):
    await crowd.call("POST", "/loadmodel", {"model_filename": path, "model_viewname": name})


async def model_changes(run, crowd, rng):
    """Models and tuned states come, are replaced and go; an answer under way is finished by the model it began with."""
    model, name = run.flags.model, f"extra-{run.step}"
    await load(crowd, name, model)
    token = token_of(rng)
    body = {"model": name, "prompt": repeat(token), "temperature": 0, "ignore_eos": True, "max_tokens": LONG}
    running = asyncio.create_task(stream(crowd, "/v1/completions", body))
    await asyncio.sleep(rng.uniform(0, 0.5))
    await load(crowd, rng.choice([name, "fulmar-demo"]), model)
    await crowd.call("POST", "/mrss_loadstatemodel", {
        "state_viewname": "M", "state_filenames": [run.flags.tuned_state], "contain_originalstate": "True",
        "state_gatingweight": ["0", "1"]})
    answer = await crowd.call("POST", "/v1/chat/completions", {
        "model": f"{name} M", "messages": [{"role": "user", "content": f"Repeat: {token}"}], "max_tokens": 24, "temperature": 0})
    same(answer["choices"][0]["message"]["content"].strip(), token, "a mixture that is all zero state")
    await crowd.call("POST", "/removestatemodel")
    await load(crowd, "fulmar-demo", model)
    await crowd.call("POST", "/removemodel", {"model_viewname": name})
    text = await running
    whole = await crowd.call("POST", "/v1/completions", {**body, "model": "fulmar-demo"})
    same(text, whole["choices"][0]["text"], "a stream of a model that was replaced")


async def models_step(run):
    """Models are loaded, replaced and removed under running sessions."""
    crowd = run.main

    async def changes():
        for i in range(2):
            await crowd.client(model_changes(run, crowd, run.rng(f"models {i}")))
    await crowd.run([changes()] + visitors(run, crowd, run.clients // 3, 4) + talkers(crowd, run.talks(4), 4, 8))


async def descriptors_step(run):
    """More connections than descriptors; afterwards everything is as before."""
    crowd, rng = run.main, run.rng("descriptors")
    lines = len(crowd.server.log_lines(""))
    crowd.server.limit(resource.RLIMIT_NOFILE, crowd.server.open_files() + rng.randint(4, 24))
    peers = []
    try:
        for _ in range(80):
            peers.append(await Peer.open(crowd.port))
        await asyncio.sleep(rng.uniform(1, 2))
    finally:
        for peer in peers:
            peer.close()
        crowd.server.limit(resource.RLIMIT_NOFILE, None)
    lines = len(crowd.server.log_lines("")) - lines
    if lines > 20:
        crowd.violations.add(f"{lines} lines of log while descriptors were short; wanted at most 20")
    await crowd.run(visitors(run, crowd, 4, 2))


async def ask_while_ending(crowd, peers, rng):
    """Requests on kept-alive connections right after SIGTERM: each is answered, whatever the answer is."""
    for peer in peers:
        try:
            answer = await asyncio.wait_for(peer.ask("POST", "/tokenize", {"content": token_of(rng)}, keep=True), crowd.patience)
            await answer.bytes()
        except (Cut, asyncio.TimeoutError) as failure:
            crowd.violations.add(f"a request on a kept-alive connection right after SIGTERM: {failure}")


async def whole_stream(crowd, rng):
    """A stream that SIGTERM meets; the grace is long enough for its end."""
    token = token_of(rng)
    try:
        begins_with(await stream(crowd, "/v1/completions", {
            "prompt": repeat(token), "temperature": 0, "ignore_eos": True, "max_tokens": LONG}), token)
    except (Cut, Wrong) as failure:
        crowd.violations.add(f"a stream under way at SIGTERM: {failure}")


def check_memory_only(crowd):
    """A second server on a database that is in use must have said that it does without."""
    if not crowd.server.log_lines("in memory"):
        crowd.violations.add("a second server serves on the same database; its log does not say that its sessions are in memory")


async def successor(run, crowd, ended):
    """Starts on the same folder until it serves with its database; `ended` is the predecessor's end."""
    while True:
        other = run.server(crowd.server.folder)
        try:
            await other.begin()
        except NotStarted as refusal:
            if ended.is_set():
                raise
            run.count["successors refused while the predecessor lived"] += 1
            if "sessions.db" not in str(refusal):
                crowd.violations.add(f"a second server ended without naming the database: {refusal}")
            await asyncio.sleep(0.3)
            continue
        if ended.is_set():
            return run.crowd(other)
        check_memory_only(run.crowd(other))
        await ended.wait()
        await other.end(run.flags.patience)


async def term_step(run):
    """SIGTERM under load, with a successor: what runs is finished, every turn is stored, nothing is cut."""
    crowd, rng = await run.own_crowd(), run.rng("term")
    talks, peers = Talks(f"term.{run.step}", 6), []
    await crowd.run(talkers(crowd, talks, 3, 2) + [crowd.client(forgotten_pause(crowd, rng))])
    for _ in range(4):
        peers.append(await Peer.open(crowd.port))
        await (await peers[-1].ask("POST", "/tokenize", {"content": "x"}, keep=True)).bytes()
    streams = [asyncio.create_task(whole_stream(crowd, rng)) for _ in range(4)]
    load = asyncio.gather(*visitors(run, crowd, run.clients // 2, 6), *talkers(crowd, talks, 3, 8))
    await asyncio.sleep(rng.uniform(0.5, 1.5))
    crowd.ending, ended = True, asyncio.Event()
    end = asyncio.create_task(then(ended, end_well(run, crowd)))
    await ask_while_ending(crowd, peers, rng)
    following = asyncio.create_task(successor(run, crowd, ended))
    await asyncio.gather(load, end, *streams)
    other = await following
    await talks.check(other)
    await run.close(other)


async def end_well(run, crowd, wanted=0):
    crowd.ending = True
    code = await crowd.server.end(run.flags.patience + 10)
    if code is None:
        crowd.violations.add(f"the process lives {run.flags.patience + 10} s after SIGTERM; --grace is {run.flags.patience / 2}")
    elif code != wanted:
        crowd.violations.add(f"exit code {code} after SIGTERM; wanted {wanted}")


async def kill_step(run):
    """SIGKILL under load, twice: what was answered longer ago than the flush time is there."""
    crowd = await run.own_crowd()
    talks = Talks(f"kill.{run.step}", 12)
    for life in range(2):
        load = asyncio.gather(*visitors(run, crowd, run.clients // 3, 6), *talkers(crowd, talks, 4, 12))
        await asyncio.sleep(run.rng(f"life {life}").uniform(0.5, 3))
        crowd.ending, at = True, time.monotonic()
        crowd.server.kill()
        await load
        crowd = run.crowd(await run.server(crowd.server.folder).begin())
        await talks.check(crowd, ended_at=at, young=FLUSH + run.flags.slack)
    await crowd.run(talkers(crowd, talks, 4, 3))
    await run.close(crowd)


async def failures(crowd):
    return (await asyncio.to_thread(crowd.server.metrics))["fulmar_state_store_failures_total"]


async def disk_step(run):
    """The session store's disk fills up under load; answers go on, and what was answered is stored once there is room."""
    rng = run.rng("disk")
    disk = SmallDisk(run.folder("disk"), 24)
    if not disk.works:
        disk.discard()
        disk = SmallFiles()
    try:
        await full_disk(run, rng, disk)
    finally:
        disk.discard()


async def full_disk(run, rng, disk):
    folder = run.folder("disk-server")
    folder.mkdir()
    crowd = run.crowd(await run.server(folder, entry=disk.entry).begin())
    talks = Talks(f"disk.{run.step}", 8)
    await crowd.run(talkers(crowd, talks, 4, 4))
    await asyncio.sleep(FLUSH + 0.5)
    disk.fill(crowd.server)
    # Sessions of their own: turns of known ones may find room within the database's files.
    new = Talks(f"disk.new.{run.step}", NEW_ON_FULL_DISK)
    await crowd.run(talkers(crowd, talks, 4, 6) + talkers(crowd, new, 4, NEW_ON_FULL_DISK // 4)
                    + visitors(run, crowd, run.clients // 3, 3, without=[responses]))  # those are stored or not there
    await asyncio.sleep(FLUSH + 0.5)
    if not await failures(crowd):
        crowd.violations.add("fulmar_state_store_failures_total is 0 although the disk was full")
    ending = rng.choice(["TERM while full", "room, then TERM", "room, then KILL"])
    run.count[f"disk: {ending}"] += 1
    if ending == "TERM while full":
        await end_while_full(run, crowd)
        disk.free(crowd.server)
        crowd = run.crowd(await run.server(folder, entry=disk.entry).begin())
        return await talks_in_part(run, crowd, talks, new)
    disk.free(crowd.server)
    await asyncio.sleep(FLUSH + run.flags.slack)
    if ending == "room, then TERM":
        await end_well(run, crowd)
    else:
        crowd.server.kill()
    crowd = run.crowd(await run.server(folder, entry=disk.entry).begin())
    for some in (talks, new):
        await some.check(crowd)
    await run.close(crowd)


async def end_while_full(run, crowd):
    """Answered turns are lost: the exit code and the log must say so."""
    crowd.ending = True
    code = await crowd.server.end(run.flags.patience + 10)
    if code is None:
        crowd.violations.add("the process does not end after SIGTERM on a full disk")
    elif code == 0:
        crowd.violations.add("exit code 0 although answered turns could not be stored")


async def talks_in_part(run, crowd, *talks):
    """Turns may be missing, but each state is that of one of its turns."""
    for some in talks:
        await some.check(crowd, ended_at=time.monotonic(), young=3600)
    await run.close(crowd)


async def hungry(crowd, rng):
    """A request that wants much memory at once; any answer will do, a cut connection too."""
    path, body = rng.choice([
        ("/tokenize", {"content": "abc " * (8 * MIB)}), ("/v1/completions", b'{"prompt":[' + b"0," * (10 * MIB) + b"0]}"),
        ("/v2/chat/completions", {"contents": [repeat("abc")] * 4000, "max_tokens": 4, "stream": False}),
        ("/v1/embeddings", {"input": ["abc " * 5000] * 500}),
        ("/v1/completions", {"prompt": "abcdefgh" * 500000, "max_tokens": 1}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}] * 100000, "max_tokens": 1})])
    try:
        await answered(crowd, path, body, most=599)
    except (Cut, Refused, Wrong, asyncio.TimeoutError):
        pass


async def memory_step(run):
    """Too little memory for what is asked; the process lives, and serves as before once there is enough."""
    crowd = await run.own_crowd()
    talks = Talks(f"memory.{run.step}", 4)
    await crowd.run(talkers(crowd, talks, 2, 4))
    crowd.ending = True  # while memory is short, answers may be missing
    crowd.server.limit(resource.RLIMIT_AS, crowd.server.virtual_bytes() + run.rng("memory").choice([8, 48, 160]) * MIB)
    await asyncio.gather(*[hungry(crowd, run.rng(f"hungry {i}")) for i in range(6)])
    if crowd.server.process.poll() is not None:
        return crowd.violations.add(f"the process ended with {crowd.server.process.poll()} for want of memory; its log ends: "
                                    f"{crowd.server.log.read_text(errors='replace')[-300:]}")
    crowd.server.limit(resource.RLIMIT_AS, None)
    crowd.ending = False
    await crowd.run(talkers(crowd, talks, 2, 4) + visitors(run, crowd, run.clients // 3, 3))
    await talks.check(crowd)
    await run.close(crowd)


async def twins_step(run):
    """Two servers in one folder: sessions of the one never become those of the other."""
    named = run.rng("twins").random() < 0.5
    crowd, talks = await run.own_crowd(named=named), Talks(f"twins.{run.step}", 3)
    await crowd.run(talkers(crowd, talks, 3, 2))
    other = run.server(crowd.server.folder, named=named)
    try:
        second = run.crowd(await other.begin())
        check_memory_only(second)
        for talk in talks.all:
            for _ in range(8):  # more turns than the first server's clients take
                await say(second, talk.name, turn("Remember 7."))
        await asyncio.sleep(FLUSH + 0.5)
    except NotStarted as refusal:
        run.count["second servers refused"] += 1
        if "sessions.db" not in str(refusal):
            crowd.violations.add(f"a second server ended without naming the database: {refusal}")
    await crowd.run(talkers(crowd, talks, 3, 4))
    await talks.check(crowd)
    await end_well(run, crowd)
    if other.process.poll() is None:
        await end_well(run, run.crowd(other))
    crowd = run.crowd(await run.server(crowd.server.folder, named=named).begin())
    await talks.check(crowd)
    await run.close(crowd)


KINDS = {"crowd": crowd_step, "attack": attack_step, "models": models_step, "descriptors": descriptors_step,
         "term": term_step, "kill": kill_step, "disk": disk_step, "memory": memory_step, "twins": twins_step,
         "fleet": fleet_step}
