"""Studies of priors and of bags: decisive priors and contradicting bags are found."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lfdm_lab.studies import variants
from lfdm_ros.bags import BagWriter
from lfdm_ros.calibration import load_recipe
from lfdm_ros.cli.main import main
from lfdm_ros.errors import InputError
from lfdm_ros.inference.priors import OUTSIDE, Prior
from lfdm_ros.scheduling import LocalScheduler
from lfdm_ros.simulation import InputProfile, Simulator
from lfdm_ros.vehicles import load_vehicle

RECIPE = """
model: linear_single_track
vehicle: hmmwv
step: {value: 10, unit: ms}
sampler: least_squares
draws: 100
chains: 2
stages:
  - name: lateral
    recording: "turn_*"
    window: [0.0, 3.0]
    nuisance:
      steering.delay: {prior: half_normal, sigma: 0.02, unit: s}
    parameters:
      cornering_stiffness_front: {prior: log_normal, median: 60, log_sd: 0.4, unit: kN/rad}
      cornering_stiffness_rear: {prior: uniform, lower: 20, upper: 120, unit: kN/rad}
    channels:
      vy: {noise: {prior: log_normal, median: 0.05, log_sd: 1.0, unit: m/s}}
      yaw_rate: {noise: {prior: log_normal, median: 0.02, log_sd: 1.0, unit: rad/s}}
"""
SPEED = 12.0
NAMES = ("cornering_stiffness_front", "cornering_stiffness_rear", "lateral.steering.delay")


def record(path: Path, front: float, seed: int) -> str:
    """A slalom of 3 s at constant speed, of a vehicle with this front cornering stiffness [N/rad], measured with noise."""
    times = 0.02 * np.arange(151)
    profile = InputProfile(np.array([0.0, 0.5, 1.0, 2.0, 3.0]), np.array([0.0, 0.2, -0.2, 0.2, -0.2]), np.zeros(5), np.zeros(5))
    vehicle = load_vehicle("hmmwv").replace(cornering_stiffness_front=front, cornering_stiffness_rear=70e3)
    simulator = Simulator(vehicle, model="linear_single_track", dt=0.01)
    simulator.reset(vx=SPEED)
    index, rng = simulator.output_index, np.random.default_rng(seed)
    inputs = profile.sample(times)
    names = ("x", "y", "yaw", "roll", "pitch", "vx", "vy", "ax", "ay", "roll_rate", "pitch_rate", "yaw_rate", "road_wheel_angle",
             "engine_speed")
    with BagWriter(path, recording=path.name, origin_ns=0) as bag:
        for k, (t, u) in enumerate(zip(times, inputs)):
            row = simulator.outputs
            noise = {"vy": rng.normal(0.0, 0.02 * (k > 0)), "yaw_rate": rng.normal(0.0, 0.01 * (k > 0))}
            stamp = round(t * 1e9)
            header = {"stamp": {"sec": stamp // 10**9, "nanosec": stamp % 10**9}, "frame_id": "odom"}
            state = {name: float(row[index[name]]) + noise.get(name, 0.0) if name in index else math.nan for name in names}
            forces = {f"tyre_force_{axis}": np.full(4, np.nan) for axis in "xyz"}
            bag.write("vehicle/state", "lfdm_ros/msg/VehicleState", stamp,
                      {"header": header, "child_frame_id": "base_link", **state, "wheel_speeds": np.full(4, np.nan), **forces, "gear": 1})
            bag.write("control/command", "lfdm_ros/msg/DriverCommand", stamp,
                      {"header": header, "steering": float(u[0]), "throttle": 0.0, "brake": 0.0})
            simulator.advance(u, u, 2)
    return str(path)


@pytest.fixture(scope="module")
def bags(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Two of one vehicle, one of a vehicle with softer front tyres."""
    folder = tmp_path_factory.mktemp("recorded")
    return {name: record(folder / name, front, seed) for name, front, seed in
            (("turn_a", 50e3, 1), ("turn_b", 50e3, 2), ("turn_soft", 40e3, 3))}


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "slalom.yaml"
    path.write_text(RECIPE)
    return path


