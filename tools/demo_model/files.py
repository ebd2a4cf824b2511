"""Weight files: a safetensors writer and reader without dependencies."""

from __future__ import annotations

import json
import struct
from pathlib import Path

Raw = tuple[str, tuple[int, ...], bytes]  # dtype, shape, data


def write_safetensors(path: Path, tensors: dict[str, Raw], metadata: dict[str, str]) -> None:
    """Header with offsets that tile the data, padded to 8 bytes, then the data."""
    header: dict[str, object] = {"__metadata__": metadata}
    offset = 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)))
        out.write(text)
        for _, _, data in tensors.values():
            out.write(data)


def read_safetensors(path: Path) -> tuple[dict[str, Raw], dict[str, str]]:
    """All tensors as (dtype, shape, data) and the metadata."""
    blob = path.read_bytes()
    (length,) = struct.unpack_from("<Q", blob)
    header = json.loads(blob[8:8 + length])
    metadata = header.pop("__metadata__", {})
    base = 8 + length
    return {name: (e["dtype"], tuple(e["shape"]), blob[base + e["data_offsets"][0]:base + e["data_offsets"][1]])
            for name, e in header.items()}, metadata
