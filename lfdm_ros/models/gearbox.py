"""Engine, torque converter, gearbox and limited-slip differentials (paper 003; Chrono's shafts powertrain is its pattern).

Paper 003 names these blocks (Figure 1: J_in, T, g, eta) and prints no equations; numbered here for the blocks below, with the throttle s:

    (1) Te(w) = s T(w) + L(w), modulated s T(w / s) + L(w)                          T: full-throttle map, L: losses
    (2) To = Ti / g,  wi = wo / g                                                   g: output over input speed of the gear
    (3) gear + 1 where wi > up(gear), gear - 1 where wi < down(gear)
    (4) T slow = b T fast,  b from 1 to differential_bias with |w1 - w2|            of the two outputs of a differential
    (5) r = wt / wp,  Tp = s (wp / K(r))^2,  Tt = R(r) Tp                           converter: pump p, turbine t, tables K and R
    (6) J_in wp' = Te(wp) - Tp

In (5) s = z (3 - z^2) / 2, z = (1 - r) / COUPLING between -1 and 1: a table that ends at r = 1 with some capacity would give a torque
there, which changes its sign as the wheels begin to drive the engine, where a fluid that does not slip carries none. Beyond 1 the tables
are mirrored and R is 1.

The gear is a discrete state: a shift decided in a step acts from the next one. A throttle below 0 asks for the reverse gear, one above 0
for a forward one; it is engaged near standstill, and until then the engine gets no throttle.
"""

from collections.abc import Sequence
from typing import Any

from lfdm_ros.errors import InputError
from lfdm_ros.models import tables
from lfdm_ros.models.declaration import Field, Part, table_fields
from lfdm_ros.models.equations import Operations, Record, Scalar

GEARS = 8
ENGINE_POINTS = 24
LOSS_POINTS = 16
CONVERTER_POINTS = 8
# Difference of the speeds of two wheels [rad/s] at which a limited-slip differential begins to bias, and at which it is done.
BIAS_BEGIN, BIAS_END = 0.25, 0.5
# The torque of a converter falls to 0 over this slip of pump and turbine, as a share of the pump's speed.
COUPLING = 0.02
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


class Gearbox:
    """A powertrain (`lfdm_ros.models.equations.Powertrain`): the engine turns with the gearbox' input."""

    def __init__(self, m: Operations):
        self._m = m
        self._engine = tables.build(m, "engine_speed", "engine_torque", ENGINE_POINTS)
        self._losses = tables.build(m, "loss_speed", "loss_torque", LOSS_POINTS)

    def prepare(self, p: Any) -> Any:
        def column(stem: str) -> list[Scalar]:
            return [getattr(p, f"{stem}_{i}") for i in range(GEARS)]

        return Record(count=p.gear_count, ratio=column("gear_ratio"), up=column("upshift_speed"), down=column("downshift_speed"),
                      reverse=-p.reverse_ratio, modulation=p.throttle_modulation, front_share=p.front_drive_share,
                      extra_bias=p.differential_bias - 1.0, engine=self._engine.prepare(p), losses=self._losses.prepare(p))

    # (1, 2, 4) without a converter: engine speed and torque are those of the gearbox' input.
    def drive(self, speeds: Sequence[Scalar], vx: Scalar, throttle: Scalar, x: Any, q: Any) -> tuple[Sequence[Scalar], dict[str, Scalar]]:
        sense, ratio, opened = self.engaged(x.gear, throttle, q)
        speed = mean(speeds) / ratio
        torque = self.output_torque(self.engine_torque(speed, opened, q), speed, ratio, sense * vx)
        return self.split(torque, speeds, q), {"gear": self.shifted(x.gear, sense, speed, vx, throttle, q), "engine_speed": speed}

    def report(self, speeds: Sequence[Scalar], x: Any, q: Any) -> tuple[Scalar, Scalar]:
        return x.gear, x.engine_speed

    # -- Engine (1): full-throttle map scaled by the throttle, less what it loses by itself (003, "map-based engine") -----------
    def engine_torque(self, speed: Scalar, throttle: Scalar, q: Any) -> Scalar:
        # Modulated, the whole map shrinks with the throttle: torque T(w / throttle) throttle.
        at = self._m.where(q.modulation > 0.5, speed / self._m.fmax(throttle, 1e-9), speed)
        return throttle * self._engine.lookup(at, q.engine) + self._losses.lookup(speed, q.losses)

    # -- Gearbox (2, 3) (003, "gearbox") ---------------------------------------------------------------------------------------
    def of_gear(self, gear: Scalar, column: Sequence[Scalar]) -> Scalar:
        value = column[-1]
        for i in reversed(range(GEARS - 1)):
            value = self._m.where(gear < i + 1.5, column[i], value)
        return value

    def engaged(self, gear: Scalar, throttle: Scalar, q: Any) -> tuple[Scalar, Scalar, Scalar]:
        """Returns the direction of the gear, its ratio, and the engine's throttle."""
        where = self._m.where
        reverse = gear < 0.0
        sense = where(reverse, -1.0, 1.0)
        forward_throttle = sense * throttle
        return sense, where(reverse, q.reverse, self.of_gear(gear, q.ratio)), where(forward_throttle < 0.0, 0.0, forward_throttle)

    def output_torque(self, torque: Scalar, speed: Scalar, ratio: Scalar, travel: Scalar) -> Scalar:
        # Engine braking cannot turn a standing vehicle the other way.
        return self._m.where(self.standing(speed, travel), self._m.fmax(torque, 0.0), torque) / ratio

    def standing(self, speed: Scalar, travel: Scalar) -> Scalar:
        """Checks that the engine may not brake: speed of the gearbox' input [rad/s], of the vehicle in the gear's sense [m/s]."""
        return speed <= 0.0

    def shifted(self, gear: Scalar, sense: Scalar, speed: Scalar, vx: Scalar, throttle: Scalar, q: Any) -> Scalar:
        # Up above the gear's upper speed at the input, down below its lower one; the selector near standstill alone.
        where = self._m.where
        up = where(gear < q.count - 0.5, gear + 1.0, gear)
        down = where(gear > 1.5, gear - 1.0, gear)
        same = where(speed > self.of_gear(gear, q.up), up, where(speed < self.of_gear(gear, q.down), down, gear))
        stays = where(sense < 0.0, gear, same)
        return where(sense * throttle < 0.0, where(self._m.fabs(vx) < ENGAGING_SPEED, -sense, stays), stays)

    # -- Differentials (4) (003, Figure 1: split eta; limited slip: Chrono's `ChDriveline::differentialSplit`) -----------------
    def differential(self, torque: Scalar, first: Scalar, second: Scalar, extra: Scalar) -> tuple[Scalar, Scalar]:
        """Returns the torques of two wheels (or axles): the slower one gets `bias` times the faster one's."""
        where, fabs, fmin, fmax = self._m.where, self._m.fabs, self._m.fmin, self._m.fmax
        bias = 1.0 + extra * fmin(fmax((fabs(first - second) - BIAS_BEGIN) / (BIAS_END - BIAS_BEGIN), 0.0), 1.0)
        slow = torque * bias / (1.0 + bias)
        first_is_slow = fabs(first) < fabs(second)
        return where(first_is_slow, slow, torque - slow), where(first_is_slow, torque - slow, slow)

    def split(self, torque: Scalar, speeds: Sequence[Scalar], q: Any) -> tuple[Scalar, ...]:
        share, extra = q.front_share, q.extra_bias
        if len(speeds) == 2:
            # One wheel per axle: the central differential is the limited-slip one, unless only one axle is driven.
            rear, front = self.differential(torque, speeds[1], speeds[0], extra)
            one = self._m.where(share > 0.5, 1.0, 0.0)
            both = self._m.where(share * (1.0 - share) > 0.0, 1.0, 0.0)
            return both * front + (1.0 - both) * one * torque, both * rear + (1.0 - both) * (1.0 - one) * torque
        if len(speeds) != 4:
            raise InputError(f"a powertrain with a gearbox drives 2 axles or 4 wheels, not {len(speeds)} wheels")
        fl, fr = self.differential(share * torque, speeds[0], speeds[1], extra)
        rl, rr = self.differential((1.0 - share) * torque, speeds[2], speeds[3], extra)
        return fl, fr, rl, rr


