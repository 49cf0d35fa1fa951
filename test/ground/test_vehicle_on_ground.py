"""A vehicle on a ground of a file: what of it each model meets, by itself or by name."""

import numpy as np
import pytest

from lfdm_ros.ground import SoilWheel, WheelMotion, load_soil, settle
from lfdm_ros.ground.ground_file import load_ground
from lfdm_ros.ground.vehicle_on_ground import SUNK, Edges, VehicleOnGround, firm_of
from lfdm_ros.simulation import Simulator
from lfdm_ros.vehicles import load_vehicle

PLAIN = load_vehicle("hmmwv")
AREA = {"area": {"x": [-20.0, 20.0], "y": [-20.0, 20.0], "spacing": 1.0}}
ROAD, SOIL, HILL = {**AREA, "friction": 0.9}, {**AREA, "friction": 1.0, "soil": "dry_sand"}, {"heights": {"rise_x": 0.05}}


def end(vehicle, spec: str, tyre: str | None = None) -> float:
    simulator = Simulator(vehicle, spec, 2e-3, tyre)
    simulator.reset(vx=3.0)
    simulator.advance((0.0, 0.3, 0.0), (0.0, 0.3, 0.0), 500)
    return float(simulator.outputs[simulator.output_index["vx"]])


def test_a_model_meets_all_that_there_is() -> None:
    level, hilly = VehicleOnGround(PLAIN, load_ground(ROAD)), VehicleOnGround(PLAIN, load_ground({**ROAD, **HILL}))
    assert level.vehicle.spec("eight_dof") == "eight_dof/friction_field"
    assert hilly.vehicle.spec("eight_dof") == "eight_dof/friction_field/height_map"
    flat = end(PLAIN.replace(friction_scale=0.9 * PLAIN.parameters["friction_scale"]), "eight_dof")
    assert end(level.vehicle, "eight_dof") == pytest.approx(flat, rel=1e-3)
    # Uphill for a second: g sin, less what turns in the wheels.
    assert flat - end(hilly.vehicle, "eight_dof") == pytest.approx(0.47, abs=0.04)


def test_soil_is_met_by_wheels_that_know_it_and_as_firm_ground_by_others() -> None:
    soft = VehicleOnGround(PLAIN, load_ground(SOIL))
    on, tyre = soft.vehicle, soft.tyre("eighteen_dof")
    assert tyre == "bekker_wong" and on.spec("eighteen_dof", tyre).startswith("eighteen_dof/bekker_wong/soil_map")
    assert end(on, "eighteen_dof", tyre) == pytest.approx(
        end(PLAIN.replace(**load_soil("dry_sand").parameters), "eighteen_dof/bekker_wong/soil"), rel=1e-9)
    assert on.spec("driven_bicycle") == "driven_bicycle/friction_field/resistance_map"
    assert end(on, "driven_bicycle") < end(PLAIN, "driven_bicycle") - 0.5  # dry sand holds back by more than a m/s^2


def test_who_names_a_tyre_gets_it() -> None:
    soft = VehicleOnGround(PLAIN, load_ground(SOIL))
    assert soft.tyre("eighteen_dof", "fiala") == "fiala" and soft.tyre("eighteen_dof/fiala") is None
    assert soft.tyre("driven_bicycle") is None and VehicleOnGround(PLAIN, load_ground(ROAD)).tyre("eighteen_dof") is None
    narrow = VehicleOnGround(load_vehicle("sedan"), load_ground(SOIL))  # of whose tyres nobody knows the width
    assert narrow.tyre("eighteen_dof") is None and "resistance_map" not in narrow.vehicle.parameters


def test_what_is_not_there_costs_nothing() -> None:
    assert VehicleOnGround(PLAIN, None).vehicle is PLAIN
    hilly = VehicleOnGround(PLAIN, load_ground({**AREA, "friction": 1.0, **HILL})).vehicle
    assert hilly.spec("eight_dof") == "eight_dof/height_map"
    assert not {"friction_field", "soil_map", "resistance_map"} & hilly.parameters.keys()


