"""Ground contact and wind: the ground is an input of the equations, like the driver's inputs.

A ground fills a slot of every chassis. `Plane` is the default, level with uniform friction; `GivenGround` takes the patch of each wheel
from inputs, held over a step or linear in it, one for each vehicle of a batch; custom grounds compute it inside the step from the position
of the wheel. All are differentiated like the rest. A ground may return more than a `Patch`, such as soil, for tyres that use it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import combinations
from typing import Any

from lfdm_ros.errors import InputError
from lfdm_ros.models.declaration import Field, Part
from lfdm_ros.models.equations import Contact, Ground, Operations, Patch, Record, Scalar, Tyre, Wheel
from lfdm_ros.models.vectors import Vector

FRICTION_SCALE = Field("friction_scale", "1", "friction of the road over that of the road the tyre was measured on", "", 0.0, 3.0)
WHEEL_INPUTS = (
    Field("ground_height", "m", "height of the ground over the one the vehicle rests on", "z", -1e4, 1e4),
    Field("ground_slope_x", "1", "rise of the ground along x of the map", "dz/dx", -2.0, 2.0),
    Field("ground_slope_y", "1", "rise of the ground along y of the map", "dz/dy", -2.0, 2.0),
    Field("ground_friction", "1", FRICTION_SCALE.description, "", 0.0, 3.0, default=1.0),
)
WIND = (
    Field("wind_x", "N", "force of the wind on the body at its centre, along the vehicle", "", -1e6, 1e6),
    Field("wind_y", "N", "force of the wind on the body at its centre, to the left", "", -1e6, 1e6),
)


class Windless:
    """Ground without wind."""

    def __init__(self, m: Operations):
        self._m = m

    def wind(self, x: Record, u: Record, q: Any) -> tuple[Scalar, Scalar]:
        return 0.0, 0.0


class Plane(Windless):
    """Level ground with uniform friction, no wind."""

    def prepare(self, p: Any) -> Any:
        return p.friction_scale

    def under(self, wheel: int, x: Scalar, y: Scalar, u: Record, q: Any) -> Patch:
        return Patch(friction=q)


class UnscaledPlane(Plane):
    """The plane of models that have friction coefficients of their own, or no friction."""

    def prepare(self, p: Any) -> Any:
        return 1.0


class GivenGround:
    """Ground by the inputs."""

    def __init__(self, m: Operations):
        self._m = m

    def prepare(self, p: Any) -> Any:
        return None

    def under(self, wheel: int, x: Scalar, y: Scalar, u: Record, q: Any) -> Patch:
        met = u.wheels[wheel]
        return Patch(met.ground_height, met.ground_slope_x, met.ground_slope_y, met.ground_friction)

    def wind(self, x: Record, u: Record, q: Any) -> tuple[Scalar, Scalar]:
        return u.wind_x, u.wind_y


PLANE = Part("plane", "level ground, the vehicle's friction_scale", (FRICTION_SCALE,), Plane)
UNSCALED_PLANE = Part("plane", "level ground", (), UnscaledPlane)
GIVEN = Part("given_ground", "height, slope and friction at each wheel and wind as inputs", (), GivenGround, wheel_inputs=WHEEL_INPUTS,
             inputs=WIND)


# -- By place ---------------------------------------------------------------------------------------------------------------------


class GroundByPlace(Windless):
    """A ground from a map, without wind. scaled: True to multiply its friction by the vehicle's friction_scale; False in models with
    separate friction coefficients."""

    def __init__(self, m: Operations, scaled: bool = True):
        super().__init__(m)
        self._scaled = scaled

    def scale(self, p: Any) -> Scalar:
        """Returns the factor of the map's friction."""
        return p.friction_scale if self._scaled else 1.0


def parts_by_place(ground: type[GroundByPlace], number: Field, description: str, scaled: str, gives: tuple[str, ...]) -> tuple[Part, Part]:
    """Returns the parts of a ground by place, of the name of its parameter: with the vehicle's friction_scale, and for models without.
    number: the parameter that is the number of the map; scaled: words of the first's description on the friction_scale."""
    return (Part(number.name, f"{description}, {scaled}", (FRICTION_SCALE, number), ground, gives=gives),
            Part(number.name, description, (number,), partial(ground, scaled=False), gives=gives))


# -- Stance -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stance:
    """A vehicle on its ground: the patch of each wheel, and their common plane.

    With the slopes p ahead and r to the left of the vehicle, P = sqrt(1 + p^2), N = sqrt(1 + p^2 + r^2), the body's axes in that plane are
    e_x = (1, 0, p) / P and e_y = (-p r, P^2, r) / (N P), the normal n = (-p, -r, 1) / N; all in level axes turned by the yaw angle.
    """

    patches: Sequence[Patch]
    ahead: Scalar  # gravity along e_x and e_y over gravity
    left: Scalar
    normal: Scalar  # and against n
    along: Scalar  # level way ahead for a unit of way along e_x, 1 / P
    across: Scalar  # level way to the left for a unit along e_y, P / N
    skew: Scalar  # level way ahead for a unit along e_y, - p r / (N P)
    turn: Scalar  # rate of the yaw angle for a unit of yaw rate about n, P^2 / N
    wind: tuple[Scalar, Scalar]  # force on the body along its axes [N]


@dataclass(frozen=True)
class Touch:
    """A wheel on the plane below it, by `lfdm_ros.models.multibody` (1, 2).

    along: its travel in the plane; lean: of the wheel's axis, (e.n); per_camber: 1 / cos g; radius: from its centre to the plane [m]; arm:
    from its centre to the contact [m].
    """

    along: Vector
    lean: Scalar
    per_camber: Scalar
    radius: Scalar
    arm: Vector


