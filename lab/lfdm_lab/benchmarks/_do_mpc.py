"""The path-following task with do-mpc (Fiedler et al. 2023, "do-mpc: Towards FAIR nonlinear and robust model predictive control").

The same bicycle: its equations in continuous time, which do-mpc discretises by its own collocation and gives to IPOPT to convergence.
The same cost, soft rows (wheel loads, friction, speed) and bounds, from the text that ours come from. What do-mpc cannot express: stages
of different lengths (40 of 0.1 s instead, as long together), rows with a curvature beside the linear penalty, and the limit table.
The path next to each stage comes from the last plan, as with ours. Part of `lfdm bench mpc`.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from lfdm_ros.backends import casadi_model
from lfdm_ros.backends.casadi_backend import OPERATIONS
from lfdm_ros.control.ocp import problem
from lfdm_ros.control.ocp.problem import Layout
from lfdm_ros.control.plan import CONTROLS
from lfdm_ros.control.prediction import Measured, Prediction
from lfdm_ros.control.routing.path import Path
from lfdm_ros.control.settings import Rates, Settings
from lfdm_ros.models.chassis import GRAVITY, static_loads
from lfdm_ros.vehicles import load_vehicle

MODEL = "driven_bicycle"
HINT = "do-mpc is left out; to have it here: pip install do-mpc"
STAGES, STEP = 40, 0.1
ITERATIONS = 100  # IPOPT's own 3000 take a minute where it does not find out of a kink
ROWS = {"load_front": ("penalty_load", -1.0), "load_rear": ("penalty_load", -1.0), "friction": ("penalty_friction", 1.0),
        "speed": ("penalty_speed", 1.0)}  # with the side that is forbidden


def is_there() -> bool:
    """Whether do-mpc is installed."""
    return importlib.util.find_spec("do_mpc") is not None


class Follower:
    """Drives along a path. failures: cycles in which IPOPT did not converge; its last iterate is driven all the same."""

    def __init__(self, vehicle_name: str, points: np.ndarray, speed: float, delay: float = 0.1):
        """delay: of the actuation, predicted through [s]."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its optional parts
            import do_mpc
        import casadi as ca
        warnings.filterwarnings("ignore", r"\s*casadi: a numpy function", FutureWarning)  # do-mpc's calls

        self._path, self._speed, self._delay = Path(points), speed, delay
        self._settings = s = Settings(model=MODEL, obstacles=0)
        vehicle = load_vehicle(vehicle_name).replace(actuation_delay=delay)
        outline, rates = vehicle.footprint, Rates.of(s, vehicle.actuators)
        model = vehicle.model(MODEL)
        functions = casadi_model(model)
        p = ca.DM(vehicle.vector(model))
        values = SimpleNamespace(**vehicle.parameters)
        front, rear = static_loads(values)
        k = SimpleNamespace(front=outline.front, rear=outline.rear, half_width=outline.half_width, load_front=front, load_rear=rear,
                            to_rear_axle=values.cg_to_rear_axle)
        self._names = tuple(f.name for f in model.states)
        layout = Layout(self._names, False, 0)
        text = problem.build(OPERATIONS, layout)

        plant = do_mpc.model.Model("continuous", "SX")
        z = {name: plant.set_variable("_x", name) for name in layout.states}
        w = {name: plant.set_variable("_u", name) for name in CONTROLS}
        c = {name: plant.set_variable("_tvp", name) for name in layout.stage_numbers}
        inputs = ca.vertcat(*text.inputs(z["steering"], z["pedal"]))
        x = ca.vertcat(*(z[name] for name in self._names))
        for name, slope in zip(self._names, ca.vertsplit(functions.rhs(x, inputs, p))):
            plant.set_rhs(name, slope)
        plant.set_rhs("steering", w["steering_rate"])
        plant.set_rhs("pedal", w["pedal_rate"])
        plant.setup()

        # The symbols that do-mpc has made of those.
        zs, ws, cs = (SimpleNamespace(**{name: symbols[name] for name in names})
                      for symbols, names in ((plant.x, z), (plant.u, w), (plant.tvp, c)))
        x, inputs = ca.vertcat(*(getattr(zs, name) for name in self._names)), ca.vertcat(*text.inputs(zs.steering, zs.pedal))
        still = SimpleNamespace(**dict.fromkeys(CONTROLS, 0.0))
        weights = [s.weight_lateral, s.weight_heading, s.weight_speed, s.weight_sideslip, s.weight_steering, s.weight_pedal,
                   s.weight_steering_rate, s.weight_pedal_rate]
        mpc = do_mpc.controller.MPC(plant)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mpc.set_param(n_horizon=STAGES, t_step=STEP, state_discretization="collocation", collocation_type="radau", collocation_deg=2,
                          collocation_ni=1, store_full_solution=False, store_lagr_multiplier=False,
                          nlpsol_opts={"ipopt.print_level": 0, "ipopt.sb": "yes", "ipopt.max_iter": ITERATIONS, "print_time": 0})
            mpc.set_objective(lterm=self._cost(text.residuals(zs, ws, k, cs), weights, STEP),
                              mterm=self._cost(text.residuals(zs, still, k, cs), weights, s.weight_terminal))
            mpc.set_rterm(**dict.fromkeys(CONTROLS, 0.0))
        loads = functions.wheel_loads(x, inputs, p)
        rows = dict(zip(layout.rows, text.rows(zs, [loads[i] for i in range(4)], functions.friction(x, inputs, p), k, cs)))
        bounds = {"load_front": s.load_margin, "load_rear": s.load_margin, "friction": 1.0, "speed": speed}
        for name, (penalty, side) in ROWS.items():
            mpc.set_nl_cons(name, side * rows[name], side * bounds[name], soft_constraint=True,
                            penalty_term_cons=STEP * getattr(s, penalty), maximum_violation=np.inf)
        for name, low, high in (("steering", -1.0, 1.0), ("pedal", -s.largest_brake, s.largest_throttle)):
            mpc.bounds["lower", "_x", name], mpc.bounds["upper", "_x", name] = low, high
        for name, low, high in (("steering_rate", -rates.steering, rates.steering), ("pedal_rate", -rates.down, rates.up)):
            mpc.bounds["lower", "_u", name], mpc.bounds["upper", "_u", name] = low, high
        self._numbers = mpc.get_tvp_template()
        self._fixed = {"friction": s.friction_use * GRAVITY * values.friction_max, "limit": 1.0, "step": STEP, "path_speed": speed}
        self._points: np.ndarray | None = None  # of the plan (N+1, 2), and how far along the path it begins
        self._along: float | None = None
        mpc.set_tvp_fun(lambda _: self._refer())
        self._layout, self._mpc = layout, mpc
        self._prediction = Prediction(MODEL, vehicle, delay, 0.0)
        self._command = (0.0, 0.0)
        self._ready = False
        self.failures = 0

    @staticmethod
    def _cost(residuals: Any, weights: list[float], time: float) -> Any:
        return sum(0.5 * time * weight * residual * residual for weight, residual in zip(weights, residuals))

    def _refer(self) -> Any:
        """What the path says at each stage."""
        if self._points is None:  # do-mpc looks whether the function returns what it should
            return self._numbers
        x, y = self._points.T
        if self._along is None:
            self._along = float(self._path.project(x[:1], y[:1])[0][0])
        moved = np.concatenate([[0.0], np.cumsum(np.hypot(np.diff(x), np.diff(y)))])
        s, _ = self._path.project(x, y, self._along + moved)
        self._along = float(s[0])
        px, py, yaw, curvature = self._path.at(s)
        numbers = {"path_x": px, "path_y": py, "path_cos": np.cos(yaw), "path_sin": np.sin(yaw), "path_yaw": yaw,
                   "path_curvature": curvature, **{name: np.full(len(s), value) for name, value in self._fixed.items()}}
        for i in range(STAGES + 1):
            for name, values in numbers.items():
                self._numbers["_tvp", i, name] = values[i]
        return self._numbers

    def command(self, now: float, measured_at: float, state: Mapping[str, float]) -> tuple[float, float, float]:
        """Steering, throttle and brake at `now` [s] from a state (by name) of `measured_at`."""
        x, _ = self._prediction.at(Measured(measured_at, state), now + self._delay)
        z0 = np.concatenate([x, self._command])
        place = [self._names.index("x"), self._names.index("y")]
        if not self._ready:
            ahead = self._speed * STEP * np.arange(STAGES + 1)
            self._points = z0[place] + np.column_stack([ahead, np.zeros(STAGES + 1)])
            self._mpc.setup()
            self._mpc.x0 = z0
            self._mpc.set_initial_guess()
            self._ready = True
        rates = self._mpc.make_step(z0)[:, 0]
        self.failures += not self._mpc.solver_stats["success"]
        plan = self._mpc.opt_x_num
        self._points = np.array([plan["_x", i, 0, -1].full()[place, 0] for i in range(STAGES + 1)])
        period = self._settings.period
        steering, pedal = np.clip(np.array(self._command) + period * rates, [-1.0, -self._settings.largest_brake],
                                  [1.0, self._settings.largest_throttle])
        self._command = float(steering), float(pedal)
        self._prediction.sent(now, *self._command)
        return self._command[0], max(self._command[1], 0.0), max(-self._command[1], 0.0)