def test_decisive_priors_are_distinguished_from_others(recipe: Path, bags: dict[str, str], tmp_path: Path,
                                                       capsys: pytest.CaptureFixture) -> None:
    # The data determine the rear stiffness to some percent; this prior is narrower, and wrong by 20 kN/rad.
    text = RECIPE.replace("{prior: uniform, lower: 20, upper: 120, unit: kN/rad}", "{prior: normal, mean: 50, sd: 1, unit: kN/rad}")
    recipe.write_text(text)
    out = tmp_path / "out"
    command = ["study", "priors", str(recipe), "--bag", bags["turn_a"], "--out", str(out)]
    assert main(command) == 0
    told = capsys.readouterr()
    assert "cornering_stiffness_rear: the prior decides: " in told.out and "priors: 7 of 7 calibrations" in told.err
    results = json.loads((out / "results.json").read_text())
    assert tuple(results["unknowns"]) == NAMES
    rear = results["unknowns"]["cornering_stiffness_rear"]
    assert rear["verdict"] == "prior" and [tried["factor"] for tried in rear["tried"]] == pytest.approx([2.0, 0.5], rel=1e-6)
    # With a wider prior the posterior moves towards the data.
    assert rear["tried"][0]["own_shift"] > 0.5 > 0.0 > rear["tried"][1]["own_shift"]
    assert (out / "priors.png").read_bytes().startswith(b"\x89PNG")
    # Repeated: nothing is calibrated again.
    assert main(command) == 0
    assert "priors: 0 of 7" not in capsys.readouterr().err


def test_priors_that_do_not_decide(recipe: Path, bags: dict[str, str], tmp_path: Path) -> None:
    recipe.write_text(RECIPE.replace("    nuisance:\n      steering.delay: {prior: half_normal, sigma: 0.02, unit: s}\n", ""))
    outcome = variants.study_priors(load_recipe(recipe), [bags["turn_a"], bags["turn_b"]], tmp_path / "out", scheduler=LocalScheduler())
    rows = outcome["unknowns"]
    assert tuple(rows) == NAMES[:2]
    for name in rows:
        assert rows[name]["verdict"] == "data", rows[name]["text"]
        assert max(abs(tried["shift"]) for tried in rows[name]["tried"]) < variants.INFLUENCE[0]


def test_half_of_a_range_that_excludes_the_posterior_is_not_assessed(recipe: Path, bags: dict[str, str],
                                                                     tmp_path: Path) -> None:
    front = "      cornering_stiffness_front: {prior: log_normal, median: 60, log_sd: 0.4, unit: kN/rad}\n"
    text = RECIPE.replace("lower: 20, upper: 120", "lower: 60, upper: 240").replace(front, "")
    recipe.write_text(text.replace("stages:", "parameters: {cornering_stiffness_front: {value: 50, unit: kN/rad}}\nstages:"))
    outcome = variants.study_priors(load_recipe(recipe), [bags["turn_a"], bags["turn_b"]], tmp_path / "out", scheduler=LocalScheduler())
    rear = outcome["unknowns"]["cornering_stiffness_rear"]
    wide, narrow = rear["tried"]
    assert wide["judged"] and not narrow["judged"] and ("error" in narrow or abs(narrow["own_shift"]) > 1.0)
    assert rear["verdict"] == "data", rear["text"]


@dataclass(frozen=True)
class Compared:
    """A comparison of all bags, stopped after two and resumed: a folder with the recipe and `out`, stored results, later progress."""

    folder: Path
    kept: dict[str, Any]
    seen: list[int]
    outcome: dict[str, Any]


