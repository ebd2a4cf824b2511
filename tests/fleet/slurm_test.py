#!/usr/bin/env python3
"""deploy/fulmar.slurm on a Slurm of two emulated nodes: slurm_test.py PROGRAM MODEL JOB_SCRIPT

The script as it is, twice: each job gets a node with its one GPU (emulated, too), TERM to one reaches the worker's drain,
and its conversation goes on with the other one. Exit code 77 means that Slurm, munge or Redis is not installed.
"""
import http.client
import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile

from rig import eventually, free_port

SKIPPED = 77
NODES = ("n1", "n2")
PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "redis-server")

CONFIGURATION = """
ClusterName=emulated
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
GresTypes=gpu
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={first} CPUs=8 Gres=gpu:1 State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={second} CPUs=8 Gres=gpu:1 State=UNKNOWN
PartitionName=all Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
"""
# Any device file passes for a GPU.
DEVICES = "NodeName=n1 Name=gpu File=/dev/null\nNodeName=n2 Name=gpu File=/dev/zero\n"


class Cluster:
    def __init__(self, program, model, folder):
        self.folder, self.daemons, self.jobs = folder, [], []
        self.redis = free_port()
        # Commands of Slurm and the jobs that they start see this.
        self.environment = dict(
            os.environ, SLURM_CONF=f"{folder}/slurm.conf", FULMAR_MODEL=model, FULMAR_STATE=f"{folder}/sessions",
            FULMAR_STATE_STORE=f"redis://127.0.0.1:{self.redis}", FULMAR_GRACE="20",
            PATH=f"{os.path.dirname(program)}:{os.environ['PATH']}")
        self.write("munge.key", os.urandom(1024).hex())
        os.chmod(f"{folder}/munge.key", 0o400)
        os.chmod(folder, 0o755)  # munge wants its socket to be reachable
        self.write("slurm.conf", CONFIGURATION.format(
            folder=folder, host=socket.gethostname().split(".")[0], user=pwd.getpwuid(os.getuid()).pw_name,
            port=free_port(), first=free_port(), second=free_port()))
        self.write("gres.conf", DEVICES)
        for name in ("state", "jobs", *(f"spool.{node}" for node in NODES)):
            os.mkdir(f"{folder}/{name}")

    def write(self, name, text):
        with open(f"{self.folder}/{name}", "w", encoding="utf-8") as file:
            file.write(text)

    def daemon(self, name, *words):
        with open(f"{self.folder}/{name}.out", "wb") as log:
            self.daemons.append(subprocess.Popen(words, env=self.environment, stdout=log, stderr=log))

    def begin(self):
        self.daemon("redis", "redis-server", "--port", str(self.redis), "--bind", "127.0.0.1", "--save", "", "--dir", self.folder)
        paths = [f"--{what}={self.folder}/munge.{end}" for what, end in
                 (("key-file", "key"), ("socket", "sock"), ("pid-file", "pid"), ("log-file", "log"), ("seed-file", "seed"))]
        self.daemon("munged", "munged", "--force", "--foreground", *paths)
        eventually(lambda: os.path.exists(f"{self.folder}/munge.sock"), "munged listens")
        self.daemon("slurmctld", "slurmctld", "-D")
        for node in NODES:
            self.daemon(f"slurmd.{node}", "slurmd", "-D", "-N", node)
        eventually(lambda: self.told("sinfo", "--noheader", "--format=%t %D").split() == ["idle", "2"], "two nodes are idle")

    def told(self, *words):
        return subprocess.run(words, env=self.environment, cwd=f"{self.folder}/jobs", text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout

    def submit(self, script):
        job = self.told("sbatch", "--parsable", "--export=ALL", script).strip()
        assert job.isdigit(), job
        self.jobs.append(job)
        return job

    def fact(self, job, name):
        words = self.told("scontrol", "show", "job", job).split()
        return next((word.split("=", 1)[1] for word in words if word.startswith(name + "=")), "")

    def end(self):
        for job in self.jobs:
            self.told("scancel", job)
        eventually(lambda: not self.told("squeue", "--noheader").strip(), "no job is left")
        for process in reversed(self.daemons):
            process.terminate()
        for process in self.daemons:
            process.wait(30)

    def logs(self):
        for root, _, files in os.walk(self.folder):
            for name in files:
                if name.endswith((".log", ".out")):
                    with open(os.path.join(root, name), encoding="utf-8", errors="replace") as log:
                        yield name, log.read()[-1500:]


def port_of(job):
    return 20000 + int(job) % 20000  # as the script does


def request(job, method, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port_of(job), timeout=30)
    connection.request(method, path, json.dumps(body) if body is not None else None)
    return connection.getresponse()


def serves(job):
    try:
        return request(job, "GET", "/health").status == 200
    except OSError:
        return False


def say(job, text):
    answer = request(job, "POST", "/state/chat/completions", {
        "contents": [f"User: {text}\n\nAssistant:"], "session_id": "s", "stream": False, "max_tokens": 24, "top_k": 1,
        "alpha_presence": 0, "alpha_frequency": 0})
    body = answer.read()
    assert answer.status == 200, (answer.status, body)
    return json.loads(body)["choices"][0]["message"]["content"]


def check(cluster, script):
    cluster.begin()
    first, second = cluster.submit(script), cluster.submit(script)
    eventually(lambda: serves(first) and serves(second), "both jobs serve")
    nodes = {cluster.fact(job, "NodeList") for job in (first, second)}
    assert nodes == set(NODES), f"one job per node: {nodes}"
    print("- each job serves on a node of its own")

    say(first, "My name is Emma.")
    running = request(first, "POST", "/v1/completions",
                      {"prompt": "1 2 3", "max_tokens": 1500, "ignore_eos": True, "stream": True})
    assert running.status == 200 and running.readline()
    cluster.told("scancel", "--signal=TERM", "--batch", first)
    eventually(lambda: not serves(first), "the worker takes no more requests")
    text = running.read().decode()
    assert text.rstrip().endswith("data: [DONE]") and text.count("data: ") > 1000, text[-200:]
    eventually(lambda: cluster.fact(first, "JobState") == "COMPLETED", "the job has ended")
    assert cluster.fact(first, "ExitCode") == "0:0"
    print("- TERM reaches the drain: the stream ends whole, the job ends well")

    answer = say(second, "What is my name?")
    assert "Emma" in answer, answer
    print(f"- the other job goes on with the conversation: {answer!r}")


def main():
    program, model, script = map(os.path.abspath, sys.argv[1:])
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    for needed in PROGRAMS:
        if shutil.which(needed) is None:
            print(f"SKIPPED: {needed} is not installed")
            return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(program, model, folder)
        try:
            check(cluster, script)
        except BaseException:
            for name, log in cluster.logs():
                print(f"---- {name}\n{log}")
            raise
        finally:
            cluster.end()
    print("passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
