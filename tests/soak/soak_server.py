"""A Fulmar server in a folder of its own, seen from outside: requests, counters, files and memory of its process."""
import http.client
import json
import re
import signal
import subprocess
import urllib.error
import urllib.request
from pathlib import Path


# What a state of the demo model takes: with its ring on a CPU that drafts, and in host memory.
SLOT_MIB, STATE_MIB = 0.77, 0.39


def kept_sessions(device, host):
    """The flags of a server of the demo model that keeps so many sessions on the device and in host memory."""
    return ["--cache-device", str(2 * device * SLOT_MIB), "--cache-host", str(2 * host * STATE_MIB)]


class Server:
    def __init__(self, program, model, folder, *flags):
        self.command = [program, "serve", "--port", "0", "--device", "cpu", "--model", model, *flags]
        self.folder, self.log = Path(folder), Path(folder) / "server.log"
        self.process = None

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=self.folder)
        for line in self.process.stdout:
            if found := re.search(r"http://([0-9.]+):(\d+)/", line):
                self.host, self.port = found.group(1), int(found.group(2))
                return self
        raise SystemExit(f"the server did not start; its log ends:\n{self.log.read_text()[-2000:]}")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        """The exit code after SIGTERM."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=120)

    def call(self, method, path, body=None, timeout=120):
        """Status and parsed answer."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://{self.host}:{self.port}{path}", data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def metrics(self):
        with urllib.request.urlopen(f"http://{self.host}:{self.port}/metrics", timeout=60) as answer:
            lines = answer.read().decode().splitlines()
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}

    def open_files(self):
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def resident_mib(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1)) / 1024

    def problem_of_stop(self):
        """What is wrong with how the server ends; nothing when it ends well."""
        code = self.stop()
        return [] if code == 0 else [f"exit code {code} after SIGTERM; wanted 0; its log ends:\n{self.log.read_text()[-1500:]}"]

    def log_lines(self, *words):
        return [line for line in self.log.read_text(errors="replace").splitlines() if any(w in line for w in words)]


class Connection:
    """One kept-alive connection of one client."""

    def __init__(self, server, timeout=120):
        self.connection = http.client.HTTPConnection(server.host, server.port, timeout=timeout)

    def post(self, path, body):
        self.connection.request("POST", path, json.dumps(body).encode())
        answer = self.connection.getresponse()
        return answer.status, json.loads(answer.read())

    def close(self):
        self.connection.close()
