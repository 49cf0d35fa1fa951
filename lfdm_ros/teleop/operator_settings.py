"""Settings of an operator with unit and range, and the person drawn around them by a seed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lfdm_ros.errors import InputError
from lfdm_ros.parameters import Declared, Exposed, setting
from lfdm_ros.teleop.distraction import ATTENTIVE, TABLE

SINES, NOISE, NONE = "sines", "noise", "none"


@dataclass(frozen=True)
class OperatorSettings(Declared):
    """An operator at a screen. Properties of a person (`Person`) are the medians here. Raises InputError: a value is out of its range; the
    message names it."""

    ABOUT = "operator: "

    cognition: str = setting("two_point", "", "how the operator decides, by its name in the registry (docs/concepts/sharing.md)")
    period: float = setting(0.01, "s", "between two commands: hands and feet move between the cognitive cycles", 0.002, 0.1)
    cognitive_cycle: float = setting(0.05, "s", "between two decisions, and how long one takes: a production of ACT-R", 0.01, 1.0)

    # -- Two-point steering (Salvucci & Gray 2004, Salvucci 2006) ---------------------------------------------------------
    steering_factor: float = setting(0.6, "1", "Salvucci's s, which scales his gains; published variants: 0.40, 0.60, 0.85", 0.01, 5.0)
    far_time: float = setting(1.0, "s", "preview time of the far point, as in paper 001; Salvucci: 2 s", 0.2, 10.0)
    steering_unit: float = setting(0.0423, "rad", "road-wheel angle per unit of Salvucci's steering, for the car of his gains",
                                   1e-4, 1.0)
    adapted: bool = setting(True, "", "scales that angle with the wheelbase relative to the 2.665 m of Salvucci's car")
    largest_angle: float = setting(1.5, "rad", "limit of the commanded road-wheel angle, within the vehicle's; published with paper "
                                               "001: 0.1284 (7.359 deg)", 0.01, 1.5)

    # -- Speed ---------------------------------------------------------------------------------------------------------
    headway: float = setting(1.0, "s", "time headway to the vehicle ahead", 0.2, 10.0)
    speed_gain: float = setting(0.15, "s/m", "pedal per change of the speed error", 0.001, 5.0)
    speed_reset: float = setting(0.05, "1/m", "pedal per integral of the speed error", 0.0, 5.0)
    preview: float = setting(0.8, "s", "preview time of the target speed", 0.0, 5.0)
    lateral_acceleration: float = setting(3.5, "m/s^2", "for the speed in bends", 0.1, 20.0)
    acceleration: float = setting(2.5, "m/s^2", "for the speed profile along the path", 0.1, 20.0)
    braking: float = setting(3.0, "m/s^2", "for the speed profile along the path", 0.1, 20.0)
    largest_brake: float = setting(0.6, "1", "maximum brake pedal", 0.05, 1.0)
    accepts: bool = setting(True, "", "releases the brake where autonomy offers to drive on")

    # -- Route ------------------------------------------------------------------------------------------------------
    decision_period: float = setting(1.0, "s", "between two route searches around the visible obstacles", 0.05, 5.0)
    margin: float = setting(0.8, "m", "distance kept from obstacles where there is room", 0.0, 10.0)
    sight: float = setting(100.0, "m", "range of obstacles in the picture; the speed allows a stop within it", 1.0, 1e4)

    # -- Body --------------------------------------------------------------------------------------------------------
    perception_delay: float = setting(0.085, "s", "from the screen to the mind; visual attention of ACT-R", 0.0, 2.0)
    motor_delay: float = setting(0.05, "s", "from a decision to the start of the movement; motor initiation of ACT-R", 0.0, 2.0)
    anticipation: float = setting(1.0, "1", "share of the operator's delays and a cognitive cycle over which the vehicle's "
                                            "motion is extrapolated", 0.0, 1.0)
    latency_anticipation: float = setting(0.0, "1", "likewise of a picture's age on arrival; above 0 for operators used to the link",
                                          0.0, 1.0)
    neuromuscular_frequency: float = setting(10.0, "rad/s", "natural frequency of arms and wheel", 1.0, 100.0)
    neuromuscular_damping: float = setting(0.707, "1", "damping ratio of arms and wheel", 0.05, 1.0)
    pedal_rate: float = setting(2.5, "1/s", "largest rate of a pedal", 0.1, 100.0)
    pedal_change: float = setting(0.15, "s", "change-over time between the pedals", 0.0, 2.0)
    remnant: str = setting(SINES, "", "motor remnant: the published pair of sines, filtered noise of equal power, or none",
                           choices=(SINES, NOISE, NONE))
    remnant_scale: float = setting(1.0, "1", "scale of the remnant", 0.0, 100.0)
    remnant_bandwidth: float = setting(3.0, "rad/s", "corner of the noise", 0.1, 100.0)

    # -- Attention -----------------------------------------------------------------------------------------------------
    distraction: str = setting(ATTENTIVE, "", "row of the distraction table", choices=(ATTENTIVE, *TABLE))
    view_timeout: float = setting(1.0, "s", "age of a frozen picture at which the operator brakes", 0.05, 60.0)
    view_brake: float = setting(0.3, "1", "brake pedal then, and once the task is done", 0.0, 1.0)

    # -- Persons -------------------------------------------------------------------------------------------------------
    variation: float = setting(1.0, "1", "scale of the variation between persons: 0: all as set here, 1: as documented", 0.0, 3.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cognitive_cycle < self.period:
            raise InputError(f"operator: cognitive_cycle is {self.cognitive_cycle:g} s, below the period of {self.period:g} s; give at "
                             "least that")


OPERATOR = Exposed(OperatorSettings)

# Standard deviations of the logarithms of personal properties, and their truncation. That of the steering factor puts Salvucci's variants
# 0.40 and 0.85 at about the 10th and 90th percentile; the others are our assumption.
LOG_SD = {"steering_factor": 0.33, "far_time": 0.15, "headway": 0.25, "perception_delay": 0.2, "motor_delay": 0.2,
          "neuromuscular_frequency": 0.15, "remnant_scale": 0.3, "margin": 0.2}
MAX_SDS = 2.0
PACE_SD = 0.04  # of the half normal reduction of the allowed speed


@dataclass(frozen=True)
class Person:
    """One operator: the settings' medians times individual factors; pace: share of the allowed speed, at most 1; phases of
    the remnant [rad]."""

    steering_factor: float
    far_time: float
    headway: float
    perception_delay: float
    motor_delay: float
    neuromuscular_frequency: float
    remnant_scale: float
    margin: float
    pace: float
    phases: tuple[float, float]

    @classmethod
    def drawn(cls, settings: OperatorSettings, random: np.random.Generator) -> Person:
        """Draws a person: each of LOG_SD log-normal around its setting, truncated at 2 standard deviations; the pace 1 less a half normal
        share. Without variation it is exactly the settings, with the published phases."""
        varied = {name: getattr(settings, name) * math.exp(settings.variation * sd * _truncated(random)) for name, sd in LOG_SD.items()}
        pace = 1.0 - settings.variation * PACE_SD * abs(_truncated(random))
        phases = random.uniform(0.0, 2.0 * math.pi, 2).tolist()
        return cls(**varied, pace=pace, phases=(phases[0], phases[1]) if settings.variation else (1.137, 0.875))


def _truncated(random: np.random.Generator) -> float:
    """Draws a standard normal number within MAX_SDS."""
    while True:
        value = float(random.standard_normal())
        if abs(value) <= MAX_SDS:
            return value
