"""Studies of the controller: counts, reproducibility in other processes, and reuse of stored runs."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from disks import full
from drivers import Blind

from lfdm_lab.studies import driving as studies
from lfdm_lab.studies import driving_tables as tables
from lfdm_lab.studies import pictures
from lfdm_lab.studies.driving import Climb, Trial
from lfdm_lab.studies.resuming import RESULTS, carry_out
from lfdm_ros.control.settings import Settings
from lfdm_ros.engine.closed_loop import PlantSettings
from lfdm_ros.engine.run_report import ending, failures
from lfdm_ros.errors import InputError
from lfdm_ros.numerics import binomial_interval
from lfdm_ros.reports import markdown_table
from lfdm_ros.scheduling import LocalScheduler, ProcessScheduler, get_scheduler

SETTINGS = Settings(time_budget=0.0)
FIELD = "course: {kind: obstacle_field, seed: 1, speed: 15.0, length: 75.0, width: 20.0, density: 0.002}\n"


@pytest.fixture
def trials(tmp_path):
    """Two short fields, each with an obstacle on the straight line."""
    path = tmp_path / "obstacle_field_short.yaml"
    path.write_text(FIELD)
    return [Trial(str(path), seed, plant=PlantSettings(seed=seed), track=True) for seed in (1, 2)]


def without_times(results):
    return [{key: value for key, value in results[i].items() if key not in ("cycle_ms", "cycle_us")} for i in sorted(results)]


def test_processes_give_the_same_results_and_stored_runs_are_reused(trials, tmp_path, monkeypatch):
    here, there = {}, {}
    with get_scheduler() as scheduler:
        carry_out(trials, studies.work, studies.key, scheduler, here)
    told = []
    with ProcessScheduler(2) as scheduler:
        carry_out(trials, studies.work, studies.key, scheduler, there, tmp_path / "kept", lambda *state: told.append(state[:2]))
    assert without_times(here) == without_times(there) and told == [(1, 2), (2, 2)]
    for run in here.values():
        assert run["reached"] is not None and not run["collision"] and run["lifted"] == 0.0
        assert 0.95 < run["ratio"] < 1.3 and len(run["cycle_us"]) == run["cycles"]

    # Killed while writing the next: complete results are reused, those of other settings are not.
    with (tmp_path / "kept" / RESULTS).open("a") as file:
        file.write('{"key": "abc", "resu')
    driven = []
    monkeypatch.setattr(studies, "work", lambda item: driven.append(item) or {"scenario": "x"})
    other = replace(trials[0], settings=replace(SETTINGS, obstacle_margin=0.5))
    again = {}
    with get_scheduler() as scheduler:
        carry_out([*trials, other], studies.work, studies.key, scheduler, again, tmp_path / "kept")
    assert driven == [other] and again == {0: there[0], 1: there[1], 2: {"scenario": "x"}}


def test_finished_runs_survive_an_interruption(trials, tmp_path, monkeypatch):
    def work(item):
        if item.seed == 2:
            raise KeyboardInterrupt
        return {"seed": item.seed}

    monkeypatch.setattr(studies, "work", work)
    found = {}
    with pytest.raises(KeyboardInterrupt), get_scheduler() as scheduler:
        carry_out(trials, studies.work, studies.key, scheduler, found, tmp_path)
    assert found == {0: {"seed": 1}}
    assert json.loads((tmp_path / RESULTS).read_text())["result"] == {"seed": 1}


def test_a_driver_that_drives_into_obstacles_fails_the_study(trials, monkeypatch):
    monkeypatch.setattr(studies, "make_driver", lambda *_: Blind(throttle=0.05, settings=SETTINGS))
    run = studies.run_trial(trials[0])
    assert run["collision"] and run["reached"] is None and run["ratio"] is None and run["least_clearance"] <= 0.0
    (row,) = summary = tables.summarise_fields([run])
    assert (row["collisions"], row["goals"], tables.passes(summary)) == (1, 0.0, False)
    (line,) = failures([run])
    assert line.startswith(f"obstacle_field_short seed 1, mpc: hit {run['collision']} at {run['impact']:.1f} m/s after ")
    assert run["impact"] == pytest.approx(run["mean_speed"], rel=0.5)  # what it hits stands
    text = markdown_table(tables.fields_table(summary))
    assert "| short " in text and " 0 % " in text


def result(**changes):
    return {"scenario": "obstacle_field_40", "seed": 1, "controller": "mpc", "speed": 17.88, "reached": 20.0, "straight": 16.0,
            "ratio": 1.25, "collision": "", "impact": None, "lifted": 0.0, "diverged": False, "least_clearance": 0.6,
            "least_load": 0.4, "cycles": 2, "stands": False, "seconds": 20.0, "outcomes": {"SOLVED": 2}, "violated": {}, "cold_starts": 1,
            "blocked": 0, "cycle_us": [1000, 2000], "sideslip": 0.1, "outside": 0.0, **changes}


@pytest.mark.parametrize(("bad", "good"), [
    ({}, True), ({"lifted": 0.01}, False), ({"collision": "rock"}, False), ({"diverged": True}, False),
    ({"reached": None, "ratio": None}, False), ({"reached": None, "ratio": None, "speed": 26.8}, True),
    ({"collision": "rock", "controller": "kinematic"}, True)])
def test_one_bad_run_of_thirty_decides(bad, good):
    speed, controller = bad.get("speed", 17.88), bad.get("controller", "mpc")
    runs = [result(seed=seed, speed=speed, controller=controller) for seed in range(1, 30)]
    assert tables.passes(tables.summarise_fields([*runs, result(seed=30, **bad)])) == good


def test_dense_fields_are_counted_tabulated_and_drawn():
    runs = [result(seed=seed, density=density, controller=controller, **how)
            for density in (1.0, 8.0) for controller in ("mpc", "kinematic")
            for seed, how in enumerate((({}, {}) if density == 1.0 else (
                {"reached": None, "ratio": None, "stands": True},
                {"reached": None, "ratio": None, "collision": "circle 3", "impact": 2.5} if controller == "kinematic" else
                {"reached": None, "ratio": None})), 1)]
    rows = tables.summarise_density(runs)
    assert [(row["density"], row["speed_mph"], row["controller"], row["runs"], row["goals"], row["stopped"], row["collisions"],
             row["unfinished"]) for row in rows] == [
        (1.0, 40, "mpc", 2, 2, 0, 0, 0), (1.0, 40, "kinematic", 2, 2, 0, 0, 0), (8.0, 40, "mpc", 2, 0, 1, 0, 1),
        (8.0, 40, "kinematic", 2, 0, 1, 1, 0)]
    assert rows[3]["collisions_95"] == [round(limit, 4) for limit in binomial_interval(1, 2)] and rows[2]["ratio"] is None
    assert tables.is_collision_free(rows)  # the kinematic may
    assert not tables.is_collision_free([{**row, "controller": "mpc"} for row in rows])
    heads, cells = tables.density_table(rows)
    assert dict(zip(heads, cells[3]))["collisions"] == "1 (1 to 99 %)" and dict(zip(heads, cells[2]))["unfinished"] == "1"
    assert "obstacle_field_40 seed 2, 8 times as dense, kinematic: hit circle 3 at 2.5 m/s after 20.0 s" in failures(runs)
    goals, collisions = pictures.draw_density(rows).axes
    assert [line.get_ydata().tolist() for line in goals.lines[:2]] == [[1.0, 0.0], [1.0, 0.0]]
    assert [line.get_ydata().tolist() for line in collisions.lines[:2]] == [[0.0, 0.0], [0.0, 0.5]]
    assert pictures.draw_density([]) is None


def test_delays_are_tabulated_and_drawn():
    track = [[0.0, 0.0], [50.0, 1.0]]
    runs = [result(scenario="slalom", seed=None, delay=delay, compensate=compensate, largest_error=error, straight=None, track=track,
                   collision="" if error < 1.0 else "cone 2", impact=3.0, reached=20.0 if error < 1.0 else None)
            for delay, compensate, error in ((0.0, True, 0.1), (0.2, True, 0.2), (0.2, False, 2.0))]
    summary = tables.summarise_delays(runs)
    heads, rows = tables.delays_table(summary)
    assert [dict(zip(heads, row))["slalom: largest path error [m]"] for row in rows] == ["0.10", "0.20", "2.00"]
    assert [row[:3] for row in rows][1:] == [["200", "yes", "end of the path after 20.00 s"],
                                             ["200", "no", "hit cone 2 at 3.0 m/s after 20.0 s"]]
    errors, clearances, ways = pictures.draw_delays(summary, runs).axes
    lines = {line.get_label(): line.get_xydata().tolist() for line in errors.lines}
    assert lines["slalom, predicted through"] == [[0.0, 0.1], [200.0, 0.2]]
    assert lines["slalom, not predicted through"] == [[0.0, 0.1], [200.0, 2.0]]
    assert [[200.0, 2.0]] in [line.get_xydata().tolist() for line in errors.lines if line.get_marker() == "x"]
    assert len(clearances.lines) == 1 and sum(line.get_xydata().tolist() == track for line in ways.lines) == 2


def test_lane_changes_are_tabulated_and_drawn():
    runs = [{"speed": speed, "outside": outside, "failure": failed, "least_load": 0.5, "track": [[0.0, 0.0], [90.0, 0.0]]}
            for speed, outside, failed in ((9.0, 0.0, ""), (10.0, 0.2, "0.20 m outside"))]
    climb = {"scenario": "iso_3888_2", "delay": 0.2, "compensate": False, "highest": 9.0, "exit_speed": 8.5, "failure": "0.20 m outside",
             "runs": runs}
    heads, (row,) = tables.lane_change_table([climb])
    assert row == ["iso_3888_2", "200", "no", "9.0", "32", "8.5", "0.50", "0.20 m outside"] and len(heads) == len(row)
    over_speed, _ = pictures.draw_lane_changes([climb]).axes
    assert over_speed.lines[0].get_xydata().tolist() == [[9.0, 0.0], [10.0, 0.2]]
    assert over_speed.lines[1].get_xydata().tolist() == [[10.0, 0.2]]


def test_a_vehicle_that_stood_is_hit():
    assert ending(result(collision="car", impact=9.0, stands=True)).startswith("stands, and is hit by car at 9.0 m/s")
    assert ending(result(collision="wall", impact=0.4, stands=True)).startswith("hit wall at 0.4 m/s")


def test_times_of_cycles_are_those_of_all_runs():
    hit = result(cycle_us=[], cycles=0, cycle_ms=None, collision="rock", largest_error=None)
    assert tables.cycle_times([hit]) is None and ending(hit) == "hit at the start: rock"
    assert "| - " in markdown_table(tables.fields_table(tables.summarise_fields([hit])))
    assert "hit at the start" in markdown_table(tables.suite_table([hit]))
    runs = [result(cycle_us=[1000] * 98), result(cycle_us=[5000, 9000])]
    assert tables.cycle_times(runs) == {"p50": 1.0, "p99": 5.04, "max": 9.0}


def test_a_climb_stops_soon_after_the_first_failure(monkeypatch):
    def run_trial(trial):
        failed = "hit cone" if 7.2 < trial.speed < 7.8 or trial.speed > 8.6 else ""
        return {"speed": trial.speed, "failure": failed, "delay": 0.0, "entry_speed": trial.speed, "exit_speed": 5.0, "cycle_us": []}

    monkeypatch.setattr(studies, "run_trial", run_trial)
    climb = studies.work(Climb(Trial("iso_3888_2"), first=6.0, step=0.5))
    assert (climb["highest"], climb["failure"]) == (7.0, "hit cone")  # that a higher speed passed by chance does not count
    assert [run["speed"] for run in climb["runs"]] == [6.0, 6.5, 7.0, 7.5, 8.0, 8.5]
    assert studies.work(Climb(Trial("iso_3888_2"), first=7.5))["highest"] is None


@pytest.mark.parametrize(("changes", "why"), [
    ({}, ""), ({"collision": "cone 1"}, "hit cone 1"), ({"sideslip": 0.6}, "spins"), ({"outside": 0.2}, "0.20 m outside"),
    ({"lifted": 0.1}, "lifts a wheel"), ({"reached": None}, "does not arrive"), ({"diverged": True}, "diverged")])
def test_reasons_of_failed_lane_changes(changes, why):
    assert studies.failure(result(**changes)) == why


def test_the_studies_cover_their_documented_runs():
    every = tuple(studies.CONTROLLERS)
    trials = studies.fields(100, 5, studies.SPEEDS, every, SETTINGS)
    counts = {name: sum(trial.controller == name for trial in trials) for name in every}
    assert counts == {"mpc": 300, "kinematic": 300, "ipopt": 15}
    assert len({(trial.scenario, trial.seed, trial.controller) for trial in trials}) == len(trials)
    names = {(trial.scenario, trial.controller) for trial in studies.suite(every, SETTINGS)}
    for name in ("dead_end", "iso_3888_1", "iso_3888_2", "moving_obstacle", "nato_lane_change", "slalom"):
        assert (name, "mpc") in names and (name, "kinematic") in names
    delayed = {(trial.plant.state_age, studies.trial_vehicle(trial).actuators.delay, trial.settings.compensate)
               for trial in studies.delays(1, SETTINGS)}
    assert delayed == {(d / 2, d / 2, c) for d in (0.0, 0.1, 0.2, 0.3) for c in (True, False)} - {(0.0, 0.0, False)}
    with pytest.raises(InputError, match="no controller 'pid'; choose from: mpc"):
        studies.fields(1, 1, (20,), ("pid",), SETTINGS)


def test_a_study_resumes_after_a_full_disk(tmp_path: Path) -> None:
    long = {"text": "x" * 3000}
    found: dict[int, dict[str, Any]] = {}
    with full(4000), pytest.raises(InputError, match="what is done is kept"):
        carry_out([1, 2], lambda item: long, str, LocalScheduler(), found, tmp_path)
    with (tmp_path / RESULTS).open("ab") as file:  # and what a damaged disk may give
        file.write(b"\xff")
    done: list[int] = []

    def work(item: int) -> dict[str, Any]:
        done.append(item)
        return long

    for _ in range(2):
        found = {}
        carry_out([1, 2], work, str, LocalScheduler(), found, tmp_path)
        assert found == {0: long, 1: long} and done == [2]
