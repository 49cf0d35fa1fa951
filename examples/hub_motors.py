"""A powertrain of your own, in one file: a motor in each rear wheel, constant torque up to its base speed, constant power beyond.

    export LFDM_PLUGINS=examples/hub_motors.py
    lfdm simulate --vehicle mine.yaml --model eighteen_dof/hub_motors --inputs inputs.txt --out run.csv

mine.yaml is a vehicle file with the keys of PARAMETERS in its section `powertrain`.
"""

from lfdm_ros.models import Field, Part, Record, register_part

PARAMETERS = (
    Field("hub_motor_torque", "N*m", "largest torque of one hub motor", "", 0.0, 1e5, True),
    Field("hub_motor_power", "W", "largest power of one hub motor", "", 0.0, 1e7, True),
)


class HubMotors:
    """The equations on the operations of `m`; see lfdm_ros.models.equations.Powertrain."""

    def __init__(self, m):
        self.m = m

    def prepare(self, p):
        return Record(torque=p.hub_motor_torque, power=p.hub_motor_power)

    def drive(self, speeds, vx, throttle, x, q):
        driven = len(speeds) // 2  # the rear half: wheels, or the one wheel that stands for an axle
        torques = [throttle * self.m.fmin(q.torque, q.power / self.m.fmax(self.m.fabs(speed), 1.0)) for speed in speeds[driven:]]
        return (*[0.0] * driven, *torques), {}  # it has no states that change

    def report(self, speeds, x, q):
        return 1.0, sum(speeds[len(speeds) // 2:]) / (len(speeds) // 2)  # gear, engine speed


HUB_MOTORS = Part("hub_motors", "a motor in each rear wheel", PARAMETERS, HubMotors)
register_part("powertrain", HUB_MOTORS)
