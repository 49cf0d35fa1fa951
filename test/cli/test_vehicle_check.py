"""`lfdm vehicle check` as a user runs it, on a suspension whose figures are known."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from lfdm_ros.backends import ARRAYS
from lfdm_ros.cli.main import main
from lfdm_ros.models.double_wishbone import DoubleWishbone
from lfdm_ros.models.vectors import ZERO, Vector
from lfdm_ros.simulation.suspension import Suspension
from lfdm_ros.vehicles import load_vehicle, save_vehicle

HMMWV = load_vehicle("hmmwv_multibody")
WITHOUT_STOPS = HMMWV.replace(**{f"stop_force_{axle}_{i}": 0.0 for axle in ("front", "rear") for i in range(12)})


def test_json_has_the_contracts_keys_and_the_references_figures(capsys):
    assert main(["vehicle", "check", "hmmwv_multibody", "--json", "--travel=-100:100:50"]) == 0
    found = json.loads(capsys.readouterr().out)
    for axle, ratio in (("front", 0.452), ("rear", 0.439)):
        rows = {round(row["travel_mm"]): row for row in found[axle]}
        assert list(rows) == [-100, -50, 0, 50, 100]
        assert all({"travel_mm", "dy_mm", "camber_deg", "toe_in_deg", "motion_ratio"} <= row.keys() for row in rows.values())
        assert rows[0]["motion_ratio"] == pytest.approx(ratio, abs=5e-4)
        assert rows[50]["camber_deg"] < rows[0]["camber_deg"] == pytest.approx(0.0, abs=1e-9)
    assert found["out_of_reach"] == [] and found["static"]["front"]["travel_mm"] == pytest.approx(-102.2, abs=0.1)
    left, right = (found["steering"][-1][f"{side}_deg"] for side in ("left", "right"))
    assert left > right > 20.0  # turning left the inner wheel turns more
    assert 0.5 * np.radians(left + right) == pytest.approx(HMMWV.parameters["max_road_wheel_angle"], abs=1e-4)


def test_wheel_rates_and_ride_frequencies_are_those_of_the_reference():
    """Without stops, as the reference has them: 99 and 128 kN/m, 2.1 and 2.5 Hz."""
    static = Suspension(WITHOUT_STOPS).standing()
    assert [static[axle]["wheel_rate_n_per_m"] for axle in ("front", "rear")] == pytest.approx([99e3, 128e3], abs=600.0)
    assert [static[axle]["ride_frequency_hz"] for axle in ("front", "rear")] == pytest.approx([2.1, 2.5], abs=0.06)
    # The rear's stop holds it up, and stiffens it.
    assert Suspension(HMMWV).standing()["rear"]["wheel_rate_n_per_m"] > 140e3


@pytest.mark.parametrize("axle", ["front", "rear"])
def test_the_force_at_the_wheel_does_the_springs_work(axle):
    """Between two travels, without stops: the integral of the one is the integral of the spring's table."""
    p, suspension = WITHOUT_STOPS.parameters, Suspension(WITHOUT_STOPS)
    travel = np.linspace(-0.08, 0.06, 2001)
    at = suspension.of_travel(axle, travel)
    assert at.travel == pytest.approx(travel, abs=1e-12)
    work = np.trapezoid(at.force, travel)
    # The spring's length from its ends: the lower one turns with the arm.
    length = []
    for angle in at.angle[[0, -1]]:
        fore, aft, lower, upper = (np.array([p[f"{name}_{axle}_{c}"] for c in "xyz"]) for name in (
            "lower_arm_fore", "lower_arm_aft", "spring_lower", "spring_upper"))
        turn = Rotation.from_rotvec(angle * (fore - aft) / np.linalg.norm(fore - aft))
        length.append(np.linalg.norm(fore + turn.apply(lower - fore) - upper))
    table = [[p[f"spring_{column}_{axle}_{i}"] for i in range(24)] for column in ("compression", "force")]
    compression = np.linspace(*(p[f"spring_free_length_{axle}"] - value for value in length), 20001)
    assert work == pytest.approx(np.trapezoid(np.interp(compression, *table), compression), rel=1e-6)


