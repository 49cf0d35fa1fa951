"""A tyre of your own that uses the wheel's inclination and gives an aligning moment, in one file, on any chassis, by name.

    export LFDM_PLUGINS=examples/camber_tyre.py
    lfdm models twenty_four_dof/camber_tyre
    lfdm simulate --vehicle mine.yaml --model twenty_four_dof --tyre camber_tyre --inputs inputs.txt --out run.csv

mine.yaml is a vehicle file with the keys of PARAMETERS in its section `tyre`.
"""

from lfdm_ros.models import Contact, Field, Part, Record, all_parameters, register_part

SPEED_FLOOR = 0.1  # [m/s] of the slip's denominator, so that a vehicle can stand

# Shared with the Fiala tyre, by its declaration; the last two are this tyre's own.
SHARED = ("longitudinal_stiffness_front", "longitudinal_stiffness_rear", "cornering_stiffness_front", "cornering_stiffness_rear",
          "friction_max", "rolling_resistance")
PARAMETERS = (
    *(all_parameters()[name] for name in SHARED),
    Field("camber_stiffness", "N/rad", "lateral force of one tyre for a unit of inclination", "C_gamma", 0.0, 1e5),
    Field("pneumatic_trail", "m", "distance of the lateral force behind the contact's centre, without slip", "t_0", 0.0, 0.5),
)


class CamberTyre:
    """Slip and camber stiffnesses that saturate together at the friction; a trail that vanishes with the grip."""

    implicit = True

    def __init__(self, m):
        self.m = m

    def prepare(self, p):
        return Record(front=(p.longitudinal_stiffness_front, p.cornering_stiffness_front),
                      rear=(p.longitudinal_stiffness_rear, p.cornering_stiffness_rear), camber=p.camber_stiffness,
                      trail=p.pneumatic_trail, friction=p.friction_max, rolling=p.rolling_resistance)

    def forces(self, q, wheel):
        sqrt, fabs, fmax, tanh = self.m.sqrt, self.m.fabs, self.m.fmax, self.m.tanh
        cx, cy = q.front if wheel.front else q.rear
        speed = fmax(fabs(wheel.along), SPEED_FLOOR)
        s, t = (wheel.radius * wheel.omega - wheel.along) / speed, wheel.across / speed

        # A top to the right (inclination > 0, ISO 8855) pushes the vehicle to the right as slip to the left does.
        demand_x, demand_y = cx * s, -cy * t - q.camber * wheel.inclination
        grip = fmax(wheel.ground.friction * q.friction * wheel.load, 1e-6)
        use = sqrt(demand_x * demand_x + demand_y * demand_y + 1e-12) / grip
        share = tanh(use) / use
        trail = q.trail * (1.0 - tanh(use))
        return Contact(demand_x * share, demand_y * share, cx * share / speed, cy * share / speed, friction=q.rolling * wheel.load,
                       mz=trail * cy * t * share)


CAMBER_TYRE = Part("camber_tyre", "slip and camber stiffnesses, pneumatic trail", PARAMETERS, CamberTyre)
register_part("tyre", CAMBER_TYRE)
