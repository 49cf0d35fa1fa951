"""Declarations of parameters: value, unit, range, description, and whether it may change while it is in use.

A record of settings is a frozen dataclass that inherits `Declared`, with fields made by `setting`; a node adds parameters of its own.
Checks, YAML, ROS parameters, the command line and the documentation all come from these declarations.
"""

import math
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Generic, TypeVar, cast

from lfdm_ros import documents
from lfdm_ros.errors import InputError, quote, suggest

Value = bool | int | float | str | list[str]
Choices = tuple[str, ...] | Callable[[], Iterable[str]]
T = TypeVar("T")
Record = TypeVar("Record", bound="Declared")

_NAMES = {bool: "boolean (true or false)", int: "whole number", float: "number", str: "text", list: "list of texts"}


def _named(choices: Choices) -> tuple[str, ...]:
    return tuple(choices()) if callable(choices) else choices


@dataclass(frozen=True)
class Parameter:
    """Declaration of one parameter; its type is that of the default.

    Attributes:
        name: as in YAML.
        default: bool, int, float, str or list of str.
        description: its meaning.
        lower, upper: closed range of a number.
        choices: the texts allowed, or a function that returns them, called when a value is checked, so that plug-ins may be loaded later;
            empty: any.
        live: may change while it is in use. Others may change only before their node is configured.
        unit: of a number; empty: none.
        former: texts of the former release; each is taken for the one that it maps to, with a line that says so, or refused by that line.
        power: of the vehicle's scale, by which its default follows from the vehicle; see `Declared.fitted`.
    """

    name: str
    default: Value
    description: str
    lower: float = -math.inf
    upper: float = math.inf
    choices: Choices = ()
    live: bool = False
    unit: str = ""
    former: Mapping[str, str] = field(default_factory=dict)
    power: int = 0

    def convert(self, value: Any, where: str) -> Value:
        """Checks a value from YAML or a command line and gives it the declared type. Raises InputError: wrong type, not finite, out of
        range or not among the choices; the message starts with `where`."""
        kind = type(self.default)
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = documents.number(value, where)
        if type(value) is not kind or (isinstance(value, list) and not all(isinstance(item, str) for item in value)):
            raise InputError(f"{where}: {quote(value)} is no {_NAMES[kind]}")
        if isinstance(value, (int, float)) and not self.lower <= value <= self.upper:  # false for NaN
            raise InputError(f"{where}: {quote(value)} is outside [{self.lower:g}, {self.upper:g}]")
        allowed = self.allowed
        if allowed and value not in allowed:
            return _of_former(cast(str, value), self.former, allowed, f"{where}: {quote(value)} ", "is unknown")
        return value

    @property
    def allowed(self) -> tuple[str, ...]:
        """The texts allowed now; empty: any."""
        return _named(self.choices)

    @property
    def text(self) -> str:
        """The description with its unit."""
        description = f"{self.description}; the default is for vehicles of 4 m and longer" if self.power else self.description
        return f"{description} [{self.unit}]" if self.unit else description


def renaming(former: str, now: str) -> str:
    """Returns the line about a name of the former release that is still taken."""
    return f"{former} is {now} now; the next release takes the new name only"


def _of_former(value: str, former: Mapping[str, str], allowed: Iterable[str], where: str, unknown: str) -> str:
    """Returns the present text of one of the former release, with a line on stderr. Raises InputError for others; `where` leads it."""
    now = former.get(value)
    if now is None:
        raise InputError(f"{where}{unknown}{suggest(value, allowed, 'choose one of: ')}")
    if now not in allowed:
        raise InputError(f"{where.rstrip()}; it {now}")
    print(f"warning: {where.strip()}: {renaming(value, now)}", file=sys.stderr)
    return now


