"""NUTS of the package nutpie on the same log density and gradient as `nuts`, as a second implementation for comparison.

nutpie adapts a low-rank metric from draws and gradients and has no reflection at bounds. Bounded unknowns are therefore sampled as
log-odds between their bounds, or as the logarithm of the distance from the only bound, with the Jacobian in the density: exact as well,
but this curves the straight ridges of parameters identified only as a sum; if R-hat or divergences show it, use `nuts`. Each chain is a
separate sampler with its own start and seed, in a thread; simulations release the GIL.
"""

import time
from collections.abc import Mapping
from queue import SimpleQueue
from typing import Any

import numpy as np
import nutpie
from nutpie.compiled_pyfunc import from_pyfunc
from scipy.special import expit, log_expit, logit

from lfdm_ros.samplers.chains import HAMILTONIAN, Collector
from lfdm_ros.samplers.nuts import TARGET_ACCEPTANCE, LogDensity
from lfdm_ros.samplers.sampler import Problem, Report, SampleRun
from lfdm_ros.samplers.starts import Starts, bounds, find_starts

POLL = 0.05  # [s] between polls of the chains
INSIDE = 1e-3  # minimum distance of starts from a bound, in standard deviations or widths
NAMES = {"tree_size": "n_steps", "reached_max_treedepth": "maxdepth_reached"}  # nutpie's names of statistics


def run(problem: Problem, *, draws: int, chains: int, seed: np.random.SeedSequence, report: Report | None, tune: int) -> SampleRun:
    """Draws from the posterior of a stage; see `lfdm_ros.samplers.sampler.Sample`."""
    began = time.perf_counter()
    start_seed, chain_seed = seed.spawn(2)
    starts = find_starts(problem, chains, start_seed, report)
    collector = Collector(problem, tune=tune, draws=draws, chains=chains, evaluations=starts.evaluations, began=began, report=report)
    events: SimpleQueue[_Event] = SimpleQueue()
    samplers = _start(problem, starts, tune, draws, chain_seed, events)
    total = chains * (tune + draws)
    counts = [0] * chains
    try:
        while sum(counts) < total:
            time.sleep(POLL)
            if events.empty() and any(count < tune + draws and _finished(sampler) for count, sampler in zip(counts, samplers)):
                break  # `wait` raises the error
            _receive(events, counts, tune, collector)
        traces = [sampler.wait() for sampler in samplers]
    except BaseException as error:
        if not (isinstance(error, KeyboardInterrupt) and collector.useful):
            for sampler in samplers:
                sampler.cancel()
            raise
        traces = [sampler.abort() for sampler in samplers]
    count = min(collector.particles().shape[1], *(trace.sample_stats.sizes["draw"] for trace in traces))
    return collector.finish_hamiltonian("NUTS of nutpie", {
        name: np.stack([trace.sample_stats[NAMES.get(name, name)].values[0, :count].astype(kind) for trace in traces])
        for name, kind in HAMILTONIAN.items()})


# Index of a chain, its next draw in the density's coordinates and the number of gradients; or its exception.
_Event = tuple[int, np.ndarray, int] | Exception