@pytest.mark.parametrize("axle", ["front", "rear"])
def test_roll_centre_dive_and_squat_follow_from_poses_nearby(axle):
    """The ways of the contact point and of the wheel's centre between two poses, a point of the upright being carried along."""
    suspension, step, radius = Suspension(HMMWV), 1e-5, 0.459
    found = suspension.standing()[axle]
    angle = float(suspension.of_travel(axle, [1e-3 * found["travel_mm"]]).angle[0])
    at = suspension.instant(axle, angle, radius)
    wishbone = DoubleWishbone(ARRAYS)
    q = wishbone.prepare(SimpleNamespace(**HMMWV.parameters), axle, True, ZERO)
    now, before, after = (wishbone.pose(q, np.cos(a), np.sin(a), ZERO) for a in (angle, angle - step, angle + step))
    axis = np.array(now.axis.components)
    down = np.array([0.0, 0.0, -1.0]) + axis * axis[2]
    contact = now.wheel + Vector(*(radius * down / np.linalg.norm(down)))
    ways = []
    for point in (contact, now.wheel):
        carried = now.basis.into(point - now.lower)
        ways.append(np.array((after.lower + after.basis.out(carried) - before.lower - before.basis.out(carried)).components))
    assert at.roll_centre == pytest.approx(contact.y * ways[0][1] / ways[0][2], rel=1e-6) and 0.3 < at.roll_centre < 0.5
    assert at.braked == pytest.approx(ways[0][0] / ways[0][2], rel=1e-6)
    assert at.driven == pytest.approx(ways[1][0] / ways[1][2], rel=1e-5)
    assert found["roll_centre_height_m"] == pytest.approx(at.roll_centre, abs=1e-3)
    share = found["anti_dive_percent" if axle == "front" else "anti_lift_braking_percent"]
    base = HMMWV.parameters["cg_to_front_axle"] + HMMWV.parameters["cg_to_rear_axle"]
    assert share == pytest.approx((1 if axle == "front" else -1) * 50.0 * at.braked * base / 0.80466, abs=0.05)


def test_what_is_out_of_reach_is_said_with_its_place(capsys, tmp_path):
    assert main(["vehicle", "check", "hmmwv_multibody", "--travel=-250:0:125"]) == 0
    out = capsys.readouterr().out
    assert "front left and right: a travel of -250 mm is out of reach, which ends at -184.4 mm" in out
    assert "rear left and right: a travel of -250 mm is out of reach, which ends at -203.1 mm" in out
    save_vehicle(HMMWV.replace(pitman_arm_length=0.5, pitman_arm_lock=-1.2), tmp_path / "bent.yaml")
    assert main(["vehicle", "check", str(tmp_path / "bent.yaml"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert any("steering 1 is out of reach of the tie rod" in line for line in found["out_of_reach"])
    assert None in found["steering"][-1].values()
    # A run that comes there says so, too.
    (tmp_path / "inputs.txt").write_text("0 0 0 0\n0.5 1 0 0\n1 1 0 0\n")
    assert main(["simulate", "--vehicle", str(tmp_path / "bent.yaml"), "--model", "multibody_hmmwv", "--inputs",
                 str(tmp_path / "inputs.txt"), "--initial-speed", "5", "--until", "1", "--out", str(tmp_path / "run.csv")]) == 2
    assert "the front left wheel is out of the reach of its linkage at t = 0.2" in capsys.readouterr().err


def test_a_vehicle_that_stands_nowhere_is_told(capsys, tmp_path):
    weak = {f"{table}_force_{axle}_{i}": 0.0 for table, count in (("spring", 24), ("stop", 12))
            for axle in ("front", "rear") for i in range(count)}
    save_vehicle(HMMWV.replace(**weak), tmp_path / "weak.yaml")
    assert main(["vehicle", "check", str(tmp_path / "weak.yaml")]) == 0
    assert "finds no rest" in capsys.readouterr().out


def test_it_draws(tmp_path, capsys):
    assert main(["vehicle", "check", "hmmwv_multibody", "--figure", str(tmp_path / "travel.png")]) == 0
    assert (tmp_path / "travel.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert "all of it is within reach" in capsys.readouterr().out


@pytest.mark.parametrize(("arguments", "words"), [
    (["hmmwv"], "'hmmwv' has no suspension to check"), (["hmmwv_multibody", "--travel", "1:2"], "--travel 1:2: write FROM:TO:STEP"),
    (["hmmwv_multibody", "--travel", "0:1:0"], "--travel 0:1:0"), (["hmmwv_multibody", "--travel=nan:1:1"], "--travel nan:1:1"),
    (["hmmwv_multibody", "--figure", "nowhere/a.png"], "--figure nowhere/a.png"),
])
def test_bad_use_exits_2_with_one_line(capsys, arguments, words):
    assert main(["vehicle", "check", *arguments]) == 2
    error = capsys.readouterr().err.strip()
    assert words in error and "\n" not in error
