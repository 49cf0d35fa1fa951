"""Files of a calibration: writes posterior.nc, and reads what other modules need of it."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lfdm_ros import __version__, documents
from lfdm_ros.errors import InputError, quote
from lfdm_ros.files import replacing
from lfdm_ros.inference.plan import Recipe
from lfdm_ros.libraries import arviz

if TYPE_CHECKING:
    from lfdm_ros.calibration.stage import StageResult

THINNED_DRAWS = 200
BEFORE = "vehicle_before.yaml"  # the vehicle before the calibration, with the recipe's fixed values
_PACKED = {"zlib": True, "complevel": 1}  # a higher level does not compress noise further
UNFINISHED = ".stages"  # folder of the checkpoints until all stages are done


def stored_name(stage: str, variable: str) -> str:
    """Returns the name in posterior.nc: noise, nuisances and initial states belong to a stage, vehicle parameters do not."""
    return f"{stage}.{variable}" if "." in variable else variable


def to_inference_data(recipe: Recipe, results: Sequence[StageResult], *, seed: int) -> Any:
    """Collects all stages in one ArviZ InferenceData.

    `posterior` and `prior` have the vehicle parameters by name and STAGE.sigma.LABEL, STAGE.initial.STATE and the like;
    `prior_predictive`, `posterior_predictive` (some draws) and `observed_data` STAGE.CHANNEL over STAGE.time [s], when anything was
    measured, STAGE.PIECE.CHANNEL over STAGE.PIECE.time where a stage has several data sets; `log_likelihood` one value for each stage;
    `sample_stats` the sampler's statistics. Stages are independent given the means passed on.
    """
    az = arviz()
    import xarray as xr

    groups: dict[str, dict[str, Any]] = {name: {} for name in (
        "posterior", "prior", "prior_predictive", "posterior_predictive", "observed_data", "log_likelihood", "sample_stats")}
    coords: dict[str, Any] = {}
    units = {}
    for result in results:
        stage, run = result.stage.name, result.run
        for variable, prior in result.priors.items():
            name = stored_name(stage, variable)
            units[name] = prior.unit
            groups["posterior"][name] = (("chain", "draw"), run.draws[variable])
            groups["prior"][name] = (("chain", "draw"), result.prior_draws[variable])
        for (_, data), before, after in zip(result.data.fitted, result.prior_predictive, result.posterior_predictive, strict=True):
            prefix = f"{stage}.{data.name}" if data.name else stage
            time = f"{prefix}.time"
            coords[time] = after.times
            for column, channel in enumerate(data.channels):
                name = f"{prefix}.{channel}"
                groups["observed_data"][name] = ((time,), after.observed[:, column])
                for group, predictive in (("prior_predictive", before), ("posterior_predictive", after)):
                    groups[group][name] = (("chain", "draw", time), predictive.noisy[..., column])
        groups["log_likelihood"][stage] = (("chain", "draw"), run.log_likelihood)
        for name, (dimensions, values) in run.stored.items():
            groups["sample_stats"][f"{stage}.{name}"] = (tuple(d if d in ("chain", "draw") else f"{stage}.{d}" for d in dimensions), values)
    attributes = {
        "inference_library": "pymc", "inference_library_version": version("pymc"), "lfdm_ros_version": __version__, "seed": seed,
        "model": recipe.model, "vehicle": recipe.vehicle.name, "recipe": recipe.text,
        "recordings": json.dumps({key: r.name for result in results for key, r in result.data.recordings.items()})}
    datasets = {}
    for group, variables in groups.items():
        dataset = xr.Dataset(variables, attrs=attributes)
        chains, draws = dataset.sizes.get("chain"), dataset.sizes.get("draw")
        if chains:
            dataset = dataset.assign_coords(chain=np.arange(chains))
        if draws:
            stored = {"prior_predictive": results[0].prior_predictive, "posterior_predictive": results[0].posterior_predictive}.get(group)
            dataset = dataset.assign_coords(draw=stored[0].draw_index if stored else np.arange(draws))
        dataset = dataset.assign_coords({dim: ((dim,), coords[dim], {"units": "s"}) for dim in dataset.dims if dim in coords})
        for name in dataset.data_vars:
            if name in units:
                dataset[name].attrs["units"] = units[name]
        datasets[group] = dataset
    return az.InferenceData(attrs=attributes, **datasets)


def write_inference_data(path: Path, data: Any) -> None:
    """Writes netCDF-4; an older file of that name is replaced at the end. Raises OSError where the disk refuses."""
    import h5netcdf
    from xarray.backends import H5NetCDFStore

    # In memory first: HDF5 itself ends the process where a disk is full. Through the store, since xarray for Python 3.10 has no other way.
    content = io.BytesIO()
    with h5netcdf.File(content, "w") as file:
        file.attrs.update(data.attrs)
        for name in data.groups():
            group = data[name]
            packed = {variable: _PACKED for variable, values in group.variables.items() if values.dtype.kind in "iuf"}
            group.dump_to_store(H5NetCDFStore(file.create_group(name), mode="a"), encoding=packed)
    with replacing(path) as partial:
        partial.write_bytes(content.getvalue())


def load_posterior(directory: str | os.PathLike[str]) -> Any:
    """Reads the group `posterior` of posterior.nc as an xarray Dataset; `arviz.from_netcdf` reads all of it. Raises InputError: it is
    missing or cannot be read."""
    import xarray as xr

    path = Path(directory) / "posterior.nc"
    if not path.is_file():
        raise InputError(f"{directory} holds no posterior.nc; give the --out directory of `lfdm calibrate`")
    try:
        return xr.load_dataset(path, group="posterior", engine="h5netcdf")
    except Exception as error:  # h5py and xarray raise many kinds
        raise InputError(f"{path} is not readable: {' '.join(str(error).split())}") from None


def check_finished(directory: str | os.PathLike[str]) -> str:
    """Returns the message about a calibration that was stopped before its last stage; empty: it is complete. Reads only summary.json.
    Raises InputError: no stage is finished, or there is no calibration."""
    summary = load_summary(directory)
    if not summary.get("interrupted"):
        return ""
    finished = [stage["name"] for stage in summary["stages"] if stage.get("temperature", 1.0) == 1.0]
    if not finished:
        raise InputError(f"{directory}: the calibration was stopped before a stage was finished; the same `lfdm calibrate` command goes on")
    which = f"{', '.join(finished)} {'is' if len(finished) == 1 else 'are'} finished"
    return f"{directory}: the calibration was stopped; only {which}, and the same `lfdm calibrate` command goes on"


def load_summary(directory: str | os.PathLike[str]) -> dict[str, Any]:
    """Reads summary.json of a calibration. Raises InputError: there is none, or it is not one."""
    path = Path(directory) / "summary.json"
    if not path.exists() and (Path(directory) / UNFINISHED).is_dir():
        done = ", ".join(sorted(file.stem for file in (Path(directory) / UNFINISHED).glob("*.npz"))) or "none"
        raise InputError(f"{directory}: the calibration is at work, or was ended on the way (stages that are kept: {done}); the same "
                         "`lfdm calibrate` command goes on")
    if not path.exists():
        raise InputError(f"{directory} holds no summary.json; give the --out directory of `lfdm calibrate`")
    summary = documents.read_json(path)
    stages = summary.get("stages")
    if not isinstance(stages, list) or not all(isinstance(s, dict) and isinstance(s.get("parameters"), dict) for s in stages):
        raise InputError(f"{path}: not the summary of a calibration")
    return summary


def load_posterior_summary(directory: str | os.PathLike[str], thinned: int = THINNED_DRAWS) -> dict[str, Any]:
    """Returns the content of the message lfdm_ros/Posterior, for the vehicle parameters of all stages.

    Returns:
        Keys model, vehicle, version, parameter_names, units, means, standard_deviations, hdi_lower, hdi_upper, r_hat, ess_bulk,
        ess_tail (lists over parameters), draws (count), thinned_draws (at most `thinned`, parameters), recordings,
        recording_sha256, seed. Values that could not be computed are NaN.

    Raises:
        InputError: the directory is not the result of a calibration.
    """
    summary = load_summary(directory)
    try:
        return _posterior_summary(directory, summary, thinned)
    except InputError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InputError(f"{Path(directory) / 'summary.json'}: not the summary of a calibration ({quote(error)})") from None


def _posterior_summary(directory: str | os.PathLike[str], summary: dict[str, Any], thinned: int) -> dict[str, Any]:
    whole = [stage for stage in summary["stages"] if stage.get("temperature", 1.0) == 1.0]
    rows = {name: row for stage in whole for name, row in stage["parameters"].items() if "targets" in row}
    posterior = load_posterior(directory)
    flat = np.column_stack([posterior[name].values.ravel() for name in rows]) if rows else np.empty((0, 0))

    def column(key: str) -> list[float]:
        return [float("nan") if row[key] is None else float(row[key]) for row in rows.values()]

    return {
        "model": summary["model"], "vehicle": summary["vehicle"], "version": summary["version"], "seed": int(summary["seed"]),
        "parameter_names": list(rows), "units": [row["unit"] for row in rows.values()],
        "means": column("mean"), "standard_deviations": column("sd"), "hdi_lower": column("hdi_3%"), "hdi_upper": column("hdi_97%"),
        "r_hat": column("r_hat"), "ess_bulk": column("ess_bulk"), "ess_tail": column("ess_tail"), "draws": len(flat),
        "thinned_draws": flat[np.unique(np.linspace(0, len(flat) - 1, thinned).astype(int))] if len(flat) else flat,
        "recordings": [r["name"] for r in summary["recordings"]], "recording_sha256": [r["sha256"] for r in summary["recordings"]]}
