"""The card of the cockpit's page for a calibration from a drive: the survey of the drive, the calibration, its result put in force."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from rclpy.action import ActionClient
from std_srvs.srv import Trigger

from lfdm_ros.action import Calibrate
from lfdm_ros.engine.drive_calibration import DriveCalibration
from lfdm_ros.errors import InputError
from lfdm_ros.srv import ApplyPosterior, RollBack

Caller = Callable[..., None]  # of a service by its name, with a request, and the function that takes its answer


class CalibrationCard:
    """A calibration of the newest drive at a time. Methods are called from the node's thread; work of seconds is done in one of its own."""

    def __init__(self, calibrator: ActionClient, call: Caller, publish: Callable[[dict[str, Any]], None],
                 answer: Callable[[str, str], None]) -> None:
        """Takes what reaches the calibrator and the page.

        Args:
            call: calls a service; see `Cockpit._call`.
            publish: sends the card's content to the pages.
            answer: tells the pages why a request, by its name, could not be met.
        """
        self._calibrator, self._call, self._publish, self._answer = calibrator, call, publish, answer
        self._drive: DriveCalibration | None = None
        self._card: dict[str, Any] = {}
        self._busy = False  # a child of the drive is at work, or the calibrator
        self._version = 0  # [1] of the drive's posterior in the calibrator's store

    def take(self, drive: DriveCalibration) -> None:
        """Takes a drive that was recorded, and looks at what it can teach; nothing while one is calibrated or without a calibrator."""
        if self._busy or not self._calibrator.server_is_ready():
            return
        self._drive, self._version, self._card = drive, 0, {"bag": drive.bag}
        self._work("surveying", drive.survey, lambda survey: self._show("surveyed", survey=survey))

    def act(self, name: str) -> None:
        """Acts on a request of a page."""
        if name == "calibrate":
            self._calibrate()
        elif name == "cancel":
            self._call("calibrator/cancel", Trigger.Request())
        elif name == "apply":
            self._call("calibrator/apply_posterior", ApplyPosterior.Request(version=str(self._version or "")))
        elif name == "rollback":
            self._call("calibrator/rollback", RollBack.Request(version=max(0, self._version - 1)))

    def _calibrate(self) -> None:
        drive = self._drive
        if drive is None or self._busy or "survey" not in self._card:
            self._answer("calibrate", "the calibrator is busy" if self._busy else "record a drive first")
            return
        if not self._calibrator.server_is_ready():
            self._answer("calibrate", "no calibrator is here")
            return
        self._busy = True
        self._show("calibrating")
        goal = Calibrate.Goal(recipe=drive.recipe, bags=[drive.bag], out=drive.result)

        def ended(result: Calibrate.Result) -> None:
            self._busy = False
            if not result.success:
                self._show("failed", text=result.message)
                return
            self._version = result.version
            self._show("comparing", text=result.message, learned=drive.learned(), version=result.version)
            self._work("comparing", drive.compare, lambda comparison: self._show("done", comparison=comparison))

        def accepted(handle: Any) -> None:
            if handle.accepted:
                handle.get_result_async().add_done_callback(lambda future: ended(future.result().result))
            else:
                self._busy = False
                self._show("failed", text="the calibrator refused: it is paused or busy")

        self._calibrator.send_goal_async(goal).add_done_callback(lambda future: accepted(future.result()))

    def _work(self, stage: str, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Works in a thread, on which its children hang; shows the stage meanwhile, and an error."""
        self._busy = True
        self._show(stage)

        def run() -> None:
            try:
                result = work()
            except (InputError, OSError) as error:
                self._busy = False
                self._show("failed", text=str(error))
                return
            self._busy = False
            done(result)

        threading.Thread(target=run, name=stage, daemon=True).start()

    def _show(self, stage: str, **content: Any) -> None:
        self._card = {**self._card, "text": "", "stage": stage, **content}
        self._publish(self._card)
