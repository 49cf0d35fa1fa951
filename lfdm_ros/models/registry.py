"""Models by name: a chassis, and the parts in its slots; those of the package, and registered ones."""

from collections.abc import Iterator, Mapping
from functools import cache, partial
from types import MappingProxyType
from typing import Any

from lfdm_ros import plugins
from lfdm_ros.errors import InputError, prefixing, suggest
from lfdm_ros.models import (
    bekker_wong,
    double_wishbone,
    driven_bicycle,
    eleven_dof,
    fiala,
    gearbox,
    ground,
    ground_maps,
    kinematic_bicycle,
    lfdm_library,
    linear_single_track,
    magic_formula,
    motor,
    multibody,
    nonlinear_bicycle,
    roll_chassis,
    soil,
    steering,
    steering_linkage,
    struts,
    tmeasy,
    twenty_four_dof,
)
from lfdm_ros.models.declaration import INPUTS, Chassis, Conventions, Field, Model, Part, outputs_of
from lfdm_ros.models.equations import Equations, Operations
from lfdm_ros.plugins import Registry


def _open(*entries: Any) -> Registry[Any]:
    return Registry(lambda: load_plugins(), *entries)  # defined below


_SLOTS: dict[str, Registry[Any]] = {
    "tyre": _open(fiala.FIALA, tmeasy.TMEASY, tmeasy.TMEASY_NR, bekker_wong.BEKKER_WONG, bekker_wong.BEKKER_WONG_RIGID,
                  magic_formula.MAGIC_FORMULA, magic_formula.MAGIC_FORMULA_RELAXED),
    "powertrain": _open(motor.MOTOR, gearbox.GEARBOX, gearbox.AUTOMATIC),
    "steering": _open(steering.LINEAR, steering.MAP),
    "ground": _open(ground.PLANE, ground.GIVEN, ground_maps.FIELD, ground_maps.MAP, soil.UNIFORM_SOIL, soil.GIVEN_SOIL,
                    soil.MAPPED_SOIL, ground_maps.HEIGHTS, ground_maps.RESISTANCE),
    "suspension": _open(double_wishbone.PART),
    "struts": _open(struts.PART),
    "steering_linkage": _open(steering_linkage.PITMAN_ARM, steering_linkage.RACK),
    "conventions": _open(Conventions("physics", "as the equations of motion say"), lfdm_library.LFDM),
}
# Parts of each slot; the first is the default.
SLOTS: Mapping[str, Mapping[str, Part]] = MappingProxyType(_SLOTS)


# Grounds of chassis with separate friction coefficients, by the name of the ground they replace.
_UNSCALED = {part.name: part for part in (
    ground.UNSCALED_PLANE, ground_maps.UNSCALED_FIELD, ground_maps.UNSCALED_MAP, ground_maps.UNSCALED_HEIGHTS,
    ground_maps.UNSCALED_RESISTANCE)}
_ALL = ("tyre", "ground", "powertrain", "steering", "conventions")
_ROLL_SOURCE = "paper 000 (Unjhawala et al. 2023) eqs 4-13; paper 003"
CHASSIS: Registry[Chassis] = _open(
    linear_single_track.CHASSIS, nonlinear_bicycle.CHASSIS, driven_bicycle.CHASSIS, kinematic_bicycle.CHASSIS,
    Chassis("eight_dof", "8 degrees of freedom: longitudinal, lateral, yaw, roll and four wheel spins", _ROLL_SOURCE, roll_chassis.states(),
            roll_chassis.PARAMETERS, roll_chassis.RollChassis, slots=_ALL),
    Chassis("eleven_dof", "11 degrees of freedom: longitudinal, lateral, yaw, a wheel an axle with spin and deflections, crankshaft",
            "paper 003; Chen & Negrut TR-2019-04", eleven_dof.STATES, eleven_dof.PARAMETERS, eleven_dof.ElevenDof, wheels=("front", "rear"),
            usual="tmeasy/automatic", slots=_ALL),
    Chassis("eighteen_dof", "18 degrees of freedom: the chassis of eight_dof, with deflections of four tyres and a crankshaft where the "
            "parts have them", _ROLL_SOURCE, roll_chassis.states(), roll_chassis.PARAMETERS, roll_chassis.RollChassis,
            usual="tmeasy/automatic", slots=_ALL),
    Chassis("twenty_four_dof", "24 degrees of freedom: sprung mass in six, four unsprung masses, wheels and tyres, crankshaft",
            "paper 003; Shim & Ghike 2007", twenty_four_dof.STATES, twenty_four_dof.PARAMETERS, twenty_four_dof.TwentyFourDof,
            usual="tmeasy/automatic", slots=_ALL, largest_step=0.01),  # its unsprung masses are explicit
    Chassis("multibody_hmmwv", "15 degrees of freedom: an embedded multibody with its suspension's linkages, body in six, steering, four "
            "suspension angles and wheels", "paper 001 (Jayakumar et al. 2015)", multibody.STATES, multibody.PARAMETERS,
            multibody.Multibody, slots=("tyre", "ground", "powertrain", "suspension", "struts", "steering_linkage"), largest_step=2e-3,
            resting=multibody.RESTING),
)
_WHOLE: Registry[Model] = _open()  # from outside


