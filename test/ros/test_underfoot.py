"""A vehicle on a ground of a file: friction, soils or heights, by what its model takes."""

from __future__ import annotations

import pytest

from lfdm_ros.ros.grounds import Underfoot
from lfdm_ros.simulation import Simulator
from lfdm_ros.terrain import load_soil
from lfdm_ros.terrain.ground_file import load_ground
from lfdm_ros.vehicles import load_vehicle

PLAIN = load_vehicle("hmmwv")
FILE = {"area": {"x": [-20.0, 20.0], "y": [-20.0, 20.0], "spacing": 1.0}, "friction": 0.9, "soil": "dry_sand", "heights": {"rise_x": 0.05}}


def end(vehicle, spec: str) -> float:
    simulator = Simulator(vehicle, spec, 2e-3)
    simulator.reset(vx=3.0)
    simulator.advance((0.0, 0.3, 0.0), (0.0, 0.3, 0.0), 500)
    return float(simulator.outputs[simulator.output_index["vx"]])


def test_each_model_meets_what_its_ground_is() -> None:
    underfoot = Underfoot(PLAIN, load_ground(FILE))  # what is under the vehicle lives as long as this does
    on = underfoot.vehicle
    assert end(on, "eighteen_dof/bekker_wong/soil_map") == pytest.approx(
        end(PLAIN.replace(**load_soil("dry_sand").parameters), "eighteen_dof/bekker_wong/soil"), rel=1e-9)
    level = end(PLAIN.replace(friction_scale=0.9 * PLAIN.parameters["friction_scale"]), "eight_dof")
    assert end(on, "eight_dof") == pytest.approx(level, rel=1e-3)
    assert end(on, "eight_dof/height_map") < level - 0.3  # uphill for a second: g sin


def test_without_a_ground_the_vehicle_is_what_it_was() -> None:
    assert Underfoot(PLAIN, None).vehicle is PLAIN
    only = load_ground({key: value for key, value in FILE.items() if key not in ("soil", "heights")})
    assert not {"soil_map", "height_map"} & Underfoot(PLAIN, only).vehicle.parameters.keys()
