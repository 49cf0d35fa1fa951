"""A ground of your own, in one file: waves of cosine along the map's x, ice to the left of a line, and wind from behind on the crests.

    export LFDM_PLUGINS=examples/hilly_ground.py
    lfdm simulate --vehicle mine.yaml --model twenty_four_dof/hills --inputs inputs.txt --out run.csv

mine.yaml is a vehicle file with the keys of PARAMETERS in a section `ground`. It is evaluated inside each step, at the place of each wheel.
"""

import math

from lfdm_ros.models import Field, Part, Patch, Record, register_part

PARAMETERS = (
    Field("hill_height", "m", "height of the crests over the valleys", "", 0.0, 100.0),
    Field("hill_length", "m", "distance of two crests", "", 1.0, 1e5, True),
    Field("ice_friction", "1", "friction left of y = 0 over that of the road the tyre was measured on", "", 0.0, 3.0),
    Field("crest_wind", "N", "force of the wind on the body on a crest", "", -1e5, 1e5),
)


class Hills:
    """The equations on the operations of `m`; see lfdm_ros.models.equations.Ground."""

    def __init__(self, m):
        self.m = m

    def prepare(self, p):
        return Record(half=0.5 * p.hill_height, wave=2.0 * math.pi / p.hill_length, ice=p.ice_friction, wind=p.crest_wind)

    def under(self, wheel, x, y, u, q):
        # z = H/2 (1 - cos(2 pi x / L)): a vehicle begins in a valley, on a height of 0.
        height = q.half * (1.0 - self.m.cos(q.wave * x))
        return Patch(height=height, slope_x=q.half * q.wave * self.m.sin(q.wave * x), friction=self.m.where(y > 0.0, q.ice, 1.0))

    def wind(self, x, u, q):
        crest = 0.5 * (1.0 - self.m.cos(q.wave * x.x)) * q.wind
        return crest * self.m.cos(x.yaw), -crest * self.m.sin(x.yaw)  # along x of the map, in the axes of the body


HILLS = Part("hills", "waves along x, ice on the left, wind on the crests", PARAMETERS, Hills)
register_part("ground", HILLS)