# -- From outside -------------------------------------------------------------------------------------------------------------


@cache  # a name is looked up for every parameter of every vehicle that is made
def load_plugins() -> None:
    """Registers the tyres, powertrains, grounds, chassis and models that other packages name in their entry points."""
    plugins.load({"lfdm_ros.tyres": partial(register_part, "tyre"), "lfdm_ros.powertrains": partial(register_part, "powertrain"),
                  "lfdm_ros.grounds": partial(register_part, "ground"),
                  "lfdm_ros.models": lambda found: register_model(found) if isinstance(found, Model) else register_chassis(found)})


def register_part(slot: str, part: Part) -> None:
    """Registers a part by its name, for specifications, vehicle files and commands.

    Args:
        slot: tyre, powertrain, steering, ground, suspension, struts or steering_linkage.

    Raises:
        InputError: no such slot, a name that is taken or invalid, or a parameter with another declaration.
    """
    if slot not in _SLOTS or slot == "conventions":
        slots = ", ".join(name for name in _SLOTS if name != "conventions")
        raise InputError(f"there is no slot '{slot}' to register a part for; there are: {slots}")
    fields = (*part.parameters, *part.states, *part.wheel_states, *part.inputs, *part.wheel_inputs)
    _register(_SLOTS[slot], part, fields, part.parameters)


def register_chassis(chassis: Chassis) -> None:
    """Makes a chassis known by its name, with every part in its slots. Raises InputError as `register_part`."""
    _register(CHASSIS, chassis, (*chassis.parameters, *chassis.states), chassis.parameters)


def register_model(model: Model) -> None:
    """Makes a whole model known by its name. Raises InputError as `register_part`."""
    _register(_WHOLE, model, (*model.parameters, *model.states, *model.inputs), model.parameters)


def _register(entries: Registry[Any], entry: Part | Chassis | Model, fields: tuple[Field, ...], parameters: tuple[Field, ...]) -> None:
    global _count
    names = [entry.name, *(field.name for field in fields)]
    for name in names:
        if not name.isidentifier():
            raise InputError(f"'{name}' of '{entry.name}' is no name; use letters, digits and _, beginning with a letter")
    taken = {name: there for there in _registries() for name in there.registered}
    if entry.name in taken:
        if taken[entry.name].registered[entry.name] is entry:
            return  # twice the same, as when a module is imported by two ways
        raise InputError(f"'{entry.name}' is registered already; choose another name")
    declared = _declared()
    for field in parameters:
        if field.name in declared and (declared[field.name].unit, declared[field.name].description) != (field.unit, field.description):
            raise InputError(f"parameter '{field.name}' of '{entry.name}' is declared already, as {declared[field.name].description} "
                             f"[{declared[field.name].unit}]; use that declaration, or choose another name")
    entries.add(entry, entry.build)
    _count += 1


def model_names() -> tuple[str, ...]:
    """Returns the chassis available to `get_model`."""
    return (*CHASSIS, *_WHOLE)


def usual_spec(name: str) -> str:
    """Returns a chassis with the parts it is known with, to show it; any other name as it is."""
    return f"{name}/{CHASSIS[name].usual}" if name in CHASSIS and CHASSIS[name].usual else name


def chassis_slots(name: str) -> Mapping[str, Mapping[str, Part]]:
    """Returns the slots of a chassis; none for an external complete model, or an unknown one."""
    return MappingProxyType({slot: SLOTS[slot] for slot in CHASSIS[name].slots} if name in CHASSIS else {})


