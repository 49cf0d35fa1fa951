"""Soil as friction and resistance: what it is made to keep against the exact wheel, how far off the rest is, and vehicles on both."""

import numpy as np
import pytest

from lfdm_ros.ground import SoilWheel, WheelMotion, load_soil, settle
from lfdm_ros.ground.equivalent_friction import SUNK, firm_of
from lfdm_ros.ground.ground_file import load_ground
from lfdm_ros.ground.vehicle_on_ground import VehicleOnGround
from lfdm_ros.simulation import Simulator
from lfdm_ros.vehicles import load_vehicle

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
