"""Pictures of studies of the controller, on Matplotlib's Agg canvas."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from lfdm_lab.studies import friction
from lfdm_lab.studies.driving import FIELD, SPEEDS, TRACKS, Trial, trial_scenario
from lfdm_lab.studies.sharing import RISK_THREATS
from lfdm_ros.engine.run_pictures import DETECTION, GOAL, OBSTACLE, PLAN, VEHICLE, draw_ground
from lfdm_ros.engine.run_report import OUTSIDE
from lfdm_ros.reports import BLUE, GREY, INK, ORANGE, PALE, VIOLET
from lfdm_ros.simulation import load_scenario

OBSERVED = {None: ("no observations", GREY), 4.0: ("observed every 4 m", ORANGE), 2.0: ("observed every 2 m", BLUE)}
CONTROLLER_COLOURS = {"mpc": BLUE, "kinematic": ORANGE, "ipopt": VIOLET}


def _draw_intervals(axis: Any, x: np.ndarray, y: np.ndarray, limits: np.ndarray, colour: str, label: str | None = None) -> None:
    """Draws values y (n,) over x with their intervals `ends` (2, n)."""
    axis.errorbar(x, y, np.abs(limits - y), color=colour, marker="o", ms=3.5, lw=1.2, elinewidth=0.8, label=label)


def draw_fields(runs: Sequence[Mapping[str, Any]]) -> Figure | None:
    """Draws the paths through the first fields of each speed; None if no field was driven."""
    found = [name for name in (f"{FIELD}{speed}" for speed in SPEEDS) if any(run["scenario"] == name for run in runs)]
    shown = [(name, seed) for name in found for seed in range(1, TRACKS + 1)
             if any(run["scenario"] == name and run["seed"] == seed for run in runs)]
    if not shown:
        return None
    figure = Figure(figsize=(10.0, 1.15 * len(shown) + 0.4), layout="constrained")
    drawn: dict[str, Any] = {}
    for axis, (name, seed) in zip(figure.subplots(len(shown), squeeze=False)[:, 0], shown):
        scenario = load_scenario(name, seed=seed)
        draw_ground(axis, scenario, 0.0)
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
    """Draws time to the goal against the straight line, least clearance and least wheel load as shares of runs; None without fields."""
    runs = [run for run in runs if run["scenario"].startswith(FIELD)]
    names = list(dict.fromkeys(run["scenario"] for run in runs))
    if not names:
        return None
    quantities = (("ratio", "time / straight line"), ("least_clearance", "least clearance [m]"), ("least_load", "least wheel load"))
    figure = Figure(figsize=(10.0, 2.3 * len(names) + 0.3), layout="constrained")
    for row, name in zip(figure.subplots(len(names), len(quantities), squeeze=False), names):
        for axis, (key, label) in zip(row, quantities):
            for controller, colour in CONTROLLER_COLOURS.items():
                group = [run for run in runs if run["scenario"] == name and run["controller"] == controller]
                values = np.sort([run[key] for run in group if run[key] is not None])
                if len(values):  # below 1 if a run did not arrive
                    axis.step(values, np.arange(1, len(values) + 1) / len(group), where="post", color=colour, label=controller)
            if key != "ratio":
                axis.axvline(0.0, color=DETECTION, lw=0.8)
            axis.set(ylim=(0.0, 1.02), xlabel=label)
        row[0].set_ylabel(f"{name.removeprefix(FIELD)} mph: share of runs", fontsize=8)
    figure.axes[0].legend(fontsize=8)
    return figure


def draw_density(summary: Sequence[Mapping[str, Any]]) -> Figure | None:
    """Draws shares of goals and of collisions over the density by speed, with 95 % intervals; None if nothing was driven."""
    speeds = sorted({row["speed_mph"] for row in summary})
    if not speeds:
        return None
    figure = Figure(figsize=(10.0, 5.6), layout="constrained")
    controllers = [name for name in CONTROLLER_COLOURS if any(row["controller"] == name for row in summary)]
    axes = figure.subplots(2, len(speeds), squeeze=False, sharex=True, sharey=True)
    for i, speed in enumerate(speeds):
        for axis, ending in zip(axes[:, i], ("goals", "collisions")):
            for k, controller in enumerate(controllers):
                rows = [row for row in summary if (row["speed_mph"], row["controller"]) == (speed, controller)]
                # Shifted sideways to keep equal shares distinguishable.
                at = np.array([row["density"] for row in rows]) + 0.12 * (k - 0.5 * (len(controllers) - 1))
                share = np.array([row[ending] / row["runs"] for row in rows])
                limits = np.array([row[f"{ending}_95"] for row in rows]).reshape(-1, 2).T
                _draw_intervals(axis, at, share, limits, CONTROLLER_COLOURS[controller], controller)
            axis.set_ylim(-0.03, 1.03)
        axes[0, i].set_title(f"{speed} mph", fontsize=10)
        axes[1, i].set_xlabel("density, times the shipped field")
    axes[0, 0].set_ylabel("share of runs at their goal")
    axes[1, 0].set_ylabel("share of runs with a collision")
    axes[0, 0].legend(fontsize=8)
    return figure


def draw_reliability(worlds: Mapping[str, Mapping[str, Any]]) -> Figure | None:
    """Draws the reliability diagram of each world: observed share over predicted probability, with 95 % intervals, and shares of
    episodes."""
    if not worlds:
        return None
    columns = min(3, len(worlds))
    count = -(-len(worlds) // columns)
    figure = Figure(figsize=(3.4 * columns, 3.3 * count), layout="constrained")
    axes = figure.subplots(count, columns, squeeze=False, sharex=True, sharey=True)
    for axis, (name, world) in zip(axes.flat, worlds.items()):
        rows = world["rows"]
        x, y, n = (np.array([row[key] for row in rows]) for key in ("predicted", "observed", "episodes"))
        limits = np.array([(row["lower"], row["upper"]) for row in rows]).T
        axis.plot([0.0, 1.0], [0.0, 1.0], color="0.6", lw=0.8)
        axis.bar(x, n / n.sum(), width=0.05, color="0.85")
        _draw_intervals(axis, x, y, limits, BLUE)
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
    """Draws the share of failures, and of autonomy in the command, over the latency, by scenario; None if nothing was driven."""
    rows = [row for row in rows if not (row["blind"] or row["changes"]) and row["mode"] == "blend" and row["threats"] == list(RISK_THREATS)]
    scenarios = list(dict.fromkeys(row["scenario"] for row in rows))
    if not scenarios:
        return None
    across = min(len(scenarios), 5)
    bands = -(-len(scenarios) // across)
    figure = Figure(figsize=(3.5 * across, 5.0 * bands), layout="constrained")
    axes = figure.subplots(2 * bands, across, squeeze=False, sharex=True, sharey=True)
    panels = [(axes[2 * band, i], axes[2 * band + 1, i]) for band in range(bands) for i in range(across)]
    for upper, lower in panels[len(scenarios):]:
        upper.set_axis_off()
        lower.set_axis_off()
    for scenario, (upper, lower) in zip(scenarios, panels):
        for control, colour in (("operator", ORANGE), ("autonomy", GREY), ("shared", BLUE)):
            group = sorted((r for r in rows if (r["scenario"], r["control"]) == (scenario, control)), key=lambda r: r["latency_s"])
            if not group:
                continue
            at, share = (np.array(v) for v in zip(*((1e3 * r["latency_s"], r["failures"] / r["episodes"]) for r in group)))
            limits = np.array([r["failures_95"] for r in group]).T
            _draw_intervals(upper, at, share, limits, colour, control)
            if control == "shared":
                lower.plot(at, [r["mean_k"] for r in group], color=colour, marker="o", ms=3.5, lw=1.2)
        upper.set_title(scenario.replace("_", " "), fontsize=10)
        upper.set_ylim(-0.03, 1.03)
        lower.set_xlabel("latency of the link [ms]")
        upper.set_ylabel("share of runs that failed")
        lower.set_ylabel("mean k")
        upper.label_outer()
        lower.label_outer()
    axes[0, 0].legend(fontsize=8)
    return figure


def draw_impacts(runs: Sequence[Mapping[str, Any]]) -> Figure | None:
    """Draws the impact speed of each run by scenario and driver, and the number of runs without impact; None without runs."""
    scenarios = list(dict.fromkeys(run["scenario"] for run in runs))
    if not scenarios:
        return None
    figure = Figure(figsize=(8.0, 0.55 * len(scenarios) + 1.0), layout="constrained")
    axis = figure.subplots()
    drivers = (("brake", ORANGE, "s"), ("trusting", GREY, "^"), ("autonomy", BLUE, "o"))
    for i, (driver, colour, marker) in enumerate(drivers):
        label: str | None = driver
        for row, scenario in enumerate(scenarios):
            group = [run for run in runs if (run["scenario"], run["driver"]) == (scenario, driver)]
            if group:
                speeds, height = [run["impact"] for run in group if run["collision"]], row + 0.25 * (i - 1)
                axis.plot(speeds, [height] * len(speeds), marker, color=colour, ms=4.5, mfc="none", label=label)
                axis.text(-0.2, height, f"{len(group) - len(speeds)} of {len(group)}", color=colour, ha="right", va="center", fontsize=7)
                label = None
    axis.axvline(0.0, color="0.8", lw=0.8)
    axis.set_yticks(range(len(scenarios)), [scenario.replace("_", " ") for scenario in scenarios])
    axis.invert_yaxis()
    axis.set(xlabel="closing speed of the impact [m/s]; left of it: runs without one", xlim=(-1.5, None))
    figure.legend(loc="outside upper center", ncols=len(drivers), fontsize=8, frameon=False)
    return figure


def draw_delays(summary: Sequence[Mapping[str, Any]], runs: Sequence[Mapping[str, Any]]) -> Figure:
    """Draws the largest path error and the least clearance over the delay, and the slalom's paths at the largest delay."""
    figure = Figure(figsize=(10.0, 5.4), layout="constrained")
    parts: Any = figure.subfigures(2, 1, height_ratios=(1.3, 1.0))
    upper, lower = parts
    left, right = upper.subplots(1, 2)
    courses = [name for name in (summary[0] if summary else {}) if name not in ("delay", "compensate")]
    for name, marker in zip(courses, "osD^"):
        of_fields = name.startswith(FIELD)
        for compensate, colour in ((True, VEHICLE), (False, DETECTION)):
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
        draw_ground(axis, load_scenario("slalom"), 0.0)
        largest = max(run["delay"] for run in slalom)
        for run in slalom:
            if run["delay"] == largest:
                axis.plot(*np.array(run["track"]).T, color=VEHICLE if run["compensate"] else DETECTION,
                          label=f"{1e3 * largest:.0f} ms, {'' if run['compensate'] else 'not '}predicted through")
        axis.set(xlabel="x [m]", ylabel="y [m]", title="slalom", ylim=(-8.0, 8.0))
        axis.legend(fontsize=7, loc="upper right")
    return figure


