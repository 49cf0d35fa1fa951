"""Scenarios of CommonRoad by its own tools: its reader, its collision and feasibility checkers, its goals, its boundary of the road.

Its vehicle 2 drives as ours, imported from its own parameters, on four wheels; its checkers have its single-track model.
"""

import math
import os

import numpy as np
import pytest
from test_recorded_traffic import OBSTACLES, document, state

from lfdm_ros.control.controller import Controller, limits_of
from lfdm_ros.control.settings import Settings
from lfdm_ros.engine.closed_loop import PlantSettings, drive
from lfdm_ros.simulation import Circle, load_scenario
from lfdm_ros.vehicles.commonroad import import_commonroad

pytest.importorskip("commonroad_dc.pycrcc", reason="CommonRoad's checker is not installed: see docs/howto/testing.md")
vehiclemodels = pytest.importorskip("vehiclemodels")
from commonroad.common import file_reader, file_writer, solution  # noqa: E402
from commonroad.scenario.scenario import Location, Tag  # noqa: E402
from commonroad.scenario.state import STState  # noqa: E402
from commonroad.scenario.trajectory import Trajectory  # noqa: E402
from commonroad_dc import pycrcc  # noqa: E402
from commonroad_dc.boundary.boundary import create_road_boundary_obstacle  # noqa: E402
from commonroad_dc.collision.collision_detection.pycrcc_collision_dispatch import create_collision_checker  # noqa: E402
from commonroad_dc.feasibility.feasibility_checker import trajectory_feasibility  # noqa: E402
from commonroad_dc.feasibility.vehicle_dynamics import VehicleDynamics  # noqa: E402

DT = 0.1
# Reaches into the lane that the way leaves.
PARKED = ('<obstacle id="23"><role>static</role><type>parkedVehicle</type><shape><rectangle><length>4.5</length><width>1.8</width>'
          "</rectangle></shape>" + state("initialState", 0, 27.0, -2.0, 0.1, 0.0) + "</obstacle>")
# A point mass, whose heading is that of its velocity; its outline is closed.
POINT = ('<obstacle id="24"><role>dynamic</role><type>truck</type><shape><polygon>'
         + "".join(f"<point><x>{x}</x><y>{y}</y></point>" for x, y in ((-4, -1), (4, -1), (4, 1), (-4, 1), (-4, -1)))
         + "</polygon></shape>" + state("initialState", 0, 20.0, 12.0, 0.0, 7.0) + "<trajectory>"
         + "".join(f"<state><position><point><x>{20 + 0.7 * k}</x><y>{12 + 0.02 * k}</y></point></position><time><exact>{k}</exact></time>"
                   f"<velocity><exact>7</exact></velocity><velocityY><exact>{0.04 * k}</exact></velocityY></state>" for k in range(1, 30))
         + "</trajectory></obstacle>")
# 2024.3 needs tags, turns an outline about its centroid and not about its place, as 2026.1 does (so both are one here), and joins no
# lanes to the boundary of a road that are not there.
CHANGES = (("<commonRoad", '<commonRoad tags="urban"'), ('<adjacentLeft ref="9" drivingDir="opposite"/>', ""),
           ("<point><x>-2</x><y>1</y></point></polygon>", "<point><x>-2</x><y>1</y></point><point><x>-3</x><y>0</y></point></polygon>"))


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """The scenario as CommonRoad has it, its planning problem, and the file of 2020a that CommonRoad writes of it."""
    old, new = (tmp_path_factory.mktemp("commonroad") / name for name in ("old.xml", "new.xml"))
    text = document(obstacles=OBSTACLES + PARKED + POINT)
    for before, after in CHANGES:
        assert before in text
        text = text.replace(before, after, 1)
    old.write_text(text)
    scenario, problems = file_reader.CommonRoadFileReader(str(old)).open()
    file_writer.CommonRoadFileWriter(scenario, problems, "-", "-", "-", {Tag.URBAN}, Location(), decimal_precision=15).write_to_file(
        str(new), file_writer.OverwriteExistingFile.ALWAYS)
    return scenario, problems.planning_problem_dict[7], old, new


@pytest.fixture(scope="module")
def driven(theirs):
    """The scenario as ours has it, the vehicle, and its run."""
    folder = os.path.join(os.path.dirname(vehiclemodels.__file__), "parameters")
    vehicle = import_commonroad(os.path.join(folder, "parameters_vehicle2.yaml"), os.path.join(folder, "parameters_tire.yaml"))
    scenario, settings, plant = load_scenario(theirs[3]), Settings(time_budget=0.0), PlantSettings.of(vehicle)
    return scenario, vehicle, drive(vehicle, scenario, Controller(vehicle, settings, limits_of(vehicle, settings, plant.tyre)), plant)


