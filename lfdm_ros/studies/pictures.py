"""Pictures of runs and studies of the controller, on Matplotlib's Agg canvas, and the animation of a run."""

from __future__ import annotations

import io
import math
import shutil
import subprocess
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Circle as Disc
from matplotlib.patches import Polygon as Outline
from PIL import Image

from lfdm_ros.control.cycle import Cycle
from lfdm_ros.errors import InputError
from lfdm_ros.files import reason, replacing
from lfdm_ros.sensors import Scan
from lfdm_ros.simulation import Circle, Scenario, load_scenario
from lfdm_ros.studies.closed_loop import Run
from lfdm_ros.studies.driving import FIELD, OUTSIDE, SPEEDS, TRACKS
from lfdm_ros.vehicles import Footprint, Mount

DPI, COLOURS = 90, 48
OBSTACLE, PATH, GOAL, PLAN, ROUTE, SEEN, VEHICLE = "#7d8790", "#b9c4d0", "#2e8b57", "#c26a00", "#8e6bb0", "#c0392b", "#0b6fa4"
CONTROLLER_COLOURS = {"mpc": "#0b6fa4", "kinematic": "#c26a00", "ipopt": "#2e8b57", "do_mpc": "#8e6bb0", "lattice": "#2e8b57",
                      "mppi": "#8e6bb0"}
FRAME, PIXELS, VIEW = 0.2, (720, 260), (25.0, 75.0)  # [s], width and height, [m] behind and ahead
LARGEST_GIF = 1_500_000  # bytes


def save_png(figure: Figure, path: Path) -> None:
    """Writes a PNG of few colours, a third of the size. Raises InputError where it cannot be written."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=DPI)
    try:
        # Not the usual median cut: it gives thin lines of different colours the same.
        image = Image.open(drawn).convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        with replacing(path) as partial:
            image.save(partial, format="png", optimize=True)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot write {path}: {reason(error)}") from None


# -- One run ------------------------------------------------------------------------------------------------------------------


@dataclass
class Film:
    """What a run looked like from within; hand `note` to `drive` as on_cycle. Kept every `step` [s]."""

    lidar: Mount | None
    step: float = FRAME
    frames: list[tuple[float, Cycle, Scan | None]] = field(default_factory=list)
    _scan: Scan | None = None

    def note(self, now: float, cycle: Cycle, scan: Scan | None) -> None:
        self._scan = scan if scan is not None else self._scan
        if now >= len(self.frames) * self.step - 1e-9:
            self.frames.append((now, cycle, self._scan))


def draw_run(scenario: Scenario, run: Run, footprint: Footprint, ending: str, film: Film) -> Figure:
    """A run from above and over time, for a page.

    From above, to scale: obstacles where they were at the end, lane, goal, the vehicle's outline once a second and the plans of those
    times. Over time: speed, steering, pedals, least wheel load by that at rest.

    Args:
        ending: how the run ended, below the name of the scenario.
        film: of the run, for its plans.
    """
    x, y, yaw = (run.column(name) for name in ("x", "y", "yaw"))
    low, high = _extent(scenario, x, y)
    width, height = high - low
    inches = float(np.clip(8.2 * height / width, 1.2, 4.0))  # of the view from above
    figure = Figure(figsize=(9.0, 6.0 + inches), layout="constrained")
    grid = figure.add_gridspec(5, 1, height_ratios=(inches, 1.0, 1.0, 1.0, 1.0))
    axis = figure.add_subplot(grid[0])
    _ground(axis, scenario, run.times[-1], trails=True)
    plans = [cycle.plan for now, cycle, _ in film.frames if cycle.plan is not None and cycle.plan.names and now % 1.0 < film.step / 2.0]
    for k, plan in enumerate(plans):
        axis.plot(*plan.states[:, [plan.names.index("x"), plan.names.index("y")]].T, color=PLAN, lw=0.8, alpha=0.8,
                  label=None if k else "plan, once a second")
    axis.plot(x, y, color=VEHICLE, lw=2.4, alpha=0.6, zorder=1.5, label="vehicle, outline once a second")
    every = max(1, round(1.0 / (run.times[1] - run.times[0]))) if len(run.times) > 1 else 1
    for k in (*range(0, len(x) - 1, every), len(x) - 1):
        axis.add_patch(Outline(_corners(x[k], y[k], yaw[k], footprint), fill=k == len(x) - 1, fc=VEHICLE, ec=VEHICLE, lw=0.7, zorder=3))
    if run.collisions:
        axis.plot(x[-1], y[-1], "x", color=SEEN, ms=12, mew=2.5, zorder=4, label=f"hit {run.collisions[0]}")
    axis.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xlabel="x [m]", ylabel="y [m]")
    axis.set_aspect("equal")
    figure.legend(*axis.get_legend_handles_labels(), loc="outside upper left", ncols=6, fontsize=8, frameon=False, alignment="left",
                  title="\n".join(textwrap.wrap(f"{scenario.name}: {ending}", 95)), title_fontsize=11)
    _draw_signals([figure.add_subplot(grid[k]) for k in range(1, 5)], scenario, run)
    return figure


def _extent(scenario: Scenario, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Corners (2,) of what a picture from above shows [m]: the way with its surroundings, and the goal."""
    points = np.column_stack([x, y])
    if scenario.goal is not None:
        points = np.vstack([points, (scenario.goal.x, scenario.goal.y)])
    low, high = points.min(axis=0) - 10.0, points.max(axis=0) + 10.0
    short = np.maximum(0.0, np.maximum(24.0, 0.12 * (high - low).max()) - (high - low))
    return low - 0.5 * short, high + 0.5 * short


