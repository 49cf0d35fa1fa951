"""Recipes proposed from recordings: what is said of them is so, and what is proposed finds the vehicle that drove."""

import functools
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import yaml

from lfdm_ros.bags import import_recording
from lfdm_ros.calibration import load_recipe
from lfdm_ros.calibration.proposal import propose as propose_from
from lfdm_ros.cli.main import main
from lfdm_ros.errors import InputError
from lfdm_ros.inference.plan import NO_TOPIC
from lfdm_ros.resources import find_config
from lfdm_ros.simulation import BatchRollout, initial_state
from lfdm_ros.vehicles import CLASSES, load_vehicle, save_vehicle, typical_vehicle

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


def test_steering_stamped_late_is_told_and_the_remedy_helps(drive, tmp_path, capsys):
    """Far beyond what the yaw rate is behind by itself; with the offset that is told, as written, nothing is told any more."""
    mapping = yaml.safe_load((drive / "put_right.yaml").read_text())

    def told(offset):
        wheel = {"file": "{recording}.csv", "time": {"column": "t", "offset": f"{offset} s"}, "columns": {"t": "s", "angle": "deg"}}
        content = mapping | {"sources": mapping["sources"] | {"wheel": wheel}}
        content["topics"]["vehicle/state"]["fields"]["road_wheel_angle"] = "wheel.angle"
        (tmp_path / "late.yaml").write_text(yaml.safe_dump(content))
        (tmp_path / "r.yaml").unlink(missing_ok=True)
        assert main(["calibrate", "--new", str(drive / "drive.csv"), "--mapping", str(tmp_path / "late.yaml"), "--vehicle",
                     str(drive / "car.yaml"), "--out", str(tmp_path / "r.yaml")]) == 0
        return next(line for line in capsys.readouterr().out.splitlines() if line.startswith("steering.lag: "))

    first = told(0.9)
    assert "WARNING: the yaw rate is 0.6" in first and "s ahead of the steering" in first, "LATE goes against it, and the vehicle's own"
    remedy = float(first.partition("offset: ")[2].partition(" s}")[0])
    second = told(0.9 + remedy)
    assert "WARNING" not in second
    assert float(second.partition("the yaw rate is ")[2].partition(" s behind")[0]) == pytest.approx(0.1, abs=0.05)


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


GENTLE, HARD = 2.0, 12.0  # [m/s^2] across: a share of every vehicle's grip below LINEAR, and above SLIDING
FIELDS = {"vx": "m/s", "vy": "m/s", "yaw_rate": "rad/s", "roll": "rad", "roll_rate": "rad/s", "road_wheel_angle": "rad"}


@pytest.fixture(scope="module")
def slalom(tmp_path_factory):
    """Returns slalom(lateral, fields): a bag of 40 s in which these fields were measured."""
    folder = tmp_path_factory.mktemp("slalom")

    def record(lateral, fields):
        bag = folder / f"{lateral:g}_{len(fields)}"
        if not bag.exists():
            times = 0.02 * np.arange(2000)
            wave = np.sin(2.0 * np.pi * 0.3 * times) + 0.3 * np.sin(2.0 * np.pi * 0.7 * times)
            columns = {"t": times, "vx": 12.0 + np.sin(0.1 * times), "vy": 0.1 * wave, "yaw_rate": lateral / 12.0 * wave,
                       "roll": 0.02 * wave, "roll_rate": 0.04 * wave, "road_wheel_angle": 0.01 * lateral * wave}
            np.savetxt(folder / "log.csv", np.column_stack(list(columns.values())), delimiter=",", header=",".join(columns))
            log = {"file": "{recording}.csv", "time": {"column": "t"}, "columns": {"t": "s", **FIELDS}}
            state = {"type": "lfdm_ros/msg/VehicleState", "from": "log", "fields": {name: name for name in fields}}
            (folder / "mapping.yaml").write_text(yaml.safe_dump({"sources": {"log": log}, "topics": {"vehicle/state": state}}))
            import_recording(folder / "log.csv", folder / "mapping.yaml", bag)
        return bag

    return record


@functools.cache
def shipped():
    """All classes of `lfdm vehicle new`, and all vehicles that come with the package, among them those on TMeasy's tyres."""
    masses = {"car": (1500.0, 2.7), "suv": (4000.0, 3.4), "racing": (790.0, 2.97), "small": (16.0, 0.26)}
    assert set(masses) == set(CLASSES)
    made = {kind: typical_vehicle(kind, *numbers, kind) for kind, numbers in masses.items()}
    return made | {path.stem: load_vehicle(str(path)) for path in sorted(find_config("vehicles", "hmmwv").parent.glob("*.yaml"))}


