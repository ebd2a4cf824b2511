#!/usr/bin/env python3
"""Everything at once, for as long as wanted: chaos.py --minutes N --seed S [--program P] [--steps A-B] ...

Steps follow one another: crowds of clients of every family, hostile requests, changes of models, too few descriptors, SIGTERM
with a successor, SIGKILL, a full disk, too little memory, two servers in one folder. After each of them every stream has
belonged to its request, every answered turn is there, the server's counters agree with what its clients saw, and memory and
descriptors are back where they were. The seed and the step's number decide what a step does: what is found in step 12 is
looked for again with the same seed and `--steps 12-12`. Exit code 1 when anything was found.
"""
import argparse
import asyncio
import collections
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

from chaos_attacks import attacker, huge_body, many_rows
from chaos_clients import visitor
from chaos_crowd import Crowd, Tally, Violations
from chaos_servers import ChaosServer
from chaos_steps import KINDS
from chaos_talks import Talks
from soak_http import Cut

ROOT = Path(__file__).resolve().parent.parent.parent
MOST_TALKS = 60  # that are kept on the long-lived server at once
WARMING = [huge_body, many_rows]
IDLE = ("fulmar_slots_used", "fulmar_requests_running", "fulmar_requests_waiting", "fulmar_rows_waiting")


def kind_of(kinds, seed, step):
    """Every kind once, in a new order, before any comes again."""
    deal, place = divmod(step - 1, len(kinds))
    return random.Random(f"{seed}/deal/{deal}").sample(sorted(kinds), len(kinds))[place]


class Run:
    def __init__(self, flags, folder):
        self.flags, self.root = flags, Path(folder)
        self.clients, self.step = flags.clients, 0
        self.violations, self.count = Violations(flags.seed), collections.Counter()
        self.steps_of_kind, self.seconds_of_kind = collections.Counter(), collections.Counter()
        self.servers, self.crowds, self.old_talks, self.folders = [], [], [], 0
        self.main = self.base = self.begin = None

    def rng(self, what):
        return random.Random(f"{self.flags.seed}/{self.step}/{what}")

    def folder(self, name):
        self.folders += 1
        return self.root / f"{self.folders}-{name}"

    def server(self, folder, **more):
        self.servers.append(ChaosServer(self.flags, folder, **more))
        return self.servers[-1]

    def crowd(self, server):
        self.crowds.append(Crowd(server, self.violations, self.flags.patience))
        return self.crowds[-1]

    async def own_crowd(self, **more):
        """A server of this step alone."""
        folder = self.folder(f"step{self.step}")
        folder.mkdir()
        return self.crowd(await self.server(folder, **more).begin())

    def talks(self, count):
        """Sessions on the long-lived server that later steps look at again."""
        talks = Talks(f"main.{self.step}.{len(self.old_talks)}", count)
        self.old_talks.append(talks)
        return talks

    def add_up(self, crowd):
        """Takes its counts over into those of the run."""
        slowest = {name: value for name, value in crowd.count.items() if name.startswith("slowest")}
        self.count.update({name: value for name, value in crowd.count.items() if name not in slowest})
        self.count.update({"requests": sum(crowd.tally.answered.values())})
        for name, value in slowest.items():
            self.count[name] = max(self.count[name], value)
        crowd.count.clear()
        crowd.tally = Tally()

    async def close(self, crowd):
        """Ends a step's own server, which must end well."""
        crowd.ending = True
        code = await crowd.server.end(self.flags.patience + 10)
        if code != 0:
            self.violations.add(f"exit code {code} after SIGTERM of an idle server; wanted 0")

    async def idle_metrics(self):
        """The long-lived server's counters once nothing runs; the last ones seen when that does not come."""
        end = time.monotonic() + 2 * self.flags.patience
        metrics = {}
        while time.monotonic() < end:
            metrics = await asyncio.to_thread(self.main.server.metrics)
            if not any(metrics[name] for name in IDLE):
                await asyncio.sleep(0.5)
                return await asyncio.to_thread(self.main.server.metrics)
            await asyncio.sleep(0.1)
        for name in IDLE:
            if metrics[name]:
                self.violations.add(f"{name} is {metrics[name]:.0f} when nobody asks for anything; wanted 0")
        return metrics

    async def settle(self):
        """What must hold on the long-lived server when a step is over."""
        if (code := self.main.server.process.poll()) is not None:
            return self.violations.add(f"the server has ended with {code}; its log ends: "
                                       f"{self.main.server.log.read_text(errors='replace')[-600:]}")
        metrics = await self.idle_metrics()
        for problem in self.main.tally.problems(metrics, self.begin or {}):
            self.violations.add(problem)
        for talks in self.old_talks:
            await talks.check(self.main)
        while sum(len(talks.all) for talks in self.old_talks) > MOST_TALKS:
            await self.old_talks.pop(0).forget(self.main)
        await self.check_resources()
        self.add_up(self.main)
        self.begin = await self.idle_metrics()

    async def check_resources(self):
        files, memory = 0, 0
        for _ in range(150):  # the last connections may still be on their way out, free memory goes back every ten seconds
            files, memory = self.main.server.open_files(), self.main.server.resident_mib()
            if self.base is None or (files <= self.base["files"] and memory <= self.base["memory"] + self.flags.memory):
                break
            await asyncio.sleep(0.1)
        if self.base is None:
            self.base = {"files": files, "memory": memory}
        if files > self.base["files"]:
            self.violations.add(f"{files} descriptors are open; {self.base['files']} were at the start")
        if memory > self.base["memory"] + self.flags.memory:
            self.violations.add(f"memory is {memory:.0f} MiB, {self.base['memory']:.0f} at the start; allowed are "
                                f"{self.flags.memory} more")
            self.base["memory"] = memory  # what has been told once is not told again
        self.count["descriptors at the end"], self.count["memory at the end in MiB"] = files, round(memory)
        self.count["most memory when idle in MiB"] = max(self.count["most memory when idle in MiB"], round(memory))

    def check_logs(self):
        for server in self.servers:
            if server.log.exists():
                for problem in list(server.problems_of_log())[:5]:
                    self.violations.add(f"log of {server.folder.name}: {problem}")

    async def one_step(self, step):
        self.step = self.violations.step = step
        kind, begin, found = kind_of(self.flags.kinds, self.flags.seed, step), time.monotonic(), len(self.violations.found)
        self.violations.step = f"{step} ({kind})"
        first = len(self.servers)
        try:
            await asyncio.wait_for(KINDS[kind](self), self.flags.patience * 12)
            await self.settle()
        except asyncio.TimeoutError:
            self.violations.add(f"the step is not over after {self.flags.patience * 12} s")
        except (Cut, OSError) as failure:
            self.violations.add(f"{type(failure).__name__}: {failure}")
        except Exception as failure:  # whatever it is, it is a finding
            self.violations.add(f"the step ended early: {type(failure).__name__}: {failure}")
        for task in asyncio.all_tasks() - {asyncio.current_task()}:  # of a step that ended early
            task.cancel()
        for server in self.servers[first:]:
            server.discard()
        for crowd in self.crowds:
            self.add_up(crowd)
        seconds = time.monotonic() - begin
        self.steps_of_kind[kind] += 1
        self.seconds_of_kind[kind] += seconds
        print(f"step {step:4} {kind:12} {seconds:6.1f} s  {len(self.violations.found) - found} violations", flush=True)

    async def start_main(self):
        folder = self.root / "main"
        folder.mkdir(exist_ok=True)
        self.main = self.crowd(await self.server(folder).begin())
        self.base = self.begin = None

    async def warm_up(self):
        """What memory and descriptors are compared with is noted under way, not before the first request: caches are full
        then, and the heap has once been as large as hostile clients make it."""
        await self.start_main()
        await self.main.run([visitor(self.main, self.rng(f"warm {i}"), 6) for i in range(self.clients)]
                            + [self.talks(2).client(self.main, 0, 1, 4)]
                            + [attacker(self.main, self.rng(f"hostile {i}"), WARMING) for i in range(2)])
        await self.settle()

    async def finish(self):
        """The long-lived server ends, another one takes its place, and every session is there."""
        self.step = self.violations.step = "end"
        if self.main.server.process.poll() is None:
            await self.close(self.main)
        await self.start_main()
        for talks in self.old_talks:
            await talks.check(self.main)
        await self.close(self.main)
        self.add_up(self.main)
        self.check_logs()

    async def whole(self):
        begin, (first, last) = time.monotonic(), self.flags.steps
        await self.warm_up()
        step = first
        while step <= last and (last < sys.maxsize or time.monotonic() < begin + 60 * self.flags.minutes):
            await self.one_step(step)
            if self.main.server.process.poll() is not None:
                await self.start_main()
            step += 1
        await self.finish()
        return time.monotonic() - begin