def _draw_signals(axes: Sequence[Any], scenario: Scenario, run: Run) -> None:
    speed, steering, pedals, load = axes
    speed.plot(run.times, run.column("vx"), color=VEHICLE, lw=1.2)
    if scenario.speed is not None:
        speed.axhline(scenario.speed, color=OBSTACLE, lw=0.9, ls="--", label="asked for")
        speed.legend(fontsize=8, loc="lower right", frameon=False)
    top = max(float(run.column("vx").max()), scenario.speed or 0.0, 1.0)
    speed.set(ylabel="speed\n[m/s]", ylim=(min(0.0, 1.1 * float(run.column("vx").min())), 1.1 * top))
    times = run.times[:len(run.commands)]
    steering.plot(times, run.commands[:, 0], color=VEHICLE, lw=1.2)
    most = max(0.1, 1.1 * float(np.abs(run.commands[:, 0]).max(initial=0.0)))
    steering.set(ylabel="steering\n(+ left)", ylim=(-most, most))
    for column, (name, colour) in enumerate((("throttle", GOAL), ("brake", SEEN)), 1):
        pedals.plot(times, run.commands[:, column], color=colour, lw=1.2, label=name)
    lowest, highest = (float(f(run.commands[:, 1:], initial=0.0)) for f in (np.min, np.max))
    pedals.set(ylabel="pedals", ylim=(1.1 * min(lowest, -0.02), 1.1 * max(highest, 0.1)))
    pedals.legend(fontsize=8, ncols=2, loc="upper right", frameon=False)
    loads = np.column_stack([run.column(f"tyre_fz_{wheel}") for wheel in ("fl", "fr", "rl", "rr")])
    load.plot(run.times, 100.0 * (loads / np.maximum(loads[0], 1.0)).min(axis=1), color=VEHICLE, lw=1.2)
    load.axhline(0.0, color=SEEN, lw=0.8)
    load.set(ylabel="least wheel\nload [%]", ylim=(-8.0, 110.0), xlabel="time [s]")
    for axis in axes:
        axis.set_xlim(run.times[0], max(run.times[-1], run.times[0] + 1e-3))
        axis.grid(alpha=0.25, lw=0.6)
        axis.tick_params(labelbottom=axis is load)
    axes[0].figure.align_ylabels(axes)


def require_animation(path: Path, option: str = "--animation") -> None:
    """Checks the name of an animation before the run that it shows.

    Raises:
        InputError: neither .gif nor .mp4, .mp4 without ffmpeg, or no such folder.
    """
    if path.suffix.lower() not in (".gif", ".mp4"):
        raise InputError(f"{option} {path}: give a name that ends in .gif or .mp4")
    if path.suffix.lower() == ".mp4" and shutil.which("ffmpeg") is None:
        raise InputError(f"{option} {path}: .mp4 is written by ffmpeg, which is not installed here (apt install ffmpeg); or give .gif")
    if not path.resolve().parent.is_dir():
        raise InputError(f"{option} {path}: no such folder")


