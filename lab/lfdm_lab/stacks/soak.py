"""A long run of a stack, monitored for memory growth, leftover segments and processes, lost messages, and a run that does not end.

The run is `lfdm up` in a process of its own, or `lfdm cockpit` with a page that drives at times. A vehicle at rest is reset to the start,
so that it goes on driving.
"""

import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from rosgraph_msgs.msg import Clock
from scipy.stats import theilslopes

from lfdm_lab import processes
from lfdm_lab.page_client import DrivingPage
from lfdm_ros.bags import bag_info
from lfdm_ros.errors import InputError
from lfdm_ros.msg import VehicleState
from lfdm_ros.ros import qos
from lfdm_ros.ros.runtime import INTERRUPTED
from lfdm_ros.srv import Reset
from lfdm_ros.stacks.inspection import ObserverNode

MAX_GROWTH = 0.05
_POLL_PERIOD, _START_POLL_PERIOD = 0.5, 0.05  # [s] of checks of the clock, and before its start
_SAMPLE_PERIOD = 2.0  # [s] of samples of the processes, which cost as much as a node; in the first minute _POLL_PERIOD
_SERIES_PERIOD = 30.0  # [s] of samples in the result
_WARM_UP = 0.25  # share of the run in which caches fill
_MIN_RUN = 120.0  # [s] of wall clock and simulated time below which growth is not assessed
_BLOCKS = 12  # of samples, whose means are independent enough for an interval
_END_TIMEOUT = 60.0  # [s] for a stack to end
_START_TIMEOUT = 180.0  # [s] for its clock to start
_REST_SPEED, _REST_TIME = 0.3, 2.0  # [m/s], [s of simulated time]
_NO_ANSWER = "does not answer"  # occurs on a busy machine; a node that stays silent is ended, which is a failure
SHM = Path("/dev/shm")
_LOCK = "_el"  # Fast DDS: the process that has created segment NAME keeps NAME_el open; processes that only write to NAME do not


@dataclass(frozen=True)
class Growth:
    """The resident memory of a process [MB] after the warm-up and at the end, by a straight line (Sen 1968); slope [MB/h] of the wall
    clock, with its 95 % interval; cost: processor seconds per simulated second after the warm-up; files, sockets: open after the warm-up,
    at the end, and at most."""

    name: str
    start: float
    end: float
    slope: float
    low: float
    high: float
    cost: float = math.nan
    files: tuple[int, int, int] = (0, 0, 0)
    sockets: tuple[int, int, int] = (0, 0, 0)

    @property
    def share(self) -> float:
        """Growth as a share of the memory after the warm-up."""
        return self.end / self.start - 1.0

    @property
    def too_much(self) -> bool:
        """Growth by more than MAX_GROWTH that is statistically significant."""
        return self.share > MAX_GROWTH and self.low > 0.0


def growth_of(name: str, seconds: Sequence[float], megabytes: Sequence[float]) -> Growth:
    """Fits a line to samples in the order of time, without the warm-up."""
    time_, memory = np.asarray(seconds, float), np.asarray(megabytes, float)
    after_warm_up = time_ >= time_[0] + _WARM_UP * (time_[-1] - time_[0])
    # Means of blocks, as neighbouring samples are correlated.
    blocks = np.array_split(np.flatnonzero(after_warm_up), min(_BLOCKS, int(after_warm_up.sum())))
    x, y = (np.array([values[block].mean() for block in blocks]) for values in (time_, memory))
    if len(x) < 3:
        return Growth(name, float(memory[after_warm_up][0]), float(memory[-1]), math.nan, -math.inf, math.inf)
    # Theil-Sen: a single step, as of a table built at first use, is no growth.
    slope, intercept, low, high = theilslopes(y, x)
    first, last = (intercept + slope * at for at in (time_[after_warm_up][0], time_[-1]))
    slope, low, high = (3600.0 * float(value) for value in (slope, low, high))
    return Growth(name, float(first), float(last), slope, low, high)


@dataclass(frozen=True)
class _Sample:
    """Sample of a process: wall time and simulated time since the first tick [s], resident memory [MB], processor time [s], numbers of open
    files and of sockets."""

    wall: float
    simulated: float
    resident: float
    used: float
    files: int
    sockets: int


_Samples = dict[tuple[int, str], list[_Sample]]