def setting(default: Any, unit: str, description: str, lower: float = -math.inf, upper: float = math.inf, *, live: bool = False,
            choices: Choices = (), former: Mapping[str, str] | None = None, power: int = 0) -> Any:
    """Makes a field of a `Declared` record; see `Parameter`."""
    return field(default=default, metadata={"unit": unit, "description": description, "lower": lower, "upper": upper, "live": live,
                                            "choices": choices, "former": former or {}, "power": power})


class Declared:
    """Frozen dataclass with `setting`s as fields: refuses values of another type, out of range or not among the choices."""

    ABOUT: ClassVar[str] = "setting "  # begin of messages

    def __post_init__(self) -> None:
        for f in fields(self):  # type: ignore[arg-type]
            value, m, kind = getattr(self, f.name), f.metadata, type(f.default)
            if not isinstance(value, (int, float) if kind is float else kind) or (isinstance(value, bool) and kind is not bool):
                raise InputError(f"{self.ABOUT}{f.name} is {quote(value)}; give a {_NAMES[kind]}")
            allowed = _named(m["choices"])
            if allowed and value not in allowed:
                object.__setattr__(self, f.name, _of_former(str(value), m["former"], allowed, f"{self.ABOUT}{f.name} is '{value}'", ""))
            if isinstance(value, (int, float)) and not m["lower"] <= value <= m["upper"]:  # false for NaN
                unit = f" {m['unit']}" if m["unit"] not in ("", "1") else ""
                raise InputError(f"{self.ABOUT}{f.name} is {value:g}{unit}; give {m['lower']:g} to {m['upper']:g}{unit}")

    def fitted(self: Record, scale: float, **given: float | None) -> Record:
        """Returns the settings for a vehicle of a scale (`Footprint.scale`). Only those that have their default change: lengths, speeds and
        their weights, whose default is that of a full-size vehicle, are in proportion; `given` ones, None: not given, are those of the
        vehicle's file. A field `scale` is set."""
        if scale == 1.0 and all(value is None for value in given.values()):
            return self
        default = {f.name: f.default for f in fields(self)}  # type: ignore[arg-type]
        follow = {f.name: min(max(f.default * scale ** f.metadata["power"], f.metadata["lower"]), f.metadata["upper"])
                  for f in fields(self) if f.metadata["power"]}  # type: ignore[arg-type]
        follow.update({name: value for name, value in given.items() if value is not None})
        changes = {name: value for name, value in follow.items() if getattr(self, name) == default[name]}
        return replace(self, **changes, **({"scale": scale} if "scale" in default else {}))  # type: ignore[type-var]


@dataclass(frozen=True)
class Exposed(Generic[T]):
    """A `Declared` record as parameters: by the prefix and the field's name, or as `names` has it, without those in `without`."""

    kind: type[T]
    prefix: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    without: tuple[str, ...] = ()

    def name(self, field_name: str) -> str:
        """Returns the name of the parameter of a field."""
        return self.names.get(field_name, self.prefix + field_name)

    @property
    def by_field(self) -> dict[str, Parameter]:
        """The parameters, by the names of their fields."""
        return {f.name: Parameter(self.name(f.name), cast(Value, f.default), **f.metadata)
                for f in fields(self.kind) if f.name not in self.without}  # type: ignore[arg-type]

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters, in the order of the fields."""
        return tuple(self.by_field.values())

    def record(self, value: Callable[[str], Any], **fixed: Any) -> T:
        """Returns the record of the parameters' values, which `value` returns by name, but for `fixed` fields. Raises InputError: they do
        not fit together."""
        return self.kind(**{name: value(p.name) for name, p in self.by_field.items() if name not in fixed}, **fixed)

    def tuned(self, settings: T, changes: Mapping[str, Any]) -> T:
        """Returns the settings with changes of live ones, by field. Raises InputError for others, or a value out of range."""
        live = {name: p.live for name, p in self.by_field.items()}
        for name in changes:
            if not live.get(name, False):
                raise InputError(f"setting {name} cannot change while driving" if name in live else f"there is no setting {name}")
        return replace(settings, **changes)  # type: ignore[type-var]
