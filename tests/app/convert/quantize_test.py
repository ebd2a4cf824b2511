#!/usr/bin/env python3
"""fulmar convert, quantize and eval --against on the demo model: quantize_test.py PROGRAM MODELS

Accuracy is that of the whole program: a file through every format must answer as the model it came from, within what
each kind of weights is known to cost.
"""
import collections
import json
import pickle
import re
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

# relative rms of the logits that each kind may cost on the demo model, head included
KINDS = {"q8_0": 0.012, "q6_k": 0.03, "q4_k": 0.12, "q4_0": 0.13}
# the same of the blocks alone, directly behind prompts, as an independent program measured it on 200 of the suite's cases;
# one kind of each family, since every one is several runs of the whole program
BLOCKS = {"q8_0": 0.0036, "int8": 0.0094, "fp8": 0.017, "q5_1": 0.025, "q4_k": 0.054, "nf4": 0.084, "q2_k": 0.25}
# kinds whose distance on other cases calibration makes smaller, to at most such a share
CALIBRATED = {"q4_1": 0.97, "int4": 0.97}
NEAR = 1.5  # times these: which cases are taken, and who packed them


class Unpickler(pickle.Unpickler):
    """What torch.load(weights_only=True) lets through, of which tensors become (storage's type, key, shape, strides)."""

    def find_class(self, module, name):
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if module == "torch" and name.endswith("Storage"):
            return name
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda storage, offset, size, stride, grad, hooks: (*storage, offset, size, stride)
        raise pickle.UnpicklingError(f"{module}.{name}")

    def persistent_load(self, pid):
        kind, storage_type, key, location, count = pid
        assert kind == "storage" and location == "cpu"
        return storage_type, key, count


def pth_tensors(path):
    """name -> (type, shape, bytes), by Python's own readers, checksums included."""
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        folder = archive.namelist()[0].split("/")[0]
        with archive.open(f"{folder}/data.pkl") as file:
            state = Unpickler(file).load()
        assert archive.read(f"{folder}/version") == b"3\n" and archive.read(f"{folder}/byteorder") == b"little"
        return {name: (storage, size, archive.read(f"{folder}/data/{key}"))
                for name, (storage, key, count, offset, size, stride) in state.items()}


def safetensors_tensors(path):
    data = path.read_bytes()
    length, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    names = {"F32": "FloatStorage", "F16": "HalfStorage", "BF16": "BFloat16Storage"}
    return {name: (names[one["dtype"]], tuple(one["shape"]),
                   data[8 + length + one["data_offsets"][0]:8 + length + one["data_offsets"][1]])
            for name, one in header.items()}


