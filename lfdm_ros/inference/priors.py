"""Prior distributions of recipes, with their SciPy and PyMC forms; each kind is declared once."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import stats

from lfdm_ros.documents import number
from lfdm_ros.errors import InputError, quote, suggest
from lfdm_ros.units import to_si

WIDEST_DIRECT = 1.0  # log_sd
OUTSIDE = 1e-6  # probability out of range allowed in a recipe
_SCALES = ("sigma", "sd", "median", "log_sd")  # must be positive
_DEVIATIONS = ("log_sd", "sd", "sigma")  # of which a prior has one


class PriorFamily(ABC):
    """A family of distributions; `v` are the numbers of one by key.

    keys: "value" (has the unit), "ratio" (dimensionless) or "bound" (has the unit, may be left out). scale: True if values are positive and
    searched by their logarithm, unless the prior is direct; x is the coordinate of the search, a logarithm where `log` is True. logarithm:
    True if symmetric in the logarithm, whatever the coordinate. flat: True for uniform priors, where narrowing excludes values that were
    equally likely.
    """

    keys: Mapping[str, str]
    scale = logarithm = flat = False

    @abstractmethod
    def frozen(self, v: Mapping[str, float]) -> Any:
        """Returns the distribution as a frozen SciPy distribution."""

    def arguments(self, v: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the arguments of PyMC's distribution of the same name as this class."""
        return dict(v)

    @abstractmethod
    def deviation(self, v: Mapping[str, float], x: Any, log: bool) -> Any:
        """Returns a residual r: inside the bounds the log density of x is -r^2/2 and a constant."""

    @abstractmethod
    def slope(self, v: Mapping[str, float], x: Any, log: bool) -> Any:
        """Returns the derivative of the log density of x, inside the bounds."""

    def distance(self, v: Mapping[str, float], value: float) -> float:
        """Computes the distance of a value from the mode in standard deviations; 0 for a flat prior."""
        return float(self.deviation(v, value, False))

    def width(self, v: Mapping[str, float]) -> float:
        """Returns the quantity that `scaled` scales."""
        return next(v[key] for key in _DEVIATIONS if key in v)

    @abstractmethod
    def scaled(self, v: Mapping[str, float], factor: float, lower: float, upper: float) -> tuple[str, dict[str, float]]:
        """Returns the kind and numbers of the prior `factor` times as wide about the same place, inside [lower, upper]."""

    def spread_of_logarithm(self, v: Mapping[str, float]) -> float:
        """Returns the standard deviation of the logarithm, of a scale."""
        raise NotImplementedError

    def narrow(self, v: Mapping[str, float]) -> bool:
        """Returns whether a scale is searched directly where it is an unknown of the model."""
        return self.scale


class Uniform(PriorFamily):
    """Uniform distribution between two bounds."""

    keys = {"lower": "value", "upper": "value"}
    flat = True

    def frozen(self, v: Mapping[str, float]) -> Any:
        return stats.uniform(v["lower"], v["upper"] - v["lower"])

    def deviation(self, v: Mapping[str, float], x: Any, log: bool) -> Any:
        return np.zeros_like(x)

    def slope(self, v: Mapping[str, float], x: Any, log: bool) -> Any:
        return np.zeros_like(x)

    def width(self, v: Mapping[str, float]) -> float:
        return v["upper"] - v["lower"]

    def scaled(self, v: Mapping[str, float], factor: float, lower: float, upper: float) -> tuple[str, dict[str, float]]:
        # About its centre, cut at the limits.
        centre, half = 0.5 * (v["lower"] + v["upper"]), 0.5 * factor * (v["upper"] - v["lower"])
        return "uniform", {"lower": max(centre - half, lower), "upper": min(centre + half, upper)}


class HalfNormal(PriorFamily):
    """Half-normal distribution: |x| of a normal with mean 0 and standard deviation sigma."""

    keys = {"sigma": "value"}
    scale = True

    def frozen(self, v: Mapping[str, float]) -> Any:
        return stats.halfnorm(scale=v["sigma"])

    def deviation(self, v: Mapping[str, float], x: Any, log: bool) -> Any:
        if not log:
            return x / v["sigma"]
        z = x - math.log(v["sigma"])
        return np.sign(z) * np.sqrt(np.maximum(np.expm1(2.0 * z) - 2.0 * z, 0.0))

    def slope(self, v: Mapping[str, float], x: Any, log: bool) -> Any:
        return 1.0 - np.exp(2.0 * (x - math.log(v["sigma"]))) if log else -x / v["sigma"] ** 2

    def scaled(self, v: Mapping[str, float], factor: float, lower: float, upper: float) -> tuple[str, dict[str, float]]:
        # Clipped to the limit.
        return "half_normal", {"sigma": min(factor * v["sigma"], max(v["sigma"], upper / float(stats.halfnorm.isf(OUTSIDE))))}

    def spread_of_logarithm(self, v: Mapping[str, float]) -> float:
        return math.pi / math.sqrt(8.0)


