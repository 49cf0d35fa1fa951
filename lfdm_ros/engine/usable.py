"""Which states of a vehicle can be used, whoever asks: those in one frame, with a stamp and values that a vehicle can have."""

from __future__ import annotations

from collections.abc import Mapping

from lfdm_ros.bounds import FRAME, STAMP, Refused, refusal, require_all
from lfdm_ros.control.prediction import REQUIRED

LATE_NS = 500_000_000  # a state that is older than the last by less is late, or its clock was read twice; by more, the clock was set back


def unusable(stamp_ns: int, frame: str, values: Mapping[str, float], before: str) -> Refused | None:
    """Why a state cannot be used; None: it can.

    Args:
        before: the frame of the states before; empty: there were none.
    """
    if before and frame != before:
        return Refused(f"in frame '{frame}', the ones before in '{before}'", FRAME)
    wrong = refusal("stamp", 1e-9 * stamp_ns)
    if wrong is not None:
        return Refused(str(wrong), STAMP)
    try:
        require_all(values, REQUIRED)
    except Refused as error:
        return error
    return None
