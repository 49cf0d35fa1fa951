"""A small calibration problem: a vehicle of known parameters on two short manoeuvres, recorded with noise."""

from pathlib import Path

import numpy as np

from lfdm_ros.bags import BagWriter
from lfdm_ros.simulation import InputProfile, Simulator
from lfdm_ros.vehicles import load_vehicle

TRUTH = {"longitudinal_stiffness_front": 14000.0, "longitudinal_stiffness_rear": 14000.0, "cornering_stiffness_front": 50000.0,
         "cornering_stiffness_rear": 58000.0}
NOISE = {"vx": 0.05, "vy": 0.02, "yaw_rate": 0.01, "omega_fl": 0.3}

RECIPE = """
model: eight_dof
vehicle: hmmwv
step: {value: 2, unit: ms}
seed: 3
draws: 100
chains: 2
note: a note for the reader
parameters:
  rolling_resistance: {value: 13.1, unit: mm}
stages:
  - name: longitudinal
    recording: speed_up
    window: [0.0, 2.0]
    parameters:
      longitudinal_stiffness: {prior: uniform, lower: 5, upper: 40, unit: kN,
                               targets: {longitudinal_stiffness_front: 1, longitudinal_stiffness_rear: 1}}
    channels:
      vx: {topic: measured/state, noise: {prior: log_normal, median: 0.1, log_sd: 1.0, unit: m/s}}
      omega_fl: {topic: measured/state, noise: {prior: log_normal, median: 0.5, log_sd: 1.0, unit: rad/s}}
  - name: lateral
    recording: turn
    window: [0.5, 2.5]
    initial_state: {topic: vehicle/state, estimate: {vx: {prior: normal, sd: 0.1, unit: m/s}}}
    parameters:
      cornering_stiffness_front: {prior: log_normal, median: 50, log_sd: 0.4, unit: kN/rad}
      cornering_stiffness_rear: {prior: uniform, lower: 20, upper: 90, unit: kN/rad}
    channels:
      vy: {topic: measured/state, noise: {prior: log_normal, median: 0.05, log_sd: 1.0, unit: m/s}}
      yaw_rate: {topic: measured/state, noise: {prior: log_normal, median: 0.02, log_sd: 1.0, unit: rad/s}}
"""

# Tyres that never slide, on what drives in fact; TAKE: the pieces that are fitted.
SINGLE_TRACK = """
model: linear_single_track
vehicle: hmmwv
step: {value: 10, unit: ms}
draws: 100
chains: 2
sampler: least_squares
stages:
  - name: lateral
    recording: drive
    window: [0, null]
    split: {length: {value: 2, unit: s}, take: TAKE}
    prescribed: {vx: {topic: vehicle/state}}
    parameters:
      cornering_stiffness_front: {prior: log_normal, median: 50, log_sd: 0.4, unit: kN/rad}
      cornering_stiffness_rear: {prior: log_normal, median: 50, log_sd: 0.4, unit: kN/rad}
    channels:
      yaw_rate: {topic: measured/state, noise: {prior: log_normal, median: 0.02, log_sd: 1.0, unit: rad/s}}
      vy: {topic: measured/state, noise: {prior: log_normal, median: 0.05, log_sd: 1.0, unit: m/s}}
"""


def quick_recipe(recording: str = "turn") -> str:
    """One stiffness by least squares, in a second or two."""
    return f"""
model: eight_dof
vehicle: hmmwv
step: {{value: 2, unit: ms}}
sampler: least_squares
draws: 20
chains: 2
stages:
  - name: lateral
    recording: "{recording}"
    window: [0.5, 2.3]
    parameters:
      cornering_stiffness_front: {{prior: log_normal, median: 50, log_sd: 0.4, unit: kN/rad}}
    channels:
      yaw_rate: {{topic: measured/state, noise: {{prior: log_normal, median: 0.02, log_sd: 1.0, unit: rad/s}}}}
"""


