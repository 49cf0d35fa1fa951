"""Samplers by name. A sampler takes the problem of a stage and returns draws; everything else is the same for all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from lfdm_ros.calibration.likelihood import Likelihood
from lfdm_ros.calibration.model import Density, ErrorPriors
from lfdm_ros.calibration.plan import RHO, SAMPLERS, SIGMA, Objective
from lfdm_ros.calibration.priors import Prior
from lfdm_ros.errors import InputError


@dataclass(frozen=True)
class Problem:
    """What a stage asks.

    unknowns: prior by name, in the order of the likelihood's q; errors: priors by group; start (Q,): where a search begins, NaN for
    an unknown that has no value yet. population: of an earlier posterior that this one continues, (C, N) by variable; the density is
    then an `UpdatedDensity`, and log_evidence that of the earlier data.
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
        """The prior of every variable: unknowns, noise, correlations."""
        noise = {SIGMA + label: prior.noise for label, prior in self.errors.items()}
        correlation = {RHO + label: prior.correlation for label, prior in self.errors.items() if prior.correlation is not None}
        return {**self.unknowns, **noise, **correlation}


@dataclass(frozen=True)
class SamplerProgress:
    """Where a run is: how far the data count (temperature [0, 1]), the share done [0, 1], the seconds left (NaN: unknown).

    ess: effective sample size so far, of the unknown that has least (NaN: unknown).
    """

    temperature: float
    progress: float
    time_left: float
    evaluations: int
    message: str
    ess: float = float("nan")


@dataclass(frozen=True)
class SampleRun:
    """What a sampler returns; C chains of N draws.

    draws: variable -> (C, N) in the units of the model; log_likelihood (C, N); point: the value of each unknown that is passed on,
    and what it is; evaluations of the simulator; statistics: what it adds to the stage in summary.json; stored: name -> dimensions
    and values of `sample_stats` in posterior.nc; account: its work in half a sentence, for the report; warnings for the reader.
    stopped: whether KeyboardInterrupt ended the run before all was done. temperature: below 1 where the draws are then still those of
    a flatter density than the posterior.
    error_of_mean: variable -> Monte Carlo error where the sampler knows it better than ArviZ does.
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
    warnings: tuple[str, ...] = field(default=())
    temperature: float = 1.0
    stopped: bool = False
    error_of_mean: Mapping[str, float] = field(default_factory=dict)


Report = Callable[[SamplerProgress], None]


class Sampler(Protocol):
    """Draws from the posterior of a problem, or an approximation that says so in its warnings."""

    def __call__(self, problem: Problem, *, draws: int, chains: int, seed: np.random.SeedSequence, report: Report | None) -> SampleRun:
        """Runs; the same seed gives the same draws. `report` is called between simulations; KeyboardInterrupt from it ends the run, with
        what there is so far where that means anything.

        Raises:
            ValueError: no unknowns that can be simulated were found.
        """
        ...


def get_sampler(name: str) -> Sampler:
    """The sampler of a name: function `run` of the module that is called so.

    Raises:
        InputError: no such sampler; the message lists those there are.
    """
    if name not in SAMPLERS:
        raise InputError(f"no sampler '{name}'; choose one of: {', '.join(SAMPLERS)}")
    sampler: Sampler = import_module(f"lfdm_ros.calibration.{name}").run
    return sampler
