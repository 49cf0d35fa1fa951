"""The nonlinear bicycle of paper 004 (eqs 10-15): longitudinal, lateral and yaw motion on a friction coefficient for each axle.

The vehicle coasts: the paper has no thrust, so throttle and brake have no effect and speed is lost only to the lateral force of the
steered tyres. There are no wheels that turn and there is no load transfer; wheel speeds, gear and engine speed are reported as 0.

Differences from the paper, and why
- The critical slip angle alpha_c, where the contact patch begins to slide, is not a parameter of its own: eqs 12-13 begin with the slope
  mu W / (2 tan alpha_c), and that is the axle's cornering stiffness, which vehicle files have for one tyre (the axle has twice that).
  On ice the tyre therefore starts to slide earlier but is not softer (Wong 2008, section 1.4).
- Eqs 14-15 through the velocity of the contact patch in the frame of the wheel: tan alpha = -v_t / u_t. That is the same angle,
  without the arcus tangent, and holds for slip to both sides and in reverse.
- Unsprung masses stand at their axles, off the sprung mass's centre, as in the other models; without them eq 10 stands as it is.
- u_t is kept above 0.1 m/s. A step takes the tyre as a damper -F / v_t on the velocity at its end: at low speed that is stiff, and a
  sliding tyre must not turn its velocity round.
"""

from typing import Any

from lfdm_ros.models import chassis, fiala, steering
from lfdm_ros.models.declaration import Chassis, Field
from lfdm_ros.models.equations import Dynamics, Ground, Operations, Record, Scalar
from lfdm_ros.models.linear_single_track import BODY_PARAMETERS, STATES, STIFFNESSES, SingleTrack, axle_loads, by_wheel, scaled

FRICTION = (
    Field("friction_front", "1", "peak friction coefficient of tyre and road, front axle", "mu_f", 0.0, 3.0, True),
    Field("friction_rear", "1", "peak friction coefficient of tyre and road, rear axle", "mu_r", 0.0, 3.0, True),
)


class NonlinearBicycle(SingleTrack):
    """The equations; see `lfdm_ros.models.equations.Equations`."""

    input_time, mean_motion = 0.5, False

    def __init__(self, m: Operations, ground: Ground):
        super().__init__(m, ground)
        self.motions = (self.motion,)

    def prepare(self, p: Any) -> Any:
        a, b = p.cg_to_front_axle, p.cg_to_rear_axle
        return Record(a=a, b=b, mass=p.sprung_mass + p.unsprung_mass_front + p.unsprung_mass_rear,
                      first=p.unsprung_mass_rear * b - p.unsprung_mass_front * a, yaw_inertia=p.yaw_inertia,
                      frictions=(p.friction_front, p.friction_rear),
                      stiffnesses=(2.0 * p.cornering_stiffness_front, 2.0 * p.cornering_stiffness_rear), loads=axle_loads(p),
                      steering=self._steering.prepare(p), ground=self._footing.prepare(p))

    # -- Lateral force of an axle (004 eqs 12-15), and the damper -F / v_t that it is at this velocity -------------------------
    def axle(self, ut: Scalar, vt: Scalar, limit: Scalar, stiffness: Scalar) -> tuple[Scalar, Scalar]:
        # Critical slip tan alpha_c = mu W / (2 C).
        critical = limit / (2.0 * stiffness)
        where, fabs, fmax = self._m.where, self._m.fabs, self._m.fmax
        speed = fmax(fabs(ut), fiala.SLIP_SPEED_FLOOR)
        slip = -vt / speed
        sliding = fabs(slip) > critical
        slip_safe = where(sliding, fabs(slip), 1.0)
        rest = limit * critical / (2.0 * slip_safe)
        force = where(sliding, where(slip < 0.0, rest - limit, limit - rest), stiffness * slip)
        return force, where(sliding, (limit - rest) / slip_safe, stiffness) / speed

    # -- Accelerations (004 eq 10), implicit over h, and the forces that make them ---------------------------------------------
    def dynamics(self, x: Record, u: Record, q: Any, h: Scalar) -> Dynamics:
        a, b, first, yaw_rate = q.a, q.b, q.first, x.yaw_rate
        delta = self._steering.angle(u.steering, q.steering)
        c, s = self._m.cos(delta), self._m.sin(delta)
        vf, vr = x.vy + a * yaw_rate, x.vy - b * yaw_rate
        stance = self.stance(x, u, q)
        loads = scaled(q.loads, stance)
        limit_f, limit_r = (patch.friction * friction * load for patch, friction, load in zip(stance.patches, q.frictions, loads))
        front, kf = self.axle(x.vx * c + vf * s, vf * c - x.vx * s, limit_f, q.stiffnesses[0])
        rear, kr = self.axle(x.vx, vr, limit_r, q.stiffnesses[1])

        # Unknowns ax = du/dt - r v - g_x, ay = dv/dt + r u - g_y, with gravity g_x, g_y along the ground (0 where it is level), and the yaw
        # acceleration; the dampers act on du/dt, dv/dt and dr/dt.
        kf, kr = h * kf, h * kr
        kuu, kuv, kur = kf * s * s, -kf * s * c, -kf * s * c * a
        kvv, kvr, krr = kf * c * c + kr, kf * c * c * a - kr * b, kf * c * c * a * a + kr * b * b
        wind_x, wind_y = stance.wind
        rv, ru = yaw_rate * x.vy + chassis.GRAVITY * stance.ahead, yaw_rate * x.vx - chassis.GRAVITY * stance.left
        e1 = -front * s + wind_x - first * yaw_rate * yaw_rate - kuu * rv + kuv * ru
        e2 = front * c + rear + wind_y - kuv * rv + kvv * ru
        e3 = a * front * c - b * rear - kur * rv + kvr * ru
        ax, ay, yaw_acc = chassis.solve_symmetric(q.mass + kuu, kuv, kur, q.mass + kvv, kvr - first, q.yaw_inertia + krr, e1, e2, e3)

        ud, vd = ax + rv, ay - ru
        front = front - kf * ((vd + a * yaw_acc) * c - ud * s)
        rear = rear - kr * (vd - b * yaw_acc)
        return Dynamics(Record(vx=ud, vy=vd, yaw_rate=yaw_acc, ax=ax, ay=ay), by_wheel(front, rear, loads))

    def motion(self, x: Record, u: Record, q: Any) -> Record:
        stance = self.stance(x, u, q)
        return self._footing.travel(x, stance).but(yaw=x.yaw_rate * stance.turn)  # 004 eq 11


CHASSIS = Chassis(
    name="nonlinear_bicycle",
    description="nonlinear bicycle: planar motion, sliding tyres, friction by axle; throttle and brake have no effect",
    source="paper 004 (Schmitt et al. 2008) eqs 10-15",
    states=STATES, parameters=(*BODY_PARAMETERS, *STIFFNESSES, *FRICTION, *steering.LINEAR.parameters),
    build=NonlinearBicycle, wheels=("front", "rear"), slots=("ground",), friction_scale=False,
)
