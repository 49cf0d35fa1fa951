"""The kinematic bicycle: wheels without side slip, with the drive and brakes of `driven_bicycle`. A baseline for controllers.

The rear axle does not slip, so yaw rate = vx tan(delta) / wheelbase and vy = yaw rate times the distance of the rear axle, without delay:
both are held values, not states. The lateral acceleration is that of a steady turn. Friction bounds drive and brakes only. Parameters are
those of `driven_bicycle`; those of the tyres' lateral stiffness have no effect.
"""

from dataclasses import replace
from typing import Any

from lfdm_ros.models.chassis import GRAVITY
from lfdm_ros.models.declaration import Chassis
from lfdm_ros.models.driven_bicycle import PARAMETERS, DrivenBicycle, friction_share, stop_time
from lfdm_ros.models.equations import Dynamics, Record, Scalar
from lfdm_ros.models.linear_single_track import STATES


class KinematicBicycle(DrivenBicycle):
    """The equations; see `lfdm_ros.models.equations.Equations`."""

    def prepare(self, p: Any) -> Any:
        return Record(axles=self._axles.prepare(p), steering=self._steering.prepare(p))

    # -- Wheels that do not slip sideways (004 eqs 14-15 with alpha = 0) -------------------------------------------------------
    def turn(self, vx: Scalar, u: Record, q: Any) -> tuple[Scalar, Scalar]:
        """Returns yaw rate, and vy of the sprung mass's centre."""
        delta = self._steering.angle(u.steering, q.steering)
        yaw_rate = vx * self._m.sin(delta) / (self._m.cos(delta) * (q.axles.a + q.axles.b))
        return yaw_rate, q.axles.b * yaw_rate

    # -- Along (first of 004 eqs 10), and the forces of the axles; across, what a steady turn needs ----------------------------
    def dynamics(self, x: Record, u: Record, q: Any, h: Scalar) -> Dynamics:
        where, vx, axle = self._m.where, x.vx, q.axles
        stance = self.stance(x, u, q)
        (wind_x, wind_y), gravity_x, gravity_y = stance.wind, GRAVITY * stance.ahead, GRAVITY * stance.left
        (drive_f, hold_f, _), (drive_r, hold_r, _) = self._axles.forces(vx, (0.0, 0.0), x.ax, u, stance, axle)
        time = stop_time(self._m, h)
        free, slowed = (drive_f + drive_r + wind_x) / axle.mass + gravity_x, (hold_f + hold_r) / axle.mass
        share, stops = friction_share(self._m, vx / time + free, slowed)
        ud = where(stops, -vx / time, free - share * slowed)

        delta, ay, base = self._steering.angle(u.steering, q.steering), self.turn(vx, u, q)[0] * vx - gravity_y, axle.a + axle.b
        front = ((axle.mass * axle.b - axle.first) * ay - wind_y * axle.b) / base
        rear = ((axle.mass * axle.a + axle.first) * ay - wind_y * axle.a) / base
        forces = self._axles.split(x, (drive_f - share * hold_f, front / self._m.cos(delta)), (drive_r - share * hold_r, rear), stance,
                                   axle)

        def held_values(vx: Scalar) -> Record:
            yaw_rate, vy = self.turn(vx, u, q)
            return Record(vy=vy, yaw_rate=yaw_rate, ax=ud - yaw_rate * vy - gravity_x, ay=yaw_rate * vx - gravity_y)

        def late(new: Record) -> Record:
            speed = where(stops, 0.0, new.vx)
            return held_values(speed).but(vx=speed)

        return Dynamics(held_values(vx).but(vx=ud), forces, late)

    def turning(self, x: Record, u: Record, q: Any) -> Record:
        return Record(yaw=self.turn(x.vx, u, q)[0] * self.stance(x, u, q).turn)

    def travelling(self, x: Record, u: Record, q: Any) -> Record:
        return self._axles.footing.travel(x.but(vy=self.turn(x.vx, u, q)[1]), self.stance(x, u, q))


CHASSIS = Chassis(
    name="kinematic_bicycle",
    description="kinematic bicycle: wheels that do not slip sideways, drive and brakes of driven_bicycle",
    source="paper 004 eqs 10-11 with slip angles of 0",
    states=tuple(replace(field, role="held") if field.name in ("vy", "yaw_rate") else field for field in STATES),
    parameters=PARAMETERS, build=KinematicBicycle, wheels=("front", "rear"), slots=("ground",),
)
