"""What the recordings give a stage; read without PyMC, so that what does not fit is refused at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lfdm_ros.inference.dataset import Dataset, Recording, clock_jumps, load_segment, on_ground, start_notes, windows_of
from lfdm_ros.inference.plan import NO_TOPIC, Recipe, Segment, Stage
from lfdm_ros.vehicles import Vehicle


@dataclass(frozen=True)
class StageData:
    """What a stage is fitted to, and what its splits leave out: data sets, each with the segment it belongs to."""

    fitted: tuple[tuple[Segment, Dataset], ...]
    held_out: tuple[tuple[Segment, Dataset], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def recordings(self) -> dict[str, Recording]:
        """By the hash of their content."""
        return {data.recording.sha256: data.recording for _, data in (*self.fitted, *self.held_out)}

    def part(self, hashes: frozenset[str]) -> StageData:
        """The fitted data sets of recordings whose hash is among `hashes`."""
        return StageData(tuple(pair for pair in self.fitted if pair[1].recording.sha256 in hashes))


def load_stage(stage: Stage, recordings: Sequence[Recording], recipe: Recipe, vehicle: Vehicle) -> StageData:
    """Reads the windows of a stage.

    Raises:
        InputError: a recording is missing or does not hold what the stage needs.
    """
    where = f"{recipe.path}: stages ({stage.name})"
    loaded: dict[bool, list[tuple[Segment, Dataset]]] = {False: [], True: []}
    notes: dict[str, None] = {}
    names: set[str] = set()
    for segment in stage.segments:
        for held_out in (False, True):
            for window in windows_of(segment, recordings, where, held_out):
                data = on_ground(load_segment(segment, window, recipe.model, vehicle, recipe.step), recipe.ground, vehicle)
                while data.name in names:  # two recordings of one name, by a calibration that is continued
                    data = replace(data, name=f"{data.name}_2")
                names.add(data.name)
                loaded[held_out].append((segment, data))
                notes[window.recording.note] = None
                read = {channel.topic: channel.field for channel in segment.channels} | {segment.inputs.topic: "steering"}
                read.pop(NO_TOPIC, None)
                for topic, field_ in read.items():
                    notes[clock_jumps(window.recording, topic, (field_,))] = None
    if len({data.recording.sha256 for _, data in loaded[False]}) == 1 and len(loaded[False]) == 1 and not loaded[True]:
        loaded[False] = [(segment, replace(data, name="")) for segment, data in loaded[False]]
    starts = start_notes((data, [state for state, _ in segment.estimate]) for segment, data in (*loaded[False], *loaded[True]))
    return StageData(tuple(loaded[False]), tuple(loaded[True]), (*(note for note in notes if note), *starts))
