"""Prior distributions: declared in a recipe, used by PyMC, drawn and plotted through SciPy; each kind is declared once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

from lfdm_ros.documents import number
from lfdm_ros.errors import InputError, quote
from lfdm_ros.units import to_si

# kind -> {key: "value" (has the unit), "ratio" (dimensionless) or "bound" (has the unit, may be left out)}
KINDS: dict[str, dict[str, str]] = {
    "uniform": {"lower": "value", "upper": "value"},
    "half_normal": {"sigma": "value"},
    "normal": {"mean": "value", "sd": "value"},
    "log_normal": {"median": "value", "log_sd": "ratio"},
    "truncated_normal": {"mean": "value", "sd": "value", "lower": "bound", "upper": "bound"},
}
WIDEST_DIRECT = 1.0  # log_sd
_SCALES = ("sigma", "sd", "median", "log_sd")  # must be positive


@dataclass(frozen=True)
class Prior:
    """A one-dimensional prior in SI units.

    `kind` and its numbers are those of `KINDS`: log_normal has the median and the standard deviation of the
    logarithm, half_normal the scale sigma of the normal that is folded. direct: see `as_unknown`.
    """

    kind: str
    numbers: tuple[tuple[str, float], ...]
    unit: str
    direct: bool = False

    def as_unknown(self) -> Prior:
        """The same prior for an unknown of the model that is searched as it is, not by its logarithm as a scale is.

        Data often know a sum of two unknowns and not each: in logarithms that straight ridge is bent, and populations of particles do
        not follow a thin bent ridge (docs/sbc.md). Priors over several orders of magnitude stay in logarithms.
        """
        return replace(self, direct=self.kind == "half_normal" or (self.kind == "log_normal" and self.values["log_sd"] <= WIDEST_DIRECT))

    @property
    def values(self) -> dict[str, float]:
        """The numbers by key."""
        return dict(self.numbers)

    def frozen(self) -> Any:
        """The same distribution as a frozen one of SciPy."""
        v = self.values
        if self.kind == "uniform":
            return stats.uniform(v["lower"], v["upper"] - v["lower"])
        if self.kind == "half_normal":
            return stats.halfnorm(scale=v["sigma"])
        if self.kind == "normal":
            return stats.norm(v["mean"], v["sd"])
        if self.kind == "log_normal":
            return stats.lognorm(v["log_sd"], scale=v["median"])
        lower, upper = v.get("lower", -math.inf), v.get("upper", math.inf)
        return stats.truncnorm((lower - v["mean"]) / v["sd"], (upper - v["mean"]) / v["sd"], loc=v["mean"], scale=v["sd"])

    def variable(self, name: str) -> Any:
        """Declares the random variable in the PyMC model that is open.

        Bounded ones are not transformed to the real line: that would bend the straight ridges of parameters that the data know only
        as a sum, and populations of particles do not follow a thin bent ridge. Beyond the bounds the density is zero.
        """
        import pymc as pm

        # PyTensor takes a Python float for a float32 where that holds it exactly, and then its logarithm is good to 7 digits only.
        v = {key: np.float64(value) for key, value in self.numbers}
        untransformed = {"default_transform": None} if self.direct else {}
        make: dict[str, Callable[[], Any]] = {
            "uniform": lambda: pm.Uniform(name, lower=v["lower"], upper=v["upper"], default_transform=None),
            "half_normal": lambda: pm.HalfNormal(name, sigma=v["sigma"], **untransformed),
            "normal": lambda: pm.Normal(name, mu=v["mean"], sigma=v["sd"]),
            "log_normal": lambda: pm.LogNormal(name, mu=np.log(v["median"]), sigma=v["log_sd"], **untransformed),
            "truncated_normal": lambda: pm.TruncatedNormal(name, mu=v["mean"], sigma=v["sd"], lower=v.get("lower"), upper=v.get("upper"),
                                                           default_transform=None),
        }
        return make[self.kind]()

    # -- The coordinate in which the unknown is searched: the unconstrained one of the PyMC model ------------------

    @property
    def logarithmic(self) -> bool:
        """Whether the coordinate is the logarithm of the value; otherwise it is the value."""
        return self.kind in ("half_normal", "log_normal") and not self.direct

    def coordinate(self, value: Any) -> Any:
        """Value to coordinate."""
        return np.log(value) if self.logarithmic else value

    def value(self, coordinate: Any) -> Any:
        """Coordinate to value."""
        return np.exp(coordinate) if self.logarithmic else coordinate

    def spread(self) -> float:
        """Standard deviation of the coordinate."""
        if not self.logarithmic:
            return float(self.frozen().std())
        return self.values["log_sd"] if self.kind == "log_normal" else math.pi / math.sqrt(8.0)

    def deviation(self, coordinate: Any) -> Any:
        """A residual r of the coordinate: inside the bounds its log density is -r^2/2 and a constant."""
        v = self.values
        if self.kind == "uniform":
            return np.zeros_like(coordinate)
        if self.kind == "log_normal" and self.direct:
            return (np.log(coordinate) - math.log(v["median"])) / v["log_sd"] + v["log_sd"]
        if self.kind == "log_normal":
            return (coordinate - math.log(v["median"])) / v["log_sd"]
        if self.kind == "half_normal" and self.direct:
            return coordinate / v["sigma"]
        if self.kind == "half_normal":
            z = coordinate - math.log(v["sigma"])
            return np.sign(z) * np.sqrt(np.maximum(np.expm1(2.0 * z) - 2.0 * z, 0.0))
        return (coordinate - v["mean"]) / v["sd"]

    def slope(self, coordinate: Any) -> Any:
        """Derivative of the log density of the coordinate, inside the bounds."""
        v = self.values
        if self.kind == "uniform":
            return np.zeros_like(coordinate)
        if self.kind == "log_normal" and self.direct:
            return -self.deviation(coordinate) / (v["log_sd"] * coordinate)
        if self.kind == "half_normal":
            return -coordinate / v["sigma"] ** 2 if self.direct else 1.0 - np.exp(2.0 * (coordinate - math.log(v["sigma"])))
        return -self.deviation(coordinate) / (v["log_sd"] if self.kind == "log_normal" else v["sd"])

    def bounds(self) -> tuple[float, float]:
        """The support."""
        lower, upper = self.frozen().support()
        return float(lower), float(upper)

    def __str__(self) -> str:
        numbers = ", ".join(f"{key} {value:.6g}" for key, value in self.numbers)
        return f"{self.kind}({numbers}) {self.unit}".strip()


def parse_prior(spec: Any, expected_unit: str, where: str, default_centre: float | None = None) -> Prior:
    """Reads a prior from a recipe and converts it to SI.

    Args:
        spec: the mapping, for example {prior: uniform, lower: 20, upper: 80, unit: kN/rad}.
        expected_unit: the SI unit of the quantity.
        where: file and key, for errors.
        default_centre: mean (median) to use when a normal (log-normal) prior gives none, in SI.

    Raises:
        InputError: not a mapping, unknown or missing key, unit of another dimension, value out of range.
    """
    if not isinstance(spec, Mapping):
        raise InputError(f"{where}: expected a prior such as {{prior: uniform, lower: 1, upper: 2, unit: {expected_unit}}}, "
                         f"found {quote(spec)}")
    kind = spec.get("prior")
    if not isinstance(kind, str) or kind not in KINDS:
        raise InputError(f"{where}.prior: {quote(kind)} is not one of: {', '.join(KINDS)}")
    keys = KINDS[kind]
    unknown = [key for key in spec if key not in (*keys, "prior", "unit")]
    if unknown:
        raise InputError(f"{where}.{unknown[0]}: unknown key; a {kind} prior has: {', '.join(keys)}, unit")
    if "unit" not in spec:
        raise InputError(f"{where}.unit: missing; write the unit of the prior, for example '{expected_unit}'")
    offset = to_si(0.0, str(spec["unit"]), expected_unit, f"{where}.unit")
    factor = to_si(1.0, str(spec["unit"]), expected_unit, f"{where}.unit") - offset
    if offset != 0.0:
        raise InputError(f"{where}.unit: {quote(spec['unit'])} has an offset; use a unit without one, for example '{expected_unit}'")
    numbers: dict[str, float] = {}
    for key, role in keys.items():
        if key not in spec:
            if role == "bound":
                continue
            if key in ("mean", "median") and default_centre is not None:
                numbers[key] = default_centre
                continue
            raise InputError(f"{where}.{key}: missing; a {kind} prior has: {', '.join(keys)}, unit")
        numbers[key] = number(number(spec[key], f"{where}.{key}") * (1.0 if role == "ratio" else factor), f"{where}.{key}")
    for key in _SCALES:
        if key in numbers and numbers[key] <= 0.0:
            raise InputError(f"{where}.{key}: must be greater than 0, found {quote(spec.get(key, numbers[key]))}")
    if "lower" in numbers and "upper" in numbers and numbers["lower"] >= numbers["upper"]:
        raise InputError(f"{where}.lower: must be less than upper, found {quote(spec['lower'])} and {quote(spec['upper'])}")
    return Prior(kind, tuple(numbers.items()), "" if expected_unit == "1" else expected_unit)
