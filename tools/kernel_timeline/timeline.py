#!/usr/bin/env python3
"""What each kernel adds to a step, from what inject.cpp wrote: its end less the latest end in front of it. Kernels
overlap (PDL), so their durations add up to more than the step, and what ncu measures of one alone is another thing.

    timeline.py STEPS.tsv [--list 40]    medians by kernel, in order; --list: the last so many, one by one
"""
import argparse
import re
import statistics
import sys
from collections import defaultdict

# Of the measurement itself, not of a step: weights on their way in, ceilings of reading, copying and multiplying. No
# kernel of a decode step takes a millisecond.
MEASURING = re.compile(r"ceilings|import_kernel|pack_(fragments|transposed)")
LONGEST_NS = 1_000_000


def own_name(mangled):
    """The identifier of a mangled name that ends in kernel, by the length in front of it."""
    for digits in re.finditer(r"\d+", mangled):
        for skipped in range(len(digits.group())):
            length = int(digits.group()[skipped:])
            name = mangled[digits.end():digits.end() + length]
            if len(name) == length and re.fullmatch(r"[a-z]\w*_kernel", name):
                return name
    library = re.search(r"nvjet_\w+|splitKreduce|cutlass_\w+", mangled)
    return library.group() if library else mangled[:40]


def short(mangled):
    """The kernel's own name and its tile's shape."""
    shape = re.findall(r"(?:Packed(?:Value)?Shape|PanelShape)", mangled)[:1]
    numbers = re.findall(r"(?:TileShape|PanelShape)I((?:L[im]\d+E)+)", mangled)[:1]
    return " ".join([own_name(mangled)] + shape + ["x".join(re.findall(r"\d+", n)) for n in numbers])


def kernels_of(path):
    found = []
    for line in open(path):
        start, end, blocks, threads, name = line.rstrip("\n").split("\t", 4)
        if not MEASURING.search(name) and int(end) - int(start) < LONGEST_NS:
            found.append((int(start), int(end), int(blocks), int(threads), short(name)))
    return sorted(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps")
    parser.add_argument("--list", type=int, default=0, metavar="N", help="also list the last N kernels")
    parser.add_argument("--window", type=int, default=400, metavar="N", help="kernels to take medians of (400)")
    arguments = parser.parse_args()
    kernels = kernels_of(arguments.steps)
    if not kernels:
        sys.exit(f"{arguments.steps}: no kernels of a step in it; was the program run with CUDA_INJECTION64_PATH?")
    latest, added = 0, []
    for start, end, blocks, threads, name in kernels:
        added.append((end - (latest or start)) / 1000)
        latest = max(latest, end)
    by_name = defaultdict(list)
    for (_, _, blocks, _, name), more in list(zip(kernels, added))[-arguments.window:]:
        by_name[f"{name}, {blocks} blocks"].append(more)
    print("   adds us  times  kernel")
    for name, values in by_name.items():
        print(f"{statistics.median(values):10.2f} {len(values):6}  {name}")
    first = kernels[-arguments.list][0] if arguments.list else 0
    for (start, end, blocks, threads, name), more in list(zip(kernels, added))[len(kernels) - arguments.list:]:
        print(f"{(start - first) / 1000:9.2f} to {(end - first) / 1000:9.2f} us, adds {more:6.2f}: "
              f"{name}, {blocks} x {threads}")


if __name__ == "__main__":
    main()