def draw_lane_changes(climbs: Sequence[Mapping[str, Any]]) -> Figure:
    """Draws the excursion from the corridor over the speed, with failures marked, and the paths at the highest speed passed."""
    names = list(dict.fromkeys(climb["scenario"] for climb in climbs))
    figure = Figure(figsize=(10.0, 2.9 * len(names)), layout="constrained")
    colours = {(0.0, True): VEHICLE, (0.2, True): GOAL, (0.2, False): DETECTION}
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
        draw_ground(row[1], trial_scenario(Trial(name, speed=10.0)), 0.0)
        row[1].set(xlabel="x [m]", ylabel="y [m]", ylim=(-4.0, 9.0))
        row[1].legend(fontsize=7, loc="upper right")
    return figure


def draw_yaw_rates(runs: Sequence[Mapping[str, Any]]) -> Figure | None:
    """Draws yaw rates on samples of a friction field, their deviation and that of the field under the path (004, figs 15 to 18); None
    without these drives."""
    found = {(run["manoeuvre"], run["patch"], run["spacing"]): run for run in runs if run["kind"] == "drive"}
    shown = [found[cell] for cell in friction.PAPER if cell in found]
    if not shown:
        return None
    figure = Figure(figsize=(4.0 * len(shown), 5.2), layout="constrained")
    axes = figure.subplots(2, len(shown), squeeze=False, sharex="col")
    for (upper, lower), run in zip(axes.T, shown):
        times, mean, sd = (np.array(run[key]) for key in ("time", "yaw_rate_mean", "yaw_rate_sd"))
        upper.fill_between(times, mean - 2.0 * sd, mean + 2.0 * sd, color=BLUE, alpha=0.25, lw=0)
        upper.plot(times, np.array(run["yaw_rate_samples"]).T, color=BLUE, lw=0.4, alpha=0.7)
        upper.plot(times, mean, color=BLUE, lw=2, label=f"{run['samples']} samples: mean, 2 sd, twelve of them")
        upper.plot(times, run["yaw_rate_plain"], "--", color=INK, lw=1.4, label="constant friction")
        manoeuvre = friction.MANOEUVRES[run["manoeuvre"]]
        if manoeuvre.ice_at is not None:
            upper.axvspan(manoeuvre.ice_at, manoeuvre.ice_at + friction.ICE_LENGTH / manoeuvre.speed, color=PALE, alpha=0.6, zorder=0)
        upper.set_title(f"{run['manoeuvre'].replace('_', ' ')}, patches {run['patch']:g} m")
        lower.plot(times, sd, color=BLUE, lw=2)
        lower.set(xlabel="time [s]", ylim=(0.0, None))
        field = lower.twinx()
        field.plot(times, run["way_sd"], color=ORANGE, lw=1.2)
        field.set_ylim(0.0, None)
    field.set_ylabel("sd of the field under the path [1]", color=ORANGE)
    axes[0, 0].set_ylabel("yaw rate [rad/s]")
    axes[1, 0].set_ylabel("sd of the yaw rate [rad/s]", color=BLUE)
    axes[0, 0].legend(fontsize=8, loc="lower right")
    return figure