MANOEUVRES = {  # speed [m/s], rows of time, steering, throttle, brake
    "speed_up": (3.0, [[0.0, 0.0, 0.2, 0.0], [1.0, 0.0, 0.9, 0.0], [2.0, 0.0, 0.1, 0.0]]),
    "turn": (15.0, [[0.0, 0.0, 0.1, 0.0], [0.7, 0.0, 0.1, 0.0], [1.5, 0.15, 0.1, 0.0], [2.5, -0.1, 0.1, 0.0]]),
}


def write_bag(path: Path, name: str, seed: int = 5, recording: str = "") -> Path:
    """Records one of MANOEUVRES: vehicle/state exact, measured/state with noise, both at 100 Hz."""
    return record(path, *MANOEUVRES[name], seed=seed, recording=recording or name)


def weave(amplitudes: list[float], seed: int, every: float = 0.8) -> list[list[float]]:
    """Rows of a driver who steers at random, in turn within these amplitudes, for 4 s each."""
    rng = np.random.default_rng(seed)
    times = np.arange(0.0, 4.0 * len(amplitudes) + 1e-9, every)
    steering = rng.uniform(-1.0, 1.0, len(times)) * np.array(amplitudes)[np.minimum((times / 4.0).astype(int), len(amplitudes) - 1)]
    return [[float(time), float(angle), 0.1, 0.0] for time, angle in zip(times, steering)]


def record(path: Path, speed: float, rows: list[list[float]], seed: int, recording: str, rate: int = 100,
           model: str = "eight_dof") -> Path:
    """Records the vehicle from a speed on rows of time, steering, throttle, brake at a rate [Hz]: vehicle/state exact, measured/state with
    noise."""
    time, steering, throttle, brake = np.array(rows).T
    times = np.arange(round(rate * time[-1]) + 1) / rate
    inputs = InputProfile(time, steering, throttle, brake).sample(times)
    simulator = Simulator(load_vehicle("hmmwv").replace(**TRUTH), model=model, dt=0.002)
    simulator.reset(vx=speed)
    index, rng = simulator.output_index, np.random.default_rng(seed)
    outputs = []
    for u in inputs:
        simulator.advance(u, u, 0)
        outputs.append(simulator.outputs.copy())
        simulator.advance(u, u, 500 // rate)  # the command on a topic holds until the next one

    def state(row: np.ndarray, header: dict, noisy: bool) -> dict:
        def value(channel: str) -> float:
            if channel not in index:
                return float("nan")
            return float(row[index[channel]]) + (rng.normal(0.0, NOISE.get(channel, 0.0)) if noisy else 0.0)

        names = ("x", "y", "yaw", "roll", "pitch", "vx", "vy", "ax", "ay", "roll_rate", "pitch_rate", "yaw_rate", "road_wheel_angle",
                 "engine_speed")
        message = {name: value(name) if not noisy or name in NOISE else float("nan") for name in names}
        wheels = np.array([value(f"omega_{wheel}") if not noisy or wheel == "fl" else np.nan for wheel in ("fl", "fr", "rl", "rr")])
        forces = {f"tyre_force_{axis}": np.full(4, np.nan) for axis in "xyz"}
        return {"header": header, "child_frame_id": "base_link", **message, "wheel_speeds": wheels, **forces, "gear": 1}

    with BagWriter(path, storage="mcap", recording=recording) as bag:
        for row, u, t in zip(outputs, inputs, times):
            stamp = round(t * 1e9)
            header = {"stamp": {"sec": stamp // 10**9, "nanosec": stamp % 10**9}, "frame_id": "odom"}
            bag.write("vehicle/state", "lfdm_ros/msg/VehicleState", stamp, state(row, header, noisy=False))
            bag.write("measured/state", "lfdm_ros/msg/VehicleState", stamp, state(row, header, noisy=True))
            bag.write("control/command", "lfdm_ros/msg/DriverCommand", stamp,
                      {"header": header, "steering": float(u[0]), "throttle": float(u[1]), "brake": float(u[2])})
    return path
