"""How far the conventions of the C++ library LFDM are from physics, on its own vehicles and runs; docs/lfdm_differences.md.

`lfdm bench lfdm_differences`. With `conventions: lfdm` our models compute what the library
does (`agreement`); the same vehicle with `conventions: physics` shows what that costs (`total`), and two of the choices are
parameters or inputs, so that they can be changed alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from lfdm_lab.benchmarks import _reference as reference
from lfdm_lab.cli.bench import Record, format_table
from lfdm_ros.simulation import InputProfile, Simulator, rollout
from lfdm_ros.vehicles import Vehicle

STEP, OUTPUT_STEP = 1e-3, 0.01
RUNS = ("acc3", "iso_dl_10")
ALL_RUNS = (*RUNS, "double_lane", "st4_left")

# Relative and absolute tolerance of the agreement with the library.
RELATIVE, ABSOLUTE = 1e-5, 1e-6
# Columns of the library's output whose name is not ours. Its axle wheels are both of our wheels; sp_tor is not a state.
COLUMNS = {"wlf": "omega_fl", "wrf": "omega_fr", "wlr": "omega_rl", "wrr": "omega_rr", "wf": "omega_fl", "wr": "omega_rl",
           "current_gear": "gear", "engine_omega": "engine_speed"}


def measure(runs: int) -> list[Record]:
    """All numbers of `lfdm bench lfdm_differences`; they do not scatter, so `runs` changes nothing."""
    return [Record(name, value, unit, 0.0, 1) for name, value, unit in (*agreement(), *effects())]


def simulate(vehicle: Vehicle, chassis: str, profile: InputProfile, until: float) -> dict[str, np.ndarray]:
    """Outputs by name, one row each 10 ms."""
    simulator = Simulator(vehicle, model=chassis, dt=STEP)
    return dict(zip(simulator.output_names, rollout(simulator, profile, until, OUTPUT_STEP)[1].T))


# -- Agreement with the library -----------------------------------------------------------------------------------------

def agreement() -> list[tuple[str, float, str]]:
    """Worst disagreement with the library of any column at any time of each run; 1 is the tolerance.

    Compared without the first row, which the library leaves at zero, and without its accelerations, which are du/dt and dv/dt of the
    last step where ours are proper accelerations.
    """
    return [(f"agreement/{chassis}/{name}/{run}", worst_disagreement(chassis, name, run), "1")
            for chassis in reference.DEGREES for name in reference.TYRE_FILES for run in ALL_RUNS]


def worst_disagreement(chassis: str, name: str, run: str) -> float:
    """In units of the tolerance, 1e-5 of the value but at least 1e-6 (SI)."""
    theirs = reference.library_run(chassis, name, run)
    ours = simulate(reference.imported(chassis, name), chassis, reference.library_inputs(chassis, run), theirs["time"][-1])
    return max(float(np.max(np.abs(ours[COLUMNS.get(column, column)][1:len(values)] - values[1:])
                            / np.maximum(RELATIVE * np.abs(values[1:]), ABSOLUTE)))
               for column, values in theirs.items() if column not in ("time", "sp_tor", "ax", "ay"))


# -- What the conventions change ------------------------------------------------------------------------------------------

def effects() -> list[tuple[str, float, str]]:
    """Largest difference to the library's conventions, in speed, yaw rate and the place at the end."""
    records = []
    for chassis in reference.DEGREES:
        for name in reference.TYRE_FILES:
            library = reference.imported(chassis, name)
            ours = replace(library.replace(unsprung_load_share=1.0), conventions="physics")
            for run in RUNS:
                profile = reference.library_inputs(chassis, run)
                until = float(profile.time[-1])
                base = simulate(library, chassis, profile, until)
                # The library reads the inputs at the start of a step; later by half a step is in its middle.
                later = InputProfile(profile.time - 0.5 * STEP, *profile.values.T)
                variants = {"total": simulate(ours, chassis, profile, until),
                            "unsprung_load_share": simulate(library.replace(unsprung_load_share=1.0), chassis, profile, until),
                            "input_time": simulate(library, chassis, later, until)}
                for variant, changed in variants.items():
                    records += [(f"{variant}_{quantity}/{chassis}/{name}/{run}", value, unit)
                                for quantity, value, unit in difference(base, changed)]
    return records


def difference(base: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> list[tuple[str, float, str]]:
    """Of two runs: (quantity, value, unit)."""
    place = np.hypot(other["x"][-1] - base["x"][-1], other["y"][-1] - base["y"][-1])
    return [("speed", float(np.abs(other["vx"] - base["vx"]).max()), "m/s"),
            ("yaw_rate", float(np.abs(other["yaw_rate"] - base["yaw_rate"]).max()), "rad/s"), ("place", float(place), "m")]


if __name__ == "__main__":
    print(format_table(measure(1)))