class LogNormal(PriorFamily):
    """Log-normal distribution, given by its median and the standard deviation log_sd of the logarithm."""

    keys = {"median": "value", "log_sd": "ratio"}
    scale = logarithm = True

    def frozen(self, v: Mapping[str, float]) -> Any:
        return stats.lognorm(v["log_sd"], scale=v["median"])

    def arguments(self, v: Mapping[str, Any]) -> dict[str, Any]:
        return {"mu": np.log(v["median"]), "sigma": v["log_sd"]}

    def deviation(self, v: Mapping[str, float], x: Any, log: bool) -> Any:
        if not log:
            return (np.log(x) - math.log(v["median"])) / v["log_sd"] + v["log_sd"]
        return (x - math.log(v["median"])) / v["log_sd"]

    def slope(self, v: Mapping[str, float], x: Any, log: bool) -> Any:
        return -self.deviation(v, x, log) / (v["log_sd"] if log else v["log_sd"] * x)

    def distance(self, v: Mapping[str, float], value: float) -> float:
        return math.log(value / v["median"]) / v["log_sd"] if value > 0.0 else -math.inf

    def scaled(self, v: Mapping[str, float], factor: float, lower: float, upper: float) -> tuple[str, dict[str, float]]:
        # Clipped to the limits.
        room = min(math.log(v["median"] / lower) if lower > 0.0 else math.inf, math.log(upper / v["median"]))
        return "log_normal", {**v, "log_sd": min(factor * v["log_sd"], max(v["log_sd"], room / float(stats.norm.isf(OUTSIDE / 2.0))))}

    def spread_of_logarithm(self, v: Mapping[str, float]) -> float:
        return v["log_sd"]

    def narrow(self, v: Mapping[str, float]) -> bool:
        return v["log_sd"] <= WIDEST_DIRECT


class Normal(PriorFamily):
    """Normal distribution, given by mean and standard deviation."""

    keys = {"mean": "value", "sd": "value"}

    def frozen(self, v: Mapping[str, float]) -> Any:
        return stats.norm(v["mean"], v["sd"])

    def arguments(self, v: Mapping[str, Any]) -> dict[str, Any]:
        return {"mu": v["mean"], "sigma": v["sd"]}

    def deviation(self, v: Mapping[str, float], x: Any, log: bool) -> Any:
        return (x - v["mean"]) / v["sd"]

    def slope(self, v: Mapping[str, float], x: Any, log: bool) -> Any:
        return -self.deviation(v, x, log) / v["sd"]

    def width(self, v: Mapping[str, float]) -> float:
        return float(self.frozen(v).std())

    def scaled(self, v: Mapping[str, float], factor: float, lower: float, upper: float) -> tuple[str, dict[str, float]]:
        # Truncated at a limit that it would reach.
        wide = {**v, "sd": v["sd"] * factor}
        reach = self.frozen(wide)
        if reach.cdf(lower) + reach.sf(upper) <= OUTSIDE:
            return next(name for name, kind in KINDS.items() if kind is self), wide
        limits = {"lower": max(lower, v.get("lower", -math.inf)), "upper": min(upper, v.get("upper", math.inf))}
        return "truncated_normal", wide | {key: value for key, value in limits.items() if math.isfinite(value)}


class TruncatedNormal(Normal):
    """A normal distribution truncated at one or two bounds; mean and sd are those before truncation."""

    keys = {"mean": "value", "sd": "value", "lower": "bound", "upper": "bound"}

    def frozen(self, v: Mapping[str, float]) -> Any:
        lower, upper = v.get("lower", -math.inf), v.get("upper", math.inf)
        return stats.truncnorm((lower - v["mean"]) / v["sd"], (upper - v["mean"]) / v["sd"], loc=v["mean"], scale=v["sd"])

    def arguments(self, v: Mapping[str, Any]) -> dict[str, Any]:
        return {**super().arguments(v), "lower": v.get("lower"), "upper": v.get("upper")}


KINDS: dict[str, PriorFamily] = {"uniform": Uniform(), "half_normal": HalfNormal(), "normal": Normal(), "log_normal": LogNormal(),
                          "truncated_normal": TruncatedNormal()}


