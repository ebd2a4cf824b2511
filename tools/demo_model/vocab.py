"""The demo model's vocabulary: 256 bytes, a few merged tokens, id 0 = end of text.

Ids: 0 end of text (no line in the file), byte b -> b + 1, then MERGED from 257
on.  The embedding has ROWS rows; the last ones are never used.
"""

from __future__ import annotations

import re
from pathlib import Path

MERGED = ["\n\n", "User", "✿", "Assistant", "System", "English", "Chinese", "<think", "</think"]
FIRST_MERGED = 257
ROWS = 320

_BYTES = [m.encode("utf-8") for m in MERGED]
_IDS = {m: FIRST_MERGED + i for i, m in enumerate(_BYTES)}
_SPLIT = re.compile(b"(" + b"|".join(re.escape(m) for m in sorted(_BYTES, key=len, reverse=True)) + b")")


def encode(text: str) -> list[int]:
    """Greedy longest match on the UTF-8 bytes (no merged token is a prefix of another)."""
    ids: list[int] = []
    for part in _SPLIT.split(text.encode("utf-8")):
        if part in _IDS:
            ids.append(_IDS[part])
        else:
            ids.extend([b + 1 for b in part])
    return ids


def decode(ids: list[int]) -> bytes:
    """Bytes of the tokens; id 0 and unused ids have none."""
    out = bytearray()
    for i in ids:
        if 1 <= i <= 256:
            out.append(i - 1)
        elif FIRST_MERGED <= i < FIRST_MERGED + len(_BYTES):
            out += _BYTES[i - FIRST_MERGED]
    return bytes(out)


def write(path: Path) -> None:
    """Write the vocabulary file: lines `ID LITERAL LENGTH`, LF, UTF-8."""
    lines = []
    for b in range(256):
        literal = repr(chr(b)) if b < 128 else repr(bytes([b]))
        lines.append(f"{b + 1} {literal} 1\n")
    for token, i in _IDS.items():
        lines.append(f"{i} {token.decode('utf-8')!r} {len(token)}\n")
    path.write_text("".join(lines), encoding="utf-8", newline="\n")
