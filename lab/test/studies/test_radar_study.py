"""The study of the benefit of a radar beside the LIDAR."""

import math

from lfdm_lab.studies import radar
from lfdm_ros.vehicles import load_vehicle


def test_crossing_obstacles_are_on_collision_course_and_keys_differ():
    items = radar.meetings(2)
    assert len({radar.key(item) for item in items}) == len(items)
    for item in items:
        asked = radar.scenario(item)
        assert asked.speed is not None
        footprint, times = load_vehicle("hmmwv").footprint, [0.05 * k for k in range(600)]
        clear = min(asked.world.clearances(t, asked.initial.x + asked.speed * t, 0.0, 0.0, footprint)[0] for t in times)
        assert clear < 0.6 * item.speed, item  # up to 0.4 s early or late


def test_a_radar_knows_the_velocity_sooner():
    runs = [radar.work(radar.Meeting("cyclist", 8.0, sensors, 1)) for sensors in radar.SENSORS]
    assert all(run["reached"] and not run["collision"] for run in runs)
    alone, both = (run["until_known"] for run in runs)
    assert both < 0.5 * alone and not math.isnan(both)
    heads, rows = radar.table(runs)
    assert len(heads) == len(rows[0]) and [row[2] for row in rows] == list(radar.SENSORS)
    assert [[tick.get_text() for tick in axis.get_yticklabels()] for axis in radar.draw(runs).axes] == 2 * [
        [f"cyclist, 8 m/s, {sensors}" for sensors in radar.SENSORS]]
