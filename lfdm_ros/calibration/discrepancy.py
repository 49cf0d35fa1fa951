"""Disagreement of model and data: errors that are not white, intervals that are too narrow, stages and recordings that contradict each
other.

The white-noise likelihood takes n samples for n independent ones. With correlated errors only n_eff are, and intervals informed by the
channel should be sqrt(n / n_eff) times as wide: for autoregressive errors of correlation rho, sqrt((1 + rho) / (1 - rho)).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from lfdm_ros.calibration.predictive import coverage, evenly, lag_one
from lfdm_ros.calibration.stage import StageModel, stage_model
from lfdm_ros.inference.identifiability import information_root, units, whiten
from lfdm_ros.inference.plan import AR1, INFLATED, RHO, SIGMA, WHITE, CalibratedParameter, Recipe, Stage
from lfdm_ros.vehicles import Vehicle

if TYPE_CHECKING:
    from lfdm_ros.calibration.stage import StageResult

LAGS = 10  # of the whiteness test; fewer with few samples
MIN_WIDENING = 1.25  # factor by which intervals are too narrow, from which it is reported
LEVEL = 0.01  # of the test for whiteness
WORSE = 1.2  # ratio of RMSEs (final vehicle to the stage's, or after to before a fit) from which data contradict each other
APART = 4.0  # standard deviations between the estimates of two recordings, from which they contradict each other
MAX_REMAINING_WIDTH = 0.3  # of the prior's width; a recording that leaves more does not inform the unknown
RECORDINGS = 6  # evenly chosen for the comparison
ITERATIONS = 12  # of Gauss-Newton, for one recording
STEP_FACTORS = (1.0, 0.5, 0.2, 0.05)  # of a step that makes the fit worse


@dataclass(frozen=True)
class Whiteness:
    """Statistics of residuals: correlation of neighbours, Ljung and Box's p of white noise, effective number of independent samples."""

    lag_one: float
    p: float
    count: int
    effective: float

    @property
    def white(self) -> bool:
        """True if there is neither proof nor effect of a correlation."""
        return self.p > LEVEL or self.widening < MIN_WIDENING

    @property
    def widening(self) -> float:
        """Factor by which intervals from a white-noise likelihood are too narrow."""
        return math.sqrt(self.count / self.effective) if self.effective > 0.0 else math.inf


