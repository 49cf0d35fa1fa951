"""Results of one run in closed loop: figures as JSON, its ending in words, its failures."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from lfdm_ros.control.prediction import STANDING
from lfdm_ros.engine.closed_loop import Run
from lfdm_ros.simulation import Scenario

OUTSIDE = 0.05  # [m] by which a corner may leave the corridor: its edge is a line


def summarise_run(scenario: Scenario, run: Run) -> dict[str, Any]:
    """Returns the figures of a run as JSON; SI, None for what is not a number. ratio: time to the goal by that along a straight line;
    impact: closing speed of the collision; from_behind: the vehicle was run into."""
    vx = run.column("vx")
    straight, (impact, from_behind) = None, _impact(scenario, run)
    if scenario.goal is not None and scenario.speed is not None:
        start = scenario.initial
        straight = (math.hypot(scenario.goal.x - start.x, scenario.goal.y - start.y) - scenario.goal.tolerance) / scenario.speed
    return {
        "reached": _number(run.reached), "straight": straight,
        "ratio": run.reached / straight if straight and math.isfinite(run.reached) else None,
        "collision": run.collisions[0] if run.collisions else "", "impact": impact,
        "from_behind": from_behind, "goal_states": len(scenario.goal_states),
        "least_clearance": _number(run.least_clearance), "lifted": run.lifted,
        "least_load": _number(run.least_load), "diverged": run.diverged,
        "stands": bool(abs(vx[-1]) < STANDING), "seconds": float(run.times[-1]), "length": run.length,
        "mean_speed": float(vx.mean()), "largest_error": _number(run.largest_error), "outside": run.outside, "sideslip": run.sideslip,
        "lateral_acceleration": _number(np.abs(run.column("ay")).max()), "cycles": len(run.seconds), "blocked": run.blocked,
        "cold_starts": run.cold_starts, "outcomes": dict(sorted(run.outcomes.items())), "violated": dict(sorted(run.violated.items())),
        "cycle_ms": quantiles(1e3 * run.seconds)}


def _impact(scenario: Scenario, run: Run) -> tuple[float | None, bool]:
    """Returns the closing speed of a collision [m/s], None without one, and whether the vehicle was run into from behind."""
    if not run.collisions:
        return None, False
    world, time = scenario.world, float(run.times[-1])
    met = next(k for k in range(len(world.obstacles)) if world.label(k) == run.collisions[0])
    x, y, yaw, vx, vy = (float(run.column(name)[-1]) for name in ("x", "y", "yaw", "vx", "vy"))
    axes = np.array([[math.cos(yaw), math.sin(yaw)], [-math.sin(yaw), math.cos(yaw)]])
    closing = axes @ world.motion(time)[1][met] - (vx, vy)
    ahead, aside = axes @ (world.centre(met, time) - (x, y))
    return math.hypot(*closing), bool(-ahead > abs(aside) and closing[0] > abs(closing[1]))


def quantiles(ms: np.ndarray) -> dict[str, float] | None:
    """Returns median, 99 % and largest of cycles (n,) [ms]; None without cycles, as where a vehicle starts inside an obstacle."""
    return dict(zip(("p50", "p99", "max"), np.round(np.percentile(ms, (50, 99, 100)), 3).tolist())) if len(ms) else None


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def ending(run: Mapping[str, Any]) -> str:
    marks = f", {run['lifted']:.2f} s with a wheel lifted" if run["lifted"] > 0.0 else ""
    marks += f", {run['outside']:.2f} m out of its corridor" if run["outside"] > OUTSIDE else ""
    if run["collision"] and not run["cycles"]:
        return f"hit at the start: {run['collision']}"
    if run["collision"]:
        stood = run["stands"] and run["impact"] > STANDING
        hit = "hit from behind by" if run.get("from_behind") else "stands, and is hit by" if stood else "hit"
        return f"{hit} {run['collision']} at {run['impact']:.1f} m/s after {run['seconds']:.1f} s{marks}"
    if run["diverged"]:
        return f"diverged after {run['seconds']:.1f} s{marks}"
    if run["reached"] is not None:
        where = "goal" if run["straight"] is not None or run.get("goal_states") else "end of the path"
        return f"{where} after {run['reached']:.2f} s{marks}"
    if run["stands"]:
        return f"stands, its goal out of reach{marks}" if run["straight"] is not None else f"stands before the end of its path{marks}"
    return f"still on its way when the time is over{marks}"


def _predicted(run: Mapping[str, Any]) -> str:
    """Returns a note on whether the controller predicts through its delay; '' for an operator."""
    return {True: " predicted", False: " not predicted", None: ""}[run.get("compensate")]


def failures(runs: Iterable[Mapping[str, Any]]) -> list[str]:
    """Returns one line for each run that hit something, lifted a wheel, left its corridor, diverged or did not arrive; a dead end is
    no failure."""
    found = []
    for run in runs:
        arrived = run["reached"] is not None or (run["scenario"] == "dead_end" and run["stands"])
        if run["collision"] or run["lifted"] > 0.0 or run["outside"] > OUTSIDE or run["diverged"] or not arrived:
            seed = f" seed {run['seed']}" if run["seed"] is not None else ""
            if run.get("density", 1.0) != 1.0:
                seed += f", {run['density']:g} times as dense"
            late = f", {1e3 * run['delay']:.0f} ms{_predicted(run)}" if run.get("delay") else ""
            found.append(f"{run['scenario']}{seed}, {run['controller']}{late}: {ending(run)}")
    return found
