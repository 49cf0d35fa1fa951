"""Recipes proposed from recordings: what is said of them is so, and what is proposed finds the vehicle that drove."""

import json

import numpy as np
import pytest
import yaml

from lfdm_ros.calibration import load_recipe
from lfdm_ros.cli.main import main
from lfdm_ros.inference.plan import NO_TOPIC
from lfdm_ros.simulation import BatchRollout, initial_state
from lfdm_ros.vehicles import save_vehicle, typical_vehicle

TRUE = {"cornering_stiffness_front": 0.75, "cornering_stiffness_rear": 1.2}  # of what is typical
LATE, ARM = 0.2, 1.2  # [s] of the steering that is logged; [m] from the centre of mass to where vy is measured
MAPPING = """
sources:
  log:
    file: "{recording}.csv"
    time: {column: t}
    columns: {t: s, vx: m/s, vy: m/s, yaw_rate: deg/s, angle: deg}
topics:
  vehicle/state:
    type: lfdm_ros/msg/VehicleState
    from: log
    fields: {vx: vx, vy: VY, yaw_rate: yaw_rate, road_wheel_angle: angle}
"""


@pytest.fixture(scope="module")
def drive(tmp_path_factory):
    """A folder with the log of a car that stands, drives for 60 s and stands; its file; and two mappings, of vy as logged and put right."""
    folder = tmp_path_factory.mktemp("drive")
    typical = typical_vehicle("car", 1500.0, 2.7)
    save_vehicle(typical, folder / "car.yaml")
    truth = typical.replace(**{name: factor * typical.parameters[name] for name, factor in TRUE.items()})
    times = 0.02 * np.arange(3001)
    rng = np.random.default_rng(4)
    angle = sum(0.006 * np.sin(2 * np.pi * f * times + p) for f, p in zip((0.05, 0.13, 0.31, 0.52, 0.9), rng.uniform(0, 6, 5)))
    speed = 14.0 + 8.0 * np.sin(0.2 * times)
    inputs = np.column_stack([angle / truth.parameters["max_road_wheel_angle"], 0 * times, 0 * times, speed])
    rollout = BatchRollout(model="linear_single_track", vehicle=truth, dt=0.01, times=times, inputs=inputs, parameters=[],
                           channels=["vy", "yaw_rate"], prescribed=["vx"])
    vy, yaw_rate = rollout.trajectories(np.empty((1, 0)), initial_state("linear_single_track", truth, vx=14.0))[0].T
    logged = np.column_stack([10.0 + times, speed, vy + ARM * yaw_rate + rng.normal(0, 0.01, 3001),
                              np.rad2deg(yaw_rate + rng.normal(0, 0.003, 3001)), np.rad2deg(np.interp(times + LATE, times, angle))])
    still = np.zeros((250, 5))
    rows = np.concatenate([still, logged, still])
    rows[:, 0] = 5.0 + 0.02 * np.arange(len(rows))
    np.savetxt(folder / "drive.csv", rows, delimiter=",", header="t,vx,vy,yaw_rate,angle")
    for name, expression in (("as_logged", "vy"), ("put_right", f"vy - {ARM} * metre * yaw_rate")):
        (folder / f"{name}.yaml").write_text(MAPPING.replace("VY", expression) + "constants: {metre: 1 m}\n")
    return folder


def propose(drive, mapping, capsys, out):
    status = main(["calibrate", "--new", str(drive / "drive.csv"), "--mapping", str(drive / f"{mapping}.yaml"),
                   "--vehicle", str(drive / "car.yaml"), "--out", str(out)])
    printed = capsys.readouterr()
    assert status == 0, printed.err
    return printed.out


def test_what_is_said_of_a_recording_is_so(drive, tmp_path, capsys):
    told = propose(drive, "as_logged", capsys, tmp_path / "recipe.yaml")
    assert "drive: moves for 60 s at 6.09 to 21.9 m/s" in told
    assert "model linear_single_track: up to " in told and "so tyres are linear" in told
    behind = float(told.partition("steering.lag: the yaw rate is ")[2].partition(" s behind")[0])
    assert LATE <= behind <= LATE + 0.1, "the vehicle's own lag comes on top"
    ahead = float(told.partition("vy is left out: it moves as of a place ")[2].partition(" m ahead")[0])
    assert ahead == pytest.approx(typical_vehicle("car", 1500.0, 2.7).parameters["cg_to_rear_axle"] + ARM, abs=0.15)
    recipe = load_recipe(tmp_path / "recipe.yaml")
    (stage,) = recipe.stages
    (segment,) = stage.segments
    assert [channel.name for channel in segment.channels] == ["yaw_rate"]
    assert (segment.start, segment.end) == pytest.approx((10.0, 70.0), abs=0.2), "where it stands is left out"
    assert (segment.inputs.topic, segment.inputs.steering.field) == (NO_TOPIC, "road_wheel_angle")
    assert (segment.split.length, segment.split.take) == (5.0, "even")


def test_what_is_proposed_finds_the_vehicle_that_drove(drive, tmp_path, capsys, without_pictures):
    """From the log to a result, by the commands that are told; against the truth, with what was late and measured elsewhere put right."""
    recipe = tmp_path / "recipe.yaml"
    told = propose(drive, "put_right", capsys, recipe)
    assert "channels: yaw_rate, vy" in told
    content = yaml.safe_load(recipe.read_text())
    content["stages"][0]["nuisance"]["steering.delay"] = {"prior": "half_normal", "sigma": 0.2, "unit": "s"}
    recipe.write_text(yaml.safe_dump({**content, "sampler": "least_squares", "draws": 50, "chains": 2}))
    bag = tmp_path / "bag"
    assert main(["bag", "import", str(drive / "drive.csv"), "--mapping", str(drive / "put_right.yaml"), "--out", str(bag)]) == 0
    assert main(["calibrate", str(recipe), "--bag", str(bag), "--out", str(tmp_path / "out")]) == 0
    (stage,) = json.loads((tmp_path / "out" / "summary.json").read_text())["stages"]
    typical = typical_vehicle("car", 1500.0, 2.7)
    for name, factor in TRUE.items():
        assert stage["parameters"][name]["mean"] == pytest.approx(factor * typical.parameters[name], rel=0.08), name


@pytest.mark.parametrize(("arguments", "message"), [
    (["--new", "nowhere", "--vehicle", "genesis", "--out", "r.yaml"], "no bag at nowhere"),
    (["--new", "x", "--out", "r.yaml"], "--vehicle NAME is missing"),
    (["--new", "x", "--vehicle", "genesis"], "--out FILE.yaml is missing"),
    (["hmmwv", "--new", "x", "--vehicle", "genesis", "--out", "r.yaml"], "leave out RECIPE and --bag"),
    (["--bag", "x", "--out", "y"], "RECIPE is missing; --new BAG --vehicle NAME proposes one"),
])
def test_what_is_asked_wrongly_is_told(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert main(["calibrate", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_recording_without_steering_is_told(drive, tmp_path, capsys):
    text = (drive / "as_logged.yaml").read_text().replace(", road_wheel_angle: angle", "")
    (tmp_path / "m.yaml").write_text(text)
    assert main(["calibrate", "--new", str(drive / "drive.csv"), "--mapping", str(tmp_path / "m.yaml"),
                 "--vehicle", str(drive / "car.yaml"), "--out", str(tmp_path / "r.yaml")]) == 2
    assert "neither vehicle/state has a road_wheel_angle nor control/command a steering" in capsys.readouterr().err
