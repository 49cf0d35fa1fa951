"""Differences of the C++ library LFDM from physics: vehicles imported from its files have `conventions: lfdm`.

Each class derives from one of the package and implements the difference; docs/concepts/lfdm_differences.md quantifies each.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from lfdm_ros.models.chassis import Spin
from lfdm_ros.models.declaration import Conventions, Field, per_wheel
from lfdm_ros.models.eleven_dof import ElevenDof
from lfdm_ros.models.equations import Contact, Dynamics, Operations, Record, Scalar, Wheel
from lfdm_ros.models.gearbox import Automatic, Gearbox
from lfdm_ros.models.ground import Stance
from lfdm_ros.models.roll_chassis import RollChassis
from lfdm_ros.models.tmeasy import RelaxingTmeasy, SteadyTmeasy, Tmeasy
from lfdm_ros.models.twenty_four_dof import Incline, TwentyFourDof

GRAVITY = 9.81  # [m/s^2]


def unloaded_radius(p: Any, load: Any, stiffness: Any) -> Any:
    """Returns the height of the unsprung masses: the tyre is not compressed."""
    return p.wheel_radius


def spin(m: Operations, contact: Contact, omega: Any, radius: Any, inertia: Any, drive: Any, brake: Any, h: Any) -> Spin:
    """Solves as `chassis.spin`, but friction has the sign of the speed at the start of the step, and the force is that of the start."""
    sign = m.where(omega > 0.0, 1.0, m.where(omega < 0.0, -1.0, 0.0))
    total = drive + contact.my - sign * (contact.friction + brake) - radius * contact.fx
    return Spin(total / (inertia + h * radius * radius * contact.kx), contact.fx, contact.kx, 0.0)


def stopped(m: Operations, states: Record, ground: Scalar) -> Record:
    """Returns the states of a wheel without ground contact: stopped, with zero tyre deflection."""
    return states.but(**{name: m.where(ground, value, 0.0) for name, value in vars(states).items()
                         if name in ("omega", "tyre_deflection_x", "tyre_deflection_y")})


def straight(m: Operations, changes: Record, ground: Scalar) -> Record:
    """Returns the changes of a wheel; without ground contact the tyre stays undeflected."""
    return changes.but(**{name: m.where(ground, value, 0.0) for name, value in vars(changes).items() if name.startswith("tyre_deflection")})


def of_new_velocities(d: Dynamics, stance: Stance) -> Dynamics:
    """Returns du/dt and dv/dt of the step, with u, v, r of the next one for the rest of the proper acceleration."""
    gravity_x, gravity_y = GRAVITY * stance.ahead, GRAVITY * stance.left

    def late(new: Record) -> Record:
        return Record(ax=d.changes.vx - new.yaw_rate * new.vy - gravity_x, ay=d.changes.vy + new.yaw_rate * new.vx - gravity_y)

    return Dynamics(d.changes, d.forces, late, d.start)


def with_stopping(m: Operations, dynamics: Callable[[Record], Dynamics], x: Record, loads: Sequence[Scalar], stance: Stance) -> Dynamics:
    """Returns the dynamics from states x, in which wheels without load stop."""
    ground = [m.fmax(load, 0.0) > 0.0 for load in loads]
    start = x.but(wheels=tuple(stopped(m, states, g) for states, g in zip(x.wheels, ground)))
    d = dynamics(start)
    wheels = tuple(straight(m, changes, g) for changes, g in zip(d.changes.wheels, ground))
    return of_new_velocities(Dynamics(d.changes.but(wheels=wheels), d.forces, start=start), stance)


# -- Chassis ------------------------------------------------------------------------------------------------------------------


class LfdmRollChassis(RollChassis):
    """18-DOF: half of the unsprung mass in the coupling of yaw and lateral motion; a wheel without load stops."""

    input_time = 0.0
    spin = staticmethod(spin)
    gravity = GRAVITY
    centre_height = staticmethod(unloaded_radius)

    def prepare(self, p: Any) -> Any:
        q = super().prepare(p)
        return q.but(first=0.5 * q.first)

    def dynamics(self, x: Record, u: Record, q: Any, h: Scalar) -> Dynamics:
        dynamics, stance = super().dynamics, self.stance(x, u, q)
        return with_stopping(self._m, lambda start: dynamics(start, u, q, h), x, self.wheel_loads(x, u, q), stance)


class LfdmElevenDof(ElevenDof):
    """11-DOF: an axle has one tyre and the brake of one wheel; no coupling by the unsprung masses; a wheel without load stops."""

    input_time = 0.0
    spin = staticmethod(spin)
    gravity = GRAVITY
    centre_height = staticmethod(unloaded_radius)
    tyres = 1.0

    def prepare(self, p: Any) -> Any:
        # Its relaxing axle tyre is compressed by the load of one wheel on the stiffness of two.
        q = super().prepare(_doubled(p, "tyre_vertical_stiffness_front", "tyre_vertical_stiffness_rear")
                            if isinstance(self._tyre, RelaxingTmeasy) else p)
        return q.but(first=0.0)

    def dynamics(self, x: Record, u: Record, q: Any, h: Scalar) -> Dynamics:
        dynamics, stance = super().dynamics, self.stance(x, u, q)
        return with_stopping(self._m, lambda start: dynamics(start, u, q, h), x, self.axle_loads(x, stance, q), stance)


class LfdmTwentyFourDof(TwentyFourDof):
    """24-DOF: strut rates, jacking forces and loaded radii of the last step; a wheel without load stops, its tyre compressed to nothing."""

    input_time = 0.0
    spin = staticmethod(spin)
    gravity = GRAVITY

    def dynamics(self, x: Record, u: Record, q: Any, h: Scalar) -> Dynamics:
        m, wheels = self._m, []
        inclines = [Incline(m, x.yaw, patch) for patch in self.stance(x, u, q).patches]
        for i, (states, at, deviation) in enumerate(zip(x.wheels, inclines, self.free_deviations(x, inclines, q))):
            ground = q.loads[i // 2] + deviation > 0.0
            wheels.append(stopped(m, states, ground).but(
                tyre_compression=m.where(ground, states.tyre_compression, -q.compressions[i // 2] - at.height), ground=ground,
                deviation=m.where(ground, deviation, -q.loads[i // 2])))
        start = x.but(wheels=tuple(wheels))
        d = super().dynamics(start, u, q, h)
        changes = tuple(straight(m, changes, states.ground) for changes, states in zip(d.changes.wheels, wheels))
        return Dynamics(d.changes.but(wheels=changes), d.forces, d.late, start)

    def deviations(self, x: Record, inclines: Sequence[Incline], q: Any) -> list[Scalar]:
        return [states.deviation for states in x.wheels]

    def strut_rate(self, states: Record, rate: Scalar) -> Scalar:
        return states.strut_rate

    def contact_arm(self, states: Record, radius: Scalar) -> Scalar:
        return states.loaded_radius

    def jacking(self, x: Record, forces: Sequence[Scalar]) -> Sequence[Scalar]:
        return x.jacking_front, x.jacking_rear

    def cross_slope(self, wheel: int, sin_p: Scalar, cos_t: Scalar) -> Scalar:
        return sin_p if wheel == 3 else sin_p * cos_t

    def loaded_radius(self, states: Record, axle: int, level: Scalar, incline: Incline, q: Any) -> Scalar:
        return self._m.where(states.ground, super().loaded_radius(states, axle, level, incline, q), q.radius)

    def carried(self, states: Record, fx: Scalar, fy: Scalar) -> tuple[Scalar, Scalar]:
        return self._m.where(states.ground, fx, 0.0), self._m.where(states.ground, fy, 0.0)

    def completed(self, dynamics: Dynamics, corners: Sequence[Record], jacking: Sequence[Scalar]) -> Dynamics:
        wheels = [changes.but(strut_rate=corner.rate, loaded_radius=corner.radius)
                  for changes, corner in zip(dynamics.changes.wheels, corners)]
        front, rear = jacking
        return Dynamics(dynamics.changes.but(wheels=wheels, jacking_front=front, jacking_rear=rear), dynamics.forces, dynamics.late)


# Value of the last step.
TWENTY_FOUR_DOF_STATES = (
    *per_wheel("strut_rate", "m/s", "compression rate of the strut in the last step", role="held"),
    Field("jacking_front", "N", "jacking force of the front axle in the last step", role="held"),
    Field("jacking_rear", "N", "jacking force of the rear axle in the last step", role="held"),
    *per_wheel("loaded_radius", "m", "loaded radius in the last step", role="held"),
)


# -- Tyres --------------------------------------------------------------------------------------------------------------------


class _SlipAngle(Tmeasy):
    """The lateral slip is -tan(atan(v / transport velocity) - steering angle), v in the body's frame: its sign turns where the wheel
    slides by more than 90 degrees."""

    def slip_across(self, wheel: Wheel, transport: Scalar) -> tuple[Scalar, Scalar]:
        return wheel.vy, (transport * wheel.sin - wheel.vy * wheel.cos) / (transport * wheel.cos + wheel.vy * wheel.sin)


class LfdmRelaxingTmeasy(_SlipAngle, RelaxingTmeasy):
    """The floor of the rolling speed is not weighted as the speed is: a locked wheel slides with hx and hy times the curve's force."""

    def transports(self, k: Record) -> tuple[Scalar, Scalar]:
        floor = k.transport - k.rolling_speed
        return k.rolling_speed * k.hx + floor, k.rolling_speed * k.hy + floor


