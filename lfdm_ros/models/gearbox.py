"""Engine, torque converter, gearbox and limited-slip differentials (paper 003; Chrono's shafts powertrain is its pattern).

The gear is a discrete state: a shift decided in a step acts from the next one. A throttle below 0 asks for the reverse gear, one above 0
for a forward one; it is engaged near standstill, and until then the engine gets no throttle.
"""

from __future__ import annotations

from typing import Any

from lfdm_ros.models import tables
from lfdm_ros.models.declaration import Field, Part, table_fields

GEARS = 8
ENGINE_POINTS = 24
LOSS_POINTS = 16
CONVERTER_POINTS = 8
# Difference of the speeds of two wheels [rad/s] at which a limited-slip differential begins to bias, and at which it is done.
BIAS_BEGIN, BIAS_END = 0.25, 0.5
# Forwards to reverse and back are engaged below this speed of the vehicle [m/s].
ENGAGING_SPEED = 0.3

PARAMETERS = (
    Field("gear_count", "1", "number of forward gears", "", 1.0, float(GEARS)),
    *table_fields("gear_ratio", "1", "wheel speed over speed at the gearbox input, final drive included, gear", GEARS, 1e-6, 1e3),
    *table_fields("upshift_speed", "rad/s", "shift up above this speed at the gearbox input, gear", GEARS, -1e6, 1e6),
    *table_fields("downshift_speed", "rad/s", "shift down below this speed at the gearbox input, gear", GEARS, -1e6, 1e6),
    *table_fields("engine_speed", "rad/s", "torque map, engine speed", ENGINE_POINTS, -1e5, 1e5),
    *table_fields("engine_torque", "N*m", "torque map, full-throttle torque", ENGINE_POINTS, -1e5, 1e5),
    *table_fields("loss_speed", "rad/s", "losses, engine speed", LOSS_POINTS, -1e5, 1e5),
    *table_fields("loss_torque", "N*m", "losses, torque (negative brakes)", LOSS_POINTS, -1e5, 1e5),
    Field("throttle_modulation", "1", "1: throttle scales the torque map's speeds too, as an electric motor's voltage does; 0: torque only",
          "", 0.0, 1.0),
    Field("front_drive_share", "1", "share of the drive torque on the front axle: 0 rear-wheel drive, 1 front-wheel drive", "", 0.0, 1.0),
    Field("reverse_ratio", "1", "wheel speed over speed at the gearbox input, final drive included, reverse gear", "", 1e-6, 1e3),
    Field("differential_bias", "1", "largest ratio of the torques of the slower and the faster wheel; 1 is open", "", 1.0, 100.0),
)
CONVERTER_PARAMETERS = (
    Field("crank_inertia", "kg*m^2", "inertia of crankshaft and pump", "", 0.0, 1e3, True),
    *table_fields("converter_speed_ratio", "1", "capacity table, turbine speed over pump speed", CONVERTER_POINTS, 0.0, 1.0),
    *table_fields("converter_capacity", "rad/s/(N*m)**0.5", "capacity table, pump speed over root of torque", CONVERTER_POINTS, 1e-3, 1e4),
    *table_fields("converter_torque_speed_ratio", "1", "torque table, turbine speed over pump speed", CONVERTER_POINTS, 0.0, 1.0),
    *table_fields("converter_torque_ratio", "1", "torque table, turbine torque over pump torque", CONVERTER_POINTS, 0.0, 100.0),
)
GEAR = Field("gear", "1", "gear of the next step, 1 is the lowest, -1 reverse", role="discrete")


