#!/usr/bin/env python3
"""Fails on words that must not stand in the tree: history in names, unfinished work, registry hosts, long files."""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CODE = {".h", ".cpp", ".cu", ".cuh", ".py", ".js", ".jsx", ".mjs"}
BUNDLES = "web/dist"  # written by web/build.mjs: what is in it is partly of libraries
LONGEST = 500  # lines; a longer file says on top why it is not split ("Long because ...")
RULES = [
    (re.compile(r"\b(TODO|FIXME|XXX|HACK)\b"), "unfinished work", CODE),
    (re.compile(r"\b(deb\.debian\.org|registry\.npmjs\.(org|com)|pypi\.org|security\.debian\.org)\b"), "a registry's host", None),
    (re.compile(r"/work/(main|shared|\.library)|farm-(bench|studio)"), "a path of one machine", None),
]


def tracked():
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    return [Path(name) for name in listing.decode().split("\0") if name]


def main():
    problems = []
    for place in tracked():
        if place == Path("tools/check_text.py") or place.suffix in {".png", ".safetensors", ".pth", ".ico"}:
            continue
        try:
            text = (ROOT / place).read_text()
        except (UnicodeDecodeError, FileNotFoundError):
            continue
        lines = text.splitlines()
        for number, line in enumerate(lines, 1):
            for pattern, what, suffixes in RULES:
                ours = suffixes is None or (place.suffix in suffixes and str(place.parent) != BUNDLES)
                if ours and pattern.search(line):
                    problems.append(f"{place}:{number}: {what}: {line.strip()[:100]}")
        if place.suffix in CODE and str(place.parent) != BUNDLES and len(lines) > LONGEST:
            if "Long because" not in "\n".join(lines[:12]):
                problems.append(f"{place}: {len(lines)} lines; split it or say on top 'Long because ...'")
    print("\n".join(problems) if problems else "text: nothing that must not stand in the tree")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
