"""A control plane with two workers under load, one of which is killed: what goes through it belongs to its request, the
worker comes back, and nobody is left behind when the control plane ends."""
import asyncio
import json
import os
import signal
import subprocess
import time

from chaos_clients import chat, completion, embeddings, infill, native_batch, read_slowly, structured, translate
from chaos_servers import ChaosServer

STATELESS = [completion, chat, native_batch, infill, translate, embeddings, structured, read_slowly]


class ControlPlane(ChaosServer):
    """`fulmar control` with two workers of the demo model."""

    def __init__(self, flags, folder):
        super().__init__(flags, folder)
        workers = [{"name": name, "model_path": flags.model, "restart": "always", "max_batch_size": 8,
                    "args": ["--device", "cpu", "--state-flush-seconds", "1"]} for name in ("a", "b")]
        (self.folder / "workers.yaml").write_text(json.dumps({"workers": workers}))  # JSON is YAML, too
        (self.folder / "states").mkdir()
        self.command = [flags.program, "control", "--port", "0", "--config", "workers.yaml", "--sessions-dir", "states"]

    def workers(self):
        return self.call("GET", "/api/workers")[1]

    async def all_ready(self, seconds):
        """Whether both workers answer within so many seconds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if sum(worker["ready"] for worker in await asyncio.to_thread(self.workers)) == 2:
                return True
            await asyncio.sleep(0.1)
        return False

    def discard(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)  # its workers end with it
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()


def lives(pid):
    try:
        os.kill(pid, 0)
        return True
    except ProcessLookupError:
        return False


async def visits(run, crowd, index, count):
    rng = run.rng(f"fleet {index}")
    for _ in range(count):
        await crowd.client(rng.choice(STATELESS)(crowd, rng))


async def fleet_step(run):
    """A worker is killed under load; only what it was answering is cut."""
    folder = run.folder("fleet")
    folder.mkdir()
    plane = ControlPlane(run.flags, folder)
    run.servers.append(plane)
    crowd = run.crowd(await plane.begin())
    crowd.refusals, crowd.absent = {429, 502, 503, 504}, {"/completions", "/chat/completions"}
    if not await plane.all_ready(run.flags.patience):
        return crowd.violations.add(f"two workers are not ready after {run.flags.patience} s")
    pids = [worker["pid"] for worker in plane.workers()]
    await crowd.run([visits(run, crowd, i, 3) for i in range(run.clients // 2)])
    load = asyncio.gather(*[visits(run, crowd, run.clients + i, 5) for i in range(run.clients // 2)])
    await asyncio.sleep(run.rng("fleet").uniform(0.1, 1))
    crowd.ending = True  # from here on answers may be cut, those of the worker that dies
    os.kill(run.rng("victim").choice(pids), signal.SIGKILL)
    await load
    if not await plane.all_ready(run.flags.patience):
        crowd.violations.add("a worker that was killed is not back")
    crowd.ending = False
    await crowd.run([visits(run, crowd, 2 * run.clients + i, 3) for i in range(run.clients // 2)])
    pids += [worker["pid"] for worker in plane.workers()]
    await run.close(crowd)
    await asyncio.sleep(0.5)
    if left := [pid for pid in set(pids) if lives(pid)]:
        crowd.violations.add(f"workers {left} outlive their control plane")
