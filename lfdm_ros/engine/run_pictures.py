"""Pictures of a run in closed loop, on Matplotlib's Agg canvas, and its animation."""

import io
import math
import shutil
import subprocess
import textwrap
from collections.abc import Sequence
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
from lfdm_ros.engine.closed_loop import Run
from lfdm_ros.errors import InputError, prefixing
from lfdm_ros.files import replacing
from lfdm_ros.reports import BLUE, GREEN, GREY, ORANGE, PALE, RED, VIOLET
from lfdm_ros.sensors import Scan
from lfdm_ros.simulation import Circle, Scenario
from lfdm_ros.vehicles import Footprint, Mount

OBSTACLE, PATH, GOAL, PLAN, ROUTE, DETECTION, VEHICLE = GREY, PALE, GREEN, ORANGE, VIOLET, RED, BLUE
DPI = 90
FRAME, PIXELS, VIEW = 0.2, (720, 260), (25.0, 75.0)  # [s], width and height, [m] behind and ahead
LARGEST_GIF = 1_500_000  # bytes


@dataclass
class Film:
    """Cycles and scans of a run, kept every `step` [s]; give `note` to `drive` as on_cycle."""

    lidar: Mount | None
    step: float = FRAME
    frames: list[tuple[float, Cycle, Scan | None]] = field(default_factory=list)
    _scan: Scan | None = None

    def note(self, now: float, cycle: Cycle, scan: Scan | None) -> None:
        self._scan = scan if scan is not None else self._scan
        if now >= len(self.frames) * self.step - 1e-9:
            self.frames.append((now, cycle, self._scan))


def draw_run(scenario: Scenario, run: Run, footprint: Footprint, ending: str, film: Film) -> Figure:
    """Draws a run from above and over time, for a page.

    From above, to scale: obstacles where they were at the end, lane, goal, the vehicle's outline once a second and the plans of those
    times. Over time: speed, steering, pedals, least wheel load by that at the start.

    Args:
        ending: how the run ended, for the title.
        film: of the run, for its plans.
    """
    x, y, yaw = (run.column(name) for name in ("x", "y", "yaw"))
    low, high = _extent(scenario, x, y)
    width, height = high - low
    inches = float(np.clip(8.2 * height / width, 1.2, 4.0))  # of the view from above
    figure = Figure(figsize=(9.0, 6.0 + inches), layout="constrained")
    grid = figure.add_gridspec(5, 1, height_ratios=(inches, 1.0, 1.0, 1.0, 1.0))
    axis = figure.add_subplot(grid[0])
    draw_ground(axis, scenario, run.times[-1], trails=True)
    plans = [cycle.plan for now, cycle, _ in film.frames if cycle.plan is not None and cycle.plan.names and now % 1.0 < film.step / 2.0]
    for k, plan in enumerate(plans):
        axis.plot(*plan.states[:, [plan.names.index("x"), plan.names.index("y")]].T, color=PLAN, lw=0.8, alpha=0.8,
                  label=None if k else "plan, once a second")
    axis.plot(x, y, color=VEHICLE, lw=2.4, alpha=0.6, zorder=1.5, label="vehicle, outline once a second")
    every = max(1, round(1.0 / (run.times[1] - run.times[0]))) if len(run.times) > 1 else 1
    for k in (*range(0, len(x) - 1, every), len(x) - 1):
        axis.add_patch(Outline(_corners(x[k], y[k], yaw[k], footprint), fill=k == len(x) - 1, fc=VEHICLE, ec=VEHICLE, lw=0.7, zorder=3))
    if run.collisions:
        axis.plot(x[-1], y[-1], "x", color=DETECTION, ms=12, mew=2.5, zorder=4, label=f"hit {run.collisions[0]}")
    axis.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xlabel="x [m]", ylabel="y [m]")
    axis.set_aspect("equal")
    figure.legend(*axis.get_legend_handles_labels(), loc="outside upper left", ncols=6, fontsize=8, frameon=False, alignment="left",
                  title="\n".join(textwrap.wrap(f"{scenario.name}: {ending}", 95)), title_fontsize=11)
    _draw_signals([figure.add_subplot(grid[k]) for k in range(1, 5)], scenario, run)
    return figure


