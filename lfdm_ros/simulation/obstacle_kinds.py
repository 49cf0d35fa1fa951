"""Kinds of obstacles: height, paint and radar cross-section, by the key `kind` of a scenario's obstacle."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ObstacleKind:
    """Properties that sensors see: height above the ground [m], colour (red, green, blue) in 0 to 255, mean radar cross-section at 77 GHz
    [m^2]."""

    height: float
    colour: tuple[int, int, int]
    cross_section: float


# Cross-sections are orders of magnitude, means over aspects that differ by 10 dB and more: some -8 dBsm of a pedestrian, -1 of a bicycle
# with its rider, 10 of a car. Measured at 77 GHz: pedestrians by Fortuny-Guasch and Chareau (EUR 25762 EN, 2013), cars by Silberling et al.
# (DRI-TM-14-70-1, 2014), bicycles by Belgiovane and Chen (doi 10.1109/TITS.2016.2642889). Of the others they are chosen.
OBSTACLE_KINDS: dict[str, ObstacleKind] = {
    "": ObstacleKind(1.6, (190, 90, 40), 5.0),
    "car": ObstacleKind(1.5, (60, 80, 150), 10.0),
    "van": ObstacleKind(2.4, (205, 205, 200), 20.0),
    "pedestrian": ObstacleKind(1.75, (180, 60, 70), 0.16),
    "cyclist": ObstacleKind(1.8, (70, 130, 90), 0.8),
    "cone": ObstacleKind(0.75, (235, 95, 20), 0.05),
    "post": ObstacleKind(1.2, (230, 220, 90), 0.5),
    "tree": ObstacleKind(6.0, (70, 90, 50), 1.0),
    "rock": ObstacleKind(1.0, (120, 115, 105), 0.3),
    "wall": ObstacleKind(3.0, (150, 140, 130), 30.0)}
