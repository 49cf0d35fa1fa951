"""Pictures of the study of uncertain friction, beside the figures of paper 004."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from lfdm_lab.studies.friction import MANOEUVRES, PAPER, PATCHES, SPACINGS
from lfdm_ros.proportions import interval_of

Runs = Sequence[Mapping[str, Any]]
COLOURS = {None: "0.45", 4.0: "tab:orange", 2.0: "tab:blue"}


def _paper(runs: Runs) -> list[Mapping[str, Any]]:
    return [run for asked in PAPER for run in runs if run["kind"] == "drive" and (run["manoeuvre"], run["patch"], run["spacing"]) == asked]


def draw_yaw_rates(runs: Runs) -> Figure | None:
    """Yaw rate of the samples, their mean and two deviations, and constant friction (004, figs 15, 16, 18); below, the deviation over
    time and that of the field under the way (fig 17)."""
    some = _paper(runs)
    if not some:
        return None
    figure = Figure(figsize=(4.0 * len(some), 5.2), layout="constrained")
    axes = figure.subplots(2, len(some), squeeze=False, sharex="col")
    for run, (above, below) in zip(some, axes.T):
        t, mean, sd = (np.array(run[name]) for name in ("time", "yaw_rate_mean", "yaw_rate_sd"))
        above.plot(t, np.array(run["yaw_rate_samples"]).T, color="tab:blue", lw=0.5, alpha=0.4)
        above.fill_between(t, mean - 2.0 * sd, mean + 2.0 * sd, color="tab:blue", alpha=0.2, lw=0.0)
        above.plot(t, mean, color="tab:blue", lw=1.8, label=f"{run['samples']} samples: mean, 2 sd, twelve of them")
        above.plot(t, run["yaw_rate_plain"], color="k", ls="--", lw=1.2, label="constant friction")
        above.set_title(f"{run['manoeuvre'].replace('_', ' ')}, patches {run['patch']:g} m", fontsize=10)
        ice = MANOEUVRES[run["manoeuvre"]].ice_at
        if ice is not None:
            above.axvspan(ice, ice + 4.0 / MANOEUVRES[run["manoeuvre"]].speed, color="0.85", lw=0.0)
        below.plot(t, sd, color="tab:blue", label="sd of yaw rate [rad/s]")
        other = below.twinx()
        other.plot(t, run["way_sd"], color="tab:orange", lw=0.8, label="sd of the field on the way")
        other.set_ylim(0.0)
        below.set_ylim(0.0)
        below.set_xlabel("time [s]")
    axes[0, 0].set_ylabel("yaw rate [rad/s]")
    axes[1, 0].set_ylabel("sd of yaw rate [rad/s]")
    axes[0, 0].legend(fontsize=7)
    return figure


def draw_spin_outs(runs: Runs) -> Figure | None:
    """Probability of a spin-out over the patch length, by manoeuvre and by what was seen, with its interval."""
    drives = [run for run in runs if run["kind"] == "drive"]
    names = [name for name in MANOEUVRES if len({run["patch"] for run in drives if run["manoeuvre"] == name}) > 1]
    if not names:
        return None
    figure = Figure(figsize=(3.6 * len(names), 3.2), layout="constrained")
    for axis, name in zip(figure.subplots(1, len(names), squeeze=False, sharey=True)[0], names):
        for k, spacing in enumerate(SPACINGS):
            cells = sorted((run for run in drives if run["manoeuvre"] == name and run["spacing"] == spacing and run["patch"] in PATCHES),
                           key=lambda run: run["patch"])
            if not cells:
                continue
            share = np.array([run["spins"] / run["samples"] for run in cells])
            ends = np.array([interval_of(run["spins"], run["samples"]) for run in cells]).T
            beside = [run["patch"] * 1.06 ** (k - 1) for run in cells]
            axis.errorbar(beside, share, np.abs(ends - share), color=COLOURS[spacing], marker="o", ms=3.5, lw=1.2, elinewidth=0.8,
                          label="nothing seen" if spacing is None else f"seen every {spacing:g} m")
        axis.set_xscale("log")
        axis.set_xticks(PATCHES, [f"{patch:g}" for patch in PATCHES])
        axis.minorticks_off()
        axis.set_title(name.replace("_", " "), fontsize=10)
        axis.set_xlabel("patch length [m]")
    figure.axes[0].set_ylabel("probability of a spin-out")
    figure.axes[0].legend(fontsize=8)
    return figure


def draw_convergence_and_cost(runs: Runs) -> Figure | None:
    """Error over the nodes of a patch (004, figs 2-3); seconds of a sample over nodes, ours and the paper's dense way (figs 21-23)."""
    of = {run["kind"]: run for run in runs}
    if "convergence" not in of or "cost" not in of:
        return None
    figure = Figure(figsize=(10.5, 3.2), layout="constrained")
    over_time, error, cost = figure.subplots(1, 3)
    found = of["convergence"]
    for per_patch, deviation in zip(found["per_patch"], found["deviation"]):
        over_time.semilogy(found["time"], np.maximum(deviation, 1e-9), label=f"{per_patch:g} nodes a patch")
    over_time.set_xlabel("time [s]")
    over_time.set_ylabel("distance from the finest's way [m]")
    over_time.legend(fontsize=7)
    error.loglog(found["per_patch"], found["error"], color="tab:blue", marker="o", ms=4)
    first = found["error"][0]
    error.loglog(found["per_patch"], [first * (found["per_patch"][0] / n) ** 4 for n in found["per_patch"]], color="0.6", ls=":",
                 label="fourth order")
    error.set_xticks(found["per_patch"], [f"{n:g}" for n in found["per_patch"]])
    error.minorticks_off()
    error.set_xlabel("nodes a patch")
    error.set_ylabel("error / way")
    error.legend(fontsize=7)
    for name, label, colour in (("sample_s", "embedding and Matheron", "tab:blue"), ("dense_s", "dense Cholesky (004)", "tab:orange")):
        cells = sorted((row["nodes"], row[name]) for row in of["cost"]["rows"] if name in row and row["what"] != "observations")
        cost.loglog(*zip(*cells), color=colour, marker="o", ms=3.5, lw=1.0, label=label)
    cost.set_xlabel("nodes")
    cost.set_ylabel("processor seconds for a sample")
    cost.legend(fontsize=7)
    return figure
