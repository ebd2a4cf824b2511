#!/usr/bin/env python3
"""Runs the commands that the documents show, so that they cannot go stale.

Every route of the table in src/server/routes.cpp must stand in docs/api.md with a command of its own, and no other may.

A fenced block marked ```sh runs as it stands, in a scratch folder with the models/ beside it, `fulmar` on the PATH and
FULMAR naming a server with the demo model; lines may also say http://127.0.0.1:8000, which stands for that server. A block
marked ```text is only shown. A command must exit with 0, and a curl answer must not be an error object.
"""
import os
import re
import signal
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = ["README.md", "docs/start.md", "docs/models.md", "docs/gpu.md", "docs/api.md", "docs/clients.md", "docs/migrating.md",
             "docs/operations.md", "docs/quantisation.md", "docs/structured-output.md"]

# An answer, or an event of one, that is an error object.
ERROR = re.compile(r'^(?:data: )?\{"(?:error"|detail"|type":"error")', re.M)


def blocks(path):
    for found in re.finditer(r"^```sh *\n(.*?)^```", path.read_text(), re.M | re.S):
        yield path.read_text()[: found.start()].count("\n") + 1, found.group(1)


def differing_routes():
    """What the table of routes and docs/api.md do not agree in."""
    table = re.findall(r'\{"([A-Z]+)", "([^"]+)"', (ROOT / "src/server/routes.cpp").read_text())
    documented = re.findall(r"^\*\*`([A-Z]+) ([^`]+)`\*\*[^`]*(?:`[^`]+`[^`]*)*?\n```sh *\n", (ROOT / "docs/api.md").read_text(), re.M)
    there, shown = set(table), {(method, re.sub(r"\{\w+\}", "*", path)) for method, path in documented}
    return ([f"docs/api.md shows no command for {method} {path}" for method, path in sorted(there - shown)] +
            [f"docs/api.md shows {method} {path}, which is no route" for method, path in sorted(shown - there)] +
            ([] if table else ["no table of routes was found"]))


def start_server(program, folder):
    log = open(folder / "server.log", "w")
    server = subprocess.Popen([program, "serve", "--model", str(ROOT / "models"), "--port", "0",
                               "--state-db-path", str(folder / "sessions.db")],
                              stdout=subprocess.PIPE, stderr=log, text=True, cwd=folder)
    for line in server.stdout:
        found = re.search(r"http://([0-9.]+:\d+)/", line)
        if found:
            load = urllib.request.Request(f"http://{found.group(1)}/v1/model/load", b'{"model":"fulmar-demo"}')
            urllib.request.urlopen(load, timeout=60).close()
            return server, found.group(1)
    raise SystemExit("the server did not start:\n" + (folder / "server.log").read_text())


def main():
    program = str(Path(sys.argv[1]).resolve())
    count = 0
    differing = differing_routes()
    failures = len(differing)
    for line in differing:
        print(line)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "bin").mkdir()
        os.symlink(program, folder / "bin" / "fulmar")
        os.symlink(ROOT / "models", folder / "models")
        server, address = start_server(program, folder)
        environment = dict(os.environ, PATH=f"{folder / 'bin'}:{os.environ['PATH']}", FULMAR=f"http://{address}",
                           XDG_DATA_HOME=str(folder / "data"))
        try:
            for document in DOCUMENTS:
                path = ROOT / document
                if not path.exists():
                    continue
                for line, block in blocks(path):
                    count += 1
                    script = "set -eo pipefail\n" + block.replace("127.0.0.1:8000", address)
                    done = subprocess.run(["bash", "-c", script], cwd=folder, env=environment, text=True,
                                          capture_output=True, timeout=120)
                    if done.returncode != 0 or ERROR.search(done.stdout):
                        failures += 1
                        print(f"{document}:{line}: exit {done.returncode}\n{block}{done.stdout[-600:]}{done.stderr[-600:]}")
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(timeout=60)
        if server.returncode != 0:
            failures += 1
            print(f"the server exited with {server.returncode} on SIGTERM; wanted 0")
    print(f"documents: {count} blocks, {failures} failed")
    return 1 if failures or not count else 0


if __name__ == "__main__":
    sys.exit(main())
