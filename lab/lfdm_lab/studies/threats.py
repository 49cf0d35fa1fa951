"""What each component of the threat sees, while an operator behind a link drives alone and nobody intervenes.

    python -m lfdm_lab.studies.threats docs/sharing_threats.png [LATENCY [SEED]]
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from lfdm_lab.studies.sharing import SCENARIOS, SHARED, Drive, Notes, driven
from lfdm_ros.figures import save_png
from lfdm_ros.sharing.components import component_names
from lfdm_ros.sharing.settings import OPERATOR
from lfdm_ros.sharing.sharer import Decision


class Threats(Notes):
    """Notes of what each component said, each time that it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.looks: list[float] = []  # [s]
        self.threats: list[dict[str, float]] = []
        self._last: Any = None

    def take(self, decision: Decision) -> None:
        super().take(decision)
        if decision.threat is not self._last:
            self._last = decision.threat
            self.looks.append(decision.time)
            self.threats.append({name: a.threat for name, a in decision.threat.assessments.items()})


def watch(scenario: str, latency: float, seed: int, names: Sequence[str]) -> dict[str, Any]:
    """Lets the operator drive one of the study's scenarios alone, with the autonomy planning beside; times (n,) [s], the threat by each
    component (n,), NaN where it could not tell, what became of it ("" if nothing failed), and when [s]."""
    notes = Threats()
    _, run, _ = driven(Drive(scenario, SHARED, latency, seed, threats=tuple(names), mode=OPERATOR), notes)
    failed = "diverges" if run.diverged else f"hits {run.collisions[0]}" if run.collisions else "lifts a wheel" if run.lifted else ""
    return {"scenario": scenario, "times": np.array(notes.looks), "failure": failed, "end": float(run.times[-1]),
            "threats": {name: np.array([said.get(name, np.nan) for said in notes.threats]) for name in names}}


def draw_threats(runs: Sequence[Mapping[str, Any]]) -> Figure:
    """The threat by each component over time, a column for each run."""
    names = list(runs[0]["threats"])
    figure = Figure(figsize=(3.6 * len(runs), 1.1 * len(names) + 0.8), layout="constrained")
    axes = figure.subplots(len(names), len(runs), squeeze=False, sharex="col", sharey=True)
    for column, run in enumerate(runs):
        for row, name in enumerate(names):
            axis = axes[row, column]
            axis.fill_between(run["times"], run["threats"][name], color="tab:blue", alpha=0.6, lw=0.0)
            if run["failure"]:
                axis.axvline(run["end"], color="tab:red", lw=1.5)
            axis.set_ylim(0.0, 1.05)
            if not column:
                axis.set_ylabel(name.replace("_", "\n"), fontsize=8)
        axes[0, column].set_title(f"{run['scenario'].replace('_', ' ')}: {run['failure'] or 'no failure'}", fontsize=9)
        axes[-1, column].set_xlabel("time [s]")
    return figure


def main(out: str, latency: str = "0.5", seed: str = "1") -> int:
    """Writes the picture of all components in all scenarios of the study."""
    save_png(draw_threats([watch(name, float(latency), int(seed), component_names()) for name in SCENARIOS]), Path(out))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