class LfdmSteadyTmeasy(_SlipAngle, SteadyTmeasy):
    """Rolling resistance is a torque that follows the wheel's speed; a parked vehicle creeps."""

    implicit = False

    def rolling(self, fx: Scalar, fy: Scalar, resistance: Scalar, wheel: Wheel) -> Contact:
        return Contact(fx, fy, my=-resistance * self._m.tanh(wheel.omega))


def _doubled(p: Any, *names: str) -> Any:
    return Record(**{**vars(p), **{name: 2.0 * getattr(p, name) for name in names}})


def _forces(p: Any) -> list[str]:
    """Returns the parameters of the force table that are forces, not slips."""
    return [name for name in vars(p) if name.startswith("tmeasy_") and ("_slope_" in name or "_force_" in name)]


class LfdmRelaxingAxle(LfdmRelaxingTmeasy):
    """One tyre for the two of an axle: twice the forces, at twice the load."""

    def prepare(self, p: Any) -> Any:
        return super().prepare(_doubled(
            p, *_forces(p), "rolling_resistance_coefficient", "tyre_nominal_load", "tyre_maximum_load", "carcass_stiffness_longitudinal",
            "carcass_stiffness_lateral", "carcass_damping_longitudinal", "carcass_damping_lateral"))


class LfdmSteadyAxle(LfdmSteadyTmeasy):
    """One tyre for the two of an axle: twice the forces at the load of one, and twice the friction on top."""

    def prepare(self, p: Any) -> Any:
        return super().prepare(_doubled(p, *_forces(p), "rolling_resistance_coefficient"))

    def forces(self, q: Any, wheel: Wheel) -> Contact:
        return super().forces(q, replace(wheel, ground=replace(wheel.ground, friction=2.0 * wheel.ground.friction)))


