#!/usr/bin/env python3
"""Writes SPEED.md from bench/results/*.jsonl, and adds the results of a benchmark there.

  tools/speed.py                     writes SPEED.md
  tools/speed.py --check             fails where SPEED.md is not what the results make
  tools/speed.py add REPORT.json --machine NAME --weights KIND --commit HASH --command "..." [--file STEM] [--driver V]
                                     appends the lines of a report that `fulmar bench steps --json REPORT.json` wrote

A line is one measurement: machine, date, commit, command, model, weights, case, tok_s; where it was taken also driver, states, form
(how the model is spread or computed), roofline_tok_s, peer and peer_tok_s, aim_tok_s, note. Of equal ones the newest is shown.
"""
import argparse
import datetime
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench/results"
PAGE = ROOT / "SPEED.md"
REQUIRED = ("machine", "date", "commit", "command", "model", "weights", "case", "tok_s")
OPTIONAL = ("driver", "states", "form", "roofline_tok_s", "peer", "peer_tok_s", "aim_tok_s", "note")
KEY = ("machine", "model", "weights", "states", "form", "case")
MODELS = {"rwkv7-7.2b": "RWKV-7 7.2B", "rwkv7-2.9b": "RWKV-7 2.9B", "rwkv7-1.5b": "RWKV-7 1.5B", "rwkv7-0.4b": "RWKV-7 0.4B",
          "rwkv7-0.1b": "RWKV-7 0.1B", "rwkv6-7b": "RWKV-6 7B"}

HEAD = """# Speed

Written by `tools/speed.py` from `bench/results/*.jsonl`, which hold date, commit, driver and command of every figure; `./dev lint` compares.
Tokens a second, in brackets the share of the roofline and how many times the peer; "decode N" is N sequences with a token each a step, "prefill NxT" N prompts of T tokens. The roofline counts the bytes and
operations of a step against what the same run measured as read rate and multiply-adds (`src/model/roofline.h`); models are synthetic, 90 %
of the feed-forward's activations zero, unless the command says otherwise. What holds each line, and what was tried, is in
[docs/lab](docs/lab/README.md).
"""


def read(folder=RESULTS):
    """Returns all measurements, oldest first; exits with a line for each that is malformed."""
    lines, faults = [], []
    for path in sorted(folder.glob("*.jsonl")):
        for number, text in enumerate(path.read_text().splitlines(), 1):
            where = f"{path.name}:{number}"
            try:
                line = json.loads(text)
            except json.JSONDecodeError as error:
                faults.append(f"{where}: {error}")
                continue
            faults += [f"{where}: has no '{name}'" for name in REQUIRED if name not in line]
            faults += [f"{where}: '{name}' is no member of a result" for name in line if name not in REQUIRED + OPTIONAL]
            if ("peer" in line) != ("peer_tok_s" in line):
                faults.append(f"{where}: 'peer' and 'peer_tok_s' stand together")
            lines.append(line)
    if faults:
        sys.exit("\n".join(faults))
    return sorted(lines, key=lambda line: line["date"])


def newest(lines):
    """Returns the newest line of each machine, model, weights, states, form and case, in the order of first appearance."""
    found = {}
    for line in lines:
        found[tuple(line.get(name) for name in KEY)] = line
    return list(found.values())


def case_order(case):
    """Orders decode before prefill before the rest, and each by its numbers."""
    words = case.replace("x", " ").split()
    numbers = [int(word) for word in words if word.isdigit()]
    return (["decode", "prefill"].index(words[0]) if words[0] in ("decode", "prefill") else 2, numbers, case)


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def share(line):
    return f"{line['tok_s'] / line['roofline_tok_s']:.0%}".replace("%", " %") if "roofline_tok_s" in line else ""


def table(head, rows):
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head)] +
                     ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def long_table(lines):
    """One row a case: today's figure beside roofline, peer and aim. Columns that nothing fills are left out."""
    rows = []
    for line in sorted(lines, key=lambda line: case_order(line["case"])):
        rows.append({
            "case": line["case"], "Fulmar tok/s": number(line["tok_s"]),
            "roofline": number(line["roofline_tok_s"]) if "roofline_tok_s" in line else "", "of it": share(line),
            "peer": number(line["peer_tok_s"]) if "peer" in line else "",
            "times the peer": f"{line['tok_s'] / line['peer_tok_s']:.2f}" if "peer" in line else "",
            "aim": number(line["aim_tok_s"]) if "aim_tok_s" in line else "", "": line.get("note", "")})
    head = [name for name in rows[0] if any(row[name] for row in rows)]
    return table(head, [[row[name] for name in head] for row in rows])


