"""A calibration on a worker of a cluster: it reads the bags where they are, its files come back."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lfdm_ros.calibration.run import calibrate
from lfdm_ros.errors import InputError
from lfdm_ros.inference.plan import Recipe
from lfdm_ros.scheduling import Scheduler

_Work = tuple[Recipe, Sequence[str], Mapping[str, Any]]


def calibrate_on_cluster(scheduler: Scheduler, recipe: Recipe, bags: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str],
                        **settings: Any) -> dict[str, Any]:
    """As `calibrate`, on a worker of `scheduler`, which must see the bags at the same paths; files and summary are the same.

    Args:
        settings: draws, chains, seed, sampler, options, continued.

    Raises:
        InputError: as `calibrate`; no files are written then.
    """
    if settings.get("continued") is not None:
        settings["continued"] = str(Path(settings["continued"]).resolve())
    work: _Work = (recipe, [str(Path(bag).resolve()) for bag in bags], settings)
    ((_, (outcome, files)),) = scheduler.map(_work, [work])
    directory = Path(out)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (directory / name).write_bytes(content)
    except OSError as error:
        raise InputError(f"cannot write to {directory}: {error.strerror or error}") from None
    return outcome


def _work(work: _Work) -> tuple[dict[str, Any], dict[str, bytes]]:
    recipe, bags, settings = work
    with TemporaryDirectory() as folder:
        outcome = calibrate(recipe, bags, folder, **settings)
        return outcome, {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}