CASES = [(name, HARD, True) for name in shipped()] + [
    (name, lateral, False) for name in ("car", "hmmwv_shafts") for lateral in (GENTLE, HARD)]


@pytest.mark.parametrize(("name", "lateral", "with_roll"), CASES)
def test_what_is_proposed_can_be_read(slalom, tmp_path, name, lateral, with_roll):
    """Each unknown is one of the model's, and no prior reaches beyond what it may be: for every vehicle in a drive that tells all, and for
    two kinds of tyres in each drive."""
    fields, vehicle = [name for name in FIELDS if with_roll or not name.startswith("roll")], shipped()[name]
    save_vehicle(vehicle, tmp_path / "mine.yaml")
    proposal = propose_from([slalom(lateral, fields)], load_vehicle(str(tmp_path / "mine.yaml")), str(tmp_path / "mine.yaml"))
    (tmp_path / "recipe.yaml").write_text(proposal.text)
    recipe = load_recipe(tmp_path / "recipe.yaml")
    known = {target for parameter in recipe.stages[0].parameters for target, _ in parameter.targets}
    assert len(known) >= 2 + (lateral == HARD)
    assert known <= {field.name for field in vehicle.model(recipe.model).parameters}
    assert ("eight_dof" in recipe.model) == any(name.startswith("roll_") for name in known)


def test_a_recording_that_tells_nothing_is_left_out_of_a_folder(slalom):
    straight, winding = slalom(0.0, FIELDS), slalom(HARD, FIELDS)
    proposal = propose_from([straight, winding], load_vehicle("hmmwv"), "hmmwv")
    assert proposal.reasons[0].startswith(f"WARNING: left out: {straight}") and "steering" in proposal.reasons[0]
    assert [segment["recording"] for segment in yaml.safe_load(proposal.text)["stages"][0]["segments"]] == ["log"]
    with pytest.raises(InputError, match="steering"):
        propose_from([straight], load_vehicle("hmmwv"), "hmmwv")


OWN_TYRE = '''
from lfdm_ros.models import Field, Part, register_part

class Mine:
    implicit = True

PARAMETERS = (Field("mine_softness", "1", "how it bends", "c", 0.0, 4.0), Field("mine_tilt", "1", "sideways", "t", -1.0, 1.0),
              Field("mine_unused", "1", "of a variant", "u", 0.0, 1.0))
register_part("tyre", Part("mine", "an example", PARAMETERS, Mine))
'''


def test_a_tyre_from_outside(slalom, tmp_path):
    """Its own parameters are proposed, whatever others the file has; those that are 0 are left alone."""
    (tmp_path / "mine.py").write_text(OWN_TYRE)
    document = yaml.safe_load(find_config("vehicles", "hmmwv").read_text()) | {"default_tyre": "mine"}
    document["tyre"] |= {name: {"value": value, "unit": "1", "source": "an example"}
                         for name, value in (("mine_softness", 2.0), ("mine_tilt", -0.1), ("mine_unused", 0.0))}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(document))
    bag = slalom(HARD, list(FIELDS))
    done = subprocess.run([sys.executable, "-c", "from lfdm_ros.cli.main import main; raise SystemExit(main())", "calibrate", "--new", bag,
                           "--vehicle", "mine.yaml", "--out", "recipe.yaml"], cwd=tmp_path, capture_output=True, text=True, check=False,
                          env={**os.environ, "LFDM_PLUGINS": str(tmp_path / "mine.py")})
    assert done.returncode == 0, done.stderr
    assert "mine_softness, mine_tilt: all that tyre mine has" in done.stdout
    parameters = yaml.safe_load((tmp_path / "recipe.yaml").read_text())["stages"][0]["parameters"]
    assert [name for name in parameters if not name.startswith("roll_")] == ["mine_softness", "mine_tilt", "friction_scale"]


def test_all_priors_out_of_range_are_told_at_once(drive, tmp_path, capsys):
    propose(drive, "put_right", capsys, tmp_path / "recipe.yaml")
    text = (tmp_path / "recipe.yaml").read_text()
    (tmp_path / "recipe.yaml").write_text(text.replace("log_sd: 0.4", "log_sd: 4"))
    with pytest.raises(InputError, match=r"cornering_stiffness_front: the prior reaches outside .*; .*cornering_stiffness_rear: the prior"):
        load_recipe(tmp_path / "recipe.yaml")