def wide_table(lines, column):
    """Cases down, `column` across: tok/s, in brackets the share of the roofline and how many times the peer's rate."""
    names = list(dict.fromkeys(line.get(column, "") for line in lines))
    cases = sorted({line["case"] for line in lines}, key=case_order)
    cells = {(line["case"], line.get(column, "")): number(line["tok_s"]) + beside(line) for line in lines}
    return table(["case"] + names, [[case] + [cells.get((case, name), "") for name in names] for case in cases])


def beside(line):
    """Returns what stands in brackets behind a rate, or nothing."""
    parts = [share(line)] if share(line) else []
    if "peer" in line:
        parts.append(f"{line['tok_s'] / line['peer_tok_s']:.2f} x")
    return f" ({', '.join(parts)})" if parts else ""


def title(line):
    parts = [MODELS.get(line["model"], line["model"])]
    if line["weights"] == "f16":
        parts.append("16 bits")
    if "states" in line:
        parts.append(f"{line['states']} states")
    return ", ".join(parts)


def peers_of(lines):
    peers = sorted({line["peer"] for line in lines if "peer" in line})
    return f"; peer: {', '.join(peers)}" if peers else ""


def sections(lines):
    """Yields heading and text of each table of one machine."""
    for key in dict.fromkeys((line["model"], line.get("states"), "form" in line) for line in lines):
        mine = [line for line in lines if (line["model"], line.get("states"), "form" in line) == key]
        forms = list(dict.fromkeys(line.get("form") for line in mine))
        weights = list(dict.fromkeys(line["weights"] for line in mine))
        if forms == [None]:
            wide = [line for line in mine if line["weights"] != "f16"]
            long = [line for line in mine if line["weights"] == "f16"]
            if long:
                yield title(long[0]) + peers_of(long), long_table(long)
            if wide:
                yield title(wide[0]) + ", quantised" + peers_of(wide), wide_table(wide, "weights")
        elif len(forms) == 1:
            yield f"{MODELS[key[0]]}, {forms[0]}" + peers_of(mine), wide_table(mine, "weights")
        else:
            for kind in weights:
                of_kind = [line for line in mine if line["weights"] == kind]
                yield title(of_kind[0]) + ("" if kind == "f16" else f", `{kind}`") + peers_of(of_kind), wide_table(of_kind, "form")


def machine_order(machine):
    """Orders GPUs before CPUs, and fewer cards before more."""
    counts = ["NVIDIA", "two", "four", "eight"]
    first = machine.split()[0]
    return (counts.index(first) if first in counts else len(counts), machine)


def page(lines):
    text = [HEAD]
    today = newest(lines)
    for machine in sorted({line["machine"] for line in today}, key=machine_order):
        mine = [line for line in today if line["machine"] == machine]
        dates = sorted({line["date"] for line in mine})
        span = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
        text.append(f"## {machine[0].upper()}{machine[1:]}\n\n{span}; commits {', '.join(sorted({line['commit'] for line in mine}))}.\n")
        for heading, body in sections(mine):
            text.append(f"### {heading}\n\n{body}")
    return "\n".join(text)


def add(options):
    """Appends the lines of a report of `fulmar bench steps --json`."""
    report = json.loads(Path(options.report).read_text())
    with open(RESULTS / f"{options.file or options.machine.lower().replace(' ', '-')}.jsonl", "a") as out:
        for line in report["lines"]:
            case = f"decode {line['sequences']}" if line["decoding"] else f"prefill {line['sequences']}x{line['tokens']}"
            result = {"date": options.date, "commit": options.commit, "machine": options.machine, "command": options.command,
                      "model": report["model"].split(":")[0], "weights": options.weights, "states": line["state_dtype"], "case": case,
                      "tok_s": round(line["tokens_per_second"], 1)}
            if options.driver:
                result["driver"] = options.driver
            if line.get("roofline_tokens_per_second"):
                result["roofline_tok_s"] = round(line["roofline_tokens_per_second"], 1)
            out.write(json.dumps(result) + "\n")
    print(f"added {len(report['lines'])} lines")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare SPEED.md with the results instead of writing it")
    verbs = parser.add_subparsers(dest="verb")
    adding = verbs.add_parser("add", help="append the lines of a report")
    adding.add_argument("report")
    for name in ("--machine", "--weights", "--commit", "--command"):
        adding.add_argument(name, required=True)
    adding.add_argument("--file")
    adding.add_argument("--driver")
    adding.add_argument("--date", default=datetime.date.today().isoformat())
    options = parser.parse_args()
    if options.verb == "add":
        add(options)
    text = page(read())
    if options.check:
        if PAGE.read_text() != text:
            sys.exit("SPEED.md is not what bench/results makes: run tools/speed.py")
        print(f"speed: SPEED.md is what {len(read())} results make")
        return
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
