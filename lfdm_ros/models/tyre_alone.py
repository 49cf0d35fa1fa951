"""A tyre alone, on a wheel simulated by another program: input is the pose and motion of the wheel, output the load of the ground on it.

Names and frames are those of the tyre FMUs of Project Chrono (chrono_vehicle, FMU_ForceElementTire): all vectors are in the axes of the
world, z up; the rotation is a unit quaternion from the wheel's frame, whose y is its axis, to the left; the angular velocity is that of the
rim. The ground is the plane through (x, y, terrain_height) below the wheel's centre.

The contact is that of `lfdm_ros.models.multibody` (1-3), with the upright's velocity that of the wheel without its spin. A steady-state
tyre is a stiff damper on the slip velocity, which cannot be integrated implicitly with an external wheel: its speed of travel is at least
`slip_speed_floor`, with the slip velocity unchanged.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from lfdm_ros.errors import InputError
from lfdm_ros.models import chassis
from lfdm_ros.models.declaration import AXLES, PLACES, Field, Model
from lfdm_ros.models.equations import Contact, Dynamics, Operations, Patch, Record, Scalar, Tyre, Wheel
from lfdm_ros.models.ground import FRICTION_SCALE, touch
from lfdm_ros.models.registry import SLOTS
from lfdm_ros.models.vectors import Vector, unit

# Default terrain_mu, as of Chrono's flat terrains.
USUAL_MU = 0.8
# Speed of the wheel [rad/s] over which rolling resistance, a dry friction, turns round: no step is implicit in it.
RESTING_SPEED = 1.0


def _fields(name: str, parts: str, unit_: str, description: str, **defaults: float) -> tuple[Field, ...]:
    return tuple(Field(f"{name}.{part}", unit_, f"{description}, {part}", default=defaults.get(part, 0.0)) for part in parts.split())


INPUTS = (
    *_fields("wheel_state.pos", "x y z", "m", "centre of the wheel", z=1.0),
    *_fields("wheel_state.rot", "e0 e1 e2 e3", "1", "rotation of the wheel, whose y is its axis", e0=1.0),
    *_fields("wheel_state.lin_vel", "x y z", "m/s", "velocity of the wheel's centre"),
    *_fields("wheel_state.ang_vel", "x y z", "rad/s", "angular velocity of the wheel, with its spin"),
    Field("terrain_height", "m", "height of the ground below the wheel's centre"),
    *_fields("terrain_normal", "x y z", "1", "normal of the ground", z=1.0),
    Field("terrain_mu", "1", "friction of the ground, see reference_mu", "", 0.0, 3.0, default=USUAL_MU),
)
OUTPUTS = (
    *_fields("wheel_load.point", "x y z", "m", "place at which the force acts: the middle of the contact"),
    *_fields("wheel_load.force", "x y z", "N", "force of the ground on the wheel"),
    *_fields("wheel_load.moment", "x y z", "N*m", "moment of the ground on the wheel about that place"),
    *_fields("query_point", "x y z", "m", "place whose ground the tyre needs"),
)
_REFERENCE_MU = Field("reference_mu", "1", "terrain_mu of the road that friction_scale is for", "", 0.0, 3.0, True)
_FLOOR = Field("slip_speed_floor", "m/s", "least speed of travel in the slips", "", 0.1, 100.0)
TYRE_DEFAULTS = {_REFERENCE_MU.name: USUAL_MU, _FLOOR.name: 3.0}  # of vehicles, which do not have these
_TURN = Field("turn", "rad", "angle that the wheel has turned by")


def vector(record: Any, name: str) -> Vector:
    """Returns the vector that a record has as NAME.x, NAME.y, NAME.z."""
    return Vector(*(getattr(record, f"{name}.{axis}") for axis in "xyz"))


class TyreAlone:
    """The equations of one wheel's tyre; see `lfdm_ros.models.equations.Equations`. tyre: its equations. axle: front or rear, whose
    parameters it has. side: 1 left, -1 right. steady: True for a tyre without states."""

    input_time, mean_motion, motions = 0.5, False, ()

    def __init__(self, m: Operations, tyre: Tyre, axle: str, side: float, steady: bool):
        self._m, self._tyre, self._axle, self._side, self._steady = m, tyre, axle, side, steady

    def prepare(self, p: Any) -> Any:
        return Record(tyre=self._tyre.prepare(p), radius=p.wheel_radius, stiffness=getattr(p, f"tyre_vertical_stiffness_{self._axle}"),
                      damping=getattr(p, f"tyre_vertical_damping_{self._axle}"), friction=p.friction_scale / p.reference_mu,
                      floor=p.slip_speed_floor if self._steady else 0.0)

    def load(self, x: Record, u: Record, q: Any) -> tuple[Contact, Mapping[str, Vector], Scalar]:
        """Returns the contact in its frame, the outputs by name, and the wheel's speed [rad/s]."""
        m = self._m
        centre, velocity, turning = (vector(u, f"wheel_state.{name}") for name in ("pos", "lin_vel", "ang_vel"))
        e0, e1, e2, e3 = (getattr(u, f"wheel_state.rot.e{i}") for i in range(4))
        axis = unit(m, Vector((e1 * e2 - e0 * e3) * 2.0, e0 * e0 - e1 * e1 + e2 * e2 - e3 * e3, (e2 * e3 + e0 * e1) * 2.0))
        normal = unit(m, vector(u, "terrain_normal"))
        at = touch(m, axis, normal, (centre.z - u.terrain_height) * normal.z)
        across = normal.cross(at.along)
        omega = turning.dot(axis)
        moving = velocity + (turning - axis * omega).cross(at.arm)
        compression = q.radius - at.radius
        spring = (q.stiffness * compression - q.damping * at.per_camber * moving.dot(normal)) * at.per_camber
        # A centre below the ground is of a wheel that has not been placed yet.
        load = m.where(compression > 0.0, m.where(at.radius > 0.0, m.fmax(spring, 0.0), 0.0), 0.0)
        radius = m.fmax(m.fmin(at.radius, q.radius), 0.1 * q.radius)

        along = moving.dot(at.along)
        wheel = Wheel(self._axle == "front", along, moving.dot(across), 1.0, 0.0, omega, load, radius, x,
                      Patch(friction=q.friction * u.terrain_mu), inclination=m.atan(at.lean * at.per_camber), side=self._side)
        if self._steady:
            faster = m.where(along < 0.0, m.fmin(along, -q.floor), m.fmax(along, q.floor)) - along
            rolling_radius = getattr(self._tyre, "rolling_radius", lambda q, wheel: wheel.radius)(q.tyre, wheel)
            wheel = replace(wheel, vx=along + faster, omega=omega + faster / rolling_radius)
        contact = self._tyre.forces(q.tyre, wheel)
        rolling = contact.my - contact.friction * m.fmin(m.fmax(omega * (1.0 / RESTING_SPEED), -1.0), 1.0)
        return contact, {
            "wheel_load.point": centre + at.arm,
            "wheel_load.force": at.along * contact.fx + across * contact.fy + normal * load,
            "wheel_load.moment": at.along * contact.mx + axis * rolling + normal * contact.mz,
            "query_point": centre}, omega

    def own_outputs(self, x: Record, u: Record, q: Any) -> Mapping[str, Scalar]:
        return {f"{name}.{axis}": value for name, found in self.load(x, u, q)[1].items() for axis, value in zip("xyz", found.components)}

    def dynamics(self, x: Record, u: Record, q: Any, h: Scalar) -> Dynamics:
        contact, _, omega = self.load(x, u, q)
        return Dynamics(Record(**({_TURN.name: omega} if self._steady else contact.changes)), ())

    def wheel_loads(self, x: Record, u: Record, q: Any) -> tuple[Scalar, ...]:
        return ()

    def report(self, x: Record, u: Record, q: Any) -> tuple[Scalar, Scalar, Scalar]:
        return 0.0, 0.0, 0.0


