#!/usr/bin/env python3
"""Writes the table of limits in docs/operations.md from the constants of the code.

  tools/limits.py           writes the table
  tools/limits.py --check   fails where the table is not what the code says

In a row, {FILE NAME} is the constant or default NAME of src/FILE as a plain number; {FILE NAME*2 MiB} is computed and shown in that unit.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/operations.md"
HEAD, END = "| What | Bound |\n| --- | --- |\n", "\n\n"
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "s": 1000, "h": 3600, "million": 10**6, "": 1}

ROWS = [
    ("a request's body, also when it comes in gzip",
     "`--max-body-mib` ({server/core/options.h max_body_bytes MiB}), files {server/core/options.h max_file_bytes MiB} MiB, {server/core/options.h "
     "max_unkeyed_body_bytes MiB} MiB while a key is asked for and no header shows one: 413"),
    ("what comes out of gzip", "{net/gzip.cpp kTimes} times what was sent, and {net/gzip.cpp kAlways MiB} MiB: 413"),
    ("size lines and extensions of chunks, and the trailer",
     "{net/http_server.h max_head_bytes KiB} KiB each and, all together, beside the body: 431, 413"),
    ("bodies received and not yet read, all together",
     "{server/core/options.h max_file_bytes*2 GiB} GiB, those without a key {net/http_server.h max_held_unkeyed_body_bytes MiB} MiB; a client as much "
     "as remains free for others, so half at most: 503"),
    ("values in one JSON body, depth", "{net/json.h max_values} values, {net/json.h max_depth} levels: 400"),
    ("`model` and `state_id`, session ids", "{server/generate/intake.cpp kLongestModelName} and {engine/ask_rules.h kMostSessionBytes} bytes: 400"),
    ("roles, and names of functions and called functions",
     "{text/chat_template.h kLongestRole} bytes; no control characters, `:` or U+273F in roles, `A-Z a-z 0-9 _ -` in names: 400"),
    ("stop texts of a row, together", "{engine/ask_rules.h kMostStopBytes KiB} KiB: 400"),
    ("rows of a request, tokens of its prompts",
     "`--max-request-rows` ({server/core/options.h max_request_rows}), {server/core/options.h max_prompt_tokens}: 400"),
    ("what `echo` adds to an answer, with its log-probabilities", "{server/openai/completions.cpp kMostEchoBytes MiB} MiB, each log-probability counted as "
     "{server/openai/completions.cpp kScoreBytes} bytes: 400"),
    ("work of reading a request", "{server/core/options.h max_request_work million} million bytes touched and steps: 400"),
    ("requests that wait to be read", "{server/server.cpp kMostWaiting}, of one client {server/server.cpp kMostOfShare}: 503"),
    ("unsent bytes of a stream", "{net/http_server.h max_stream_backlog_bytes MiB} MiB: the client is cut off"),
    ("connections", "{net/http_server.h max_connections}, of one client (an IPv6 network of 64 bits is one) as many as remain free for others, so half at "
     "most; a trusted proxy's, and those of a worker's control plane, have no such share: closed at once"),
    ("head of a request",
     "{net/http_server.h max_head_bytes KiB} KiB, {net/request_reader.cpp kMostFields} fields, {net/http_server.h head_timeout s} s: 431, 408"),
    ("body", "480 KiB or the rest of it in every {net/http_server.h body_timeout s} s, so no pause longer than that: 408"),
    ("a model's files from a hub", "`--max-download-gib` ({hub/pull.h most_bytes GiB}), and what leaves {hub/transfer.h kDiskReserve GiB} GiB of the disk free"),
    ("a JSON schema, tools included",
     "{grammar/budget.h kDefault[0] KiB} KiB, {grammar/budget.h kDefault[1]} schemas and what compiling may cost ([api.md](api.md)): 400"),
    ("a pattern", "{grammar/pattern.h kMaxPatternBytes} bytes, groups {grammar/pattern.h kMaxGroupDepth} deep, repeats to {grammar/pattern.h kMaxRepeat}: 400"),
    ("masks of rows under a schema, each and together in one step",
     "{engine/mask_work.h work} counted steps each, beyond which longer tokens are left out; as much and the one beyond in a step: rows wait"),
    ("compiled schemas, patterns and grammars that are remembered",
     "{server/generate/constraint_cache.h kOfOne[0]} and {server/generate/constraint_cache.h kOfOne[1] MiB} MiB of each key, whose own oldest go first; "
     "{server/generate/constraint_cache.h kOfAll[0]} and {server/generate/constraint_cache.h kOfAll[1] MiB} MiB of all, those of the key with most go first"),
    ("stored answers of `/v1/responses`",
     "{server/responses/response_store.h kSeconds h} h; {server/responses/response_store.h kInFile[0] MiB} MiB of each key, whose own oldest go first, and "
     "{server/responses/response_store.h kInFile[1] GiB} GiB of all, half of what is left to each key that comes (in memory: {server/responses/response_store.h kInMemory[0] MiB} "
     "and {server/responses/response_store.h kInMemory[1] MiB} MiB): 503; beside the session file they outlive a restart"),
    ("texts of responses under way", "{server/responses/response_store.h kInFile[2] MiB} MiB of each key: 429; {server/responses/response_store.h kInFile[3] MiB} MiB of all: 503"),
    ("responses in the background that have not ended",
     "{server/responses/background_responses.h kMostOfOwner} of each key: 429; {server/responses/background_responses.h kMost} of all: 503"),
    ("paused requests", "{engine/engine_status.cpp kMostPaused[0]} of each key, and half of what {engine/engine_status.cpp kMostPaused[1]} for all leave free to each "
     "key that comes: pausing one more is refused (429), and none is forgotten"),
    ("adapters that are registered",
     "`--adapter-host` (1,024) MiB of all, {server/adapters/adapter_registry.h kMostAdaptersOfOwner} versions of each key: 507"),
    ("adapters on the devices of a model", "`--adapter-device` (512) MiB: 503 while those in use leave no room"),
    ("uploaded states", "{app/serve/state_folder.h kMostOfOwner} of each key: 503"),
]


def value_of(path, name):
    """Returns the number that src/PATH gives NAME, or NAME[N] of a braced list; exits where there is none."""
    text = (ROOT / "src" / path).read_text()
    plain, _, index = name.partition("[")
    found = re.search(rf"\b{plain}\s*(?:=|(?=\{{))\s*([^;]*?)\s*(?:;|,\s*k[A-Z])", text)
    if not found:
        sys.exit(f"limits: src/{path} gives no value to {plain}")
    given = re.sub(r"(\d)'(?=\d)", r"\1", found.group(1)).strip()
    given = re.sub(r"(?:size_t|u?int64_t)\{(\d+)\}", r"\1", given)
    given = re.sub(r"\bkMiB\b", str(1 << 20), given)
    if index:
        given = given.strip("{}").split(",")[int(index.rstrip("]"))]
    given = " ".join(given.strip("{} \n").split())
    if not re.fullmatch(r"[\d\s+*<]+", given):
        sys.exit(f"limits: src/{path} gives {plain} the value '{given}', which this tool cannot read")
    return eval(given)  # digits, + * and << only


def shown(match):
    """Returns the number that a reference in braces stands for, in its unit."""
    path, name, times, unit = match.groups()
    value = value_of(path, name) * int(times or 1)
    whole, rest = divmod(value, UNITS[unit or ""])
    if rest:
        sys.exit(f"limits: {name} is {value}, no whole number of {unit}")
    return f"{whole:,}"


def table():
    """Returns the rows as Markdown."""
    reference = re.compile(r"\{(\S+) ([\w\[\]]+)(?:\*(\d+))?(?: (\w+))?\}")
    return "\n".join(f"| {what} | {reference.sub(shown, bound)} |" for what, bound in ROWS)


def main():
    text = PAGE.read_text()
    before, head, rest = text.partition(HEAD)
    if not head:
        sys.exit(f"limits: no table of limits in {PAGE.relative_to(ROOT)}")
    old, _, after = rest.partition(END)
    if "--check" in sys.argv[1:]:
        if old != table():
            sys.exit("docs/operations.md: the table of limits is not what the code says; tools/limits.py writes it")
        return
    PAGE.write_text(before + head + table() + END + after)


main()
