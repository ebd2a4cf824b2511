#!/usr/bin/env python3
"""What a person meets first, of the program or of an installed one: install_test.py PROGRAM MODELS

doctor names what stands in the way, the greeting tells what was chosen, --version says what this is.
"""
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM, MODELS = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
MODEL = str(MODELS / "fulmar-demo.safetensors")


class Place:
    def __init__(self, home):
        self.home = home
        self.environment = {**os.environ, "XDG_DATA_HOME": str(home / "data"), "FULMAR_LOG": "warn"}

    def run(self, *words):
        return subprocess.run([PROGRAM, *words], cwd=self.home, env=self.environment, capture_output=True, text=True, timeout=120)

    def doctor(self, *words):
        done = self.run("doctor", *words)
        lines = {}
        for line in done.stdout.splitlines():
            found = re.fullmatch(r"(ok|note|bad) +(\S+) +(.+)", line)
            if found:
                lines[found.group(2)] = (found.group(1), found.group(3))
        assert done.stderr == "", done.stderr
        return done.returncode, lines


def check_version(place):
    text = place.run("--version").stdout
    assert re.fullmatch(r"fulmar \d+\.\d+\.\d+\ncommit \S+\ncpu    \S+\ngpu    .+\n", text), text
    return text.split()[1]


def check_unknown_command(place):
    for words in (["update-check"], ["serv", "--port", "0"]):
        done = place.run(*words)
        assert done.returncode == 2 and done.stdout == "", done
        assert f"no command '{words[0]}'" in done.stderr and "serve, " in done.stderr and "doctor" in done.stderr, done.stderr
    assert "subcommand is required" in place.run().stderr


def check_doctor(place):
    code, lines = place.doctor("--model", MODEL, "--port", "0")
    assert code == 0, lines
    for name in ("program", "cpu", "memory", "port", "models", "sessions", "files", "model", "vocabulary", "certificates"):
        assert name in lines, (name, lines)
    assert MODEL in lines["model"][1] and "RWKV-7" in lines["model"][1], lines["model"]
    assert lines["vocabulary"][0] == "note" and "fulmar tokenizer import" in lines["vocabulary"][1]
    assert not list(place.home.iterdir()), "doctor has left something behind"

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        code, lines = place.doctor("--model", MODEL, "--port", port)
        assert code == 4 and lines["port"][0] == "bad" and port in lines["port"][1] and "--port" in lines["port"][1], lines
    code, lines = place.doctor("--model", "no-such-model", "--port", "0")
    assert code == 4 and lines["model"][0] == "bad" and "no-such-model" in lines["model"][1], lines
    for unusable in (f"{MODEL}/none/sessions.db", str(place.home / "none" / "x.db"), str(place.home), "/dev/null"):
        code, lines = place.doctor("--model", MODEL, "--port", "0", "--state-db-path", unusable)
        assert code == 4 and lines["sessions"][0] == "bad" and unusable in lines["sessions"][1], (unusable, lines)


def check_greeting(place, version):
    """The first lines of a server: they are whole before it is asked anything."""
    server = subprocess.Popen([PROGRAM, "serve", "--model", MODEL, "--port", "0", "--device", "cpu", "--password", "hush", "--slots", "4"],
                              cwd=place.home, env=place.environment, stdout=subprocess.PIPE, text=True)
    text = ""
    for line in server.stdout:
        text += line
        if "paste this" in line:
            break
    server.send_signal(signal.SIGTERM)
    assert server.wait(timeout=60) == 0
    for words in (f"Fulmar {version} serves fulmar-demo on http://127.0.0.1:", "model     RWKV-7, ", "device    cpu (", " threads for HTTP",
                  "memory    weights ", "4 slots and ", "sessions  rwkv_sessions.db", "keys      a password", "Bearer KEY"):
        assert words in text, (words, text)
    assert "hush" not in text, text


def main():
    for check in (check_version, check_unknown_command, check_doctor):
        with tempfile.TemporaryDirectory() as home:
            result = check(Place(Path(home)))
            version = result or version
            print(f"ok {check.__name__}", flush=True)
    with tempfile.TemporaryDirectory() as home:
        check_greeting(Place(Path(home)), version)
        print("ok check_greeting")


if __name__ == "__main__":
    main()
