"""The linear single-track model of paper 002 (Schramm et al. 2018): sideslip and yaw rate at constant speed, one tyre an axle.

Conventions
- The tyre forces are linear in the slip angle, without a limit; all angles are small. The lateral velocity stands for the sideslip:
  beta = vy / vx. Position and yaw follow from the velocities without that approximation.
- The longitudinal speed is constant: throttle and brake have no effect. There are no wheels that turn; wheel
  speeds, gear and engine speed are reported as 0.
- The vehicle file has the cornering stiffness of one tyre; the axle's is twice that.
- Unsprung masses stand at their axles. With them the equations are those of `eight_dof` without roll, linearised; without them,
  those of paper 002 term by term.
- The slip angle's denominator is kept above 0.1 m/s, as the tyres of the other models do: a vehicle at rest stays there.

Numerics. With constant input the equations are linear, x' = A x + b; a step adds h phi(h A) (A x + b) with phi(z) = (exp(z) - 1) / z in
its Pade form (1 - z/6) / (1 - 2z/3 + z^2/6), which is Radau IIA: third order, and a fast decay (low speed) dies out in one step. An
input that is linear over the step is used at its middle, which costs h^2 u''/24 of the input.
"""

from typing import Any

from lfdm_ros.models import chassis, fiala, steering
from lfdm_ros.models.declaration import Chassis, Field
from lfdm_ros.models.equations import Dynamics, Ground, Operations, Record, Scalar, TyreForce
from lfdm_ros.models.ground import Footing, Stance

STATES = (
    Field("x", "m", "position of the sprung mass's centre, x", "X"),
    Field("y", "m", "position of the sprung mass's centre, y", "Y"),
    Field("yaw", "rad", "yaw angle, + left", "psi"),
    Field("vx", "m/s", "longitudinal velocity, body-fixed", "v_x"),
    Field("vy", "m/s", "lateral velocity, body-fixed", "v_y"),
    Field("yaw_rate", "rad/s", "yaw rate", "omega_z"),
    Field("ax", "m/s^2", "longitudinal proper acceleration", "a_x", role="held"),
    Field("ay", "m/s^2", "lateral proper acceleration", "a_y", role="held"),
)

_DECLARED = {field.name: field for field in (*chassis.BODY, *fiala.PARAMETERS)}
# Parameters of the vehicle in a single-track model, except tyres.
BODY_PARAMETERS = tuple(_DECLARED[name] for name in ("sprung_mass", "unsprung_mass_front", "unsprung_mass_rear", "yaw_inertia",
                                                     "cg_to_front_axle", "cg_to_rear_axle"))
STIFFNESSES = tuple(_DECLARED[name] for name in ("cornering_stiffness_front", "cornering_stiffness_rear"))


def axle_loads(p: Any) -> tuple[Any, Any]:
    """Returns the load of the front and of the rear axle at rest [N], unsprung masses at their axles."""
    a, b = p.cg_to_front_axle, p.cg_to_rear_axle
    return (chassis.GRAVITY * (p.sprung_mass * b / (a + b) + p.unsprung_mass_front),
            chassis.GRAVITY * (p.sprung_mass * a / (a + b) + p.unsprung_mass_rear))


def by_wheel(front: Scalar, rear: Scalar, loads: tuple[Scalar, Scalar]) -> list[TyreForce]:
    """Makes four wheels from the lateral forces and the loads of two axles."""
    return [TyreForce(0.0, 0.5 * force, 0.5 * load) for force, load in ((front, loads[0]), (rear, loads[1])) for _ in range(2)]


def scaled(loads: tuple[Scalar, Scalar], stance: Stance) -> tuple[Scalar, Scalar]:
    """Returns the axles' loads normal to the ground [N], from those on level ground [N]."""
    return loads[0] * stance.normal, loads[1] * stance.normal


class SingleTrack:
    """Steering, ground and loads of a bicycle without drive."""

    def __init__(self, m: Operations, ground: Ground):
        self._m, self._steering, self._footing = m, steering.LinearSteering(m), Footing(m, ground)

    def stance(self, x: Record, u: Record, q: Any) -> Stance:
        return self._footing.stance(x, u, q.ground, [(q.a, 0.0), (-q.b, 0.0)])

    def wheel_loads(self, x: Record, u: Record, q: Any) -> list[Scalar]:
        return [force.fz for force in by_wheel(0.0, 0.0, scaled(q.loads, self.stance(x, u, q)))]

    def report(self, x: Record, u: Record, q: Any) -> tuple[Scalar, Scalar, Scalar]:
        return 0.0, 0.0, self._steering.angle(u.steering, q.steering)


