"""measure what docs/reference/figures.md claims; the measurements are lfdm_lab/benchmarks/NAME.py"""

from __future__ import annotations

import argparse
import importlib.util
import inspect
import json
import os
import platform
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from lfdm_lab.cli.bench_peer import Peer, library_peers
from lfdm_ros.cli.common import show_progress
from lfdm_ros.errors import InputError, suggest
from lfdm_ros.files import write_text
from lfdm_ros.reports import NamedValue, add_figure_argument, by_unit, draw_values, require_figure, save_figure

EPILOG = """examples:
  lfdm bench batch --json batch.json
  lfdm bench calibration --runs 5 --only smc
  lfdm bench mpc --models driven_bicycle --solvers hpipm piqp
  lfdm bench models --only '*/tmeasy/*' --peer 'eighteen_dof/tmeasy/lane_change=./my_program {inputs}'
      a program that simulates 10 s at 1 ms and prints its time in ms last; {inputs} is replaced by a file of the
      driver inputs (rows of time, steering, throttle, brake; linear between them)"""


@dataclass(frozen=True)
class Measurement:
    """A number: the median of its runs, and their spread (largest minus smallest)."""

    name: str
    value: float
    unit: str
    spread: float
    runs: int

    @classmethod
    def of(cls, name: str, values: Sequence[float], unit: str) -> Measurement:
        return cls(name, statistics.median(values), unit, max(values) - min(values), len(values))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `lfdm bench`."""
    parser.add_argument("name", metavar="NAME", help=f"one of: {', '.join(benchmark_names())}")
    parser.add_argument("--json", metavar="FILE", help="write the records to this file")
    add_figure_argument(parser, "the numbers and their spread, a panel for each unit")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="repetitions of each measurement (default: 3)")
    parser.add_argument("--only", metavar="PATTERN",
                        help="models, batch, calibration: only the measurements whose MODEL/TYRE/RUN, MODEL or SAMPLER matches")
    parser.add_argument("--peer", action="append", nargs="?", const="", metavar="[MODEL/TYRE/RUN=]COMMAND", default=[],
                        help="models: run this program alternately and report the ratio of the times; repeatable; without a command: "
                        "lfdm_peer on the PATH, which runs the C++ library LFDM (docs/concepts/lfdm_differences.md)")
    parser.add_argument("--cycles", type=int, metavar="N", help="mpc: cycles of a run (default: 5000)")
    parser.add_argument("--models", nargs="+", metavar="MODEL", help="mpc: of these (default: driven_bicycle eight_dof)")
    parser.add_argument("--solvers", nargs="+", metavar="SOLVER", help="mpc: of these (default: hpipm piqp ipopt)")


def run(args: argparse.Namespace) -> int:
    """Runs `lfdm bench`; returns the exit status."""
    if args.runs < 1:
        raise InputError(f"--runs {args.runs}: give 1 or more")
    require_figure(args.figure)
    if args.json and not Path(args.json).resolve().parent.is_dir():
        raise InputError(f"--json {args.json}: no such folder")
    if args.name not in benchmark_names():
        raise InputError(f"no benchmark '{args.name}' in {benchmark_folder()}{suggest(args.name, benchmark_names(), 'there are: ')}")
    module = load_benchmark(args.name)
    names = ("only", "cycles", "models", "solvers")
    options: dict[str, Any] = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    if args.peer:
        options["peers"] = [peer for text in args.peer for peer in ([Peer.parse(text)] if text else library_peers(args.only or "*"))]
    for option in options.keys() - inspect.signature(module.measure).parameters.keys():
        raise InputError(f"--{'peer' if option == 'peers' else option} is not an option of the benchmark '{args.name}'")
    with show_progress(f"measuring {args.name}"):
        records = module.measure(args.runs, **options)
    print(format_table(records))
    if args.figure is not None:
        save_figure(draw_values(by_unit((r.unit, NamedValue(r.name, r.value, r.value - 0.5 * r.spread, r.value + 0.5 * r.spread))
                                        for r in records)), args.figure)
    if args.json:
        write_text(Path(args.json), json.dumps([{**asdict(record), "machine": machine()} for record in records], indent=2) + "\n")
    return 0


def format_table(records: Sequence[Measurement]) -> str:
    """Formats the records in columns, below a line that names the machine."""
    width = max(len(record.name) for record in records)
    lines = [machine(), f"{'name':{width}}  {'value':>10}  {'unit':6}  {'spread':>10}  runs"]
    lines += [f"{r.name:{width}}  {r.value:>10.4g}  {r.unit:6}  {r.spread:>10.3g}  {r.runs:4d}" for r in records]
    return "\n".join(lines)


def machine() -> str:
    """Describes the machine: processor, cores, system, Python, and its load."""
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return (f"{model}, {os.cpu_count()} cores, {platform.system()} {platform.release()}, Python {platform.python_version()}, "
            f"load {os.getloadavg()[0]:.1f}")


def benchmark_folder() -> Path:
    """Returns the folder of the benchmarks."""
    return Path(__file__).parents[1] / "benchmarks"


def benchmark_names() -> list[str]:
    """Lists the benchmarks, the modules without a leading underscore."""
    return sorted(path.stem for path in benchmark_folder().glob("[!_]*.py"))


def load_benchmark(name: str) -> ModuleType:
    """Imports the module benchmarks/NAME.py anew."""
    spec = importlib.util.spec_from_file_location(f"lfdm_benchmark_{name}", benchmark_folder() / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # needed by annotations of its dataclasses
    spec.loader.exec_module(module)
    return module
