"""Parts of reports: figures in PNG, SVG or PDF by the suffix of the name, numbers by name as a figure, HTML pages, tables in Markdown."""

from __future__ import annotations

import argparse
import html
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lfdm_ros.errors import InputError, reason
from lfdm_ros.files import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Table = tuple[list[str], list[list[str]]]  # heads and rows

SUFFIXES = (".png", ".svg", ".pdf")
# No two are closer than 20 in CIELAB to any of the common kinds of colour vision (test/cli/test_figures.py).
BLUE, ORANGE, GREEN, RED, VIOLET = "#0b6fa4", "#c26a00", "#2fbf7f", "#980f14", "#9a35e0"
GREY, PALE, INK = "#7d8790", "#b9c4d0", "#1b1b1b"
COLOURS = (BLUE, ORANGE, VIOLET, GREEN, RED, INK)  # of lines
DPI = 130  # of PNG
DOCS_DPI, DOCS_COLOURS = 90, 48  # of a PNG for a page of the documentation
# Without a date: the same run gives the same file.
_METADATA = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 15px/1.5 system-ui, sans-serif; color: #1b1b1b; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }}
h1 {{ font-size: 1.6rem; }} h2 {{ margin-top: 2.5rem; border-bottom: 1px solid #ccc; }} h3 {{ margin-bottom: .3rem; font-size: 1rem; }}
table {{ border-collapse: collapse; font-size: .85rem; margin: .7rem 0; }}
th, td {{ padding: .2rem .6rem; text-align: right; border-bottom: 1px solid #e3e3e3; font-variant-numeric: tabular-nums; }}
th:first-child, td:first-child {{ text-align: left; }} img {{ max-width: 100%; }}
.note {{ background: #f3f6f9; border-left: 4px solid #0b6fa4; padding: .6rem 1rem; }}
.warn {{ background: #fdf4e7; border-left: 4px solid #c26a00; padding: .6rem 1rem; }} .small {{ color: #555; font-size: .85rem; }}
pre {{ background: #f6f6f6; padding: .8rem; overflow-x: auto; font-size: .75rem; }} ul.lights {{ list-style: none; padding-left: 0; }}
ul.lights span {{ display: inline-block; min-width: 5.5rem; text-align: center; border-radius: .6rem; color: #fff; font-size: .8rem; }}
.good {{ background: #2b7a3d; }} .fair {{ background: #b36b00; }} .bad {{ background: #b3261e; }}
</style></head><body>
{body}
</body></html>
"""


@dataclass(frozen=True)
class NamedValue:
    """A number to draw, with the interval that it lies in."""

    name: str
    value: float
    low: float
    high: float


def by_unit(values: Iterable[tuple[str, NamedValue]]) -> list[tuple[str, list[NamedValue]]]:
    """Sorts numbers with their units into panels, one for each unit."""
    panels: dict[str, list[NamedValue]] = {}
    for unit, value in values:
        panels.setdefault(unit, []).append(value)
    return list(panels.items())


def draw_values(panels: Iterable[tuple[str, Sequence[NamedValue]]], marks: Sequence[float] = ()) -> Figure:
    """Draws numbers by name, a panel for each (label of the axis, values), the first value on top.

    An axis is logarithmic where all of its numbers are positive and the largest is more than 30 times the smallest.

    Args:
        marks: numbers to compare with, a line across all panels for each.
    """
    from matplotlib.figure import Figure

    panels = [(label, values) for label, values in panels if values]
    heights = [0.7 + 0.24 * len(values) for _, values in panels]
    figure = Figure(figsize=(7.0, 0.2 + sum(heights)), layout="constrained")
    for axis, (label, values) in zip(figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0], panels):
        for mark in marks:
            axis.axvline(mark, color=ORANGE, lw=1.0, ls="--", zorder=1)
        at = range(len(values))
        spans = [(max(v.value - v.low, 0.0), max(v.high - v.value, 0.0)) for v in values]
        axis.errorbar([v.value for v in values], at, xerr=list(zip(*spans)), fmt="o", ms=4.0, lw=1.2, capsize=2.0, color=BLUE)
        finite = [number for v in values for number in (v.value, v.low) if math.isfinite(number)]
        if finite and min(finite) > 0.0 and max(finite) > 30.0 * min(finite):
            axis.set_xscale("log")
        axis.set_yticks(at, [v.name for v in values], fontsize=8)
        axis.set_ylim(len(values) - 0.5, -0.5)
        axis.set_xlabel(label, fontsize=9)
        axis.grid(alpha=0.25, lw=0.6, axis="x")
    return figure


def add_figure_argument(parser: argparse.ArgumentParser, shown: str) -> None:
    """Adds --figure FILE to a command that draws `shown`."""
    parser.add_argument("--figure", type=Path, metavar="FILE", help=f"draw {shown}: PNG, SVG or PDF by the name's suffix")


def require_figure(path: Path | None, option: str = "--figure") -> None:
    """Checks the file name of a figure before the computation; None passes. Raises InputError: no suffix of SUFFIXES, or no such folder."""
    if path is None:
        return
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"{option} {path}: a picture is PNG, SVG or PDF; give a name that ends in .png, .svg or .pdf")
    if not path.resolve().parent.is_dir():
        raise InputError(f"{option} {path}: no such folder")


def save_figure(figure: Figure, path: Path) -> None:
    """Writes a figure in the format of its name, whole or not at all.

    Raises:
        InputError: as `require_figure`.
        OSError: as the disk does.
    """
    import matplotlib

    require_figure(path)
    suffix = path.suffix.lower()
    with matplotlib.rc_context({"svg.hashsalt": "lfdm", "pdf.fonttype": 42}), replacing(path) as partial:
        figure.savefig(partial, dpi=DPI, format=suffix[1:], metadata=_METADATA[suffix])


def save_pictures(figure: Figure, stem: Path) -> None:
    """Writes a figure as STEM.png, for the screen, and as STEM.svg, for print; as `save_figure`."""
    for suffix in (".png", ".svg"):
        save_figure(figure, stem.with_name(stem.name + suffix))


def save_png(figure: Figure, path: Path) -> None:
    """Writes a PNG of few colours, a third of the size. Raises InputError where it cannot be written."""
    from PIL import Image

    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=DOCS_DPI)
    try:
        # Not the usual median cut: it gives thin lines of different colours the same.
        image = Image.open(drawn).convert("RGB").quantize(DOCS_COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        with replacing(path) as partial:
            image.save(partial, format="png", optimize=True)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot write {path}: {reason(error)}") from None


def html_page(title: str, parts: Iterable[str]) -> str:
    """Returns the self-contained page of a title and parts, both HTML already."""
    return _PAGE.format(title=title, body="\n".join(parts))


def html_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table in HTML; cells are plain text."""
    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    return "<table>" + line(heads, "th") + "".join(line(row, "td") for row in rows) + "</table>"


def markdown_table(table: Table) -> str:
    """Returns the table in Markdown with aligned columns, readable as plain text."""
    heads, rows = table
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in [heads, *rows]]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])
