"""A long run of a stack, watched from outside for processes that grow, anything left behind, lost messages, and a run that does not end.

The run is `lfdm up` in a process of its own, or `lfdm cockpit` with a page that drives now and then. Where the vehicle has come to rest it
is put back to the start, so that it goes on driving.
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

MOST_GROWTH = 0.05
_LOOK, _LOOK_FOR_BEGIN = 0.5, 0.05  # [s] between checks of the clock, and before its start
_SAMPLE = 2.0  # [s] between samples of the processes, as costly as a node; in the first minute at each check of the clock
_SERIES = 30.0  # [s] between two samples in the result
_WARM_UP = 0.25  # of the run, in which caches fill
_JUDGED = 120.0  # [s] of a run, by the wall clock and simulated, from which on its growth says something
_BLOCKS = 12  # of samples, whose means are independent enough for an interval
_END = 60.0  # [s] for a stack to end
_START = 180.0  # [s] for its clock to begin
_AT_REST, _REST = 0.3, 2.0  # [m/s], and for so long [s of simulated time]
_BUSY = "does not answer"  # a busy machine's doing; a node that stays silent is ended, and that is a failure
SHM = Path("/dev/shm")
_LOCK = "_el"  # Fast DDS: whoever has made the segment NAME keeps NAME_el open, and those that only write into it do not


@dataclass(frozen=True)
class Growth:
    """The resident memory of a process [MB] after the warm-up and at the end, by a straight line (Sen 1968); slope [MB/h] of the wall
    clock, with its 95 % interval. cost: processor seconds that a simulated second takes after the warm-up. files, sockets: open ones
    after the warm-up, at the end, and at most."""

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
        """Growth by more than MOST_GROWTH, and not by the scatter alone."""
        return self.share > MOST_GROWTH and self.low > 0.0


def growth_of(name: str, seconds: Sequence[float], megabytes: Sequence[float]) -> Growth:
    """Fits a line to samples in the order of time; the warm-up is left out here."""
    time_, memory = np.asarray(seconds, float), np.asarray(megabytes, float)
    kept = time_ >= time_[0] + _WARM_UP * (time_[-1] - time_[0])
    # Neighbours are correlated: the interval uses means of blocks.
    blocks = np.array_split(np.flatnonzero(kept), min(_BLOCKS, int(kept.sum())))
    x, y = (np.array([values[block].mean() for block in blocks]) for values in (time_, memory))
    if len(x) < 3:
        return Growth(name, float(memory[kept][0]), float(memory[-1]), math.nan, -math.inf, math.inf)
    # A table that is made when it is needed first is one step, and no growth: the median of all slopes (Theil, Sen).
    slope, intercept, low, high = theilslopes(y, x)
    first, last = (intercept + slope * at for at in (time_[kept][0], time_[-1]))
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
    """Returns processor seconds per simulated second, of samples in the order of time; the warm-up is left out here."""
    first = next((i for i, at in enumerate(simulated) if at >= simulated[0] + _WARM_UP * (simulated[-1] - simulated[0])), 0)
    span = simulated[-1] - simulated[first]
    return (used[-1] - used[first]) / span if span > 0.0 else math.nan


def _spread(counts: Sequence[int]) -> tuple[int, int, int]:
    """Returns the count after the warm-up, the last one, and the largest."""
    return counts[int(_WARM_UP * (len(counts) - 1))], counts[-1], max(counts)


@dataclass
class SoakResult:
    """Result of a run. failures: one line each, none: it is as it should be. page: messages received, inputs sent. series: by process, each
    30 s: wall time [s], resident memory [MB], open files, sockets."""

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


# ---- processes, from outside -----------------------------------------------------------------------------------------------


def family(root: int) -> dict[int, str]:
    """Returns a process and its descendants by id, with their names: the node, or the program."""
    return {pid: _name(processes.command(pid)) for pid in processes.descendants(root)}


def _name(words: Sequence[str]) -> str:
    node = next((word.removeprefix("lfdm_ros.nodes.") for word in words if word.startswith("lfdm_ros.nodes.")), "")
    called = next((word.removeprefix("__node:=") for word in words if word.startswith("__node:=")), "")
    child = next((word.removeprefix("lfdm_ros.engine.") for word in words if word.startswith("lfdm_ros.engine.")), "")
    return called or node or child or next((f"lfdm {word}" for before, word in pairwise(words) if before.endswith("lfdm_ros.cli")), "other")


def segments_of(pids: Iterable[int]) -> set[str]:
    """Returns the segments of shared memory that processes have made for DDS, without those of others that they write into."""
    return {name.removesuffix(_LOCK) for pid in pids for name in processes.opened(pid, SHM) if name.endswith(_LOCK)}


def segments_left(made: Iterable[str]) -> list[str]:
    """Returns those of the segments that processes have made which are there and used by no process.

    A port goes with the last process that uses it, also one of another graph: numbers are those of the machine. A file counts that is there
    before all processes are looked at, which may take seconds, and the same one afterwards: another graph may make one of that name.
    """
    def there() -> dict[str, int]:
        return {entry.name: entry.inode() for entry in os.scandir(SHM)}

    before = there()
    in_use = {name for pid in psutil.pids() for name in processes.mapped(pid, SHM)}
    after = there()
    return sorted(name for name in set(made) - in_use if name in before and after.get(name) == before[name])


# ---- the run -----------------------------------------------------------------------------------------------------------------


class _Watcher(ObserverNode):
    """Observer of the simulated clock and the vehicle's speed; puts a vehicle at rest back to the start."""

    def __init__(self) -> None:
        super().__init__("soak")
        self.node.create_subscription(Clock, "/clock", self._on_clock, qos.CLOCK)
        self.node.create_subscription(VehicleState, "vehicle/state", self._on_state, qos.NEWEST)
        self._reset = self.node.create_client(Reset, "vehicle_simulator/reset")
        self.time = 0.0  # simulated [s]
        self.laps = 0
        self._moved = 0.0  # when the vehicle did last [s]

    def _on_clock(self, message: Clock) -> None:
        self.time = message.clock.sec + 1e-9 * message.clock.nanosec

    def _on_state(self, state: VehicleState) -> None:
        if abs(state.vx) > _AT_REST:
            self._moved = self.time

    def look(self, seconds: float) -> None:
        """Takes the new messages, once, after a time: not every message wakes it."""
        time.sleep(seconds)
        self.spin_some(10)
        if self.time - self._moved > _REST and self._reset.service_is_ready():
            self._reset.call_async(Reset.Request())
            self._moved = self.time
            self.laps += 1


