"""The one page that reports are written into, self-contained HTML; and tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable

Table = tuple[list[str], list[list[str]]]  # heads and rows

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 15px/1.5 system-ui, sans-serif; color: #1b1b1b; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }}
h1 {{ font-size: 1.6rem; }} h2 {{ margin-top: 2.5rem; border-bottom: 1px solid #ccc; }} h3 {{ margin-bottom: .3rem; font-size: 1rem; }}
table {{ border-collapse: collapse; font-size: .85rem; margin: .7rem 0; }}
th, td {{ padding: .2rem .6rem; text-align: right; border-bottom: 1px solid #e3e3e3; font-variant-numeric: tabular-nums; }}
th:first-child, td:first-child {{ text-align: left; }} img, svg {{ max-width: 100%; }} svg text {{ font-size: 11px; fill: #555; }}
.note {{ background: #f3f6f9; border-left: 4px solid #0b6fa4; padding: .6rem 1rem; }}
.warn {{ background: #fdf4e7; border-left: 4px solid #c26a00; padding: .6rem 1rem; }} .small {{ color: #555; font-size: .85rem; }}
pre {{ background: #f6f6f6; padding: .8rem; overflow-x: auto; font-size: .75rem; }} ul.lights {{ list-style: none; padding-left: 0; }}
ul.lights span {{ display: inline-block; min-width: 5.5rem; text-align: center; border-radius: .6rem; color: #fff; font-size: .8rem; }}
.good {{ background: #2b7a3d; }} .fair {{ background: #b36b00; }} .bad {{ background: #b3261e; }}
</style></head><body>
{body}
</body></html>
"""


def page(title: str, parts: Iterable[str]) -> str:
    """The page of a title and parts, both HTML already."""
    return _PAGE.format(title=title, body="\n".join(parts))


def markdown(table: Table) -> str:
    """The table in Markdown, its columns aligned, so that it reads well as it is."""
    heads, rows = table
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in [heads, *rows]]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])
