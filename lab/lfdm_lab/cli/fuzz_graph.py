"""Cases of `lfdm fuzz graph`: stacks under attack, stacks ended at random times, and stacks with a full disk."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from lfdm_lab.fuzzing import ANSWER, LOST, REFUSED, TRACEBACK, Case, CaseResult, attempt
from lfdm_lab.stacks.attack import alone, attacked_run, full_disk_run
from lfdm_ros.bags import bag_info
from lfdm_ros.cli.main import main
from lfdm_ros.simulation import Simulator
from lfdm_ros.stacks.stack import EXECUTABLES, node_class
from lfdm_ros.vehicles import load_vehicle

LIMIT = 180.0  # [s] on a busy machine
_READ = 60.0  # [s] to read its bag
_ATTACKED = 4.0  # [s]

_STACKS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("autonomy", {"scenario": "moving_obstacle"}), ("autonomy", {"scenario": "slalom", "stepping": "lockstep", "speed_factor": 0.0}),
    ("autonomy", {"scenario": "obstacle_field_20", "scenario_seed": 7}), ("simulator", {"scenario": "ramp_steer"}),
    ("simulator", {"scenario": "coast_down", "stepping": "lockstep"}), ("demo", {"scenario": "sine_steer"}), ("calibration", {}),
    ("shared_control", {"scenario": "nato_lane_change"}), ("shared_control", {"stepping": "free_running", "speed_factor": 1.0}))
_BY_ITSELF = ("finished", "done")  # first words in the report of a completed run
_SIGNALS = (
    (signal.SIGINT,), (signal.SIGTERM,), (signal.SIGINT, signal.SIGINT), (signal.SIGTERM, signal.SIGINT), (signal.SIGKILL,),
    (signal.SIGINT, signal.SIGKILL))


def graph_cases(seeds: Iterable[int], folder: Path, duration: float | None = None) -> Iterator[Case]:
    """Yields runs of stacks, each recorded.

    Args:
        folder: for the bags.
        duration: [s] after which no more runs are started; None: all seeds.
    """
    for name in EXECUTABLES:  # imported and compiled once for all runs, which are forks of this process
        node_class(name)
    for model in ("eight_dof", "twenty_four_dof"):
        Simulator(load_vehicle("hmmwv"), model=model)
    end = None if duration is None else time.monotonic() + duration
    for seed in seeds:
        if end is not None and time.monotonic() >= end:
            return
        rng = Random(f"graph {seed}")
        kind, bag = rng.random(), folder / f"graph_{seed}"
        stack, overrides = rng.choice(_STACKS)
        if stack == "shared_control":  # must not use files of the working directory
            overrides = overrides | {"calibrator.watch_directory": "", "calibrator.store": str(folder / f"store_{seed}")}
        name = " ".join((stack, *(f"{key}={value}" for key, value in overrides.items())))
        if kind < 0.7:
            yield Case(seed, f"{name}, attacked", partial(attacked_run, stack, bag, overrides, seed, seconds=_ATTACKED), LIMIT,
                       partial(_judge_attacked, bag))
        elif kind < 0.9:
            sent_signals = rng.choice(_SIGNALS)
            signals = [(rng.choice((rng.uniform(0.0, 0.5), rng.uniform(0.0, 8.0))) if i == 0 else rng.uniform(0.0, 0.3), number)
                       for i, number in enumerate(sent_signals)]
            description = ", ".join(f"{number.name} after {delay:.2f} s" for delay, number in signals)
            yield Case(seed, f"{name}, {description}", partial(_interrupted_run, stack, bag, overrides, signals), LIMIT,
                       partial(_judge_ended, bag, sent_signals))
        else:
            yield Case(seed, "simulator, full disk", partial(full_disk_run, "simulator", bag, {"scenario": "ramp_steer"}), LIMIT,
                       partial(_judge_full, bag))


def _interrupted_run(stack: str, bag: Path, overrides: dict[str, Any], signals: Sequence[tuple[float, int]]) -> dict[str, Any]:
    """Runs a stack by `lfdm up` and sends signals to this process, each with its delay [s] after the previous one."""
    alone()
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def send() -> None:
        for delay, number in signals:
            time.sleep(delay)
            os.kill(os.getpid(), number)

    threading.Thread(target=send, daemon=True).start()
    texts = [part for name, value in overrides.items() for part in ("--set", f"{name}={value}")]
    status = main(["up", stack, "--record", str(bag), *texts])
    sys.stderr.flush()
    output = os.pread(2, os.fstat(2).st_size, 0).decode(errors="replace")  # `attempt` has made it a file
    return {"status": status, "by_itself": any(f" {how} after " in output for how in _BY_ITSELF)}


# ---- losses --------------------------------------------------------------------------------------------------------------


def _bag(path: Path) -> dict[str, Any] | str:
    """Returns closed, messages and note of a bag, or the reason why it cannot be read."""
    def read() -> dict[str, Any]:
        info = bag_info(path, digest=False)
        return {name: info[name] for name in ("closed", "messages", "note")}

    found = attempt(read, _READ)
    return found.value if found.outcome == ANSWER else f"{found.outcome}: {found.text}"


def _judge_attacked(bag: Path, found: CaseResult) -> CaseResult:
    if found.outcome != ANSWER:
        return found
    bag_state, run = _bag(bag), found.value
    if isinstance(bag_state, str):
        return CaseResult(LOST, f"{bag_state}; sent {run['sent']}")
    if not bag_state["closed"] or bag_state["messages"] != run["messages_recorded"] or run["messages_dropped"] or not bag_state["messages"]:
        counted = f"{run['messages_recorded']} were recorded, {run['messages_dropped']} dropped; sent {run['sent']}"
        return CaseResult(LOST, f"{bag_state} where {counted}")
    return found


def _judge_ended(bag: Path, sent_signals: tuple[signal.Signals, ...], found: CaseResult) -> CaseResult:
    """Checks that an interrupted stack has the right exit status and closes its bag, and that a killed one leaves a readable bag. It may
    have ended before, or not started: signals have their default effect until the process has set its handlers."""
    killed = found.outcome == TRACEBACK and found.text.startswith("ended by SIGKILL") and signal.SIGKILL in sent_signals
    early = found.outcome == TRACEBACK and found.text.startswith("ended by SIGTERM; no output") and signal.SIGTERM in sent_signals
    if not (killed or early):
        if found.outcome != ANSWER:
            return found
        expected = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -1}
        if found.value["status"] not in [expected[number] for number in sent_signals] and not (
                found.value["status"] == 0 and found.value["by_itself"]):
            return CaseResult(TRACEBACK, f"exit status {found.value['status']}")
    if not any(bag.glob("*.mcap")):  # ended before the recording
        return CaseResult(ANSWER)
    bag_state = _bag(bag)
    if isinstance(bag_state, str) or not (killed or bag_state["closed"]):
        return CaseResult(LOST, f"{bag_state}")
    return CaseResult(ANSWER)


def _judge_full(bag: Path, found: CaseResult) -> CaseResult:
    """Checks that the run reports the full disk and that messages written before are readable."""
    if found.outcome == ANSWER:
        return CaseResult(LOST, "the full disk was not reported")
    if found.outcome != REFUSED:
        return found
    bag_state = _bag(bag)
    return CaseResult(LOST, f"{bag_state}; {found.text}") if isinstance(bag_state, str) or not bag_state["messages"] else found
