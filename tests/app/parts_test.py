#!/usr/bin/env python3
"""The list of parts of a release names what the program really has: parts_test.py PROGRAM BUILD"""
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import parts  # noqa: E402

PROGRAM, BUILD = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
MOST_LIBRARIES = 20  # beside those of glibc


def archive_with(folder, *libraries):
    path = Path(folder) / "fulmar-0-test.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for name in libraries:
            member = tarfile.TarInfo(f"fulmar-0-test/lib/fulmar/{name}")
            tar.addfile(member, io.BytesIO(b""))
    return path


def sbom(path):
    return subprocess.run([sys.executable, ROOT / "tools/parts.py", "sbom", BUILD, path], capture_output=True, text=True)


def check_cuda(folder):
    """The runtime of CUDA is linked statically: the list has it, and its licence comes along."""
    assert parts.cuda_toolkit(folder) is None
    licence = folder / "toolkit/dist-info/nvidia_cuda_runtime-13.0.1/licenses/License.txt"
    notes = folder / "with-cuda/CMakeFiles/3.25.1/CMakeCUDACompiler.cmake"
    for file, text in ((licence, "The licence"), (notes, f'set(CMAKE_CUDA_COMPILER_TOOLKIT_ROOT "{folder}/toolkit")\n'
                                                         'set(CMAKE_CUDA_COMPILER_TOOLKIT_VERSION "13.0.88")\n')):
        file.parent.mkdir(parents=True)
        file.write_text(text)
    (folder / "with-cuda/fulmar").symlink_to(PROGRAM)
    assert parts.cuda_toolkit(folder / "with-cuda") == ("13.0.88", folder / "toolkit")
    parts.copy_licences(folder / "with-cuda", folder / "cuda-licences")
    assert (folder / "cuda-licences/nvidia-cuda-runtime").read_text() == "The licence"
    part = parts.cuda_part("13.0.88")
    assert part.use == "static library" and part.licence in parts.EXTRACTED


def main():
    libraries = parts.loaded_libraries(PROGRAM)
    assert 5 < len(libraries) <= MOST_LIBRARIES, (len(libraries), libraries)
    packages = {package for package in parts.package_of(libraries).values()}
    assert None not in packages, parts.package_of(libraries)
    assert all(parts.licence_of(package) != "NOASSERTION" for package in packages), {one: parts.licence_of(one) for one in packages}
    assert parts.licence_of("zlib1g") == "Zlib"

    with tempfile.TemporaryDirectory() as folder:
        done = sbom(archive_with(folder, Path(libraries[0]).name))
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        assert document["spdxVersion"] == "SPDX-2.3" and document["packages"][0]["licenseDeclared"] == "Apache-2.0"
        named = {entry["name"]: entry for entry in document["packages"]}
        assert packages <= set(named), packages - set(named)
        assert any(name.startswith("libboost") for name in named), "headers that are compiled in"
        lock = json.loads((ROOT / "web/package-lock.json").read_text())["packages"]
        assert named["preact"]["versionInfo"] == lock["node_modules/preact"]["version"] and "esbuild" not in named
        identities = [entry["SPDXID"] for entry in document["packages"]]
        assert len(set(identities)) == len(identities)
        assert {link["relatedSpdxElement"] for link in document["relationships"]} == set(identities)
        done = sbom(archive_with(folder, "libstranger.so.1"))
        assert done.returncode != 0 and "libstranger.so.1" in done.stderr, done.stderr

        parts.copy_licences(BUILD, Path(folder) / "licences")
        runtime = {"nvidia-cuda-runtime"} if parts.cuda_toolkit(BUILD) else set()
        assert {path.name for path in (Path(folder) / "licences").iterdir()} == packages | runtime
        check_cuda(Path(folder))
    print("ok")


if __name__ == "__main__":
    main()
