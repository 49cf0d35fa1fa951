"""Soft soil: what a wheel costs, how far it is from the exact integrals, how fast a vehicle of 18 degrees of freedom drives on it.

`lfdm bench soil`, or `python benchmarks/soil.py`. A wheel is its equilibrium and its forces. By itself it is machine code for one wheel at
a time; in a vehicle four fill the lanes of a vector, in a batch the vehicles do: there its cost is that of the step less that of the same
vehicle on Fiala tyres, a wheel.
"""

from __future__ import annotations

import time
from types import SimpleNamespace

import casadi as ca
import numpy as np

from lfdm_lab.cli.bench import Record, format_table
from lfdm_ros.backends import ARRAYS
from lfdm_ros.backends.casadi_backend import OPERATIONS
from lfdm_ros.compiler import compiled
from lfdm_ros.ground.soil_wheel import Motion, Outcome, SoilWheel, settle
from lfdm_ros.ground.soils import load_soil, soil_names
from lfdm_ros.models import Record as Values
from lfdm_ros.models import Wheel
from lfdm_ros.models.bekker_wong import BekkerWong
from lfdm_ros.models.soil import SOIL, SoilPatch, soil_of
from lfdm_ros.simulation import BatchRollout, Simulator, initial_state
from lfdm_ros.vehicles import load_vehicle

WHEEL, LOAD = SoilWheel(0.47, 0.318, 580e3), 6310.0
VEHICLE, SAND = load_vehicle("hmmwv"), load_soil("lete_sand")
CALLS, STEP, VEHICLES = 2000, 1e-3, 2048
_GAUSS = np.polynomial.legendre.leggauss(8)
# Below this exponent the pressure rises as a wall; see docs/ground.md.
EASY = 0.4


class Exact(BekkerWong):
    """The same equations with 8 + 8 points: two steps as the model makes them, one more, and the forces."""

    _v = 0.5 * (_GAUSS[0] + 1.0)
    passes = (*BekkerWong.passes[:-1], *(tuple(zip((1.0 - _v ** 1.5).tolist(), (0.75 * _v ** 0.5 * _GAUSS[1]).tolist())),) * 2)


def measure(runs: int) -> list[Record]:
    """All numbers of `lfdm bench soil`."""
    records = [Record.of("wheel_exact_numpy_us", [1e6 * numpy_wheel() for _ in range(runs)], "us")]
    for name, tyre in (("exact_8+8", Exact), ("alone", BekkerWong)):
        records.append(Record.of(f"wheel_{name}_ns", wheel_alone(tyre, runs), "ns"))
    plain, soil = (steps_of(spec, runs) for spec in ("eighteen_dof/fiala", "eighteen_dof/bekker_wong/soil"))
    records += [Record.of("wheel_in_a_vehicle_ns", [(s - p) / 4.0 for s, p in zip(soil, plain)], "ns"),
                Record.of("step_18_dof_fiala_ns", plain, "ns"), Record.of("step_18_dof_soil_ns", soil, "ns"),
                Record.of("real_time_factor_18_dof", [1e-9 * s / STEP for s in soil], "1")]
    for single in (False, True):
        plain, soil = (batch_of(spec, runs, single) for spec in ("eighteen_dof/fiala", "eighteen_dof/bekker_wong/soil"))
        name = "float32" if single else "float64"
        records += [Record.of(f"batch_step_18_dof_soil_ns/{name}", soil, "ns"),
                    Record.of(f"wheel_in_a_batch_ns/{name}", [(s - p) / 4.0 for s, p in zip(soil, plain)], "ns")]
    exactly = np.concatenate(list(errors_of_soils(Exact).values()))
    records.append(Record.of("error_largest/exact_8+8", [100.0 * exactly.max()], "% load"))
    errors = errors_of_soils()
    easy = np.concatenate([e for name, e in errors.items() if load_soil(name).sinkage_exponent >= EASY])
    every = np.concatenate(list(errors.values()))
    for name, found in (("exponent_from_0.4", easy), ("all", every)):
        records += [Record.of(f"error_largest/{name}", [100.0 * found.max()], "% load"),
                    Record.of(f"error_rms/{name}", [100.0 * float(np.sqrt((found ** 2).mean()))], "% load"),
                    Record.of(f"wheels_compared/{name}", [len(found)], "1")]
    return records


def numpy_wheel() -> float:
    """Seconds of the reference."""
    settle(WHEEL, SAND, LOAD, Motion.of(0.2))
    began = time.perf_counter()
    for k in range(20):
        settle(WHEEL, SAND, LOAD + k, Motion.of(0.2))
    return (time.perf_counter() - began) / 20


def parameters() -> SimpleNamespace:
    return SimpleNamespace(wheel_radius=WHEEL.radius, tyre_width=WHEEL.width, tyre_vertical_stiffness_front=WHEEL.stiffness,
                           tyre_vertical_stiffness_rear=WHEEL.stiffness)


