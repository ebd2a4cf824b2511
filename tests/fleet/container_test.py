#!/usr/bin/env python3
"""deploy/Containerfile installs what the program links: container_test.py PROGRAM CONTAINERFILE

Compares with the packages of this machine, so only where it runs the image's distribution; exit code 77 elsewhere.
"""
import re
import shutil
import subprocess
import sys

SKIPPED = 77
IN_EVERY_IMAGE = {"libc6", "libgcc-s1", "libstdc++6"}


def output(*words):
    return subprocess.run(words, check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout


def packages_of(program):
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", output("readelf", "-d", program))
    places = dict(re.findall(r"^\s*(\S+) => (\S+)", output("ldd", program), re.MULTILINE))
    needed = [library for library in needed if library in places]  # the loader is found by its full path
    found = set()
    for library in needed:
        found.add(owner(places[library]))
    return found - IN_EVERY_IMAGE


# A package may own a file under /lib that the linker finds under /usr/lib, and the other way round.
def owner(path):
    for place in (path, f"/usr{path}", path.removeprefix("/usr")):
        asked = subprocess.run(["dpkg", "-S", place], check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if asked.returncode == 0:
            return asked.stdout.split(":")[0]
    raise AssertionError(f"no package owns {path}")


def main():
    program, containerfile = sys.argv[1:]
    with open(containerfile, encoding="utf-8") as file:
        text = file.read()
    image = re.search(r"debian:(\w+)-slim", text)[1]
    with open("/etc/os-release", encoding="utf-8") as release:
        if f"VERSION_CODENAME={image}\n" not in release.read() or not all(map(shutil.which, ("dpkg", "readelf", "ldd"))):
            print(f"SKIPPED: this is not Debian {image} with binutils")
            return SKIPPED
    installed = set(re.findall(r"[\w.+-]+", text.split("-slim", 1)[1].split("rm -rf")[0]))
    missing = packages_of(program) - installed
    assert not missing, f"the image lacks {sorted(missing)}"
    print("passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