def test_another_process_makes_its_own() -> None:
    """What is pickled is what the ground is made of: the numbers are others, the ground is the same."""
    field = {**AREA, "seed": 5, "friction": {"ice": 0.2, "dry": 1.0, "alpha_x": 5, "alpha_y": 5, "sigma_f": 2}, **HILL}
    cloudpickle, once = pytest.importorskip("cloudpickle"), VehicleOnGround(PLAIN, load_ground(field))  # as Dask has it
    again = cloudpickle.loads(cloudpickle.dumps(once))
    assert again.numbers.keys() == once.numbers.keys() and not set(again.numbers.values()) & set(once.numbers.values())
    assert end(again.vehicle, "eight_dof") == end(once.vehicle, "eight_dof")


def test_wheels_off_the_map_are_counted() -> None:
    p, edges = PLAIN.parameters, Edges(PLAIN, load_ground(ROAD))
    half = 0.5 * p["track_front"]
    assert not edges.look(0.0, 0.0, 0.3) and (edges.states, edges.wheels) == (0, 0)
    assert edges.look(0.0, 20.0, 0.0) and (edges.states, edges.wheels) == (1, 2)  # half of it beyond the left edge
    assert not edges.look(20.0 - p["cg_to_front_axle"] + 0.1, 20.0 + half + 0.1, 0.0) and (edges.states, edges.wheels) == (2, 6)
    assert not edges.look(20.0 - p["cg_to_front_axle"] + 0.1, 0.0, 0.0) and (edges.states, edges.wheels) == (3, 8)


HMMWV = load_vehicle("hmmwv")
WHEEL, LOAD = SoilWheel(0.47, 0.318, 326332.0), 6310.0
SOILS = ("lete_sand", "sandy_loam_15", "dry_sand", "clayey_soil_38")


@pytest.mark.parametrize("name", SOILS)
def test_largest_pull_and_towed_drag_are_the_exact_wheels(name):
    soil = load_soil(name)
    firm = firm_of(soil, WHEEL, LOAD)
    at = [settle(WHEEL, soil, LOAD, WheelMotion.of(slip)).forces for slip in np.linspace(-0.6, 1.0, 81)]
    pulls, moments = np.array([(f.fx, f.moment) for f in at]).T
    assert firm.friction - firm.resistance == pytest.approx(pulls.max() / LOAD, rel=0.02)
    towed = np.interp(0.0, moments, pulls)  # the moment rises with the slip
    assert firm.resistance == pytest.approx(-towed / LOAD, rel=0.02)
    # Across and locked, which it is not made for: within a third, and never more than 15 % too much.
    across = abs(settle(WHEEL, soil, LOAD, WheelMotion.of(0.0, 1.2)).forces.fy) / LOAD
    locked = -settle(WHEEL, soil, LOAD, WheelMotion.of(-1.0)).forces.fx / LOAD
    assert -0.35 < firm.friction / across - 1.0 < 0.15
    assert -0.35 < (firm.friction + firm.resistance) / locked - 1.0 < 0.15


def test_what_does_not_carry_the_wheel_is_no_ground_to_drive_on():
    assert firm_of(load_soil("snow_harrison"), SoilWheel(0.47, 0.1, 326332.0), 3.0 * LOAD) is SUNK


@pytest.mark.parametrize(("name", "error"), [("lete_sand", 0.08), ("dry_sand", 0.15)])
def test_vehicles_on_soil_and_on_its_firm_ground(name, error):
    """Ways of a vehicle that rolls free and of one that drives off with full throttle: the bicycle against the 18-DOF model on soil."""
    area = {"x": [-20.0, 80.0], "y": [-20.0, 20.0], "spacing": 1.0}
    on = VehicleOnGround(HMMWV, load_ground({"area": area, "friction": 1.0, "soil": name}))
    for speed, command in ((6.0, (0.0, 0.0, 0.0)), (1.0, (0.0, 1.0, 0.0))):
        ways = []
        for spec in ("driven_bicycle", "eighteen_dof/bekker_wong"):
            simulator = Simulator(on.vehicle, spec, 2e-3)
            simulator.reset(vx=speed)
            simulator.advance(command, command, 1500)
            ways.append(float(simulator.outputs[simulator.output_index["x"]]))
        assert ways[0] == pytest.approx(ways[1], rel=error)
