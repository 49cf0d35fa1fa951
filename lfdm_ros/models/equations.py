"""Interface of the equations, by name, and their conversion to the functions compiled by the back ends.

A model or chassis gives its dynamics: for each state, by name, a derivative or, where the state is a value of the last step, its new
value. This module builds the half-implicit step, the right-hand side and the outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from lfdm_ros.models.declaration import Field, Model
    from lfdm_ros.models.ground import Stance

Scalar = Any  # operand and result of the operations: a number, an array of them, or a node of a graph


class Operations(Protocol):
    """The scalar operations of equations; `namespace` makes a record of named values.

    row(table, index) returns four neighbouring values of an external array, by its number and the first index
    (`lfdm_ros.compiler.tables`); its derivative is 0, as that of floor.
    """

    namespace: Callable[..., Any]
    where: Callable[[Scalar, Scalar, Scalar], Scalar]
    sqrt: Callable[[Scalar], Scalar]
    fabs: Callable[[Scalar], Scalar]
    fmin: Callable[[Scalar, Scalar], Scalar]
    fmax: Callable[[Scalar, Scalar], Scalar]
    sin: Callable[[Scalar], Scalar]
    cos: Callable[[Scalar], Scalar]
    tanh: Callable[[Scalar], Scalar]
    exp: Callable[[Scalar], Scalar]
    log: Callable[[Scalar], Scalar]
    atan: Callable[[Scalar], Scalar]
    atan2: Callable[[Scalar, Scalar], Scalar]
    floor: Callable[[Scalar], Scalar]
    row: Callable[[Scalar, Scalar], Sequence[Scalar]]


class Record(SimpleNamespace):
    """Named values: states (`x.vx`, `x.wheels[2].omega`), inputs (`u.steering`), parameters (`p.wheel_radius`), or changes of states."""

    def but(self, **values: Any) -> Record:
        """Returns a copy with some values changed."""
        return Record(**{**self.__dict__, **values})

    def __getattr__(self, name: str) -> Any:  # for type checkers: attributes are the arguments
        raise AttributeError(f"no '{name}' here; there are: {', '.join(self.__dict__)}")


# -- Interface of equations and parts ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Patch:
    """The ground under one wheel.

    height: above the reference plane of the vehicle [m]; slope_x, slope_y: rise along x and y of the map [1], defining the normal;
    friction: relative to the road of the tyre's measurement; resistance: additional force against the travel over the load [1].
    """

    height: Scalar = 0.0
    slope_x: Scalar = 0.0
    slope_y: Scalar = 0.0
    friction: Scalar = 1.0
    resistance: Scalar = 0.0


@dataclass(frozen=True)
class Wheel:
    """State of a wheel as input of its tyre.

    front: it has the parameters of the front axle; vx, vy: velocity of the contact patch over ground in the body's frame [m/s];
    cos, sin: of its steering angle; omega: its speed [rad/s]; load [N]; radius: from its centre to the ground [m]; x: its states;
    ground: its patch; locked: 1 where its brake holds it at standstill, else 0; any_locked: 1 if any wheel of the vehicle is locked, the
    condition of a common jump; inclination: of the wheel's plane against the ground's normal, about the travel, + top to the right (ISO
    8855) [rad], 0 in chassis whose wheels stay upright; side: of the vehicle, 1 left, -1 right, 0 a whole axle, a number of Python's own.
    """

    front: bool
    vx: Scalar
    vy: Scalar
    cos: Scalar
    sin: Scalar
    omega: Scalar
    load: Scalar
    radius: Scalar
    x: Record
    ground: Patch
    locked: Scalar = 0.0
    any_locked: Scalar = 0.0
    inclination: Scalar = 0.0
    side: float = 0.0

    @property
    def along(self) -> Scalar:
        """Velocity of the contact patch in the wheel's plane [m/s]."""
        return self.vx * self.cos + self.vy * self.sin

    @property
    def across(self) -> Scalar:
        """Velocity of the contact patch across the wheel's plane, + left [m/s]."""
        return self.vy * self.cos - self.vx * self.sin