@pytest.fixture(scope="module")
def compared(bags: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Compared:
    def stop(state: variants.StudyProgress) -> None:
        if state.done == 2:
            raise KeyboardInterrupt

    folder, seen = tmp_path_factory.mktemp("compared"), list[int]()
    (folder / "slalom.yaml").write_text(RECIPE)
    recipe, out = load_recipe(folder / "slalom.yaml"), folder / "out"
    with pytest.raises(KeyboardInterrupt):
        variants.study_bags(recipe, list(bags.values()), out, scheduler=LocalScheduler(), progress=stop)
    kept = json.loads((out / "results.json").read_text())
    outcome = variants.study_bags(recipe, list(bags.values()), out, scheduler=LocalScheduler(),
                                  progress=lambda state: seen.append(state.done))
    return Compared(folder, kept, seen, outcome)


def test_a_stopped_study_stores_finished_calibrations(compared: Compared) -> None:
    assert compared.kept["interrupted"] and set(compared.kept["unknowns"][NAMES[0]]["bags"]) == {"turn_a", "turn_b"}
    assert compared.seen == [2, 3] and not compared.outcome["interrupted"]


def test_bags_of_one_vehicle_agree_and_those_of_another_contradict(compared: Compared, bags: dict[str, str],
                                                                   capsys: pytest.CaptureFixture) -> None:
    command = ["study", "bags", str(compared.folder / "slalom.yaml"), "--out", str(compared.folder / "out")]
    command += ["--bag", bags["turn_a"], "--bag", bags["turn_b"]]
    assert main(command) == 0
    rows = json.loads((compared.folder / "out" / "results.json").read_text())["unknowns"]
    assert [row["apart"] for row in rows.values()] == [[], [], []]
    front = rows["cornering_stiffness_front"]
    assert abs(front["mean"] - 50e3) < 4.0 * front["sd"] < 6e3
    capsys.readouterr()
    assert main([*command, "--bag", bags["turn_soft"]]) == 1
    assert "cornering_stiffness_front: turn_soft contradicts the others" in capsys.readouterr().out
    results = json.loads((compared.folder / "out" / "results.json").read_text())
    assert results["unknowns"]["cornering_stiffness_front"]["apart"] == ["turn_soft"]
    assert results["unknowns"]["cornering_stiffness_front"]["bags"]["turn_a"] == front["bags"]["turn_a"]
    assert results["unknowns"]["cornering_stiffness_rear"]["apart"] == []
    assert (compared.folder / "out" / "bags.png").read_bytes().startswith(b"\x89PNG")


def test_unused_bags_are_left_out_and_named(recipe: Path, bags: dict[str, str], tmp_path: Path) -> None:
    recipe.write_text(RECIPE.replace('"turn_*"', "[turn_a, turn_b]"))
    outcome = variants.study_bags(load_recipe(recipe), list(bags.values()), tmp_path / "out", scheduler=LocalScheduler())
    assert "turn_soft" in outcome["left_out"] and set(outcome["unknowns"][NAMES[0]]["bags"]) == {"turn_a", "turn_b"}
    with pytest.raises(InputError, match=r"at least 2 bags are needed .*, found 1; turn_soft: recording 'turn_soft' is not what"):
        variants.study_bags(load_recipe(recipe), [bags["turn_a"], bags["turn_soft"]], tmp_path / "out", scheduler=LocalScheduler())


def test_recordings_that_are_needed_together_cannot_be_compared(recipe: Path, bags: dict[str, str], tmp_path: Path) -> None:
    joint = "segments: [{name: one, recording: turn_a}, {name: two, recording: turn_soft}]"
    recipe.write_text(RECIPE.replace('recording: "turn_*"', joint))
    with pytest.raises(InputError, match="a calibration needs turn_a and turn_soft together, which no bag holds alone"):
        variants.study_bags(load_recipe(recipe), list(bags.values()), tmp_path / "out", scheduler=LocalScheduler())


@pytest.mark.parametrize(("kind", "numbers"), [
    ("uniform", {"lower": 2.0, "upper": 4.0}), ("normal", {"mean": 3.0, "sd": 0.4}), ("log_normal", {"median": 3.0, "log_sd": 0.05}),
    ("half_normal", {"sigma": 0.5}), ("truncated_normal", {"mean": 3.0, "sd": 0.4, "lower": 0.0})])
def test_a_prior_is_scaled_about_its_place_and_stays_in_range(kind: str, numbers: dict[str, float]) -> None:
    prior = Prior(kind, tuple(numbers.items()), "m")
    for factor in (0.5, 2.0):
        other = prior.scaled(factor)
        assert other.kind == kind and other.width() == pytest.approx(factor * prior.width(), rel=1e-3)
        if kind != "half_normal":
            assert other.frozen().median() == pytest.approx(prior.frozen().median(), rel=1e-3)
    wide = prior.scaled(4.0, 0.0, 4.5).frozen()
    assert wide.cdf(0.0) + wide.sf(4.5) <= 1.01 * OUTSIDE and wide.std() >= prior.frozen().std()
    assert prior.scaled(0.5, 0.0, 4.5) == prior.scaled(0.5)


@pytest.mark.parametrize(("prior_sd", "prior_mean", "verdict", "text"), [
    (10.0, 0.5, "data", "the data decide"), (2.5, 0.0, "both", "the prior has a say: half as wide a prior makes its posterior 0.84 times"),
    (0.1, 0.0, "prior", "the prior decides: half as wide a prior makes its posterior 0.50 times as wide"),
    (3.0, 9.0, "prior", "the prior decides: half as wide a prior moves it by 2 sd")])
def test_the_verdict_on_posteriors_that_are_known_exactly(prior_sd: float, prior_mean: float, verdict: str, text: str) -> None:
    def posterior(sd: float) -> dict[str, dict[str, float]]:  # the data say 0 with standard deviation 1
        variance = 1.0 / (1.0 + sd**-2.0)
        return {"a": {"mean": variance * prior_mean / sd**2, "sd": math.sqrt(variance), "sd_over_prior_sd": math.sqrt(variance) / sd,
                      "mcse": 0.0}}

    prior = Prior("normal", (("mean", prior_mean), ("sd", prior_sd)), "m")
    row = variants.sensitivity_of("a", prior, posterior(prior_sd), {f: {"unknowns": posterior(f * prior_sd)} for f in variants.FACTORS},
                                {f: prior.scaled(f) for f in variants.FACTORS})
    assert row["verdict"] == verdict and row["text"].startswith(text), row["text"]
