#!/usr/bin/env python3
"""Whatever reads from the network does so into what has a bound by construction, whatever reads a file that somebody
named neither waits nor ends the program (what writes one says why it cannot), and whatever runs on a thread of ours has one outermost handler. So each primitive without one has a single home in src/; its use elsewhere is an error."""
import pathlib
import re
import sys

# A primitive, the files that may use it, and what to use in its place.
HOMES = [
    (r"\b(?:flat_buffer|multi_buffer|flat_static_buffer|static_buffer|dynamic_buffer|dynamic_string_buffer|streambuf|"
     r"buffers_adaptor)\b", {"net/read_buffer.h"}, "ReadBuffer of net/read_buffer.h"),
    (r"\bredisReader\w*", {"cache/redis_link.cpp"}, "RedisLink, whose ReplyReader has a bound"),
    (r"::recv\s*\(|\bSSL_read\w*\s*\(", {"cache/byte_stream.cpp"}, "ByteStream, which reads into what it is given"),
    # Those of thread_pool compute and throw nothing, and are bound to processors.
    (r"\bstd::j?thread\b(?!::)|\bpthread_create\b", {"base/thread.h", "base/thread.cpp", "cpu/thread_pool.h", "cpu/thread_pool.cpp"},
     "Thread or run_on_threads of base/thread.h"),
    (r"\binflate\w*\s*\(", {"net/gzip.cpp", "files/zip.cpp"}, "gunzip of net/gzip.h"),
    (r"\b(?:std::)?(?:ifstream|fstream|istreambuf_iterator)\b", set(), "read_file of base/read_file.h"),
    # Of what was fetched, into a folder of ours.
    (r"\bfopen\s*\(|\bfreopen\s*\(", {"hub/transfer.cpp", "hub/file_digest.cpp"}, "read_file of base/read_file.h"),
    (r"\bO_RDONLY\b", {"base/read_file.cpp", "files/mapped_file.cpp", "hub/pull.cpp", "control/child_process.cpp"},
     "read_file of base/read_file.h"),
    (r"\b(?:ofstream|filebuf)\b", {"base/write_file.cpp"}, "write_file or write_whole_file of base/write_file.h, which say why they fail"),
]
COMMENT = re.compile(r"//.*")


def uses_elsewhere(root):
    """A line for each use of a primitive outside of its home, in the sources below `root`."""
    wrong = []
    for path in sorted(path for path in root.rglob("*") if path.suffix in {".cpp", ".h", ".cu"}):
        name = path.relative_to(root).as_posix()
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line.startswith("#include"):
                continue
            for pattern, homes, instead in HOMES:
                found = re.search(pattern, COMMENT.sub("", line))
                if found and name not in homes:
                    wrong.append(f"{name}:{number}: '{found[0]}' is for {', '.join(sorted(homes)) or 'no file'} alone; use {instead}")
    return wrong


def main():
    wrong = uses_elsewhere(pathlib.Path(__file__).parent.parent / "src")
    print("\n".join(wrong) if wrong else "readers: what comes from the network or a file has a bound wherever it is read")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
