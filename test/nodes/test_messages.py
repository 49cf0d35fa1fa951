"""The messages against independent formulas."""

import math

import numpy as np
import pytest

from lfdm_ros.nodes.messages import VehicleMessages, nanoseconds, quaternion, specific_force
from lfdm_ros.simulation import Simulator
from lfdm_ros.vehicles import load_vehicle


def rotation(roll: float, pitch: float, yaw: float) -> np.ndarray:
    """Rz(yaw) Ry(pitch) Rx(roll), written out."""
    cr, sr, cp, sp, cy, sy = (f(a) for a in (roll, pitch, yaw) for f in (math.cos, math.sin))
    rx = np.array([[1, 0, 0], [0, cr, -sr], [0, sr, cr]])
    ry = np.array([[cp, 0, sp], [0, 1, 0], [-sp, 0, cp]])
    rz = np.array([[cy, -sy, 0], [sy, cy, 0], [0, 0, 1]])
    return rz @ ry @ rx


ANGLES = (0.3, -0.2, 2.5)


def test_quaternion_is_the_rotation() -> None:
    x, y, z, w = quaternion(*ANGLES)
    matrix = np.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)]])
    np.testing.assert_allclose(matrix, rotation(*ANGLES), atol=1e-14)


def test_accelerometer_leans_with_the_body() -> None:
    roll, pitch, _ = ANGLES
    level = np.array([1.5, -4.0, 9.80665])
    np.testing.assert_allclose(specific_force(1.5, -4.0, roll, pitch), rotation(roll, pitch, 0.0).T @ level, atol=1e-13)
    assert specific_force(0.0, 0.0, 0.0, 0.0) == (0.0, 0.0, 9.80665)


def test_every_output_lands_in_its_field() -> None:
    index = Simulator(load_vehicle("hmmwv")).output_index
    outputs = [100.0 + i for i in range(len(index))]
    messages = VehicleMessages(index)
    messages.fill(12_345_678_901, outputs)
    state = messages.state
    for name in ("x", "y", "vx", "vy", "ax", "ay", "yaw", "roll", "roll_rate", "yaw_rate", "road_wheel_angle", "engine_speed"):
        assert getattr(state, name) == outputs[index[name]], name
    for field, output in (("wheel_speeds", "omega"), ("tyre_force_x", "tyre_fx"), ("tyre_force_y", "tyre_fy"), ("tyre_force_z", "tyre_fz")):
        assert list(getattr(state, field)) == [outputs[index[f"{output}_{w}"]] for w in ("fl", "fr", "rl", "rr")]
    assert list(messages.wheels.velocity) == list(state.wheel_speeds) and len(messages.wheels.name) == 4
    assert messages.odometry.twist.twist.linear.x == state.vx and messages.odometry.pose.pose.position.y == state.y
    for message in (state, messages.odometry, messages.imu, messages.wheels):
        assert nanoseconds(message.header.stamp) == 12_345_678_901
    assert nanoseconds(messages.clock.clock) == 12_345_678_901


def test_what_a_model_lacks_is_nan_and_the_imu_is_level() -> None:
    index = {name: i for i, name in enumerate(("x", "y", "yaw", "vx", "vy", "ax", "ay", "yaw_rate"))}
    messages = VehicleMessages(index)
    messages.fill(0, [0.0] * len(index))
    assert math.isnan(messages.state.roll) and math.isnan(messages.state.tyre_force_z[0])
    assert messages.imu.linear_acceleration.z == pytest.approx(9.80665)
