"""A posterior that is continued with a new recording is that of both recordings at once: means, widths and evidence."""

import shutil

import numpy as np
import pictures
import pytest
from small_problem import write_bag

from lfdm_ros.calibration import calibrate, load_recipe
from lfdm_ros.errors import InputError
from lfdm_ros.libraries import arviz

az = arviz()

RECIPE = """
model: eight_dof
vehicle: hmmwv
step: {value: 5, unit: ms}
seed: 3
draws: 125
chains: 4
stages:
  - name: lateral
    recording: "turn*"
    window: [0.5, 2.5]
    initial_state: {estimate: {vx: {prior: normal, sd: 0.1, unit: m/s}}}
    parameters:
      cornering_stiffness_front: {prior: log_normal, median: 50, log_sd: 0.4, unit: kN/rad}
      cornering_stiffness_rear: {prior: log_normal, median: 60, log_sd: 0.4, unit: kN/rad}
    channels:
      vy: {topic: measured/state, noise: {prior: log_normal, median: 0.05, log_sd: 1.0, unit: m/s}}
      yaw_rate: {topic: measured/state, noise: {prior: log_normal, median: 0.02, log_sd: 1.0, unit: rad/s}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two recordings of the same manoeuvre, and the calibrations of the first, of the second after it, and of both at once."""
    folder = tmp_path_factory.mktemp("continuation")
    (folder / "recipe.yaml").write_text(RECIPE)
    for name, seed in (("turn_a", 5), ("turn_b", 6)):
        write_bag(folder / name, "turn", seed=seed, recording=name)
    recipe = load_recipe(folder / "recipe.yaml")
    with pictures.left_out():
        calibrate(recipe, [folder / "turn_a"], folder / "a")
        calibrate(recipe, [folder / "turn_b"], folder / "in_turn", continued=folder / "a", seed=5)
        calibrate(recipe, [folder / "turn_a", folder / "turn_b"], folder / "at_once", seed=6)
    return folder


def posterior(directory):
    return az.from_netcdf(str(directory / "posterior.nc"))


def evidence(directory):
    values = posterior(directory).sample_stats["lateral.log_evidence"].values
    return values.mean(), values.std(ddof=1) / np.sqrt(len(values))


def test_means_and_widths(folder):
    in_turn, at_once = posterior(folder / "in_turn").posterior, posterior(folder / "at_once").posterior
    assert set(in_turn.data_vars) == set(at_once.data_vars)
    assert {"lateral.initial.turn_a.vx", "lateral.initial.turn_b.vx"} <= set(in_turn.data_vars)
    for name, values in at_once.data_vars.items():
        sd = float(values.std())
        assert float(in_turn[name].mean()) == pytest.approx(float(values.mean()), abs=0.2 * sd), name
        assert float(in_turn[name].std()) == pytest.approx(sd, rel=0.15), name
    alone = posterior(folder / "a").posterior
    assert float(at_once["cornering_stiffness_front"].std()) < 0.85 * float(alone["cornering_stiffness_front"].std())


def test_evidence(folder):
    """log Z(A) + log Z(B|A) = log Z(A+B); a wrong target would keep the means and miss this by far."""
    (in_turn, se), (at_once, other_se) = evidence(folder / "in_turn"), evidence(folder / "at_once")
    tolerance = 4.0 * np.hypot(se, other_se)
    assert tolerance < 1.5
    assert in_turn == pytest.approx(at_once, abs=tolerance)


def test_it_is_said_what_is_new(folder):
    from lfdm_ros.calibration.results import load_summary

    summary, before = load_summary(folder / "in_turn"), load_summary(folder / "a")
    assert summary["continued"] == [recording["sha256"] for recording in before["recordings"]]
    assert [recording["name"] for recording in summary["recordings"]] == ["turn_a", "turn_b"]
    stage = summary["stages"][0]
    assert stage["log_evidence"] == pytest.approx(stage["log_evidence_of_new_data"] + before["stages"][0]["log_evidence"])
    assert stage["temperatures"] < before["stages"][0]["temperatures"]
    page = (folder / "in_turn" / "report.html").read_text()
    assert "This continues an earlier calibration of 1 recording, which stays in the likelihood; new: turn_b." in page
    assert f"Log evidence {stage['log_evidence']:.2f}:" in page


def test_what_cannot_be_continued(folder, tmp_path, without_pictures):
    recipe = load_recipe(folder / "recipe.yaml")
    (tmp_path / "recipe.yaml").write_text(RECIPE.replace("median: 50", "median: 51"))
    with pytest.raises(InputError, match="with another recipe"):
        calibrate(load_recipe(tmp_path / "recipe.yaml"), [folder / "turn_b"], tmp_path / "out", continued=folder / "a")
    calibrate(recipe, [folder / "turn_a"], tmp_path / "quick", sampler="least_squares", draws=20)
    with pytest.raises(InputError, match="approximation"):
        calibrate(recipe, [folder / "turn_b"], tmp_path / "out", continued=tmp_path / "quick")
    with pytest.raises(InputError, match="use smc"):
        calibrate(recipe, [folder / "turn_b"], tmp_path / "out", continued=folder / "a", sampler="least_squares")
    # A bag that has moved can be given again.
    shutil.copytree(folder / "a", tmp_path / "a")
    text = (tmp_path / "a" / "summary.json").read_text()
    (tmp_path / "a" / "summary.json").write_text(text.replace(str(folder / "turn_a"), str(tmp_path / "gone")))
    with pytest.raises(InputError, match="turn_a is not at"):
        calibrate(recipe, [folder / "turn_b"], tmp_path / "out", continued=tmp_path / "a")
    calibrate(recipe, [folder / "turn_a", folder / "turn_b"], tmp_path / "out", continued=tmp_path / "a", draws=20, chains=2)