def draw_spin_outs(rows: Sequence[Mapping[str, Any]]) -> Figure | None:
    """Draws the probability of a spin-out over the patch length by manoeuvre and observations, with 95 % intervals; None without
    drives."""
    manoeuvres = [name for name in friction.MANOEUVRES if sum(row["manoeuvre"] == name for row in rows) > 1]
    if not manoeuvres:
        return None
    figure = Figure(figsize=(3.6 * len(manoeuvres), 3.2), layout="constrained")
    axes = figure.subplots(1, len(manoeuvres), squeeze=False, sharey=True)[0]
    for axis, name in zip(axes, manoeuvres):
        for shift, (spacing, (label, colour)) in zip((0.96, 1.0, 1.04), OBSERVED.items()):
            group = sorted((row for row in rows if (row["manoeuvre"], row["observation_spacing_m"]) == (name, spacing)),
                           key=lambda row: float(row["patch_length_m"]))
            share = np.array([row["spin_out_probability"] for row in group])
            limits = np.array([row["interval"] for row in group]).reshape(-1, 2).T
            _draw_intervals(axis, np.array([shift * row["patch_length_m"] for row in group]), share, limits, colour, label)
        axis.set(title=name.replace("_", " "), xscale="log", xlabel="patch length [m]")
        axis.set_xticks(friction.PATCHES, [f"{patch:g}" for patch in friction.PATCHES])
        axis.minorticks_off()
    axes[0].set_ylabel("probability of a spin-out")
    axes[0].legend(fontsize=8)
    return figure


