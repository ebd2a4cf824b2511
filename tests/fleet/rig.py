"""Redis, HAProxy, the adapter between them and workers, each in a network namespace of its own where that is allowed."""
import os
import signal
import socket
import subprocess
import time
import urllib.request


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def eventually(condition, what, patience=60.0):
    end = time.monotonic() + patience
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"never: {what}")
        time.sleep(0.05)


class Namespaces:
    """One bridge, a namespace for each machine; a machine is cut off by taking its cable out."""
    kind = "separate network namespaces"

    def __init__(self):
        number = os.getpid() % 60000
        self.bridge, self.net = f"fb{number}", f"10.213.{number % 250}"
        self.names = {}
        ip("link", "add", self.bridge, "type", "bridge")
        try:
            ip("addr", "add", f"{self.net}.1/24", "dev", self.bridge)
            ip("link", "set", self.bridge, "up")
            self.machine("redis")
        except subprocess.CalledProcessError:
            self.close()
            raise

    def machine(self, name):
        """(address, words before a command that runs there)"""
        if name not in self.names:
            number = len(self.names) + 10
            space, cable = f"{self.bridge}-{name}", f"{self.bridge}-{number}"
            ip("netns", "add", space)
            self.names[name] = (space, cable, f"{self.net}.{number}")
            ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", space)
            ip("link", "set", cable, "master", self.bridge, "up")
            ip("-n", space, "addr", "add", f"{self.net}.{number}/24", "dev", "eth0")
            ip("-n", space, "link", "set", "eth0", "up")
            ip("-n", space, "link", "set", "lo", "up")
        space, _, address = self.names[name]
        return address, ["ip", "netns", "exec", space]

    def cut(self, name, _process):
        ip("link", "set", self.names[name][1], "down")

    def mend(self, name, _process):
        ip("link", "set", self.names[name][1], "up")

    def close(self):
        for space, cable, _ in self.names.values():
            subprocess.run(["ip", "link", "del", cable], stderr=subprocess.DEVNULL)
            subprocess.run(["ip", "netns", "del", space], stderr=subprocess.DEVNULL)
        subprocess.run(["ip", "link", "del", self.bridge], stderr=subprocess.DEVNULL)


class Processes:
    """All on the loopback; being cut off is played by a process that does not run."""
    kind = "processes on one loopback (network namespaces are refused here)"

    def machine(self, _name):
        return "127.0.0.1", []

    def cut(self, _name, process):
        os.kill(process.pid, signal.SIGSTOP)

    def mend(self, _name, process):
        os.kill(process.pid, signal.SIGCONT)

    def close(self):
        pass


def ip(*words):
    subprocess.run(["ip", *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def network():
    try:
        return Namespaces()
    except (OSError, subprocess.CalledProcessError):
        return Processes()


class Fleet:
    def __init__(self, program, model, config, folder):
        self.program, self.model, self.folder = program, model, folder
        self.network, self.processes, self.workers, self.ports = network(), [], {}, {}
        self.port, self.socket = free_port(), f"{folder}/admin.sock"
        address, there = self.network.machine("redis")
        redis_port = free_port()
        self.url = f"redis://:secret@{address}:{redis_port}"
        self.redis = self.run("redis", [*there, "redis-server", "--port", str(redis_port), "--bind", address,
                                        "--requirepass", "secret", "--save", "", "--appendonly", "no", "--dir", folder])
        nowhere = {f"FULMAR_WORKER_{i}": "127.0.0.1:1" for i in (1, 2, 3)}  # all servers come from the directory
        self.run("haproxy", ["haproxy", "-db", "-f", config], FULMAR_BIND=f"127.0.0.1:{self.port}",
                 FULMAR_ADMIN_SOCKET=self.socket, **nowhere)
        self.run("adapter", [program, "fleet", "haproxy", "--directory", self.url, "--socket", self.socket,
                             "--every", "0.2"])

    def run(self, name, words, **environment):
        with open(f"{self.folder}/{name}.log", "ab") as log:
            process = subprocess.Popen(words, env=dict(os.environ, **environment), stdout=log, stderr=log)
        self.processes.append(process)
        return process

    def start(self, name):
        address, there = self.network.machine(name)
        port = free_port()
        self.ports[name] = (address, port)
        self.workers[name] = self.run(name, [
            *there, self.program, "serve", "--model", self.model, "--host", address, "--port", str(port), "--threads", "1",
            "--quiet", "--grace", "60", "--state-store", self.url, "--directory", self.url, "--announce-as", name,
            "--announce-host", address])

    def metric(self, name, metric):
        """A worker's own figure, asked for past HAProxy."""
        address, port = self.ports[name]
        with urllib.request.urlopen(f"http://{address}:{port}/metrics", timeout=10) as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith(metric + " "):
                    return float(line.split()[1])
        raise AssertionError(f"{name} has no figure {metric}")

    def up(self):
        with socket.socket(socket.AF_UNIX) as door:
            door.connect(self.socket)
            door.sendall(b"show stat\n")
            answer = b""
            while piece := door.recv(65536):
                answer += piece
        rows = [line.split(",") for line in answer.decode().splitlines() if line.startswith("workers,fulmar-")]
        return {row[1].removeprefix("fulmar-") for row in rows if row[17].startswith("UP")}

    def wait_for(self, names):
        def aligned():
            try:
                return self.up() == names
            except OSError:
                return False
        eventually(aligned, f"HAProxy has {sorted(names)}")

    def cut_redis(self):
        self.network.cut("redis", self.redis)

    def mend_redis(self):
        self.network.mend("redis", self.redis)

    def logs(self):
        for name in [*self.workers, "adapter", "haproxy"]:
            with open(f"{self.folder}/{name}.log", encoding="utf-8", errors="replace") as log:
                yield name, log.read()[-2000:]

    def stop(self):
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()
        self.network.close()