@dataclass(frozen=True)
class Contact:
    """Forces of the ground on a tyre in its frame [N], their slopes against the slip velocities (>= 0) [N s/m], and moments [N m].

    The frame is that of ISO 8855 in the contact: x ahead in the wheel's plane, y to the left, both in the ground, z its normal. Moments
    turn about these by the right hand: mx, overturning, + top of the wheel to the right; my, rolling resistance, turns the wheel ahead
    where it is +, so that it is - while the wheel rolls ahead; mz, aligning, + turns the wheel to the left. All chassis take my and mz,
    those whose wheels move against the body (24-DOF, multibody) mx too; a moment that stays 0.0 costs nothing.
    kx_locked: slope along that a wheel has only while it stands, beside kx: its spin need not be solved with it; stiff: 0 where the slopes
    of all wheels are 0 and no system need be solved for them.
    """

    fx: Scalar
    fy: Scalar
    kx: Scalar = 0.0
    ky: Scalar = 0.0
    kx_locked: Scalar = 0.0
    stiff: Scalar = 1.0
    friction: Scalar = 0.0  # rolling resistance as dry friction, the largest torque [N m]
    mx: Scalar = 0.0
    my: Scalar = 0.0
    mz: Scalar = 0.0
    changes: Mapping[str, Scalar] = field(default_factory=dict)  # of the tyre's states, by their names without the wheel


class Tyre(Protocol):
    """Forces of a tyre on the ground; its states are part of the wheel's record.

    A tyre with a rolling radius other than the height of its centre defines rolling_radius(q, wheel) [m].
    """

    @property
    def implicit(self) -> bool:
        """Flag that the forces are stiff in the slip velocities; then their slopes are given."""

    def prepare(self, p: Any) -> Any:
        """Computes the terms that depend on the parameters alone, once a run."""

    def forces(self, q: Any, wheel: Wheel) -> Contact:
        """Returns the forces on one wheel; q is the result of `prepare`."""


class Powertrain(Protocol):
    """Torques of the driven wheels; its states are found by their names in the record of all states."""

    def prepare(self, p: Any) -> Any:
        """Computes the terms that depend on the parameters alone, once a run."""

    def drive(self, speeds: Sequence[Scalar], vx: Scalar, throttle: Scalar, x: Record,
              q: Any) -> tuple[Sequence[Scalar], Mapping[str, Scalar]]:
        """Returns torques [N m] at the wheels' speeds [rad/s], as many as there are wheels, and the changes of the powertrain's states.

        A throttle below 0 drives backwards.
        """

    def report(self, speeds: Sequence[Scalar], x: Record, q: Any) -> tuple[Scalar, Scalar]:
        """Returns gear and engine speed [rad/s]."""


class Steering(Protocol):
    """Relation of the steered wheels' angle to the steering input."""

    def prepare(self, p: Any) -> Any:
        """Computes the terms that depend on the parameters alone, once a run."""

    def angle(self, steering: Scalar, q: Any) -> Scalar:
        """Returns angle of the steered wheels [rad], + left, at a steering input from -1 to 1."""


class Ground(Protocol):
    """Ground contact of the wheels and wind as inputs of the equations; evaluated inside every step."""

    def prepare(self, p: Any) -> Any:
        """Computes the terms that depend on the parameters alone, once a run."""

    def under(self, wheel: int, x: Scalar, y: Scalar, u: Record, q: Any) -> Patch:
        """Returns the ground under a wheel, by its number, at a place of the map [m]; u are the inputs."""

    def wind(self, x: Record, u: Record, q: Any) -> tuple[Scalar, Scalar]:
        """Returns the force of the wind on the body at the sprung mass's centre, along the vehicle and to the left [N]."""


@dataclass(frozen=True)
class TyreForce:
    """Force of the ground on one wheel, in the tyre's frame [N]."""

    fx: Scalar
    fy: Scalar
    fz: Scalar


@dataclass(frozen=True)
class Dynamics:
    """Changes and forces over a step of h seconds, or at an instant where h is 0.

    Attributes:
        changes: derivative of each state except those of `Equations.motions` or, for held and discrete ones, the new value;
            `changes.wheels` likewise for each wheel.
        forces: of each reported wheel.
        late: late(x) returns values that depend on the new velocities in the record x.
        start: initial states of the step, if they differ from the given ones.
    """

    changes: Record
    forces: Sequence[TyreForce]
    late: Callable[[Record], Record] | None = None
    start: Record | None = None


class Equations(Protocol):
    """Equations of a model. x, u and p are records by the declared names, q the result of `prepare`, h the step [s], 0 in continuous
    time."""

    @property
    def input_time(self) -> float:
        """Place in a step at which the inputs are read: 0 its start, 0.5 its middle."""

    @property
    def mean_motion(self) -> bool:
        """Flag to integrate positions with the mean of the old and new velocities instead of the new ones."""

    @property
    def motions(self) -> Sequence[Callable[[Record, Record, Any], Record]]:
        """Functions (x, u, q) -> rates of positions, from velocities; each uses the results of its predecessors."""

    def prepare(self, p: Any) -> Any:
        """Computes the terms that depend on the parameters alone, once a run."""

    def dynamics(self, x: Record, u: Record, q: Any, h: Scalar) -> Dynamics:
        """Evaluates the equations of motion, solved for the accelerations; stiff terms are implicit over h."""

    def wheel_loads(self, x: Record, u: Record, q: Any) -> Sequence[Scalar]:
        """Returns loads as those of the forces [N], but negative where a wheel is off the ground, so that derivatives lead back."""

    def report(self, x: Record, u: Record, q: Any) -> tuple[Scalar, Scalar, Scalar]:
        """Returns gear, engine speed [rad/s], road-wheel angle [rad]."""


