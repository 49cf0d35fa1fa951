"""Samplers by name: those of the package, and registered ones.

A sampler consists of a function from a stage's problem to draws, its options, and its capabilities. Callers use the capabilities, not the
names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from lfdm_ros import plugins
from lfdm_ros.documents import number
from lfdm_ros.errors import InputError, quote, suggest
from lfdm_ros.inference.plan import RHO, SIGMA, Objective
from lfdm_ros.inference.priors import Prior

if TYPE_CHECKING:  # finding a sampler does not import its dependencies
    from lfdm_ros.inference.likelihood import Likelihood
    from lfdm_ros.inference.model import Density, ErrorPriors


@dataclass(frozen=True)
class Problem:
    """Posterior of a stage, as input of samplers.

    unknowns: prior by name, in the order of the likelihood's q; errors: priors by group; start (Q,): initial point of a search, NaN for an
    unknown without a value. population: draws of an earlier posterior to continue, (C, N) by variable; the density is then an
    `UpdatedDensity`, and log_evidence that of the earlier data.
    """

    likelihood: Likelihood
    density: Density
    unknowns: Mapping[str, Prior]
    errors: Mapping[str, ErrorPriors]
    start: np.ndarray
    objective: Objective
    population: Mapping[str, np.ndarray] | None = None
    log_evidence: float = 0.0

    @property
    def priors(self) -> dict[str, Prior]:
        """Prior of every variable: unknowns, noise, correlations."""
        noise = {SIGMA + label: prior.noise for label, prior in self.errors.items()}
        correlation = {RHO + label: prior.correlation for label, prior in self.errors.items() if prior.correlation is not None}
        return {**self.unknowns, **noise, **correlation}


@dataclass(frozen=True)
class SamplerProgress:
    """Progress of a run: weight of the data (temperature [0, 1]), completed share [0, 1], remaining time [s] (NaN: unknown).

    ess: smallest effective sample size of the unknowns so far (NaN: unknown).
    """

    temperature: float
    progress: float
    time_left: float
    evaluations: int
    message: str
    ess: float = float("nan")


@dataclass(frozen=True)
class SampleRun:
    """Result of a sampler; C chains of N draws.

    draws: variable -> (C, N) in the units of the model; log_likelihood (C, N); point: point estimate of each unknown, point_is: its kind;
    evaluations of the simulator; statistics: of the stage in summary.json; stored: name -> dimensions and values of `sample_stats` in
    posterior.nc; account: a clause for the report; warnings for the user. stopped: True if KeyboardInterrupt ended the run early.
    temperature: below 1 if the draws are therefore of a flatter density than the posterior. error_of_mean: variable -> Monte Carlo error,
    if the sampler has a better one than ArviZ.
    """

    draws: Mapping[str, np.ndarray]
    log_likelihood: np.ndarray
    point: Mapping[str, float]
    point_is: str
    evaluations: int
    seconds: float
    statistics: Mapping[str, Any]
    stored: Mapping[str, tuple[tuple[str, ...], np.ndarray]]
    account: str
    warnings: tuple[str, ...] = ()
    temperature: float = 1.0
    stopped: bool = False
    error_of_mean: Mapping[str, float] = field(default_factory=dict)


Report = Callable[[SamplerProgress], None]


class Sample(Protocol):
    """Draws from the posterior of a problem, or from an approximation."""

    def __call__(self, problem: Problem, *, draws: int, chains: int, seed: np.random.SeedSequence, report: Report | None,
                 **options: Any) -> SampleRun:
        """Draws, reproducibly by the seed. `report` is called between simulations; KeyboardInterrupt from it ends the run with a partial
        result, if meaningful. Raises ValueError: no point can be simulated."""


Evaluation = tuple[np.ndarray, np.ndarray]  # log prior, log likelihood


class Together(Protocol):
    """Infers data sets of one design in common calls of the density, for simulation-based calibration."""

    def __call__(self, density: Density, evaluate: Callable[[np.ndarray, Sequence[int]], Evaluation], populations: np.ndarray,
                 seeds: Sequence[np.random.SeedSequence], **options: Any) -> np.ndarray:
        """Moves populations (R, N, D) of the prior to draws (R, N, D) of the posterior of each data set, in the density's coordinates.

        `evaluate` replaces the density: its arguments are concatenated particles of some data sets, and the indices of those.
        """


@dataclass(frozen=True)
class Option:
    """A setting of a sampler, with its unit, if any, in the description; an integer if `value` is one."""

    name: str
    value: float
    description: str
    least: float
    most: float

    def read(self, entry: Any, where: str) -> float:
        """Reads a value of the user. Raises InputError: not a number, out of range, or a fraction instead of a whole number."""
        value = number(entry, where)
        if not self.least <= value <= self.most or (isinstance(self.value, int) and value != int(value)):
            kind = "a whole number" if isinstance(self.value, int) else "a number"
            raise InputError(f"{where}: {self.description}: {kind} from {self.least:g} to {self.most:g}, found {quote(entry)}")
        return int(value) if isinstance(self.value, int) else value


@dataclass(frozen=True)
class Sampler:
    """A sampler of the posterior.

    Args:
        description: short, for --help.
        sample: function that draws.
        options: settings with their values; `having` changes them.
        approximation: distribution of the draws if it is not the posterior ("a bell curve at the optimum"). Such a sampler has the
            statistic `pareto_k` of the approximation's quality; draws of others are assessed by R-hat and ESS, and may be continued.
        continues: True if it accepts `Problem.population`, an earlier posterior, with an `UpdatedDensity`.
        evidence: True if its statistics have `log_evidence`, for summary.json and the report.
        independent: True if the draws of a chain are independent.
        together: infers many data sets at once, if implemented.
        reading: interpretation of the diagnostics, in a sentence or two for the report.
        needs: additional packages.
    """

    name: str
    description: str
    sample: Sample
    options: tuple[Option, ...] = ()
    approximation: str = ""
    continues: bool = False
    evidence: bool = False
    independent: bool = False
    together: Together | None = None
    reading: str = ""
    needs: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        """True if draws are from the posterior, up to Monte Carlo error."""
        return not self.approximation

    @property
    def settings(self) -> dict[str, float]:
        return {option.name: option.value for option in self.options}

    def having(self, changes: Mapping[str, Any], where: str = "option") -> Sampler:
        """Returns the sampler with some options changed; `where` leads messages. Raises InputError: no such option, or a value out of its
        range."""
        for name in changes:
            if name not in self.settings:
                raise InputError(f"{where}: sampler {self.name} has no option {quote(name)}"
                                 + (suggest(name, self.settings, "it has: ") if self.options else ""))
        return replace(self, options=tuple(
            replace(option, value=option.read(changes[option.name], f"{where} {option.name}")) if option.name in changes else option
            for option in self.options))

    def __call__(self, problem: Problem, *, draws: int, chains: int, seed: np.random.SeedSequence, report: Report | None) -> SampleRun:
        """Runs with its options; see `Sample`."""
        return self.sample(problem, draws=draws, chains=chains, seed=seed, report=report, **self.settings)


def _later(module: str, function: str = "run") -> Callable[..., Any]:
    """Returns a function of a module of this package, imported on the first call."""
    def call(*arguments: Any, **options: Any) -> Any:
        return getattr(import_module(f"lfdm_ros.samplers.{module}"), function)(*arguments, **options)
    return call


def _tune(value: int, items: str = "draws") -> Option:
    return Option("tune", value, f"discarded {items} of each chain for adaptation", 10, 1_000_000)


_DIVERGENCES = "Divergences, if any, mark regions of the posterior that the sampler could not enter."
SMC = Sampler(
    "smc", "sequential Monte Carlo", _later("smc"), (
        Option("steps", 10, "moves at each temperature", 1, 10_000),
        Option("final_steps", 40, "moves at the posterior itself", 1, 10_000)),
    continues=True, evidence=True, together=_later("smc", "together"),
    reading="Particles of one chain share ancestors, so ArviZ's ESS and MCSE are too optimistic; the error column comes from the spread "
            "of the independent chains.")
NUTS = Sampler("nuts", "Hamiltonian, exact gradients", _later("nuts"), (_tune(400),), reading=_DIVERGENCES)
NUTPIE = Sampler("nutpie", "the same by the package nutpie", _later("nutpie"), (_tune(400),), reading=_DIVERGENCES, needs=("nutpie",))
METROPOLIS = Sampler(
    "metropolis", "random walk", _later("metropolis"), (
        _tune(2000, "steps"), Option("thin", 20, "steps from one draw to the next", 1, 10_000)),
    reading="A random walk: R-hat and ESS show whether it was long enough.")
LEAST_SQUARES = Sampler(
    "least_squares", "optimum and Gaussian intervals, in seconds", _later("least_squares"),
    approximation="a bell curve around the optimum", independent=True,
    reading="The draws are independent, from the Gaussian at the optimum, resampled by the posterior's density: R-hat and ESS only reflect "
            "their number. Pareto k shows whether they represent the posterior: below 0.7 they do.")
SAMPLERS: plugins.Door[Sampler] = plugins.Door(
    "sampler", "lfdm_ros.samplers", Sampler, "sample", SMC, NUTS, NUTPIE, METROPOLIS, LEAST_SQUARES)
DEFAULT, QUICK = SMC.name, LEAST_SQUARES.name  # of a calibration, and of studies with many of them


def register_sampler(sampler: Sampler) -> None:
    """Registers a sampler for recipes and commands. Raises InputError: the name of the sampler or of an option is taken or invalid."""
    for name in sampler.settings:
        if not name.isidentifier():
            raise InputError(f"'{name}' of '{sampler.name}' is no name; use letters, digits and _, beginning with a letter")
    SAMPLERS.register(sampler)


def samplers_with(ability: str) -> str:
    """Returns the names of the samplers with an ability, an attribute of `Sampler`: 'smc or nuts'."""
    return " or ".join(sampler.name for sampler in SAMPLERS.values() if getattr(sampler, ability))


def check_continues(name: str, where: str = "") -> None:
    """Raises InputError if the sampler cannot continue a posterior; `where` leads the message."""
    if not SAMPLERS.find(name, where).continues:
        raise InputError(f"{where and where + ': '}sampler {name} cannot continue a posterior; use {samplers_with('continues')}")


def get_sampler(name: str, options: Mapping[str, Any] | None = None) -> Sampler:
    """Returns a sampler by name, with some options changed. Raises InputError: no such sampler or option, or a required package is not
    installed."""
    sampler = SAMPLERS.find(name)
    for package in sampler.needs:
        if find_spec(package) is None:
            raise InputError(f"sampler {name}: the package {package} is not installed; pip install {package}")
    return sampler.having(options or {})