def build(m: Any, lfdm: bool, converter: bool) -> Any:
    """The interface of a powertrain; see `lfdm_ros.models.motor.build`."""
    where, fabs, fmin, fmax = m.where, m.fabs, m.fmin, m.fmax
    engine = tables.build(m, "engine_speed", "engine_torque", ENGINE_POINTS)
    losses = tables.build(m, "loss_speed", "loss_torque", LOSS_POINTS)
    capacity = tables.build(m, "converter_speed_ratio", "converter_capacity", CONVERTER_POINTS)
    ratio = tables.build(m, "converter_torque_speed_ratio", "converter_torque_ratio", CONVERTER_POINTS)

    def prepare(p):
        def column(stem):
            return [getattr(p, f"{stem}_{i}") for i in range(GEARS)]

        g = m.namespace(count=p.gear_count, ratio=column("gear_ratio"), up=column("upshift_speed"), down=column("downshift_speed"),
                        reverse=-p.reverse_ratio, modulation=p.throttle_modulation, front_share=p.front_drive_share,
                        extra_bias=p.differential_bias - 1.0, engine=engine.prepare(p), losses=losses.prepare(p))
        return (g, 1.0 / p.crank_inertia, capacity.prepare(p), ratio.prepare(p)) if converter else (g,)

    def of_gear(gear, column):
        value = column[-1]
        for i in reversed(range(GEARS - 1)):
            value = where(gear < i + 1.5, column[i], value)
        return value

    def engine_torque(speed, throttle, g):
        # Modulated, the whole map shrinks with the throttle: torque T(w / throttle) throttle.
        at = where(g.modulation > 0.5, speed / fmax(throttle, 1e-9), speed)
        return throttle * engine.lookup(at, g.engine) + losses.lookup(speed, g.losses)

    def differential(torque, first, second, extra):
        # Torques of two wheels (or axles): the slower one gets `bias` times the faster one's.
        bias = 1.0 + extra * fmin(fmax((fabs(first - second) - BIAS_BEGIN) / (BIAS_END - BIAS_BEGIN), 0.0), 1.0)
        slow = torque * bias / (1.0 + bias)
        first_is_slow = fabs(first) < fabs(second)
        return where(first_is_slow, slow, torque - slow), where(first_is_slow, torque - slow, slow)

    def split(torque, speeds, g):
        share, extra = g.front_share, g.extra_bias
        if len(speeds) == 2:
            # An axle a wheel: the central differential is the limited-slip one, unless only one axle is driven.
            rear, front = differential(torque, speeds[1], speeds[0], extra)
            one = where(share > 0.5, 1.0, 0.0)
            both = where(share * (1.0 - share) > 0.0, 1.0, 0.0)
            return both * front + (1.0 - both) * one * torque, both * rear + (1.0 - both) * (1.0 - one) * torque
        fl, fr = differential(share * torque, speeds[0], speeds[1], extra)
        rl, rr = differential((1.0 - share) * torque, speeds[2], speeds[3], extra)
        return fl, fr, rl, rr

    def mean(speeds):
        return sum(speeds) / len(speeds)

    def engaged(gear, throttle, g):
        # The sense that the gear turns the wheels in, its ratio, and the throttle that the engine gets.
        reverse = gear < 0.0
        sense = where(reverse, -1.0, 1.0)
        asked = sense * throttle
        return sense, where(reverse, g.reverse, of_gear(gear, g.ratio)), where(asked < 0.0, 0.0, asked)

    def output_torque(torque, speed, ratio, travel):
        # Engine braking cannot turn a standing vehicle the other way.
        standing = travel < 1e-9 if lfdm else speed <= 0.0
        return where(standing, fmax(torque, 0.0), torque) / ratio

    def shifted(gear, sense, speed, vx, throttle, g):
        up = where(gear < g.count - 0.5, gear + 1.0, gear)
        down = where(gear > 1.5, gear - 1.0, gear)
        same = where(speed > of_gear(gear, g.up), up, where(speed < of_gear(gear, g.down), down, gear))
        stays = where(sense < 0.0, gear, same)
        return where(sense * throttle < 0.0, where(fabs(vx) < ENGAGING_SPEED, -sense, stays), stays)

    if converter:
        def drive(speeds, vx, throttle, states, q):
            g, crank, capacity_table, ratio_table = q
            gear, pump = states
            sense, gear_ratio, opened = engaged(gear, throttle, g)
            turbine = mean(speeds) / gear_ratio
            # Speed ratio, mirrored at 1: beyond, the wheels drive the engine and the torques change sign.
            turning = where(turbine < 1e-9, 0.0, where(pump < 1e-9, 0.0, 1.0)) > 0.5
            slip = where(turning, turbine / where(turning, pump, 1.0), 0.0)
            reverse = slip > 1.0
            slip = fmax(where(reverse, 2.0 - slip, slip), 0.0)
            root = pump / capacity.lookup(slip, capacity_table)
            load = root * root
            pump_torque = where(reverse, load, -load)
            turbine_torque = where(reverse, -load, ratio.lookup(slip, ratio_table) * load)
            torque = output_torque(turbine_torque, turbine, gear_ratio, sense * vx)
            rate = crank * (engine_torque(pump, opened, g) + pump_torque)
            return split(torque, speeds, g), (shifted(gear, sense, turbine, vx, throttle, g), rate)

        def advance(states, rates, h):
            return rates[0], states[1] + h * rates[1]

        def flow(states, rates):
            return 0.0, rates[1]
    else:
        def drive(speeds, vx, throttle, states, q):
            (g,) = q
            gear = states[0]
            sense, gear_ratio, opened = engaged(gear, throttle, g)
            speed = mean(speeds) / gear_ratio
            torque = output_torque(engine_torque(speed, opened, g), speed, gear_ratio, sense * vx)
            return split(torque, speeds, g), (shifted(gear, sense, speed, vx, throttle, g), speed)

        def advance(states, rates, h):
            return rates

        def flow(states, rates):
            return 0.0, rates[1] - states[1]

    def report(speeds, states, q):
        return states

    return m.namespace(prepare=prepare, drive=drive, advance=advance, flow=flow, report=report)


def _gearbox(m: Any, lfdm: bool) -> Any:
    return build(m, lfdm, False)


def _automatic(m: Any, lfdm: bool) -> Any:
    return build(m, lfdm, True)


GEARBOX = Part("gearbox", "engine map, losses, shifted gears, limited-slip differentials, no converter", PARAMETERS, _gearbox,
               states=(GEAR, Field("engine_speed", "rad/s", "engine speed in the last step", role="held")))
AUTOMATIC = Part("automatic", "as gearbox, with a torque converter", (*PARAMETERS, *CONVERTER_PARAMETERS), _automatic,
                 states=(GEAR, Field("engine_speed", "rad/s", "engine speed")))
