"""What the simulator node adds around the model: scans on time, an actuator, a monitor. No ROS."""

import math

import numpy as np
import pytest

from lfdm_ros.engine.run_monitor import RunMonitor
from lfdm_ros.engine.simulated_sensor import SimulatedSensor
from lfdm_ros.errors import InputError
from lfdm_ros.sensors import Lidar, LidarSettings
from lfdm_ros.simulation import Circle, Footprint, World
from lfdm_ros.simulation.path import Path
from lfdm_ros.vehicles import Mount

TICK = 10_000_000  # ns
WORLD = World((Circle(20.0, 0.0, 1.0, name="boulder"), Circle(40.0, 0.0, 1.0, vx=-10.0)))
INDEX = {"x": 0, "y": 1, "yaw": 2, "lifted_wheels": 3}


def test_a_collision_counts_when_it_begins_and_the_first_is_named() -> None:
    monitor = RunMonitor(WORLD, Footprint(2.0, 2.0, 1.0), INDEX)
    news = [monitor.update(0.1 * i, [x, 0.0, 0.0, 0.0]) for i, x in enumerate((0.0, 16.0, 17.5, 18.0, 25.0))]
    assert news == [[], [], ["collision with boulder at 0.20 s"], [], []]
    assert monitor.verdict.least_clearance == pytest.approx(-1.0)  # its front is at the boulder's middle
    monitor.update(1.5, [25.0, 0.0, 0.0, 0.0])  # the other has come nearer
    verdict = monitor.verdict
    assert (verdict.collisions, verdict.first_collision, verdict.first_collision_time) == (2, "boulder", 0.2)
    monitor.reset()
    assert monitor.verdict.collisions == 0 and monitor.update(1.6, [24.0, 0.0, 0.0, 0.0]) == ["collision with obstacle 1 at 1.60 s"]
    monitor.reset(10.0)  # the world begins anew: what moves is where it began
    assert monitor.update(11.6, [24.0, 0.0, 0.0, 0.0]) == ["collision with obstacle 1 at 11.60 s"]


def test_what_is_backed_into_is_a_collision() -> None:
    monitor = RunMonitor(World((Circle(-5.0, 0.5, 1.0, name="post"),)), Footprint(2.0, 3.0, 1.0), INDEX)
    news = [monitor.update(float(i), [x, 0.0, 0.0, 0.0]) for i, x in enumerate((0.0, -0.9, -1.05))]
    assert news == [[], [], ["collision with post at 2.00 s"]]


def test_wheel_lift_is_told_when_it_grows() -> None:
    monitor = RunMonitor(World(), Footprint(2.0, 2.0, 1.0), INDEX)
    news = [monitor.update(float(i), [0.0, 0.0, 0.0, lifted]) for i, lifted in enumerate((0.0, 1.0, 1.0, 2.0, 0.0))]
    assert news == [[], ["1 wheel off the ground at 1.00 s"], [], ["2 wheels off the ground at 3.00 s"], []]
    assert (monitor.verdict.lifted_wheels_most, monitor.verdict.first_lift_time) == (2, 1.0)
    assert monitor.verdict.least_clearance == math.inf
    unknown = RunMonitor(World(), Footprint(2.0, 2.0, 1.0), {"x": 0, "y": 1, "yaw": 2})  # a model without wheel loads
    assert unknown.update(0.0, [0.0, 0.0, 0.0]) == [] and unknown.verdict.lifted_wheels_most == 0


def test_a_vehicle_that_begins_outside_is_out_by_how_much_it_comes_further_out() -> None:
    path, corridor = Path(np.array([[0.0, 0.0], [100.0, 0.0]])), np.array([[0.0, 2.0, 2.0], [100.0, 2.0, 2.0]])
    monitor, ways = RunMonitor(World(), Footprint(2.0, 2.0, 1.0), INDEX, path, corridor), []
    for x, y in ((5.0, 1.5), (10.0, 1.6), (15.0, 0.0), (20.0, 1.3)):
        monitor.check_path([x, y, 0.0, 0.0])
        ways.append(monitor.excursion)
    assert ways == pytest.approx([0.0, 0.1, 0.1, 0.3])


def test_scans_are_made_on_their_period_and_arrive_late() -> None:
    feed = SimulatedSensor(Lidar(WORLD, LidarSettings(rate=50.0, latency=0.025, noise_sd=0.0), mount=Mount(1.0)), TICK)
    arrived = {}
    for tick in range(9):
        scans = feed.arrivals(tick * TICK, float(tick), 0.0, 0.0)
        assert feed.arrivals(tick * TICK, float(tick), 0.0, 0.0) is scans  # published again, the same
        for stamp, scan in scans:
            arrived[tick] = (stamp // TICK, float(np.nanmin(scan.ranges)))
    assert {tick: stamp for tick, (stamp, _) in arrived.items()} == {3: 0, 5: 2, 7: 4}
    # As seen from where the vehicle was at the stamp: 20 m less radius, mount and way.
    assert [distance for _, distance in arrived.values()] == pytest.approx([18.0, 16.0, 14.0], abs=0.01)
    feed.reset()
    assert feed.arrivals(9 * TICK, 9.0, 0.0, 0.0) == []  # those under way are of another place


def test_a_reset_sets_what_moves_back_to_where_it_began() -> None:
    world = World((Circle(40.0, 0.0, 1.0, vx=-10.0),))
    feed = SimulatedSensor(Lidar(world, LidarSettings(rate=100.0, noise_sd=0.0), mount=Mount(1.0)), TICK)

    def distance(tick: int) -> float:
        return float(np.nanmin(feed.arrivals(tick * TICK, 0.0, 0.0, 0.0)[0][1].ranges))

    first = [distance(tick) for tick in (0, 100)]
    assert first == pytest.approx([38.0, 28.0], abs=0.01)  # less radius and mount
    feed.reset(100 * TICK)
    assert [distance(tick) for tick in (100, 200)] == first


def test_a_period_that_is_no_whole_number_of_ticks_is_an_error() -> None:
    with pytest.raises(InputError, match=r"lidar_rate 30 Hz .* for example 33.3333 Hz"):
        SimulatedSensor(Lidar(WORLD, LidarSettings(rate=30.0)), TICK)
    with pytest.raises(InputError, match="for example 100 Hz"):
        SimulatedSensor(Lidar(WORLD, LidarSettings(rate=500.0)), TICK)
