"""The tables in the pages PAGES of docs, from the declarations: python -m lfdm_lab.mapping_page docs/reference/mapping.md"""

import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from lfdm_ros.bags.expressions import FUNCTIONS
from lfdm_ros.bags.mapping_keys import COLUMN_KEYS, FILE_KEYS, FORMATS, SOURCE_KEYS, TIME_KEYS, TOPIC_KEYS, Key
from lfdm_ros.files import write_text
from lfdm_ros.plants.fmu_plant import KEYS as PLANT_KEYS
from lfdm_ros.resources import share_directory

BEGIN, END = "<!-- mapping tables: python -m lfdm_lab.mapping_page docs/{} -->", "<!-- end of mapping tables -->"
# Topics that calibrations read, with the type of their messages.
TOPICS = {"vehicle/state": "VehicleState", "control/command": "DriverCommand"}


def markdown() -> str:
    """Returns the tables of keys, formats, functions, and fields of the topics that calibrations read."""
    parts = ["## The file", *_keys(FILE_KEYS), "## A source", *_keys(SOURCE_KEYS), "## Its `time`", *_keys(TIME_KEYS), "## A column",
             *_keys(COLUMN_KEYS), "## Formats", *_formats(), "## A topic", *_keys(TOPIC_KEYS), "## Functions of expressions", "",
             "Beside `+ - * / **`, comparisons, `and`, `or`, `not`, `pi` and `nan`; `source.column` is a column of another source, linear "
             "in between. All is in SI units and radians.", *_functions()]
    for topic, name in TOPICS.items():
        parts += [f"## Fields of `{topic}`, lfdm_ros/msg/{name}", *_fields(name)]
    return "\n".join(parts)


def plant_file() -> str:
    """Returns the table of a plant file's keys."""
    return "\n".join(_keys(PLANT_KEYS)).strip()


PAGES = {"reference/mapping.md": markdown, "howto/plants.md": plant_file}


def written_into(page: str, name: str) -> str:
    """Returns a page with the tables of `name` (of PAGES) between its marks."""
    begin = BEGIN.format(name)
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(END)
    return f"{before}{begin}\n\n{PAGES[name]()}\n\n{END}{after}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return ["", f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}", *(f"| {' | '.join(row)} |" for row in rows), ""]


def _keys(keys: Sequence[Key]) -> list[str]:
    return _table(("key", "written as", "what"), ((f"`{key.name}`", f"`{key.form}`", key.text) for key in keys))


def _formats() -> list[str]:
    return _table(("format", "files", "what is read", "needs"), (
        (f"`{f.name}`", ", ".join(f.suffixes), f.reads, f"`pip install {' '.join(f.packages)}`" if f.packages else "")
        for f in FORMATS.values()))


def _functions() -> list[str]:
    return _table(("function", "what"), ((f"`{name}({', '.join(f.arguments)})`", f.text) for name, f in FUNCTIONS.items()))


def _fields(name: str) -> list[str]:
    text = (share_directory() / "msg" / f"{name}.msg").read_text(encoding="utf-8")
    found = re.findall(r"^\s*(?:float64|int32)(\[\d*\])?\s+(\w+)\s*#\s*\[([^\]]+)\]\s*(.*)$", text, re.MULTILINE)
    rows = ((f"`{field}{_place(field) if array else ''}`", unit, text) for array, field, unit, text in found)
    return _table(("field", "unit", "what"), rows)


def _place(array: str) -> str:
    return "[fl]" if "_by_" in array else "[0]"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    write_text(path, written_into(path.read_text(encoding="utf-8"), "/".join(path.parts[-2:])))
