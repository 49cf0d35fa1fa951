"""A vehicle with three axles in one file: the chassis of `eight_dof` on six wheels, with any tyre, ground and powertrain without a gearbox.

    export LFDM_PLUGINS=examples/six_by_six.py
    lfdm models six_by_six
    lfdm simulate --vehicle mine.yaml --model six_by_six --tyre fiala --inputs inputs.txt --out run.csv

mine.yaml is a vehicle file with `cg_to_middle_axle` in its section `chassis`. The middle axle is otherwise as the rear one.
"""

from lfdm_ros.models import Chassis, Field, register_chassis
from lfdm_ros.models.chassis import GRAVITY, centre_height
from lfdm_ros.models.roll_chassis import PARAMETERS, RollChassis, states

WHEELS = ("fl", "fr", "ml", "mr", "rl", "rr")
MIDDLE = Field("cg_to_middle_axle", "m", "distance of the middle axle behind the sprung mass's centre, below 0 before it", "", -20.0, 20.0)


class SixWheels(RollChassis):
    """Three axles in place of two: how the weight, accelerations and the wind share out on them. The dynamics are the base's.

    The load of three axles is not given by statics alone. Here the body is a rigid beam on equal springs: the loads are linear in x.
    """

    def prepare(self, p):
        q = super().prepare(p)
        front, rear = q.axles
        places = (front.x, -p.cg_to_middle_axle, rear.x)
        unsprung = (p.unsprung_mass_front, p.unsprung_mass_rear, p.unsprung_mass_rear)
        drops = (p.roll_centre_drop_front, p.roll_centre_drop_rear, p.roll_centre_drop_rear)
        mean = sum(places) / 3.0
        spread = sum((x - mean) * (x - mean) for x in places)
        # Shares of the sprung mass, which add up to 1 with their centre at x = 0, and what a unit of pitching moment puts on each axle.
        shares = [1.0 / 3.0 - mean * (x - mean) / spread for x in places]
        pitches = [(x - mean) / spread for x in places]

        statics = [0.5 * GRAVITY * (p.sprung_mass * share + p.unsprung_load_share * mass) for share, mass in zip(shares, unsprung)]
        stiffness = (p.tyre_vertical_stiffness_front, p.tyre_vertical_stiffness_rear, p.tyre_vertical_stiffness_rear)
        moments = [p.unsprung_load_share * mass * centre_height(p, static, k) for mass, static, k in zip(unsprung, statics, stiffness)]
        moment = p.sprung_mass * p.cg_height + sum(moments)

        axles = []
        for like, x, share, static, pitch, own, drop in zip((front, rear, rear), places, shares, statics, pitches, moments, drops):
            arm = share * (p.cg_height - drop) / (2.0 * like.half)
            axles.append(like.but(x=x, static=static, pitch=0.5 * pitch * moment, wind_pitch=0.5 * pitch * p.cg_height,
                                  lateral=own / (2.0 * like.half) + p.sprung_mass * arm, wind_lateral=arm))

        # Roll: three springs and dampers; the axis is below the centre by the mean of the roll centres as the axles carry it.
        drop = sum(share * d for share, d in zip(shares, drops))
        lever = p.sprung_mass * drop
        loads = q.loads.but(drop=drop, weight=lever * GRAVITY, roll_springs=p.roll_stiffness_front + 2.0 * p.roll_stiffness_rear)
        return q.but(axles=axles, loads=loads, lever=lever, mass=p.sprung_mass + sum(unsprung),
                     first=-sum(mass * x for mass, x in zip(unsprung, places)), roll_inertia=p.roll_inertia + lever * drop,
                     roll_damping=p.roll_damping_front + 2.0 * p.roll_damping_rear)


SIX_BY_SIX = Chassis("six_by_six", "three axles on the roll chassis: longitudinal, lateral, yaw, roll and six wheel spins",
                     "paper 000 eqs 4-13", states(WHEELS), (*PARAMETERS, MIDDLE), SixWheels, wheels=WHEELS)
register_chassis(SIX_BY_SIX)
