"""Recipes: what ships is valid, what is wrong is named with file and key."""

import numpy as np
import pytest

from lfdm_ros.calibration.field_calibration import is_field_recipe
from lfdm_ros.calibration.recipe import load_recipe
from lfdm_ros.errors import InputError
from lfdm_ros.resources import share_directory

SHIPPED = [path for path in sorted((share_directory() / "config" / "calibration").glob("*.yaml")) if not is_field_recipe(path)]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_recipes_that_ship_are_valid(path):
    recipe = load_recipe(path.stem)
    assert recipe.path == path
    assert recipe.stages


def test_paper_recipe_has_the_settings_of_the_paper():
    recipe = load_recipe("hmmwv_paper")
    assert (recipe.chains, recipe.draws) == (8, 1000)
    assert recipe.start_vehicle.parameters["rolling_resistance"] == 0.0175
    assert recipe.start_vehicle.parameters["unsprung_load_share"] == 0.5
    assert recipe.start_vehicle.parameters["wheel_inertia"] == 11.0
    lateral = recipe.stages[1]
    assert dict(lateral.parameters[4].targets) == {"roll_damping_front": 0.5, "roll_damping_rear": 0.5}
    assert lateral.parameters[0].prior.bounds() == (20e3, 80e3)
    assert [c.noise.values["sigma"] for c in lateral.channels.values()] == [0.05, 0.005, 0.005, 0.05]


def test_units_are_converted(recipe_file):
    recipe = load_recipe(recipe_file)
    assert recipe.fixed == {"rolling_resistance": pytest.approx(0.0131)}
    assert recipe.stages[0].parameters[0].prior.bounds() == (5e3, 40e3)
    assert recipe.stages[0].targets == ("longitudinal_stiffness_front", "longitudinal_stiffness_rear")


@pytest.mark.parametrize(("old", "new", "message"), [
    ("model: eight_dof", "model: nine_dof", "no model 'nine_dof'"),
    ("vehicle: hmmwv", "vehicle: hmmvw", "no vehicles file 'hmmvw'"),
    ("seed: 3", "sead: 3", "unknown key 'sead'"),
    ("draws: 100", "draws: 2", "draws: expected a whole number of 10 to 100000"),
    ("step: {value: 2, unit: ms}", "step: {value: 5, unit: s}", "step: 5.0 s is outside"),
    ("unit: mm", "unit: mg", r"parameters.rolling_resistance: unit 'mg' does not fit"),
    ("  rolling_resistance: {", "  rolling_resistence: {", "unknown key 'rolling_resistence'"),
    ("recording: turn", "recordings: turn", r"stages\[1\]: unknown key 'recordings'"),
    ("    window: [0.5, 2.5]\n", "", r"stages\[1\] \(lateral\): missing key 'window'"),
    ("window: [0.5, 2.5]", "window: [2.5, 0.5]", r"stages\[1\] \(lateral\)\.window"),
    ("estimate: {vx:", "estimate: {speed:", r"initial_state\.estimate: unknown key 'speed'"),
    ("      vy: {topic", "      vz: {topic", r"channels\.vz: not a state of the model"),
    ("noise: {prior: log_normal, median: 0.05", "noise: {prior: normal, mean: 0.05", r"vy\.noise"),
    ("longitudinal_stiffness_front: 1,", "longitudinal_stifness_front: 1,", "no parameter 'longitudinal_stifness_front'"),
    ("longitudinal_stiffness_front: 1,", "longitudinal_stiffness_front: -1,", "factor greater than 0"),
    ("longitudinal_stiffness_rear: 1}", "roll_damping_rear: 1}", "of different units"),
    ("lower: 20, upper: 90, unit: kN/rad", "lower: -20, upper: 90, unit: kN/rad", "reaches outside"),
    ("median: 50, log_sd: 0.4, unit: kN/rad", "median: 50, log_sd: 4, unit: kN/rad",
     r"range of cornering_stiffness_front: its upper 1e-06 quantile is 9\.\d+e\+12 N/rad, above the bound 1e\+06 N/rad; the largest log_sd "
     r"that fits is 0\.63; or use"),
    ("name: lateral", "name: longitudinal", "two are called 'longitudinal'"),
    ("cornering_stiffness_rear: {prior: uniform, lower: 20, upper: 90, unit: kN/rad}",
     "longitudinal_stiffness_rear: {prior: uniform, lower: 5, upper: 40, unit: kN}", "inferred already in stage 'longitudinal'"),
])
def test_what_is_wrong_is_named(recipe_file, old, new, message):
    text = recipe_file.read_text()
    assert old in text
    recipe_file.write_text(text.replace(old, new))
    with pytest.raises(InputError, match=message) as caught:
        load_recipe(recipe_file)
    assert str(recipe_file) in str(caught.value) or "no model" in message or "no vehicles" in message
    assert "\n" not in str(caught.value)