def soak(stack: str, bag: Path, *, seconds: float, speed: float, wall: float, composed: bool = False,
         page: bool = False, overrides: Mapping[str, str] | None = None, tell: Callable[[str], None] = lambda line: None) -> SoakResult:
    """Runs a stack and watches it.

    Args:
        bag: to record to.
        seconds: of simulated time after which the run is to end by itself.
        speed: simulated seconds a second, 0: as fast as possible.
        wall: of the wall clock [s] after which it is interrupted, counted from its first tick.
        composed: all nodes in one process, instead of one each.
        page: by `lfdm cockpit`, with a page that reads and drives.
        tell: takes a line a minute.

    Raises:
        InputError: the stack does not start; says why.
    """
    found, before = SoakResult(stack), set(os.listdir(SHM))  # files left by processes killed earlier
    overrides = dict(overrides or {})
    if page:
        how, more = ["cockpit", stack, "--port", "0"], []
        overrides.setdefault("vehicle_simulator.speed_factor", repr(speed))
    else:
        how, more = ["up", stack, "--speed", repr(speed)], [] if composed else ["--processes"]
    command = [sys.executable, "-m", "lfdm_ros.cli", *how, "--record", str(bag), "--duration", repr(seconds),
               *(part for item in overrides.items() for part in ("--set", "=".join(item))), *more]
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        watcher = _Watcher()
        driving = DrivingPage(partial(_content, log.fileno())) if page else None
        try:
            if driving is not None:
                driving.start()
            samples, segments, pids = _watch(process, watcher, found, wall, tell)
            if driving is not None:
                _end_page(driving, found, process.poll() is None)
            _stop(process, found, found.simulated_seconds > 0.99 * seconds)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            watcher.close()
        log.seek(0)
        _judge(found, log.read(), samples, segments - before, pids, bag)
    return found


