"""A program that drives a scenario for some seconds and prints the hash of all that happened: for test_same_drive.py."""

import hashlib
import sys
from dataclasses import replace

from lfdm_ros.control.controller import Controller, limits_of
from lfdm_ros.control.settings import Settings
from lfdm_ros.engine.closed_loop import PlantSettings, drive
from lfdm_ros.simulation import load_scenario
from lfdm_ros.vehicles import load_vehicle


def main() -> int:
    """Arguments: the scenario, and for how long [s]."""
    vehicle, settings = load_vehicle("hmmwv"), Settings(time_budget=0.0)
    scenario = replace(load_scenario(sys.argv[1]), duration=float(sys.argv[2]))
    run = drive(vehicle, scenario, Controller(vehicle, settings, limits_of(vehicle, settings)), PlantSettings())
    print(hashlib.sha256(run.outputs.tobytes() + run.commands.tobytes()).hexdigest(), len(run.times))
    return 0