def whiteness(series: Sequence[np.ndarray], rho: float = 0.0) -> Whiteness:
    """Tests the errors of data sets (K,) each, NaN without a measurement; with `rho`, of their innovations at this correlation."""
    runs = [errors[np.isfinite(errors)] for errors in series]
    if rho:
        runs = [run[1:] - rho * run[:-1] for run in runs]
    count = sum(map(len, runs))
    lags = min(LAGS, max(1, count // 5), *(max(1, len(run) - 1) for run in runs))
    squares = sum(float(run @ run) for run in runs)
    if count < 3 or squares <= 0.0:
        return Whiteness(math.nan, math.nan, count, float(count))
    longest = max(lags, count // 4)
    correlations = np.zeros(longest)
    for run in filter(len, runs):
        # Zero-padded against circular correlation.
        products = np.fft.irfft(np.abs(np.fft.rfft(run, 2 * len(run))) ** 2, 2 * len(run))[1:min(len(run), longest + 1)]
        correlations[:len(products)] += products / squares
    tested = correlations[:lags]
    q = count * (count + 2.0) * float((tested**2 / (count - np.arange(1, lags + 1))).sum())
    freedom = max(1, lags - (1 if rho else 0))
    # Geyer (1992): pairs of neighbouring lags are added while they are positive.
    pairs = np.concatenate([[1.0], correlations])[: 2 * ((len(correlations) + 1) // 2)].reshape(-1, 2).sum(axis=1)
    stop = int(np.argmax(pairs <= 0.0)) if (pairs <= 0.0).any() else len(pairs)
    total = max(1.0, 2.0 * float(pairs[:stop].sum()) - 1.0)
    return Whiteness(float(tested[0]), float(stats.chi2.sf(q, freedom)), count, count / total)


def errors_of(result: StageResult) -> dict[str, dict[str, Any]]:
    """Checks a stage's errors by label, for summary.json.

    assumed: white, ar1 or inflated; needed: the adequate one; sigma, rho: posterior means; lag_1, ljung_box_p of the residuals without rho;
    samples, effective_samples; coverage_50, coverage_90; widening: of intervals relative to white noise, missing in the stage or already
    included; text.
    """
    out = {}
    weights = result.likelihood.weights
    for label in result.stage.channels:
        members = [(predictive, c) for (segment, _), predictive in zip(result.data.fitted, result.posterior_predictive)
                   for c, one in enumerate(segment.channels) if one.label == label]
        if not members:
            continue
        residual = [predictive.residuals[:, c] for predictive, c in members]
        sigma = float(result.run.draws[SIGMA + label].mean())
        rho = float(result.run.draws[RHO + label].mean()) if RHO + label in result.run.draws else 0.0
        plain, left = whiteness(residual), whiteness(residual, rho)
        assumed = result.stage.errors
        widening = {WHITE: 1.0 if plain.white else plain.widening, AR1: math.sqrt((1.0 + rho) / (1.0 - rho)),
                    INFLATED: weights[label] ** -0.5}
        needed = WHITE if plain.white else (
            AR1 if whiteness(residual, min(0.999, max(0.0, lag_one(residual)))).white else INFLATED)
        row = {"assumed": assumed, "needed": needed, "sigma": sigma, "rho": rho if assumed == AR1 else None, "weight": weights[label],
               "lag_1": left.lag_one, "ljung_box_p": left.p, "samples": plain.count,
               "effective_samples": float(plain.count) if plain.white else plain.effective, "coverage_50": coverage(members, 0.5),
               "coverage_90": coverage(members), "widening": widening[assumed], "white": left.white}
        out[label] = {**row, "text": _words(label, row, left)}
    return out


def _words(label: str, row: Mapping[str, Any], whiteness: Whiteness) -> str:
    covered = f"its 90 % intervals hold {row['coverage_90']:.0%} of the samples, its 50 % intervals {row['coverage_50']:.0%}"
    if row["assumed"] == AR1:
        rest = "what is left is white" if whiteness.white else f"what is left is not white (lag-1 correlation {whiteness.lag_one:.2f})"
        return (f"errors of {label} were taken as correlated (rho {row['rho']:.2f}): intervals up to {row['widening']:.1f} times as wide "
                f"as white noise would give; {rest}; {covered}")
    if row["assumed"] == INFLATED:
        return (f"{row['samples']} samples of {label} counted as {row['samples'] * row['weight']:.0f}: intervals {row['widening']:.1f} "
                f"times as wide as white noise would give; {covered}")
    if whiteness.white:
        return f"errors of {label} look like white noise; {covered}"
    return (f"errors of {label} are not white (lag-1 correlation {whiteness.lag_one:.2f}): {row['samples']} samples are worth "
            f"{row['effective_samples']:.0f}; {covered}")


def fit_warnings(rmse: Mapping[str, Mapping[str, float]]) -> Iterable[str]:
    """Yields a warning for each channel, with its RMSE `response` and `prior_response`, that a fit to all of them has made worse."""
    for label, row in rmse.items():
        if row["response"] > WORSE * row["prior_response"]:
            yield (f"{label} errs more than before on what was fitted itself, {row['response']:.3g} against {row['prior_response']:.3g}: "
                   "the model cannot follow another channel, which pulls at the unknowns; leave that one out, or free what it hangs on")


def error_warnings(errors: Mapping[str, Mapping[str, Any]]) -> Iterable[str]:
    for label, row in errors.items():
        if row["assumed"] == WHITE and not row["white"]:
            yield (f"residuals of {label} are not white (lag-1 correlation {row['lag_1']:.2f}); the model misses something, sigma "
                   f"{row['sigma']:.3g} holds it, and the intervals of what this channel informs are up to {row['widening']:.1f} times too "
                   f"narrow; errors: {row['needed']} in the recipe's stage takes that into account")
        elif row["assumed"] == AR1 and not row["white"]:
            yield (f"residuals of {label} are correlated beyond their neighbours (lag-1 correlation {row['lag_1']:.2f} after rho "
                   f"{row['rho']:.2f}); the model misses something slow, and intervals are still too narrow; use errors: {INFLATED}")


def together(recipe: Recipe, results: Sequence[StageResult]) -> dict[str, dict[str, float]]:
    """Computes the RMSE of each label of each stage at its own fit, and with the final vehicle put back into its data; STAGE/LABEL.

    Nuisances and initial states stay those of the stage.
    """
    whole = [result for result in results if result.run.temperature == 1.0]
    if len(whole) < 2:
        return {}
    final = whole[-1].after
    out: dict[str, dict[str, float]] = {}
    for result in whole:
        separate = _rmse(result, recipe, result.vehicle, [result.run.point[name] for name in result.unknowns])
        back = [p.value_in(final.parameters) for p in result.stage.parameters]
        back += [result.run.point[name] for name in result.unknowns[len(back):]]
        out |= {f"{result.stage.name}/{label}": {"own": separate[label], "together": value}
                for label, value in _rmse(result, recipe, final, back).items()}
    return out


def _rmse(result: StageResult, recipe: Recipe, vehicle: Vehicle, q: Sequence[float]) -> dict[str, float]:
    likelihood = stage_model(result.stage, result.data, recipe, vehicle, result.likelihood.weights).likelihood
    with np.errstate(all="ignore"):
        errors = likelihood.errors(np.array(q)[None])
    return {group.label: float(np.sqrt((error[0] ** 2).mean())) for group, error in zip(likelihood.groups, errors)}


def together_warnings(consistency: Mapping[str, Mapping[str, float]]) -> Iterable[str]:
    """Yields a warning for each stage that the final vehicle contradicts."""
    worse: dict[str, list[str]] = {}
    for key, row in consistency.items():
        if not row["together"] <= WORSE * row["own"]:
            stage, _, label = key.partition("/")
            worse.setdefault(stage, []).append(f"{label} RMSE {row['together']:.3g} instead of {row['own']:.3g}")
    for stage, channels in worse.items():
        yield (f"{stage}: the final vehicle, put back, fits worse ({', '.join(channels)}): the stages contradict each other; infer them in "
               "one stage of segments, the one that the others depend on first, or free what is held at a wrong value")


def alone(recipe: Recipe, results: Sequence[StageResult],
          report: Callable[[str], None] = lambda message: None) -> dict[str, dict[str, dict[str, float]]]:
    """Estimates from each recording alone the physical unknowns that it informs: unknown -> STAGE/RECORDING -> estimate, sd.

    All physical unknowns of the recipe are free and start at the final vehicle, which also regularises uninformed ones; widths are
    Laplace's. Only unknowns informed by two recordings are listed. `report` receives progress messages.
    """
    whole = [result for result in results if result.run.temperature == 1.0]
    pairs = [(result, recording.sha256, recording.name) for result in whole
             for recording in {data.recording.sha256: data.recording for _, data in result.data.fitted}.values()]
    if len(pairs) < 2:
        return {}
    pairs = [pairs[i] for i in evenly(len(pairs), RECORDINGS)]
    parameters = _all_parameters([result.stage for result in whole])
    physical = {parameter.name for parameter in parameters}
    out: dict[str, dict[str, dict[str, float]]] = {}
    for result, sha256, name in pairs:
        report(f"what {name} alone says")
        stage = replace(result.stage, parameters=tuple(parameters))
        single = stage_model(stage, result.data.part(frozenset([sha256])), recipe, whole[-1].after, result.likelihood.weights)
        start = np.array([value if key in physical else result.run.point.get(key, value)
                          for key, value in zip(single.unknowns, single.start)])
        rho = [float(result.run.draws.get(RHO + group.label, np.zeros(1)).mean()) for group in single.likelihood.groups]
        found = _gauss_newton(single, start, rho)
        if found is None:
            continue
        q, width = found
        scale = units(list(single.unknowns.values()), q)
        for i, parameter in enumerate(parameters):
            if width[i] < MAX_REMAINING_WIDTH:
                out.setdefault(parameter.name, {})[f"{result.stage.name}/{name}"] = {
                    "estimate": float(q[i]), "sd": float(width[i] * scale[i])}
    return {name: rows for name, rows in out.items() if len(rows) > 1}


def _gauss_newton(single: StageModel, start: np.ndarray, rho: Sequence[float]) -> tuple[np.ndarray, np.ndarray] | None:
    """Estimates q (Q,) from `start`, in prior standard deviations, and widths (Q,) in units of the prior; the noise is estimated from the
    errors. None where `start` cannot be simulated."""
    priors, likelihood = list(single.unknowns.values()), single.likelihood
    spread = np.array([prior.spread() for prior in priors])
    lower, upper = np.array([prior.bounds() for prior in priors]).T
    centre = np.array([prior.coordinate(value) for prior, value in zip(priors, start)]) / spread
    if not np.isfinite(centre).all():
        return None

    def values(x: np.ndarray) -> np.ndarray:
        q = np.array([prior.value(c) for prior, c in zip(priors, x * spread)])
        margin = 1e-6 * np.where(np.isfinite(upper - lower), upper - lower, 0.0)
        return np.asarray(np.clip(q, lower + margin, upper - margin))

    def deviations(errors: Sequence[np.ndarray]) -> list[tuple[float, float]]:
        return [(float(np.sqrt((error**2).mean())), r) for error, r in zip(errors, rho)]

    with np.errstate(all="ignore"):
        x, errors = centre, [error[0] for error in likelihood.errors(start[None])]
        if not all(np.isfinite(error).all() for error in errors):
            return None
        root = np.empty((0, len(x)))
        for _ in range(ITERATIONS):
            noise = deviations(errors)
            root = information_root(likelihood, priors, values(x), noise)
            if not np.isfinite(root).all():
                return None
            residual = whiten(likelihood, errors, noise)
            curvature = np.eye(len(x)) + root.T @ root
            step = np.linalg.solve(curvature, -root.T @ residual - (x - centre))
            for shorter in STEP_FACTORS:
                trial = x + shorter * step
                tried = [error[0] for error in likelihood.errors(values(trial)[None])]
                cost = (whiten(likelihood, tried, noise) ** 2).sum() + ((trial - centre) ** 2).sum()
                if cost <= (residual**2).sum() + ((x - centre) ** 2).sum():
                    x, errors = trial, tried
                    break
            else:
                break
            if np.abs(step @ curvature @ step) < 1e-2:
                break
    return values(x), np.sqrt(np.diag(np.linalg.inv(np.eye(len(x)) + root.T @ root)))


def _all_parameters(stages: Sequence[Stage]) -> list[CalibratedParameter]:
    found: list[CalibratedParameter] = []
    for parameter in (p for stage in stages for p in stage.parameters):
        if not {target for target, _ in parameter.targets} & {target for other in found for target, _ in other.targets}:
            found.append(parameter)
    return found


def apart(estimates: Mapping[str, Mapping[str, float]]) -> tuple[str, str, float]:
    """Finds the two recordings that differ most about an unknown, and the difference in standard deviations."""
    distances = [(a, b, abs(one["estimate"] - other["estimate"]) / math.hypot(one["sd"], other["sd"]))
                 for (a, one), (b, other) in combinations(estimates.items(), 2)]
    return max((pair for pair in distances if not math.isnan(pair[2])), key=lambda pair: pair[2], default=("", "", 0.0))


def alone_warnings(conflicts: Mapping[str, Mapping[str, Mapping[str, float]]], shown: Mapping[str, str]) -> Iterable[str]:
    """Yields a warning for each pair of recordings that contradict each other about an unknown."""
    for name, estimates in conflicts.items():
        a, b, distance = apart(estimates)
        if distance > APART:
            texts = [f"{key} alone says {estimates[key]['estimate']:.4g} ± {estimates[key]['sd']:.2g}" for key in (a, b)]
            yield (f"{name}: {texts[0]}, {texts[1]} {shown.get(name, '')}".rstrip() + f": {distance:.0f} standard deviations apart; "
                   "something that is held at a wrong value, or that the model lacks, makes up for it in one of them")
