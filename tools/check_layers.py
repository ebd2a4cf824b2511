#!/usr/bin/env python3
"""Fails when a file of src/ includes a folder that its own folder's arrow does not reach.

The arrows are read from the fulmar_folder() lines of CMakeLists.txt, so there is one list only.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Libraries that only these files may include: their compile time or their spirit stays behind a narrow header.
CONFINED = {
    r"boost/": ["src/net/"],
    r"sqlite3\.h": ["src/cache/"],
    r"prometheus/": ["src/server/metrics"],
    r"simdjson": ["src/net/json", "src/files/", "src/text/vocabulary_json"],
    r"hwy/": ["src/cpu/"],
    r"CLI/": ["src/app/"],
    r"cuda|cublas": ["src/gpu/"],
    r"curl/": ["src/hub/"],
    r"hiredis": ["src/cache/"],
    r"yaml-cpp/": ["src/control/config_file"],
}


def arrows():
    """folder -> set of folders it may include (transitively)."""
    text = (ROOT / "CMakeLists.txt").read_text()
    direct = {}
    for name, rest in re.findall(r"fulmar_folder\((\w+)([^)]*)\)", text):
        uses = re.search(r"USES ((?:[a-z_]+ ?)+)", rest)
        direct[name] = set(uses.group(1).split()) if uses else set()
    reach = {}

    def walk(name):
        if name not in reach:
            reach[name] = {name}
            for other in direct.get(name, ()):
                reach[name] |= walk(other)
        return reach[name]

    for name in direct:
        walk(name)
    reach["app"] = set(direct) | {"app"}
    return reach


def main():
    reach, problems = arrows(), []
    for path in sorted((ROOT / "src").rglob("*")):
        if path.suffix not in {".h", ".cpp", ".cu", ".cuh"}:
            continue
        place = path.relative_to(ROOT)
        folder = place.parts[1]
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
            if not found:
                continue
            kind, target = found.groups()
            if kind == '"' and "/" in target:
                other = target.split("/")[0]
                if (ROOT / "src" / other).is_dir() and other not in reach.get(folder, {folder}):
                    problems.append(f"{place}:{number}: {folder}/ may not include {target}")
            for pattern, homes in CONFINED.items():
                if kind == "<" and re.match(pattern, target) and not any(str(place).startswith(h) for h in homes):
                    problems.append(f"{place}:{number}: <{target}> belongs to {', '.join(homes)} only")
    print("\n".join(problems) if problems else "layers: every include follows its arrow")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
