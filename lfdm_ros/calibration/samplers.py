"""Samplers by name. A sampler takes the problem of a stage and returns draws; everything else is the same for all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from lfdm_ros.calibration.likelihood import Likelihood
from lfdm_ros.calibration.model import BatchedDensity
from lfdm_ros.calibration.priors import Prior
from lfdm_ros.calibration.recipe import SAMPLERS, Objective
from lfdm_ros.errors import InputError


@dataclass(frozen=True)
class Problem:
    """What a stage asks.

    unknowns: prior by name, in the order of the likelihood's q; noise: prior by channel; start (Q,): where a search begins, NaN for
    an unknown that has no value yet.
    """

    likelihood: Likelihood
    density: BatchedDensity
    unknowns: Mapping[str, Prior]
    noise: Mapping[str, Prior]
    start: np.ndarray
    objective: Objective


@dataclass(frozen=True)
class SamplerProgress:
    """Where a run is: how far the data count (temperature [0, 1]), the share done [0, 1], the seconds left (NaN: unknown)."""

    temperature: float
    progress: float
    time_left: float
    evaluations: int
    message: str


@dataclass(frozen=True)
class SampleRun:
    """What a sampler returns; C chains of N draws.

    draws: variable -> (C, N) in the units of the model; log_likelihood (C, N); point: the value of each unknown that is passed on,
    and what it is; evaluations of the simulator; statistics: what it adds to the stage in summary.json; stored: name -> dimensions
    and values of `sample_stats` in posterior.nc; account: its work in half a sentence, for the report; warnings for the reader.
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


Report = Callable[[SamplerProgress], None]


class Sampler(Protocol):
    """Draws from the posterior of a problem, or an approximation that says so in its warnings."""

    def __call__(self, problem: Problem, *, draws: int, chains: int, seed: np.random.SeedSequence, report: Report | None) -> SampleRun:
        """Runs; the same seed gives the same draws. `report` is called between simulations; what it raises ends the run.

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