class Automatic(Gearbox):
    """The same with a torque converter between engine and gearbox: its pump turns with the crankshaft, which is a state."""

    def __init__(self, m: Operations):
        super().__init__(m)
        self._capacity = tables.build(m, "converter_speed_ratio", "converter_capacity", CONVERTER_POINTS)
        self._ratio = tables.build(m, "converter_torque_speed_ratio", "converter_torque_ratio", CONVERTER_POINTS)

    def prepare(self, p: Any) -> Any:
        return super().prepare(p).but(per_crank=1.0 / p.crank_inertia, capacity=self._capacity.prepare(p),
                                      torque_ratio=self._ratio.prepare(p))

    def drive(self, speeds: Sequence[Scalar], vx: Scalar, throttle: Scalar, x: Any, q: Any) -> tuple[Sequence[Scalar], dict[str, Scalar]]:
        where, fmax = self._m.where, self._m.fmax
        pump = x.engine_speed
        sense, gear_ratio, opened = self.engaged(x.gear, throttle, q)
        turbine = mean(speeds) / gear_ratio
        # Converter (5) (003 Figure 1; Chrono's `ChShaftsTorqueConverter`); r is mirrored at 1: beyond, the wheels drive the engine.
        turning = where(turbine < 1e-9, 0.0, where(pump < 1e-9, 0.0, 1.0)) > 0.5
        ratio = where(turning, turbine / where(turning, pump, 1.0), 0.0)
        reverse = ratio > 1.0
        inner = fmax(where(reverse, 2.0 - ratio, ratio), 0.0)
        root = pump / self._capacity.lookup(inner, q.capacity)
        load = self.carried_share(ratio) * root * root
        turbine_torque = where(reverse, 1.0, self._ratio.lookup(inner, q.torque_ratio)) * load
        torque = self.output_torque(turbine_torque, turbine, gear_ratio, sense * vx)
        # Crankshaft (6).
        rate = q.per_crank * (self.engine_torque(pump, opened, q) - load)
        return self.split(torque, speeds, q), {"gear": self.shifted(x.gear, sense, turbine, vx, throttle, q), "engine_speed": rate}

    def carried_share(self, ratio: Scalar) -> Scalar:
        """Returns the share of the torque that the pump hands on, from 1 to -1: where the turbine overtakes it, the wheels drive the
        engine."""
        z = self._m.fmin(self._m.fmax((1.0 - ratio) * (1.0 / COUPLING), -1.0), 1.0)
        return z * (1.5 - 0.5 * z * z)


def mean(speeds: Sequence[Scalar]) -> Scalar:
    """Returns the speed of the gearbox' output: that of all driven wheels' differentials [rad/s]."""
    return sum(speeds) / len(speeds)


GEARBOX = Part("gearbox", "engine map, losses, shifted gears, limited-slip differentials, no converter", PARAMETERS, Gearbox,
               states=(GEAR, Field("engine_speed", "rad/s", "engine speed in the last step", role="held")))
AUTOMATIC = Part("automatic", "as gearbox, with a torque converter", (*PARAMETERS, *CONVERTER_PARAMETERS), Automatic,
                 states=(GEAR, Field("engine_speed", "rad/s", "engine speed")))
