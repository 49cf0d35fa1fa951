"""The demo, with few draws: the whole way from the graph to the report."""

import contextlib
import io
import json
import shutil
from pathlib import Path

import numpy as np
import pictures
import pytest

from lfdm_ros.bags import read_series
from lfdm_ros.cli import demo as demos
from lfdm_ros.cli.main import main
from lfdm_ros.stacks import compose
from lfdm_ros.vehicles import load_vehicle


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    out = tmp_path_factory.mktemp("demo") / "result"
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as printed, pictures.left_out():
        patch.setattr(demos, "MAX_DURATION", 2.0)
        # With 30 draws one seed in eight has a chain that is lost among the nine unknowns of the last stage.
        assert main(["demo", "--out", str(out), "--draws", "60", "--chains", "2", "--seed", "4"]) == 0
    return out, printed.getvalue()


def test_the_truth_is_found(demo: tuple[Path, str]) -> None:
    out, text = demo
    hidden = load_vehicle(out / "hidden_vehicle.yaml").parameters
    found = load_vehicle(out / "calibration" / "vehicle.yaml").parameters
    for name in ("cornering_stiffness_front", "cornering_stiffness_rear", "longitudinal_stiffness_front", "rolling_resistance"):
        assert found[name] == pytest.approx(hidden[name], rel=0.05)
        assert name in text
    before, after = (json.loads((out / folder / "summary.json").read_text())["rmse"]
                     for folder in ("prediction_uncalibrated", "prediction"))
    assert after["yaw_rate"]["posterior"] < before["yaw_rate"]["posterior"]
    assert after["yaw_rate"]["posterior"] == pytest.approx(0.02, rel=0.1)  # the noise itself
    assert (out / "demo.png").stat().st_size > 10_000 and (out / "calibration" / "report.html").is_file()


def test_the_vehicle_is_shared_before_and_after(demo: tuple[Path, str]) -> None:
    out, text = demo
    before, after = (demos.read(name, out / "recordings" / f"shared_{name}", {}) for name in (demos.BEFORE, demos.AFTER))
    assert before.posterior == 0 and after.posterior == 1
    for drive in (before, after):
        assert drive.times[-1] == pytest.approx(2.0, abs=0.05) and np.nanmax(drive.risk) <= 1.0 and drive.k[0] == 1.0
        assert drive.x[-1] > 20.0 and np.isfinite(drive.risk[100:]).all()
    assert "does not arrive" in text and "version 1" in text and (out / "shared.png").stat().st_size > 10_000


def test_the_sensor_adds_its_noise_and_nothing_else(demo: tuple[Path, str]) -> None:
    bag = demo[0] / "recordings" / "ramp_steer"
    fields = ["vx", "yaw_rate", "wheel_speeds[2]", "x"]
    true, measured = (read_series(bag, topic, fields) for topic in ("vehicle/state", "measured/state"))
    assert len(true.time) == len(measured.time) == 801 and (true.time == measured.time).all()
    error = measured.values - true.values
    np.testing.assert_allclose(error[:, :3].std(axis=0), [0.1, 0.02, 1.0], rtol=0.1)
    np.testing.assert_allclose(error[:, :3].mean(axis=0) / [0.1, 0.02, 1.0], 0.0, atol=4 / np.sqrt(801))
    assert np.isnan(measured.values[:, 3]).all()  # no noise declared: not measured


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    assert main(["demo", "--out", str(tmp_path)]) == 2
    assert "not empty" in capsys.readouterr().err and (tmp_path / "thesis.txt").read_text() == "precious"


@pytest.mark.parametrize(("reason", "status"), [("interrupted", 130), ("terminated", 143), ("ran 1 s", 2)])
def test_a_drive_that_a_signal_ends_is_no_lost_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str, status: int) -> None:
    def run_stack(*args: object, **options: object) -> dict[str, object]:
        return {"reason": reason, "scenario_finished": False, "messages_dropped": 0}

    monkeypatch.setattr(compose, "run_stack", run_stack)
    assert main(["demo", "--out", str(tmp_path / "demo")]) == status


def test_the_bags_alone_for_a_first_calibration_by_hand(demo: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                        capfd: pytest.CaptureFixture[str]) -> None:
    """As docs/howto/commands.md has it: bags to fit and to hold out, and the commands that follow; `--check` knows all it needs."""
    def take(scenario: str, vehicle: Path, bag: Path, seed: int) -> dict[str, float]:
        """The drives of the whole demo; those of this option are driven in test_wheel.py."""
        shutil.copytree(demo[0] / "recordings" / scenario, bag)
        return dict.fromkeys(("simulated_seconds", "wall_seconds", "speed_factor", "messages_recorded"), 1.0)

    monkeypatch.setattr(demos, "record_drive", take)
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--record-only", "drives"]) == 0
    shown = capfd.readouterr().out
    assert sorted(path.name for path in Path("drives/training").iterdir()) == ["coast_down", "ramp_steer", "straight_acceleration"]
    assert [path.name for path in Path("drives/test").iterdir()] == ["sine_steer"] and Path("drives/hidden_vehicle.yaml").is_file()
    check = next(line for line in shown.splitlines() if line.endswith("--check"))
    assert main(check.split()[1:]) == 0
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("kept")
    assert main(["demo", "--record-only", "mine"]) == 2
    assert "mine is not empty and not of an earlier demo" in capfd.readouterr().err
    assert (tmp_path / "mine" / "notes.txt").read_text() == "kept"
