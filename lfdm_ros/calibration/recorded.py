"""Drives that were simulated, written down as bags that recipes read."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from lfdm_ros.bags import BagWriter
from lfdm_ros.bags.reader import HOLD, LINEAR
from lfdm_ros.inference.plan import DEFAULT_INPUTS, DEFAULT_STATE
from lfdm_ros.models import AXLES, WHEELS

STATE = ("x", "y", "yaw", "roll", "pitch", "vx", "vy", "ax", "ay", "roll_rate", "pitch_rate", "yaw_rate", "road_wheel_angle",
         "engine_speed")


def write_drive(path: Path, recording: str, times: np.ndarray, columns: Mapping[str, np.ndarray], inputs: np.ndarray,
                wheels: Sequence[str], topics: Iterable[str] = (), noise: Mapping[str, float] | None = None, seed: int = 0,
                linear: bool = False) -> Path:
    """Writes a bag atomically.

    Args:
        times: (K,) [s]; columns: states (K,) by name; inputs (K, 3) steering, throttle, brake; wheels: of the model.
        topics: further topics with the state plus noise of these standard deviations, by name, from a seed.
        linear: inputs are linear between samples instead of held.
    """
    rng = np.random.default_rng(seed)
    spins = {wheel: f"omega_{AXLES.get(wheel, (wheel,))[0]}" for wheel in (*WHEELS, *wheels)}
    published = {topic: {name: values + (noise or {}).get(name, 0.0) * (rng.standard_normal(len(values)) if topic != DEFAULT_STATE else 0.0)
                    for name, values in columns.items()} for topic in dict.fromkeys((DEFAULT_STATE, *topics))}
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial")
    unknown = {f"tyre_force_{axis}": np.full(4, np.nan) for axis in "xyz"}
    with BagWriter(partial, recording=recording, origin_ns=0, custom={"between_rows": LINEAR if linear else HOLD}) as bag:
        for k, (t, u) in enumerate(zip(times, inputs)):
            stamp = round(t * 1e9)
            header = {"stamp": {"sec": stamp // 10**9, "nanosec": stamp % 10**9}, "frame_id": "odom"}
            for topic, columns_of_topic in published.items():
                bag.write(topic, "lfdm_ros/msg/VehicleState", stamp, {
                    "header": header, "child_frame_id": "base_link", **dict.fromkeys(STATE, float("nan")),
                    **{name: float(columns_of_topic[name][k]) for name in STATE if name in columns_of_topic},
                    "wheel_speeds": [float(columns_of_topic[spins[wheel]][k]) for wheel in WHEELS], "wheel_names": list(wheels),
                    "speed_by_wheel": [float(columns_of_topic[spins[wheel]][k]) for wheel in wheels], **unknown, "gear": 1})
            bag.write(DEFAULT_INPUTS, "lfdm_ros/msg/DriverCommand", stamp,
                      {"header": header, "steering": float(u[0]), "throttle": float(u[1]), "brake": float(u[2])})
    partial.rename(path)
    return path
