"""A lane change planned by do-mpc on a vehicle exported as CasADi functions.

    lfdm export casadi --vehicle hmmwv --model driven_bicycle --out vehicle
    python do_mpc_lane_change.py vehicle

do-mpc sees the semi-explicit equations (dae.casadi); the vehicle that it drives is the step of the simulator (step.casadi).
"""

import json
import sys
from pathlib import Path

import casadi as ca
import do_mpc
import numpy as np

INTERVAL, HORIZON, SPEED, LANE = 0.1, 20, 15.0, 3.5  # s, intervals, m/s, m


def main(folder: Path, seconds: float = 6.0) -> tuple[float, float]:
    """Drives and returns the largest distance beyond the new lane's middle and the last distance from it [m]."""
    about = json.loads((folder / "vehicle.json").read_text())
    dae, step = (ca.Function.load(str(folder / f"{name}.casadi")) for name in ("dae", "step"))
    states, p = about["states"], np.array([parameter["value"] for parameter in about["parameters"]])
    x_names, z_names = ([s["name"] for s in states if s["role"] == role] for role in ("continuous", "held"))

    model = do_mpc.model.Model("continuous")
    x = ca.vertcat(*(model.set_variable("_x", name) for name in x_names))
    z = ca.vertcat(*(model.set_variable("_z", f"held_{name}") for name in z_names))
    u = ca.vertcat(*(model.set_variable("_u", each["name"]) for each in about["inputs"]))
    ode, alg = dae(x, z, u, p)
    for i, name in enumerate(x_names):
        model.set_rhs(name, ode[i])
    for i, name in enumerate(z_names):
        model.set_alg(f"solved_{name}", alg[i])
    model.setup()

    mpc = do_mpc.controller.MPC(model)
    mpc.settings.n_horizon, mpc.settings.t_step, mpc.settings.store_full_solution = HORIZON, INTERVAL, False
    mpc.settings.collocation_deg, mpc.settings.nlpsol_opts = 2, {"ipopt.print_level": 0, "print_time": 0, "ipopt.sb": "yes"}
    cost = (model.x["y"] - LANE) ** 2 + 20.0 * model.x["yaw"] ** 2 + (model.x["vx"] - SPEED) ** 2
    mpc.set_objective(mterm=cost, lterm=cost)
    mpc.set_rterm(steering=50.0, throttle=1.0, brake=1.0)
    for each in about["inputs"]:
        mpc.bounds["lower", "_u", each["name"]], mpc.bounds["upper", "_u", each["name"]] = max(each["lower"], -1.0), each["upper"]
    mpc.bounds["lower", "_u", "throttle"] = 0.0
    mpc.setup()

    radius = next(parameter["value"] for parameter in about["parameters"] if parameter["name"] == "wheel_radius") \
        if any(s["name"].startswith("omega") for s in states) else 1.0
    now = {s["name"]: s["rest"] for s in states} | {"vx": SPEED}
    now |= {s["name"]: SPEED / radius for s in states if s["name"].startswith("omega")}
    state = np.array([now[s["name"]] for s in states])
    chosen = [i for i, s in enumerate(states) if s["role"] == "continuous"]
    mpc.x0 = state[chosen]
    mpc.set_initial_guess()
    beyond = 0.0
    for _ in range(round(seconds / INTERVAL)):
        command = mpc.make_step(state[chosen]).ravel()
        for _ in range(round(INTERVAL / about["step"])):
            state = np.array(step(state, command, p, about["step"])).ravel()
        y = state[[s["name"] for s in states].index("y")]
        beyond = max(beyond, y - LANE)
    return beyond, abs(y - LANE)


if __name__ == "__main__":
    beyond, left = main(Path(sys.argv[1]))
    print(f"at most {beyond:.2f} m beyond the lane's middle, {left:.2f} m from it at the end")
