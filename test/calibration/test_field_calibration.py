"""The values of a friction field from places where it was seen: `lfdm calibrate` and `lfdm sbc` with a recipe of that kind."""

import json
from pathlib import Path

import numpy as np
import pytest

from lfdm_ros.calibration.field_calibration import load_field_recipe, read_survey
from lfdm_ros.calibration.recipe import load_recipe
from lfdm_ros.cli.main import main
from lfdm_ros.errors import InputError
from lfdm_ros.ground import DensePosterior, FieldPrior, FrictionLink
from lfdm_ros.ground.ground_file import load_ground
from lfdm_ros.libraries import arviz

RECIPE = """
field: {ice: 0.1, dry: 0.9}
seed: 2
draws: 100
chains: 2
sampler: {steps: 5, final_steps: 15}
note: a note
parameters:
  sigma_n: {value: 0.1, unit: "1"}
  alpha_y: {value: 300, unit: cm}
unknowns:
  a0: {prior: normal, mean: 0, sd: 1.5, unit: "1"}
  alpha_x: {prior: log_normal, median: 6, log_sd: 0.6, unit: m}
  sigma_f: {prior: log_normal, median: 1.2, log_sd: 0.4, unit: "1"}
survey: {x: [0, 20], y: [0, 10], count: 12}
"""
LINK, TRUTH = FrictionLink(0.1, 0.9), FieldPrior(a0=0.4, alpha_x=3.0, alpha_y=3.0, sigma_f=1.5, sigma_n=0.1)


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("field") / "road.yaml"
    path.write_text(RECIPE)
    return path


@pytest.fixture(scope="module")
def survey(recipe: Path) -> Path:
    """70 places of a field of TRUTH, in the file's own order of columns."""
    rng = np.random.default_rng(5)
    places = rng.uniform(0.0, (40.0, 20.0), (70, 2))
    latent = DensePosterior(TRUTH, places).draw(1, rng)[0] + TRUTH.sigma_n * rng.standard_normal(len(places))
    path = recipe.parent / "seen.csv"
    path.write_text("friction, x, y\n" + "".join(f"{mu!r},{x!r},{y!r}\n" for mu, (x, y) in zip(LINK.friction(latent).tolist(),
                                                                                          places.tolist())))
    return path


@pytest.fixture(scope="module")
def result(recipe: Path, survey: Path) -> Path:
    out = recipe.parent / "out"
    assert main(["calibrate", str(recipe), "--survey", str(survey), "--out", str(out)]) == 0
    return out


def test_it_finds_the_field_that_was_seen(result: Path) -> None:
    summary = json.loads((result / "summary.json").read_text())
    assert (summary["places"], summary["draws"], summary["chains"], summary["options"]["steps"]) == (70, 100, 2, 5)
    for name, row in summary["parameters"].items():
        assert abs(row["mean"] - TRUTH.values[name]) < 3.0 * row["sd"], name
        assert row["sd_over_prior_sd"] < 0.5 and row["hdi_3%"] < row["mean"] < row["hdi_97%"]
    assert summary["held"]["alpha_y"] == 3.0
    data = arviz().from_netcdf(str(result / "posterior.nc"))
    assert data.posterior["alpha_x"].shape == (2, 100)
    assert float(data.posterior["alpha_x"].mean()) == pytest.approx(summary["parameters"]["alpha_x"]["mean"])


def test_what_comes_out_is_a_ground_that_knows_what_was_seen(result: Path, recipe: Path, survey: Path) -> None:
    ground = load_ground(result / "ground.yaml")
    seen = read_survey(survey, load_field_recipe(recipe))
    summary = json.loads((result / "summary.json").read_text())
    found = FieldPrior(alpha_y=3.0, sigma_n=0.1, **{name: row["mean"] for name, row in summary["parameters"].items()})
    known = DensePosterior(found, seen.places, seen)
    # Between nodes stands a spline: to a fraction of the noise.
    assert np.abs(ground.median.latent_at(*seen.places.T) - known.mean).max() < 0.3 * TRUTH.sigma_n
    assert not ground.median.outside(*seen.places.T).any()
    assert ground.sd.min() < 0.15 < 0.95 * summary["parameters"]["sigma_f"]["mean"] < ground.sd.max()


def test_own_noise_of_each_place_is_taken_and_kept(recipe: Path, survey: Path, tmp_path: Path) -> None:
    lines = survey.read_text().splitlines()
    path = tmp_path / "noisy.csv"
    path.write_text("\n".join([lines[0] + ",noise", *(f"{line},{0.1 if k else 2.5}" for k, line in enumerate(lines[1:]))]))
    seen = read_survey(path, load_field_recipe(recipe))
    assert seen.noise[0] == 2.5 and (seen.noise[1:] == 0.1).all()
    assert main(["calibrate", str(recipe), "--survey", str(path), "--out", str(tmp_path / "out"), "--draws", "20", "--figure",
                 str(tmp_path / "field.pdf")]) == 0
    assert (tmp_path / "field.pdf").read_bytes().startswith(b"%PDF")
    assert load_ground(tmp_path / "out" / "ground.yaml").belief is not None
    assert "noise: 2.5" in (tmp_path / "out" / "ground.yaml").read_text()


