"""The study of the autonomy among moving and occluded obstacles."""

from dataclasses import replace

import numpy as np
import pytest

from lfdm_lab.studies import movers
from lfdm_lab.studies.radar import box
from lfdm_ros.bags import read_series
from lfdm_ros.cli.main import main
from lfdm_ros.control.settings import Settings
from lfdm_ros.errors import InputError
from lfdm_ros.simulation.path import Path
from lfdm_ros.simulation.world import GoalState, World
from lfdm_ros.vehicles import load_vehicle

HMMWV = load_vehicle("hmmwv")
WALL = World((box(75.0, 90.0, -15.0, 15.0),))


def least_clearance(name, seed):
    """Of a vehicle that holds lane and speed [m]."""
    asked = movers.scenario_of(name, seed)
    path = Path(asked.path)
    s = np.arange(0.0, path.length, 0.25)
    places = zip(s / asked.initial.speed, *path.at(s)[:3])
    return min(asked.world.clearance(*map(float, place), HMMWV.footprint) for place in places)


@pytest.mark.parametrize("name", movers.SCENARIOS)
def test_scenarios_repeat_and_start_without_contact(name):
    one, again, other = (movers.scenario_of(name, seed) for seed in (1, 1, 2))
    assert one.initial == again.initial and one.initial != other.initial
    start = one.initial
    assert one.world.clearance(0.0, start.x, start.y, start.yaw, HMMWV.footprint) > 5.0
    met = [least_clearance(name, seed) <= 0.0 for seed in range(1, 4)]
    # In the gap and among parked cars the lane is free; elsewhere braking or steering is mostly required.
    # The hesitant pedestrian may also turn back.
    assert not any(met) if name in ("narrow_gap", "parked") else sum(met) >= 1 + (name != "hesitant"), met


def test_keys_differ_and_unknown_scenarios_are_refused():
    items = movers.drives([1, 2], Settings(time_budget=0.0))
    assert len({movers.key(item) for item in items}) == len(items) == 2 * (len(movers.SCENARIOS) * 2 + len(movers.TRAFFIC))
    with pytest.raises(InputError, match="pedestrian_van"):
        movers.drives([1], Settings(), ["pedestrian_vans"])


def test_the_clairvoyant_driver_needs_room():
    """It stops before a wall unless the road is too slippery, and is hit by an oncoming car at standstill."""
    assert movers.clairvoyant(movers.scenario_of("slippery_wall", 1), HMMWV.replace(friction_scale=0.45)) == 0.0
    assert movers.clairvoyant(movers.scenario_of("slippery_wall", 1), HMMWV.replace(friction_scale=0.02)) > 5.0
    assert movers.clairvoyant(movers.scenario_of("oncoming", 1), HMMWV) > 5.0
    asked = movers.scenario_of("pedestrian_van", 1)
    assert movers.first_sight(asked, HMMWV, 0, 9.0) > 1.0  # hidden at first


def test_the_clairvoyant_driver_begins_where_the_vehicle_does():
    """Its path begins 65 m behind it; the wall is nearer than it can stop."""
    asked = movers.scenario_of("slippery_wall", 1)
    near = replace(asked, initial=replace(asked.initial, x=65.0, speed=14.0), world=WALL)
    assert movers.clairvoyant(near, HMMWV) > 5.0


@pytest.mark.parametrize("place, time, out", [(80.0, 20.0, True), (40.0, 20.0, False), (40.0, 1.0, True)])
def test_a_goal_that_nobody_can_have_is_told(place, time, out):
    """Within a wall, before it, and too far away for its time."""
    area = np.array([[place, -3.0], [place + 2.0, -3.0], [place + 2.0, 3.0], [place, 3.0]])
    asked = replace(movers.scenario_of("slippery_wall", 1), goal_states=(GoalState((area,), (0.0, time)),), world=WALL)
    assert movers.out_of_reach(asked, HMMWV) == out


def test_the_emergency_brake_stops_before_a_wall_and_drives_where_the_lane_is_free():
    wall, lane = (movers.work(movers.Drive(name, movers.BRAKE, 1)) for name in ("slippery_wall", "parked"))
    assert wall["stands"] and not wall["failure"] and wall["least_clearance"] < 8.0
    assert lane["reached"] and not lane["failure"] and lane["outside"] == 0.0


