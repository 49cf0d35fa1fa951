"""Tyre property files (.tir) with the coefficients of the Magic Formula, versions 5.2 and 6.1/6.2."""

import math
import re
from collections.abc import Mapping
from pathlib import Path

from lfdm_ros.documents import read_text
from lfdm_ros.errors import InputError, quote, suggest
from lfdm_ros.models.magic_formula import DEFAULTS, PARAMETERS, RELAXATION

_FIELDS = {field.symbol: field for field in (*PARAMETERS, *RELAXATION)}
_UNITS = {"LENGTH": ("meter", "metre", "m"), "FORCE": ("newton", "n"), "ANGLE": ("radians", "radian", "rad"),
          "MASS": ("kg", "kilogram"), "TIME": ("second", "s", "sec")}
_SIDES = {"LEFT": 1.0, "RIGHT": -1.0, "SYMMETRIC": 0.0}
# Version of the equations -> FITTYP or, without one, PROPERTY_FILE_FORMAT.
_VERSIONS = {"5": 52.0, "6": 52.0, "21": 52.0, "51": 52.0, "52": 52.0, "60": 61.0, "61": 61.0, "62": 62.0, "PAC2002": 52.0, "MF_05": 52.0}
_OTHER_NAMES = {"LFZ0": "LFZO", "LGAY": "LKYC", "LGAZ": "LKZC", "IP": "INFLPRES", "IP_NOM": "NOMPRES"}


def read_tir(path: Path) -> dict[str, float]:
    """Returns the parameters of the tyres `magic_formula` and `magic_formula_relaxed`, in SI, of a .tir file.

    Comments begin with $ or !, sections with [NAME]; keys of other models of the file (belt, enveloping, turn slip) have no effect. Missing
    coefficients are 0, missing scales 1, or as in `lfdm_ros.models.magic_formula.DEFAULTS`.

    Raises:
        InputError: no such file, a value that is not a number or out of range, a unit other than SI, an unsupported version, or an
        essential coefficient missing; the message names file and line.
    """
    values: dict[str, tuple[float, int]] = {}
    version, units = "", False
    for number, raw in enumerate(read_text(path, "tyre property file").splitlines(), 1):
        where = f"{path}, line {number}"
        line = re.split(r"[$!]", raw, maxsplit=1)[0].strip()
        if line.startswith("["):
            units = line.upper() == "[UNITS]"
        key, equals, text = (part.strip() for part in line.partition("="))
        key, text = key.upper(), text.strip("'\"")
        key = _OTHER_NAMES.get(key, key)
        if not equals or not text:
            continue
        if units and key in _UNITS and text.lower() not in _UNITS[key]:
            raise InputError(f"{where}: {key} is in {quote(text)}; convert the file to SI, {_UNITS[key][0]}")
        if key == "FITTYP" or (key == "PROPERTY_FILE_FORMAT" and not version):
            version = text.upper().removesuffix(".0")
            if version in _VERSIONS:
                values["VERSION"] = _VERSIONS[version], number
            elif key == "FITTYP":
                raise InputError(f"{where}: FITTYP {quote(text)} is none of Magic Formula 5.2, 6.1 or 6.2{suggest(text, _VERSIONS)}")
        elif key == "TYRESIDE":
            if text.upper() not in _SIDES:
                raise InputError(f"{where}: TYRESIDE {quote(text)}{suggest(text, _SIDES, 'known: ')}")
            values[key] = _SIDES[text.upper()], number
        elif key in _FIELDS and key != "VERSION":
            value = _number(text, f"{where}: {key}")
            if key in values and values[key][0] != value:
                raise InputError(f"{where}: {key} is {value:g}, and {values[key][0]:g} in line {values[key][1]}; leave one of them out")
            values[key] = value, number
    found = {}
    for key, field in _FIELDS.items():
        value, number = values[key] if key in values else (_default(key, path), 0)
        if number and not field.allows(value):
            raise InputError(f"{path}, line {number}: {key} = {value:g} is outside {field.lower:g} to {field.upper:g}")
        found[field.name] = value
    if values.get("PKY1", (0.0, 0))[0] > 0.0:
        raise InputError(f"{path}, line {values['PKY1'][1]}: PKY1 = {values['PKY1'][0]:g} is positive; in ISO axes it is negative. Convert "
                         "the file, or lateral forces would have the wrong sign")
    return found


_HEADER = """[MDI_HEADER]
FILE_TYPE = 'tir'
[UNITS]
LENGTH = 'meter'
FORCE = 'newton'
ANGLE = 'radians'
MASS = 'kg'
TIME = 'second'
[MODEL]
"""


def tir_text(parameters: Mapping[str, float], name: str) -> str:
    """Returns the .tir file of a vehicle's tyre in SI; `read_tir` restores the coefficients to the last bit. parameters, name: of the
    vehicle; the name is for messages. Raises InputError: the vehicle has no tyre of the Magic Formula."""
    fields = [field for field in _FIELDS.values() if field.name in parameters]
    if not {field.name for field in PARAMETERS} <= {field.name for field in fields}:
        raise InputError(f"vehicle '{name}' has no tyre of the Magic Formula (tyre: {{tir: FILE.tir}}); a .tir file holds no other")
    side = min(_SIDES, key=lambda side: abs(_SIDES[side] - parameters["mf_tyreside"]))
    lines = [f"FITTYP = {parameters['mf_version']:g}", f"TYRESIDE = '{side}'"]
    lines += [f"{field.symbol} = {parameters[field.name]!r}" for field in fields if field.symbol not in ("VERSION", "TYRESIDE")]
    return _HEADER + "\n".join(lines) + "\n"


def _number(text: str, where: str) -> float:
    try:
        value = float(re.sub(r"[dD]", "e", text))
    except ValueError:
        raise InputError(f"{where} must be a number, not {quote(text)}") from None
    if not math.isfinite(value):
        raise InputError(f"{where} must be finite, not {quote(text)}")
    return value


def _default(key: str, path: Path) -> float:
    value = DEFAULTS.get(key, 1.0 if key.startswith("L") else 0.0)
    if value is None:
        raise InputError(f"{path}: {'FITTYP' if key == 'VERSION' else key} is missing, without which the Magic Formula gives no force")
    return value