@runtime_checkable
class Standing(Protocol):
    """Equations that report the vehicle's stance, as all with a ground do."""

    def stance(self, x: Record, u: Record, q: Any) -> Stance:
        """Returns the patches of ground under the wheels, and the plane that they make together."""


@runtime_checkable
class Reaching(Protocol):
    """Equations of wheels on linkages that do not reach everywhere."""

    def reach(self, x: Record, u: Record, q: Any) -> Sequence[Scalar]:
        """Returns the distance of each wheel from the end of its linkage's reach, 1 to 0; below 0 the equations give NaN."""


@runtime_checkable
class Reporting(Protocol):
    """Equations that report additional outputs."""

    def own_outputs(self, x: Record, u: Record, q: Any) -> Mapping[str, Scalar]:
        """Returns them by name."""


# -- From equations to functions of plain sequences -------------------------------------------------------------------------------


class Functions:
    """A model's equations on sequences in the order declared: the half-implicit rule, written once for all models.

    Velocities first, from the forces at the old positions (what is stiff in them is implicit already); then positions, with the new
    velocities or, where the equations say so, their mean.

    prepare(p) -> q of a record of the parameters: what depends on them alone;
    step(x, u, q, h) -> x: one half-implicit step of h seconds;
    rhs(x, u, q) -> for each state its derivative; for a held one new value minus present (0 = residual), for a discrete one 0;
    tyre_forces(x, u, q, h) -> Fx, then Fy, then Fz of the wheels in the tyre frame [N];
    wheel_loads(x, u, q) -> the loads of tyre_forces, but negative where a wheel is off the ground;
    drive(x, u, q) -> (gear, engine speed, road-wheel angle);
    friction(x, u, q) -> what the tyres hold over what they hold on level ground of friction 1: the ground's friction, the mean of the
    wheels, times the share of the weight that presses on it; 1 for equations without a ground;
    patches(x, u, q) -> what each wheel stands on; none for equations without a ground;
    reach(x, u, q) -> as `Reaching.reach`; None for equations without linkages;
    own_outputs(x, u, q) -> as `Reporting.own_outputs`; none for other equations;
    input_time: as `Equations.input_time`.
    """

    def __init__(self, model: Model, m: Operations) -> None:
        self._equations = equations = model.build(m)
        self._states, self._inputs = RecordLayout(model.states), RecordLayout(model.inputs)
        self.prepare, self.input_time = equations.prepare, equations.input_time
        self.reach: Callable[[Sequence[Scalar], Sequence[Scalar], Any], Sequence[Scalar]] | None = None
        if isinstance(equations, Reaching):
            self.reach = lambda x, u, q: equations.reach(*self._records(x, u), q)

    def _records(self, x: Sequence[Scalar], u: Sequence[Scalar]) -> tuple[Record, Record]:
        return self._states.record(x), self._inputs.record(u)

    def step(self, x: Sequence[Scalar], u: Sequence[Scalar], q: Any, h: Scalar) -> tuple[Scalar, ...]:
        states, (given, driver) = self._states, self._records(x, u)
        d = self._equations.dynamics(given, driver, q, h)
        old = d.start or given
        new = states.after(old, d.changes, h)
        if d.late:
            new = states.replaced(new, d.late(new))
        for motion in self._equations.motions:
            moving = states.mean(old, new) if self._equations.mean_motion else new
            new = states.after(old, motion(moving, driver, q), h, new)
        return states.values(new)

    def rhs(self, x: Sequence[Scalar], u: Sequence[Scalar], q: Any) -> tuple[Scalar, ...]:
        given, driver = self._records(x, u)
        rates = self._equations.dynamics(given, driver, q, 0.0).changes
        for motion in self._equations.motions:
            rates = self._states.replaced(rates, motion(given, driver, q))
        return self._states.slopes(given, rates)

    def tyre_forces(self, x: Sequence[Scalar], u: Sequence[Scalar], q: Any, h: Scalar) -> tuple[Scalar, ...]:
        forces = self._equations.dynamics(*self._records(x, u), q, h).forces
        return (*(force.fx for force in forces), *(force.fy for force in forces), *(force.fz for force in forces))

    def own_outputs(self, x: Sequence[Scalar], u: Sequence[Scalar], q: Any) -> Mapping[str, Scalar]:
        return self._equations.own_outputs(*self._records(x, u), q) if isinstance(self._equations, Reporting) else {}

    def wheel_loads(self, x: Sequence[Scalar], u: Sequence[Scalar], q: Any) -> Sequence[Scalar]:
        return self._equations.wheel_loads(*self._records(x, u), q)

    def drive(self, x: Sequence[Scalar], u: Sequence[Scalar], q: Any) -> tuple[Scalar, Scalar, Scalar]:
        return self._equations.report(*self._records(x, u), q)

    def friction(self, x: Sequence[Scalar], u: Sequence[Scalar], q: Any) -> Scalar:
        if not isinstance(self._equations, Standing):
            return 1.0
        stance = self._equations.stance(*self._records(x, u), q)
        first, *others = (patch.friction for patch in stance.patches)
        # If it is equal for all, as on a plane, there is nothing to compute.
        mean = first if all(other is first for other in others) else (first + sum(others)) / (1 + len(others))
        return mean * stance.normal

    def patches(self, x: Sequence[Scalar], u: Sequence[Scalar], q: Any) -> Sequence[Patch]:
        return self._equations.stance(*self._records(x, u), q).patches if isinstance(self._equations, Standing) else ()


