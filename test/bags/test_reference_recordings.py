"""The mappings that ship with the package, against figures that are known of the recordings (their PROVENANCE.md)."""

import shutil

import numpy as np
import pytest

from lfdm_ros.bags import bag_info, import_recording, read_series
from lfdm_ros.bags.mapping import load_mapping
from lfdm_ros.errors import InputError
from lfdm_ros.resources import find_config, share_directory

STATE, MEASURED, COMMAND = "vehicle/state", "measured/state", "control/command"
WHEELS = [f"wheel_speeds[{i}]" for i in range(4)]
HMMWV_RADIUS = 0.47  # m


@pytest.fixture(scope="module")
def imported(reference_data, tmp_path_factory):
    """Imports a recording once; returns the bag."""
    folder, done = tmp_path_factory.mktemp("bags"), {}

    def run(mapping, source):
        if source not in done:
            done[source] = folder / f"bag{len(done)}"
            if not (reference_data / source).exists():
                pytest.skip(f"no {source} in the reference data")
            import_recording(reference_data / source, find_config("recordings", mapping), done[source])
        return done[source]

    return run


def correlation(a, b):
    both = np.isfinite(a) & np.isfinite(b)
    return np.corrcoef(a[both], b[both])[0, 1]


def slope(a, b):
    return np.polyfit(b, a, 1)[0]


def test_every_mapping_that_ships_is_valid():
    names = sorted(p.stem for p in (share_directory() / "config" / "recordings").glob("*.yaml"))
    assert names == ["berkeley_genesis", "berkeley_genesis_path", "comma2k19", "dart", "iac_av21", "rhode", "sbel_hmmwv"]
    for name in names:
        load_mapping(find_config("recordings", name))


# --- Recordings that are not here: their columns, as they are published -------------------------------------------------------------

AV21 = ("# time(s),x(m),y(m),vx(m/s),vy(m/s),phi(rad),delta(rad),omega(rad/s),ax(m/s^2),deltadelta(rad/s),wheel_fl(kmph),wheel_fr(kmph),"
        "wheel_rl(kmph),wheel_rr(kmph),roll(rad),throttle_ped_cmd(%),brake_ped_cmd(kPa)")


def test_av21_columns(tmp_path):
    rows = ["1692117187.46,1,2,20,0.5,3.1,0.02,0.1,0.3,0,72,72,73,73,0.9,25,0",
            "1692117187.50,2,2,20,0.5,-3.1,0.02,0.1,0.3,0,72,72,73,73,0.9,0,1379"]
    (tmp_path / "run.csv").write_text("\n".join([AV21, *rows]) + "\n")
    import_recording(tmp_path / "run.csv", find_config("recordings", "iac_av21"), tmp_path / "bag")
    state = read_series(tmp_path / "bag", STATE, ["vx", "vy", "yaw", "yaw_rate", "road_wheel_angle", "wheel_speeds[2]"])
    np.testing.assert_allclose(state.time, [0.0, 0.04], atol=1e-6)
    np.testing.assert_allclose(state.values[1], [20.0, 0.5 - 0.079, 2.0 * np.pi - 3.1, 0.1, 0.02, 73.0 / 3.6 / 0.3], rtol=1e-6)
    np.testing.assert_allclose(read_series(tmp_path / "bag", COMMAND, ["throttle", "brake"]).values, [[0.25, 0.0], [0.0, 0.5]], atol=1e-9)


def test_comma2k19_files(tmp_path):
    def save(name, clock, values):
        folder = tmp_path / "40" / "processed_log" / name
        folder.mkdir(parents=True)
        for kind, array in (("t", clock), ("value", values)):
            with (folder / kind).open("wb") as file:
                np.save(file, array)

    save("CAN/wheel_speed", np.array([100.0, 100.2]), np.array([[20.0, 20.0, 20.0, 20.2], [22.0, 22.0, 22.0, 22.2]]))
    save("CAN/steering_angle", np.array([100.0, 100.2]), np.array([0.0, 16.88]))
    save("IMU/gyro", np.array([100.05, 100.1, 100.15]), np.array([[0.0, 0.0, -0.01], [0.0, 0.0, -0.02], [0.0, 0.0, -0.03]]))
    import_recording(tmp_path / "40", find_config("recordings", "comma2k19"), tmp_path / "bag")
    state = read_series(tmp_path / "bag", STATE, ["vx", "yaw_rate", "road_wheel_angle"])
    np.testing.assert_allclose(state.values[1], [21.1, 0.02, np.deg2rad(0.5)], rtol=1e-9)


