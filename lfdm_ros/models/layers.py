"""A ground of several parts that lie on each other: heights, friction, resistance or soil by place, each wheel meets them all.

Each part says which values of a patch it gives (`Part.gives`); no two may give the same. Friction that none gives is the vehicle's
own; soil has its own strength, whatever the friction.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import combinations
from typing import Any

from lfdm_ros.errors import InputError
from lfdm_ros.models.declaration import Part
from lfdm_ros.models.equations import Contact, Ground, Operations, Patch, Record, Scalar, Tyre, Wheel

# Speed of travel [m/s] over which the resistance of the ground fades out: at rest it does not push.
RESISTANCE_SPEED = 0.05


class Layers:
    """Several grounds as one (`lfdm_ros.models.equations.Ground`)."""

    def __init__(self, m: Operations, parts: Sequence[Part]):
        self._layers: list[tuple[Ground, tuple[str, ...]]] = [(part.build(m), part.gives) for part in parts]

    def prepare(self, p: Any) -> Any:
        return [layer.prepare(p) for layer, _ in self._layers]

    def under(self, wheel: int, x: Scalar, y: Scalar, u: Record, q: Any) -> Patch:
        (first, _), *others = self._layers
        patch = first.under(wheel, x, y, u, q[0])
        for (layer, gives), own in zip(others, q[1:]):
            here = layer.under(wheel, x, y, u, own)
            values = {name: getattr(here, name) for name in gives}
            # A patch of soil is a kind of its own, which the plain one becomes.
            patch = replace(patch, **values) if type(here) is Patch else replace(
                here, **{name: value for name, value in vars(patch).items() if name not in gives})
        return patch

    def wind(self, x: Record, u: Record, q: Any) -> tuple[Scalar, Scalar]:
        return 0.0, 0.0


@cache
def layered(parts: tuple[Part, ...]) -> Part:
    """Grounds as one part, named by all their names; one alone as it is. Raises InputError: one that cannot lie with others, or two that
    give the same."""
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
    """A tyre on ground that resists: its own forces, and a drag against its travel that is no torque at the wheel."""

    def __init__(self, m: Operations, tyre: Tyre):
        self._m, self._tyre, self.prepare = m, tyre, tyre.prepare

    @property
    def implicit(self) -> bool:
        return self._tyre.implicit

    def forces(self, q: Any, wheel: Wheel) -> Contact:
        contact = self._tyre.forces(q, wheel)
        way = self._m.fmin(self._m.fmax(wheel.along * (1.0 / RESISTANCE_SPEED), -1.0), 1.0)
        drag = way * wheel.ground.resistance * wheel.load
        return replace(contact, fx=contact.fx - drag, my=contact.my - wheel.radius * drag)