def cost_of(simulated: Sequence[float], used: Sequence[float]) -> float:
    """Returns processor seconds per simulated second, of samples in the order of time, without the warm-up."""
    first = next((i for i, at in enumerate(simulated) if at >= simulated[0] + _WARM_UP * (simulated[-1] - simulated[0])), 0)
    span = simulated[-1] - simulated[first]
    return (used[-1] - used[first]) / span if span > 0.0 else math.nan


def _spread(counts: Sequence[int]) -> tuple[int, int, int]:
    """Returns the count after the warm-up, the last one, and the largest."""
    return counts[int(_WARM_UP * (len(counts) - 1))], counts[-1], max(counts)


@dataclass
class SoakResult:
    """Result of a run. failures: one line each; page: messages received, inputs sent; series: by process, every 30 s: wall time [s],
    resident memory [MB], open files, sockets."""

    stack: str
    simulated_seconds: float = 0.0
    wall_seconds: float = 0.0
    laps: int = 0
    exit_status: int | None = None
    processes: list[Growth] = field(default_factory=list)
    total: Growth | None = None
    segments_most: int = 0
    segments_left: list[str] = field(default_factory=list)
    bag: dict[str, Any] = field(default_factory=dict)
    page: dict[str, int] = field(default_factory=dict)
    series: dict[str, list[tuple[float, float, int, int]]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def speed_factor(self) -> float:
        """Simulated seconds per second."""
        return self.simulated_seconds / self.wall_seconds if self.wall_seconds else 0.0

    def record(self) -> dict[str, Any]:
        """Returns the result as plain data for JSON."""
        rows = [{**asdict(g), "growth": g.share} for g in (*self.processes, *([self.total] if self.total else []))]
        return {**asdict(self), "speed_factor": self.speed_factor, "processes": rows[:len(self.processes)],
                "total": rows[-1] if self.total else None}


# ---- processes -------------------------------------------------------------------------------------------------------------


def family(root: int) -> dict[int, str]:
    """Returns a process and its descendants by id, with their names: the node, or the program."""
    return {pid: _name(processes.command(pid)) for pid in processes.descendants(root)}


def _name(words: Sequence[str]) -> str:
    node = next((word.removeprefix("lfdm_ros.nodes.") for word in words if word.startswith("lfdm_ros.nodes.")), "")
    remapped = next((word.removeprefix("__node:=") for word in words if word.startswith("__node:=")), "")
    engine = next((word.removeprefix("lfdm_ros.engine.") for word in words if word.startswith("lfdm_ros.engine.")), "")
    subcommand = next((f"lfdm {word}" for before, word in pairwise(words) if before.endswith("lfdm_ros.cli")), "other")
    return remapped or node or engine or subcommand


def segments_of(pids: Iterable[int]) -> set[str]:
    """Returns the segments of shared memory that processes have created for DDS."""
    return {name.removesuffix(_LOCK) for pid in pids for name in processes.opened(pid, SHM) if name.endswith(_LOCK)}


def segments_left(created: Iterable[str]) -> list[str]:
    """Returns those of the created segments that still exist and that no process uses.

    Ports are numbered by machine, so a process of another graph may use one. Reading all processes may take seconds, in which another graph
    may create a file of the same name: a file counts if the same inode exists before and afterwards.
    """
    def inodes() -> dict[str, int]:
        return {entry.name: entry.inode() for entry in os.scandir(SHM)}

    before = inodes()
    in_use = {name for pid in psutil.pids() for name in processes.mapped(pid, SHM)}
    after = inodes()
    return sorted(name for name in set(created) - in_use if name in before and after.get(name) == before[name])


# ---- the run -----------------------------------------------------------------------------------------------------------------


class _StackObserver(ObserverNode):
    """Observer of the simulated clock and the vehicle's speed; resets a vehicle at rest to the start."""

    def __init__(self) -> None:
        super().__init__("soak")
        self.node.create_subscription(Clock, "/clock", self._on_clock, qos.CLOCK)
        self.node.create_subscription(VehicleState, "vehicle/state", self._on_state, qos.NEWEST)
        self._reset = self.node.create_client(Reset, "vehicle_simulator/reset")
        self.time = 0.0  # simulated [s]
        self.laps = 0
        self._last_motion = 0.0  # [s]

    def _on_clock(self, message: Clock) -> None:
        self.time = message.clock.sec + 1e-9 * message.clock.nanosec

    def _on_state(self, state: VehicleState) -> None:
        if abs(state.vx) > _REST_SPEED:
            self._last_motion = self.time

    def poll(self, seconds: float) -> None:
        """Processes new messages after `seconds`, instead of at each message."""
        time.sleep(seconds)
        self.spin_some(10)
        if self.time - self._last_motion > _REST_TIME and self._reset.service_is_ready():
            self._reset.call_async(Reset.Request())
            self._last_motion = self.time
            self.laps += 1


def soak(stack: str, bag: Path, *, seconds: float, speed: float, wall: float, composed: bool = False,
         page: bool = False, overrides: Mapping[str, str] | None = None, report: Callable[[str], None] = lambda line: None) -> SoakResult:
    """Runs a stack and monitors it.

    Args:
        bag: to record to.
        seconds: simulated time after which the run ends by itself.
        speed: simulated seconds per second, 0: as fast as possible.
        wall: time by the wall clock [s] after which it is interrupted, from its first tick.
        composed: all nodes in one process, instead of one each.
        page: by `lfdm cockpit`, with a page that reads and drives.
        report: receives a line per minute.

    Raises:
        InputError: the stack does not start; gives the reason.
    """
    result, before = SoakResult(stack), set(os.listdir(SHM))  # files left by processes killed earlier
    overrides = dict(overrides or {})
    if page:
        subcommand, options = ["cockpit", stack, "--port", "0"], []
        overrides.setdefault("vehicle_simulator.speed_factor", repr(speed))
    else:
        subcommand, options = ["up", stack, "--speed", repr(speed)], [] if composed else ["--processes"]
    command = [sys.executable, "-m", "lfdm_ros.cli", *subcommand, "--record", str(bag), "--duration", repr(seconds),
               *(part for item in overrides.items() for part in ("--set", "=".join(item))), *options]
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        observer = _StackObserver()
        driving = DrivingPage(partial(_content, log.fileno())) if page else None
        try:
            if driving is not None:
                driving.start()
            samples, segments, pids = _monitor(process, observer, result, wall, report)
            if driving is not None:
                _end_page(driving, result, process.poll() is None)
            _stop(process, result, result.simulated_seconds > 0.99 * seconds)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            observer.close()
        log.seek(0)
        _assess(result, log.read(), samples, segments - before, pids, bag)
    return result


def _monitor(process: subprocess.Popen[bytes], observer: _StackObserver, result: SoakResult, wall: float,
             report: Callable[[str], None]) -> tuple[_Samples, set[str], dict[int, str]]:
    """Monitors the run until it ends or `wall` is over; returns samples by process, segments created, and all processes by id."""
    samples: _Samples = {}
    segments, pids = set[str](), dict[int, str]()
    started = sampled = time.monotonic()
    first_tick, minutes = math.inf, 0
    while process.poll() is None:
        observer.poll(_POLL_PERIOD if first_tick < math.inf else _START_POLL_PERIOD)
        now = time.monotonic()
        if observer.time and first_tick == math.inf:
            first_tick, first = now, observer.time
        if first_tick == math.inf and now - started > _START_TIMEOUT:
            result.failures.append(f"no clock within {_START_TIMEOUT:g} s")
            break
        if first_tick < math.inf:
            result.simulated_seconds, result.wall_seconds, result.laps = observer.time - first, now - first_tick, observer.laps
        if now - sampled < (_POLL_PERIOD if now - first_tick < 60.0 else _SAMPLE_PERIOD):
            continue
        sampled = now
        members = family(process.pid)
        pids |= members
        created = segments_of(members)
        segments |= created
        result.segments_most = max(result.segments_most, len(created))
        if first_tick == math.inf:
            continue
        for pid, name in members.items():
            samples.setdefault((pid, name), []).append(
                _Sample(now - first_tick, observer.time - first, processes.resident(pid), processes.processor_time([pid], ended=False),
                        *processes.descriptors(pid)))
        if (now - first_tick) // 60.0 > minutes:
            minutes = int((now - first_tick) // 60.0)
            memory = sum(rows[-1].resident for rows in samples.values() if rows[-1].wall == now - first_tick)
            report(f"{now - first_tick:.0f} s: simulated {result.simulated_seconds:.0f} s ({result.speed_factor:.1f} x), "
                   f"{result.laps} laps, {memory:.0f} MB in {len(members)} processes, {len(created)} segments")
        if now - first_tick > wall:
            break
    observer.poll(0.0)
    if first_tick < math.inf:
        result.simulated_seconds = observer.time - first
    return samples, segments, pids


def _content(file: int) -> str:
    """Returns the content of a file without moving its position, which it shares with the process that writes it."""
    return os.pread(file, os.fstat(file).st_size, 0).decode(errors="replace")


def _end_page(driving: DrivingPage, result: SoakResult, running: bool) -> None:
    """Closes the page; running: the cockpit has not ended before."""
    lost = driving.lost
    driving.end()
    if driving.client is not None:
        result.page = {"received": driving.client.received, "sent": driving.client.sent}
    if running and lost:
        result.failures.append(f"the page lost its connection: {lost}")
    if not result.page.get("received"):
        result.failures.append("the page received nothing")


def _stop(process: subprocess.Popen[bytes], result: SoakResult, ending: bool) -> None:
    """Interrupts the run if it has not ended; ending: its duration is nearly over, so it may end first."""
    interrupted = process.poll() is None
    if interrupted:
        process.send_signal(signal.SIGINT)
    try:
        result.exit_status = process.wait(_END_TIMEOUT)
    except subprocess.TimeoutExpired:
        result.failures.append(f"the run did not end within {_END_TIMEOUT:g} s of SIGINT")
        return
    if result.exit_status != (130 if interrupted else 0) and not (ending and result.exit_status == 0):
        result.failures.append(f"exit status {result.exit_status} {f'when {INTERRUPTED}' if interrupted else 'at the end'}")


def _assess(result: SoakResult, log: str, samples: _Samples, segments: set[str], pids: Mapping[int, str], bag: Path) -> None:
    """Assesses the run and fills `result`. segments: created by the processes, not present before."""
    if not samples:
        lines = [line for line in log.splitlines() if line.strip()]
        raise InputError(f"{result.stack} did not run: {lines[-1] if lines else 'no output'}")
    # Without short-lived children.
    early, late = (share * result.wall_seconds for share in (0.25, 0.9))
    long_lived = {process: rows for process, rows in samples.items() if rows[0].wall <= early and rows[-1].wall >= late}
    if not long_lived:  # a short run
        longest = max(samples, key=lambda process: len(samples[process]))
        long_lived = {longest: samples[longest]}
    for (_, name), rows in sorted(long_lived.items(), key=lambda item: item[0][1]):
        alive = [row for row in rows if row.resident]
        result.series[name] = [(row.wall, row.resident, row.files, row.sockets) for before, row in pairwise([rows[0], *alive])
                               if row is alive[0] or row.wall // _SERIES_PERIOD > before.wall // _SERIES_PERIOD]
        growth = growth_of(name, [row.wall for row in alive], [row.resident for row in alive])
        result.processes.append(replace(
            growth, cost=cost_of([row.simulated for row in alive], [row.used for row in alive]),
            files=_spread([row.files for row in alive]), sockets=_spread([row.sockets for row in alive])))
    together: dict[float, list[float]] = {}
    for rows in long_lived.values():
        for row in rows:
            if row.resident:
                together.setdefault(row.wall, []).append(row.resident)
    full = {at: sum(parts) for at, parts in sorted(together.items()) if len(parts) == len(long_lived)}
    result.total = replace(growth_of("all", list(full), list(full.values())), cost=sum(g.cost for g in result.processes))
    result.failures += [f"{g.name} grows from {g.start:.1f} to {g.end:.1f} MB, {g.slope:.1f} MB/h (95 %: {g.low:.1f} to {g.high:.1f})"
                        for g in (*result.processes, result.total)
                        if g.too_much and min(result.wall_seconds, result.simulated_seconds) >= _MIN_RUN]
    result.segments_left = segments_left(segments)
    if result.segments_left:
        result.failures.append(f"{len(result.segments_left)} segments are left in {SHM}: {', '.join(result.segments_left[:5])}")
    if left := [name for pid, name in pids.items() if processes.resident(pid) and name in family(pid).values()]:
        result.failures.append(f"processes are left: {', '.join(left)}")
    errors = (line for line in log.splitlines() if line.startswith(("[ERROR]", "[FATAL]")))
    result.errors = list(dict.fromkeys(re.sub(r"\[\d+\.\d+\] ", "", line) for line in errors))
    result.failures += [f"logged: {line}" for line in result.errors[:10] if _NO_ANSWER not in line]
    drop_counts = re.findall(r"(\d+) messages, (\d+) dropped", log)
    try:
        info = bag_info(bag, digest=False)
    except InputError as error:
        result.failures.append(f"the bag cannot be read: {error}")
        return
    result.bag = {"messages": info["messages"], "closed": info["closed"], "note": info["note"],
                  "dropped": sum(int(dropped) for _, dropped in drop_counts) if drop_counts else None}
    if not info["closed"] or info["note"] or result.bag["dropped"] != 0:
        result.failures.append(f"the bag: {result.bag}")
