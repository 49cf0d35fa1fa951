"""The closed loop notices what it is there to notice, is late where it is told to be, and repeats to the bit."""

from dataclasses import replace

import numpy as np
import pytest
from drivers import Blind

from lfdm_ros.control.controller import Controller
from lfdm_ros.control.settings import Settings
from lfdm_ros.engine.closed_loop import OBSERVED, PlantSettings, drive
from lfdm_ros.errors import InputError
from lfdm_ros.sensors import LidarSettings
from lfdm_ros.simulation import Circle, Goal, Pose, Scenario, Simulator, World
from lfdm_ros.vehicles import load_vehicle

HMMWV = load_vehicle("hmmwv")
SETTINGS = Settings(time_budget=0.0)


def towards(*obstacles, speed=15.0, duration=4.0):
    return Scenario("straight", Pose(speed=speed), None, duration, World(obstacles), Goal(500.0, 0.0), speed=speed)


def test_who_drives_into_an_obstacle_has_hit_it():
    run = drive(HMMWV, towards(Circle(40.0, 0.5, 1.0, name="rock"), Circle(20.0, 8.0, 1.0, name="beside")), Blind())
    assert run.collisions == ("rock",) and np.isnan(run.reached) and run.least_clearance <= 0.0
    # The run ends there: the front end is 2.4 m ahead of the position, and rolling costs little speed.
    assert run.column("x")[-1] == pytest.approx(40.0 - 1.0 - 2.4, abs=0.4)


def test_what_is_hit_between_two_cycles_counts():
    # Through the vehicle's side and out again within a cycle.
    bullet = Circle(5.1, 0.51 * 200.0, 0.05, vy=-200.0, name="bullet")
    assert drive(HMMWV, towards(bullet, speed=10.0), Blind(), PlantSettings(lidar=None)).collisions == ("bullet",)
    missed = replace(bullet, x=25.0)
    assert drive(HMMWV, towards(missed, speed=10.0), Blind(), PlantSettings(lidar=None)).collisions == ()


def test_what_comes_from_behind_is_seen_by_the_second_lidar_of_the_vehicle_s_file():
    vehicle, last = load_vehicle("hmmwv_rear_lidar"), []
    for name in ("", "lidar_rear"):
        driver = Blind()
        drive(vehicle, towards(Circle(-35.0, 3.5, 1.0, vx=25.0, name="comes"), duration=1.5), driver, PlantSettings(rear_lidar=name))
        last.append(driver.seen[-1])
    assert not len(last[0].radii) and last[1].velocities[last[1].moving][:, 0] == pytest.approx([25.0], abs=3.0)
    with pytest.raises(InputError, match="rear LIDAR: vehicle 'hmmwv' has no lidar 'lidar_rear'"):
        drive(HMMWV, towards(Circle(60.0, 0.0, 1.0)), Blind(), PlantSettings(rear_lidar="lidar_rear"))


def test_a_wheel_without_load_is_noticed():
    scenario, driver = towards(speed=18.0), Blind(steering=0.35)
    sound = drive(HMMWV, scenario, driver)
    top_heavy = drive(HMMWV.replace(cg_height=2.0 * HMMWV.parameters["cg_height"]), scenario, driver)
    assert sound.lifted == 0.0 and 0.0 < sound.least_load < 0.9
    assert top_heavy.lifted > 0.1 and top_heavy.least_load <= 0.0


def test_states_and_scans_are_late_and_exact():
    plant = PlantSettings(state_age=0.07, lidar=LidarSettings(rate=10.0, latency=0.03))
    scans, driver = [], Blind(steering=0.1)
    run = drive(HMMWV, towards(Circle(60.0, 9.0, 1.0), duration=1.0), driver, plant, lambda now, cycle, scan: scans.append((now, scan)))
    for now, measured in driver.measured:
        assert measured.time == pytest.approx(now - 0.07)
        if measured.time < 0.0:  # it came straight
            assert (measured.values["x"], measured.values["y"]) == pytest.approx((15.0 * measured.time, 0.0))
        elif round(measured.time / 0.02, 6).is_integer():
            row = dict(zip(run.output_names, run.outputs[round(measured.time / 0.02)].tolist()))
            assert {*OBSERVED, "omega_fl", "omega_rr"} <= measured.values.keys() and measured.values.items() <= row.items()
    arrived = [(now, scan.stamp) for now, scan in scans if scan is not None]
    # A scan is of no use before the state of its moment is known.
    np.testing.assert_allclose(arrived, [(0.08 + 0.1 * k, 0.1 * k) for k in range(10)])
    assert len(driver.seen) == 10