def print_table(run, seconds):
    print("\nkind         steps  seconds")
    for kind in sorted(run.steps_of_kind):
        print(f"{kind:12} {run.steps_of_kind[kind]:5} {run.seconds_of_kind[kind]:8.0f}")
    print()
    for name, value in sorted(run.count.items()):
        print(f"{name}: {value}")
    print(f"\n{len(run.violations.found)} violations in {sum(run.steps_of_kind.values())} steps, {seconds:.0f} s, "
          f"seed {run.flags.seed}")
    for step, text in run.violations.found[:50]:
        print(f"  step {step}: {text[:300]}")


def steps(text):
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def kinds(text):
    chosen = text.split(",")
    if unknown := set(chosen) - set(KINDS):
        raise argparse.ArgumentTypeError(f"no kind {sorted(unknown)}; there are {sorted(KINDS)}")
    return chosen


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1, help="no step begins after that")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=steps, default=(1, sys.maxsize), metavar="A-B",
                        help="these steps, whatever time they take")
    parser.add_argument("--program", default=ROOT / "build/release/fulmar")
    parser.add_argument("--model", default=ROOT / "models/fulmar-demo.safetensors")
    parser.add_argument("--tuned-state", default=ROOT / "models/fulmar-demo-pirate.state.pth")
    parser.add_argument("--kinds", type=kinds, default=sorted(KINDS), metavar="A,B", help=f"of steps: {', '.join(sorted(KINDS))}")
    parser.add_argument("--clients", type=int, default=12, help="well-behaved clients of a crowd")
    parser.add_argument("--patience", type=float, default=20, help="seconds after which an answer counts as missing")
    parser.add_argument("--slack", type=float, default=3, help="seconds forgiven to the writing of sessions")
    parser.add_argument("--memory", type=float, default=64, help="MiB that an idle server may have grown by: caches fill "
                        "up (24 MiB with the flags here), and heaps keep small free pieces")
    parser.add_argument("--keep", help="an empty folder for logs and databases, which are kept there")
    flags = parser.parse_args()
    for name in ("program", "model", "tuned_state"):
        setattr(flags, name, str(Path(getattr(flags, name)).resolve()))
        if not os.path.exists(getattr(flags, name)):
            parser.error(f"no file {getattr(flags, name)}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # no server is left behind
    with tempfile.TemporaryDirectory() as folder:
        run = Run(flags, Path(flags.keep or folder).resolve())  # servers begin elsewhere
        try:
            seconds = asyncio.run(run.whole())
        finally:
            for server in run.servers:
                server.discard()
    print_table(run, seconds)
    return 1 if run.violations.found else 0


if __name__ == "__main__":
    sys.exit(main())
