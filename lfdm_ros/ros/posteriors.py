"""The message lfdm_ros/Posterior: from a stored version, and its application to a vehicle."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from lfdm_ros.calibration.store import Version
from lfdm_ros.errors import InputError, prefixing
from lfdm_ros.msg import Posterior
from lfdm_ros.vehicles import Vehicle
from lfdm_ros.vehicles.schema import DECLARED

_NUMBERS = ("means", "standard_deviations", "hdi_lower", "hdi_upper", "r_hat", "ess_bulk", "ess_tail")
_TEXTS = ("parameter_names", "units", "recordings", "recording_sha256")


def posterior_message(posterior: Mapping[str, Any], summary: Mapping[str, Any], number: int) -> Posterior:
    """Makes the message of a calibration from its posterior as of `lfdm_ros.calibration.load_posterior_summary`, with None for values that
    are not finite, its summary.json, and the number of its version, 0: not stored. Raises InputError: an entry is missing or of another
    type."""
    try:
        targets = {**summary.get("held", {}), **{name: value for stage in summary["stages"] for name, value in stage["passed_on"].items()}}
        draws = posterior["thinned_draws"]
        message = Posterior(
            posterior_version=number, model=str(posterior["model"]), vehicle=str(posterior["vehicle"]), version=str(posterior["version"]),
            recipe=str(summary.get("recipe", "")), seed=int(posterior["seed"]), draws=len(draws),
            thinned_draws=[_number(value) for row in draws for value in row], target_names=list(targets),
            target_units=[DECLARED[name].unit if name in DECLARED else "" for name in targets],
            target_values=[_number(value) for value in targets.values()])
        for name in _NUMBERS:
            setattr(message, name, [_number(value) for value in posterior[name]])
        for name in _TEXTS:
            setattr(message, name, [str(value) for value in posterior[name]])
    except (KeyError, TypeError, ValueError, AssertionError) as error:
        raise InputError(f"the posterior cannot be published: {error!r}") from None
    return message


def version_message(version: Version | None) -> Posterior:
    """Makes the message of the version in force; None, the vehicle file: an empty one with posterior_version 0. Raises InputError: as
    `posterior_message`."""
    return posterior_message(version.posterior, version.summary, version.number) if version else Posterior()


def calibrated(vehicle: Vehicle, model: str, message: Posterior, also: Sequence[str] = ()) -> Vehicle:
    """Returns the vehicle of a file with a posterior's values, or as it is if none is in force. model: full name of its model; also: of
    others whose posteriors are accepted. Raises InputError: the posterior is of another vehicle or model, or its values cannot be used."""
    if message.posterior_version == 0 and not message.target_names:
        return vehicle
    where = f"posterior {message.posterior_version}"
    if message.vehicle != vehicle.name:
        raise InputError(f"{where} is of vehicle '{message.vehicle}', this is '{vehicle.name}'")
    # Both normalised for this vehicle: parts of the ground do not change the model.
    if _full_name(vehicle, message.model) not in [_full_name(vehicle, name) for name in (model, *also)]:
        raise InputError(f"{where} is of model '{message.model}', this is '{' or '.join((model, *also))}'")
    if len(message.target_names) != len(message.target_values) or not message.target_names:
        raise InputError(f"{where} has {len(message.target_names)} target_names for {len(message.target_values)} target_values")
    with prefixing(where):
        return vehicle.replace(source=where, **dict(zip(message.target_names, message.target_values)))


def _full_name(vehicle: Vehicle, model: str) -> str:
    try:
        return vehicle.spec(model)
    except InputError:  # unknown model, or unsuitable for the vehicle
        return model


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)
