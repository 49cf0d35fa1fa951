"""The controller on a ground that is slippery in one place: it slows down before the ice that it knows of."""

from dataclasses import replace

import numpy as np

from lfdm_ros.control.controller import Controller
from lfdm_ros.control.settings import Settings
from lfdm_ros.engine.closed_loop import PlantSettings, Run, drive
from lfdm_ros.ground import FieldTable
from lfdm_ros.ground.ground_file import load_ground
from lfdm_ros.simulation import Pose, load_scenario
from lfdm_ros.vehicles import load_vehicle

HMMWV = load_vehicle("hmmwv")


def test_who_knows_of_the_ice_stays_in_the_lane() -> None:
    """A bend at 13 m/s with a sheet of ice across it: the 18-DOF vehicle is on that ground, and its controller knows, or not."""
    ground = load_ground("ice_in_the_bend")
    table = FieldTable(ground.field)
    on_ice = HMMWV.replace(friction_field=table.number)
    scenario = replace(load_scenario("curve"), initial=Pose(x=30.0, speed=13.0), duration=9.0)

    def driven(known: bool) -> Run:
        controller = Controller(on_ice if known else HMMWV, Settings(use_limit_table=False, time_budget=0.0), None)
        return drive(on_ice, scenario, controller, PlantSettings("eighteen_dof", lidar=None))

    def entry(run: Run) -> float:
        """Speed [m/s] at the edge of the ice."""
        away = np.hypot(run.column("x") - 98.8, run.column("y") - 12.0)
        return float(run.column("vx")[np.argmax(away < 7.0)])

    ignorant, informed = driven(False), driven(True)
    assert ignorant.outside > 0.5 and informed.outside == 0.0
    assert informed.sideslip < 0.7 * ignorant.sideslip
    assert entry(informed) < entry(ignorant) - 0.1
