"""Hamiltonian Monte Carlo: PyMC's NUTS with exact gradients and reflection at the priors' bounds.

The gradient comes from the compiled model's forward sensitivities. A chain starts near the least-squares optimum with the Laplace
approximation as metric, for short tuning and a good fit from the start. Chains that start around one optimum do not find another; to
search the whole prior use the SMC sampler.

Coordinates are those of the SMC sampler, in which bounded unknowns are not transformed: a logit would curve the straight ridges of
parameters identified only as a sum. A trajectory is reflected at a bound: the momentum along the normal is reversed in the metric, which
preserves energy and volume and is an involution, so that NUTS remains exact (Afshar and Domke 2015, "Reflection, refraction, and
Hamiltonian Monte Carlo"). The simulator is not called outside the bounds.
"""

import multiprocessing
import signal
import threading
import time
import warnings
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np

from lfdm_ros.backends import cores
from lfdm_ros.inference.gaussian import misfit, slopes
from lfdm_ros.inference.plan import RHO, SIGMA
from lfdm_ros.inference.pymc_adapter import CannotDrift, NutsChain
from lfdm_ros.samplers.chains import HAMILTONIAN, Collector
from lfdm_ros.samplers.sampler import Problem, Report, SampleRun
from lfdm_ros.samplers.starts import Starts, bounds, find_starts

TARGET_ACCEPTANCE = 0.8
PRIOR_WEIGHT = 30.0  # weight of the Laplace covariance, in draws
BLOCK = 20  # draws per report of a chain
REFLECTIONS = 100  # maximum in one step


def run(problem: Problem, *, draws: int, chains: int, seed: np.random.SeedSequence, report: Report | None, tune: int) -> SampleRun:
    """Draws from the posterior of a stage; see `lfdm_ros.samplers.sampler.Sample`."""
    began = time.perf_counter()
    start_seed, chain_seed = seed.spawn(2)
    starts = find_starts(problem, chains, start_seed, report)
    walkers = _chains(problem, starts, chain_seed)
    collector = Collector(problem, tune=tune, draws=draws, chains=chains, evaluations=starts.evaluations, began=began, report=report)
    blocks = _blocks(walkers, tune, draws) if workers_for(chains) == 1 else _parallel(walkers, tune, draws, workers_for(chains))
    statistics: list[list[dict[str, np.ndarray]]] = [[] for _ in range(chains)]
    try:
        for block in blocks:
            if not block.tuning:
                statistics[block.chain].append(block.statistics)
            collector.add(block.chain, block.draws, block.tuning, int(block.statistics["tree_size"].sum()) + len(block.draws))
    except KeyboardInterrupt:
        if not collector.useful:
            raise
    finally:
        blocks.close()
    count = collector.particles().shape[1]
    return collector.finish_hamiltonian("NUTS", {
        name: np.stack([np.concatenate([part[name] for part in rows])[:count] for rows in statistics]) for name in HAMILTONIAN})


