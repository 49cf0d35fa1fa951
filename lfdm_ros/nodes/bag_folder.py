"""A folder watched for finished recordings. Knows nothing of ROS."""

from __future__ import annotations

from pathlib import Path

import yaml

from lfdm_ros.bags import recording_name
from lfdm_ros.errors import InputError


class BagFolder:
    """Says when a folder has new recordings that make a recipe complete."""

    def __init__(self, folder: str, recipe: str) -> None:
        """
        Raises:
            InputError: no such folder or recipe.
        """
        from lfdm_ros.calibration.recipe import load_recipe

        self.path = Path(folder)
        if not self.path.is_dir():
            raise InputError(f"watch_directory {folder} is not a folder")
        self._wanted = {stage.recording for stage in load_recipe(recipe).stages}
        self._seen: set[Path] = set()

    def look(self) -> list[Path]:
        """The newest bag of each recording that the recipe names, oldest first, when there is a new one and none is missing; else [].

        A bag counts once it is closed: its metadata.yaml is written, and does not say that the recorder is still at work.
        """
        closed = {path.parent for path in self.path.glob("*/metadata.yaml") if is_closed(path)}
        new = closed - self._seen
        self._seen |= new
        if not new:
            return []
        newest = {recording_name(bag): bag for bag in sorted(closed, key=lambda bag: bag.stat().st_mtime)}
        chosen = {name: bag for name, bag in newest.items() if name in self._wanted}
        if chosen.keys() != self._wanted or not new & set(chosen.values()):
            return []
        return sorted(chosen.values(), key=lambda bag: bag.stat().st_mtime)

    def free_name(self, out_directory: str, name: str) -> Path:
        """A result folder that does not exist yet."""
        base = Path(out_directory) if out_directory else self.path / "calibrations"
        candidates = (base / (f"{name}_{i}" if i else name) for i in range(10_000))
        return next(path for path in candidates if not path.exists())


def is_closed(metadata: Path) -> bool:
    """Whether a bag's metadata.yaml says that its recorder has finished."""
    try:
        information = yaml.safe_load(metadata.read_text(encoding="utf-8"))["rosbag2_bagfile_information"]
    except (OSError, yaml.YAMLError, KeyError, TypeError):
        return False
    return (information.get("custom_data") or {}).get("closed") != "false"
