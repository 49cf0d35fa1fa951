"""Common parts of Markov chain samplers: collection of draws, progress, stopping, and the finished run."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lfdm_ros.libraries import arviz
from lfdm_ros.samplers.sampler import Problem, Report, SamplerProgress, SampleRun

MIN_DRAWS = 10  # of each chain for a result of a stopped run
HAMILTONIAN = {"energy": float, "tree_size": int, "step_size": float, "diverging": bool, "reached_max_treedepth": bool,
               "mean_tree_accept": float}  # statistics of each draw
ESS_INTERVAL = 2.0  # [s] between two estimates of the effective sample size


class Collector:
    """Collector of the draws of independently advancing chains, with progress reports."""

    def __init__(self, problem: Problem, *, tune: int, draws: int, chains: int, evaluations: int, began: float, report: Report | None,
                 thin: int = 1):
        """Starts without draws. tune: discarded steps of each chain; draws: number of stored ones, every `thin`-th step; evaluations:
        simulations before the chains."""
        self._problem, self._tune, self._draws, self._thin, self._report = problem, tune, draws, thin, report
        self._parts: list[list[np.ndarray]] = [[] for _ in range(chains)]
        self._tuned, self._drawn = np.zeros(chains, int), np.zeros(chains, int)
        self._evaluations = evaluations
        self._began, self._first = began, time.perf_counter()
        self._ess, self._estimated = float("nan"), self._first

    def add(self, chain: int, particles: np.ndarray, tuning: bool, evaluations: int) -> None:
        """Adds draws (n, D) of a chain and reports; KeyboardInterrupt of the report is passed on."""
        if tuning:
            self._tuned[chain] += len(particles)
        else:
            self._drawn[chain] += len(particles)
            self._parts[chain].append(particles)
        self._evaluations += evaluations
        if self._report is None:
            return
        now = time.perf_counter()
        share = (self._tuned.sum() + self._thin * self._drawn.sum()) / (len(self._parts) * (self._tune + self._thin * self._draws))
        if self.useful and now - self._estimated > ESS_INTERVAL:
            self._ess, self._estimated = self._min_ess(), now
        phase = "tuning" if self._tuned.sum() < len(self._parts) * self._tune else f"{self._drawn.sum()} draws"
        self._report(SamplerProgress(1.0, min(float(share), 0.99), float((now - self._first) * (1.0 / share - 1.0)), self._evaluations,
                                     f"{phase}, {self._evaluations} runs", self._ess))

    @property
    def useful(self) -> bool:
        """True if every chain has enough draws for a result."""
        return bool(self._drawn.min() >= min(MIN_DRAWS, self._draws))

    def particles(self) -> np.ndarray:
        """Returns the draws (C, N, D) up to the shortest chain."""
        count = int(self._drawn.min())
        return np.stack([np.concatenate(parts)[:count] for parts in self._parts])

    def finish(self, particles: np.ndarray, *, statistics: Mapping[str, Any], stored: Mapping[str, tuple[tuple[str, ...], np.ndarray]],
               account: str, notes: Sequence[str] = ()) -> SampleRun:
        """Makes the finished run from particles (C, N, D)."""
        density, (chains, count, _) = self._problem.density, particles.shape
        flat = particles.reshape(chains * count, -1)
        draws = {name: values.reshape(chains, count) for name, values in density.constrain(flat).items()}
        log_likelihood, stopped = density.log_likelihood(flat).reshape(chains, count), count < self._draws
        return SampleRun(
            draws=draws, log_likelihood=log_likelihood, point={name: float(draws[name].mean()) for name in self._problem.unknowns},
            point_is="posterior mean", evaluations=self._evaluations + len(flat), seconds=time.perf_counter() - self._began,
            statistics=statistics, stored=stored, account=account, stopped=stopped,
            warnings=(*notes, *([f"stopped after {count} of {self._draws} draws of each chain"] if stopped else [])))

    def finish_hamiltonian(self, name: str, per_draw: Mapping[str, np.ndarray]) -> SampleRun:
        """Makes the finished run of a Hamiltonian sampler; `per_draw`: `HAMILTONIAN` statistics of each chain's first N draws (C, N)."""
        particles = self.particles()[:, :next(iter(per_draw.values())).shape[1]]
        total = particles.shape[0] * particles.shape[1]
        diverging, deep = int(per_draw["diverging"].sum()), int(per_draw["reached_max_treedepth"].sum())
        notes = []
        if diverging:
            notes.append(f"{diverging} of {total} draws had a divergence: NUTS cannot enter a part of the posterior and may miss it; "
                         "compare with --sampler smc")
        if deep:
            notes.append(f"{deep} of {total} trajectories reached the maximum length: draws are more correlated than necessary")
        gradients = float(per_draw["tree_size"].mean())
        return self.finish(
            particles, notes=notes,
            statistics={"tuning": self._tune, "divergences": diverging, "gradients_per_draw": gradients,
                        "acceptance": float(per_draw["mean_tree_accept"].mean()), "step_size": per_draw["step_size"][:, -1].tolist()},
            stored={key: (("chain", "draw"), per_draw[key]) for key in ("energy", "tree_size", "step_size", "diverging")},
            account=f"{name}, {gradients:.1f} gradients for each draw, {diverging} divergences, {self._tune} draws of tuning not kept")

    def _min_ess(self) -> float:
        with np.errstate(all="ignore"):
            return float(min(arviz().ess(values) for values in np.moveaxis(self.particles(), 2, 0)))
