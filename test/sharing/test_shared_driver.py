"""Shared control in the closed loop, without ROS: the post that both miss and their mean hits."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

from lfdm_ros.control import Controller, Cycle, CycleOutcome, Path, Plan, Settings
from lfdm_ros.engine.closed_loop import PlantSettings, drive
from lfdm_ros.sharing.arbiter import AuthorityArbiter
from lfdm_ros.sharing.components import make_components
from lfdm_ros.sharing.shared_driver import SharedDriver
from lfdm_ros.sharing.sharing_settings import SharingSettings
from lfdm_ros.sharing.threat import Assessment
from lfdm_ros.simulation import Circle, Pose, Scenario, World
from lfdm_ros.vehicles import load_vehicle

HMMWV = load_vehicle("hmmwv")
PERIOD, SPEED, POST = 0.02, 10.0, 32.0
PLANT = PlantSettings(model="eight_dof", tyre="fiala", step=2e-3)


def past(side):
    """A way past the post at so much to its left [m]."""
    x = np.linspace(-10.0, 150.0, 321)
    return Path(np.column_stack([x, side * np.exp(-(((x - POST) / 14.0) ** 2))]))


class Lane:
    """Follows a way of its own, whatever it is told, by looking ahead; its plan is that way."""

    def __init__(self, side):
        self.settings, self.path = Settings(period=PERIOD, time_budget=0.0), past(side)

    def follow(self, path, speed, corridor=None, stop=True, hidden_speed=0.0):
        pass

    go_to = follow

    def update_obstacles(self, obstacles):
        pass

    poll = update_obstacles

    def cycle(self, now, measured=None):
        v = measured.values
        p = HMMWV.parameters
        s = float(self.path.project(np.array([v["x"]]), np.array([v["y"]]))[0][0])
        (x,), (y,), *_ = self.path.at(np.array([s + 8.0]))
        ahead = math.remainder(math.atan2(y - v["y"], x - v["x"]) - v["yaw"], 2.0 * math.pi)
        angle = 2.0 * (p["cg_to_front_axle"] + p["cg_to_rear_axle"]) * math.sin(ahead) / 8.0
        pedal = min(max(0.3 * (SPEED - v["vx"]) + 0.1, -0.3), 0.6)
        steering = min(max(angle / p["max_road_wheel_angle"], -1.0), 1.0)
        t = np.arange(0.0, 4.0, 0.1)
        px, py, yaw, _ = self.path.at(s + SPEED * t)
        # From where the vehicle is back to the way.
        back = np.exp(-t)
        states = np.column_stack([px + back * (v["x"] - px[0]), py + back * (v["y"] - py[0]), yaw, np.full(len(t), SPEED)])
        inputs = np.tile([steering, max(pedal, 0.0), max(-pedal, 0.0)], (len(t), 1))
        plan = Plan(("x", "y", "yaw", "vx"), now + t, states, inputs)
        return Cycle((steering, max(pedal, 0.0), max(-pedal, 0.0)), CycleOutcome.SOLVED, plan=plan)


@dataclass(frozen=True)
class Even:
    """A threat at which both have the same share."""

    name: str = "even"
    threat: float = 0.5

    def assess(self, situation):
        return Assessment(self.threat)

    def reset(self):
        pass


def scenario():
    return Scenario(name="post", profile=None, initial=Pose(speed=SPEED), duration=4.6, world=World((Circle(POST, 0.0, 0.4, name="post"),)),
                    path=np.array([[-10.0, 0.0], [150.0, 0.0]]), speed=SPEED)


def shared(components, operator, autonomy, **changes):
    decisions = []
    driver = SharedDriver(AuthorityArbiter(HMMWV, SharingSettings(**changes), components), operator, autonomy, decisions.append)
    return drive(HMMWV, scenario(), driver, PLANT), decisions


def test_head_on_at_a_post_their_mean_hits_what_each_of_them_misses():
    alone = [drive(HMMWV, scenario(), Lane(side), PLANT).collisions for side in (3.0, -3.0)]
    assert alone == [(), ()]
    averaged, _ = shared((Even(),), Lane(3.0), Lane(-3.0), sides=False)
    assert averaged.collisions == ("post",)
    switched, decisions = shared((Even(),), Lane(3.0), Lane(-3.0))
    assert switched.collisions == () and switched.least_clearance > 0.5
    apart = [d for d in decisions if d.opposite]
    assert apart and {d.k for d in apart} <= {0.0, 1.0} and "opposite sides" in apart[-1].reason
    again, _ = shared((Even(),), Lane(3.0), Lane(-3.0))
    assert (again.commands == switched.commands).all() and (again.outputs == switched.outputs).all()  # to the bit
    steps = np.abs(np.diff(switched.commands[:, 0]))
    assert steps.max() <= HMMWV.actuators.steering_rate * PERIOD + 1e-9


@pytest.mark.parametrize("threat, side", [(0.1, 1.0), (0.9, -1.0)])
def test_the_threat_says_whose_side_it_is(threat, side):
    run, _ = shared((Even(threat=threat),), Lane(3.0), Lane(-3.0))
    passing = np.argmin(np.abs(run.column("x") - POST))
    assert run.collisions == () and run.column("y")[passing] * side > 1.5


def test_an_operator_who_drives_into_a_post_is_kept_from_it():
    """By what the clearance says, with a controller that plans."""
    assert drive(HMMWV, scenario(), Lane(0.0), PLANT).collisions == ("post",)
    kept, decisions = shared(make_components(("clearance", "demand", "load_transfer")), Lane(0.0),
                             Controller(HMMWV, Settings(time_budget=0.0)))
    assert kept.collisions == () and kept.lifted == 0.0
    assert max(d.k for d in decisions if d.time < 1.0) == 0.0  # he is left alone as long as nothing threatens
