"""Problems with posteriors that are known, for tests of samplers."""

import math
from collections.abc import Mapping

import arviz
import numpy as np
import pytest

from lfdm_ros.inference.gaussian import ErrorGroup
from lfdm_ros.inference.likelihood import ChannelSamples
from lfdm_ros.inference.model import BatchedDensity, ErrorPriors
from lfdm_ros.inference.plan import Objective
from lfdm_ros.inference.priors import Prior
from lfdm_ros.samplers.sampler import Problem, Report, SamplerProgress

# Standard errors that an average may be off: more than chance and an error of the effective sample size itself come to.
ALLOWED = 5.5
SHARPEST = 0.06  # of a standard deviation: an average known no better says little, and the test wants more draws
COMPILE_MODE = "FAST_COMPILE"  # of PyTensor


def without_compiler():
    """Returns a context in which PyTensor runs as Python: C would take 15 s to compile."""
    import pytensor

    return pytensor.config.change_flags(cxx="")


def assert_mean(values: np.ndarray, expected: float, name: str) -> None:
    """Asserts that the average of draws (C, N) is the expected one, to the error that their effective sample size allows.

    So it holds for all draws that a right sampler can give, whatever the seed and the rounding of the processor.
    """
    values = np.asarray(values, float)
    error = values.std() / math.sqrt(arviz.ess(values, method="mean"))
    assert error < SHARPEST * values.std(), f"{name}: too few draws"
    assert values.mean() == pytest.approx(expected, abs=ALLOWED * error), name


def assert_moments(draws: np.ndarray, mean: float, sd: float, name: str) -> None:
    """The same of mean and standard deviation."""
    assert_mean(draws, mean, f"{name}, mean")
    assert_mean((draws - mean) ** 2, sd * sd, f"{name}, variance")


class Linear:
    """Responses G q, linear in the unknowns, measured as one group y."""

    def __init__(self, gain: np.ndarray, truth: np.ndarray, noise: float):
        self.gain = gain  # (K, Q)
        self.observed = gain @ truth + noise * np.random.default_rng(0).standard_normal(len(gain))
        self.groups = (ErrorGroup("y", len(gain), 1),)

    def errors(self, q: np.ndarray) -> list[np.ndarray]:
        return [self.observed - q @ self.gain.T]

    def error_slopes(self, q: np.ndarray) -> list[np.ndarray]:
        return [-self.gain]

    def moments(self, q: np.ndarray) -> np.ndarray:
        return ChannelSamples(self.observed).moments(self.errors(q)[0].T).T[:, None, :]

    def moments_and_slopes(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        errors = self.errors(q)[0]
        column = ChannelSamples(self.observed)
        return column.moments(errors[:, None]).T, column.slopes(errors, -self.gain)[None]

    def measured(self, group: int) -> np.ndarray:
        return self.observed

    def runs(self, group: int) -> np.ndarray:
        return np.arange(len(self.observed)) == 0


def prior(kind: str, **numbers: float) -> Prior:
    return Prior(kind, tuple(numbers.items()), "")


def problem(likelihood, unknowns: dict[str, Prior], noise: Prior, correlation: Prior | None = None) -> Problem:
    """The posterior of a likelihood with one group y."""
    errors = {"y": ErrorPriors(noise, correlation)}
    density = BatchedDensity(likelihood, unknowns, errors)
    return Problem(likelihood, density, unknowns, errors, np.full(len(unknowns), np.nan), Objective())


class Walled:
    """Two correlated unknowns; the likeliest a is -0.1, and its uniform prior begins at 0. Means and deviations by the sums over a grid."""

    def __init__(self) -> None:
        t = np.linspace(0.0, 1.0, 40)
        likelihood = Linear(np.column_stack([np.ones(40), t]), np.array([-0.1, 0.7]), 0.2)
        unknowns = {"a": prior("uniform", lower=0.0, upper=1.0), "b": prior("truncated_normal", mean=0.5, sd=0.5, upper=0.9)}
        self.problem = problem(likelihood, unknowns, prior("log_normal", median=0.2, log_sd=0.3))
        a, b = np.linspace(0.0, 0.4, 401), np.linspace(-0.7, 0.9, 401)
        log_sigma = np.linspace(np.log(0.13), np.log(0.33), 40)
        squares = likelihood.moments(np.stack(np.meshgrid(a, b, indexing="ij"), axis=-1).reshape(-1, 2))[:, 0, 0].reshape(401, 401, 1)
        logp = -40.0 * log_sigma - squares / (2.0 * np.exp(2.0 * log_sigma)) - 0.5 * ((b[:, None] - 0.5) / 0.5) ** 2 \
            - 0.5 * ((log_sigma - np.log(0.2)) / 0.3) ** 2
        p = np.exp(logp - logp.max())
        for axis in (0, 1):  # trapezoidal
            edges = np.moveaxis(p, axis, 0)
            edges[[0, -1]] *= 0.5
        p /= p.sum()
        self.exact = {}
        for name, axis, values in (("a", 0, a), ("b", 1, b), ("sigma.y", 2, np.exp(log_sigma))):
            weights = p.sum(axis=tuple({0, 1, 2} - {axis}))
            mean = float(weights @ values)
            self.exact[name] = mean, float(np.sqrt(weights @ (values - mean) ** 2))
        self.near_wall = float(p[:21].sum() - 0.5 * p[20].sum())  # a < 0.02

    def check(self, draws: Mapping[str, np.ndarray]) -> None:
        """Asserts that draws (C, N) by variable are of the posterior, and that the wall matters."""
        for name, moments in self.exact.items():
            assert_moments(draws[name], *moments, name)
        assert_mean(draws["a"] < 0.02, self.near_wall, "a near its wall")
        assert self.near_wall > 0.2
        assert draws["a"].min() >= 0.0
        assert draws["b"].max() <= 0.9


def stop_at(limit: float, field: str = "progress", seen: list[SamplerProgress] | None = None) -> Report:
    """A report that interrupts the run once `field` of its progress is above `limit`, and keeps what it was told in `seen`."""
    def stop(state: SamplerProgress) -> None:
        if seen is not None:
            seen.append(state)
        if getattr(state, field) > limit:
            raise KeyboardInterrupt

    return stop
