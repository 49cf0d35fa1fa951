"""The embedded multibody against a simulation by MuJoCo: five seconds of landing, steering and driving, to a millimetre.

MuJoCo has the same bodies as a tree with 34 coordinates; its joints that close the loops are springs, as hard as its steps bear, and they
give by some hundredths of a millimetre. It has no tyre for vehicles and no tables of forces: tyres, drive, springs with stops and dampers
are written down here once more, from MuJoCo's own positions and velocities, and act in each of its four Runge-Kutta stages. Where both
start, the wheels are just above the ground and the suspension is as it was drawn, so that it goes through a third of its travel.
"""

from types import SimpleNamespace

import mujoco_twin as twin
import numpy as np
import pytest

from lfdm_ros.backends import compiled_model_function
from lfdm_ros.models import WHEELS
from lfdm_ros.vehicles import Vehicle, load_vehicle

mujoco = pytest.importorskip("mujoco", reason="the test extra has it: pip install mujoco")

VEHICLE = twin.possible(load_vehicle("hmmwv_multibody")).replace(rolling_resistance=0.0)
MODEL = VEHICLE.model("multibody_hmmwv")
NAMES = [field.name for field in MODEL.states]
SECONDS, STEP, SPEED, HEIGHT = 5.0, 2e-3, 12.0, 0.74
WAYPOINTS = ([0.0, 1.0, 1.5, 2.5, 3.0, 5.0], [0.0, 0.0, 0.35, -0.35, 0.0, 0.0])
THROTTLE = 0.2


def steering(t: float) -> float:
    return float(np.interp(t, *WAYPOINTS))


def fiala(p: SimpleNamespace, along: np.ndarray, across: np.ndarray, rim: np.ndarray, load: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Forces of four tyres (paper 001 eqs 11-19)."""
    cx = np.repeat([p.longitudinal_stiffness_front, p.longitudinal_stiffness_rear], 2)
    cy = np.repeat([p.cornering_stiffness_front, p.cornering_stiffness_rear], 2)
    speed = np.maximum(np.abs(along), 0.1)
    s, t = (rim - along) / speed, across / speed
    share = np.minimum(np.hypot(s, t), 1.0)
    limit = np.maximum(p.friction_scale * (p.friction_max - (p.friction_max - p.friction_min) * share) * load, 1e-6)
    critical = limit / (2.0 * cx)
    fx = np.where(np.abs(s) < critical, cx * s, np.sign(s) * (limit - limit**2 / (4.0 * np.maximum(np.abs(s), critical) * cx)))
    h = np.maximum(1.0 - cy * np.abs(t) / (3.0 * limit), 0.0)
    return fx, -limit * (1.0 - h**3) * np.sign(t)


class Forces:
    """All that acts on MuJoCo's vehicle, as the callback of its controls."""

    def __init__(self, vehicle: Vehicle, model):
        self.p = p = SimpleNamespace(**vehicle.parameters)

        def of(kind, names: list[str]) -> np.ndarray:
            return np.array([mujoco.mj_name2id(model, kind, name) for name in names])

        body, tendon = mujoco.mjtObj.mjOBJ_BODY, mujoco.mjtObj.mjOBJ_TENDON
        self.body = of(body, ["body"])[0]
        self.uprights, self.wheels = (of(body, [f"{name}_{wheel}" for wheel in WHEELS]) for name in ("upright", "wheel"))
        self.spins = model.jnt_dofadr[model.body_jntadr[self.wheels]]
        self.springs, self.dampers = (of(tendon, [f"{name}_{wheel}" for wheel in WHEELS]) for name in ("spring", "damper"))
        self.controls = [of(mujoco.mjtObj.mjOBJ_ACTUATOR, [f"{name}_{wheel}" for wheel in WHEELS]) for name in ("spring", "damper")]
        arm = model.body_jntadr[of(body, ["arm"])[0]]
        self.arm_q, self.arm_v = model.jnt_qposadr[arm], model.jnt_dofadr[arm]
        self.tables = {wheel: [[getattr(p, f"{key}_{twin.axle_of(wheel)}_{i}") for i in range(count)] for key, count in (
            ("spring_compression", 24), ("spring_force", 24), ("stop_compression", 12), ("stop_force", 12))] for wheel in WHEELS}
        self.velocities = np.zeros(6)

    def __call__(self, model, data) -> None:
        p, q = self.p, data.qfrc_applied
        q[:] = 0.0
        self._struts(data)
        turn = data.qpos[self.arm_q]
        arm = p.pitman_arm_length * np.cos(turn)
        asked = p.pitman_arm_length * np.sin(p.pitman_arm_lock) * steering(data.time)
        q[self.arm_v] += (p.steering_stiffness * (asked - p.pitman_arm_length * np.sin(turn))
                          - p.steering_damping * arm * data.qvel[self.arm_v]) * arm
        omega = data.qvel[self.spins]
        drive = THROTTLE * np.interp(omega.mean() / p.driveline_ratio, [0.0, 2000.0], [1000.0, 0.0]) / p.driveline_ratio / 4
        # Wheels on level ground: the contact point down in the wheel's plane, a spring in that plane.
        axes, centres = data.xmat[self.uprights].reshape(4, 3, 3)[:, :, 1], data.xpos[self.wheels]
        up = np.array([0.0, 0.0, 1.0])
        along = np.cross(axes, up)
        along /= np.linalg.norm(along, axis=1)[:, None]
        down = np.cross(axes, along)
        radius = -centres[:, 2] / down[:, 2]
        points = centres + down * radius[:, None]
        velocities = np.array([self._velocity(model, data, body, point) for body, point in zip(self.uprights, points)])
        cos = -down[:, 2]
        compression = p.wheel_radius - radius
        stiffness = np.repeat([p.tyre_vertical_stiffness_front, p.tyre_vertical_stiffness_rear], 2)
        damping = np.repeat([p.tyre_vertical_damping_front, p.tyre_vertical_damping_rear], 2)
        load = (stiffness * compression - np.where(compression > 0.0, damping * velocities[:, 2] / cos, 0.0)) / cos
        load = np.maximum(load, 0.0)
        rolling = np.minimum(radius, p.wheel_radius)
        across = np.cross(up, along)
        fx, fy = fiala(p, (velocities * along).sum(axis=1), (velocities * across).sum(axis=1), rolling * omega, load)
        forces = fx[:, None] * along + fy[:, None] * across + load[:, None] * up
        for wheel, point, force, axis in zip(self.wheels, points, forces, axes):
            mujoco.mj_applyFT(model, data, force, drive * axis, point, wheel, q)
            mujoco.mj_applyFT(model, data, np.zeros(3), -drive * axis, point, self.body, q)

    def _struts(self, data) -> None:
        p = self.p
        for i, wheel in enumerate(WHEELS):
            axle, table = twin.axle_of(wheel), self.tables[wheel]
            length = data.ten_length[self.springs[i]]
            data.ctrl[self.controls[0][i]] = (np.interp(getattr(p, f"spring_free_length_{axle}") - length, *table[:2])
                                              + np.interp(getattr(p, f"bump_stop_length_{axle}") - length, *table[2:])
                                              - np.interp(length - getattr(p, f"rebound_stop_length_{axle}"), *table[2:]))
            length, rate = data.ten_length[self.dampers[i]], data.ten_velocity[self.dampers[i]]
            end = "" if getattr(p, f"damper_shortest_{axle}") <= length <= getattr(p, f"damper_longest_{axle}") else "end_"
            data.ctrl[self.controls[1][i]] = -rate * getattr(p, f"damper_{end}{'rebound' if rate > 0.0 else 'compression'}_{axle}")

    def _velocity(self, model, data, body: int, point: np.ndarray) -> np.ndarray:
        """Of a point that is fixed to a body, along the axes of the world."""
        mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_XBODY, body, self.velocities, 0)
        return self.velocities[3:] + np.cross(self.velocities[:3], point - data.xpos[body])