def touch(m: Operations, axis: Vector, normal: Vector, height: Scalar) -> Touch:
    """Returns the contact of a wheel with an axis to the left, its centre at a height [m] along the normal of a plane."""
    lean = axis.dot(normal)
    per_camber = 1.0 / m.sqrt(1.0 - lean * lean)
    radius = height * per_camber
    return Touch(axis.cross(normal) * per_camber, lean, per_camber, radius, (axis * lean - normal) * (per_camber * radius))


class Footing:
    """The ground under some chassis."""

    def __init__(self, m: Operations, ground: Ground):
        self._m, self._ground = m, ground
        self.prepare = ground.prepare

    def stance(self, x: Record, u: Record, q: Any, places: Sequence[tuple[Scalar, Scalar]]) -> Stance:
        """Returns the stance of a vehicle with wheels at these positions from its centre; q: the result of `prepare`."""
        c, s = self._m.cos(x.yaw), self._m.sin(x.yaw)
        patches = [self._ground.under(i, x.x + px * c - py * s, x.y + px * s + py * c, u, q) for i, (px, py) in enumerate(places)]
        count = len(patches)
        rise_x, rise_y = sum(patch.slope_x for patch in patches) / count, sum(patch.slope_y for patch in patches) / count
        p, r = rise_x * c + rise_y * s, rise_y * c - rise_x * s
        per_p, per_n = 1.0 / self._m.sqrt(1.0 + p * p), 1.0 / self._m.sqrt(1.0 + p * p + r * r)
        return Stance(patches, ahead=-p * per_p, left=-r * per_n * per_p, normal=per_n, along=per_p, across=per_n / per_p,
                      skew=-p * r * per_n * per_p, turn=per_n / (per_p * per_p), wind=self._ground.wind(x, u, q))

    def travel(self, x: Record, stance: Stance) -> Record:
        """Returns rates of the position on the map from velocities in the body's axes [m/s] (004 eq 11, on a level ground)."""
        c, s = self._m.cos(x.yaw), self._m.sin(x.yaw)
        ahead, left = x.vx * stance.along + x.vy * stance.skew, x.vy * stance.across
        return Record(x=ahead * c - left * s, y=ahead * s + left * c)


def attitude(slope_x: float, slope_y: float, yaw: float) -> tuple[float, float]:
    """Returns roll, + right side down, and pitch, + nose down [rad], of a vehicle along a plane of these slopes along x and y of the map
    [1]."""
    c, s = math.cos(yaw), math.sin(yaw)
    ahead, left = slope_x * c + slope_y * s, slope_y * c - slope_x * s
    return math.atan(left / math.hypot(1.0, ahead)), -math.atan(ahead)


# Speed of travel [m/s] over which the resistance of the ground fades out: at rest it does not push.
RESISTANCE_SPEED = 0.05


class Layers(Windless):
    """Superposition of several grounds (`lfdm_ros.models.equations.Ground`).

    Each part declares the patch values it gives (`Part.gives`); no two may give the same. Without a friction layer the vehicle's friction
    holds; soil has a separate strength.
    """

    def __init__(self, m: Operations, parts: Sequence[Part]):
        super().__init__(m)
        self._layers: list[tuple[Ground, tuple[str, ...]]] = [(part.build(m), part.gives) for part in parts]

    def prepare(self, p: Any) -> Any:
        return [layer.prepare(p) for layer, _ in self._layers]

    def under(self, wheel: int, x: Scalar, y: Scalar, u: Record, q: Any) -> Patch:
        (first, _), *others = self._layers
        patch = first.under(wheel, x, y, u, q[0])
        for (layer, gives), prepared in zip(others, q[1:]):
            here = layer.under(wheel, x, y, u, prepared)
            values = {name: getattr(here, name) for name in gives}
            # A plain patch becomes a soil patch.
            patch = replace(patch, **values) if type(here) is Patch else replace(
                here, **{name: value for name, value in vars(patch).items() if name not in gives})
        return patch


@cache
def layered(parts: tuple[Part, ...]) -> Part:
    """Grounds combined to one part with their joint name; a single one is unchanged. Raises InputError: one that cannot be combined, or two
    that give the same value."""
    if len(parts) == 1:
        return parts[0]
    for part in parts:
        if not part.gives:
            raise InputError(f"the ground '{part.name}' is all there is; leave out {', '.join(p.name for p in parts if p is not part)}")
    for one, other in combinations(parts, 2):
        both = sorted(set(one.gives) & set(other.gives))
        if both:
            raise InputError(f"two parts for the ground give {', '.join(both)}, '{one.name}' and '{other.name}'")
    parameters = {field.name: field for part in parts for field in part.parameters}
    return Part("/".join(part.name for part in parts), "; ".join(part.description for part in parts), tuple(parameters.values()),
                partial(Layers, parts=parts), gives=tuple(name for part in parts for name in part.gives),
                largest_step=min(part.largest_step for part in parts))


class WithRollingResistance:
    """A tyre on ground with rolling resistance: its forces, and a drag against its travel that is not a wheel torque."""

    def __init__(self, m: Operations, tyre: Tyre):
        self._m, self._tyre, self.prepare = m, tyre, tyre.prepare

    @property
    def implicit(self) -> bool:
        return self._tyre.implicit

    def forces(self, q: Any, wheel: Wheel) -> Contact:
        contact = self._tyre.forces(q, wheel)
        direction = self._m.fmin(self._m.fmax(wheel.along * (1.0 / RESISTANCE_SPEED), -1.0), 1.0)
        drag = direction * wheel.ground.resistance * wheel.load
        return replace(contact, fx=contact.fx - drag, my=contact.my - wheel.radius * drag)
