"""A model's compiled equations in loops of your own, numba's here and that of own_loop.c: both hold a speed and a yaw rate.

    python examples/own_loop.py                              (with a C compiler)

prints speed [m/s] and yaw rate [rad/s] after 20 s, and what a step of 1 ms took [ns], from either.
"""

import subprocess
import tempfile
import time
from pathlib import Path

import numba
import numpy as np

from lfdm_ros.backends import constants, numba_function
from lfdm_ros.exports import write_c
from lfdm_ros.models import get_model
from lfdm_ros.simulation import initial_state
from lfdm_ros.vehicles import load_vehicle

MODEL, VEHICLE = get_model("eight_dof"), load_vehicle("hmmwv")
STEPS, STEP = 10, 1e-3  # steps of a period, [s]
advance = numba_function(MODEL, "advance")  # or "step", "rhs"
VX, YAW_RATE = ([field.name for field in MODEL.states].index(name) for name in ("vx", "yaw_rate"))


@numba.njit
def hold(x, q, speed, yaw_rate, periods):
    """Drives x on by a law that looks at it in each period; whether it stayed finite."""
    u = np.zeros(3)  # steering, throttle, brake
    for _ in range(periods):
        u[0] = min(max(u[0] + 0.02 * (yaw_rate - x[YAW_RATE]), -1.0), 1.0)
        u[1] = min(max(0.5 * (speed - x[VX]), 0.0), 1.0)
        if not advance(x, q, u, u, STEPS, STEP):
            return False
    return True


def in_numba(x, q, periods):
    hold(x.copy(), q, 15.0, 0.2, 1)  # compiles it
    began = time.perf_counter()
    assert hold(x, q, 15.0, 0.2, periods)
    return x[VX], x[YAW_RATE], 1e9 * (time.perf_counter() - began) / (periods * STEPS)


def in_c(periods):
    with tempfile.TemporaryDirectory() as folder:
        files = write_c(VEHICLE, MODEL, Path(folder), "vehicle")
        subprocess.run(["cc", "-O2", "-I", folder, "-o", f"{folder}/own_loop", Path(__file__).with_suffix(".c"), files.source, "-lm"],
                       check=True)
        numbers = [repr(value) for value in (10.0, 15.0, 0.2)]
        done = subprocess.run([f"{folder}/own_loop", str(periods), *numbers], check=True, capture_output=True, text=True)
    return [float(word) for word in done.stdout.split()]


if __name__ == "__main__":
    p = VEHICLE.vector(MODEL)
    start = initial_state(MODEL, VEHICLE, vx=10.0)
    for language, found in (("C", in_c(2000)), ("numba", in_numba(start.copy(), constants(MODEL, p), 2000))):
        print(f"{language:5} {found[0]:.9f} {found[1]:.9f} {found[2]:.0f}")
