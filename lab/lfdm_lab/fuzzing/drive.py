"""A second of a straight drive with all topics that the nodes subscribe to, for damage and playback."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lfdm_ros.bags import BagWriter
from lfdm_ros.bags.typestore import build_message

RATE, SPEED, RADIUS = 50, 8.0, 0.47  # [Hz], [m/s], [m] of the wheels
_BEAMS, _WALL = 121, 25.0  # of a scan; distance of the wall ahead [m]
_WHEELS = ("fl", "fr", "rl", "rr")
_COMMANDS = ("/control/command", "/operator/command", "/autonomy/command", "/teleop/command")
_ROWS, _ROW = 40, 0.1  # of the autonomy's plan; their period [s]

# A short calibration with this drive.
RECIPE = """
model: eight_dof
vehicle: hmmwv
step: {value: 2, unit: ms}
sampler: least_squares
draws: 20
chains: 2
stages:
  - name: longitudinal
    recording: "*"
    window: [0.1, 0.9]
    parameters:
      rolling_resistance: {prior: uniform, lower: 0.005, upper: 0.03, unit: m}
    channels:
      vx: {topic: vehicle/state, noise: {prior: log_normal, median: 0.05, log_sd: 1.0, unit: m/s}}
      yaw_rate: {topic: vehicle/state, noise: {prior: log_normal, median: 0.01, log_sd: 1.0, unit: rad/s}}
