"""draw a run over time, from the CSV of `lfdm simulate` or from a recording, beside another one"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lfdm_ros.errors import InputError, suggest
from lfdm_ros.reports import COLOURS, add_figure_argument, require_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EPILOG = """example:
  lfdm plot run.csv --figure run.png
  lfdm plot run.csv --fields vx yaw_rate roll --compare other.csv --figure run.pdf
  lfdm plot recordings/ramp_steer --fields vx control/command:steering imu:angular_velocity.z --figure run.svg
  lfdm plot recordings/ramp_steer --compare run.csv --figure run.png

A field of a recording is TOPIC:FIELD, or FIELD of vehicle/state or else of measured/state (`lfdm bag info` lists the topics)."""

DEFAULT = ("vx", "ay", "yaw_rate", "roll")
STATES = ("vehicle/state", "measured/state")  # topics of bare fields
_MAX_ROWS = 2_000_000


@dataclass(frozen=True)
class PlotTrace:
    """One field of one source: time (n,) [s] and value (n,), of many runs the median; band: the quantiles (2, n) around it."""

    time: np.ndarray
    value: np.ndarray
    band: np.ndarray | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="RUN.csv|BAG", type=Path)
    parser.add_argument("--fields", nargs="+", metavar="FIELD", help=f"columns, or fields of messages (default: of {', '.join(DEFAULT)} "
                        "those that there are, and the path from above)")
    parser.add_argument("--compare", metavar="OTHER", type=Path, help="another CSV or recording, in the same axes; it may lack fields")
    add_figure_argument(parser, "the picture (required)")


def run(args: argparse.Namespace) -> int:
    if args.figure is None:
        raise InputError("give --figure FILE, a name that ends in .png, .svg or .pdf")
    require_figure(args.figure)
    plot([path for path in (args.source, args.compare) if path is not None], args.figure, args.fields)
    print(args.figure)
    return 0


def plot(sources: Sequence[Path], figure: Path, fields: Sequence[str] | None = None) -> None:
    """Draws the fields of CSVs or recordings over time, by default DEFAULT and the path from above; all are those of the first source.
    Raises InputError: a source cannot be read, or the first one lacks a field."""
    requested = tuple(fields or (*DEFAULT, "x", "y"))
    alike = len({path.name for path in sources}) < len(sources)
    runs = {str(path) if alike else path.name: read(path, requested, all_needed=bool(fields) and path is sources[0]) for path in sources}
    found = [field for field in requested if any(field in traces for traces in runs.values())]
    if not found or (all(field in ("x", "y") for field in found) and not fields):
        raise InputError(f"{sources[0]}: has none of {', '.join(DEFAULT)}; name what it has with --fields")
    for name, traces in runs.items():
        if missing := [field for field in requested if field not in traces and fields]:
            print(f"{name} has no {', '.join(missing)}")
    save_figure(draw(runs, found, from_above=not fields), figure)


def read(path: Path, fields: tuple[str, ...], all_needed: bool) -> dict[str, PlotTrace]:
    """Returns the fields of a CSV or a recording by name. Raises InputError: it cannot be read, or lacks a field though all are needed."""
    return (_read_csv if path.suffix.lower() == ".csv" else _read_bag)(path, fields, all_needed)


def _read_csv(path: Path, fields: tuple[str, ...], all_needed: bool) -> dict[str, PlotTrace]:
    try:
        with path.open(encoding="utf-8") as file:
            names = [name.strip() for name in file.readline().split(",")]
            table = np.loadtxt(file, delimiter=",", max_rows=_MAX_ROWS, ndmin=2)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: not readable as a CSV: {error}") from None
    if "time" not in names or table.shape[1] != len(names):
        raise InputError(f"{path}: the first line must name the columns, one of them time")
    columns = dict(zip(names, table.T))
    traces: dict[str, PlotTrace] = {}
    for field in fields:
        if field in columns:
            traces[field] = PlotTrace(columns["time"], columns[field])
        elif f"{field}_q50" in columns:  # of `lfdm simulate --draws`
            low, middle, high = (columns[f"{field}_q{share}"] for share in ("05", "50", "95"))
            traces[field] = PlotTrace(columns["time"], middle, np.stack([low, high]))
        elif all_needed:
            raise InputError(f"{path} has no column '{field}'{suggest(field, names, 'it has ')}")
    return traces


def _read_bag(path: Path, fields: tuple[str, ...], all_needed: bool) -> dict[str, PlotTrace]:
    from lfdm_ros.bags import existing_fields, open_bag, read_series

    with open_bag(path) as bag:
        topics = {connection.topic.lstrip("/") for connection in bag.connections}
    state = next((topic for topic in STATES if topic in topics), STATES[0])
    by_topic: dict[str, list[str]] = {}
    for field in fields:
        topic, _, leaf = field.rpartition(":")
        by_topic.setdefault(topic or state, []).append(leaf)
    traces: dict[str, PlotTrace] = {}
    for topic, leaves in by_topic.items():
        if not all_needed:
            if topic.lstrip("/") not in topics:
                continue
            leaves = [leaf for leaf, present in zip(leaves, existing_fields(path, topic, leaves)) if present]
        if leaves:
            series = read_series(path, topic, leaves)
            for column, leaf in enumerate(leaves):
                name = next(field for field in fields if field in (leaf, f"{topic}:{leaf}"))
                traces[name] = PlotTrace(series.time, series.values[:, column])
    return traces


def draw(runs: dict[str, dict[str, PlotTrace]], fields: list[str], from_above: bool) -> Figure:
    """Draws a panel for each field over time, the runs in the same axes; with `from_above` x and y are the path from above, to scale."""
    from matplotlib.figure import Figure

    from lfdm_ros.models import get_model

    panels = [field for field in fields if not (from_above and field in ("x", "y"))]
    above = from_above and {"x", "y"} <= set(fields)
    figure = Figure(figsize=(9.0, 0.6 + 1.5 * len(panels) + 2.8 * above), layout="constrained")
    grid = figure.add_gridspec(len(panels) + above, 1, height_ratios=[2.0] * above + [1.0] * len(panels))
    if above:
        axis = figure.add_subplot(grid[0, 0])
        for (name, traces), colour, style in zip(runs.items(), COLOURS, ("-", "--")):
            if {"x", "y"} <= traces.keys():
                axis.plot(traces["x"].value, traces["y"].value, style, color=colour, lw=1.3, label=name)
        axis.set(xlabel="x [m]", ylabel="y [m]")
        axis.set_aspect("equal", adjustable="datalim")
        axis.grid(alpha=0.25, lw=0.6)
    units, shared = {field.name: field.unit for field in get_model("twenty_four_dof").outputs}, None
    for row, field in enumerate(panels, int(above)):
        axis = shared = figure.add_subplot(grid[row, 0], sharex=shared)
        for (name, traces), colour, style in zip(runs.items(), COLOURS, ("-", "--")):
            if field in traces:
                trace = traces[field]
                axis.plot(trace.time, trace.value, style, color=colour, lw=1.2, label=name)
                if trace.band is not None:
                    axis.fill_between(trace.time, *trace.band, color=colour, alpha=0.25, lw=0.0)
        label = f"{field.replace('_', ' ')}\n[{units[field]}]" if field in units else field.replace(":", "\n")
        axis.set_ylabel(label, fontsize=9)
        low, high = axis.get_ylim()
        middle, span = 0.5 * (low + high), max(high - low, 0.02 * abs(0.5 * (low + high)), 1e-3)
        axis.set_ylim(middle - 0.5 * span, middle + 0.5 * span)
        axis.ticklabel_format(useOffset=False)
        axis.grid(alpha=0.25, lw=0.6)
        axis.tick_params(labelbottom=row == len(panels) + above - 1)
    figure.axes[-1].set_xlabel("time [s]")
    figure.align_ylabels()
    handles = {label: handle for axis in figure.axes for handle, label in zip(*axis.get_legend_handles_labels())}
    figure.legend(list(handles.values()), list(handles), loc="outside upper left", ncols=2, fontsize=9, frameon=False)
    return figure
