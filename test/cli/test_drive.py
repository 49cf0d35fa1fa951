"""`lfdm drive`: one run without ROS, what it says and what it draws."""

import json
import re
from contextlib import nullcontext
from pathlib import Path

import pytest
from PIL import Image

from lfdm_ros.cli import drive
from lfdm_ros.cli.main import main

SCENARIO = """
initial: {speed: 8.0}
goal: {x: 30.0, y: 0.0}
speed: 8.0
duration: 8.0
obstacles:
  - {circle: {x: 18.0, y: -2.6, radius: 0.8}}
  - {polygon: [[10.0, 5.0], [12.0, 5.0], [11.0, 6.0]], velocity: [0.5, 0.5], name: bird}
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "yard.yaml"
    path.write_text(SCENARIO)
    return path


def test_a_run_is_told_and_drawn(scenario: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    figure, animation = tmp_path / "run.png", tmp_path / "run.gif"
    assert main(["drive", str(scenario), "--figure", str(figure), "--animation", str(animation)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("yard: goal after 3.") and "least clearance 1." in text and " solved; " in text
    with Image.open(figure) as drawn:
        assert drawn.size[0] > 500
    with Image.open(animation) as film:
        assert film.n_frames > 10
    assert animation.stat().st_size < 1_500_000


def test_what_takes_long_is_told(scenario: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first drive of a vehicle compiles for a quarter of a minute before it begins."""
    told: list[str] = []
    monkeypatch.setattr(drive, "show_progress", lambda task, done=str: nullcontext(told.append(task)))
    assert main(["drive", str(scenario)]) == 0
    assert [task.split()[0] for task in told] == ["compiling", "driving"]


def test_what_happened_as_json_and_that_it_failed(scenario: Path, capsys: pytest.CaptureFixture) -> None:
    scenario.write_text(SCENARIO.replace("y: -2.6, radius: 0.8", "y: 0.0, radius: 9.0"))
    assert main(["drive", str(scenario), "--delay", "0.1", "--state-age", "0.1", "--set", "compensate=false", "--json"]) == 1
    run = json.loads(capsys.readouterr().out)
    assert (run["delay"], run["compensate"], run["collision"], run["reached"]) == (0.2, False, "obstacle 0", None)


def test_a_start_inside_an_obstacle_is_told_in_one_line(scenario: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    scenario.write_text(SCENARIO.replace("{x: 18.0, y: -2.6, radius: 0.8}}", "{x: 1.0, y: 1.0, radius: 0.8}, name: rock}"))
    figure = tmp_path / "run.png"
    assert main(["drive", str(scenario), "--figure", str(figure), "--animation", str(tmp_path / "run.gif")]) == 1
    assert capsys.readouterr().out == "yard: hit at the start: rock\n" and figure.is_file()
    assert main(["drive", str(scenario), "--json"]) == 1
    run = json.loads(capsys.readouterr().out)
    assert (run["collision"], run["cycles"], run["cycle_ms"], run["least_clearance"] < 0.0) == ("rock", 0, None, True)


def test_who_leaves_the_corridor_has_failed(scenario: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """A corridor narrower than the vehicle cannot be kept."""
    scenario.write_text("initial: {speed: 5.0}\nspeed: 5.0\nduration: 8.0\npath: [[0, 0], [25, 0]]\n"
                        "corridor: [[0, 0.9, 0.9], [25, 0.9, 0.9]]\n")
    assert main(["drive", str(scenario)]) == 1
    assert re.match(r"yard: end of the path after \d\.\d\d s, 0\.\d\d m out of its corridor\n", capsys.readouterr().out)


def test_a_run_without_a_second_period_is_told(scenario: Path, capsys: pytest.CaptureFixture) -> None:
    scenario.write_text("goal: {x: 30, y: 0}\nspeed: 8\nduration: 0.001\ninitial: {speed: 8}\n")
    assert main(["drive", str(scenario)]) == 1
    text = capsys.readouterr().out
    assert text.startswith("yard: still on its way when the time is over\n") and max(map(len, text.splitlines())) < 140


def test_an_operator_drives_behind_a_link(scenario: Path, capsys: pytest.CaptureFixture) -> None:
    arguments = ["drive", str(scenario), "--driver", "operator", "--driver-seed", "2", "--model", "eight_dof", "--json"]
    runs = []
    for more in ([], ["--latency", "0.3", "--set", "link_drop=0.2", "--set", "distraction=urban", "--set", "lidar_range=50"]):
        scenario.write_text(SCENARIO)
        assert main([*arguments, *more]) == 0
        runs.append(json.loads(capsys.readouterr().out))
    assert [(run["controller"], run["latency"], run["delay"]) for run in runs] == [("operator", 0.0, 0.0), ("operator", 0.3, 0.3)]
    assert "compensate" not in runs[0] and runs[0]["reached"] < runs[1]["reached"] + 1.0


def test_a_ground_is_driven_on(scenario: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    scenario.write_text("goal: {x: 15, y: 0}\nspeed: 8\nduration: 8\ninitial: {speed: 2}\n")
    ice = tmp_path / "ice.yaml"
    ice.write_text("area: {x: [-10, 40], y: [-15, 15], spacing: 1}\nfriction: 0.1\n")
    speeds = []
    for ground in ([], ["--ground", str(ice)]):
        main(["drive", str(scenario), "--json", *ground])
        speeds.append(json.loads(capsys.readouterr().out)["mean_speed"])
    assert speeds[1] < 0.9 * speeds[0]


@pytest.mark.parametrize(("arguments", "message"), [
    (["slalom", "--latency", "0.1"], "--latency, --driver-seed: of an operator; give --driver operator"),
    (["slalom", "--driver", "operator", "--latency", "nan"], "--latency nan: give 0 to 2 s"),
    (["slalom", "--driver", "operator", "--set", "model=eight_dof"], "no setting 'model'; choose one of: cognition, period"),
    (["slalom", "--driver", "operator", "--driver-seed", "-2"], "operator: seed is -2"),
    (["slalom", "--driver", "operator", "--set", "link_drop=2"], "link: drop is 2"),
    (["slalom", "--driver", "operator", "--set", "cognition=genius"], "operator 'genius' is unknown; choose one of: two_point"),
    (["slalom", "--density", "2"], "slalom has no times; leave it out"),
    (["obstacle_field_20", "--density", "nan"], "times is nan"),
    (["sine_steer"], "scenario sine_steer has no goal and no path"),
    (["slalom", "--seed", "-3"], "--seed -3: give 0 or more"),
    (["slalom", "--delay", "nan"], "--delay nan: give 0 to 2 s"),
    (["slalom", "--set", "solver=magic"], "setting solver is 'magic'; choose one of: hpipm"),
    (["slalom", "--figure", "/nowhere/at/all.png"], "/nowhere/at/all.png: no such folder"),
    (["warp"], "warp"), (["slalm"], "no scenarios file 'slalm' (did you mean 'slalom'?)"),
    (["slalom", "--set", "lattice_sid=4"], "no setting 'lattice_sid' (did you mean 'lattice_side'?)\n"),
    (["curve", "--ground", "ice_in_the_bnd"], "did you mean 'ice_in_the_bend'?"),
])
def test_mistakes_are_told(capsys: pytest.CaptureFixture, arguments: list[str], message: str) -> None:
    assert main(["drive", *arguments]) == 2
    assert message in capsys.readouterr().err