def test_wheels_that_do_not_turn_are_not_measured():
    """The plant's outputs have 0 there, which a model with wheels would take for locked ones."""
    driver = Blind()
    drive(HMMWV, towards(duration=0.1), driver, PlantSettings(model="driven_bicycle", tyre=None, lidar=None))
    assert driver.measured and all(measured.values.keys() == set(OBSERVED) - {"roll", "roll_rate"} for _, measured in driver.measured)


def test_a_slow_actuator_is_slow():
    runs = {delay: drive(HMMWV.replace(actuation_delay=delay), towards(duration=0.6), Blind(steering=0.2), PlantSettings(lidar=None))
            for delay in (0.0, 0.3)}
    turns = {delay: run.times[np.flatnonzero(np.abs(run.column("yaw_rate")) > 1e-3)[0]] for delay, run in runs.items()}
    assert turns[0.3] - turns[0.0] == pytest.approx(0.3, abs=0.021)


def test_two_runs_are_equal_to_the_bit_and_the_noise_is_the_seeds():
    scenario = replace(towards(Circle(35.0, 0.3, 1.0), duration=2.4), goal=Goal(100.0, 0.0))
    runs = [drive(HMMWV, scenario, Controller(HMMWV, SETTINGS), PlantSettings(seed=seed)) for seed in (3, 3, 4)]
    assert runs[0].outcomes["SOLVED"] == len(runs[0].commands) and not runs[0].collisions
    assert np.abs(runs[0].column("y")).max() > 1.0  # it drives around
    for name in ("times", "outputs", "commands"):
        assert getattr(runs[0], name).tobytes() == getattr(runs[1], name).tobytes()
    assert runs[0].least_clearance == runs[1].least_clearance
    assert runs[0].commands.tobytes() != runs[2].commands.tobytes()


def test_a_scenario_of_inputs_is_no_task():
    with pytest.raises(InputError, match="scenario straight has no goal and no path"):
        drive(HMMWV, replace(towards(), goal=None), Blind())


def test_a_path_that_ends_where_the_vehicle_begins_is_no_task():
    with pytest.raises(InputError, match="where its path ends; turn the path's points round"):
        drive(HMMWV, replace(towards(), path=np.array([[50.0, 0.0], [0.0, 0.0]])), Blind())


@pytest.mark.parametrize(("vehicle", "given", "expected"), [
    ("hmmwv", {}, ("twenty_four_dof", "tmeasy")), ("sedan", {}, ("twenty_four_dof", "tmeasy")),
    ("genesis", {}, ("eighteen_dof", None)), ("dart", {"seed": 4}, ("eighteen_dof", None)),  # on tyres of their own, Fiala's
    ("hmmwv", {"tyre": "fiala"}, ("twenty_four_dof", "fiala")), ("hmmwv", {"model": "eight_dof/fiala"}, ("eight_dof/fiala", None)),
    ("hmmwv", {"model": "driven_bicycle"}, ("driven_bicycle", None)), ("hmmwv", {"model": "eight_dof"}, ("eight_dof", "tmeasy"))])
def test_any_vehicle_is_simulated_on_what_it_has(vehicle, given, expected) -> None:
    plant = PlantSettings.of(load_vehicle(vehicle), **given)
    assert (plant.model, plant.tyre) == expected and plant.seed == given.get("seed", 1)
    Simulator(load_vehicle(vehicle), plant.model, plant.step, plant.tyre)  # all its parameters are there
