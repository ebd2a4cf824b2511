#!/usr/bin/env python3
"""What a build of Fulmar consists of besides its own code, from the package database, the build's notes of which headers it
read, and the lock file of the pages:

    tools/parts.py sbom BUILD ARCHIVE          prints a list of all parts (SPDX 2.3, JSON) of the archive made from BUILD
    tools/parts.py licences BUILD FOLDER       copies the licences of the libraries that BUILD's program has into FOLDER
"""
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Short names of Debian's copyright files (DEP 5) where SPDX spells them otherwise.
SPDX_NAMES = {"Expat": "MIT", "X11": "X11", "BSD-2-clause": "BSD-2-Clause", "BSD-3-clause": "BSD-3-Clause", "public-domain": "LicenseRef-public-domain",
              "Expat with embedded exception": "MIT"}  # it allows more, and asks for nothing
SPDX_KNOWN = {"MIT", "X11", "BSD-2-Clause", "BSD-3-Clause", "Apache-2.0", "BSL-1.0", "Zlib", "ISC", "MPL-2.0", "OpenSSL", "GPL-2.0-only"}
# Packages whose copyright files are not in that form.
SPDX_PROSE = {"gcc": "GPL-3.0-or-later WITH GCC-exception-3.1", "glibc": "LGPL-2.1-or-later"}
# What licences say that SPDX has no name for.
EXTRACTED = {"LicenseRef-public-domain": "In the public domain.",
             "LicenseRef-NVIDIA-CUDA-EULA": "NVIDIA's licence agreement of the CUDA toolkit; the runtime may be passed on with a program."}


@dataclass(frozen=True)
class Part:
    name: str
    version: str
    licence: str  # an SPDX expression, or NOASSERTION
    origin: str   # purl
    use: str      # how the program has it


