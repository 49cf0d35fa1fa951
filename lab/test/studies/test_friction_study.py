"""The study of uncertain friction: few samples, the behaviour of the paper's figures, and the files of the command."""

import json

import numpy as np
import pytest

from lfdm_lab.studies import friction
from lfdm_lab.studies.friction import MANOEUVRES, Item, items, rows, tables, work
from lfdm_ros.cli.main import main


@pytest.fixture(scope="module")
def strip():
    return work(Item("drive", "ice_strip", 3.0, 4.0, 60))


def test_steering_is_a_step_or_a_ramp():
    times = np.array([0.0, 0.5, 0.6, 1.5, 60.0])
    np.testing.assert_allclose(np.degrees(MANOEUVRES["step"].steering(times)), [0.0, 0.0, 1.0, 1.0, 1.0])
    np.testing.assert_allclose(np.degrees(MANOEUVRES["ramp"].steering(times)), [0.0, 0.0, 0.25, 2.5, 10.0])


def test_ice_reduces_the_yaw_rate(strip):
    """On constant friction the yaw rate is about 0.2 rad/s; nearly all samples leave that on the observed strip at 2 s."""
    t, plain = np.array(strip["time"]), np.array(strip["yaw_rate_plain"])
    samples = np.array(strip["yaw_rate_samples"])
    before, after = (t > 0.95) & (t < 1.65), (t > 1.95) & (t < 2.65)
    assert plain[after].mean() == pytest.approx(0.22, abs=0.03)
    away = np.abs(samples - plain)
    assert (away[:, after].max(axis=1) > 0.03).mean() > 0.9
    assert away[:, after].max(axis=1).mean() > 1.5 * away[:, before].max(axis=1).mean()


def test_uncertainty_grows_along_the_path():
    """Observations reduce it."""
    seen, blind = (work(Item("drive", "step", 3.0, spacing, 60)) for spacing in (2.0, None))
    for run in (seen, blind):
        sd = np.array(run["position_sd"])
        assert sd[-1] > sd[len(sd) // 2] > sd[len(sd) // 5]
    assert seen["position_sd"][-1] < 0.8 * blind["position_sd"][-1]
    assert max(seen["way_sd"]) < 0.6 and blind["way_sd"] == pytest.approx([1.0] * len(blind["way_sd"]))
    assert seen["observations"] > 100 and blind["observations"] == 0 and seen["outside"] == 0.0


def test_trajectories_converge_with_the_nodes():
    """A quarter of the nodes, more than four times the error, from several nodes a patch on."""
    found = work(Item("convergence", samples=6))
    error = found["error"]
    assert found["per_patch"] == [8.0, 4.0, 2.0, 1.0]
    assert error[0] < 0.25 * error[1] < 0.1 * error[2] and error[3] > error[2]


def test_a_table_with_intervals(strip):
    found = [strip, work(Item("drive", "sharp_step", 3.0, None, 60))]
    (first, second) = rows(found)
    assert first["patch_length_m"] == 3.0 and first["samples"] == 60 and first["yaw_rate_sd_max"] > 0.0
    low, high = second["interval"]
    assert low <= second["spin_out_probability"] == found[1]["spins"] / 60 <= high and high - low > 0.01
    texts = tables(found)
    assert len(texts) == 1 and texts[0][1][1][2] == "none"
    assert len(items(200)) == len(set(items(200))) == 29


def test_the_command_writes_results_and_resumes(tmp_path, monkeypatch, capsys):
    chosen = [Item("drive", "step", 3.0, 4.0, 20), Item("drive", "step", 1.0, 4.0, 20)]
    monkeypatch.setattr(friction, "items", lambda samples, vehicle: chosen)
    assert main(["study", "friction", "--seeds", "20", "--out", str(tmp_path)]) == 0
    assert "| step " in capsys.readouterr().out
    written = json.loads((tmp_path / "results.json").read_text())
    assert {"patch_length_m", "samples", "spin_out_probability", "interval", "yaw_rate_sd_max"} <= written["rows"][0].keys()
    assert len(written["rows"]) == 2
    kept = (tmp_path / "runs.jsonl").read_bytes()
    assert main(["study", "friction", "--seeds", "20", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "runs.jsonl").read_bytes() == kept  # nothing was driven again