def animate(path: Path, scenario: Scenario, run: Run, footprint: Footprint, film: Film) -> None:
    """Writes a GIF or MP4 that follows the vehicle at twice its pace. A GIF has at most 1.5 MB: else fewer frames and colours.

    Raises:
        InputError: as `require_animation`, or the file cannot be written.
    """
    require_animation(path)
    pictures = [_frame(scenario, run, footprint, film, k) for k in range(len(film.frames))]
    if path.suffix.lower() == ".mp4":
        _write_mp4(path, pictures, 2.0 / film.step)
        return
    for skip, colours in ((1, 32), (1, 16), (2, 16), (3, 16), (5, 8)):
        chosen = [picture.quantize(colours, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE) for picture in pictures[::skip]]
        written = io.BytesIO()
        milliseconds = round(1e3 * film.step * skip / 2.0)
        chosen[0].save(written, format="GIF", save_all=True, append_images=chosen[1:], duration=milliseconds, loop=0, optimize=True)
        if written.tell() < LARGEST_GIF:
            break
    try:
        with replacing(path) as partial:
            partial.write_bytes(written.getvalue())
    except OSError as error:
        raise InputError(f"cannot write {path}: {reason(error)}") from None


def _write_mp4(path: Path, pictures: Sequence[Image.Image], rate: float) -> None:
    """`rate` [1/s]."""
    with replacing(path) as partial:
        command = ["ffmpeg", "-y", "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", "{}x{}".format(*pictures[0].size),
                   "-r", f"{rate:g}", "-i", "-", "-pix_fmt", "yuv420p", "-movflags", "+faststart", "-f", "mp4", str(partial)]
        done = subprocess.run(command, input=b"".join(picture.tobytes() for picture in pictures), capture_output=True)
        if done.returncode:
            last = (done.stderr.decode(errors="replace").strip().splitlines() or [f"status {done.returncode}"])[-1]
            raise InputError(f"cannot write {path}: ffmpeg: {last}")


def _frame(scenario: Scenario, run: Run, footprint: Footprint, film: Film, number: int) -> Image.Image:
    now, cycle, scan = film.frames[number]
    k = min(round(now / (run.times[1] - run.times[0])) if len(run.times) > 1 else 0, len(run.times) - 1)
    x, y, yaw = (float(run.column(name)[k]) for name in ("x", "y", "yaw"))
    figure = Figure(figsize=(PIXELS[0] / DPI, PIXELS[1] / DPI), dpi=DPI)
    canvas = FigureCanvasAgg(figure)
    axis = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    _ground(axis, scenario, now)
    if cycle.route is not None:
        axis.plot(cycle.route.x, cycle.route.y, color=ROUTE, lw=1.0, ls="--")
    if cycle.plan is not None:
        place = [cycle.plan.names.index(name) for name in ("x", "y")]
        axis.plot(*cycle.plan.states[:, place].T, color=PLAN, lw=2.0)
    if scan is not None and film.lidar is not None:
        at = min(round(scan.stamp / (run.times[1] - run.times[0])), len(run.times) - 1) if len(run.times) > 1 else 0
        axis.plot(*_echoes(scan, film.lidar, *(float(run.column(name)[at]) for name in ("x", "y", "yaw"))), ".", color=SEEN, ms=2.0)
    axis.add_patch(Outline(_corners(x, y, yaw, footprint), fc=VEHICLE, ec=VEHICLE))
    height = sum(VIEW) * PIXELS[1] / PIXELS[0]
    axis.set(xlim=(x - VIEW[0], x + VIEW[1]), ylim=(y - 0.5 * height, y + 0.5 * height), aspect="equal")
    axis.set_axis_off()
    load = min(float(run.column(f"tyre_fz_{wheel}")[k] / max(float(run.column(f"tyre_fz_{wheel}")[0]), 1.0)) for wheel in
               ("fl", "fr", "rl", "rr"))
    axis.text(0.01, 0.97, f"{now:4.1f} s   {float(run.column('vx')[k]):4.1f} m/s   least wheel load {100.0 * load:3.0f} %   "
              f"{cycle.outcome.name.lower()}", transform=axis.transAxes, va="top", family="monospace", fontsize=9)
    canvas.draw()
    return Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")


