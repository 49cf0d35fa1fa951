"""Shared control in the demo: an operator behind a slow link and the controller share the hidden vehicle, before and after calibration."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

SCENARIO, STATUS = "nato_lane_change", "shared_control/status"
BEFORE, AFTER = "before", "after"
MAX_DURATION = 30.0  # [s] of a drive; it ends at the goal


@dataclass(frozen=True, eq=False)
class SharedDrive:
    """One drive. times, k and risk: of each decision (n,), risk (n, 2) the largest probability of a failure within the horizon by the
    operator alone and by autonomy; x, y: path of the vehicle (m,) [m]; posterior: version in force at the end, 0 for the vehicle file;
    summary: of the run."""

    name: str
    times: np.ndarray
    k: np.ndarray
    risk: np.ndarray
    x: np.ndarray
    y: np.ndarray
    posterior: int
    summary: dict[str, Any]

    @property
    def outcome(self) -> str:
        """The outcome in words."""
        if self.summary["collisions"]:
            return f"hits {self.summary['first_collision']}"
        if self.summary["lifted_wheels_most"]:
            return "lifts a wheel"
        return "arrives" if self.summary["task_done"] else "does not arrive"


def share(name: str, hidden: Path, store: Path, bag: Path, seed: int) -> SharedDrive:
    """Runs the stack of shared control on the graph with the hidden vehicle. The other nodes use the vehicle file, or the posterior in
    force in the store.

    Raises:
        InputError, RunError, Interrupted: as `run_stack`.
    """
    from lfdm_ros.errors import Interrupted
    from lfdm_ros.ros.runtime import exit_status
    from lfdm_ros.stacks.compose import run_stack

    summary = run_stack("shared_control", speed=0.0, duration=MAX_DURATION, quiet=True, overrides={
        "scenario": SCENARIO, "vehicle_simulator.vehicle": str(hidden), "recorder.bag": str(bag), "calibrator.watch_directory": "",
        "calibrator.store": str(store), "operator_model.seed": seed, "mpc_controller.on_finish": "shutdown"})
    if status := exit_status(summary["reason"]):
        raise Interrupted(status)
    return read(name, bag, summary)


def read(name: str, bag: Path, summary: dict[str, Any]) -> SharedDrive:
    """Reads a drive from its bag."""
    from lfdm_ros.bags import open_bag, read_series

    rows, posterior = [], 0
    with open_bag(bag) as opened:
        for connection, stamp, cdr in opened.raw(opened.select(STATUS)):
            status = opened.decode(cdr, connection.msgtype)
            risk = [max((p for what, p in zip(status.probability_names, status.probabilities) if what.startswith(who)), default=np.nan)
                    for who in ("operator", "autonomy")]
            rows.append((1e-9 * stamp, status.k, *risk))
            posterior = int(status.posterior_version)
    table = np.array(rows).reshape(-1, 4)
    path = read_series(bag, "vehicle/state", ["x", "y"]).values
    return SharedDrive(name, table[:, 0], table[:, 1], table[:, 2:], path[:, 0], path[:, 1], posterior, summary)


def apply(store: Path, result: Path) -> str:
    """Puts a calibration in force in a store as the calibrator does in AUTO, or by hand where the gates refuse it; returns a line."""
    from lfdm_ros.calibration.gates import GateLimits
    from lfdm_ros.calibration.store import APPLIED, PosteriorStore
    from lfdm_ros.engine.applying import AUTO, Applier

    writer = PosteriorStore(store).writer()
    try:
        applier = Applier(writer, policy=lambda: AUTO, limits=GateLimits, speed=lambda: 0.0, changed=lambda version: None)
        version = writer.add(result)
        line = applier.offer(version)
        if writer.in_force() is None:
            writer.put_in_force(version.number, APPLIED, "the demo asked for it")
            line += "; applied by hand"
        return line
    finally:
        writer.close()


def table(drives: list[SharedDrive]) -> str:
    """Returns a table of the drives before and after."""
    rows = [("outcome", [drive.outcome for drive in drives]),
            ("least clearance [m]", [f"{drive.summary['least_clearance']:.2f}" for drive in drives]),
            ("mean share of autonomy k", [f"{drive.k.mean():.2f}" for drive in drives]),
            ("operator's risk, mean", [f"{np.nanmean(drive.risk[:, 0]):.2f}" for drive in drives]),
            ("autonomy's risk, mean", [f"{np.nanmean(drive.risk[:, 1]):.2f}" for drive in drives]),
            ("posterior", [f"version {drive.posterior}" if drive.posterior else "vehicle file" for drive in drives])]
    width = max(len(text) for _, texts in rows for text in texts) + 2
    lines = ["", f"an operator behind 0.5 s and the controller share the hidden vehicle, {SCENARIO.replace('_', ' ')}:",
             f"{'':26}" + "".join(f"{drive.name:>{width}}" for drive in drives)]
    return "\n".join(lines + [f"{name:26}" + "".join(f"{text:>{width}}" for text in texts) for name, texts in rows])


def draw(path: Path, drives: list[SharedDrive]) -> None:
    """Writes a PNG: the paths between the cones; risk and k over time."""
    from matplotlib.figure import Figure

    from lfdm_ros.reports import save_png
    from lfdm_ros.simulation import Circle, load_scenario

    figure = Figure(figsize=(11.0, 5.4), layout="constrained")
    rows: Any = figure.subplots(1 + len(drives), 1, height_ratios=(1.2, *(1.0 for _ in drives)))
    colours = dict(zip((BEFORE, AFTER), ("tab:orange", "tab:blue")))
    circles = [item for item in load_scenario(SCENARIO).world.obstacles if isinstance(item, Circle)]
    rows[0].plot([c.x for c in circles], [c.y for c in circles], "^", color="0.4", ms=3, label="cones")
    for drive, axis in zip(drives, rows[1:]):
        rows[0].plot(drive.x, drive.y, color=colours[drive.name], label=f"{drive.name}: {drive.outcome}")
        axis.plot(drive.times, drive.risk[:, 0], color="tab:red", lw=1.0, label="risk of the operator alone")
        axis.plot(drive.times, drive.risk[:, 1], color="tab:green", lw=1.0, label="risk of autonomy's plan")
        axis.fill_between(drive.times, drive.k, color="0.85", label="k, share of autonomy")
        axis.set(ylim=(0.0, 1.05), ylabel=f"{drive.name} [1]")
    rows[0].set(xlabel="x [m]", ylabel="y [m]")
    rows[0].legend(fontsize=8, loc="upper right")
    rows[1].legend(fontsize=8, loc="upper right")
    rows[-1].set_xlabel("time [s]")
    save_png(figure, path)
