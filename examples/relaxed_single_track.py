"""A whole model of your own, in one file: a linear single track whose lateral forces follow the slip over a relaxation length.

Pacejka 2012, Tire and Vehicle Dynamics, eqs 1.45 and 7.20: (sigma / |vx|) dF/dt + F = C alpha at each axle.

    export LFDM_PLUGINS=examples/relaxed_single_track.py
    lfdm models relaxed_single_track
    lfdm simulate --vehicle mine.yaml --model relaxed_single_track --inputs inputs.txt --out run.csv

mine.yaml is a vehicle file with `relaxation_length` in its section `chassis`.
"""

from lfdm_ros.models import Dynamics, Field, Model, Record, TyreForce, all_parameters, get_model, register_model

SIMPLE = get_model("linear_single_track")  # its position, velocity, inputs and outputs are this model's too
SPEED_FLOOR = 0.1  # [m/s]

STATES = (*SIMPLE.states, Field("force_front", "N", "lateral force of the front axle", "F_yf"),
          Field("force_rear", "N", "lateral force of the rear axle", "F_yr"))
OWN = Field("relaxation_length", "m", "way over which a lateral tyre force builds up", "sigma", 0.0, 5.0, True)
SHARED = ("sprung_mass", "yaw_inertia", "cg_to_front_axle", "cg_to_rear_axle", "cornering_stiffness_front", "cornering_stiffness_rear",
          "max_road_wheel_angle")
GRAVITY = 9.80665


class RelaxedSingleTrack:
    """The equations on the operations of `m`; what they are is said at lfdm_ros.models.equations.Equations."""

    input_time = 0.5  # the inputs are read in the middle of a step
    mean_motion = False  # positions move with the new velocities

    def __init__(self, m):
        self.m = m
        self.motions = (self.motion,)

    def prepare(self, p):
        a, b = p.cg_to_front_axle, p.cg_to_rear_axle
        load = 0.5 * p.sprung_mass * GRAVITY / (a + b)
        return Record(a=a, b=b, mass=p.sprung_mass, inertia=p.yaw_inertia, front=2.0 * p.cornering_stiffness_front,
                      rear=2.0 * p.cornering_stiffness_rear, lock=p.max_road_wheel_angle, sigma=p.relaxation_length,
                      loads=(load * b, load * b, load * a, load * a))

    def dynamics(self, x, u, q, h):
        """The derivatives of velocities and forces, and the accelerations that are kept for the reports."""
        speed = self.m.fmax(self.m.fabs(x.vx), SPEED_FLOOR)
        ay = (x.force_front + x.force_rear) / q.mass
        steady_front = q.front * (x.vx * q.lock * u.steering - x.vy - q.a * x.yaw_rate) / speed
        steady_rear = q.rear * (q.b * x.yaw_rate - x.vy) / speed
        changes = Record(vx=0.0, vy=ay - x.vx * x.yaw_rate, yaw_rate=(q.a * x.force_front - q.b * x.force_rear) / q.inertia,
                         ax=-x.yaw_rate * x.vy, ay=ay, force_front=(steady_front - x.force_front) * speed / q.sigma,
                         force_rear=(steady_rear - x.force_rear) * speed / q.sigma)
        forces = (x.force_front, x.force_front, x.force_rear, x.force_rear)
        return Dynamics(changes, [TyreForce(0.0, 0.5 * force, load) for force, load in zip(forces, q.loads)])

    def motion(self, x, u, q):
        """The rates of the position."""
        c, s = self.m.cos(x.yaw), self.m.sin(x.yaw)
        return Record(x=x.vx * c - x.vy * s, y=x.vx * s + x.vy * c, yaw=x.yaw_rate)

    def wheel_loads(self, x, u, q):
        return q.loads

    def report(self, x, u, q):
        return 0.0, 0.0, q.lock * u.steering  # gear, engine speed, road-wheel angle


RELAXED = Model(
    name="relaxed_single_track", description="linear single track with a relaxation length, at constant speed", source="Pacejka 2012",
    states=STATES, inputs=SIMPLE.inputs, outputs=SIMPLE.outputs,
    parameters=(*(all_parameters()[name] for name in SHARED), OWN), build=RelaxedSingleTrack, wheels=SIMPLE.wheels, largest_step=0.005)
register_model(RELAXED)