# --- HMMWV --------------------------------------------------------------------------------------------------------------


def hmmwv(imported, name):
    return imported("sbel_hmmwv", f"sbel_hmmwv_bayes_calibration/{name}.csv")


@pytest.mark.parametrize(("name", "bound"), [("simp_ramp", 0.9999), ("test_1", 0.9999), ("acc", 0.9998), ("rr_1", 0.996)])
def test_hmmwv_lateral_acceleration_is_that_of_the_body(imported, name, bound):
    # On the straight runs (acc, rr_1) the signal itself is only some hundredths of a m/s^2.
    series = read_series(hmmwv(imported, name), STATE, ["ay", "vy", "vx", "yaw_rate"])
    settled = series.time >= 1.0
    ay, vy, vx, yaw_rate = series.values.T
    expected = np.gradient(vy, series.time) + vx * yaw_rate
    assert correlation(ay[settled], expected[settled]) >= bound
    assert np.sqrt(np.mean((ay - expected)[settled] ** 2)) <= 0.016


def test_hmmwv_wheels_roll_with_the_body(imported):
    series = read_series(hmmwv(imported, "test_1"), STATE, ["vx", "yaw", *WHEELS])
    vx, yaw, wheels = series.values[:, 0], series.values[:, 1], series.values[:, 2:]
    assert np.isnan(wheels[np.abs(yaw) > 0.9]).all()
    assert np.isfinite(wheels[np.abs(yaw) < 0.9]).all()
    turning = (np.abs(yaw) > 0.4) & (np.abs(yaw) < 0.9)
    assert turning.sum() > 50
    rolling = vx[turning, None] / HMMWV_RADIUS
    # Without the correction the ratio falls to cos(0.9) = 0.62; with it, slip and deflection make up a few per cent, more of
    # them at the beginning, with the pedal down.
    ratio = wheels[turning] / rolling
    assert (ratio > 1.0).all()
    assert (ratio < 1.17).all()
    assert (ratio[np.abs(yaw[turning]) > 0.8] < 1.1).all()


@pytest.mark.parametrize(("name", "fields", "deviations", "start"), [
    ("acc", ["vx", "wheel_speeds[0]", "wheel_speeds[2]"], [0.20, 0.77, 0.85], 1.0),
    ("simp_ramp", ["vy", "roll", "roll_rate", "yaw_rate"], [0.036, 0.0030, 0.0015, 0.0141], 7.0),
    ("rr_1", ["vx"], [0.088], 5.6),
])
def test_hmmwv_observations_are_the_state_with_the_known_noise(imported, name, fields, deviations, start):
    state = read_series(hmmwv(imported, name), STATE, fields)
    noisy = read_series(hmmwv(imported, name), MEASURED, fields)
    assert noisy.time[0] == start
    rows = np.searchsorted(state.time, noisy.time)
    assert (state.time[rows] == noisy.time).all()
    noise = noisy.values - state.values[rows]
    np.testing.assert_allclose(noise.std(axis=0), deviations, rtol=0.04)
    assert (np.abs(noise.mean(axis=0)) < 4.0 * noise.std(axis=0) / np.sqrt(len(noise))).all()


def test_hmmwv_channels_of_the_prediction_set(imported):
    fields = ["x", "y", "vx", "vy", "yaw", "roll", "roll_rate", "yaw_rate", *WHEELS]
    state = read_series(hmmwv(imported, "test_1"), STATE, fields)
    noisy = read_series(hmmwv(imported, "test_1"), MEASURED, fields)
    noise = noisy.values - state.values[np.searchsorted(state.time, noisy.time)]
    assert np.abs(noise[:, :2]).max() < 1e-6  # x and y carry none
    signal = np.nanstd(state.values, axis=0)
    assert (np.nanstd(noise, axis=0) < 0.4 * signal).all(), "a channel is in the wrong place"