def test_ranks_are_uniform(recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    out = tmp_path / "checked"
    assert main(["sbc", str(recipe), "--seeds", "50", "--draws", "40", "--out", str(out)]) == 0
    assert "field: passes, 50 replications" in capsys.readouterr().out
    results = json.loads((out / "results.json").read_text())
    assert set(results["stages"]["field"]["unknowns"]) == {"a0", "alpha_x", "sigma_f"} and results["places"] == 12
    assert (out / "sbc_field.png").is_file()
    # Again: all are there, whatever the block that they were in.
    assert main(["sbc", str(recipe), "--seeds", "50", "--draws", "40", "--out", str(out)]) == 0
    assert json.loads((out / "results.json").read_text())["stages"] == results["stages"]


def test_the_recipe_that_ships_is_valid() -> None:
    recipe = load_field_recipe("friction_field")
    assert set(recipe.unknowns) == {"a0", "alpha_x", "alpha_y", "gamma", "sigma_f", "sigma_n"} and recipe.places.shape == (40, 2)
    with pytest.raises(InputError, match=r"friction_field\.yaml: field: .*--survey"):
        load_recipe("friction_field")


@pytest.mark.parametrize(("old", "new", "message"), [
    ("ice: 0.1", "ice: 0.95", "ice: its friction 0.95 is not below"),
    ("ice: 0.1", "mud: 0.1", "field: unknown key 'mud'"),
    ("alpha_x: {prior", "alfa: {prior", "unknowns: unknown key 'alfa'"),
    ("alpha_x: {prior: log_normal, median: 6, log_sd: 0.6", "alpha_x: {prior: normal, mean: 6, sd: 1",
     "alpha_x: the prior reaches below 0"),
    ("alpha_x: {prior: log_normal, median: 6, log_sd: 0.6, unit: m", "gamma: {prior: uniform, lower: 0.5, upper: 2, unit: '1'",
     "gamma: the prior reaches below 1"),
    ("alpha_x: {prior: log_normal, median: 6, log_sd: 0.6, unit: m", "alpha_x: {prior: log_normal, median: 6, log_sd: 0.6, unit: s",
     "unknowns.alpha_x.unit: unit 's' does not fit"),
    ("alpha_y: {value: 300, unit: cm}", "alpha_x: {value: 3, unit: m}", "parameters.alpha_x: it is unknown as well"),
    ("value: 0.1,", "value: -0.1,", "sigma_n: -0.1 is below 0"),
    ("count: 12", "count: 3", "survey.count: expected a whole number of 8"),
    ("x: [0, 20]", "x: [20, 0]", "survey.x: 20 m is not below 0 m"),
    ("steps: 5", "stepps: 5", "sampler: unknown key 'stepps'"),
])
def test_what_is_wrong_with_a_recipe_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "wrong.yaml"
    assert old in RECIPE
    path.write_text(RECIPE.replace(old, new))
    with pytest.raises(InputError, match=message) as error:
        load_field_recipe(path)
    assert str(error.value).startswith(str(path))


@pytest.mark.parametrize(("text", "message"), [
    ("", "line 1: no column 'x'"), ("x,y,mu\n", "line 1: no column 'friction'"),
    ("x,y,friction,colour\n", "line 1: column 'colour' is unknown"), ("x,y,friction,x\n", "line 1: a column stands twice"),
    ("x,y,friction\n1,2\n", "line 2: 2 values for 3 columns"), ("x,y,friction\n\n1,2,wet\n", "line 3: friction: 'wet' is no number"),
    ("x,y,friction\n1,nan,0.5\n", "line 2: y: expected a finite number"), ("x,y,friction\n1,2,0.95\n", "line 2: friction: 0.95 is not"),
    ("x,y,friction,noise\n1,2,0.5,-1\n", "line 2: noise -1 is below 0"), ("x,y,friction\n1,2,0.5\n", "1 places; a field is inferred from"),
])
def test_what_is_wrong_with_a_survey_is_named(recipe: Path, tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "seen.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as error:
        read_survey(path, load_field_recipe(recipe))
    assert str(error.value).startswith(str(path))


@pytest.mark.parametrize(("arguments", "message"), [
    (["calibrate", "{recipe}", "--out", "out"], "--survey is missing"), (["calibrate", "{recipe}", "--survey", "x"], "--out is missing"),
    (["calibrate", "{recipe}", "--bag", "b"], "--bag: a recipe of a friction field has no use for it"),
    (["calibrate", "{recipe}", "--sampler", "nuts"], "--sampler: a recipe of a friction field"),
    (["calibrate", "{recipe}", "--survey", "none.csv", "--out", "out"], "none.csv: no such file"),
    (["calibrate", "hmmwv_demo", "--survey", "x"], "--survey: hmmwv_demo is no recipe of a friction field"),
    (["calibrate", "hmmwv_demo", "--out", "x"], "--bag BAG is missing"),
    (["sbc", "{recipe}", "--stage", "field", "--out", "out"], "--stage: a recipe of a friction field"),
    (["sbc", "hmmwv_demo", "--survey", "x", "--out", "out"], "--survey: the recipe is none of a friction field"),
])
def test_what_is_wrong_with_a_command_is_named(recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                               capsys: pytest.CaptureFixture, arguments: list[str], message: str) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([argument.format(recipe=recipe) for argument in arguments]) == 2
    assert message in capsys.readouterr().err
