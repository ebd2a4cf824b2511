#!/usr/bin/env python3
"""Fails when a file of src/ includes a folder that its own folder's arrow does not reach, or when includes go in a circle.

The arrows are read from the fulmar_folder() and fulmar_room() lines of CMakeLists.txt, so there is one list only. A room
is a folder within a folder: it may include the rooms that its arrow reaches and the folders that its folder may, but
nothing that lies in its folder itself. Who may include a folder may include all of its rooms.

And when more folders include others than a reader can hold in mind (MOST_ARROWS), or when a test that every build
compiles reaches a GPU library's headers, which not every machine has.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}
# Libraries that only these files may include: their compile time or their spirit stays behind a narrow header.
CONFINED = {
    r"boost/": ["src/net/", "src/hub/web_get"],
    r"sqlite3\.h": ["src/cache/"],
    r"prometheus/": ["src/server/core/metrics"],
    r"simdjson": ["src/net/json", "src/adapters/", "src/files/", "src/text/vocabulary_json"],
    r"hwy/": ["src/cpu/"],
    r"CLI/": ["src/app/"],
    r"cuda|cublas": ["src/gpu/"],
    r"hiredis": ["src/cache/"],
    r"yaml-cpp/": ["src/control/config_file"],
}

# Pairs of folders of which one includes the other.
MOST_ARROWS = 93

VENDOR_HEADERS = r"cuda|cublas|hip/"
# Tests that are built only where those headers are.
VENDOR_TESTS = ["tests/gpu/vendor/", "tests/gpu/sm90/"]


def declared():
    """folder or folder/room -> those that its line names."""
    text = (ROOT / "CMakeLists.txt").read_text()
    direct = {}
    for name, rest in re.findall(r"fulmar_(?:folder|room)\(([\w/]+)([^)]*)\)", text):
        uses = re.search(r"USES ((?:[a-z_/0-9]+ ?)+)", rest)
        direct[name] = set(uses.group(1).split()) if uses else set()
    direct["app"] = {name for name in direct if "/" not in name}
    return direct


def circle_in(graph):
    """A list of nodes that lead back to the first one, or None."""
    done, path = set(), []

    def walk(node):
        if node in path:
            return path[path.index(node):] + [node]
        if node in done:
            return None
        path.append(node)
        for other in sorted(graph.get(node, ())):
            found = walk(other)
            if found:
                return found
        path.pop()
        done.add(node)
        return None

    for node in sorted(graph):
        found = walk(node)
        if found:
            return found
    return None


def reach_of(direct):
    """folder or room -> all that it may include, itself among them."""
    reach = {}

    def walk(name):
        if name not in reach:
            reach[name] = {name}
            for other in direct.get(name, ()):
                reach[name] |= walk(other)
        return reach[name]

    for name in direct:
        walk(name)
    for name in direct:
        folder = name.split("/")[0]
        if "/" in name:
            reach[name] |= reach.get(folder, set()) - {folder}
    for name in direct:
        own = name.split("/")[0]
        reach[name] |= {room for room in direct if "/" in room and room.split("/")[0] in reach[name]
                        and ("/" not in name or room.split("/")[0] != own)}
    return reach


def place_of(parts, direct):
    """The room or folder that a path below src/ belongs to; parts of a room (sm90/) are the room's."""
    room = "/".join(parts[:2])
    return room if len(parts) > 2 and room in direct else parts[0]


def includes_of(path):
    """(line, "<" or '"', what is included) of a file."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        found = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if found:
            yield number, *found.groups()


def vendor_header_behind(path, known):
    """How a file's includes lead to a GPU library's header: its files and the header, or None."""
    if path not in known:
        known[path] = None
        for _, kind, target in includes_of(path):
            if kind == "<" and re.match(VENDOR_HEADERS, target):
                known[path] = [f"<{target}>"]
            below = [root / target for root in (ROOT / "src", ROOT / "tests") if (root / target).is_file()]
            for file in below if kind == '"' else []:
                further = vendor_header_behind(file, known)
                if further:
                    known[path] = [target] + further
            if known[path]:
                break
    return known[path]


def tests_that_need_a_vendor():
    known = {}
    for path in sorted((ROOT / "tests").rglob("*_test.cpp")):
        place = str(path.relative_to(ROOT))
        way = None if any(place.startswith(home) for home in VENDOR_TESTS) else vendor_header_behind(path, known)
        if way:
            yield f"{place}: reaches {' -> '.join(way)}; such tests belong to {' or '.join(VENDOR_TESTS)}"


def arrows_between(files):
    """The pairs of folders of which one includes the other, from the includes of each file below src/."""
    pairs = {(file.split("/")[0], target.split("/")[0]) for file, targets in files.items() for target in targets}
    return {(own, other) for own, other in pairs if own != other}


def main():
    direct, problems, files = declared(), [], {}
    circle = circle_in(direct)
    if circle:
        print("declared arrows go in a circle: " + " -> ".join(circle))
        return 1
    reach = reach_of(direct)
    src = ROOT / "src"
    for path in sorted(src.rglob("*")):
        if path.suffix not in SUFFIXES:
            continue
        place = path.relative_to(ROOT)
        own = place_of(place.parts[1:], direct)
        rooms = [name for name in direct if name.startswith(place.parts[1] + "/")]
        if rooms and own not in direct:
            problems.append(f"{place}: no room of CMakeLists.txt; wanted one of {', '.join(rooms)}")
        includes = files.setdefault(str(path.relative_to(src)), set())
        for number, kind, target in includes_of(path):
            if kind == '"' and (src / target).is_file():
                includes.add(target)
                other = place_of(target.split("/"), direct)
                if other not in reach.get(own, {own}):
                    problems.append(f"{place}:{number}: {own}/ may not include {target}")
            for pattern, homes in CONFINED.items():
                if kind == "<" and re.match(pattern, target) and not any(str(place).startswith(h) for h in homes):
                    problems.append(f"{place}:{number}: <{target}> belongs to {', '.join(homes)} only")
    problems += tests_that_need_a_vendor()
    circle = circle_in(files)
    if circle:
        problems.append("includes go in a circle: " + " -> ".join(circle))
    arrows = len(arrows_between(files))
    if arrows > MOST_ARROWS:
        problems.append(f"{arrows} pairs of folders of which one includes the other; wanted: at most {MOST_ARROWS}")
    print("\n".join(problems) if problems else
          f"layers: every include follows one of {arrows} arrows, and none goes in a circle")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
