"""The messages against independent formulas."""

import math
from dataclasses import replace

import numpy as np
import pytest
from rclpy.serialization import deserialize_message, serialize_message

from lfdm_ros.bounds import MALFORMED, OUT_OF_RANGE, TOO_MANY, Refused
from lfdm_ros.models import get_model, roll_chassis
from lfdm_ros.models.declaration import outputs_of
from lfdm_ros.ros.messages import (
    OF_WHEELS,
    VehicleMessages,
    check_state,
    nanoseconds,
    quaternion,
    specific_force,
    speeds_of,
    unmeasured,
)
from lfdm_ros.ros.plan_messages import values_of_state


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


EIGHT = get_model("eight_dof")


def filled(model):
    """Places of the outputs, outputs that are all different, and the messages of these."""
    index = {output.name: i for i, output in enumerate(model.outputs)}
    outputs = [100.0 + i for i in range(len(index))]
    messages = VehicleMessages(model)
    messages.fill(12_345_678_901, outputs)
    return index, outputs, messages


def there_and_back(message):
    return deserialize_message(serialize_message(message), type(message))


def test_every_output_lands_in_its_field() -> None:
    index, outputs, messages = filled(EIGHT)
    state = messages.state
    for name in ("x", "y", "vx", "vy", "ax", "ay", "yaw", "roll", "roll_rate", "yaw_rate", "road_wheel_angle", "engine_speed"):
        assert getattr(state, name) == outputs[index[name]], name
    for field, output in (("wheel_speeds", "omega"), ("tyre_force_x", "tyre_fx"), ("tyre_force_y", "tyre_fy"), ("tyre_force_z", "tyre_fz")):
        assert list(getattr(state, field)) == [outputs[index[f"{output}_{w}"]] for w in ("fl", "fr", "rl", "rr")]
    assert list(messages.joints.velocity) == [*state.wheel_speeds, 0.0, 0.0] and len(messages.joints.name) == 6
    assert state.wheel_names == ["fl", "fr", "rl", "rr"]
    for four, every, _ in OF_WHEELS:
        assert list(getattr(state, four)) == list(getattr(state, every))
    assert messages.odometry.twist.twist.linear.x == state.vx and messages.odometry.pose.pose.position.y == state.y
    for message in (state, messages.odometry, messages.imu, messages.joints):
        assert nanoseconds(message.header.stamp) == 12_345_678_901
    assert nanoseconds(messages.clock.clock) == 12_345_678_901


def test_what_a_model_lacks_is_nan_and_the_imu_is_level() -> None:
    model = get_model("driven_bicycle")
    messages = VehicleMessages(model)
    messages.fill(0, [0.0] * len(model.outputs))
    state = messages.state
    assert math.isnan(state.roll) and math.isnan(state.pitch_rate) and state.yaw_rate == 0.0
    for speeds in (state.wheel_speeds, state.speed_by_wheel, messages.joints.velocity[:-2]):  # its wheels do not turn
        assert len(speeds) and all(math.isnan(speed) for speed in speeds)
    assert messages.imu.linear_acceleration.z == pytest.approx(9.80665)


def test_each_wheel_of_six_by_its_name() -> None:
    wheels = ("fl", "fr", "ml", "mr", "rl", "rr")
    index, outputs, messages = filled(replace(EIGHT, wheels=wheels, states=roll_chassis.states(wheels), outputs=outputs_of(wheels)))
    state = there_and_back(messages.state)
    assert state.wheel_names == list(wheels) and messages.joints.name[:-2] == [f"wheel_{wheel}" for wheel in wheels]
    for four, every, output in OF_WHEELS:
        assert list(getattr(state, every)) == [outputs[index[f"{output}_{wheel}"]] for wheel in wheels]
        assert list(getattr(state, four)) == [outputs[index[f"{output}_{wheel}"]] for wheel in ("fl", "fr", "rl", "rr")]
    assert list(messages.joints.velocity)[:-2] == list(state.speed_by_wheel)
    # The controller and the calibrator find them by the names of the model's states.
    speeds = values_of_state(state)
    assert [speeds[f"omega_{wheel}"] for wheel in wheels] == list(state.speed_by_wheel)


def test_two_wheels_that_are_axles() -> None:
    """An axle turns as one wheel, and has the force on both tyres."""
    index, outputs, messages = filled(get_model("eleven_dof"))
    state = messages.state
    assert state.wheel_names == ["front", "rear"]
    assert list(state.speed_by_wheel) == [outputs[index["omega_fl"]], outputs[index["omega_rl"]]]
    for output, forces in (("tyre_fx", state.force_x_by_wheel), ("tyre_fy", state.force_y_by_wheel), ("tyre_fz", state.force_z_by_wheel)):
        assert list(forces) == [outputs[index[f"{output}_{left}"]] + outputs[index[f"{output}_{right}"]]
                                for left, right in (("fl", "fr"), ("rl", "rr"))]
    assert values_of_state(state)["omega_rear"] == outputs[index["omega_rl"]]


def test_a_measured_spin_is_the_same_in_both_views() -> None:
    state = unmeasured()
    assert all(math.isnan(speed) for speed in speeds_of(state).values())
    state.wheel_names, state.speed_by_wheel = ["rr", "tl"], [5.0, 6.0]
    assert speeds_of(state)["omega_rr"] == 5.0 and speeds_of(state)["omega_tl"] == 6.0
    state.wheel_speeds[3] = 5.5  # what everybody has counts
    assert speeds_of(state)["omega_rr"] == 5.5


@pytest.mark.parametrize(("fields", "words", "reason"), [
    ({"wheel_names": ["fl", "fl"]}, "wheel_names has a name twice: fl, fl", MALFORMED),
    ({"wheel_names": ["fl", "ml"], "force_y_by_wheel": [1.0]}, "force_y_by_wheel has 1 values for 2 wheel_names", MALFORMED),
    ({"speed_by_wheel": [1.0]}, "speed_by_wheel has 1 values for 0 wheel_names", MALFORMED),
    ({"wheel_names": ["tl"], "speed_by_wheel": [1e9]}, "omega_tl is 1e+09 rad/s, outside [-5000, 5000]", OUT_OF_RANGE),
    ({"wheel_names": [str(i) for i in range(257)]}, "the number of wheel_names is 257 wheels, outside [0, 256]", TOO_MANY)])
def test_wheels_that_cannot_be(fields, words, reason) -> None:
    state = unmeasured()
    check_state(state)
    for name, value in fields.items():
        setattr(state, name, value)
    with pytest.raises(Refused) as refused:
        check_state(state)
    assert words in str(refused.value) and refused.value.reason == reason
    if len(state.speed_by_wheel) != len(state.wheel_names):
        assert len(speeds_of(state)) == 4