@dataclass(frozen=True)
class Prior:
    """A one-dimensional prior in SI units; `kind` and its numbers as in `KINDS`, direct: see `as_unknown`."""

    kind: str
    numbers: tuple[tuple[str, float], ...]
    unit: str
    direct: bool = False

    def as_unknown(self) -> Prior:
        """Returns the same prior for an unknown of the model, searched directly instead of by its logarithm.

        Data often identify only the sum of two unknowns: in logarithms that straight ridge is curved, and populations of particles do not
        follow a thin curved ridge (docs/concepts/sbc.md). Priors over several orders of magnitude stay in logarithms.
        """
        return replace(self, direct=KINDS[self.kind].narrow(self.values))

    @property
    def values(self) -> dict[str, float]:
        return dict(self.numbers)

    def frozen(self) -> Any:
        """Returns the same distribution as a frozen SciPy distribution."""
        return _frozen(self.kind, self.numbers)

    def variable(self, name: str) -> Any:
        """Declares the random variable in the open PyMC model.

        Bounded ones are not transformed to the real line, which would curve the straight ridges of parameters identified only as a sum (see
        `as_unknown`). Outside the bounds the density is zero.
        """
        import pymc as pm

        # PyTensor takes a Python float for a float32 where that holds it exactly, and then its logarithm is good to 7 digits only.
        exact = {key: np.float64(value) for key, value in self.numbers}
        family = KINDS[self.kind]
        options = {} if self.logarithmic else {"default_transform": None}
        return getattr(pm, type(family).__name__)(name, **family.arguments(exact), **options)

    @property
    def logarithmic(self) -> bool:
        """True if the coordinate, in which the unknown is searched, is the logarithm of the value; otherwise it is the value."""
        return KINDS[self.kind].scale and not self.direct

    def coordinate(self, value: Any) -> Any:
        return np.log(value) if self.logarithmic else value

    def value(self, coordinate: Any) -> Any:
        if not self.logarithmic:
            return coordinate
        with np.errstate(over="ignore"):  # a step far out: infinite, and outside of the bounds
            return np.exp(coordinate)

    def spread(self) -> float:
        """Returns the standard deviation of the coordinate."""
        return KINDS[self.kind].spread_of_logarithm(self.values) if self.logarithmic else _standard_deviation(self.kind, self.numbers)

    def deviation(self, coordinate: Any) -> Any:
        """Returns a residual r of the coordinate: inside the bounds its log density is -r^2/2 and a constant."""
        return KINDS[self.kind].deviation(self.values, coordinate, self.logarithmic)

    def slope(self, coordinate: Any) -> Any:
        """Returns the derivative of the log density of the coordinate, inside the bounds."""
        return KINDS[self.kind].slope(self.values, coordinate, self.logarithmic)

    def log_density(self, coordinate: np.ndarray) -> np.ndarray:
        """Computes the log density of coordinates; -inf beyond the bounds."""
        lower, upper, constant = _support(self)
        with np.errstate(divide="ignore", invalid="ignore"):
            inside = constant - 0.5 * self.deviation(coordinate) ** 2
        return np.where((coordinate >= lower) & (coordinate <= upper), inside, -np.inf)

    def distance(self, value: float) -> float:
        """Computes the distance of a value from the mode in standard deviations of the prior; 0 of a uniform one."""
        return KINDS[self.kind].distance(self.values, value)

    @property
    def flat(self) -> bool:
        """True if all values between the bounds are as likely."""
        return KINDS[self.kind].flat

    def relative(self, values: Any) -> Any:
        """Scales values in the prior's own scale, a logarithm for a log-normal one, to units of its standard deviation there."""
        if self._of_logarithm:
            return np.log(values) / KINDS[self.kind].spread_of_logarithm(self.values)
        return np.asarray(values) / _standard_deviation(self.kind, self.numbers)

    def change(self, value: float) -> float:
        """Computes the change of a value for one standard deviation in the prior's natural scale."""
        if self._of_logarithm:
            return KINDS[self.kind].spread_of_logarithm(self.values) * value
        return _standard_deviation(self.kind, self.numbers)

    @property
    def _of_logarithm(self) -> bool:
        return self.logarithmic or KINDS[self.kind].logarithm

    def width(self) -> float:
        """Returns the quantity that `scaled` scales: the range of a uniform, log_sd, sigma, or the standard deviation."""
        return KINDS[self.kind].width(self.values)

    def scaled(self, factor: float, lower: float = -math.inf, upper: float = math.inf) -> Prior:
        """Returns the prior `factor` times as wide about the same centre, inside [lower, upper]; each kind implements the limits."""
        kind, numbers = KINDS[self.kind].scaled(self.values, factor, lower, upper)
        return replace(self, kind=kind, numbers=tuple(numbers.items()))

    def oversteps(self, lower: float, upper: float) -> str:
        """Describes a prior with more than OUTSIDE beyond [lower, upper]: the quantile beyond the bound, and the largest deviation that
        would fit; else empty."""
        distribution = self.frozen()
        below, above = float(distribution.cdf(lower)), float(distribution.sf(upper))
        if below + above <= OUTSIDE:
            return ""
        unit = f" {self.unit}" if self.unit else ""
        low = below >= above
        quantile, bound = (float(distribution.ppf(OUTSIDE)), lower) if low else (float(distribution.isf(OUTSIDE)), upper)
        text = (f"its {'lower' if low else 'upper'} {OUTSIDE:g} quantile is {quantile:.4g}{unit}, {'below' if low else 'above'} the bound "
                f"{bound:g}{unit}")
        key = next((name for name in _DEVIATIONS if name in self.values), None)
        if key is None:
            return f"{text}; narrow it to [{lower:g}, {upper:g}]{unit}"
        largest = self._largest(key, lower, upper)
        fits = f"the largest {key} that fits is {largest:.3g}{'' if key == 'log_sd' else unit}" if largest > 0.0 else \
            f"its middle lies outside [{lower:g}, {upper:g}]{unit}"
        return f"{text}; {fits}; or use truncated_normal or uniform"

    def _largest(self, key: str, lower: float, upper: float) -> float:
        # Largest deviation, rounded down to three digits; 0 where none fits.
        small, large = 0.0, self.values[key]
        for _ in range(60):
            middle = 0.5 * (small + large)
            distribution = KINDS[self.kind].frozen({**self.values, key: middle})
            small, large = (middle, large) if distribution.cdf(lower) + distribution.sf(upper) <= OUTSIDE else (small, middle)
        if small <= 1e-9 * self.values[key]:
            return 0.0
        digit = 10.0 ** (math.floor(math.log10(small)) - 2)
        return math.floor(small / digit) * digit

    def bounds(self) -> tuple[float, float]:
        lower, upper = self.frozen().support()
        return float(lower), float(upper)

    def __str__(self) -> str:
        numbers = ", ".join(f"{key} {value:.6g}" for key, value in self.numbers)
        return f"{self.kind}({numbers}) {self.unit}".strip()


