"""The HMMWV of paper 000 against an independent implementation and sampler (least squares with Laplace widths on the same data)."""

import pictures
import pytest

from lfdm_ros.calibration import calibrate, load_recipe

# mean, sd: b_phi is the total; the last stage holds 0.0175 m in the others.
REFERENCE = {
    "longitudinal_stiffness_front": (10266, 92), "longitudinal_stiffness_rear": (10006, 96), "cornering_stiffness_front": (43314, 270),
    "cornering_stiffness_rear": (52114, 210), "roll_stiffness_front": (34634, 430), "roll_stiffness_rear": (27408, 400),
    "roll_damping": (7346, 300), "rolling_resistance": (0.01309, 0.00008)}
# Mean RMSE against the noisy arrays; the noise itself is nearly all of it.
LARGEST_RMSE = {"vx": 0.205, "omega_fl": 0.86, "omega_rl": 0.90, "vy": 0.038, "roll": 0.0034, "roll_rate": 0.0028, "yaw_rate": 0.0148,
                "rolling_resistance/vx": 0.0885}


@pytest.fixture(scope="module")
def paper(hmmwv, tmp_path_factory):
    """The three stages of the paper with a sixteenth of the particles."""
    with pictures.left_out():
        return calibrate(load_recipe("hmmwv_paper"), hmmwv, tmp_path_factory.mktemp("paper"), draws=250, chains=2)


@pytest.fixture(scope="module")
def paper_quick(hmmwv, tmp_path_factory):
    """The three stages of the paper by least squares: directory and summary."""
    out = tmp_path_factory.mktemp("paper_quick")
    with pictures.left_out():
        return out, calibrate(load_recipe("hmmwv_paper"), hmmwv, out, sampler="least_squares", draws=500, chains=2)


def test_parameters_of_the_paper_setting(paper):
    rows = {name: row for stage in paper["stages"] for name, row in stage["parameters"].items()}
    for name, (mean, sd) in REFERENCE.items():
        assert rows[name]["mean"] == pytest.approx(mean, rel=0.06 if name == "roll_damping" else 0.02), name
        assert rows[name]["sd"] == pytest.approx(sd, rel=0.25), name
    assert max(row["r_hat"] for stage in paper["stages"] for row in stage["parameters"].values()) < 1.02


def test_responses_of_the_paper_setting(paper):
    assert set(paper["rmse"]) == set(LARGEST_RMSE)
    for channel, limit in LARGEST_RMSE.items():
        assert paper["rmse"][channel]["posterior"] <= limit, channel
        assert paper["rmse"][channel]["prior"] > 1.5 * limit, channel


def test_what_the_model_misses_is_said(paper):
    assert any("residuals of roll_rate are not white" in warning for warning in paper["warnings"])


def test_least_squares_of_the_paper_setting(paper_quick):
    """Our least squares against the independent one, which took the same data, optimum and widths."""
    _, summary = paper_quick
    rows = {name: row for stage in summary["stages"] for name, row in stage["parameters"].items()}
    optimum = {name: value for stage in summary["stages"] for name, value in stage["objective"]["optimum_at"].items()}
    for name, (mean, sd) in REFERENCE.items():
        assert optimum[name] == pytest.approx(mean, rel=0.06 if name == "roll_damping" else 0.02), name
        assert rows[name]["sd"] == pytest.approx(sd, rel=0.15), name
    for channel, limit in LARGEST_RMSE.items():
        assert summary["rmse"][channel]["posterior"] <= limit, channel


def test_the_papers_setting_is_shown_to_be_worse(paper_quick):
    out, summary = paper_quick
    own, together = summary["consistency"]["longitudinal/vx"].values()
    assert own == pytest.approx(0.202, abs=0.002)
    assert together == pytest.approx(0.341, abs=0.005)
    rows = summary["recordings_alone"]["rolling_resistance"]
    assert rows["longitudinal/acc"]["estimate"] == pytest.approx(0.0171, abs=0.0002)
    assert rows["rolling_resistance/rr_1"]["estimate"] == pytest.approx(0.0131, abs=0.0002)
    text = "\n".join(summary["warnings"])
    assert "longitudinal: the final vehicle, put back, fits worse (vx RMSE 0.34 instead of 0.202" in text
    assert "rolling_resistance: longitudinal/acc alone says 0.0171" in text
    assert not summary["stages"][1]["errors"]["roll_rate"]["white"]
    page = (out / "report.html").read_text()
    assert "Do stages and recordings agree with each other?" in page
