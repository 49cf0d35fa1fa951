"""Progress of a calibration: in the same process, or as lines of JSON from another."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # nodes read progress without what sampling needs
    from lfdm_ros.samplers.sampler import SamplerProgress


@dataclass(frozen=True)
class Progress:
    """temperature and progress [0, 1] are of the present stage; time_left [s] and ess too, NaN: unknown."""

    stage: str = ""
    stage_index: int = 0
    stage_count: int = 1
    temperature: float = 0.0
    progress: float = 0.0
    time_left: float = math.nan
    message: str = ""
    ess: float = math.nan

    @classmethod
    def of(cls, state: SamplerProgress, stage: str, index: int = 0, count: int = 1) -> Progress:
        """Returns the progress of a calibration at `state` of stage `index` of `count`."""
        return cls(stage, index, count, state.temperature, state.progress, state.time_left, state.message, state.ess)

    @property
    def line(self) -> str:
        """JSON as `lfdm calibrate --progress-json` prints it; null is unknown."""
        return json.dumps({key: None if isinstance(value, float) and not math.isfinite(value) else value
                           for key, value in asdict(self).items()})

    @classmethod
    def parse(cls, line: str) -> Progress | None:
        """Reads such a line; None for any other line."""
        try:
            data = json.loads(line)
            return cls(
                stage=str(data["stage"]), stage_index=int(data["stage_index"]), stage_count=max(1, int(data["stage_count"])),
                temperature=float(data["temperature"]), progress=min(1.0, max(0.0, float(data["progress"]))),
                ess=_number(data.get("ess")), time_left=_number(data["time_left"]), message=str(data["message"]))
        except (ValueError, KeyError, TypeError, AttributeError):
            return None

    @property
    def overall(self) -> float:
        """Share of all stages done, [0, 1]."""
        return (self.stage_index + self.progress) / self.stage_count


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)