@lru_cache(maxsize=1024)  # creating one takes milliseconds, and a search for the noise needs hundreds
def _frozen(kind: str, numbers: tuple[tuple[str, float], ...]) -> Any:
    return KINDS[kind].frozen(dict(numbers))


@lru_cache(maxsize=1024)
def _support(prior: Prior) -> tuple[float, float, float]:
    """Returns the bounds of the coordinate, and the excess of its log density over -r^2/2 between them."""
    with np.errstate(divide="ignore"):
        lower, upper = prior.coordinate(np.array(prior.bounds()))
    median = prior.frozen().median()
    x = prior.coordinate(median)
    constant = prior.frozen().logpdf(median) + (x if prior.logarithmic else 0.0) + 0.5 * prior.deviation(x) ** 2
    return float(lower), float(upper), float(constant)


@lru_cache(maxsize=1024)
def _standard_deviation(kind: str, numbers: tuple[tuple[str, float], ...]) -> float:
    return float(_frozen(kind, numbers).std())


def parse_prior(spec: Any, expected_unit: str, where: str, default_centre: float | None = None) -> Prior:
    """Reads a prior from a recipe, such as {prior: uniform, lower: 20, upper: 80, unit: kN/rad}, and converts it to SI. `where`: file and
    key, for errors; `default_centre`: mean (median) to use when a normal (log-normal) prior gives none, in SI. Raises InputError: not a
    mapping, unknown or missing key, unit of another dimension, value out of range."""
    if not isinstance(spec, Mapping):
        raise InputError(f"{where}: expected a prior such as {{prior: uniform, lower: 1, upper: 2, unit: {expected_unit}}}, "
                         f"found {quote(spec)}")
    kind = spec.get("prior")
    if not isinstance(kind, str) or kind not in KINDS:
        raise InputError(f"{where}.prior: {quote(kind)} is not one of: {', '.join(KINDS)}")
    keys = KINDS[kind].keys
    unknown = [key for key in spec if key not in (*keys, "prior", "unit")]
    if unknown:
        raise InputError(f"{where}.{unknown[0]}: unknown key{suggest(unknown[0], keys)}; a {kind} prior has: {', '.join(keys)}, unit")
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