def wheel_alone(kind: type[BekkerWong], runs: int) -> list[float]:
    """Nanoseconds of one wheel on soil that may change with every call, less those of a call."""
    x = ca.SX.sym("x", 4 + len(SOIL))
    load, vx, vy, omega, *soil = ca.vertsplit(x)
    tyre = kind(OPERATIONS)
    patch = SoilPatch(soil=soil_of(OPERATIONS, SimpleNamespace(**{field.name: value for field, value in zip(SOIL, soil)})))
    contact = tyre.forces(tyre.prepare(parameters()), Wheel(True, vx, vy, 1.0, 0.0, omega, load, WHEEL.radius - load / WHEEL.stiffness,
                                                            Values(), patch))
    results = ca.vertcat(contact.fx, contact.fy, contact.kx, contact.ky, contact.torque, contact.changes["sinkage"])
    given = np.array([LOAD, 5.0, 0.2, 13.0, *SAND.parameters.values()])
    seconds = []
    for function in (ca.Function("wheel", [x], [results]), ca.Function("nothing", [x], [x[:6]])):
        run = compiled(function).bind(given)
        seconds.append([_best(run.evaluate) for _ in range(runs)])
    return [1e9 * (own - call) for own, call in zip(*seconds)]


def _best(call) -> float:
    best = np.inf
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(CALLS):
            call()
        best = min(best, (time.perf_counter() - began) / CALLS)
    return float(best)


def steps_of(spec: str, runs: int) -> list[float]:
    """Nanoseconds of a step of one vehicle that accelerates in a bend."""
    simulator = Simulator(VEHICLE.replace(source="", **SAND.parameters), spec, STEP)
    found, drive = [], (0.05, 0.3, 0.0)
    for _ in range(runs):
        best = np.inf
        for _ in range(7):
            simulator.reset(vx=6.0)
            began = time.perf_counter()
            simulator.advance(drive, drive, 2000)
            best = min(best, (time.perf_counter() - began) / 2000)
        found.append(1e9 * best)
    return found


def batch_of(spec: str, runs: int, single: bool) -> list[float]:
    """Nanoseconds of processor time, all cores' together, of a vehicle and step in a batch, each with its own soil."""
    vehicle = VEHICLE.replace(source="", **SAND.parameters)
    model = vehicle.model(spec)
    times = np.linspace(0.0, 0.2, 5)
    own = ("soil_cohesion",) if "soil" in spec else ("friction_max",)
    batch = BatchRollout(model=model, vehicle=vehicle, dt=STEP, times=times, inputs=np.tile([0.05, 0.3, 0.0], (5, 1)), parameters=own,
                         channels=["vx"], precision="float32" if single else "float64")
    points = np.linspace(0.9, 1.1, VEHICLES)[:, None] * vehicle.parameters[own[0]]
    start, found = initial_state(model, vehicle, vx=6.0), []
    batch.trajectories(points, start)
    for _ in range(runs):
        best = np.inf
        for _ in range(5):
            began = time.process_time()
            batch.trajectories(points, start)
            best = min(best, time.process_time() - began)
        found.append(1e9 * best / (VEHICLES * 200))
    return found


def errors_of_soils(kind: type[BekkerWong] = BekkerWong) -> dict[str, np.ndarray]:
    """Largest difference of the forces from the exact integrals over the load, of each wheel that the model is valid for, by soil."""
    tyre, errors = kind(ARRAYS), {}
    q = tyre.prepare(parameters())
    for name in soil_names():
        soil, found = load_soil(name), []
        patch = SoilPatch(soil=soil_of(ARRAYS, SimpleNamespace(**soil.parameters)))
        for load in (600.0, 3000.0, 6310.0, 9000.0):
            for slip in (-0.9, -0.3, -0.05, 0.02, 0.1, 0.3, 0.6, 0.95):
                for angle in (0.0, 0.1):
                    motion = Motion.of(slip, angle, 6.0)
                    exact = settle(WHEEL, soil, load, motion)
                    if exact.outcome is not Outcome.SUPPORTED or exact.forces is None:
                        continue
                    low = WHEEL.radius - load / WHEEL.stiffness
                    vx, vy, one, zero, omega, force, radius = map(np.float64, (motion.vx, motion.vy, 1.0, 0.0, motion.rim / low, load, low))
                    contact = tyre.forces(q, Wheel(True, vx, vy, one, zero, omega, force, radius, Values(), patch))
                    found.append(max(abs(contact.fx - exact.forces.fx), abs(contact.fy - exact.forces.fy),
                                     abs(low * contact.fx - contact.torque - exact.forces.moment) / WHEEL.radius) / load)
        errors[name] = np.array(found)
    return errors


if __name__ == "__main__":
    print(format_table(measure(3)))