def _watch(process: subprocess.Popen[bytes], watcher: _Watcher, found: SoakResult, wall: float,
           tell: Callable[[str], None]) -> tuple[_Samples, set[str], dict[int, str]]:
    """Watches until the run ends or the time is over; returns samples by process, segments that were made, all processes that were seen."""
    samples: _Samples = {}
    segments, pids = set[str](), dict[int, str]()
    started = sampled = time.monotonic()
    begin, told = math.inf, 0
    while process.poll() is None:
        watcher.look(_LOOK if begin < math.inf else _LOOK_FOR_BEGIN)
        now = time.monotonic()
        if watcher.time and begin == math.inf:
            begin, first = now, watcher.time
        if begin == math.inf and now - started > _START:
            found.failures.append(f"no clock within {_START:g} s")
            break
        if begin < math.inf:
            found.simulated_seconds, found.wall_seconds, found.laps = watcher.time - first, now - begin, watcher.laps
        if now - sampled < (_LOOK if now - begin < 60.0 else _SAMPLE):
            continue
        sampled = now
        members = family(process.pid)
        pids |= members
        made = segments_of(members)
        segments |= made
        found.segments_most = max(found.segments_most, len(made))
        if begin == math.inf:
            continue
        for pid, name in members.items():
            samples.setdefault((pid, name), []).append(
                _Sample(now - begin, watcher.time - first, processes.resident(pid), processes.processor_time([pid], ended=False),
                        *processes.descriptors(pid)))
        if (now - begin) // 60.0 > told:
            told = int((now - begin) // 60.0)
            memory = sum(rows[-1].resident for rows in samples.values() if rows[-1].wall == now - begin)
            tell(f"{now - begin:.0f} s: simulated {found.simulated_seconds:.0f} s ({found.speed_factor:.1f} x), {found.laps} laps, "
                 f"{memory:.0f} MB in {len(members)} processes, {len(made)} segments")
        if now - begin > wall:
            break
    watcher.look(0.0)
    if begin < math.inf:
        found.simulated_seconds = watcher.time - first
    return samples, segments, pids


def _content(file: int) -> str:
    """Returns what a file holds; its position, which it shares with the process that writes it, stays."""
    return os.pread(file, os.fstat(file).st_size, 0).decode(errors="replace")


def _end_page(driving: DrivingPage, found: SoakResult, goes_on: bool) -> None:
    """Closes the page; goes_on: the cockpit has not ended before it."""
    lost = driving.lost
    driving.end()
    if driving.client is not None:
        found.page = {"received": driving.client.received, "sent": driving.client.sent}
    if goes_on and lost:
        found.failures.append(f"the page lost its connection: {lost}")
    if not found.page.get("received"):
        found.failures.append("the page received nothing")


def _stop(process: subprocess.Popen[bytes], found: SoakResult, ending: bool) -> None:
    """Interrupts the run if it has not ended by itself; ending: its duration is about over, so that it may end first."""
    interrupted = process.poll() is None
    if interrupted:
        process.send_signal(signal.SIGINT)
    try:
        found.exit_status = process.wait(_END)
    except subprocess.TimeoutExpired:
        found.failures.append(f"the run did not end within {_END:g} s of SIGINT")
        return
    if found.exit_status != (130 if interrupted else 0) and not (ending and found.exit_status == 0):
        found.failures.append(f"exit status {found.exit_status} {f'when {INTERRUPTED}' if interrupted else 'at the end'}")


def _judge(found: SoakResult, log: str, samples: _Samples, segments: set[str], pids: Mapping[int, str], bag: Path) -> None:
    """Judges the run and fills `found`. segments: those that the processes have made, and that were not there before."""
    if not samples:
        lines = [line for line in log.splitlines() if line.strip()]
        raise InputError(f"{found.stack} did not run: {lines[-1] if lines else 'nothing was said'}")
    # Children that came and went have no part in this.
    early, late = (share * found.wall_seconds for share in (0.25, 0.9))
    whole = {who: rows for who, rows in samples.items() if rows[0].wall <= early and rows[-1].wall >= late}
    if not whole:  # a short run
        longest = max(samples, key=lambda who: len(samples[who]))
        whole = {longest: samples[longest]}
    for (_, name), rows in sorted(whole.items(), key=lambda item: item[0][1]):
        there = [row for row in rows if row.resident]
        found.series[name] = [(row.wall, row.resident, row.files, row.sockets) for before, row in pairwise([rows[0], *there])
                              if row is there[0] or row.wall // _SERIES > before.wall // _SERIES]
        growth = growth_of(name, [row.wall for row in there], [row.resident for row in there])
        found.processes.append(replace(
            growth, cost=cost_of([row.simulated for row in there], [row.used for row in there]),
            files=_spread([row.files for row in there]), sockets=_spread([row.sockets for row in there])))
    together: dict[float, list[float]] = {}
    for rows in whole.values():
        for row in rows:
            if row.resident:
                together.setdefault(row.wall, []).append(row.resident)
    full = {at: sum(parts) for at, parts in sorted(together.items()) if len(parts) == len(whole)}
    found.total = replace(growth_of("all", list(full), list(full.values())), cost=sum(g.cost for g in found.processes))
    found.failures += [f"{g.name} grows from {g.start:.1f} to {g.end:.1f} MB, {g.slope:.1f} MB/h (95 %: {g.low:.1f} to {g.high:.1f})"
                       for g in (*found.processes, found.total)
                       if g.too_much and min(found.wall_seconds, found.simulated_seconds) >= _JUDGED]
    found.segments_left = segments_left(segments)
    if found.segments_left:
        found.failures.append(f"{len(found.segments_left)} segments are left in {SHM}: {', '.join(found.segments_left[:5])}")
    if left := [name for pid, name in pids.items() if processes.resident(pid) and name in family(pid).values()]:
        found.failures.append(f"processes are left: {', '.join(left)}")
    errors = (line for line in log.splitlines() if line.startswith(("[ERROR]", "[FATAL]")))
    found.errors = list(dict.fromkeys(re.sub(r"\[\d+\.\d+\] ", "", line) for line in errors))
    found.failures += [f"logged: {line}" for line in found.errors[:10] if _BUSY not in line]
    said = re.findall(r"(\d+) messages, (\d+) dropped", log)
    try:
        info = bag_info(bag, digest=False)
    except InputError as error:
        found.failures.append(f"the bag cannot be read: {error}")
        return
    found.bag = {"messages": info["messages"], "closed": info["closed"], "note": info["note"],
                 "dropped": sum(int(dropped) for _, dropped in said) if said else None}
    if not info["closed"] or info["note"] or found.bag["dropped"] != 0:
        found.failures.append(f"the bag: {found.bag}")