def main():
    program, models = sys.argv[1], Path(sys.argv[2])
    model, suite = models / "fulmar-demo.safetensors", models / "demo-suite.jsonl"
    problems = []

    def run(*arguments, fails=False):
        done = subprocess.run([program, "--log", "error", *map(str, arguments)], capture_output=True, text=True,
                              timeout=200)
        if (done.returncode != 0) != fails:
            problems.append(f"{arguments}: exit {done.returncode}: {done.stderr.strip()}")
        return done.stdout + done.stderr

    def relative(*arguments):
        text = run("eval", "--device", "cpu", "-q", "--against", model, "--text", sample, *arguments)
        found = re.search(r"relative\s+([0-9.]+)", text)
        if not found:
            problems.append(f"{arguments}: no distance in {text!r}")
        return float(found.group(1)) if found else 1.0

    def check(what, value, most, least=0.0):
        if not least <= value <= most:
            problems.append(f"{what} is {value}; wanted {least} to {most}")

    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        sample = folder / "sample.txt"
        lines = suite.read_text().splitlines()[:20]
        sample.write_text("\n".join(re.sub(r'[{}"\\]', "", line) for line in lines)[:3000])

        plain = folder / "plain.gguf"
        run("convert", "-q", model, plain)
        check("a converted file's distance", relative("-m", plain), 1e-6)
        back = folder / "back.safetensors"
        run("convert", "-q", plain, back)
        check("the distance after both ways", relative("-m", back, "--vocab", models / "fulmar-demo.vocab.txt"), 1e-6)
        torch = folder / "back.pth"
        run("convert", "-q", plain, torch)
        check("the distance of a .pth", relative("-m", torch, "--vocab", models / "fulmar-demo.vocab.txt"), 1e-6)
        if pth_tensors(torch) != safetensors_tensors(back):
            problems.append("a .pth holds other tensors than a .safetensors of the same model")
        if "exists" not in run("convert", "-q", model, plain, fails=True):
            problems.append("a file that exists is replaced without --force")

        for kind, most in KINDS.items():
            small = folder / f"{kind}.gguf"
            table = run("quantize", "-q", model, small, "--type", kind)
            if "ffn.value.weight" not in table or "relative error" not in table:
                problems.append(f"{kind}: no table of errors in {table!r}")
            check(f"the size of {kind}", small.stat().st_size / model.stat().st_size, 0.8)
            check(f"the distance of {kind}", relative("-m", small), most, 1e-4)
            listed = run("inspect", "--quick", small)
            if not re.search(rf"type\s+{kind}\s", listed):
                problems.append(f"inspect does not list {kind}: {listed!r}")
        for kind in ("nf4", "int8", "int8_g128", "int4", "fp8"):
            small = folder / f"{kind}.safetensors"
            table = run("quantize", "-q", model, small, "--type", kind, "--keep", "head")
            if "ffn.value.weight" not in table or ("advice" in table) != (kind in ("nf4", "int4")):
                problems.append(f"{kind}: no table, or advice that is wrong: {table!r}")
            check(f"the size of {kind}", small.stat().st_size / model.stat().st_size, 0.75)
            own = relative("-m", small, "--vocab", models / "fulmar-demo.vocab.txt")
            wanted = relative("-m", model, "--quantize", f"{kind}+stored_head")
            check(f"the distance of the {kind} file", own, wanted + 1e-5, wanted - 1e-5)
        if ".gguf" not in run("quantize", model, folder / "x.safetensors", "--type", "q4_k", fails=True):
            problems.append("a block type goes into .safetensors")
        if ".safetensors" not in run("quantize", model, folder / "x.pth", "--type", "int8", fails=True):
            problems.append("codes with scales go into .pth")
        if ".pth" not in run("convert", model, folder / "x.bin", fails=True):
            problems.append("a target of no known ending is not refused")
        twice = folder / "twice.gguf"
        others = folder / "others.jsonl"
        others.write_text("\n".join(suite.read_text().splitlines()[20::10]) + "\n")
        for kind, most in CALIBRATED.items():
            distances = []
            for how in ((), ("--calibrate", others)):
                small = folder / f"calibrated{len(how)}.{'safetensors' if kind == 'int4' else 'gguf'}"
                run("quantize", "-q", "--force", model, small, "--type", kind, "--keep", "head", *how)
                distances.append(relative("-m", small, "--vocab", models / "fulmar-demo.vocab.txt"))
            check(f"the distance of calibrated {kind}", distances[1], most * distances[0])
        for text, wanted in (("User: hi", "wanted at least 64"), (None, "cannot be read")):
            short = folder / "short.txt"
            short.unlink(missing_ok=True)
            if text:
                short.write_text(text)
            said = run("quantize", "-q", model, twice, "--type", "q4_k", "--calibrate", short, fails=True)
            if wanted not in said or twice.exists():
                problems.append(f"a text to calibrate on that is {text!r} is answered with {said!r}")
        if "holds q4_k already" not in run("quantize", "-q", folder / "q4_k.gguf", twice, "--type", "q8_0", fails=True) or twice.exists():
            problems.append("what is quantised already is quantised again")
        cut = folder / "cut.gguf"
        cut.write_bytes((folder / "q4_k.gguf").read_bytes()[:-5000])
        if "are missing" not in run("inspect", cut, fails=True):
            problems.append("a file that is cut off does not say so")

        few = folder / "few.jsonl"
        few.write_text("\n".join(suite.read_text().splitlines()[::40]) + "\n")
        for kind, wanted in BLOCKS.items():
            text = run("eval", "--device", "cpu", "-q", "-m", model, "--against", model, "--suite", few, "--quantize",
                       f"{kind}+stored_head", "--floor", 0 if kind == "q2_k" else 80)
            found = re.search(r"^prompts +([0-9.]+)", text, re.MULTILINE)
            check(f"the distance of --quantize {kind}", float(found.group(1)) if found else 1, NEAR * wanted, wanted / NEAR)
        if "nonsense" not in run("eval", "-m", model, "--quantize", "nonsense", fails=True):
            problems.append("an unknown kind is not refused by name")
        short = folder / "short.jsonl"
        short.write_text("\n".join(suite.read_text().splitlines()[::20]) + "\n")
        run("eval", "--device", "cpu", "-q", "-m", folder / "q4_k.gguf", "--suite", short, "--floor", 90)
        done = subprocess.run([program, "--log", "warn", "eval", "--device", "cpu", "-q", "-m", model, "--suite", short,
                               "--activation", "fp8"], capture_output=True, text=True, timeout=200)
        if done.returncode != 2 or "--activation is 'fp8', which is for a GPU" not in done.stderr:
            problems.append(f"fp8 activations on a CPU are not refused: {done}")

    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
