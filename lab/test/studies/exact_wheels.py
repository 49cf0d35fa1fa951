"""Simulated recordings on soil, for calibrations with a simpler model.

The truth has the exact integrals of `lfdm_ros.ground.soil_wheel` at each wheel, 24 degrees of freedom with pitch and heave, and noise; the
recipe `soil` has 18 degrees of freedom and the few Gauss points of the compiled wheel.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from lfdm_ros.backends import ARRAYS
from lfdm_ros.calibration.recorded import write_drive
from lfdm_ros.ground.soil_wheel import Settled, SoilWheel, WheelMotion, settle
from lfdm_ros.ground.soils import SoilProperties
from lfdm_ros.models import Contact, Record, Wheel
from lfdm_ros.models.bekker_wong import BekkerWong
from lfdm_ros.models.equations import Functions, functions_of
from lfdm_ros.models.registry import CHASSIS, SLOTS, chassis_slots
from lfdm_ros.simulation import initial_state, load_scenario
from lfdm_ros.vehicles import Vehicle

RATE = 100  # [Hz], of the recordings
NOISE = {"vx": 0.05, "omega_fl": 0.1, "omega_fr": 0.1, "omega_rl": 0.1, "omega_rr": 0.1}
MEASURED = "measured/state"
POINTS = 24  # of each part of the contact
SLOW = 0.5  # [m/s] of rim and travel, below which the exact wheel has no law and the compiled one is a damper
UNKNOWNS = {"soil_frictional_modulus": "kphi", "soil_sinkage_exponent": "n", "soil_friction_angle": "phi", "soil_shear_modulus": "K"}


class ExactWheel(BekkerWong):
    """The tyre `bekker_wong` by the exact integrals, for one vehicle in NumPy, with the slopes of the compiled one (step size only);
    `at` (front, load, motion) is set by the class that `exactly` returns.
    """

    at: Callable[[bool, float, WheelMotion], Settled]

    def forces(self, q: Any, wheel: Wheel) -> Contact:
        quick = super().forces(q, wheel)
        motion = WheelMotion(float(wheel.along), float(wheel.across), float(wheel.radius * wheel.omega))
        if wheel.load <= 0.0 or max(abs(motion.vx), abs(motion.rim)) < SLOW:
            return quick
        at = type(self).at(wheel.front, float(wheel.load), motion)
        if at.forces is None:
            return quick
        return replace(quick, fx=at.forces.fx, fy=at.forces.fy, my=wheel.radius * at.forces.fx - at.forces.moment,
                       changes={"sinkage": at.sinkage})


def exactly(vehicle: Vehicle, soil: SoilProperties, chassis: str) -> Functions:
    """The equations of a chassis on exact wheels."""
    p = vehicle.parameters
    sizes = tuple(SoilWheel(p["wheel_radius"], p["tyre_width"], p[f"tyre_vertical_stiffness_{axle}"]) for axle in ("front", "rear"))

    @lru_cache(maxsize=64)  # both wheels of an axle that goes straight ahead
    def at(front: bool, load: float, motion: WheelMotion) -> Settled:
        return settle(sizes[0 if front else 1], soil, load, motion, POINTS)

    tyre = type("Own", (ExactWheel,), {"at": staticmethod(at)})
    model = vehicle.model(f"{chassis}/bekker_wong/soil")
    named = model.name.split("/")
    parts = {slot: SLOTS[slot][next((name for name in named if name in there), next(iter(there)))]
             for slot, there in chassis_slots(chassis).items() if slot != "conventions"}
    return functions_of(replace(model, build=lambda m: CHASSIS[chassis].build(
        m, **{slot: tyre(m) if slot == "tyre" else part.build(m) for slot, part in parts.items()})), ARRAYS)


def drive(vehicle: Vehicle, soil: SoilProperties, scenario: str, path: Path, *, seconds: float, chassis: str = "twenty_four_dof",
          step: float = 2e-3, seed: int = 1) -> Path:
    """Measured states of a scenario on exact wheels, from at least 1 m/s on, as a bag of that name."""
    wanted = load_scenario(scenario)
    assert wanted.profile is not None
    vehicle = vehicle.replace(source=f"soil {soil.name}", **soil.parameters)
    model, equations = vehicle.model(f"{chassis}/bekker_wong/soil"), exactly(vehicle, soil, chassis)
    q = equations.prepare(Record(**{field.name: np.float64(vehicle.parameters[field.name]) for field in model.parameters}))
    x: Sequence[Any] = tuple(map(np.float64, initial_state(model, vehicle, vx=max(1.0, wanted.initial.speed))))
    times, substeps = np.arange(round(seconds * RATE) + 1) / RATE, round(1.0 / (RATE * step))
    inputs, states = wanted.profile.sample(times), np.empty((len(times), len(x)))
    states[0] = x
    for k in range(1, len(times)):
        for _ in range(substeps):
            x = equations.step(x, inputs[k - 1], q, step)  # a command holds until the next, as bags have it
        states[k] = x
    columns = dict(zip((field.name for field in model.states), states.T))
    return write_drive(path, scenario, times, columns, inputs, model.wheels, [MEASURED], NOISE, seed)


def truths(soil: SoilProperties, width: float) -> dict[str, float]:
    """The unknowns of the recipe, of a soil under tyres of a width [m]: the modulus is the whole one."""
    return {**{name: soil.parameters[name if name in soil.parameters else f"{name}_x"] for name in UNKNOWNS},
            "soil_frictional_modulus": soil.modulus(width)}
