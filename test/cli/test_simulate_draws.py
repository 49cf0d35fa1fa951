"""`lfdm simulate --draws`: quantiles of vehicles from a posterior, and what is refused."""

import csv
from pathlib import Path

import numpy as np
import pytest

from lfdm_ros.calibration import source
from lfdm_ros.cli.main import main
from lfdm_ros.cli.plot import draw, read
from lfdm_ros.vehicles import load_vehicle, save_vehicle

VEHICLE = load_vehicle("hmmwv")


@pytest.fixture
def result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A vehicle, the inputs of a drive, and beside them a posterior of its mass."""
    save_vehicle(VEHICLE, tmp_path / "vehicle.yaml")
    (tmp_path / "inputs.txt").write_text("0 0 0.5 0\n2 0.1 0.5 0\n")
    mass = VEHICLE.parameters["sprung_mass"] * np.random.default_rng(2).normal(1.0, 0.05, 400)
    monkeypatch.setattr(source, "posterior_parameters", lambda *_: {"sprung_mass": mass})
    return tmp_path


def simulate(folder: Path, *more: str) -> int:
    return main(["simulate", "--vehicle", str(folder / "vehicle.yaml"), "--inputs", str(folder / "inputs.txt"),
                 "--out", str(folder / "out.csv"), "--output-step", "0.1", *more])


def test_quantiles_over_time(result: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In order at every time, around the vehicle itself; more draws than the posterior has come with replacement."""
    assert simulate(result, "--draws", "1000") == 0
    assert "quantiles of 1000 vehicles" in capsys.readouterr().err
    rows = list(csv.DictReader((result / "out.csv").open()))
    assert len(rows) == 21 and float(rows[-1]["time"]) == 2.0
    low, middle, high = (np.array([float(row[f"vx_q{q}"]) for row in rows]) for q in ("05", "50", "95"))
    assert (low[1:] < middle[1:]).all() and (middle[1:] < high[1:]).all()
    trace = read(result / "out.csv", ("vx",), True)["vx"]  # as `lfdm plot` draws it
    assert trace.band is not None and (trace.band == [low, high]).all() and (trace.value == middle).all()
    assert len(draw({"run": {"vx": trace}}, ["vx"], from_above=False).axes[0].collections) == 1
    assert simulate(result) == 0
    alone = float(list(csv.DictReader((result / "out.csv").open()))[-1]["vx"])
    assert middle[-1] == pytest.approx(alone, rel=0.02)


def test_the_seed_decides(result: Path) -> None:
    texts = []
    for seed in ("1", "1", "2"):
        assert simulate(result, "--draws", "50", "--seed", seed) == 0
        texts.append((result / "out.csv").read_text())
    assert texts[0] == texts[1] != texts[2]


def test_where_it_runs_is_chosen(result: Path, gpu) -> None:
    """The GPU's result is the processor's to the digits of the file but the last."""
    tables = []
    for backend in ("cpu", "gpu"):
        assert simulate(result, "--draws", "300", "--backend", backend) == 0
        tables.append(np.loadtxt(result / "out.csv", delimiter=",", skiprows=1))
    np.testing.assert_allclose(*tables, rtol=1e-7, atol=1e-9)
    assert gpu.counts()["launches"] >= 1


@pytest.mark.parametrize(("more", "reason"), [
    (("--draws", "0"), "--draws 0: give 1 to"),
    (("--backend", "cpu"), "--scheduler and --backend are for many vehicles; give --draws N, too"),
    (("--draws", "5", "--backend", "abacus"), "--backend: back end 'abacus' is unknown"),
])
def test_it_says_why_not(result: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, ...], reason: str) -> None:
    assert simulate(result, *more) == 2
    assert reason in capsys.readouterr().err


def test_a_vehicle_that_is_no_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_vehicle(VEHICLE, tmp_path / "vehicle.yaml")
    (tmp_path / "inputs.txt").write_text("0 0 0.5 0\n2 0.1 0.5 0\n")
    assert simulate(tmp_path, "--draws", "5") == 2
    assert "is not the result of a calibration (no summary.json beside it)" in capsys.readouterr().err


def test_where_nothing_is_finite_it_fails(result: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(source, "posterior_parameters", lambda *_: {"sprung_mass": np.full(10, np.nan)})
    assert simulate(result, "--draws", "10") == 2
    assert "all 10 runs diverged" in capsys.readouterr().err
    assert not (result / "out.csv").exists()
