"""Springs, dampers and stops of a corner, between the body and the lower arm.

    (1) F_spring = T(l0 - l) + S(b - l) - S(l - e)          l: the spring's length; T, S: tables of spring and stop, b, e: where stops begin
    (2) F_damper = -c l',  c by the sense of l', and another pair outside of the damper's lengths
    (3) Q_theta = F_spring l_spring' + F_damper l_damper'   F pushes; l': by the lower arm's angle
"""

from dataclasses import dataclass
from typing import Any

from lfdm_ros.models import tables
from lfdm_ros.models.declaration import AXLES, Field, Part, table_fields, vector_fields
from lfdm_ros.models.equations import Operations, Record, Scalar
from lfdm_ros.models.vectors import Vector, turned, vector_of

SPRING_POINTS, STOP_POINTS = 24, 12
ENDS = {"spring_upper": "spring, its end on the body", "spring_lower": "spring, its end on the lower arm",
        "damper_upper": "damper, its end on the body", "damper_lower": "damper, its end on the lower arm"}
VECTORS = tuple(f"{end}_{axle}" for axle in AXLES for end in ENDS)
# Keys of a vehicle file, without the axle.
KEYS = (*ENDS, "spring_free_length", "spring", "bump_stop_length", "rebound_stop_length", "stop", "damper_compression", "damper_rebound",
        "damper_end_compression", "damper_end_rebound", "damper_shortest", "damper_longest")


def _of_axle(axle: str) -> tuple[Field, ...]:
    def field(name: str, unit: str, description: str, upper: float) -> Field:
        return Field(f"{name}_{axle}", unit, f"{description}, {axle}", "", 0.0, upper)

    return (
        *(f for end, words in ENDS.items() for f in vector_fields(
            f"{end}_{axle}", "m", f"{words}, {axle} left, from the middle of the axle's lower pivots")),
        field("spring_free_length", "m", "length of a spring without load", 5.0),
        *table_fields(f"spring_compression_{axle}", "m", f"spring, compression, {axle}", SPRING_POINTS, -5.0, 5.0),
        *table_fields(f"spring_force_{axle}", "N", f"spring, force, {axle}", SPRING_POINTS, -1e8, 1e8),
        field("bump_stop_length", "m", "length of a spring below which the bump stop pushes", 5.0),
        field("rebound_stop_length", "m", "length of a spring above which the rebound stop pulls", 5.0),
        *table_fields(f"stop_compression_{axle}", "m", f"stops, compression, {axle}", STOP_POINTS, 0.0, 5.0),
        *table_fields(f"stop_force_{axle}", "N", f"stops, force, {axle}", STOP_POINTS, 0.0, 1e8),
        field("damper_compression", "N*s/m", "damping of a damper that is compressed", 1e7),
        field("damper_rebound", "N*s/m", "damping of a damper that is extended", 1e7),
        field("damper_end_compression", "N*s/m", "the same outside of its lengths, compressed", 1e7),
        field("damper_end_rebound", "N*s/m", "the same outside of its lengths, extended", 1e7),
        field("damper_shortest", "m", "length of a damper below which it has its other damping", 5.0),
        field("damper_longest", "m", "length of a damper above which it has its other damping", 5.0))


PARAMETERS = tuple(field for axle in AXLES for field in _of_axle(axle))


@dataclass(frozen=True)
class Strut:
    """Lengths of spring and damper, and their derivatives by the lower arm's angle."""

    spring: Scalar
    damper: Scalar
    spring_slope: Scalar
    damper_slope: Scalar


class Struts:
    """The force elements of a corner; `corner` has the suspension's prepared terms: the lower arm's pivot and axis."""

    def __init__(self, m: Operations):
        self._m = m
        self._springs, self._stops = (
            {axle: tables.build(m, f"{name}_compression_{axle}", f"{name}_force_{axle}", points) for axle in AXLES}
            for name, points in (("spring", SPRING_POINTS), ("stop", STOP_POINTS)))

    def prepare(self, p: Any, axle: str, left: bool, origin: Vector) -> Record:
        side = 1.0 if left else -1.0
        ends = {end: vector_of(p, f"{end}_{axle}") for end in ENDS}
        single = {name: getattr(p, f"{name}_{axle}") for name in KEYS if name not in (*ENDS, "spring", "stop")}
        return Record(axle=axle, spring=self._springs[axle].prepare(p), stop=self._stops[axle].prepare(p), **single,
                      **{end: origin + Vector(v.x, v.y * side, v.z) for end, v in ends.items()})

    def strut(self, q: Record, corner: Record, cos: Scalar, sin: Scalar) -> Strut:
        """Returns the strut where the lower arm's angle has this cosine and sine."""
        def length(upper: Vector, lower: Vector) -> tuple[Scalar, Scalar]:
            arm = turned(lower - corner.lower_arm_fore, corner.lower_axis, cos, sin)
            span = corner.lower_arm_fore + arm - upper
            value = self._m.sqrt(span.squared)
            return value, span.dot(corner.lower_axis.cross(arm)) / value

        spring, spring_slope = length(q.spring_upper, q.spring_lower)
        damper, damper_slope = length(q.damper_upper, q.damper_lower)
        return Strut(spring, damper, spring_slope, damper_slope)

    def spring_force(self, q: Record, length: Scalar) -> Scalar:
        """Returns the force of spring and stops (1), + where it pushes [N]."""
        stops = self._stops[q.axle].lookup
        return (self._springs[q.axle].lookup(q.spring_free_length - length, q.spring) + stops(q.bump_stop_length - length, q.stop)
                - stops(length - q.rebound_stop_length, q.stop))

    def damper_force(self, q: Record, length: Scalar, rate: Scalar) -> Scalar:
        """Returns the damper's force (2), + where it pushes [N]."""
        where = self._m.where
        extends = rate > 0.0
        inside = where(extends, q.damper_rebound, q.damper_compression)
        outside = where(extends, q.damper_end_rebound, q.damper_end_compression)
        return -rate * where(length < q.damper_shortest, outside, where(length > q.damper_longest, outside, inside))

    def force(self, q: Record, strut: Strut, rate: Scalar) -> Scalar:
        """Returns the moment on the lower arm's angle, which changes at `rate` (3) [N m]."""
        return (self.spring_force(q, strut.spring) * strut.spring_slope
                + self.damper_force(q, strut.damper, strut.damper_slope * rate) * strut.damper_slope)


PART = Part("spring_damper", "a spring, a damper and stops between the body and the lower arm at each wheel", PARAMETERS, Struts)
