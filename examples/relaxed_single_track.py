"""A whole model of your own, in one file: a linear single track whose lateral forces follow the slip over a relaxation length.

Pacejka 2012, Tire and Vehicle Dynamics, eqs 1.45 and 7.20: (sigma / |vx|) dF/dt + F = C alpha at each axle.

    export LFDM_PLUGINS=examples/relaxed_single_track.py
    lfdm models relaxed_single_track
    lfdm simulate --vehicle mine.yaml --model relaxed_single_track --inputs inputs.txt --out run.csv

mine.yaml is a vehicle file with `relaxation_length` in its section `chassis`.
"""

from lfdm_ros.models import Field, Model, all_parameters, get_model, register_model

SIMPLE = get_model("linear_single_track")  # its position, velocity, inputs and outputs are this model's too
SPEED_FLOOR = 0.1  # [m/s]

STATES = (*SIMPLE.states, Field("force_front", "N", "lateral force of the front axle", "F_yf"),
          Field("force_rear", "N", "lateral force of the rear axle", "F_yr"))
OWN = Field("relaxation_length", "m", "way over which a lateral tyre force builds up", "sigma", 0.0, 5.0, True)
SHARED = ("sprung_mass", "yaw_inertia", "cg_to_front_axle", "cg_to_rear_axle", "cornering_stiffness_front", "cornering_stiffness_rear",
          "max_road_wheel_angle")
GRAVITY = 9.80665


def build(m):
    """The equations on the operations of `m`; what they are is said at lfdm_ros.models.Model."""

    def prepare(p):
        a, b = p.cg_to_front_axle, p.cg_to_rear_axle
        load = 0.5 * p.sprung_mass * GRAVITY / (a + b)
        return m.namespace(a=a, b=b, mass=p.sprung_mass, inertia=p.yaw_inertia, front=2.0 * p.cornering_stiffness_front,
                           rear=2.0 * p.cornering_stiffness_rear, lock=p.max_road_wheel_angle, sigma=p.relaxation_length,
                           loads=(load * b, load * b, load * a, load * a))

    def rates(x, u, q):
        _, _, yaw, vx, vy, yaw_rate, _, _, front, rear = x
        speed = m.fmax(m.fabs(vx), SPEED_FLOOR)
        ay = (front + rear) / q.mass
        yaw_acc = (q.a * front - q.b * rear) / q.inertia
        steady_front = q.front * (vx * q.lock * u[0] - vy - q.a * yaw_rate) / speed
        steady_rear = q.rear * (q.b * yaw_rate - vy) / speed
        c, s = m.cos(yaw), m.sin(yaw)
        return (vx * c - vy * s, vx * s + vy * c, yaw_rate, 0.0, ay - vx * yaw_rate, yaw_acc, -yaw_rate * vy, ay,
                (steady_front - front) * speed / q.sigma, (steady_rear - rear) * speed / q.sigma)

    def step(x, u, q, h):
        d = rates(x, u, q)
        # Velocities and forces first, then the position with the new velocities.
        vy, yaw_rate = x[4] + h * d[4], x[5] + h * d[5]
        c, s = m.cos(x[2]), m.sin(x[2])
        return (x[0] + h * (x[3] * c - vy * s), x[1] + h * (x[3] * s + vy * c), x[2] + h * yaw_rate, x[3], vy, yaw_rate, d[6], d[7],
                x[8] + h * d[8], x[9] + h * d[9])

    def rhs(x, u, q):
        d = rates(x, u, q)
        return (*d[:6], d[6] - x[6], d[7] - x[7], *d[8:])  # of what is held from step to step: new value less present

    def tyre_forces(x, u, q, h):
        return (0.0, 0.0, 0.0, 0.0, 0.5 * x[8], 0.5 * x[8], 0.5 * x[9], 0.5 * x[9], *q.loads)

    def wheel_loads(x, u, q):
        return q.loads

    def drive(x, u, q):
        return 0.0, 0.0, q.lock * u[0]  # gear, engine speed, road-wheel angle

    return m.namespace(prepare=prepare, step=step, rhs=rhs, tyre_forces=tyre_forces, wheel_loads=wheel_loads, drive=drive, input_time=0.5)


RELAXED = Model(
    name="relaxed_single_track", description="linear single track with a relaxation length, at constant speed", source="Pacejka 2012",
    states=STATES, inputs=SIMPLE.inputs, outputs=SIMPLE.outputs,
    parameters=(*(all_parameters()[name] for name in SHARED), OWN), build=build, largest_step=0.005)
register_model(RELAXED)
