#!/usr/bin/env python3
"""Draws the training loss as an SVG: plot.py training-log.csv training-loss.svg"""

from __future__ import annotations

import csv
import math
import sys
from pathlib import Path

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 760, 380, 70, 50, 30, 20


def draw(source: Path, target: Path) -> None:
    """Loss on answers, logarithmic, over millions of tokens."""
    with open(source, newline="") as file:
        rows = list(csv.DictReader(file))
    if len(rows) < 2:
        return
    xs = [int(r["tokens"]) / 1e6 for r in rows]
    ys = [math.log10(max(float(r["loss_answers"]), 1e-6)) for r in rows]
    low, high = math.floor(min(ys)), math.ceil(max(ys))
    high = max(high, low + 1)

    def px(x: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * x / xs[-1]

    def py(y: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - y) / (high - low)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
             'font-family="sans-serif" font-size="12">', '<rect width="100%" height="100%" fill="white"/>',
             f'<text x="{LEFT}" y="18">Fulmar demo model: cross-entropy per answer token (nats)</text>']
    for decade in range(low, high + 1):
        y = py(decade)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
                     f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{10.0 ** decade:g}</text>')
    for i in range(6):
        x = xs[-1] * i / 5
        parts.append(f'<text x="{px(x):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{x:.0f}</text>')
    parts.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 10}" text-anchor="middle">million tokens</text>')
    line = " ".join(f"{px(x):.1f},{py(y):.1f}" for x, y in zip(xs, ys))
    parts.append(f'<polyline points="{line}" fill="none" stroke="#1f6fb2" stroke-width="1.5"/></svg>')
    target.write_text("\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(sys.argv[2]))