@cache
def get_model(spec: str) -> Model:
    """Returns a model by its specification CHASSIS[/PART...]; other slots have their default. The ground may combine several parts:
    eight_dof/friction_field/height_map. Raises InputError: no such chassis or part, or two parts for one slot; the message lists the
    available ones."""
    name, *parts = spec.split("/")
    if name in _WHOLE:
        if parts:
            raise InputError(f"model '{name}' has no parts to choose; leave out '{'/'.join(parts)}'")
        return _WHOLE[name]
    if name not in CHASSIS:
        raise InputError(f"no model '{name}'{suggest(name, model_names(), 'choose one of: ')}")
    chosen: dict[str, Part] = {}
    grounds: set[str] = set()
    for part in parts:
        slot = next((slot for slot, there in SLOTS.items() if part in there), None)
        there = chassis_slots(name)
        if slot is None:
            candidates = [p for entries in there.values() for p in entries]
            raise InputError(f"model '{spec}': no part '{part}'{suggest(part, candidates, 'there are: ')}")
        if slot not in there:
            raise InputError(f"model '{name}' has no {slot} to choose; leave out '{part}'")
        if slot == "ground":
            grounds.add(part)
            continue
        if slot in chosen and chosen[slot].name != part:
            raise InputError(f"model '{spec}': two parts for the {slot}, '{chosen[slot].name}' and '{part}'")
        chosen[slot] = SLOTS[slot][part]
    if grounds:
        chosen["ground"] = _ground(spec, CHASSIS[name], grounds)
    # One object per model, whatever the spelling.
    return _assemble(CHASSIS[name], tuple(chosen.get(slot) or next(iter(there.values())) for slot, there in chassis_slots(name).items()))


def _ground(spec: str, chassis: Chassis, names: set[str]) -> Part:
    """Returns the ground of these parts, in the order in which they are declared."""
    parts = [part for part in SLOTS["ground"].values() if part.name in names]
    if not chassis.friction_scale:
        parts = [_UNSCALED.get(part.name, part) for part in parts]
    with prefixing(f"model '{spec}'"):
        return ground.layered(tuple(parts))


def all_parameters() -> dict[str, Field]:
    """Returns every parameter that some model has, by name."""
    load_plugins()
    return _declared()


def registered() -> int:
    """Counts parts, chassis and models, as a version for derived data."""
    load_plugins()
    return _count


def _registries() -> tuple[Registry[Any], ...]:
    return (*_SLOTS.values(), CHASSIS, _WHOLE)


_count = sum(len(there.registered) for there in _registries())


def entries() -> Iterator[tuple[str, Part | Chassis | Model]]:
    """Yields all parts and models: the slot, or "chassis" of a chassis and a whole model, and itself."""
    load_plugins()
    homes: list[tuple[str, Registry[Any]]] = [*_SLOTS.items(), ("chassis", CHASSIS), ("chassis", _WHOLE)]
    for slot, there in homes:
        yield from ((slot, entry) for entry in tuple(there.registered.values()))


def _declared() -> dict[str, Field]:
    return {field.name: field for there in _registries() for entry in there.registered.values() for field in entry.parameters}


@cache
def _assemble(chassis: Chassis, chosen: tuple[Any, ...]) -> Model:
    parts: dict[str, Any] = dict(zip(chassis.slots, chosen))
    # The name omits defaults, in the order of the slots.
    named = [part.name for slot, part in parts.items() if part.name != next(iter(SLOTS[slot]))]
    if not chassis.friction_scale:
        parts["ground"] = _UNSCALED.get(parts["ground"].name, parts["ground"])
    resists = "resistance" in parts["ground"].gives and "tyre" in parts
    conventions = parts.pop("conventions", SLOTS["conventions"]["physics"])
    variants = conventions.variants
    of_slots = {"tyre": conventions.of_axles} if len(chassis.wheels) == 2 else {}

    def build(m: Operations) -> Equations:
        built = {slot: of_slots.get(slot, variants).get(part.build, part.build)(m) for slot, part in parts.items()}
        if resists:
            built["tyre"] = ground.WithRollingResistance(m, built["tyre"])
        equations: Equations = variants.get(chassis.build, chassis.build)(m, **built)
        return equations

    def of_wheels(kind: str) -> Iterator[Field]:
        for wheel in chassis.wheels:
            yield from (field.of_wheel(wheel) for part in parts.values() for field in getattr(part, kind))

    parameters = (*chassis.parameters, *(field for part in parts.values() for field in part.parameters))
    return Model(
        name="/".join([chassis.name, *named]),
        description="; ".join([chassis.description, *(part.description for slot, part in parts.items() if slot in ("tyre", "powertrain"))]),
        source=chassis.source,
        states=(*chassis.states, *conventions.more_states.get(chassis.build, ()), *of_wheels("wheel_states"),
                *(field for part in parts.values() for field in part.states)),
        inputs=(*INPUTS, *of_wheels("wheel_inputs"), *(field for part in parts.values() for field in part.inputs)),
        outputs=outputs_of(chassis.wheels), wheels=chassis.wheels,
        parameters=tuple({f.name: f for f in parameters}.values()), build=build,
        largest_step=min(chassis.largest_step, *(part.largest_step for part in parts.values())), resting=chassis.resting)