def test_hmmwv_commands(imported):
    series = read_series(hmmwv(imported, "test_1"), COMMAND, ["steering", "throttle", "brake"])
    np.testing.assert_allclose(series.values[np.searchsorted(series.time, [0.5, 2.5, 6.5, 8.5, 10.5])],
                               [[0, 0, 0], [0, 0.25, 0], [0.1, 0.25, 0], [0.2, 0, 0], [0.1, 0, 0]], atol=1e-12)
    ramp = read_series(hmmwv(imported, "simp_ramp"), COMMAND, ["steering", "throttle"])
    np.testing.assert_allclose(ramp.values[np.searchsorted(ramp.time, [3.0, 3.75, 8.85])], [[0, 1], [0, 0.5], [0.1, 0]], atol=1e-12)
    angle = read_series(hmmwv(imported, "simp_ramp"), STATE, ["road_wheel_angle"])
    assert angle.values[-1, 0] / ramp.values[-1, 0] == pytest.approx(0.56, abs=0.01)  # positive to the left


def test_hmmwv_recording_with_companions_missing(reference_data, tmp_path):
    """As test_2 where only its CSV is there."""
    shutil.copy(reference_data / "sbel_hmmwv_bayes_calibration" / "acc.csv", tmp_path / "test_2.csv")
    warnings = []
    import_recording(tmp_path / "test_2.csv", find_config("recordings", "sbel_hmmwv"), tmp_path / "bag", warn=warnings.append)
    assert [t["topic"] for t in bag_info(tmp_path / "bag")["topics"]] == [STATE]
    assert [w.split(": ")[0] for w in warnings] == ["control/command is left out", "measured/state is left out"]
    assert "test_set.txt" in warnings[0]
    assert "vd_chrono_test_2.npy" in warnings[1]


def test_hmmwv_test_2_with_its_companions(reference_data, tmp_path):
    """test_2 is not among the reference data: the layout of its companions, filled with numbers of our own."""
    folder = tmp_path / "data"
    (folder / "driver_inputs").mkdir(parents=True)
    shutil.copy(reference_data / "sbel_hmmwv_bayes_calibration" / "test_1.csv", folder / "test_2.csv")
    (folder / "driver_inputs" / "test_set.txt").write_text("0\t0 0 0\n12.5 0.5\t1  0\n")
    np.save(folder / "vd_chrono_test_2.npy", np.arange(12)[:, None] + np.zeros((12, 1060)))
    import_recording(folder, find_config("recordings", "sbel_hmmwv"), tmp_path / "bag", recording="test_2")
    noisy = read_series(tmp_path / "bag", MEASURED, ["x", "y", "vx", "vy", "yaw", "roll", "roll_rate", "yaw_rate"])
    assert (len(noisy.time), noisy.time[0]) == (1060, 1.0)
    assert noisy.values[0].tolist() == list(range(8))
    command = read_series(tmp_path / "bag", COMMAND, ["steering", "throttle"])
    assert command.values[625].tolist() == [0.25, 0.5]


# --- others -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("lap", "expected_correlation", "expected_slope"), [("slow", 0.9994, 1.04), ("fast", 0.9983, 0.967)])
def test_genesis_yaw_rate_follows_the_steering(imported, lap, expected_correlation, expected_slope):
    bag = imported("berkeley_genesis", f"berkeley_genesis_real/cpg_{lap}_lap.mat")
    series = read_series(bag, STATE, ["yaw_rate", "vx", "road_wheel_angle"])
    assert series.time[0] == 0.0
    assert np.diff(series.time).max() > 1.3 * np.diff(series.time).min(), "stamps are irregular, as recorded"
    yaw_rate, vx, angle = series.values.T
    kinematic = vx * np.tan(angle) / (1.5213 + 1.4987)
    lead = np.interp(series.time - 0.08, series.time, kinematic)
    assert correlation(yaw_rate, lead) == pytest.approx(expected_correlation, abs=1e-4)
    assert slope(yaw_rate, lead) == pytest.approx(expected_slope, abs=5e-3)


