#!/usr/bin/env python3
"""Draws size, speed and cost of the kinds of weights side by side: quantisation_plot.py [TABLE SVG]

The table is docs/quantisation.tsv unless named: kind, GB of a 7.2B model, tokens a second of one answer (empty: not
measured), then for each model the error of its logits ("error of NAME") and other columns, which are not drawn.
"""
import math
import sys
from pathlib import Path

ROW, TOP, BOTTOM, LABEL, PANEL, GAP = 22, 64, 34, 86, 210, 26
COLOURS = ["#2563eb", "#dc2626", "#059669"]
ERRORS = (0.002, 2.0)


def text(x, y, words, size=11, anchor="start", colour="#374151"):
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}">{words}</text>'


def left_of(panel):
    return LABEL + panel * (PANEL + GAP)


def bars(panel, title, values, unit):
    """One bar a row; rows without a value stay empty."""
    parts = [text(left_of(panel), TOP - 30, title, 12)]
    most = max(value for value in values if value is not None)
    for row, value in enumerate(values):
        y = TOP + row * ROW
        if value is None:
            parts.append(text(left_of(panel), y + 13, "not measured", 10, colour="#9ca3af"))
            continue
        width = (PANEL - 54) * value / most
        parts.append(f'<rect x="{left_of(panel)}" y="{y + 3}" width="{width:.1f}" height="13" fill="#93c5fd"/>')
        parts.append(text(left_of(panel) + width + 4, y + 13, f"{value:g}{unit}", 10))
    return parts


def x_of_error(error):
    low, high = math.log(ERRORS[0]), math.log(ERRORS[1])
    return left_of(2) + PANEL * (math.log(min(max(error, ERRORS[0]), ERRORS[1])) - low) / (high - low)


def dots(header, rows, height):
    """The error of each model on one logarithmic scale."""
    parts = [text(left_of(2), TOP - 30, "error of the logits (rms, standard deviations)", 12)]
    for tick in (0.002, 0.01, 0.1, 1):
        parts.append(f'<path d="M{x_of_error(tick):.1f} {TOP}V{height - BOTTOM}" stroke="#e5e7eb"/>')
        parts.append(text(x_of_error(tick), height - BOTTOM + 16, tick, 10, "middle"))
    models = [i for i, name in enumerate(header) if name.startswith("error of ")]
    for number, column in enumerate(models):
        colour = COLOURS[number % len(COLOURS)]
        x = left_of(2) + number * 74
        parts.append(f'<circle cx="{x + 4}" cy="{TOP - 14}" r="4" fill="{colour}"/>')
        parts.append(text(x + 12, TOP - 10, header[column][len("error of "):], 10, colour=colour))
        for row, cells in enumerate(rows):
            parts.append(f'<circle cx="{x_of_error(float(cells[column])):.1f}" cy="{TOP + row * ROW + 10}" r="4" '
                         f'fill="{colour}" fill-opacity="0.8"/>')
    return parts


def main():
    folder = Path(__file__).resolve().parent.parent / "docs"
    table, svg = sys.argv[1:] or (folder / "quantisation.tsv", folder / "images" / "quantisation.svg")
    lines = [line for line in Path(table).read_text().splitlines() if not line.startswith("#")]
    header, *rows = [line.split("\t") for line in lines]
    width, height = left_of(3), TOP + len(rows) * ROW + BOTTOM
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">',
             f'<rect width="{width}" height="{height}" fill="white"/>']
    parts += [text(LABEL - 8, TOP + row * ROW + 14, cells[0], 11, "end") for row, cells in enumerate(rows)]
    parts += bars(0, "weights of a 7.2B model", [float(cells[1]) for cells in rows], " GB")
    parts += bars(1, "one answer on an H200", [float(cells[2]) if cells[2] else None for cells in rows], " tok/s")
    parts += dots(header, rows, height)
    Path(svg).write_text("\n".join(parts + ["</svg>"]) + "\n")


if __name__ == "__main__":
    main()