def draw_convergence(runs: Sequence[Mapping[str, Any]]) -> Figure | None:
    """Draws the distance from the path on the finest nodes over time, its ratio to the path's length over the nodes of a patch (004,
    figs 2 and 3), and the time to draw a field over its nodes; None without this run."""
    found = next((run for run in runs if run["kind"] == "convergence"), None)
    if found is None:
        return None
    figure = Figure(figsize=(10.8, 3.3), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    for nodes, apart in zip(found["per_patch"], found["deviation"]):
        left.semilogy(found["time"], np.maximum(apart, 1e-9), label=f"{nodes:g} nodes a patch")
    left.set(xlabel="time [s]", ylabel="distance from the finest's path [m]")
    middle.loglog(found["per_patch"], found["error"], color=BLUE, marker="o", ms=4)
    per_patch = np.array(found["per_patch"])
    middle.loglog(per_patch, found["error"][0] * (per_patch[0] / per_patch) ** 4, ":", color=GREY, label="fourth order")
    middle.set(xlabel="nodes a patch", ylabel="error / path length")
    middle.set_xticks(per_patch, [f"{nodes:g}" for nodes in per_patch])
    middle.minorticks_off()
    for spacing, (label, colour) in OBSERVED.items():
        drives = [run for run in runs if run["kind"] == "drive" and run["spacing"] == spacing]
        right.loglog([run["nodes"] for run in drives], [1e3 * run["fields_seconds"] / run["samples"] for run in drives], "o", color=colour,
                     ms=4, label=label)
    right.set(xlabel="nodes", ylabel="time to draw a field [ms]", xlim=(2e3, 2e5))
    right.minorticks_off()
    for axis in (left, middle, right):
        axis.legend(fontsize=8)
    return figure