class Line:
    """Transform between x within bounds and unbounded coordinates z."""

    def __init__(self, lower: np.ndarray, upper: np.ndarray):
        """Stores lower and upper (D,), infinite without a bound."""
        self._lower, self._upper = lower, upper
        self._both = np.isfinite(lower) & np.isfinite(upper)
        # The only bound, and the sign of x relative to it.
        self._one = np.isfinite(lower) ^ np.isfinite(upper)
        self._bound, self._side = np.where(np.isfinite(lower), lower, upper), np.where(np.isfinite(lower), 1.0, -1.0)

    def coordinates(self, x: np.ndarray) -> np.ndarray:
        """Maps x (D,) strictly between the bounds to z (D,)."""
        z, both, one = x.copy(), self._both, self._one
        z[both] = logit((x[both] - self._lower[both]) / (self._upper[both] - self._lower[both]))
        z[one] = np.log(self._side[one] * (x[one] - self._bound[one]))
        return z

    def point(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, np.ndarray]:
        """Maps z (D,) to x (D,), dx/dz (D,), and J = sum log |dx/dz| with its slope (D,)."""
        x, by_z, slope = z.copy(), np.ones(len(z)), np.zeros(len(z))
        both, one = self._both, self._one
        width, odds, away = self._upper[both] - self._lower[both], z[both], np.exp(z[one])
        x[both] = self._lower[both] + width * expit(odds)
        by_z[both] = width * expit(odds) * expit(-odds)
        slope[both] = -np.tanh(0.5 * odds)
        x[one] = self._bound[one] + self._side[one] * away
        by_z[one] = self._side[one] * away
        slope[one] = 1.0
        logarithm = np.sum(np.log(width) + log_expit(odds) + log_expit(-odds)) + z[one].sum()
        return np.clip(x, self._lower, self._upper), by_z, float(logarithm), slope


class _Chain:
    """Callbacks in nutpie's thread; exceptions there would end the process, so they are sent to the caller."""

    def __init__(self, number: int, function: LogDensity, line: Line, start: np.ndarray, events: SimpleQueue[_Event]):
        self._number, self._function, self._line, self._start, self._events = number, function, line, start, events
        self._gradients = 0

    def density(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """Computes log density and slope (D,) for z (D,)."""
        self._gradients += 1
        try:
            with np.errstate(all="ignore"):
                x, by_z, logarithm, more = self._line.point(z)
                logp, slope = self._function(x)
                return logp + logarithm, slope * by_z + more
        except Exception as error:
            self._events.put(error)
            return -np.inf, np.zeros(len(z))

    def draw(self, z: np.ndarray) -> Mapping[str, np.ndarray]:
        """Sends a draw to the caller; nutpie's trace has only z."""
        gradients, self._gradients = self._gradients, 0
        self._events.put((self._number, self._line.point(z)[0], gradients))
        return {"z": z.copy()}

    def model(self) -> Any:
        size = len(self._start)
        return from_pyfunc(size, lambda: self.density, lambda *_: self.draw, [np.dtype("float64")], [(size,)], ["z"],
                           make_initial_point_fn=lambda _: self._start)


def _start(problem: Problem, starts: Starts, tune: int, draws: int, seed: np.random.SeedSequence,
           events: SimpleQueue[_Event]) -> list[Any]:
    lower, upper = bounds(problem)
    function, line = LogDensity(problem), Line(lower, upper)
    inside = INSIDE * np.minimum(np.sqrt(np.diag(starts.covariance)), upper - lower)
    out = []
    for number, (start, child) in enumerate(zip(starts.points, seed.spawn(len(starts.points)))):
        chain = _Chain(number, function, line, line.coordinates(np.clip(start, lower + inside, upper - inside)), events)
        out.append(nutpie.sample(chain.model(), draws=draws, tune=tune, chains=1, cores=1, seed=int(child.generate_state(1)[0]),
                                 target_accept=TARGET_ACCEPTANCE, low_rank_modified_mass_matrix=True, progress_bar=False, blocking=False))
    return out


def _receive(events: SimpleQueue[_Event], counts: list[int], tune: int, collector: Collector) -> None:
    """Passes the received draws to the collector, chain by chain."""
    received: list[list[tuple[np.ndarray, int]]] = [[] for _ in counts]
    while not events.empty():
        item = events.get()
        if isinstance(item, Exception):
            raise item
        received[item[0]].append(item[1:])
    for chain, items in enumerate(received):
        split = max(0, tune - counts[chain])
        for part, tuning in ((items[:split], True), (items[split:], False)):
            if part:
                counts[chain] += len(part)
                collector.add(chain, np.array([x for x, _ in part]), tuning, sum(gradients for _, gradients in part))


def _finished(sampler: Any) -> bool:
    try:
        return bool(sampler.is_finished)
    except TimeoutError:  # still sampling
        return False
