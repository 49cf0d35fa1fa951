"""A tyre of your own, in one file: Dugoff, Fancher & Segel 1970 (SAE 700377), on any chassis, by name.

    export LFDM_PLUGINS=examples/dugoff_tyre.py
    lfdm models eight_dof/dugoff
    lfdm simulate --vehicle mine.yaml --model eighteen_dof --tyre dugoff --inputs inputs.txt --out run.csv

mine.yaml is a vehicle file with the keys of PARAMETERS in its section `tyre`.
"""

from lfdm_ros.models import Contact, Field, Part, Record, all_parameters, register_part

SPEED_FLOOR = 0.1  # [m/s] of the slip's denominator, so that a vehicle can stand

# Shared with the Fiala tyre, by its declaration; the last is this tyre's own.
SHARED = ("longitudinal_stiffness_front", "longitudinal_stiffness_rear", "cornering_stiffness_front", "cornering_stiffness_rear",
          "friction_max", "rolling_resistance")
PARAMETERS = (
    *(all_parameters()[name] for name in SHARED),
    Field("dugoff_friction_reduction", "s/m", "fall of the friction coefficient with the sliding speed", "A_s", 0.0, 0.1),
)


class Dugoff:
    """The equations on the operations of `m` (where, sqrt, fabs, fmin, fmax, sin, cos, tanh); see lfdm_ros.models.equations.Tyre."""

    implicit = True

    def __init__(self, m):
        self.m = m

    def prepare(self, p):
        return Record(front=(p.longitudinal_stiffness_front, p.cornering_stiffness_front),
                      rear=(p.longitudinal_stiffness_rear, p.cornering_stiffness_rear),
                      friction=p.friction_max, reduction=p.dugoff_friction_reduction, rolling=p.rolling_resistance)

    def forces(self, q, wheel):
        sqrt, fabs, fmin, fmax = self.m.sqrt, self.m.fabs, self.m.fmin, self.m.fmax
        cx, cy = q.front if wheel.front else q.rear
        vx, rim = wheel.along, wheel.radius * wheel.omega
        # Slip in the rolling direction, over the larger of both speeds, so that it stays between -1 and 1; t is tan(alpha) over the same.
        speed = fmax(fmax(fabs(vx), fabs(rim)), SPEED_FLOOR)
        s, t = (rim - vx) / speed, wheel.across / speed

        # Dugoff eqs 4 to 9: friction falls with the sliding speed, and where it is used up, lambda < 1, the forces fall short.
        most = wheel.ground.friction * q.friction
        mu = fmax(most * (1.0 - q.reduction * speed * sqrt(s * s + t * t + 1e-24)), 0.1 * most)
        use = sqrt(cx * s * cx * s + cy * t * cy * t + 1e-12)
        share = fmin(mu * wheel.load / (2.0 * use), 1.0)
        kept = share * (2.0 - share)
        # Slopes against the slip velocity, by which a wheel is solved within a step: those of the secant.
        return Contact(cx * s * kept, -cy * t * kept, cx * kept / speed, cy * kept / speed, friction=q.rolling * wheel.load)


DUGOFF = Part("dugoff", "Dugoff tyre: slip stiffnesses and a friction that falls with the sliding speed", PARAMETERS, Dugoff)
register_part("tyre", DUGOFF)