# -- Powertrains ----------------------------------------------------------------------------------------------------------------


class LfdmGearbox(Gearbox):
    """No engine braking if the vehicle, instead of the wheels, stands or rolls backwards."""

    def standing(self, speed: Scalar, travel: Scalar) -> Scalar:
        return travel < 1e-9


class LfdmAutomatic(Automatic):
    """Automatic with the engine brake of `LfdmGearbox`; the converter's torque changes its sign abruptly."""

    def carried_share(self, ratio: Scalar) -> Scalar:
        return self._m.where(ratio > 1.0, -1.0, 1.0)

    def standing(self, speed: Scalar, travel: Scalar) -> Scalar:
        return travel < 1e-9


LFDM = Conventions(
    "lfdm", "the choices of the C++ library, docs/concepts/lfdm_differences.md",
    variants={RollChassis: LfdmRollChassis, ElevenDof: LfdmElevenDof, TwentyFourDof: LfdmTwentyFourDof, RelaxingTmeasy: LfdmRelaxingTmeasy,
              SteadyTmeasy: LfdmSteadyTmeasy, Gearbox: LfdmGearbox, Automatic: LfdmAutomatic},
    of_axles={RelaxingTmeasy: LfdmRelaxingAxle, SteadyTmeasy: LfdmSteadyAxle},
    more_states={TwentyFourDof: TWENTY_FOUR_DOF_STATES})
