"""Series of drives or calibrations, and their summaries."""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

STUDIES = str(Path(__file__).parent)  # folder of the sources, which results depend on


def grouped(runs: Iterable[Mapping[str, Any]], *keys: str) -> dict[tuple[Any, ...], list[Mapping[str, Any]]]:
    """Groups runs by the values of `keys`; lists become tuples."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for run in runs:
        groups.setdefault(tuple(tuple(run[key]) if isinstance(run[key], list) else run[key] for key in keys), []).append(run)
    return groups


def format_number(value: float | None, digits: int = 2) -> str:
    """Formats a number; "-" for None, NaN and infinity."""
    return "-" if value is None or not math.isfinite(value) else f"{value:.{digits}f}"