def test_the_autonomy_does_no_worse_than_the_brake_on_earlier_failures():
    """A pedestrian behind a van, and a car that cuts in; leaving the lane is a failure."""
    items = [movers.Drive(name, driver, seed) for name, seed in (("pedestrian_van", 2), ("cut_in", 1), ("cut_in", 4))
             for driver in (movers.AUTONOMY, movers.BRAKE)]
    rows = movers.summarise([movers.work(item) for item in items])
    assert [row["worse"] for row in rows] == [[], []]
    heads, lines = movers.table(rows)
    assert len(lines) == len(rows) + 1 and {len(line) for line in lines} == {len(heads)} and lines[-1][1] == "3"


def test_a_run_is_worse_only_if_it_harms_more():
    fine, hit, harder = ({"failure": why, "collision": "car" if why else "", "impact": impact} for why, impact in (
        ("", 0.0), ("hit car", 3.0), ("hit car", 6.0)))
    stands, outside = ({"failure": why, "collision": "", "impact": 0.0} for why in ("does not arrive", "0.40 m outside"))
    assert movers.is_worse(hit, fine) and movers.is_worse(harder, hit) and movers.is_worse(outside, fine)
    assert not any(movers.is_worse(*pair) for pair in ((hit, harder), (hit, hit), (fine, hit), (stands, fine), (outside, hit)))


def test_what_moves_into_a_standing_vehicle_runs_into_it():
    """Not what the vehicle creeps into, nor what crosses before it while it drives."""
    cases = [{"collision": "car", "from_behind": behind, "stands": stands, "impact": impact} for behind, stands, impact in (
        (True, False, 0.5), (False, True, 6.0), (False, True, 0.5), (False, False, 6.0))]
    assert [movers.run_into(case) for case in cases] == [True, True, False, False]
    assert not movers.run_into({**cases[1], "collision": "", "impact": None})


def test_files_are_driven_once_grouped_by_map_and_recorded_if_they_fail(tmp_path, monkeypatch, capsys):
    """A wall in front and a moving car behind: autonomy and brake stop and are hit from behind."""
    file = tmp_path / "Town-12_1.yaml"
    file.write_text("""
initial: {speed: 8.0}
speed: 8.0
duration: 12.0
path: [[0, 0], [90, 0]]
corridor: [[0, 1.6, 1.6], [90, 1.6, 1.6]]
obstacles:
  - {name: wall, polygon: [[50, -5], [51, -5], [51, 5], [50, 5]]}
  - {name: follower, polygon: [[-20, -1], [-16, -1], [-16, 1], [-20, 1]], velocity: [8.0, 0.0]}
""")
    items = movers.drives([1, 2, 3], Settings(time_budget=0.0), [str(file)], "sedan")
    assert [item.driver for item in items] == [movers.AUTONOMY, movers.BRAKE] and {item.vehicle for item in items} == {"sedan"}
    runs = [movers.work(item) for item in items]
    again = movers.work(items[0])
    assert {**again, "cycle_ms": None} == {**runs[0], "cycle_ms": None}
    (row,) = movers.summarise(runs)
    assert row["scenario"] == "Town" and row["run_into"] == ["12_1"] and row[movers.AUTONOMY] == {"12_1": "hit follower"}
    assert row["stands"] == [] and movers.table([row])[1][0][0] == "Town"
    monkeypatch.setattr("lfdm_ros.scheduling.available_cores", lambda: 1)
    command = ["study", "movers", "--scenarios", str(file), "--seeds", "1", "--vehicle", "sedan", "--out", str(tmp_path / "out")]
    assert main(command) == 0 and "`--record DIR`" in capsys.readouterr().out
    assert main([*command, "--record", str(tmp_path / "bags")]) == 0
    (bag,) = (tmp_path / "bags").iterdir()
    assert f"lfdm cockpit --bag {bag}" in capsys.readouterr().out
    assert read_series(bag, "vehicle/state", ["vx"]).values[0, 0] == pytest.approx(8.0)
    before = movers.key(items[0])
    file.write_text(file.read_text().replace("8.0, 0.0", "7.0, 0.0"))
    assert movers.key(items[0]) != before
    with pytest.raises(InputError, match="no scenario of CommonRoad"):
        movers.drives([1], Settings(), [str(tmp_path)])
    broken = tmp_path / "broken.yaml"
    broken.write_text("initial: {speed: fast}")
    with pytest.raises(InputError, match=r"1 of 2 files cannot be driven.*broken\.yaml"):
        movers.drives([1], Settings(), [str(file), str(broken)])
