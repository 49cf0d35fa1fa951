"""What a calibration in the background does to a simulator that runs in real time: how late its ticks come, with and without one.

`lfdm bench calibrating`, or `python benchmarks/calibrating.py`. The simulator and the player that drives it share a process, whose
ticks are measured; the calibration samples in a process of its own, as the calibrator node starts it: of the least priority
(SCHED_IDLE, nice 19) and on all processor cores but one. Beside it, for comparison: the same calibration as an ordinary process on
all cores. Record names: RATE/CONDITION/WHAT; 100_hz and 1000_hz are ticks a second, each of physics steps of 1 ms.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from lfdm_lab.cli.bench import Record, format_table

os.environ.setdefault("ROS_DOMAIN_ID", "86")
os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"

SECONDS = 10.0  # of each run, real time
RATES = (100, 1000)  # ticks a second
CONDITIONS = ("alone", "calibrating", "calibrating_at_normal_priority")
DRAWS, CHAINS = 4000, 8  # more than are drawn in the time of a run


def measure(runs: int) -> list[Record]:
    """All numbers of `lfdm bench calibrating`."""
    with tempfile.TemporaryDirectory(prefix="lfdm_bench_") as folder:
        work = Path(folder)
        prepare(work)
        drive(1.0, 100)  # compiles, loads
        # In turn, so that what else happens on the machine meets all of them.
        results: dict[tuple[int, str], list[dict[str, float]]] = {(rate, name): [] for rate in RATES for name in CONDITIONS}
        for run in range(runs):
            for rate, name in results:
                with background_load(work, name, run):
                    results[rate, name].append(drive(SECONDS, rate))
    return [Record.of(f"{rate}_hz/{name}/{what}", [run[what] for run in found], unit)
            for (rate, name), found in results.items()
            for what, unit in (("lateness_ms_p50", "ms"), ("lateness_ms_p99", "ms"), ("lateness_ms_max", "ms"), ("overrun_share", "1"))]


def prepare(work: Path) -> None:
    """Records the manoeuvre that is calibrated with, and writes a recipe for it alone."""
    from lfdm_ros.resources import find_config
    from lfdm_ros.stacks.compose import run_stack

    recipe = yaml.safe_load(find_config("calibration", "hmmwv_demo").read_text(encoding="utf-8"))
    recipe["stages"] = [stage for stage in recipe["stages"] if stage["name"] == "lateral"]
    (work / "recipe.yaml").write_text(yaml.safe_dump(recipe), encoding="utf-8")
    run_stack("demo", record=work / "ramp_steer", quiet=True, overrides={"scenario": "ramp_steer"})


@contextmanager
def background_load(work: Path, condition: str, seed: int) -> Iterator[None]:
    """A calibration that samples from now on until the end of the block; none for `alone`."""
    from lfdm_ros.calibration.progress import Progress
    from lfdm_ros.engine.background import NORMAL, Share
    from lfdm_ros.engine.calibration_process import CalibrationProcess

    if condition == "alone":
        yield
        return
    sampling, ended = threading.Event(), threading.Event()

    def report(progress: Progress) -> None:
        if progress.temperature > 0.0:
            sampling.set()

    share = Share() if condition == "calibrating" else Share(os.cpu_count() or 1, NORMAL)
    process = CalibrationProcess(str(work / "recipe.yaml"), [str(work / "ramp_steer")], str(work / "out"), draws=DRAWS, chains=CHAINS,
                                 seed=seed + 1, share=share)

    def follow() -> None:
        process.follow(report)
        ended.set()
        sampling.set()

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        sampling.wait()
        if ended.is_set():
            raise RuntimeError(f"the calibration does not run: {process.last_words}")
        yield
        if ended.is_set():
            raise RuntimeError("the calibration ended before the measurement; raise DRAWS")
    finally:
        process.interrupt()
        thread.join()


def drive(seconds: float, rate: int) -> dict[str, Any]:
    """One run of simulator and player in real time; how late the ticks began."""
    from lfdm_ros.stacks.compose import run_stack

    run = run_stack({"parameters": {"scenario": "coast_down"}, "nodes": [
        {"executable": "input_player", "parameters": {"at_end": "hold"}},
        {"executable": "vehicle_simulator", "parameters": {"publish_rate": float(rate), "speed_factor": 1.0, "physics_step": 0.001}}]},
        duration=seconds, timeout=10.0 * seconds, quiet=True)
    late = sorted(1e3 * max(0.0, lateness) for lateness in run["lateness"])
    return {"lateness_ms_p50": late[len(late) // 2], "lateness_ms_p99": late[int(0.99 * (len(late) - 1))], "lateness_ms_max": late[-1],
            "overrun_share": run["overruns"] / len(late)}


if __name__ == "__main__":
    print(format_table(measure(3)))