"""


def drive_bag(path: Path, storage: str = "mcap", seconds: float = 1.0) -> int:
    """Writes the drive; returns the number of its messages."""
    written = 0
    with BagWriter(path, storage, recording="drive", origin_ns=0) as writer:
        for i in range(round(seconds * RATE)):
            for topic, msgtype, message in _tick(i):
                writer.write(topic, msgtype, i * (10**9 // RATE), message)
                written += 1
            if i % 5 == 4:
                writer.checkpoint()
    return written


def _tick(i: int) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yields topic, type and message of everything published with state number i; goals and paths once each, at states 5 to 35."""
    t = i / RATE
    stamp = {"sec": int(t), "nanosec": i * (10**9 // RATE) % 10**9}

    def header(frame: str) -> dict[str, Any]:
        return {"stamp": stamp, "frame_id": frame}

    def pose(x: float) -> dict[str, Any]:
        return {"header": header("odom"), "pose": {"position": {"x": x}, "orientation": {"w": 1.0}}}

    x, spin = SPEED * t, SPEED / RADIUS
    yield "/clock", "rosgraph_msgs/msg/Clock", {"clock": stamp}
    if i == 0:
        yield "/tf_static", "tf2_msgs/msg/TFMessage", {"transforms": [_transform(header("map"), "odom", 0.0)]}
        yield "/posterior", "lfdm_ros/msg/Posterior", {
            "header": header(""), "posterior_version": 1, "model": "eight_dof", "vehicle": "hmmwv", "recipe": "hmmwv_demo",
            "parameter_names": ["rolling_resistance"], "units": ["m"], "means": [0.013], "standard_deviations": [0.001],
            "hdi_lower": [0.011], "hdi_upper": [0.015], "r_hat": [1.0], "ess_bulk": [500.0], "ess_tail": [500.0], "draws": 3,
            "thinned_draws": [0.012, 0.013, 0.014], "recordings": ["coast_down"], "recording_sha256": ["0" * 64], "seed": 1,
            "target_names": ["rolling_resistance"], "target_units": ["m"], "target_values": [0.013]}
    yield "/tf", "tf2_msgs/msg/TFMessage", {"transforms": [_transform(header("odom"), "base_link", x)]}
    yield "/odom", "nav_msgs/msg/Odometry", {
        "header": header("odom"), "child_frame_id": "base_link", "pose": {"pose": pose(x)["pose"]},
        "twist": {"twist": {"linear": {"x": SPEED}}}}
    yield "/joint_states", "sensor_msgs/msg/JointState", {
        "header": header(""), "name": [f"wheel_{wheel}" for wheel in _WHEELS], "position": [math.remainder(spin * t, math.tau)] * 4}
    if i % 5 == 0:
        for topic in ("/scan", "/teleop/scan"):
            yield topic, "sensor_msgs/msg/LaserScan", _scan(header("lidar"), x)
    once = {5: "/goal", 15: "/reference_path", 25: "/goal_pose", 35: "/plan"}.get(i, "")
    if "goal" in once:
        yield once, "geometry_msgs/msg/PoseStamped", pose(60.0)
    elif once:
        yield once, "nav_msgs/msg/Path", {
            "header": header("odom"), "poses": [build_message("geometry_msgs/msg/PoseStamped", pose(x + 2.0 * k)) for k in range(40)]}
    for topic in ("/vehicle/state", "/teleop/state"):
        yield topic, "lfdm_ros/msg/VehicleState", {
            "header": header("odom"), "child_frame_id": "base_link", "x": x, "vx": SPEED, "wheel_speeds": [spin] * 4, "gear": 1,
            "wheel_names": list(_WHEELS), "speed_by_wheel": [spin] * 4}
    if i % 20 == 10:
        yield "/ground/known", "grid_map_msgs/msg/GridMap", _friction_map(header("odom"))
    if i % 5 == 0:
        names = ("x", "y", "yaw", "vx", "vy", "yaw_rate", "steering", "throttle")
        yield "/autonomy/plan", "lfdm_ros/msg/Plan", {
            "header": header("odom"), "names": names, "units": ["m", "m", "rad", "m/s", "m/s", "rad/s", "1", "1"],
            "times": [_ROW * k for k in range(_ROWS)], "inputs": [0.0, 0.2, 0.0] * _ROWS,
            "states": [value for k in range(_ROWS) for value in (x + SPEED * _ROW * k, 0.0, 0.0, SPEED, 0.0, 0.0, 0.0, 0.2)]}
    for topic in _COMMANDS:
        yield topic, "lfdm_ros/msg/DriverCommand", {"header": header("base_link"), "throttle": 0.2, "steering": 0.01 * (i % 3)}
    yield "/ackermann_cmd", "ackermann_msgs/msg/AckermannDriveStamped", {
        "header": header("base_link"), "drive": {"speed": SPEED, "steering_angle": 0.02}}
    yield "/cmd_vel", "geometry_msgs/msg/Twist", {"linear": {"x": SPEED}, "angular": {"z": 0.1}}
    yield "/joy", "sensor_msgs/msg/Joy", {"header": header(""), "axes": [0.1, 0.2, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0], "buttons": [1] * 11}


def _transform(header: dict[str, Any], child: str, x: float) -> Any:
    return build_message("geometry_msgs/msg/TransformStamped", {
        "header": header, "child_frame_id": child, "transform": {"translation": {"x": x}, "rotation": {"w": 1.0}}})


def _friction_map(header: dict[str, Any]) -> dict[str, Any]:
    """Returns the message of a friction field of 5 x 4 nodes, with one sample."""
    layers = {"friction_latent_mean": 2.0, "friction_latent_sd": 0.5, "friction_ice": 0.1, "friction_dry": 1.1,
              "friction_latent_draw_00": 1.0}
    dims = [("column_index", 4, 20), ("row_index", 5, 5)]
    layout = build_message("std_msgs/msg/MultiArrayLayout", {"data_offset": 0, "dim": [
        build_message("std_msgs/msg/MultiArrayDimension", {"label": label, "size": size, "stride": stride})
        for label, size, stride in dims]})
    return {"header": header, "info": {"resolution": 2.0, "length_x": 10.0, "length_y": 8.0, "pose": {"orientation": {"w": 1.0}}},
            "layers": list(layers), "data": [build_message("std_msgs/msg/Float32MultiArray", {"layout": layout, "data": [value] * 20})
                                             for value in layers.values()]}


def _scan(header: dict[str, Any], x: float) -> dict[str, Any]:
    """Returns the 180 degree scan of a wall across the road; beams beside it have no return."""
    angles = [math.pi * (k / (_BEAMS - 1) - 0.5) for k in range(_BEAMS)]
    ranges = [(_WALL + SPEED - x) / math.cos(a) if abs(a) < 0.3 else math.inf for a in angles]
    return {"header": header, "angle_min": angles[0], "angle_max": angles[-1], "angle_increment": angles[1] - angles[0], "scan_time": 0.1,
            "range_min": 0.5, "range_max": 100.0, "ranges": ranges}
