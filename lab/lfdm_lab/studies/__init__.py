"""Many drives or calibrations that together answer one question."""

from pathlib import Path

STUDIES = str(Path(__file__).parent)  # where their sources are, which the results depend on
