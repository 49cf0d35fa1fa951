"""The chassis of 11, 18 and 24 degrees of freedom, their tyres and powertrains, against mechanics: laws and closed forms, not records."""

import numpy as np
import pytest

from lfdm_ros.backends import compiled_model_function
from lfdm_ros.models.chassis import GRAVITY
from lfdm_ros.simulation import InputProfile, Simulator, initial_state, rollout
from lfdm_ros.vehicles import load_vehicle, save_vehicle

HMMWV, SHAFTS, SEDAN, REAR_DRIVEN = (load_vehicle(name) for name in ("hmmwv", "hmmwv_shafts", "sedan", "sedan_rwd"))
CHASSIS = ("eleven_dof", "eighteen_dof", "twenty_four_dof")
FOUR_WHEELS = CHASSIS[1:]
TYRES = ("fiala", "tmeasy", "tmeasy_nr")
WHEELS = ("fl", "fr", "rl", "rr")
RPM = np.pi / 30.0
NO_ROLLING_RESISTANCE = {"rolling_resistance": 0.0, "rolling_resistance_coefficient": 0.0}

every_chassis = pytest.mark.parametrize("chassis", CHASSIS)
every_tyre = pytest.mark.parametrize("tyre", TYRES)
every_vehicle = pytest.mark.parametrize("vehicle", [HMMWV, SHAFTS, SEDAN], ids=lambda vehicle: vehicle.name)


def simulate(vehicle, chassis, tyre, profile, until, dt=1e-3, output_step=0.01, **start):
    """The outputs by name, one array each."""
    simulator = Simulator(vehicle, model=chassis, tyre=tyre, dt=dt)
    simulator.reset(**start)
    _, y = rollout(simulator, profile, until, output_step)
    return {name: y[:, i] for name, i in simulator.output_index.items()}


def constant(steering=0.0, throttle=0.0, brake=0.0):
    return InputProfile([0], [steering], [throttle], [brake])


def weaving(steering, throttle=0.0):
    return InputProfile([0, 1, 2, 3, 4, 5], [0, steering, -steering, steering, 0, 0], [throttle] * 6, [0] * 5 + [0])


def loads(y):
    return np.column_stack([y[f"tyre_fz_{w}"] for w in WHEELS])


def total_mass(vehicle):
    p = vehicle.parameters
    return p["sprung_mass"] + p["unsprung_mass_front"] + p["unsprung_mass_rear"]


def static_loads(vehicle):
    """Of one front and one rear wheel [N]."""
    p = vehicle.parameters
    a, b = p["cg_to_front_axle"], p["cg_to_rear_axle"]
    return (0.5 * GRAVITY * (p["sprung_mass"] * b / (a + b) + p["unsprung_mass_front"]),
            0.5 * GRAVITY * (p["sprung_mass"] * a / (a + b) + p["unsprung_mass_rear"]))


def between_loads(vehicle, name, load):
    """A force of the TMeasy table: the parabola through 0 and the two loads."""
    p = vehicle.parameters
    nominal = p["tyre_nominal_load"]
    knots = [0.0, nominal, 2.0 * nominal]
    values = [0.0, p[f"{name}_nominal"], p[f"{name}_double"]]
    return np.polyval(np.polyfit(knots, values, 2), load)


# -- Driving in a circle -------------------------------------------------------------------------------------------------------------
@every_chassis
@every_tyre
@every_vehicle
def test_steady_cornering_meets_the_understeer_gradient(vehicle, chassis, tyre):
    """Yaw-rate gain v / (L + K v^2), K from axle masses over the cornering stiffness of the axles' tyres at their static load."""
    vehicle = vehicle.replace(**NO_ROLLING_RESISTANCE, cg_to_front_axle=1.45, cg_to_rear_axle=1.55)
    p = vehicle.parameters
    a, b = 1.45, 1.55
    masses = p["sprung_mass"] * b / (a + b) + p["unsprung_mass_front"], p["sprung_mass"] * a / (a + b) + p["unsprung_mass_rear"]
    if tyre == "fiala":
        stiffness = p["cornering_stiffness_front"], p["cornering_stiffness_rear"]
    else:
        stiffness = [between_loads(vehicle, "tmeasy_lateral_slope", load) for load in static_loads(vehicle)]
    gradient = masses[0] / (2.0 * stiffness[0]) - masses[1] / (2.0 * stiffness[1])
    steering, speed = 2e-4, 15.0
    motor = vehicle.model(chassis, tyre).name
    y = simulate(vehicle, chassis, tyre, constant(steering), 4.0, vx=speed)
    vx, yaw_rate = y["vx"][-1], y["yaw_rate"][-1]
    expected = vx * steering * p["max_road_wheel_angle"] / (a + b + gradient * vx**2)
    assert motor and vx > 5.0
    print(vehicle.name, chassis, tyre, gradient*vx**2, yaw_rate/expected-1, y["ay"][-1]/(vx*yaw_rate)-1)
