"""`lfdm vehicle check`: the kinematics of a suspension over its travel as tables, JSON and a picture, and its limits."""

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from lfdm_ros.cli.common import add_former
from lfdm_ros.errors import InputError
from lfdm_ros.models import AXLES
from lfdm_ros.reports import add_figure_argument, require_figure, save_figure
from lfdm_ros.vehicles import load_vehicle

_STEERING = (-1.0, -0.5, 0.0, 0.5, 1.0)
_COLUMNS = {"travel_mm": "travel mm", "dy_mm": "dy mm", "track_mm": "track mm", "camber_deg": "camber deg", "toe_in_deg": "toe-in deg",
            "motion_ratio": "motion ratio"}
_SHOWN = {"travel_mm": ("travel", "mm"), "camber_deg": ("camber", "deg"), "toe_in_deg": ("toe-in", "deg"),
          "motion_ratio": ("motion ratio", ""), "wheel_load_n": ("load", "N"), "wheel_rate_n_per_m": ("wheel rate", "N/m"),
          "ride_frequency_hz": ("ride", "Hz"), "roll_centre_height_m": ("roll centre", "m"), "anti_dive_percent": ("anti-dive", "%"),
          "anti_lift_braking_percent": ("anti-lift, braking", "%"), "anti_lift_driving_percent": ("anti-lift, driving", "%"),
          "anti_squat_percent": ("anti-squat", "%")}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `lfdm vehicle check`."""
    parser.add_argument("vehicle", help="name in config/vehicles, or a YAML file")
    parser.add_argument("--travel", metavar="FROM:TO:STEP", default="-100:100:25",
                        help="wheel travel of the tables, mm from the construction pose, + up; write --travel=-100:... (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    add_figure_argument(parser, "camber, toe-in, track and motion ratio over all the travel")
    add_former(parser, "--picture", "--figure", type=Path)


def run(args: argparse.Namespace) -> int:
    """Runs `lfdm vehicle check`; returns the exit status."""
    from lfdm_ros.simulation.suspension import Suspension, reach_in_mm

    travels = _travels(args.travel)
    require_figure(args.figure)
    suspension = Suspension(load_vehicle(args.vehicle))
    reach = {axle: suspension.reach(axle) for axle in AXLES}
    tables = {axle: suspension.rows(axle, travels) for axle in AXLES}
    steering = [dict(zip(("steering", "left_deg", "right_deg"), (value, *map(math.degrees, suspension.steered(value)))))
                for value in _STEERING]
    beyond: list[str] = []
    try:
        static = suspension.standing()
    except InputError as error:
        static, beyond = {}, [str(error)]
    beyond += [f"{axle} left and right: a travel of {1e3 * travel:g} mm is out of reach, which ends at {1e3 * end:.1f} mm ({why})"
              for axle, of in reach.items() for travel in travels
              for end, why, out in ((of.lowest, of.below, travel < of.lowest), (of.highest, of.above, travel > of.highest)) if out]
    beyond += [f"front {side}: steering {row['steering']:g} is out of reach of the tie rod" for row in steering
               for side in ("left", "right") if not math.isfinite(row[f"{side}_deg"])]
    if args.figure is not None:
        _draw(args.figure, suspension, reach, static)
    if args.json:
        finite = [{key: value if math.isfinite(value) else None for key, value in row.items()} for row in steering]
        print(json.dumps({**tables, "static": static, "reach": {axle: reach_in_mm(of) for axle, of in reach.items()},
                          "steering": finite, "out_of_reach": beyond}))
        return 0
    for axle in AXLES:
        _print_axle(axle, tables[axle], reach[axle], static.get(axle))
    print("steering in the construction pose, angles of the left and right front wheel, + left:\n  "
          + "; ".join(f"{row['steering']:g}: {row['left_deg']:.2f}, {row['right_deg']:.2f} deg" for row in steering))
    if static:
        print(f"at rest: centre of the sprung mass {static['cg_height_m']:.4f} m above the ground, pitch {static['pitch_deg']:.3f} deg, "
              "+ nose down")
    for line in beyond or ["all of it is within reach"]:
        print(line)
    return 0


def _travels(text: str) -> list[float]:
    """Parses FROM:TO:STEP in mm; returns metres."""
    try:
        first, last, step = (float(part) for part in text.split(":"))
    except ValueError:
        raise InputError(f"--travel {text}: write FROM:TO:STEP in mm, as -100:100:25") from None
    if not all(map(math.isfinite, (first, last, step))) or not step > 0.0 or not 0.0 <= last - first <= 1000.0 * step:
        raise InputError(f"--travel {text}: give FROM below TO, in at most 1000 steps above 0 mm")
    return [1e-3 * (first + k * step) for k in range(math.floor((last - first) / step + 1e-9) + 1)]


def _print_axle(axle: str, rows: list[dict[str, float]], reach: Any, static: dict[str, float] | None) -> None:
    print(f"{axle} axle, left wheel; camber and toe-in as ISO 8855, travel from the construction pose, + up")
    print("  " + "".join(f"{title:>14}" for title in _COLUMNS.values()))
    for row in rows:
        print("  " + "".join(f"{row[key]:14.3f}" for key in _COLUMNS))
    print(f"  reaches from {1e3 * reach.lowest:.1f} mm ({reach.below}) to {1e3 * reach.highest:.1f} mm ({reach.above}); rebound stop from "
          f"{1e3 * reach.rebound_stop:.1f} mm down, bump stop from {1e3 * reach.bump_stop:.1f} mm up")
    if static:
        print("  at rest: " + ", ".join(f"{name} {static[key]:.6g} {unit}".rstrip()
                                          for key, (name, unit) in _SHOWN.items() if key in static))


def _draw(path: Path, suspension: Any, reach: dict[str, Any], static: dict[str, Any]) -> None:
    """Writes the picture."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 6.5), layout="constrained")
    axes = figure.subplots(2, 2, sharex=True)
    panels = {"camber_deg": "camber [deg]", "toe_in_deg": "toe-in [deg]", "track_mm": "track [mm]", "motion_ratio": "motion ratio"}
    for (axle, of), colour in zip(reach.items(), ("#1f6fb2", "#c0392b")):
        # A hair inside: at the very end slopes are infinite. No wheel goes higher than the bump stop and 60 mm of it.
        rows = suspension.rows(axle, np.linspace(of.lowest + 2e-3, min(of.highest - 2e-3, of.bump_stop + 0.06, 0.2), 200).tolist())
        for axis, key in zip(axes.flat, panels):
            axis.plot([row["travel_mm"] for row in rows], [row[key] for row in rows], color=colour, label=axle)
            axis.axvline(1e3 * of.rebound_stop, color=colour, ls=":", lw=1)
            if static:
                axis.axvline(static[axle]["travel_mm"], color=colour, ls="--", lw=1)
    for axis, title in zip(axes.flat, panels.values()):
        axis.set_title(title, fontsize=10)
        axis.grid(alpha=0.3)
    figure.supxlabel("wheel travel from the construction pose [mm]; dashed: at rest, dotted: where the rebound stop begins", fontsize=10)
    axes.flat[0].legend()
    save_figure(figure, path)
