"""Vehicles with three and with five axles in one file: the chassis of `eight_dof` on six or ten wheels, with any tyre and ground, and any
powertrain without a gearbox.

    export LFDM_PLUGINS=examples/six_by_six.py
    lfdm models six_by_six
    lfdm simulate --vehicle mine.yaml --model six_by_six --tyre fiala --inputs inputs.txt --out run.csv

mine.yaml is a vehicle file with `cg_to_middle_axle` in its section `chassis`; for `five_axles` with `cg_to_axle_2`, `cg_to_axle_3` and
`cg_to_axle_4`. Otherwise all axles but the first are as the rear one, and only the first is steered.

`five_axles` is a rigid truck with the axles of a tractor and its semitrailer: what these two are while they are held in line. A tractor
that bends at its kingpin is two bodies, which needs equations of its own.
"""

from lfdm_ros.models import Chassis, Field, register_chassis
from lfdm_ros.models.chassis import GRAVITY, centre_height
from lfdm_ros.models.roll_chassis import PARAMETERS, RollChassis, states

WHEELS_OF_SIX = ("fl", "fr", "ml", "mr", "rl", "rr")
WHEELS_OF_TEN = ("fl", "fr", "2l", "2r", "3l", "3r", "4l", "4r", "rl", "rr")


def place(name, which):
    """The parameter of where an axle is."""
    return Field(name, "m", f"distance of the {which} axle behind the sprung mass's centre, below 0 before it", "", -20.0, 20.0)


class ManyAxles(RollChassis):
    """More axles than two: how the weight, accelerations and the wind share out on them. The dynamics are the base's.

    The loads of more than two axles are not given by statics alone. Here the body is a rigid beam on equal springs: they are linear in x.
    """

    between = ()  # the parameters of where the axles between the first and the last are

    def prepare(self, p):
        q = super().prepare(p)
        front, rear = q.axles
        places = (front.x, *(-getattr(p, name) for name in self.between), rear.x)
        count = len(places)
        unsprung = (p.unsprung_mass_front, *[p.unsprung_mass_rear] * (count - 1))
        drops = (p.roll_centre_drop_front, *[p.roll_centre_drop_rear] * (count - 1))
        mean = sum(places) / count
        spread = sum((x - mean) * (x - mean) for x in places)
        # Shares of the sprung mass, which add up to 1 with their centre at x = 0, and what a unit of pitching moment puts on each axle.
        shares = [1.0 / count - mean * (x - mean) / spread for x in places]
        pitches = [(x - mean) / spread for x in places]

        statics = [0.5 * GRAVITY * (p.sprung_mass * share + p.unsprung_load_share * mass) for share, mass in zip(shares, unsprung)]
        stiffness = (p.tyre_vertical_stiffness_front, *[p.tyre_vertical_stiffness_rear] * (count - 1))
        moments = [p.unsprung_load_share * mass * centre_height(p, static, k) for mass, static, k in zip(unsprung, statics, stiffness)]
        moment = p.sprung_mass * p.cg_height + sum(moments)

        axles, like_axles = [], (front, *[rear] * (count - 1))
        for like, x, share, static, pitch, own, drop in zip(like_axles, places, shares, statics, pitches, moments, drops):
            arm = share * (p.cg_height - drop) / (2.0 * like.half)
            axles.append(like.but(x=x, static=static, pitch=0.5 * pitch * moment, wind_pitch=0.5 * pitch * p.cg_height,
                                  lateral=own / (2.0 * like.half) + p.sprung_mass * arm, wind_lateral=arm))

        # Roll: a spring and a damper an axle; the axis is below the centre by the mean of the roll centres as the axles carry it.
        drop = sum(share * d for share, d in zip(shares, drops))
        lever = p.sprung_mass * drop
        loads = q.loads.but(drop=drop, weight=lever * GRAVITY, roll_springs=p.roll_stiffness_front + (count - 1) * p.roll_stiffness_rear)
        return q.but(axles=axles, loads=loads, lever=lever, mass=p.sprung_mass + sum(unsprung),
                     first=-sum(mass * x for mass, x in zip(unsprung, places)), roll_inertia=p.roll_inertia + lever * drop,
                     roll_damping=p.roll_damping_front + (count - 1) * p.roll_damping_rear)


class SixWheels(ManyAxles):
    between = ("cg_to_middle_axle",)


class TenWheels(ManyAxles):
    between = ("cg_to_axle_2", "cg_to_axle_3", "cg_to_axle_4")


SIX_BY_SIX = Chassis("six_by_six", "three axles on the roll chassis: longitudinal, lateral, yaw, roll and six wheel spins",
                     "paper 000 eqs 4-13", states(WHEELS_OF_SIX), (*PARAMETERS, place("cg_to_middle_axle", "middle")), SixWheels,
                     wheels=WHEELS_OF_SIX)
FIVE_AXLES = Chassis("five_axles", "a rigid truck of five axles on the roll chassis: longitudinal, lateral, yaw, roll and ten wheel spins",
                     "paper 000 eqs 4-13", states(WHEELS_OF_TEN),
                     (*PARAMETERS, *map(place, TenWheels.between, ("second", "third", "fourth"))), TenWheels, wheels=WHEELS_OF_TEN)
register_chassis(SIX_BY_SIX)
register_chassis(FIVE_AXLES)
