"""Calibration from one drive: a recipe with the identifiable unknowns, then the results, and a comparison of the vehicle before and after
on that drive. All by `lfdm` in child processes, as their imports take seconds. Independent of ROS."""

import csv
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lfdm_ros.calibration.store import SUMMARY
from lfdm_ros.documents import read_json
from lfdm_ros.engine.background import Share
from lfdm_ros.engine.calibration_process import DEFAULT_SHARE, LFDM, output_of
from lfdm_ros.errors import InputError

_POINTS = 400  # of a curve, at most


@dataclass(frozen=True)
class DriveCalibration:
    """Files of a calibration from a bag, beside the bag. vehicle, model: to be calibrated. simulated: by a simulator, whose recorded angle
    of the road wheels is exact. share: of the machine that the children get."""

    bag: str
    vehicle: str
    model: str
    simulated: bool = False
    share: Share = DEFAULT_SHARE

    @property
    def folder(self) -> Path:
        """Folder of recipe, result and comparisons: BAG_calibration."""
        return Path(f"{self.bag.rstrip('/')}_calibration")

    @property
    def recipe(self) -> str:
        """Path of the proposed recipe."""
        return str(self.folder / "recipe.yaml")

    @property
    def result(self) -> str:
        """Folder of the calibration's result."""
        return str(self.folder / "result")

    def survey(self) -> dict[str, Any]:
        """Proposes a recipe and evaluates the identifiability of its unknowns in the drive.

        Returns:
            `reasons`: of the proposal, one line each; `expected`: posterior over prior standard deviation by unknown, `known` the
            same as text; `informed` of `unknowns`: number of informed directions; `missing`: unknowns that the drive does not identify,
            and the manoeuvre to drive instead, one line each.

        Raises:
            InputError: the bag cannot be used; the message gives the reason.
        """
        self.folder.mkdir(exist_ok=True)
        Path(self.recipe).unlink(missing_ok=True)
        report = json.loads(output_of([*LFDM, "calibrate", "--new", self.bag, "--vehicle", self.vehicle, "--model", self.model, "--sampler",
                                       "least_squares", "--out", self.recipe, "--check", "--json",
                                       *(["--exact-steering"] if self.simulated else [])], self.share))
        stage: dict[str, Any] = next(iter(report["stages"].values()))
        if "error" in stage:
            raise InputError(stage["error"])
        return {"reasons": report["reasons"], "expected": stage["expected"], "known": stage["known"],
                "informed": stage["informed_directions"], "unknowns": stage["unknowns"],
                "missing": [group["text"] for group in stage["untold"]]}

    def learned(self) -> list[dict[str, Any]]:
        """Returns the vehicle's parameters of the result: `name`, `unit`, `prior` and `posterior`, each lower end, middle and upper end of
        a 94 % interval. Raises InputError: there is no result."""
        return [{"name": name, "unit": row["unit"], "prior": row["prior_quantiles"],
                 "posterior": [row["hdi_3%"], row["mean"], row["hdi_97%"]]}
                for stage in read_json(Path(self.result) / SUMMARY)["stages"] for name, row in stage["parameters"].items()
                if "targets" in row]

    def compare(self) -> dict[str, Any]:
        """Simulates the recorded inputs with the vehicle before and after, on pieces that were not fitted if there are any.

        Returns:
            `split`: which pieces; `channels` by name: `time` [s], `measured`, `before`, `after`, `lower` and `upper`, the 90 % interval
            after, with None between pieces; `errors` by name: RMSE before and after, of `position` [m] too.

        Raises:
            InputError: it cannot be simulated; the message gives the reason.
        """
        out = self.folder / "prediction"
        output_of([*LFDM, "predict", "--posterior", self.result, "--bag", self.bag, "--out", str(out)], self.share)
        summary = read_json(out / SUMMARY)
        errors = {name: [row["before"], row["response"]] for name, row in summary["rmse"].items() if name in summary["fitted"]}
        if summary.get("position"):
            errors["position"] = [summary["position"]["before"], summary["position"]["response"]]
        with (out / "trajectories.csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        return {"split": summary["split"], "errors": errors,
                "channels": {name: _curves(name, rows) for name in sorted(summary["fitted"], key=lambda name: name != "yaw_rate")}}


def _curves(name: str, rows: list[dict[str, str]]) -> dict[str, list[float | None]]:
    """Returns the curves of a channel, thinned, with a gap where a piece ends."""
    columns = {"time": "time", "measured": f"{name}_measured", "before": f"{name}_before", "after": name, "lower": f"{name}_5%",
               "upper": f"{name}_95%"}
    curves: dict[str, list[float | None]] = {label: [] for label in columns}
    thinned = rows[::max(1, math.ceil(len(rows) / _POINTS))]
    for row, before in zip(thinned, [thinned[0], *thinned]):
        if row["piece"] != before["piece"]:
            for label in columns:
                curves[label].append(_number(row["time"]) if label == "time" else None)
        for label, column in columns.items():
            curves[label].append(_number(row[column]))
    return curves


def _number(text: str) -> float | None:
    return float(text) if text else None
