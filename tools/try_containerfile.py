#!/usr/bin/env python3
"""Executes the last stage of deploy/Containerfile step by step in a bare Debian tree, for machines without a container
runtime, then runs its command as its user, asks the server a question, and ends it as a runtime would. Needs root.

usage: tools/try_containerfile.py ROOM     a minimal tree of the release that the stage begins from; steps change a copy

What the first stage builds is taken from build/release: tools/clean_room.sh proves that a bare tree builds it.
"""
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 120


def instructions(text):
    """(WORD, rest) of each instruction, continued lines joined."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            yield word, rest.strip()


def last_stage(text):
    stage = []
    for word, rest in instructions(text):
        stage = [] if word == "FROM" else stage + [(word, rest)]
    return stage


class Tree:
    def __init__(self, room):
        self.path, self.user, self.folder, self.entry, self.command = Path(room), "root", "/", [], []

    def inside(self, words, user="root", **more):
        return subprocess.Popen(["chroot", f"--userspec={user}:{user}", self.path, "/usr/bin/env", "-i", "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
                                 f"HOME={self.folder}", *(f"{name}={os.environ[name]}" for name in ("http_proxy", "https_proxy") if name in os.environ),
                                 "DEBIAN_FRONTEND=noninteractive", "sh", "-c", f"cd {shlex.quote(self.folder)} && exec {words}"], **more)

    def step(self, word, rest):
        print(f"try_containerfile: {word} {rest[:100]}", flush=True)
        if word == "RUN":
            if self.inside(f"sh -c {shlex.quote(rest)}", stdout=subprocess.DEVNULL).wait() != 0:
                raise SystemExit(f"try_containerfile: this step failed: {rest}")
        elif word == "COPY":
            source, target = rest.removeprefix("--from=build ").split()
            source = ROOT / source.removeprefix("/src/")
            target = self.path / target.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
        elif word == "USER":
            self.user = rest
        elif word == "WORKDIR":
            self.folder = rest
        elif word == "ENTRYPOINT":
            self.entry = json.loads(rest)
        elif word == "CMD":
            self.command = json.loads(rest)
        elif word not in ("EXPOSE", "STOPSIGNAL"):
            raise SystemExit(f"try_containerfile: the instruction {word} is not known here")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def ask(port):
    body = json.dumps({"messages": [{"role": "user", "content": "What is 12 + 30?"}], "temperature": 0}).encode()
    for _ in range(PATIENCE * 10):
        try:
            return json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/chat/completions", body, timeout=30))["choices"][0]["message"]["content"]
        except OSError:
            time.sleep(0.1)
    raise SystemExit("try_containerfile: the server does not answer")


def main():
    room = Path(sys.argv[1])
    copy = room.with_name(room.name + ".container")
    shutil.rmtree(copy, ignore_errors=True)
    subprocess.run(["cp", "-a", "--reflink=auto", room, copy], check=True)
    subprocess.run(["bash", "-c", f'set -euo pipefail; name=try_containerfile; . {ROOT}/tools/bare_room.sh; furnish_room "$1" "$(. "$1/etc/os-release"; echo $VERSION_CODENAME)" "$(default_mirror)"; enter_room "$1"',
                    "-", copy], check=True)
    try:
        tree = Tree(copy)
        for word, rest in last_stage((ROOT / "deploy/Containerfile").read_text()):
            tree.step(word, rest)
        port = free_port()
        words = [str(port) if word == "8000" else word for word in tree.entry + tree.command]
        server = tree.inside(shlex.join(words), user=tree.user)
        answer = ask(port)
        owner = os.stat(f"/proc/{server.pid}").st_uid
        server.send_signal(signal.SIGTERM)
        code = server.wait(timeout=PATIENCE)
        assert answer == "42" and owner != 0 and code == 0, (answer, owner, code)
        print(f"try_containerfile: the image's command answers as user {owner}, and ends with 0 on TERM")
    finally:
        subprocess.run(["umount", copy / "proc", copy / "dev"], check=True)
        shutil.rmtree(copy)


if __name__ == "__main__":
    main()
