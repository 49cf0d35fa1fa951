"""Tables of the results of controller studies."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lfdm_lab.studies import format_number, grouped
from lfdm_lab.studies.driving import FIELD
from lfdm_ros.engine.run_report import ending, quantiles
from lfdm_ros.numerics import binomial_interval
from lfdm_ros.reports import Table

Runs = Sequence[Mapping[str, Any]]
GOALS = 0.98  # share of goals that must be reached
GOALS_UP_TO = 18.0  # [m/s] at speeds up to this one


# -- mpc ----------------------------------------------------------------------------------------------------------------------


def summarise_fields(runs: Runs) -> list[dict[str, Any]]:
    """Returns one record for each speed and controller; quantiles of the time ratio over the goals reached."""
    found = []
    for (scenario, controller), group in grouped(runs, "scenario", "controller").items():
        ratios = [run["ratio"] for run in group if run["ratio"] is not None]
        found.append({
            "scenario": scenario, "controller": controller, "speed": group[0]["speed"], "runs": len(group),
            "collisions": sum(bool(run["collision"]) for run in group), "lifts": sum(run["lifted"] > 0.0 for run in group),
            "diverged": sum(run["diverged"] for run in group), "goals": len(ratios) / len(group),
            "ratio": _ratio_quantiles(ratios), "least_clearance": _least_clearance(group),
            "least_load": min(-math.inf if run["least_load"] is None else run["least_load"] for run in group),
            "cycle_ms": cycle_times(group), **_totals(group)})
    return found


def _ratio_quantiles(ratios: Sequence[float]) -> dict[str, float] | None:
    return dict(zip(("p5", "p50", "p95"), np.round(np.percentile(ratios, (5, 50, 95)), 4).tolist())) if ratios else None


def _least_clearance(runs: Runs) -> float:
    return min(math.inf if run["least_clearance"] is None else run["least_clearance"] for run in runs)


def cycle_times(runs: Runs) -> dict[str, float] | None:
    """Returns percentiles of all cycles of the runs [ms]; None if there is none."""
    return quantiles(np.concatenate([np.asarray(run["cycle_us"], float) for run in runs]) / 1000.0)


def passes(summary: Sequence[Mapping[str, Any]]) -> bool:
    """Checks that the full controller has no collision and no lifted wheel and reaches nearly all goals of moderate speed."""
    return all(row["collisions"] == 0 and row["lifts"] == 0 and row["diverged"] == 0
               and (row["goals"] >= GOALS or row["speed"] > GOALS_UP_TO) for row in summary if row["controller"] == "mpc")


def fields_table(summary: Sequence[Mapping[str, Any]]) -> Table:
    heads = ["field [mph]", "controller", "runs", "collisions", "wheel lifts", "goals", "time / straight line (5 to 95 %)",
             "least clearance [m]", "least wheel load", "cycle p50 / p99 / max [ms]", "cycles not solved", "violated, share of cycles"]
    rows = []
    for row in summary:
        rows.append([
            row["scenario"].removeprefix(FIELD), row["controller"], str(row["runs"]), str(row["collisions"]), str(row["lifts"]),
            f"{100.0 * row['goals']:.0f} %", _ratio(row["ratio"]),
            format_number(row["least_clearance"]), format_number(row["least_load"]), _times(row["cycle_ms"]), *_counts(row)])
    return heads, rows


def suite_table(runs: Runs) -> Table:
    heads = ["scenario", "controller", "what happened", "least clearance [m]", "least wheel load", "largest path error [m]", "outside [m]",
             "cycle p50 / p99 / max [ms]", "cycles not solved", "violated, share of cycles"]
    rows = [[run["scenario"], run["controller"], ending(run), format_number(run["least_clearance"]), format_number(run["least_load"]),
             format_number(run["largest_error"]), f"{run['outside']:.2f}" if run["largest_error"] is not None else "-",
             _times(run["cycle_ms"]), *_counts(_totals([run]))] for run in runs]
    return heads, rows


# -- density ------------------------------------------------------------------------------------------------------------------


def density_ending(run: Mapping[str, Any]) -> str:
    """Classifies a run in a dense field: goals, stopped (no contact, it stands), collisions, diverged, or unfinished."""
    endings = {"collisions": run["collision"], "diverged": run["diverged"], "goals": run["reached"] is not None, "stopped": run["stands"]}
    return next((name for name, occurred in endings.items() if occurred), "unfinished")


def summarise_density(runs: Runs) -> list[dict[str, Any]]:
    """Returns one record for each speed, controller and density: counts, 95 % intervals of their shares, time ratios of goals reached."""
    found = []
    for (scenario, controller, density), group in sorted(grouped(runs, "scenario", "controller", "density").items(),
                                                         key=lambda item: (item[0][0], item[0][2])):
        counts = Counter(density_ending(run) for run in group)
        ratios = [run["ratio"] for run in group if run["ratio"] is not None and not run["collision"]]
        row: dict[str, Any] = {"density": density, "speed_mph": int(scenario.removeprefix(FIELD)), "controller": controller,
                               "runs": len(group)}
        for name in ("goals", "stopped", "collisions"):
            row |= {name: counts[name], f"{name}_95": [round(limit, 4) for limit in binomial_interval(counts[name], len(group))]}
        found.append(row | {
            "unfinished": counts["unfinished"], "diverged": counts["diverged"], "lifts": sum(run["lifted"] > 0.0 for run in group),
            "ratio": _ratio_quantiles(ratios), "least_clearance": _least_clearance(group), "cycle_ms": cycle_times(group)})
    return found


def is_collision_free(summary: Sequence[Mapping[str, Any]]) -> bool:
    """Checks that the full controller has no collision in any field."""
    return all(row["collisions"] == 0 and row["diverged"] == 0 for row in summary if row["controller"] == "mpc")


def density_table(summary: Sequence[Mapping[str, Any]]) -> Table:
    heads = ["field [mph]", "density", "controller", "runs", "goals", "stopped before", "collisions", "unfinished",
             "time / straight line (5 to 95 %)", "least clearance [m]", "cycle p50 / p99 / max [ms]"]
    rows = []
    for row in summary:
        shares = [f"{row[name]} ({100.0 * row[f'{name}_95'][0]:.0f} to {100.0 * row[f'{name}_95'][1]:.0f} %)"
                  for name in ("goals", "stopped", "collisions")]
        rows.append([str(row["speed_mph"]), f"{row['density']:g}", row["controller"], str(row["runs"]), *shares,
                     str(row["unfinished"] + row["diverged"]), _ratio(row["ratio"]), format_number(row["least_clearance"]),
                     _times(row["cycle_ms"])])
    return heads, rows


# -- delay and lane_change ----------------------------------------------------------------------------------------------------


def summarise_delays(runs: Runs) -> list[dict[str, Any]]:
    """Returns one record for each delay, with and without compensation: the run of a course, counts of collisions and goals of fields."""
    found = []
    for (delay, compensate), group in grouped(runs, "delay", "compensate").items():
        row: dict[str, Any] = {"delay": round(delay, 6), "compensate": compensate}
        for name in dict.fromkeys(run["scenario"] for run in group):
            some = [run for run in group if run["scenario"] == name]
            errors = [run["largest_error"] for run in some if run["largest_error"] is not None]
            row[name] = {
                "runs": len(some), "collisions": sum(bool(run["collision"]) for run in some),
                "lifts": sum(run["lifted"] > 0.0 for run in some), "reached": sum(run["reached"] is not None for run in some),
                "largest_error": max(errors) if errors else None, "least_clearance": _least_clearance(some),
                "outside": max(run["outside"] for run in some), "least_load": min(run["least_load"] or 0.0 for run in some),
                "ending": ending(some[0]) if len(some) == 1 else ""}
        found.append(row)
    return found


def delays_table(summary: Sequence[Mapping[str, Any]]) -> Table:
    names = [name for name in summary[0] if name not in ("delay", "compensate")] if summary else []
    heads = ["delay [ms]", "predicted"]
    for name in names:
        of_fields = [f"{name}: collisions", "least clearance [m]", "wheel lifts", "goals"]
        heads += of_fields if name.startswith(FIELD) else [name, f"{name}: largest path error [m]"]
    rows = []
    for row in summary:
        cells = [f"{1e3 * row['delay']:.0f}", "yes" if row["compensate"] else "no"]
        for name in names:
            cell = row.get(name)
            if cell is None:  # interrupted before
                cells += ["-"] * (4 if name.startswith(FIELD) else 2)
            elif name.startswith(FIELD):
                cells += [f"{cell['collisions']} of {cell['runs']}", format_number(cell["least_clearance"]), str(cell["lifts"]),
                          f"{cell['reached']} of {cell['runs']}"]
            else:
                cells += [cell["ending"], format_number(cell["largest_error"])]
        rows.append(cells)
    return heads, rows


def lane_change_table(climbs: Runs) -> Table:
    heads = ["lane change", "delay [ms]", "predicted", "highest speed passed [m/s]", "[km/h]", "speed at the end [m/s]",
             "least wheel load", "next speed fails"]
    rows = []
    for climb in climbs:
        best = next((run for run in climb["runs"] if run["speed"] == climb["highest"]), None)
        rows.append([
            climb["scenario"], f"{1e3 * climb['delay']:.0f}", "yes" if climb["compensate"] else "no", format_number(climb["highest"], 1),
            f"{3.6 * climb['highest']:.0f}" if climb["highest"] else "-", format_number(climb["exit_speed"], 1),
            format_number(best["least_load"]) if best else "-", climb["failure"] or "-"])
    return heads, rows


# -- Cells --------------------------------------------------------------------------------------------------------------------


def _totals(runs: Runs) -> dict[str, Any]:
    outcomes, violated = Counter[str](), Counter[str]()
    for run in runs:
        outcomes.update(run["outcomes"])
        violated.update(run["violated"])
    return {"cycles": sum(run["cycles"] for run in runs), "outcomes": dict(sorted(outcomes.items())),
            "violated": dict(sorted(violated.items())), "cold_starts": sum(run["cold_starts"] for run in runs),
            "blocked": sum(run["blocked"] for run in runs)}


def _counts(row: Mapping[str, Any]) -> tuple[str, str]:
    others = ", ".join(f"{count} {name.lower()}" for name, count in row["outcomes"].items() if name != "SOLVED")
    violated = ", ".join(f"{name} {100.0 * count / row['cycles']:.2g} %" for name, count in row["violated"].items())
    return others or "0", violated or "none"


def _times(ms: Mapping[str, float] | None) -> str:
    return "-" if ms is None else f"{ms['p50']:.2f} / {ms['p99']:.2f} / {ms['max']:.1f}"


def _ratio(ratio: Mapping[str, float] | None) -> str:
    return f"{ratio['p50']:.3f} ({ratio['p5']:.3f} to {ratio['p95']:.3f})" if ratio else "-"
