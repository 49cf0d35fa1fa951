"""The picture of the demo: hidden truth, prior and posterior of the parameters, and a prediction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

CHANNELS = {"yaw_rate": "yaw rate [rad/s]", "vy": "lateral velocity [m/s]"}
DRAWS = 100
PRIOR, POSTERIOR, TRUTH, DATA = "#b9c4d0", "#1f6fb2", "#c0392b", "#555555"


def draw(path: Path, recipe: Any, truth: dict[str, float], result: Path, bag: Path) -> None:
    """Writes a PNG.

    Args:
        truth: the hidden parameters, by the recipe's names.
        result: folder of the calibration.
        bag: recording of a manoeuvre that was not fitted.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from lfdm_ros.calibration import load_posterior_summary
    from lfdm_ros.reports import save_figure

    posterior = load_posterior_summary(result, thinned=DRAWS)
    parameters = {p.name: p for stage in recipe.stages for p in stage.parameters}
    rng = np.random.default_rng(posterior["seed"])
    prior_draws = np.column_stack([parameters[n].prior.frozen().rvs(DRAWS, random_state=rng) for n in posterior["parameter_names"]])

    figure = plt.figure(figsize=(11, 4.6), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1, 1.25))
    _parameters(left.subplots(), posterior, parameters, truth)
    axes = right.subplots(len(CHANNELS), sharex=True)
    bands = {PRIOR: _responses(recipe, parameters, posterior["parameter_names"], prior_draws, bag),
             POSTERIOR: _responses(recipe, parameters, posterior["parameter_names"], posterior["thinned_draws"], bag)}
    _prediction(axes, bands, bag)
    save_figure(figure, path)
    plt.close(figure)


def _parameters(axis: Any, posterior: dict[str, Any], parameters: dict[str, Any], truth: dict[str, float]) -> None:
    names = posterior["parameter_names"]
    for row, name in enumerate(names):
        low, high = parameters[name].prior.frozen().ppf([0.0, 1.0])
        if not np.isfinite([low, high]).all():
            low, high = parameters[name].prior.frozen().ppf([0.005, 0.995])

        def scaled(value: float, low: float = low, high: float = high) -> float:
            return (value - low) / (high - low)

        axis.barh(row, 1.0, height=0.55, color=PRIOR, label="prior" if row == 0 else None)
        interval = [scaled(posterior["hdi_lower"][row]), scaled(posterior["hdi_upper"][row])]
        axis.plot(interval, [row, row], color=POSTERIOR, lw=13, solid_capstyle="butt", label="posterior, 94 %" if row == 0 else None)
        axis.plot(scaled(posterior["means"][row]), row, "|", color=POSTERIOR, ms=13, mew=2)  # visible however narrow the interval
        axis.plot(scaled(truth[name]), row - 0.36, "v", color=TRUTH, ms=8, label="hidden truth" if row == 0 else None)
    axis.set_yticks(range(len(names)), [name.replace("_", " ") for name in names])
    axis.invert_yaxis()
    axis.set_xticks([0, 1], ["prior's lower end", "upper end"])
    axis.set_title("parameters, inferred from three manoeuvres")
    axis.legend(loc="upper center", bbox_to_anchor=(0.3, -0.06), ncols=3, frameon=False, fontsize=9)


def _prediction(axes: Any, bands: dict[str, tuple[np.ndarray, np.ndarray]], bag: Path) -> None:
    from lfdm_ros.bags import read_series

    measured = read_series(bag, "measured/state", list(CHANNELS))
    for column, (axis, label) in enumerate(zip(axes, CHANNELS.values())):
        axis.plot(measured.time[::2], measured.values[::2, column], ".", color=DATA, ms=2, label="measured, never fitted")
        for colour, (times, responses) in bands.items():
            low, high = np.nanquantile(responses[..., column], [0.03, 0.97], axis=0)
            name = "prior" if colour == PRIOR else "posterior"
            axis.fill_between(times, low, high, color=colour, alpha=0.6 if name == "prior" else 1.0, lw=0.8, ec=colour,
                              label=f"predicted, {name}", zorder=1 if name == "prior" else 3)
        axis.set_ylabel(label)
        # Some of the prior's vehicles spin: the axis is for the measured one.
        low, high = measured.values[:, column].min(), measured.values[:, column].max()
        axis.set_ylim(low - 0.8 * (high - low), high + 0.8 * (high - low))
    axes[0].set_title("a manoeuvre that was not fitted")
    axes[0].legend(loc="upper right", fontsize=8)
    axes[-1].set_xlabel("time [s]")


def _responses(recipe: Any, parameters: dict[str, Any], names: list[str], draws: np.ndarray, bag: Path) -> tuple[np.ndarray, np.ndarray]:
    from lfdm_ros.inference.dataset import find_recordings, load_window
    from lfdm_ros.inference.likelihood import RolloutLikelihood
    from lfdm_ros.inference.plan import DEFAULT_STATE, Inputs

    (recording,) = find_recordings([bag])
    data = load_window(recording, 0.0, np.inf, model=recipe.model, vehicle=recipe.start_vehicle, step=recipe.step,
                       channels={name: ("measured/state", name) for name in CHANNELS}, state_topic=DEFAULT_STATE, inputs=Inputs())
    rollout = RolloutLikelihood([data], model=recipe.model, vehicle=recipe.start_vehicle, step=recipe.step,
                                unknowns=[parameters[name].targets for name in names])
    return data.times, rollout.responses(draws)[0]