class LinearSingleTrack(SingleTrack):
    """The equations; see `lfdm_ros.models.equations.Equations`."""

    input_time, mean_motion = 0.5, True

    def __init__(self, m: Operations, ground: Ground):
        super().__init__(m, ground)
        self.motions = (self.turning, self.travelling)

    def prepare(self, p: Any) -> Any:
        a, b = p.cg_to_front_axle, p.cg_to_rear_axle
        mass = p.sprung_mass + p.unsprung_mass_front + p.unsprung_mass_rear
        first = p.unsprung_mass_rear * b - p.unsprung_mass_front * a
        # Lateral and yaw acceleration for a unit of lateral force at the front and at the rear axle.
        det = mass * p.yaw_inertia - first * first
        return Record(a=a, b=b, cf=2.0 * p.cornering_stiffness_front, cr=2.0 * p.cornering_stiffness_rear,
                      yf=(p.yaw_inertia + first * a) / det, yr=(p.yaw_inertia - first * b) / det,
                      zf=(mass * a + first) / det, zr=(first - mass * b) / det, y=p.yaw_inertia / det, z=first / det,
                      loads=axle_loads(p), steering=self._steering.prepare(p), ground=self._footing.prepare(p))

    def slip_speed(self, vx: Scalar) -> Scalar:
        return self._m.fmax(self._m.fabs(vx), fiala.SLIP_SPEED_FLOOR)

    # -- Axle forces C alpha with alpha_f = delta - beta - a r / v, alpha_r = b r / v - beta (002; Schramm et al. 2018, p. 230) ---
    def axle_forces(self, x: Record, delta: Scalar, q: Any) -> tuple[Scalar, Scalar]:
        speed = self.slip_speed(x.vx)
        return (q.cf * (x.vx * delta - x.vy - q.a * x.yaw_rate) / speed, q.cr * (q.b * x.yaw_rate - x.vy) / speed)

    def accelerations(self, x: Record, delta: Scalar, wind: Scalar, q: Any) -> tuple[Scalar, Scalar]:
        """Returns the proper lateral acceleration and yaw acceleration; the wind acts at the sprung mass's centre."""
        front, rear = self.axle_forces(x, delta, q)
        return q.yf * front + q.yr * rear + q.y * wind, q.zf * front + q.zr * rear + q.z * wind

    # -- Sideslip and yaw rate (002), by the Pade form of their exponential ----------------------------------------------------
    def dynamics(self, x: Record, u: Record, q: Any, h: Scalar) -> Dynamics:
        delta = self._steering.angle(u.steering, q.steering)
        stance = self.stance(x, u, q)
        wind = stance.wind[1]
        ay, yaw_acc = self.accelerations(x, delta, wind, q)
        vy_dot = ay - x.vx * x.yaw_rate + chassis.GRAVITY * stance.left
        # h A, in the order vy, yaw rate.
        scale = h / self.slip_speed(x.vx)
        a11, a12 = -(q.yf * q.cf + q.yr * q.cr) * scale, (q.yr * q.cr * q.b - q.yf * q.cf * q.a) * scale - h * x.vx
        a21, a22 = -(q.zf * q.cf + q.zr * q.cr) * scale, (q.zr * q.cr * q.b - q.zf * q.cf * q.a) * scale
        n1, n2 = vy_dot - (a11 * vy_dot + a12 * yaw_acc) / 6.0, yaw_acc - (a21 * vy_dot + a22 * yaw_acc) / 6.0
        trace, product = a11 + a22, a12 * a21
        d11, d12 = 1.0 - 2.0 / 3.0 * a11 + (a11 * a11 + product) / 6.0, (trace / 6.0 - 2.0 / 3.0) * a12
        d22, d21 = 1.0 - 2.0 / 3.0 * a22 + (a22 * a22 + product) / 6.0, (trace / 6.0 - 2.0 / 3.0) * a21
        det = d11 * d22 - d12 * d21

        def late(new: Record) -> Record:
            after, _ = self.accelerations(new, delta, wind, q)
            return Record(ax=-new.yaw_rate * new.vy, ay=after)

        changes = Record(vx=0.0, vy=(d22 * n1 - d12 * n2) / det, yaw_rate=(d11 * n2 - d21 * n1) / det, ax=-x.yaw_rate * x.vy, ay=ay)
        return Dynamics(changes, by_wheel(*self.axle_forces(x, delta, q), scaled(q.loads, stance)), late)

    def turning(self, x: Record, u: Record, q: Any) -> Record:
        return Record(yaw=x.yaw_rate * self.stance(x, u, q).turn)

    def travelling(self, x: Record, u: Record, q: Any) -> Record:
        return self._footing.travel(x, self.stance(x, u, q))


CHASSIS = Chassis(
    name="linear_single_track",
    description="linear single-track: sideslip and yaw rate at constant speed, linear tyres; throttle and brake have no effect",
    source="paper 002 (Rhode) after Schramm, Hiller, Bardini 2018, p. 230",
    states=STATES, parameters=(*BODY_PARAMETERS, *STIFFNESSES, *steering.LINEAR.parameters),
    build=LinearSingleTrack, wheels=("front", "rear"), slots=("ground",), friction_scale=False,
)