def _extent(scenario: Scenario, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the lower and upper corner (2,) of the view from above [m]: the path driven with its surroundings, and the goal."""
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
        speed.axhline(scenario.speed, color=OBSTACLE, lw=0.9, ls="--", label="target")
        speed.legend(fontsize=8, loc="lower right", frameon=False)
    top = max(float(run.column("vx").max()), scenario.speed or 0.0, 1.0)
    speed.set(ylabel="speed\n[m/s]", ylim=(min(0.0, 1.1 * float(run.column("vx").min())), 1.1 * top))
    times = run.times[:len(run.commands)]
    steering.plot(times, run.commands[:, 0], color=VEHICLE, lw=1.2)
    most = max(0.1, 1.1 * float(np.abs(run.commands[:, 0]).max(initial=0.0)))
    steering.set(ylabel="steering\n(+ left)", ylim=(-most, most))
    for column, (name, colour) in enumerate((("throttle", GOAL), ("brake", DETECTION)), 1):
        pedals.plot(times, run.commands[:, column], color=colour, lw=1.2, label=name)
    lowest, highest = (float(f(run.commands[:, 1:], initial=0.0)) for f in (np.min, np.max))
    pedals.set(ylabel="pedals", ylim=(1.1 * min(lowest, -0.02), 1.1 * max(highest, 0.1)))
    pedals.legend(fontsize=8, ncols=2, loc="upper right", frameon=False)
    loads = np.column_stack([run.column(f"tyre_fz_{wheel}") for wheel in ("fl", "fr", "rl", "rr")])
    load.plot(run.times, 100.0 * (loads / np.maximum(loads[0], 1.0)).min(axis=1), color=VEHICLE, lw=1.2)
    load.axhline(0.0, color=DETECTION, lw=0.8)
    load.set(ylabel="least wheel\nload [%]", ylim=(-8.0, 110.0), xlabel="time [s]")
    for axis in axes:
        axis.set_xlim(run.times[0], max(run.times[-1], run.times[0] + 1e-3))
        axis.grid(alpha=0.25, lw=0.6)
        axis.tick_params(labelbottom=axis is load)
    axes[0].figure.align_ylabels(axes)


def require_animation(path: Path, option: str = "--animation") -> None:
    """Checks the name of an animation before the run that it shows. Raises InputError: neither .gif nor .mp4, .mp4 without ffmpeg, or no
    such folder."""
    if path.suffix.lower() not in (".gif", ".mp4"):
        raise InputError(f"{option} {path}: give a name that ends in .gif or .mp4")
    if path.suffix.lower() == ".mp4" and shutil.which("ffmpeg") is None:
        raise InputError(f"{option} {path}: .mp4 is written by ffmpeg, which is not installed here (apt install ffmpeg); or give .gif")
    if not path.resolve().parent.is_dir():
        raise InputError(f"{option} {path}: no such folder")


def animate(path: Path, scenario: Scenario, run: Run, footprint: Footprint, film: Film) -> None:
    """Writes a GIF or MP4 that follows the vehicle at twice its pace. A GIF over 1.5 MB gets fewer frames and colours. Raises InputError:
    as `require_animation`, or the file cannot be written."""
    require_animation(path)
    pictures = [_frame(scenario, run, footprint, film, k) for k in range(len(film.frames))]
    if path.suffix.lower() == ".mp4":
        _write_mp4(path, pictures, 2.0 / film.step)
        return
    write_gif(path, pictures, 1e3 * film.step / 2.0)


def write_gif(path: Path, pictures: Sequence[Image.Image], milliseconds: float) -> None:
    """Writes pictures of one size as a GIF, each shown for a time [ms]; over 1.5 MB with fewer frames and colours. Raises InputError: it
    cannot be written."""
    width, height = pictures[0].size
    some = pictures[::max(1, len(pictures) // 8)]
    together = Image.new("RGB", (width, height * len(some)))
    for k, picture in enumerate(some):
        together.paste(picture, (0, k * height))
    for skip, colours in ((1, 256), (1, 64), (1, 32), (1, 16), (2, 16), (3, 16), (5, 8)):
        palette = together.quantize(colours, Image.Quantize.MAXCOVERAGE)  # one for all: else colours flicker
        chosen = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures[::skip]]
        written = io.BytesIO()
        chosen[0].save(written, format="GIF", save_all=True, append_images=chosen[1:], duration=round(milliseconds * skip), loop=0,
                       optimize=True)
        if written.tell() < LARGEST_GIF:
            break
    with prefixing(f"cannot write {path}", OSError), replacing(path) as partial:
        partial.write_bytes(written.getvalue())


def _write_mp4(path: Path, pictures: Sequence[Image.Image], rate: float) -> None:
    """Writes pictures as an MP4 of a `rate` [1/s]. Raises InputError: ffmpeg fails."""
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
    draw_ground(axis, scenario, now)
    if cycle.route is not None:
        axis.plot(cycle.route.x, cycle.route.y, color=ROUTE, lw=1.0, ls="--")
    if cycle.plan is not None:
        place = [cycle.plan.names.index(name) for name in ("x", "y")]
        axis.plot(*cycle.plan.states[:, place].T, color=PLAN, lw=2.0)
    if scan is not None and film.lidar is not None:
        at = min(round(scan.stamp / (run.times[1] - run.times[0])), len(run.times) - 1) if len(run.times) > 1 else 0
        axis.plot(*_echoes(scan, film.lidar, *(float(run.column(name)[at]) for name in ("x", "y", "yaw"))), ".", color=DETECTION, ms=2.0)
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
    sx, sy = lidar.place(x, y, yaw)
    return sx + scan.ranges[there] * np.cos(angles[there]), sy + scan.ranges[there] * np.sin(angles[there])


def draw_ground(axis: Any, scenario: Scenario, time: float, trails: bool = False) -> None:
    """Draws path, goal and the obstacles of a time [s]; with `trails` also lane, the obstacles' trails and names for a legend."""
    if scenario.path is not None:
        axis.plot(*scenario.path.T, color=OBSTACLE if trails else PATH, lw=1.0, ls="--", label="path" if trails else None)
        for k, side in enumerate(scenario.lane_edges if trails else ()):
            axis.plot(*side.T, color=PATH, lw=1.0, label=None if k else "lane")
    world = scenario.world
    named = moved = False
    for k, obstacle in enumerate(world.obstacles):
        label = "obstacle" if trails and not named else None
        if isinstance(obstacle, Circle):
            middle = np.array([[obstacle.x, obstacle.y]])
            edge = 1.5 * trails  # so that a cone is seen from far
            axis.add_patch(Disc(world.place(middle, k, time)[0], obstacle.radius, color=OBSTACLE, lw=edge, label=label))
        else:
            middle = obstacle.vertices.mean(axis=0)[None]
            axis.add_patch(Outline(world.place(obstacle.vertices, k, time), color=OBSTACLE, lw=0.0, label=label))
        named = True
        if trails:
            begin, end = max(0.0, obstacle.present[0]), min(time, obstacle.present[1] - 1e-9)
            corners = [begin, *(step.time for step in obstacle.steps if begin < step.time < end), max(begin, end)]
            trail = np.concatenate([world.place(middle, k, at) for at in corners])
            if np.ptp(trail, axis=0).any():
                axis.plot(*trail.T, color=OBSTACLE, lw=0.8, ls=":", label=None if moved else "its way")
                moved = True
    if scenario.goal is not None:
        axis.add_patch(Disc((scenario.goal.x, scenario.goal.y), scenario.goal.tolerance, fill=False, ec=GOAL, lw=1.5,
                            label="goal" if trails else None))


def _corners(x: float, y: float, yaw: float, footprint: Footprint) -> np.ndarray:
    c, s = math.cos(yaw), math.sin(yaw)
    f, r, w = footprint.front, footprint.rear, footprint.half_width
    own = np.array([(f, w), (-r, w), (-r, -w), (f, -w)])
    return np.array([x, y]) + own @ np.array([[c, s], [-s, c]])
