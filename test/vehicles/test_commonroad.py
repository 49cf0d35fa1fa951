"""Vehicles of CommonRoad: its numbers in ours, and its single-track model as oracle of what they do."""

import numpy as np
import pytest

from lfdm_ros.backends import casadi_model
from lfdm_ros.cli.main import main
from lfdm_ros.errors import InputError
from lfdm_ros.simulation import Simulator
from lfdm_ros.vehicles import load_vehicle
from lfdm_ros.vehicles.commonroad import import_commonroad

# Vehicle 2 (BMW 320i) of the tables 6 and 7 of "CommonRoad: Vehicle Models".
VEHICLE = """
l: 4.508
w: 1.61
steering: {max: 1.066, min: -1.066, v_max: 0.4, v_min: -0.4}
m: 1093.2952334674046
m_s: 965.7108098804363
m_uf: 63.7921826056784
m_ur: 63.7921826056784
a: 1.1561957064
b: 1.4227170936
I_Phi_s: 207.26524557936952
I_y_s: 1565.8178787125541
I_z: 1791.5995300122856
I_xz_s: 0.0
K_sf: 24453.137879749014
K_sdf: 1786.2441002440723
K_sr: 19635.504745231297
K_sdr: 1649.0833034887382
T_f: 1.38684
T_r: 1.36398
K_tsf: -6914.881688272133
K_tsr: -2643.6009520155308
K_zt: 158294.1398119115
h_cg: 0.5748689544
h_raf: 0.0
h_rar: 0.0
h_s: 0.61373004
I_y_w: 1.7
R_w: 0.344
"""
TYRE = "tire: {p_dy1: 1.0489, p_ky1: -21.92, p_kx1: 22.303}\n"


@pytest.fixture
def files(tmp_path):
    (tmp_path / "bmw.yaml").write_text(VEHICLE)
    (tmp_path / "tyre.yaml").write_text(TYRE)
    return tmp_path / "bmw.yaml", tmp_path / "tyre.yaml"


def test_it_answers_as_the_single_track_model_of_commonroad(files):
    """`vehicle_dynamics_st` of commonroad-vehicle-models 3.0.2 at 20 m/s, vy 0.3 m/s, yaw rate 0.1 rad/s, wheels turned by 0.02 rad; it has
    all of the mass in one point, ours has that of the wheels at the axles."""
    vehicle = import_commonroad(*files)
    model = vehicle.model("linear_single_track")
    names = [f.name for f in model.states]
    x = [{"vx": 20.0, "vy": 0.3, "yaw_rate": 0.1}.get(name, 0.0) for name in names]
    slopes = np.array(casadi_model(model).rhs(x, [0.02 / 1.066, 0.0, 0.0], vehicle.vector(model))).ravel()
    assert slopes[names.index("yaw_rate")] == pytest.approx(0.5947165824611007, rel=0.02)
    assert slopes[names.index("vy")] == pytest.approx(-2.8529448342125043, rel=0.01)


def test_the_file_drives_as_larger_models_and_says_what_is_typical(files, tmp_path, capsys):
    out = tmp_path / "car.yaml"
    assert main(["vehicle", "commonroad", *map(str, files), "--out", str(out)]) == 0
    assert "typical" in capsys.readouterr().err
    vehicle = load_vehicle(out)
    assert vehicle.sources["yaw_inertia"].startswith("CommonRoad") and "rule" in vehicle.sources["brake_torque_front"]
    assert vehicle.parameters["steering_rate"] == pytest.approx(0.4 / 1.066)
    assert vehicle.footprint.front + vehicle.footprint.rear == pytest.approx(4.508)
    for model in ("eight_dof", "eighteen_dof"):
        simulator = Simulator(vehicle, model)
        simulator.reset(vx=15.0)
        simulator.advance([0.03, 0.2, 0.0], [0.03, 0.2, 0.0], 3000)
        outputs = dict(zip(simulator.output_names, simulator.outputs))
        assert 12.0 < outputs["vx"] < 25.0 and 0.05 < outputs["yaw_rate"] < 0.5


@pytest.mark.parametrize(("old", "new", "reason"), [
    ("m: 1093.2952334674046", "mass: 1", "lacks m"), ("a: 1.1561957064", "a: .nan", "bmw.yaml: a"),
    ("I_z: 1791.5995300122856", "I_z: -3", "yaw_inertia")])
def test_a_file_that_is_none_is_refused_by_file_and_key(old, new, reason, files):
    path, tyre = files
    path.write_text(path.read_text().replace(f"\n{old}\n", f"\n{new}\n"))
    with pytest.raises(InputError, match=reason):
        import_commonroad(path, tyre)
