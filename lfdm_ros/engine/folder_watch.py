"""Watch of a folder: new bags are examined in a thread, and begin a calibration. Independent of ROS."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lfdm_ros.calibration.store import PosteriorStore
from lfdm_ros.engine import calibration_process
from lfdm_ros.engine.background import Share
from lfdm_ros.engine.bag_folder import BagFolder, Job
from lfdm_ros.engine.calibrations import Calibrations, Log
from lfdm_ros.errors import InputError


@dataclass(frozen=True)
class CalibrationOrder:
    """Settings of calibrations with bags of the folder; 0 and empty: as the recipe says, beside the bags. continuing: from the newest
    posterior of the recipe, instead of with all bags anew."""

    recipe: str
    out_directory: str
    draws: int
    chains: int
    seed: int
    continuing: bool


class FolderWatch:
    """Watch for new bags, which begins calibrations with them while no other runs."""

    def __init__(self, folder: BagFolder, order: CalibrationOrder, calibrations: Calibrations, store: PosteriorStore,
                 share: Callable[[], Share], log: Log) -> None:
        """Creates a watch. share: returns the present share of the machine."""
        self._folder, self._order, self._calibrations, self._store, self._share, self._log = folder, order, calibrations, store, share, log
        self._reader: threading.Thread | None = None

    def look(self) -> None:
        """Examines new bags, or begins a calibration that is due; to be called periodically.

        Raises:
            InputError, OSError: folder, memory or store cannot be read or written.
        """
        if self._reader is not None and self._reader.is_alive():
            return
        folder = self._folder
        bags = folder.look(time.monotonic())
        if bags:
            self._reader = threading.Thread(target=self._examine, args=(bags,), name="bag reader", daemon=True)
            self._reader.start()
        elif not self._calibrations.busy and not self._calibrations.paused:
            job = folder.unfinished or folder.next_job(self._order.out_directory, time.monotonic(), self._continue_from())
            if job is not None:
                self._begin(job)

    def _examine(self, bags: list[Path]) -> None:
        for bag in bags:
            info, problem = None, ""
            try:
                info = calibration_process.examine(str(bag), self._share())
            except (InputError, OSError, ValueError) as error:
                problem = str(error)
            if self._calibrations.ending.is_set():
                return
            try:
                remark = self._folder.examined(bag, time.monotonic(), info, problem)
            except InputError as error:
                remark = str(error)
            if remark:
                self._log.warning(remark)

    def _continue_from(self) -> int:
        """Returns the newest version that a new bag may continue; 0: none, or none is to be continued."""
        if not self._order.continuing:
            return 0
        same = [v for v in self._store.versions() if not v.manifest["interrupted"] and Path(v.manifest["recipe"]).stem == Path(
            self._order.recipe).stem]
        return same[-1].number if same else 0

    def _begin(self, job: Job) -> None:
        resumed, order = self._folder.unfinished is not None, self._order
        self._folder.begin(job)
        self._log.info(f"{'taking up again' if resumed else 'new bags'}: calibrating with {', '.join(job.bags)} into {job.out}")
        start = str(self._store.version(job.continue_from).directory) if job.continue_from else ""
        self._calibrations.start(job.recipe, job.bags, job.out, draws=order.draws, chains=order.chains, seed=order.seed,
                                 continue_from=start, job=job)