def run(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def package_of(files):
    """file -> Debian package, for those that belong to one."""
    found = {}
    names = sorted({str(file) for file in files})
    # A merged /usr knows a file by either of its names.
    either = {name: [name, name.removeprefix("/usr") if name.startswith("/usr/lib") else "/usr" + name] for name in names}
    asked = [one for pair in either.values() for one in pair]
    for begin in range(0, len(asked), 500):
        text = subprocess.run(["dpkg-query", "--search", *asked[begin:begin + 500]], capture_output=True, text=True).stdout
        for line in text.splitlines():
            packages, _, path = line.partition(": ")
            found[path.strip()] = packages.split(",")[0].split(":")[0]
    return {name: next((found[one] for one in pair if one in found), None) for name, pair in either.items()}


def loaded_libraries(program):
    """Paths of the shared libraries that the program loads, those of glibc left out: they are the system's."""
    paths = re.findall(r"=> (/\S+)", run("ldd", str(program)))
    system = re.compile(r"/lib(c|m|dl|rt|pthread|resolv)\.so|/ld-linux")
    return [os.path.realpath(path) for path in paths if not system.search(path)]


def headers_read(build):
    """Headers outside of the repository that the program's own objects were compiled with."""
    headers, wanted = set(), False
    for line in run("ninja", "-C", str(build), "-t", "deps").splitlines():
        if not line.startswith(" "):
            wanted = re.match(r"CMakeFiles/fulmar(_[a-z0-9]+)?\.dir/", line) is not None and "_test.dir/" not in line
        elif wanted and line.strip().startswith("/usr/include"):
            headers.add(line.strip())
    return headers


def licence_of(package):
    """The licence of a package's main part, as its copyright file says."""
    file = Path(f"/usr/share/doc/{package}/copyright")
    text = file.read_text(errors="replace") if file.exists() else ""
    source = run("dpkg-query", "-W", "-f", "${source:Package}", package)
    if not text.startswith("Format:"):
        return next((value for prefix, value in SPDX_PROSE.items() if source.startswith(prefix)), "NOASSERTION")
    for paragraph in re.split(r"\n\s*\n", text):
        if re.search(r"^Files:\s*\*", paragraph, re.M):
            found = re.search(r"^License:[ ]*(\S.*?)\s*$", paragraph, re.M)
            name = found and SPDX_NAMES.get(found.group(1), found.group(1))
            return name if name in SPDX_KNOWN or (name or "").startswith("LicenseRef-") else "NOASSERTION"
    found = re.search(r"^License:[ ]*(\S.*?)\s*$", text, re.M)
    name = found and SPDX_NAMES.get(found.group(1), found.group(1))
    return name if name in SPDX_KNOWN else "NOASSERTION"


def debian_part(package, use):
    version = run("dpkg-query", "-W", "-f", "${Version}", package)
    return Part(package, version, licence_of(package), f"pkg:deb/debian/{package}@{version}", use)


def cuda_toolkit(build):
    """(version, root) of the toolkit that BUILD was compiled with, whose runtime is linked statically; None without CUDA."""
    for notes in build.glob("CMakeFiles/*/CMakeCUDACompiler.cmake"):
        facts = dict(re.findall(r'^set\((CMAKE_CUDA_COMPILER_TOOLKIT_\w+) "([^"]*)"\)', notes.read_text(), re.M))
        return facts["CMAKE_CUDA_COMPILER_TOOLKIT_VERSION"], Path(facts["CMAKE_CUDA_COMPILER_TOOLKIT_ROOT"])
    return None


def cuda_part(version):
    return Part("nvidia-cuda-runtime", version, "LicenseRef-NVIDIA-CUDA-EULA", f"pkg:generic/nvidia-cuda-runtime@{version}", "static library")


def cuda_licence(root):
    """The file with the toolkit's licence: in its root, or among those of the package of its runtime."""
    return next((file for pattern in ("EULA.txt", "dist-info/nvidia_cuda_runtime-*/licenses/*") for file in root.glob(pattern)), None)


def page_parts():
    """The libraries in the pages' bundles."""
    lock = json.loads((ROOT / "web/package-lock.json").read_text())
    for path, entry in lock["packages"].items():
        if path and not entry.get("dev") and not entry.get("optional"):
            name = path.split("node_modules/")[-1]
            yield Part(name, entry["version"], entry.get("license", "NOASSERTION"), f"pkg:npm/{name.replace('@', '%40')}@{entry['version']}", "in the pages")


def parts_of(build):
    libraries = {package for package in package_of(loaded_libraries(build / "fulmar")).values() if package}
    headers = {package for package in package_of(headers_read(build)).values() if package}
    parts = [debian_part(package, "shared library") for package in sorted(libraries)]
    parts += [debian_part(package, "headers compiled in") for package in sorted(headers)]
    toolkit = cuda_toolkit(build)
    return parts + ([cuda_part(toolkit[0])] if toolkit else []) + list(page_parts())


def sbom(build, archive):
    version = run(str(build / "fulmar"), "--version").split()[1]
    content = archive.read_bytes()
    with tarfile.open(archive) as tar:
        bundled = {Path(name).name for name in tar.getnames() if "/lib/fulmar/" in name and ".so" in name}
    parts = parts_of(build)
    loaded = {Path(path).name for path in loaded_libraries(build / "fulmar")}
    strangers = sorted(name for name in bundled if not any(name.startswith(other.split(".so")[0]) for other in loaded))
    if strangers:
        raise SystemExit(f"parts: the archive has libraries that the program does not load: {', '.join(strangers)}")
    identity = lambda text: "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", text)
    packages = [{
        "SPDXID": "SPDXRef-fulmar", "name": "fulmar", "versionInfo": version, "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
        "packageFileName": archive.name, "checksums": [{"algorithm": "SHA256", "checksumValue": hashlib.sha256(content).hexdigest()}],
        "licenseConcluded": "NOASSERTION", "licenseDeclared": "Apache-2.0", "copyrightText": "NOASSERTION",
    }]
    links = [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-fulmar"}]
    for part in parts:
        packages.append({
            "SPDXID": identity(f"{part.name}-{part.version}"), "name": part.name, "versionInfo": part.version, "downloadLocation": "NOASSERTION",
            "filesAnalyzed": False, "licenseConcluded": "NOASSERTION", "licenseDeclared": part.licence, "copyrightText": "NOASSERTION", "comment": part.use,
            "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": part.origin}],
        })
        links.append({"spdxElementId": "SPDXRef-fulmar", "relatedSpdxElement": packages[-1]["SPDXID"],
                      "relationshipType": {"shared library": "DYNAMIC_LINK", "static library": "STATIC_LINK"}.get(part.use, "CONTAINS")})
    moment = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", datetime.now().timestamp())), timezone.utc)
    return {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": archive.name,
        "documentNamespace": f"urn:fulmar:{version}:{hashlib.sha256(content).hexdigest()}",
        "creationInfo": {"created": moment.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: fulmar-parts"]},
        "hasExtractedLicensingInfos": [{"licenseId": name, "extractedText": text} for name, text in EXTRACTED.items()
                                       if any(part.licence == name for part in parts)],
        "packages": packages, "relationships": links,
    }


def copy_licences(build, folder):
    if not shutil.which("dpkg-query"):
        print("parts: no package database here: the licences of the libraries are not copied", file=sys.stderr)
        return
    folder.mkdir(parents=True, exist_ok=True)
    for package in sorted({package for package in package_of(loaded_libraries(build / "fulmar")).values() if package}):
        shutil.copyfile(f"/usr/share/doc/{package}/copyright", folder / package)
    toolkit = cuda_toolkit(build)
    if toolkit and (licence := cuda_licence(toolkit[1])):
        shutil.copyfile(licence, folder / "nvidia-cuda-runtime")
    elif toolkit:
        print(f"parts: {toolkit[1]} has no text of its licence; the archive will lack it", file=sys.stderr)


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "sbom":
        json.dump(sbom(Path(sys.argv[2]), Path(sys.argv[3])), sys.stdout, indent=1)
        print()
    elif len(sys.argv) == 4 and sys.argv[1] == "licences":
        copy_licences(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