@cache
def tyre_model(name: str, wheel: str) -> Model:
    """Returns the model of a tyre alone. name: of a tyre model; wheel: fl, fr, rl or rr. Raises InputError: it needs more of the ground
    than height, normal and friction."""
    part = SLOTS["tyre"][name]
    if part.needs:
        raise InputError(f"tyre {name} needs {', '.join(part.needs)} of its ground, and a tyre FMU has height, normal and friction; "
                         f"choose one of: {', '.join(other.name for other in SLOTS['tyre'].values() if not other.needs)}")
    axle, side, steady = "front" if wheel in AXLES["front"] else "rear", 1.0 if wheel.endswith("l") else -1.0, not part.wheel_states
    radius, *stiffnesses = (field for field in chassis.WHEELS_AND_BRAKES if field.name.startswith(("wheel_radius", "tyre_vertical")))
    wheel_fields = (radius, *(field for field in stiffnesses if field.name.endswith(axle)), chassis.vertical_damping(axle), FRICTION_SCALE,
                    _REFERENCE_MU, *([_FLOOR] if steady else []))
    return Model(
        name=f"{name}_tyre", description=f"{part.description}, {PLACES[wheel]}, alone", source="paper 001 eqs 11-19, see multibody_hmmwv",
        states=(_TURN,) if steady else part.wheel_states, inputs=INPUTS, outputs=OUTPUTS, wheels=(),
        parameters=tuple({field.name: field for field in (*part.parameters, *wheel_fields)}.values()),
        build=lambda m: TyreAlone(m, part.build(m), axle, side, steady), largest_step=part.largest_step,
        own=tuple(field.name for field in OUTPUTS))