def functions_of(model: Model, m: Operations) -> Functions:
    """Returns a model's functions on the operations of `m`."""
    return Functions(model, m)


class RecordLayout:
    """Fields in the order declared, as records and back."""

    def __init__(self, fields: Sequence[Field]):
        wheels = list(dict.fromkeys(declared.wheel for declared in fields if declared.wheel))
        self._count = len(wheels)
        # For each field: the part of a record that has it, 0 for its own values and then the wheels; its name there; its role.
        self._fields = tuple((wheels.index(declared.wheel) + 1 if declared.wheel else 0, declared.stem, declared.role)
                             for declared in fields)

    def record(self, values: Sequence[Scalar]) -> Record:
        """Makes the record of values in the order declared."""
        parts: list[dict[str, Scalar]] = [{} for _ in range(1 + self._count)]
        for (part, stem, _), value in zip(self._fields, values, strict=True):
            parts[part][stem] = value
        return self._joined(parts)

    def values(self, record: Record) -> tuple[Scalar, ...]:
        """Returns the values of a whole record in the order declared."""
        parts = (record, *record.wheels)
        return tuple(getattr(parts[part], stem) for part, stem, _ in self._fields)

    def after(self, old: Record, changes: Record, h: Scalar, new: Record | None = None) -> Record:
        """Returns `new` (default `old`) with `changes` applied to `old` over h: derivatives, and new values of held or discrete states."""
        result, before, change = self._copies(new or old), self._parts(old), self._parts(changes)
        for part, stem, role in self._fields:
            if stem in change[part]:
                value = change[part][stem]
                result[part][stem] = before[part][stem] + h * value if role == "continuous" else value
        return self._joined(result)

    def replaced(self, record: Record, others: Record) -> Record:
        """Returns the record updated with the values of another one."""
        result, other = self._copies(record), self._parts(others)
        for part, stem, _ in self._fields:
            if stem in other[part]:
                result[part][stem] = other[part][stem]
        return self._joined(result)

    def mean(self, old: Record, new: Record) -> Record:
        """Returns the mean of two records; values that are the same in both stay as they are."""
        result, before = self._copies(new), self._parts(old)
        for part, stem, _ in self._fields:
            if stem in result[part] and before[part][stem] is not result[part][stem]:
                result[part][stem] = 0.5 * (before[part][stem] + result[part][stem])
        return self._joined(result)

    def slopes(self, x: Record, changes: Record) -> tuple[Scalar, ...]:
        """Returns for each state its derivative; for a held one new value minus present, for a discrete one 0."""
        now, change = self._parts(x), self._parts(changes)
        return tuple(0.0 if role == "discrete" else change[part][stem] if role == "continuous" else change[part][stem] - now[part][stem]
                     for part, stem, role in self._fields)

    def _parts(self, record: Record) -> list[dict[str, Scalar]]:
        """Returns the values of a record and of each wheel, by name; not to be changed."""
        wheels = record.__dict__.get("wheels")
        return [record.__dict__, *((wheel.__dict__ for wheel in wheels) if wheels is not None else [{}] * self._count)]

    def _copies(self, record: Record) -> list[dict[str, Scalar]]:
        return [dict(part) for part in self._parts(record)]

    @staticmethod
    def _joined(parts: Sequence[dict[str, Scalar]]) -> Record:
        return Record(**{**parts[0], "wheels": tuple(Record(**wheel) for wheel in parts[1:])})
