"""The servers of a chaos run: one that lives through all of it, and others that are ended, starved or filled up."""
import asyncio
import os
import resource
import signal
import subprocess
from pathlib import Path

from soak_server import Server, kept_sessions

FLAGS = ["--slots", "24", "--max-queue", "400", *kept_sessions(8, 16), "--state-flush-seconds", "1"]


class NotStarted(Exception):
    pass


class ChaosServer(Server):
    """A server whose database lies in its folder, `named` by a flag or the default one; another one may follow it there."""

    def __init__(self, flags, folder, entry=(), named=True):
        database = ["--state-db-path", "sessions.db"] if named else []
        super().__init__(flags.program, flags.model, folder, *database, *FLAGS, "--grace", str(flags.patience / 2))
        self.command = [*entry, *self.command]
        self.log = self.folder / f"server-{len(list(self.folder.glob('server-*.log')))}.log"

    async def begin(self):
        """Starts it and waits until it serves. NotStarted with the end of its log."""
        try:
            await asyncio.to_thread(self.start)
        except SystemExit as failure:
            self.process.wait()
            raise NotStarted(str(failure)) from failure
        for _ in range(600):
            try:
                if (await asyncio.to_thread(self.call, "GET", "/health"))[0] == 200:
                    return self
            except OSError:
                pass
            await asyncio.sleep(0.05)
        self.kill()
        raise NotStarted(f"the server is not healthy after 30 s; its log ends:\n{self.log.read_text()[-2000:]}")

    async def end(self, seconds):
        """The exit code after SIGTERM, or None after so many seconds, when it is killed."""
        self.process.send_signal(signal.SIGTERM)
        return await self.ended(seconds)

    async def ended(self, seconds):
        try:
            return await asyncio.to_thread(self.process.wait, seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return None

    def discard(self):
        if self.process and self.process.poll() is None:
            self.kill()

    def holds(self, name):
        """Whether the process has this file of its folder open."""
        folder = f"/proc/{self.process.pid}/fd"
        try:
            files = os.listdir(folder)
        except OSError:  # it has ended
            return False
        for file in files:
            try:
                if os.readlink(f"{folder}/{file}") == str(self.folder / name):
                    return True
            except OSError:  # closed meanwhile
                pass
        return False

    def limit(self, what, value):
        """Sets a soft limit of the process, or takes it away with None."""
        hard = resource.prlimit(self.process.pid, what)[1]
        resource.prlimit(self.process.pid, what, (hard if value is None else value, hard))

    def virtual_bytes(self):
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")

    def problems_of_log(self):
        """Lines that a sanitizer or a failed check has left, and names that broke out of theirs."""
        words = ("ThreadSanitizer", "AddressSanitizer", "runtime error", "check failed", "terminate called")
        yield from self.log_lines(*words)
        for line in self.log.read_text(errors="replace").splitlines():
            if line.startswith("FORGED") or "\x1b" in line:
                yield f"a client's name broke out of its line: {line!r}"


class SmallDisk:
    """A folder of so many MiB that can be filled to the last byte: a tmpfs in a mount namespace of its own."""

    def __init__(self, folder, mib):
        self.folder = Path(folder)
        self.folder.mkdir()
        script = f'mount -t tmpfs -o size={mib}m none "$0" && echo mounted && exec sleep 100000'
        self.holder = subprocess.Popen(["unshare", "--mount", "sh", "-c", script, str(self.folder)], text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.works = self.holder.stdout.readline() == "mounted\n"
        self.entry = ["nsenter", f"--mount=/proc/{self.holder.pid}/ns/mnt", f"--wdns={self.folder}"]
        self.inside = Path(f"/proc/{self.holder.pid}/root{self.folder}")

    def fill(self, _server):
        """Writes until nothing fits any more."""
        with open(self.inside / "filler", "ab", buffering=0) as file:
            try:
                while file.write(bytes(4096)) == 4096:
                    pass
            except OSError:
                pass

    def free(self, _server):
        (self.inside / "filler").unlink()

    def discard(self):
        self.holder.kill()
        self.holder.wait()


class SmallFiles:
    """Where no file system can be mounted: a bound on the length of files, which stops a database as well."""

    entry = ["env", "--ignore-signal=XFSZ"]

    def fill(self, server):
        server.limit(resource.RLIMIT_FSIZE, 4096)

    def free(self, server):
        if server.process.poll() is None:
            server.limit(resource.RLIMIT_FSIZE, None)

    def discard(self):
        pass
