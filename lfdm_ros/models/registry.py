"""Models by name: a chassis, and the parts in its slots."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any

from lfdm_ros.errors import InputError
from lfdm_ros.models import (
    conventions,
    driven_bicycle,
    eleven_dof,
    fiala,
    gearbox,
    kinematic_bicycle,
    linear_single_track,
    motor,
    nonlinear_bicycle,
    roll_chassis,
    steering,
    tmeasy,
    twenty_four_dof,
)
from lfdm_ros.models.declaration import INPUTS, OUTPUTS, WHEELS, Field, Model, Part


def _named(*parts: Part) -> Mapping[str, Part]:
    return MappingProxyType({part.name: part for part in parts})


# What can stand in a slot; the first is the default.
SLOTS: Mapping[str, Mapping[str, Part]] = MappingProxyType({
    "tyre": _named(fiala.FIALA, tmeasy.TMEASY, tmeasy.TMEASY_NR),
    "powertrain": _named(motor.MOTOR, gearbox.GEARBOX, gearbox.AUTOMATIC),
    "steering": _named(steering.LINEAR, steering.MAP),
    "conventions": _named(conventions.PHYSICS, conventions.LFDM),
})


@dataclass(frozen=True)
class Chassis:
    """A model without its parts. build(m, tyre, train, steer, lfdm, tyre_states) -> the equations."""

    name: str
    description: str
    source: str
    states: tuple[Field, ...]
    parameters: tuple[Field, ...]
    build: Callable[..., Any]
    tyres: tuple[str, ...] = WHEELS
    usual: str = ""  # the parts it is known with
    lfdm_states: tuple[Field, ...] = ()


_ROLL_SOURCE = "paper 000 (Unjhawala et al. 2023) eqs 4-13; paper 003"
CHASSIS: Mapping[str, Chassis] = MappingProxyType({c.name: c for c in (
    Chassis("eight_dof", "8 degrees of freedom: longitudinal, lateral, yaw, roll and four wheel spins", _ROLL_SOURCE, roll_chassis.STATES,
            roll_chassis.PARAMETERS, roll_chassis.build),
    Chassis("eleven_dof", "11 degrees of freedom: longitudinal, lateral, yaw, a wheel an axle with spin and deflections, crankshaft",
            "paper 003; Chen & Negrut TR-2019-04", eleven_dof.STATES, eleven_dof.PARAMETERS, eleven_dof.build, tyres=("front", "rear"),
            usual="tmeasy/automatic"),
    Chassis("eighteen_dof", "18 degrees of freedom: the chassis of eight_dof, with deflections of four tyres and a crankshaft where the "
            "parts have them", _ROLL_SOURCE, roll_chassis.STATES, roll_chassis.PARAMETERS, roll_chassis.build, usual="tmeasy/automatic"),
    Chassis("twenty_four_dof", "24 degrees of freedom: sprung mass in six, four unsprung masses, wheels and tyres, crankshaft",
            "paper 003; Shim & Ghike 2007", twenty_four_dof.STATES, twenty_four_dof.PARAMETERS, twenty_four_dof.build,
            usual="tmeasy/automatic", lfdm_states=twenty_four_dof.LFDM_STATES),
)})
_WHOLE = {module.MODEL.name: module.MODEL for module in (linear_single_track, nonlinear_bicycle, driven_bicycle, kinematic_bicycle)}


def model_names() -> tuple[str, ...]:
    """The chassis that `get_model` knows."""
    return (*_WHOLE, *CHASSIS)


def usual_spec(name: str) -> str:
    """A chassis with the parts it is known with, to show it; any other name as it is."""
    return f"{name}/{CHASSIS[name].usual}" if name in CHASSIS and CHASSIS[name].usual else name


def chassis_slots(name: str) -> Mapping[str, Mapping[str, Part]]:
    """The slots of a chassis; none for a model that is whole or unknown."""
    return SLOTS if name in CHASSIS else MappingProxyType({})


@cache
def get_model(spec: str) -> Model:
    """A model by its specification CHASSIS[/PART...]; slots that are not named have their default.

    Raises:
        InputError: no such chassis or part, or two parts for one slot; the message lists those there are.
    """
    name, *parts = spec.split("/")
    if name in _WHOLE:
        if parts:
            raise InputError(f"model '{name}' has no parts to choose; leave out '{'/'.join(parts)}'")
        return _WHOLE[name]
    if name not in CHASSIS:
        raise InputError(f"no model '{name}'; choose one of: {', '.join(model_names())}")
    chosen: dict[str, Part] = {}
    for part in parts:
        slot = next((slot for slot, there in SLOTS.items() if part in there), None)
        if slot is None:
            raise InputError(f"model '{spec}': no part '{part}'; there are: {', '.join(p for there in SLOTS.values() for p in there)}")
        if slot in chosen and chosen[slot].name != part:
            raise InputError(f"model '{spec}': two parts for the {slot}, '{chosen[slot].name}' and '{part}'")
        chosen[slot] = SLOTS[slot][part]
    for slot, there in SLOTS.items():
        chosen.setdefault(slot, next(iter(there.values())))
    return _assemble(CHASSIS[name], **chosen)


def all_parameters() -> dict[str, Field]:
    """Every parameter that some model has, by name."""
    fields = [f for model in _WHOLE.values() for f in model.parameters] + [f for chassis in CHASSIS.values() for f in chassis.parameters]
    fields += [f for there in SLOTS.values() for part in there.values() for f in part.parameters]
    return {field.name: field for field in fields}


def _assemble(chassis: Chassis, tyre: Part, powertrain: Part, steering: Part, conventions: Part) -> Model:
    lfdm = conventions.name == "lfdm"
    parts = {"tyre": tyre, "powertrain": powertrain, "steering": steering, "conventions": conventions}
    named = [part.name for slot, part in parts.items() if part is not next(iter(SLOTS[slot].values()))]
    tyre_states = tuple(replace(f, name=f"{f.name}_{wheel}", description=f"{f.description}, {wheel}")
                        for wheel in chassis.tyres for f in tyre.wheel_states)

    parameters = (*chassis.parameters, *tyre.parameters, *powertrain.parameters, *steering.parameters)

    def build(m: Any) -> Any:
        return chassis.build(m, tyre.build(m, lfdm, len(chassis.tyres) == 2), powertrain.build(m, lfdm), steering.build(m), lfdm,
                             len(tyre.wheel_states))

    return Model(
        name="/".join([chassis.name, *named]), description=f"{chassis.description}; {tyre.description}; {powertrain.description}",
        source=chassis.source, states=(*chassis.states, *(chassis.lfdm_states if lfdm else ()), *tyre_states, *powertrain.states),
        inputs=INPUTS, outputs=OUTPUTS, parameters=tuple({f.name: f for f in parameters}.values()), build=build,
        largest_step=tyre.largest_step)