class LogDensity:
    """Log density of a stage up to a constant, with its gradient, in the coordinates of `Problem.density`."""

    def __init__(self, problem: Problem):
        names = problem.density.names
        self._likelihood = problem.likelihood
        self._priors = [problem.priors[name] for name in names]
        self._unknowns = np.array([names.index(name) for name in problem.unknowns])
        self._logarithmic = np.array([prior.logarithmic for prior in self._priors])
        self._groups = [(group, names.index(SIGMA + group.label), names.index(RHO + group.label) if RHO + group.label in names else None)
                        for group in problem.likelihood.groups]

    def __call__(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """Computes log density and gradient (D,) for x (D,)."""
        values = x.copy()
        values[self._logarithmic] = np.exp(x[self._logarithmic])
        moments, by_q = self._likelihood.moments_and_slopes(values[self._unknowns])
        logp, slope, by_value = 0.0, np.empty(len(x)), np.zeros(len(x))
        for i, prior in enumerate(self._priors):
            logp -= 0.5 * prior.deviation(x[i]) ** 2
            slope[i] = prior.slope(x[i])
        for (group, i, j), group_moments, group_slopes in zip(self._groups, moments, by_q):
            sigma, rho = values[i], 0.0 if j is None else values[j]
            logp -= group.weight * misfit(group, group_moments, np.log(sigma), rho)
            by_sigma, by_rho, by_unknowns = slopes(group, group_moments, group_slopes, sigma, rho)
            by_value[i] += by_sigma
            if j is not None:
                by_value[j] += by_rho
            by_value[self._unknowns] += by_unknowns
        return float(logp), slope + by_value * np.where(self._logarithmic, values, 1.0)


@dataclass(frozen=True)
class Box:
    """Bounds lower, upper (D,) that reflect trajectories."""

    lower: np.ndarray
    upper: np.ndarray

    def drift(self, q: np.ndarray, p: np.ndarray, duration: float,
              velocity: Callable[[np.ndarray], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Moves q and p (D,) for a duration with reflections; `velocity`: of a momentum. Raises CannotDrift: too many reflections."""
        v = velocity(p)
        for _ in range(REFLECTIONS):
            end = q + duration * v
            beyond = np.flatnonzero((end < self.lower) | (end > self.upper))
            if not len(beyond):
                return end, p
            walls = np.where(end[beyond] < self.lower[beyond], self.lower[beyond], self.upper[beyond])
            times = (walls - q[beyond]) / v[beyond]
            first = np.argmin(np.abs(times))
            hit = beyond[first]
            q = q + times[first] * v
            q[hit] = walls[first]
            normal = np.zeros_like(p)
            normal[hit] = 1.0
            p = p - 2.0 * v[hit] / velocity(normal)[hit] * normal
            v = velocity(p)
            duration -= times[first]
        raise CannotDrift("the trajectory rattles between bounds")


@dataclass(frozen=True)
class _Block:
    chain: int
    tuning: bool
    draws: np.ndarray  # (n, D)
    statistics: dict[str, np.ndarray]


_Chains = Sequence[tuple[int, NutsChain]]  # with their numbers


def _block(number: int, chain: NutsChain, count: int, tuning: bool) -> _Block:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        drawn, rows = zip(*(chain.draw(tuning) for _ in range(count)))
    statistics: dict[str, np.ndarray] = {name: np.array([row[name] for row in rows], kind) for name, kind in HAMILTONIAN.items()}
    return _Block(number, tuning, np.array(drawn), statistics)


def _chains(problem: Problem, starts: Starts, seed: np.random.SeedSequence) -> _Chains:
    function, box = LogDensity(problem), Box(*bounds(problem))
    return [(number, NutsChain(problem.density.model, function, box.drift, start, mean=starts.points.mean(axis=0),
                               covariance=starts.covariance, weight=PRIOR_WEIGHT, target_accept=TARGET_ACCEPTANCE, seed=child))
            for number, (start, child) in enumerate(zip(starts.points, seed.spawn(len(starts.points))))]


def _blocks(chains: _Chains, tune: int, draws: int) -> Generator[_Block, None, None]:
    # Alternates, so that all chains have similar lengths when the run is stopped.
    for tuning, count in ((True, tune), (False, draws)):
        for first in range(0, count, BLOCK):
            for number, chain in chains:
                yield _block(number, chain, min(BLOCK, count - first), tuning)


def workers_for(chains: int) -> int:
    # A fork inherits the compiled functions, unlike a new process, which imports for seconds. It is safe with one thread only.
    alone = threading.active_count() == 1 and not multiprocessing.current_process().daemon
    return min(cores(), chains) if alone and "fork" in multiprocessing.get_all_start_methods() else 1


def _parallel(chains: _Chains, tune: int, draws: int, workers: int) -> Generator[_Block, None, None]:
    context = multiprocessing.get_context("fork")
    readers: dict[Any, Any] = {}
    processes = []
    try:
        for worker in range(workers):
            reader, writer = context.Pipe(duplex=False)
            process = context.Process(target=_work, args=(chains[worker::workers], tune, draws, writer), daemon=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # idle threads of libraries
                process.start()
            writer.close()
            readers[reader] = reader
            processes.append(process)
        while readers:
            for ready in wait(list(readers)):
                try:
                    message = readers[ready].recv()
                except EOFError:
                    raise RuntimeError("a process of the NUTS sampler ended by itself; is there memory left?") from None
                if message is None:
                    del readers[ready]
                elif isinstance(message, Exception):
                    raise message
                else:
                    yield message
    finally:
        for process in processes:
            process.terminate()
            process.join()


def _work(chains: _Chains, tune: int, draws: int, writer: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        for block in _blocks(chains, tune, draws):
            writer.send(block)
        writer.send(None)
    except BrokenPipeError:
        pass
    except Exception as error:  # reports any exception to the parent
        writer.send(RuntimeError(f"{type(error).__name__}: {error}"))
