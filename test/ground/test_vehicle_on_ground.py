"""A vehicle on a ground of a file: what of it each model meets, by itself or by name."""

import pytest

from lfdm_ros.ground import load_soil
from lfdm_ros.ground.ground_file import load_ground
from lfdm_ros.ground.vehicle_on_ground import Edges, VehicleOnGround
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
