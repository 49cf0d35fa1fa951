"""Responses of the model to draws of its unknowns, compared with the data.

Draws are simulated, compared and discarded in batches of at most IN_FLIGHT bytes; at most MAX_MEMORY bytes of all data sets together are
stored, or MIN_DRAWS draws where these take more. Only rows with a measurement are stored: a grid finer than the samples has ten times as
many.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lfdm_ros.calibration.model_error import ModelError, level_of
from lfdm_ros.inference.dataset import Dataset
from lfdm_ros.inference.gaussian import correlated_noise
from lfdm_ros.inference.likelihood import RolloutLikelihood

RMSE_DRAWS = 100  # as paper 000: mean RMSE of 100 responses
PREDICTIVE_DRAWS = 400  # for quantiles
IN_FLIGHT = 64 * 2**20  # bytes of responses in one batch
MAX_MEMORY = 64 * 2**20  # bytes of responses stored for posterior.nc and its figures
RUNS_AWAY = 1.2  # mean RMSE of draws over their median, from which a few draws dominate
MIN_DRAWS = 160  # draws, whatever their size: a quarter of them makes the 90 % bands of the figures


class Ranks:
    """Ranks of measured values (R, C) among draws that arrive in batches.

    Membership in a central interval agrees exactly with np.quantile of all draws: it needs only the numbers of smaller and equal draws and
    the nearest one on either side.
    """

    def __init__(self, observed: np.ndarray):
        self._observed = observed
        self._count = 0
        self._less, self._same, self._more = (np.zeros(observed.shape, np.int64) for _ in range(3))
        self._under, self._over = np.full(observed.shape, -np.inf), np.full(observed.shape, np.inf)

    def add(self, draws: np.ndarray) -> None:
        """Adds draws (n, R, C)."""
        less, more = draws < self._observed, draws > self._observed
        self._count += len(draws)
        self._less += less.sum(axis=0)
        self._more += more.sum(axis=0)
        self._same += (draws == self._observed).sum(axis=0)
        self._under = np.maximum(self._under, np.max(draws, axis=0, where=less, initial=-np.inf))
        self._over = np.minimum(self._over, np.min(draws, axis=0, where=more, initial=np.inf))

    def inside(self, level: float) -> np.ndarray:
        """Returns the mask (R, C) of values in the central `level` interval of the draws; False where a draw or the measurement is NaN."""
        whole = self._less + self._same + self._more == self._count
        return np.asarray(whole & self._reaches((1.0 - level) / 2.0) & self._stays_below((1.0 + level) / 2.0))

    def _reaches(self, p: float) -> np.ndarray:
        # The p-quantile lies between the draws of ranks i and i + 1 in ascending order.
        i, share = self._place(p)
        last = self._less + self._same - 1  # rank of the largest draw not above the value
        between = self._observed >= _between(np.where(self._same > 0, self._observed, self._under), self._over, share)
        return np.asarray((last > i) | ((last == i) & between))

    def _stays_below(self, p: float) -> np.ndarray:
        i, share = self._place(p)
        between = self._observed <= _between(self._under, np.where(self._same > 0, self._observed, self._over), share)
        return np.asarray((self._less <= i) | ((self._less == i + 1) & between))

    def _place(self, p: float) -> tuple[int, float]:
        whole, share = divmod((self._count - 1) * p, 1.0)
        return int(whole), share


def _between(a: np.ndarray, b: np.ndarray, share: float) -> np.ndarray:
    # As np.quantile does it.
    if share == 0.0:
        return a
    with np.errstate(invalid="ignore"):
        return np.asarray(b - (b - a) * (1.0 - share) if share >= 0.5 else a + (b - a) * share)


@dataclass(frozen=True)
class Predictive:
    """Responses to draws of the unknowns for one data set, at its R rows where anything was measured.

    times (R,) [s]; observed (R, C), NaN where this channel was not measured; response (R, C) to the representative point, mean (R, C) over
    the draws, spread (R, C): their variance about the point's; ranks of measurements among the responses with noise; widened: ranks among
    those with model error, if requested; squares (S, C): sums of the squared errors of RMSE_DRAWS responses, evenly over chains and draws,
    which are drawn (S, 2) with their chain and place in it, and whether each is finite, alive (S, C). As float32, since nothing but files
    and figures takes them: of these responses some, sample (s, R, C); and of the responses with noise, and with model error, those of some
    draws of each chain, noisy (chains, D, R, C), whose places are draw_index (D,).
    """

    times: np.ndarray
    observed: np.ndarray
    response: np.ndarray
    mean: np.ndarray
    ranks: Ranks
    widened: Ranks | None
    spread: np.ndarray
    squares: np.ndarray
    alive: np.ndarray
    drawn: np.ndarray
    sample: np.ndarray
    noisy: np.ndarray
    draw_index: np.ndarray

    @property
    def residuals(self) -> np.ndarray:
        """Measured minus the response to the point (R, C), NaN without a measurement, infinite where the model has no response."""
        return np.where(np.isnan(self.response) & np.isfinite(self.observed), np.inf, self.observed - self.response)


def storable_draws(datasets: Iterable[Dataset]) -> int:
    """Returns the number of draws of the predictives of these data sets, of prior and posterior, that fit into MAX_MEMORY; at most
    PREDICTIVE_DRAWS."""
    values = sum(len(_rows(data)) * len(data.channels) for data in datasets)
    # Two predictives, of each its draws with noise and a quarter as many without, 4 bytes a value.
    return max(MIN_DRAWS, min(PREDICTIVE_DRAWS, MAX_MEMORY // max(1, 10 * values)))


def predict_draws(likelihood: RolloutLikelihood, q: np.ndarray, sigma: Sequence[np.ndarray], rho: Sequence[np.ndarray],
                  rng: np.random.Generator, *, stored: int, noise: bool, report: Callable[[int], None] | None = None,
                  point: np.ndarray | None = None, errors: Mapping[int, ModelError] | None = None,
                  sensors: Mapping[int, float] | None = None) -> list[Predictive]:
    """Runs about PREDICTIVE_DRAWS of the draws q (C, N, Q), for each data set with noise sigma and correlation rho, (C, N, n_channels).

    Args:
        stored: about the number of draws to keep, of `storable_draws`, in `noisy`; a quarter as many in `sample`.
        noise: fills `noisy`; otherwise it has no draws.
        report: called with the number of data sets that are done.
        point: (Q,) representing the draws; by default their mean.
        errors: of the model, by index of the channel. Errors and sensors replace sigma in `widened` and `noisy`.
        sensors: noise of sensors, where it differs from that at learning.
    """
    point = q.mean(axis=(0, 1)) if point is None else point
    chains, draws, width = q.shape
    index = evenly(draws, -(-PREDICTIVE_DRAWS // chains))
    chosen = evenly(len(index), -(-stored // chains)) if noise else np.zeros(0, int)
    flat = q[:, index].reshape(chains * len(index), width)
    out = []
    for number, (deviation, correlation) in enumerate(zip(sigma, rho)):
        if report is not None:
            report(number)
        channels = deviation.shape[-1]
        sigma_of_draw, rho_of_draw = (values[:, index].reshape(-1, channels) for values in (deviation, correlation))
        out.append(_predict(likelihood, number, flat, sigma_of_draw, rho_of_draw, rng, (chains, index, chosen), stored // 4, point,
                            errors or {}, sensors or {}))
    return out


def _predict(likelihood: RolloutLikelihood, number: int, q: np.ndarray, sigma: np.ndarray, rho: np.ndarray, rng: np.random.Generator,
             places: tuple[int, np.ndarray, np.ndarray], shown: int, point: np.ndarray, errors: Mapping[int, ModelError],
             sensors: Mapping[int, float]) -> Predictive:
    data = likelihood.datasets[number]
    chains, index, chosen = places
    rows = _rows(data)
    observed, count = data.observed[rows], len(q)
    of_rmse = evenly(count, RMSE_DRAWS)
    of_sample = of_rmse[evenly(len(of_rmse), shown)]
    of_noisy = (np.arange(chains)[:, None] * len(index) + chosen).ravel()
    total, ranks, widened = np.zeros(observed.shape), Ranks(observed), Ranks(observed) if errors else None
    spread = np.zeros(observed.shape)
    squares, alive = np.empty((len(of_rmse), observed.shape[1])), np.empty((len(of_rmse), observed.shape[1]), bool)
    sample, noisy = (np.empty((len(draws), *observed.shape), np.float32) for draws in (of_sample, of_noisy))
    with np.errstate(over="ignore", invalid="ignore"):  # an unstable draw of the prior may leave the range, as infinity
        response = np.concatenate([responses for _, responses in likelihood.response_parts(number, point[None], IN_FLIGHT)])[0]
        # Standard deviation (K,) and correlation of a channel's model error.
        model_errors = {c: (np.sqrt(error.variance(data.times - data.times[0], level_of(data.channels[c], response[:, c]))),
                            error.correlation(float(data.times[1] - data.times[0]))) for c, error in errors.items()}
        for part, responses in likelihood.response_parts(number, q, IN_FLIGHT):
            noise = _noise(rng, data, rows, sigma[part], rho[part])
            finite = np.isfinite(responses).all(axis=1)
            responses = responses[:, rows]
            total += responses.sum(axis=0)

            def places_of(draws: np.ndarray, part: slice = part) -> tuple[slice, np.ndarray]:
                first, end = np.searchsorted(draws, [part.start, part.stop])
                return slice(first, end), draws[first:end] - part.start

            here, taken = places_of(of_rmse)
            squares[here], alive[here] = np.nansum((responses[taken] - observed) ** 2, axis=1), finite[taken]
            here, taken = places_of(of_sample)
            sample[here] = responses[taken]
            noise += responses
            ranks.add(noise)
            spread += ((responses - response[rows]) ** 2).sum(axis=0)
            if widened is not None:
                for c, (deviation, correlation) in model_errors.items():
                    paths = correlated_noise(rng, (len(noise), len(data.times)), 1.0, correlation)
                    sensor = sensors.get(c, errors[c].noise) * rng.standard_normal((len(noise), len(rows)))
                    noise[:, :, c] = responses[:, :, c] + (paths * deviation)[:, rows] + sensor
                widened.add(noise)
            here, taken = places_of(of_noisy)
            noisy[here] = noise[taken]
    drawn = np.column_stack([of_rmse // len(index), index[of_rmse % len(index)]])
    return Predictive(data.times[rows], observed, response[rows], total / count, ranks, widened, spread / count, squares, alive, drawn,
                      sample, noisy.reshape(chains, len(chosen), *observed.shape), index[chosen])


def _noise(rng: np.random.Generator, data: Dataset, rows: np.ndarray, sigma: np.ndarray, rho: np.ndarray) -> np.ndarray:
    """Draws errors (n, R, C) at the rows where something was measured; sigma, rho (n, C)."""
    if rho.any():  # neighbours are those of the grid
        return np.moveaxis(correlated_noise(rng, (*sigma.shape, len(data.times)), sigma, rho)[:, :, rows], 1, 2)
    return np.asarray(rng.standard_normal((len(sigma), len(rows), sigma.shape[1])) * sigma[:, None])


def _rows(data: Dataset) -> np.ndarray:
    return np.flatnonzero(np.isfinite(data.observed).any(axis=1))


def evenly(count: int, size: int) -> np.ndarray:
    """Returns the indices of `size` of `count` items, or of all, evenly."""
    return np.unique(np.linspace(0, count - 1, min(count, size)).astype(int))


def lag_one(residuals: Sequence[np.ndarray]) -> float:
    """Returns the correlation of neighbouring residuals of data sets (K,) each, 0 for white noise; NaN where there are fewer than 3."""
    neighbours, squares, count = 0.0, 0.0, 0
    for residual in residuals:
        series = residual[np.isfinite(residual)]
        neighbours += float(series[1:] @ series[:-1])
        squares += float(series @ series)
        count += len(series)
    return neighbours / squares if count >= 3 and squares > 0.0 else float("nan")


@dataclass(frozen=True)
class Compared:
    """Predictions of the errors of one label against what was measured, over all its data sets.

    response: RMSE of the response to the representative point; rmse: mean over the draws that did not diverge; median, low and high: of the
    draws, 5 and 95 %, infinite where that share diverged; worst: chain, index and RMSE of the worst draw. coverage of the 90 % intervals,
    widened with the model error, NaN where there is none.
    """

    response: float
    rmse: float
    median: float
    low: float
    high: float
    worst: tuple[int, int, float]
    coverage: float
    widened: float
    lag_one: float

    @property
    def runs_away(self) -> bool:
        """True if a few draws decide over the mean."""
        return not self.rmse <= RUNS_AWAY * self.median


# One channel of one data set, with a label.
Member = tuple[Predictive, int]


def compare(data: Sequence[tuple[Sequence[str], Predictive]]) -> dict[str, Compared]:
    """Compares predictives with the measurements, by the labels that go with the channels of each."""
    gathered: dict[str, list[Member]] = {}
    for labels, predictive in data:
        for c, label in enumerate(labels):
            gathered.setdefault(label, []).append((predictive, c))
    return {label: compared(members) for label, members in gathered.items()}


def compared(members: Sequence[Member]) -> Compared:
    squares = np.sum([one.squares[:, c] for one, c in members], axis=0)
    alive = np.all([one.alive[:, c] for one, c in members], axis=0)
    each = np.where(alive, np.sqrt(squares / _measured(members)), np.inf)
    low, median, high = (float(np.quantile(each, share, method="higher")) for share in (0.05, 0.5, 0.95))
    residuals = [one.residuals[:, c] for one, c in members]
    chain, draw = members[0][0].drawn[int(each.argmax())]
    with np.errstate(over="ignore", invalid="ignore"):
        response = float(np.sqrt(sum(np.nansum(residual**2) for residual in residuals) / _measured(members)))
    return Compared(response, float(each[alive].mean()) if alive.any() else float("nan"), median, low, high,
                    (int(chain), int(draw), float(each.max())), coverage(members),
                    coverage(members, widened=True) if all(one.widened is not None for one, _ in members) else float("nan"),
                    lag_one(residuals))


def coverage(members: Sequence[Member], level: float = 0.9, widened: bool = False) -> float:
    """Returns the share of the samples of one label inside the central `level` interval of the responses with noise, `widened` by the model
    error."""
    ranks = [(one.widened if widened and one.widened is not None else one.ranks, c) for one, c in members]
    return sum(int(rank.inside(level)[:, c].sum()) for rank, c in ranks) / _measured(members)


def _measured(members: Sequence[Member]) -> int:
    return sum(int(np.isfinite(one.observed[:, c]).sum()) for one, c in members)
