"""Messages of the calibrator: feedback, result and status of a calibration."""

from __future__ import annotations

from collections.abc import Iterable

from lfdm_ros.action import Calibrate
from lfdm_ros.calibration.gates import GateResult
from lfdm_ros.calibration.progress import Progress
from lfdm_ros.engine.calibrations import Conclusion, State
from lfdm_ros.msg import CalibratorStatus, Gate


def feedback_message(progress: Progress) -> Calibrate.Feedback:
    """Of the action, while it runs."""
    return Calibrate.Feedback(
        stage=progress.stage, stage_index=progress.stage_index, stage_count=progress.stage_count,
        temperature=progress.temperature, progress=progress.progress, ess=progress.ess, time_left=progress.time_left)


def result_message(conclusion: Conclusion) -> Calibrate.Result:
    """Of the action; the posterior has the number under which it is stored."""
    result = Calibrate.Result(success=conclusion.success, message=conclusion.message, directory=conclusion.directory,
                              version=conclusion.version)
    if conclusion.posterior is not None:
        result.posterior = conclusion.posterior
        result.posterior.posterior_version = conclusion.version
    return result


def status_message(state: State, progress: Progress, paused: bool, gates: Iterable[GateResult]) -> CalibratorStatus:
    """Of a calibration and the gates; what is in force is not in it yet."""
    waits = paused and state in (State.RUNNING, State.IDLE)
    return CalibratorStatus(
        state=CalibratorStatus.PAUSED if waits else getattr(CalibratorStatus, state.name), stage=progress.stage, progress=progress.overall,
        temperature=progress.temperature, ess=progress.ess, time_left=progress.time_left, message=progress.message, gates=gate_list(gates))


def gate_list(gates: Iterable[GateResult]) -> list[Gate]:
    """Verdicts as messages."""
    return [Gate(name=verdict.name, passed=verdict.passed, reason=verdict.reason) for verdict in gates]
