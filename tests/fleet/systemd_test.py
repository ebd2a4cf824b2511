#!/usr/bin/env python3
"""deploy/*.service by systemd's own checker, their command lines and the example configuration by the program:
systemd_test.py PROGRAM DEPLOY_FOLDER

Exit code 77 means that systemd is not installed.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

SKIPPED = 77


def verify(path):
    """What the checker says about a unit; it complains on standard error and still ends with 0."""
    return subprocess.run(["systemd-analyze", "verify", path], check=False, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT).stdout.strip()


def check_units(program, units, folder):
    for unit in units:
        with open(unit, encoding="utf-8") as file:
            text = file.read().replace("/usr/local/bin/fulmar", program)
        copy = f"{folder}/{os.path.basename(unit).replace('@', '@8001')}"
        for content, is_fine in ((text, True), (text.replace("ExecStart=", "ExecStrt="), False)):
            with open(copy, "w", encoding="utf-8") as file:
                file.write(content)
            said = verify(copy)
            assert (said == "") == is_fine, said
        command = re.search(r"^ExecStart=\S+ (\w+) (.*)$", text, re.MULTILINE)
        known = subprocess.run([program, command[1], "--help"], check=True, text=True, stdout=subprocess.PIPE).stdout
        for flag in re.findall(r"--[\w-]+", command[2]):
            assert re.search(rf"{flag}\b", known), f"{unit}: {flag}"
        grace = int(re.search(r"--grace (\d+)", command[2])[1])
        assert int(re.search(r"^TimeoutStopSec=(\d+)$", text, re.MULTILINE)[1]) > grace, "KILL comes after the drain"
        print(f"- {os.path.basename(unit)} is sound")


def check_configuration(program, configuration, folder):
    with open(configuration, encoding="utf-8") as file:
        wanted = re.findall(r"name: (\S+)\n\s+model_path: (\S+)", file.read())
    os.mkdir(f"{folder}/models")
    for _, model in wanted:
        with open(f"{folder}/models/{model}", "wb"):
            pass  # enough for the configuration to be taken; the workers then say what is wrong with it
    control = subprocess.Popen([program, "control", "--port", "0", "--models-dir", f"{folder}/models", "--sessions-dir", folder,
                                "--config", configuration], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        address = next(found[0] for line in control.stdout if (found := re.findall(r"http://[\w.:]+", line)))
        end = time.monotonic() + 30
        names = []
        while names != [name for name, _ in wanted]:
            assert time.monotonic() < end, names
            with urllib.request.urlopen(f"{address}/api/workers", timeout=10) as answer:
                names = [worker["spec"].get("name") or worker.get("name") for worker in json.loads(answer.read())]
            time.sleep(0.1)
    finally:
        control.terminate()
        control.wait(30)
    print(f"- the example configuration names {', '.join(names)}")


def main():
    program, deploy = map(os.path.abspath, sys.argv[1:])
    if shutil.which("systemd-analyze") is None:
        print("SKIPPED: systemd-analyze is not installed")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        check_units(program, sorted(glob.glob(f"{deploy}/*.service")), folder)
        check_configuration(program, f"{deploy}/workers.yaml", folder)
    print("passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