def test_unknown_name_lists_what_there_is():
    with pytest.raises(InputError, match="hmmwv_paper"):
        load_recipe("hmmwv_papr")


JOINT = """
model: eight_dof
vehicle: hmmwv
stages:
  - name: joint
    errors: ar1
    inputs: {topic: none, steering: {field: road_wheel_angle, per: max_road_wheel_angle}}
    nuisance:
      steering.delay: {prior: half_normal, sigma: 50, unit: ms}
      yaw_rate.offset: {prior: normal, mean: 0, sd: 1, unit: deg/s}
      heading.misalignment: {prior: normal, mean: 0, sd: 1, unit: deg}
    channels:
      yaw_rate: {noise: {prior: log_normal, median: 0.01, log_sd: 1, unit: rad/s}}
    segments:
      - {name: turns, recording: "turn_*", window: [1, null], split: {length: {value: 5, unit: s}, take: even}}
      - {recording: [slow, fast], window: [0, 20], prescribed: {vx: {topic: odom}}, channels: {vy: {noise: {prior: log_normal, median: 0.1,
         log_sd: 1, unit: m/s}}}}
    parameters:
      cornering_stiffness_front: {prior: log_normal, median: 50, log_sd: 0.4, unit: kN/rad}
"""


def test_a_joint_stage(tmp_path):
    (tmp_path / "joint.yaml").write_text(JOINT)
    stage, = load_recipe(tmp_path / "joint.yaml").stages
    turns, other = stage.segments
    assert (turns.name, turns.start, turns.end, turns.split.length, turns.split.take) == ("turns", 1.0, np.inf, 5.0, "even")
    assert turns.selects("turn_3")
    assert not turns.selects("return_3")
    assert other.recordings == ("slow", "fast")
    assert other.prescribed == (("vx", "odom", "vx"),)
    assert list(stage.channels) == ["yaw_rate", "slow.vy"]  # shared by the segments, and of its own
    assert {n.name: n.prior.values for n in stage.nuisance}["steering.delay"] == {"sigma": 0.05}
    assert stage.channels["yaw_rate"].correlation.bounds() == pytest.approx((-0.5, 0.999))
    assert load_recipe(tmp_path / "joint.yaml", errors="white").stages[0].channels["yaw_rate"].correlation is None


def test_a_stage_may_be_for_the_measurement_alone(tmp_path):
    (tmp_path / "joint.yaml").write_text(JOINT[:JOINT.index("    parameters:")])
    assert load_recipe(tmp_path / "joint.yaml").stages[0].parameters == ()


@pytest.mark.parametrize(("old", "new", "message"), [
    ("errors: ar1", "errors: red", "'red' is not one of: white, ar1, inflated"),
    ("steering.delay: {prior: half_normal, sigma: 50, unit: ms}", "steering.gain: {prior: half_normal, sigma: 50, unit: ms}",
     r"nuisance\.steering\.gain: no such nuisance; choose from INPUT\.offset, INPUT\.scale"),
    ("sigma: 50, unit: ms}", "sigma: 50, unit: mm}", "does not fit"),
    ("steering.delay: {prior: half_normal, sigma: 50, unit: ms}", 'steering.scale: {prior: normal, mean: 1, sd: 1, unit: "1"}', "positive"),
    ("yaw_rate.offset", "vy_rate.offset", r"vy_rate\.offset: no such nuisance"),
    ("take: even", "take: some", "'some' is not one of: all, even, odd"),
    ("length: {value: 5, unit: s}", "length: {value: 0, unit: s}", r"split\.length: must be greater than 0"),
    ("prescribed: {vx: {topic: odom}}", "prescribed: {vy: {topic: odom}}", "it is prescribed, so it says nothing"),
    ("prescribed: {vx: {topic: odom}}", "prescribed: {ax: {topic: odom}}", "only a continuous state"),
    ("inputs: {topic: none, steering: {field: road_wheel_angle, per: max_road_wheel_angle}}", "inputs: {topic: none}",
     "the steering needs a source"),
    ("window: [1, null]", "window: [null, 1]", "expected a finite number"),
    ("recording: [slow, fast]", "recording: []", "expected a name, a pattern or a list"),
])
def test_what_is_wrong_with_a_joint_stage_is_named(tmp_path, old, new, message):
    assert old in JOINT
    (tmp_path / "joint.yaml").write_text(JOINT.replace(old, new))
    with pytest.raises(InputError, match=message) as caught:
        load_recipe(tmp_path / "joint.yaml")
    assert "joint.yaml" in str(caught.value)