def states(run, first, every=5):
    """Returns a run's states as CommonRoad has them: of the centre of mass, with speed and slip angle."""
    x, y, vx, vy, yaw, rate, steered = (run.column(name)[::every] for name in ("x", "y", "vx", "vy", "yaw", "yaw_rate", "road_wheel_angle"))
    return [STState(time_step=first + k, position=np.array([x[k], y[k]]), steering_angle=steered[k], velocity=math.hypot(vx[k], vy[k]),
                    orientation=yaw[k], yaw_rate=rate[k], slip_angle=math.atan2(vy[k], vx[k])) for k in range(len(x))]


def occupied(found, footprint, shift=(0.0, 0.0)):
    """Returns the places of the vehicle's outline in states, shifted [m]."""
    moving, ahead = pycrcc.TimeVariantCollisionObject(found[0].time_step), 0.5 * (footprint.front - footprint.rear)
    for s in found:
        x, y = s.position + shift + ahead * np.array([math.cos(s.orientation), math.sin(s.orientation)])
        moving.append_obstacle(pycrcc.RectOBB(0.5 * (footprint.front + footprint.rear), footprint.half_width, s.orientation, x, y))
    return moving


@pytest.mark.parametrize("written", [2, 3], ids=["2018b", "2020a"])
def test_each_obstacle_is_where_commonroad_has_it(theirs, written):
    scenario, problem, world = theirs[0], theirs[1], load_scenario(theirs[written]).world
    first, seen = problem.initial_state.time_step, 0
    assert len(world.obstacles) == len(scenario.obstacles) == 5
    for k, ours in enumerate(world.obstacles):
        obstacle = scenario.obstacle_by_id(int(world.label(k).split()[-1]))
        for step in range(first, first + 60):
            time, occupancy = (step - first) * DT, obstacle.occupancy_at_time(step)
            assert (occupancy is None) == (not ours.present[0] <= time < ours.present[1]), (world.label(k), step)
            if occupancy is not None:
                round_one = isinstance(ours, Circle)
                found = world.place(np.array([[ours.x, ours.y]]) if round_one else ours.vertices, k, time)
                expected = occupancy.shape.center[None] if round_one else occupancy.shape.vertices[:-1]  # the last is the first again
                apart = np.hypot(*(found[:, None] - expected[None]).transpose(2, 0, 1))
                assert found.shape == expected.shape and apart.min(axis=0).max() < 1e-9, (world.label(k), step)
                seen += 1
    assert seen > 150


def test_the_drive_is_drivable_and_reaches_the_goal(theirs, driven):
    """Its single-track model can follow each step of 0.1 s within a quarter of the tolerance of its checker, 2 cm and 0.03 rad."""
    (_, problem, *_), (_, _, run) = theirs, driven
    first, dynamics = problem.initial_state.time_step, VehicleDynamics.ST(solution.VehicleType.BMW_320i)
    assert math.isfinite(run.reached) and not run.collisions
    found, tolerance = states(run, first), 0.25 * np.array([2e-2, 2e-2, 3e-2])
    assert len(found) > 90 and trajectory_feasibility(Trajectory(first, found), dynamics, DT, e=tolerance)[0]
    found[3].position = found[3].position + [0.0, 0.05]  # from one step to the next
    assert not trajectory_feasibility(Trajectory(first, found[:5]), dynamics, DT)[0]
    before, last = states(run, first, 1)[-2:]
    before.time_step = last.time_step = first + round(run.reached / DT)
    assert problem.goal.is_reached(last) and not problem.goal.is_reached(before)


def test_collisions_are_those_of_its_checker(theirs, driven):
    (reference, problem, *_), (scenario, vehicle, run) = theirs, driven
    checker, footprint = create_collision_checker(reference), vehicle.footprint
    found, hits = states(run, problem.initial_state.time_step), 0
    assert not checker.collide(occupied(found, footprint))
    for shift in np.stack(np.meshgrid(np.arange(-10.0, 30.0, 5.0), np.arange(-8.0, 12.0, 1.5)), axis=-1).reshape(-1, 2):
        clearance = min(scenario.world.clearance(k * DT, *(s.position + shift), s.orientation, footprint) for k, s in enumerate(found))
        collides = checker.collide(occupied(found, footprint, shift))
        assert collides == (clearance <= 0.0), (shift, clearance)
        hits += collides
    assert 15 < hits < 100


def test_the_drive_keeps_to_its_road(theirs, driven):
    (reference, problem, *_), (_, vehicle, run) = theirs, driven
    _, boundary = create_road_boundary_obstacle(reference)
    found = states(run, problem.initial_state.time_step)
    beside = [occupied(found, vehicle.footprint, (0.0, y)).collide(boundary) for y in (-3.0, 0.0, 3.0)]
    assert run.outside < 0.05 and beside == [True, False, True]