def test_genesis_files_with_fewer_fields(tmp_path):
    from scipy.io import savemat

    t = 1.5e9 + 0.01 * np.arange(5)
    names = ("lat", "lon", "x", "y", "psi", "v", "a", "df")
    savemat(tmp_path / "rfs_path1.mat", {"t": t, **{name: np.full(5, 3.0) for name in names}})
    import_recording(tmp_path / "rfs_path1.mat", find_config("recordings", "berkeley_genesis"), tmp_path / "bag")
    series = read_series(tmp_path / "bag", STATE, ["vx", "yaw", "yaw_rate", "ay"])
    np.testing.assert_array_equal(series.values[0], [3.0, 3.0, np.nan, np.nan])


@pytest.mark.parametrize(("name", "expected"), [
    ("throttle_ramp_steer_p02", 0.999), ("throttle_ramp_steer_m02", 0.999), ("free_driving_slow", 0.988)])
def test_dart_encoder_and_imu_against_vicon(imported, name, expected):
    bag = imported("dart", f"dart_rc_vicon_real/{name}.csv")
    vicon = read_series(bag, STATE, ["vx", "yaw_rate"])
    encoder = read_series(bag, MEASURED, ["vx"])
    imu = read_series(bag, "imu", ["angular_velocity.z"])
    assert np.median(np.diff(encoder.time)) == pytest.approx(0.1, abs=0.005), "samples, not rows that hold them"

    def lagged(time, column):  # the on-board channels lag Vicon by 90 to 100 ms
        return np.interp(time - 0.09, vicon.time, vicon.values[:, column])

    assert correlation(encoder.values[:, 0], lagged(encoder.time, 0)) >= expected
    assert correlation(imu.values[:, 0], lagged(imu.time, 1)) >= 0.97
    assert slope(imu.values[:, 0], lagged(imu.time, 1)) == pytest.approx(1.015, abs=0.02)


def test_dart_processed_file_brings_its_own_velocities(imported, reference_data):
    bag = imported("dart", "dart_rc_vicon_real/slippery_floor_processed.csv")
    assert [t["topic"] for t in bag_info(bag)["topics"]] == [COMMAND, STATE]
    rows = np.genfromtxt(reference_data / "dart_rc_vicon_real" / "slippery_floor_processed.csv", delimiter=",", names=True)
    series = read_series(bag, STATE, ["vx", "vy", "yaw_rate", "ax"])
    np.testing.assert_array_equal(series.values, np.column_stack([rows[n] for n in ("vx_body", "vy_body", "w", "ax_body")]))


@pytest.mark.parametrize("source", ["rhode_simulink_dual_track", "rhode_simulink_dual_track/wheel_angle.csv"])
def test_rhode_manoeuvre(imported, source):
    series = read_series(imported("rhode", source), STATE, ["road_wheel_angle", "yaw_rate", "vx", "vy"])
    angle, yaw_rate, vx, vy = series.values.T
    expected = np.where(series.time < 30.0, 0.4 * np.sin(2.0 * np.pi * series.time / 10.0), 0.0)
    np.testing.assert_allclose(angle, expected, atol=6e-6)
    assert np.abs(yaw_rate).max() == pytest.approx(1.051, abs=5e-4)
    assert (vx == 10.0).all()
    assert np.abs(np.arctan2(vy, vx)).max() == pytest.approx(0.283, abs=5e-4)


def test_rhode_is_refused_from_a_file_that_the_mapping_does_not_read(reference_data, tmp_path):
    with pytest.raises(InputError, match=r"is not a file that .*rhode\.yaml reads; it reads beta\.csv, psi\.csv, wheel_angle\.csv"):
        import_recording(reference_data / "sbel_hmmwv_bayes_calibration" / "acc.csv", find_config("recordings", "rhode"), tmp_path / "bag")