def _echoes(scan: Scan, lidar: Mount, x: float, y: float, yaw: float) -> tuple[np.ndarray, np.ndarray]:
    angles = scan.angle_min + scan.angle_increment * np.arange(len(scan.ranges)) + yaw + lidar.yaw
    there = np.isfinite(scan.ranges)
    cos, sin = math.cos(yaw), math.sin(yaw)
    sx, sy = x + cos * lidar.x - sin * lidar.y, y + sin * lidar.x + cos * lidar.y
    return sx + scan.ranges[there] * np.cos(angles[there]), sy + scan.ranges[there] * np.sin(angles[there])


def _ground(axis: Any, scenario: Scenario, time: float, trails: bool = False) -> None:
    """Lane, goal and the obstacles of a time [s]; with `trails`, how those came that move, and names for a legend."""
    if scenario.path is not None:
        axis.plot(*scenario.path.T, color=OBSTACLE if trails else PATH, lw=1.0, ls="--", label="path" if trails else None)
        if trails and scenario.corridor is not None:
            for k, side in enumerate(_edges(scenario.path, scenario.corridor)):
                axis.plot(*side.T, color=PATH, lw=1.0, label=None if k else "lane")
    named = moved = False
    for obstacle in scenario.world.obstacles:
        dx, dy = time * obstacle.vx, time * obstacle.vy
        label = "obstacle" if trails and not named else None
        if isinstance(obstacle, Circle):
            edge = 1.5 * trails  # so that a cone is seen from far
            axis.add_patch(Disc((obstacle.x + dx, obstacle.y + dy), obstacle.radius, color=OBSTACLE, lw=edge, label=label))
            x, y = obstacle.x, obstacle.y
        else:
            axis.add_patch(Outline(obstacle.vertices + [dx, dy], color=OBSTACLE, lw=0.0, label=label))
            x, y = obstacle.vertices.mean(axis=0)
        named = True
        if trails and (dx or dy):
            axis.plot([x, x + dx], [y, y + dy], color=OBSTACLE, lw=0.8, ls=":", label=None if moved else "its way")
            moved = True
    if scenario.goal is not None:
        axis.add_patch(Disc((scenario.goal.x, scenario.goal.y), scenario.goal.tolerance, fill=False, ec=GOAL, lw=1.5,
                            label="goal" if trails else None))


