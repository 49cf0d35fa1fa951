"""A powertrain of your own, in one file: a motor in each rear wheel, constant torque up to its base speed, constant power beyond.

    export LFDM_PLUGINS=examples/hub_motors.py
    lfdm simulate --vehicle mine.yaml --model eighteen_dof/hub_motors --inputs inputs.txt --out run.csv

mine.yaml is a vehicle file with the keys of PARAMETERS in its section `powertrain`.
"""

from lfdm_ros.models import Field, Part, register_part

PARAMETERS = (
    Field("hub_motor_torque", "N*m", "largest torque of one hub motor", "", 0.0, 1e5, True),
    Field("hub_motor_power", "W", "largest power of one hub motor", "", 0.0, 1e7, True),
)


def build(m, lfdm):
    """The equations on the operations of `m`; the interface of a powertrain stands in lfdm_ros.models.motor."""

    def prepare(p):
        return p.hub_motor_torque, p.hub_motor_power

    def drive(speeds, vx, throttle, states, q):
        torque, power = q
        driven = len(speeds) // 2  # the rear half: wheels, or the one wheel that stands for an axle
        torques = [throttle * m.fmin(torque, power / m.fmax(m.fabs(speed), 1.0)) for speed in speeds[driven:]]
        return (*[0.0] * driven, *torques), ()

    def advance(states, rates, h):
        return ()

    def flow(states, rates):
        return ()

    def report(speeds, states, q):
        return 1.0, sum(speeds[len(speeds) // 2:]) / (len(speeds) // 2)  # gear, engine speed

    return m.namespace(prepare=prepare, drive=drive, advance=advance, flow=flow, report=report)


HUB_MOTORS = Part("hub_motors", "a motor in each rear wheel", PARAMETERS, build)
register_part("powertrain", HUB_MOTORS)