def by_mujoco(until: float) -> tuple[np.ndarray, float]:
    """Places of the sprung mass's centre (K, 3) every 10 ms, and the largest gap of a loop [m]."""
    model, data = twin.load(twin.document(VEHICLE, STEP))
    forces = Forces(VEHICLE, model)
    data.qpos[2], data.qvel[0] = HEIGHT, SPEED
    data.qvel[forces.spins] = SPEED / VEHICLE.parameters["wheel_radius"]
    places, gap = [], 0.0
    mujoco.set_mjcb_control(forces)
    try:
        mujoco.mj_forward(model, data)
        for _ in range(round(until / 0.01) + 1):
            places.append(data.xpos[forces.body].copy())
            gap = max(gap, float(np.abs(data.efc_pos).max()))
            mujoco.mj_step(model, data, round(0.01 / STEP))
            mujoco.mj_kinematics(model, data)
    finally:
        mujoco.set_mjcb_control(None)
    return np.array(places), gap


def ours(until: float) -> dict[str, np.ndarray]:
    """States by name every 10 ms, by Runge-Kutta's method."""
    x, rolling = np.zeros(len(NAMES)), SPEED / VEHICLE.parameters["wheel_radius"]
    for name, value in {"z": HEIGHT, "vx": SPEED, **{f"omega_{wheel}": rolling for wheel in WHEELS}}.items():
        x[NAMES.index(name)] = value
    moving = np.array([field.role == "continuous" for field in MODEL.states])
    at, u, slopes, found = np.empty_like(x), np.array([0.0, THROTTLE, 0.0]), np.zeros((4, len(x))), [x.copy()]
    rhs = compiled_model_function(MODEL, "rhs").bind(at, u, VEHICLE.vector(MODEL))
    count = round(0.01 / STEP)
    for k in range(round(until / 0.01) * count):
        for stage, share in enumerate((0.0, 0.5, 0.5, 1.0)):
            at[:], u[0] = x + share * STEP * slopes[stage - 1], steering((k + share) * STEP)
            rhs.evaluate()
            slopes[stage] = rhs.results[0] * moving
        x += STEP / 6.0 * (slopes[0] + 2.0 * slopes[1] + 2.0 * slopes[2] + slopes[3])
        if (k + 1) % count == 0:
            found.append(x.copy())
    return dict(zip(NAMES, np.array(found).T))


def test_a_lane_change_after_a_landing_matches_mujoco_to_a_millimetre() -> None:
    places, gap = by_mujoco(SECONDS)
    found = ours(SECONDS)
    assert gap < 1e-4
    assert np.ptp(found["arm_angle_fl"]) > 0.1 and np.ptp(found["y"]) > 2.0 and np.abs(found["yaw_rate"]).max() > 0.3
    off = np.abs(np.column_stack([found[name] for name in "xyz"]) - places).max(axis=0)
    assert off.max() < 1e-3, off