def _edges(path: np.ndarray, corridor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Left and right edge (n, 2) of the corridor (k, 3) of a path (n, 2) [m]."""
    steps = np.diff(path, axis=0)
    along = np.concatenate([[0.0], np.cumsum(np.hypot(*steps.T))])
    tangents = np.gradient(path, axis=0)
    normals = np.column_stack([-tangents[:, 1], tangents[:, 0]]) / np.maximum(np.hypot(*tangents.T), 1e-9)[:, None]
    left, right = (np.interp(along, corridor[:, 0], corridor[:, k])[:, None] for k in (1, 2))
    return path + left * normals, path - right * normals


def _corners(x: float, y: float, yaw: float, footprint: Footprint) -> np.ndarray:
    c, s = math.cos(yaw), math.sin(yaw)
    f, r, w = footprint.front, footprint.rear, footprint.half_width
    own = np.array([(f, w), (-r, w), (-r, -w), (f, -w)])
    return np.array([x, y]) + own @ np.array([[c, s], [-s, c]])


# -- Studies ------------------------------------------------------------------------------------------------------------------


def draw_fields(runs: Sequence[Mapping[str, Any]]) -> Figure | None:
    """The ways through the first fields of each speed; None if no field was driven."""
    found = [name for name in (f"{FIELD}{speed}" for speed in SPEEDS) if any(run["scenario"] == name for run in runs)]
    shown = [(name, seed) for name in found for seed in range(1, TRACKS + 1)
             if any(run["scenario"] == name and run["seed"] == seed for run in runs)]
    if not shown:
        return None
    figure = Figure(figsize=(10.0, 1.15 * len(shown) + 0.4), layout="constrained")
    drawn: dict[str, Any] = {}
    for axis, (name, seed) in zip(figure.subplots(len(shown), squeeze=False)[:, 0], shown):
        scenario = load_scenario(name, seed=seed)
        _ground(axis, scenario, 0.0)
        for run in runs:
            if (run["scenario"], run["seed"]) == (name, seed) and "track" in run:
                line, = axis.plot(*np.array(run["track"]).T, color=CONTROLLER_COLOURS[run["controller"]], lw=1.0)
                drawn[run["controller"]] = line
        goal = scenario.goal
        axis.set(xlim=(-5.0, (goal.x if goal else 100.0) + 5.0), ylim=(-22.0, 22.0), yticks=[])
        axis.tick_params(labelsize=7)
        axis.set_ylabel(f"{name.removeprefix(FIELD)} mph\nseed {seed}", fontsize=8)
    figure.axes[-1].set_xlabel("x [m]")
    figure.legend(list(drawn.values()), list(drawn), loc="outside upper center", ncols=len(drawn), fontsize=8, frameon=False)
    return figure


def draw_distributions(runs: Sequence[Mapping[str, Any]]) -> Figure | None:
    """Time to the goal against the straight line, least clearance and least wheel load as shares of runs; None without fields."""
    runs = [run for run in runs if run["scenario"].startswith(FIELD)]
    names = list(dict.fromkeys(run["scenario"] for run in runs))
    if not names:
        return None
    what = (("ratio", "time / straight line"), ("least_clearance", "least clearance [m]"), ("least_load", "least wheel load"))
    figure = Figure(figsize=(10.0, 2.3 * len(names) + 0.3), layout="constrained")
    for row, name in zip(figure.subplots(len(names), len(what), squeeze=False), names):
        for axis, (key, label) in zip(row, what):
            for controller, colour in CONTROLLER_COLOURS.items():
                own = [run for run in runs if run["scenario"] == name and run["controller"] == controller]
                values = np.sort([run[key] for run in own if run[key] is not None])
                if len(values):  # a run that did not arrive keeps the curve below 1
                    axis.step(values, np.arange(1, len(values) + 1) / len(own), where="post", color=colour, label=controller)
            if key != "ratio":
                axis.axvline(0.0, color=SEEN, lw=0.8)
            axis.set(ylim=(0.0, 1.02), xlabel=label)
        row[0].set_ylabel(f"{name.removeprefix(FIELD)} mph: share of runs", fontsize=8)
    figure.axes[0].legend(fontsize=8)
    return figure


def draw_density(summary: Sequence[Mapping[str, Any]]) -> Figure | None:
    """Shares of goals and of collisions over the density by speed, with 95 % intervals; None if nothing was driven."""
    speeds = sorted({row["speed_mph"] for row in summary})
    if not speeds:
        return None
    figure = Figure(figsize=(10.0, 5.6), layout="constrained")
    controllers = [name for name in CONTROLLER_COLOURS if any(row["controller"] == name for row in summary)]
    axes = figure.subplots(2, len(speeds), squeeze=False, sharex=True, sharey=True)
    for i, speed in enumerate(speeds):
        for axis, what in zip(axes[:, i], ("goals", "collisions")):
            for k, controller in enumerate(controllers):
                rows = [row for row in summary if (row["speed_mph"], row["controller"]) == (speed, controller)]
                # Side by side, so that intervals of the same share can be told apart.
                at = np.array([row["density"] for row in rows]) + 0.12 * (k - 0.5 * (len(controllers) - 1))
                share = np.array([row[what] / row["runs"] for row in rows])
                limits = np.array([row[f"{what}_95"] for row in rows]).reshape(-1, 2).T
                axis.errorbar(at, share, np.abs(limits - share), color=CONTROLLER_COLOURS[controller], marker="o", ms=3.5, lw=1.2,
                              elinewidth=0.8, label=controller)
            axis.set_ylim(-0.03, 1.03)
        axes[0, i].set_title(f"{speed} mph", fontsize=10)
        axes[1, i].set_xlabel("density, times the shipped field")
    axes[0, 0].set_ylabel("share of runs at their goal")
    axes[1, 0].set_ylabel("share of runs with a collision")
    axes[0, 0].legend(fontsize=8)
    return figure


def draw_reliability(worlds: Mapping[str, Mapping[str, Any]]) -> Figure | None:
    """Reliability diagram of each world: what happened over what was predicted, with 95 % intervals, and how many episodes there were."""
    if not worlds:
        return None
    columns = min(3, len(worlds))
    count = -(-len(worlds) // columns)
    figure = Figure(figsize=(3.4 * columns, 3.3 * count), layout="constrained")
    axes = figure.subplots(count, columns, squeeze=False, sharex=True, sharey=True)
    for axis, (name, world) in zip(axes.flat, worlds.items()):
        rows = world["rows"]
        x, y, n = (np.array([row[key] for row in rows]) for key in ("predicted", "observed", "episodes"))
        ends = np.array([(row["lower"], row["upper"]) for row in rows]).T
        axis.plot([0.0, 1.0], [0.0, 1.0], color="0.6", lw=0.8)
        axis.bar(x, n / n.sum(), width=0.05, color="0.85")
        axis.errorbar(x, y, np.abs(ends - y), color="tab:blue", marker="o", ms=3.5, lw=1.2, elinewidth=0.8)
        axis.set_title(f"{name}, {world['episodes']} episodes\nslope {world['slope']:.2f}, error {world['expected_calibration_error']:.3f}",
                       fontsize=9)
        axis.set_xlim(-0.02, 1.02)
        axis.set_ylim(-0.02, 1.02)
    for axis in axes.flat[len(worlds):]:
        axis.set_visible(False)
    for axis in axes[-1]:
        axis.set_xlabel("predicted probability of failing")
    for row in axes:
        row[0].set_ylabel("share that failed")
    return figure


def draw_sharing(rows: Sequence[Mapping[str, Any]]) -> Figure | None:
    """Share of failures, and of autonomy in the command, over the latency, by scenario; None if nothing was driven."""
    rows = [row for row in rows if not (row["blind"] or row["changes"]) and row["mode"] == "blend" and row["threats"] == ["risk"]]
    scenarios = list(dict.fromkeys(row["scenario"] for row in rows))
    if not scenarios:
        return None
    figure = Figure(figsize=(3.5 * len(scenarios), 5.0), layout="constrained")
    axes = figure.subplots(2, len(scenarios), squeeze=False, sharex=True, sharey="row")
    for i, scenario in enumerate(scenarios):
        for control, colour in (("operator", "tab:orange"), ("autonomy", "0.5"), ("shared", "tab:blue")):
            some = sorted((r for r in rows if (r["scenario"], r["control"]) == (scenario, control)), key=lambda r: r["latency_s"])
            if not some:
                continue
            at, share = (np.array(v) for v in zip(*((1e3 * r["latency_s"], r["failures"] / r["episodes"]) for r in some)))
            ends = np.array([r["failures_95"] for r in some]).T
            axes[0, i].errorbar(at, share, np.abs(ends - share), color=colour, marker="o", ms=3.5, lw=1.2, elinewidth=0.8, label=control)
            if control == "shared":
                axes[1, i].plot(at, [r["mean_k"] for r in some], color=colour, marker="o", ms=3.5, lw=1.2)
        axes[0, i].set_title(scenario.replace("_", " "), fontsize=10)
        axes[0, i].set_ylim(-0.03, 1.03)
        axes[1, i].set_ylim(-0.03, 1.03)
        axes[1, i].set_xlabel("latency of the link [ms]")
    axes[0, 0].set_ylabel("share of runs that failed")
    axes[1, 0].set_ylabel("mean k")
    axes[0, 0].legend(fontsize=8)
    return figure


def draw_delays(summary: Sequence[Mapping[str, Any]], runs: Sequence[Mapping[str, Any]]) -> Figure:
    """Largest path error and least clearance over the delay, and the slalom's ways with the largest one."""
    figure = Figure(figsize=(10.0, 5.4), layout="constrained")
    parts: Any = figure.subfigures(2, 1, height_ratios=(1.3, 1.0))
    upper, lower = parts
    left, right = upper.subplots(1, 2)
    courses = [name for name in (summary[0] if summary else {}) if name not in ("delay", "compensate")]
    for name, marker in zip(courses, "osD^"):
        of_fields = name.startswith(FIELD)
        for compensate, colour in ((True, VEHICLE), (False, SEEN)):
            rows = [row for row in summary if name in row and (row["compensate"] == compensate or row["delay"] == 0.0)]
            label = f"{name}, {'' if compensate else 'not '}predicted through"
            values = [row[name]["least_clearance" if of_fields else "largest_error"] for row in rows]
            axis, delays = (right if of_fields else left), [1e3 * row["delay"] for row in rows]
            axis.plot(delays, values, color=colour, marker=marker, ms=5, lw=1.2, label=label)
            hit = [i for i, row in enumerate(rows) if row[name]["collisions"]]
            axis.plot([delays[i] for i in hit], [values[i] for i in hit], "x", color="black", ms=9)
    left.set(xlabel="delay [ms]", ylabel="largest path error [m]; x: hit a cone", ylim=(0.0, None))
    right.axhline(0.0, color=OBSTACLE, lw=0.8)
    right.set(xlabel="delay [ms]", ylabel="least clearance of all runs [m]")
    for axis in (left, right):
        if axis.get_legend_handles_labels()[0]:
            axis.legend(fontsize=7)
    axis = lower.subplots()
    slalom = [run for run in runs if run["scenario"] == "slalom" and "track" in run]
    if slalom:
        _ground(axis, load_scenario("slalom"), 0.0)
        largest = max(run["delay"] for run in slalom)
        for run in slalom:
            if run["delay"] == largest:
                axis.plot(*np.array(run["track"]).T, color=VEHICLE if run["compensate"] else SEEN,
                          label=f"{1e3 * largest:.0f} ms, {'' if run['compensate'] else 'not '}predicted through")
        axis.set(xlabel="x [m]", ylabel="y [m]", title="slalom", ylim=(-8.0, 8.0))
        axis.legend(fontsize=7, loc="upper right")
    return figure


def draw_lane_changes(climbs: Sequence[Mapping[str, Any]]) -> Figure:
    """How far a corner leaves the corridor over the speed, and the ways at the highest speed passed and the first that fails."""
    names = list(dict.fromkeys(climb["scenario"] for climb in climbs))
    figure = Figure(figsize=(10.0, 2.9 * len(names)), layout="constrained")
    colours = {(0.0, True): VEHICLE, (0.2, True): GOAL, (0.2, False): SEEN}
    for row, name in zip(figure.subplots(len(names), 2, squeeze=False, width_ratios=(1.0, 1.6)), names):
        for climb in climbs:
            if climb["scenario"] != name:
                continue
            colour = colours.get((round(climb["delay"], 3), climb["compensate"]), PLAN)
            speeds = np.array([run["speed"] for run in climb["runs"]])
            outside = np.array([run["outside"] for run in climb["runs"]])
            failed = np.array([bool(run["failure"]) for run in climb["runs"]])
            predicted = ", predicted" if climb["compensate"] else ", not predicted"
            label = f"{1e3 * climb['delay']:.0f} ms{predicted if climb['delay'] else ''}"
            row[0].plot(speeds, outside, color=colour, lw=1.0, label=label)
            row[0].plot(speeds[failed], outside[failed], "x", color=colour, ms=7)
            for run in climb["runs"]:
                if run["speed"] == climb["highest"]:
                    row[1].plot(*np.array(run["track"]).T, color=colour, lw=1.2, label=f"{label}, {run['speed']:.1f} m/s: passed")
        row[0].axhline(OUTSIDE, color=OBSTACLE, lw=0.8, ls="--")
        row[0].set(xlabel="entry speed [m/s]", ylabel="outside of the corridor [m]", title=name)
        row[0].legend(fontsize=7)
        cones = _lane_change_ground(name)
        _ground(row[1], cones, 0.0)
        row[1].set(xlabel="x [m]", ylabel="y [m]", ylim=(-4.0, 9.0))
        row[1].legend(fontsize=7, loc="upper right")
    return figure


def _lane_change_ground(name: str) -> Scenario:
    from lfdm_ros.studies.driving import Trial, trial_scenario

    return trial_scenario(Trial(name, speed=10.0))
