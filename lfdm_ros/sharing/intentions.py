"""Predictions of the operator by name: constant input, path following, a command that is corrected after a reaction, and the operator as
learned (`operator_learning`).

Where too little was learned: the operator's hands answer now what was visible a reaction ago: own delays, and those of a link. Until a
reaction from now they answer motion of the vehicle that is known here. `PredictedOperator` computes that answer by the published driver
model (`teleop.salvucci`) with its median gains; a person's gains are a factor of them, which is drawn.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from lfdm_ros import plugins
from lfdm_ros.control.plan import Plan
from lfdm_ros.control.prediction import REQUIRED, Measured
from lfdm_ros.control.routing.path import Path
from lfdm_ros.sharing.situation import Situation, StampedCommand
from lfdm_ros.teleop.operator_settings import LOG_SD, OperatorSettings, Person
from lfdm_ros.teleop.salvucci import TwoPoint, moved_on, two_points
from lfdm_ros.vehicles import Vehicle

GAIN_LOG_SD = LOG_SD["steering_factor"]  # of a person's gains around the median's


class PredictedOperator:
    """The median driver at the wheel of one vehicle."""

    def __init__(self, vehicle: Vehicle, settings: OperatorSettings | None = None) -> None:
        """Makes the driver; settings: of the driver model. Raises KeyError if the vehicle lacks wheelbase or largest road-wheel angle."""
        p, self._settings = vehicle.parameters, settings or OperatorSettings(variation=0.0)
        self._person = Person.drawn(self._settings, np.random.default_rng(0))
        self._lock = p["max_road_wheel_angle"]
        self._law = TwoPoint(self._settings, self._person, p["cg_to_front_axle"] + p["cg_to_rear_axle"], self._lock)

    @property
    def prediction_time(self) -> float:
        """Span over which the driver extrapolates the motion, which compensates delays of the driver's own [s]."""
        s, own = self._settings, self._person
        return s.anticipation * (own.perception_delay + s.cognitive_cycle + own.motor_delay)

    def steering(self, path: Path, past: Sequence[Measured], now: float, times: np.ndarray, delay: float) -> np.ndarray:
        """Returns the change of the steering of a driver that follows a path, against that at `now` [s], at `times` (k,) from then on,
        which begin at 0 and rise: (k,), share of full lock. After a `delay` [s], beyond which nothing is visible yet, it stays.

        Args:
            past: states, oldest first; what lies before the first is as that.
            delay: from a motion of the vehicle to the answer of the driver's hands.
        """
        law, visible = self._law, np.minimum(now + times - delay, past[-1].time)
        at = np.array([state.time for state in past])
        values = {name: np.array([state.values[name] for state in past]) for name in REQUIRED}
        values["yaw"] = np.unwrap(values["yaw"])
        picture = {name: np.interp(visible, at, value) for name, value in values.items()}
        x, y, yaw = moved_on(picture, self.prediction_time)
        _, angles = two_points(path, path.project(x, y)[0], x, y, yaw, np.maximum(picture["vx"], 0.0), self._person.far_time)
        law.reset()
        steps = np.diff(np.maximum(visible, at[0]), prepend=max(float(visible[0]), float(at[0])))
        wanted = [law.steer(far, near, step) for near, far, step in zip(*angles.tolist(), steps.tolist())]
        return (np.array(wanted) - wanted[0]) / self._lock if all(map(math.isfinite, wanted)) else np.zeros(len(times))


@dataclass(frozen=True, eq=False)
class DrawnSteering:
    """Steering of each run: steering (K, n), share of full lock, without the corrections of what is seen from now on; these are the
    reference's times gains (3, n), by `delays` (n,) samples later, alike in each block of the kernel."""

    steering: np.ndarray
    gains: np.ndarray
    delays: np.ndarray


@dataclass(frozen=True, eq=False)
class Intention:
    """Motion that a driver means from now on: steering and pedal (K, 2) at each sample, corrected by `reference` (K, 10) as
    `hazard_kernel.REFERENCE` has it, in coordinates from where the vehicle is; how unsteady the hand is, and from when on [s] it is steady;
    whether the pedal drives backwards; for how long it is known [s]: what fails later does not count; `answer`: what is added to the
    steering (K,), times the gains of the person, which are not known; and `drawn`: steering of each run, in place of that of `wanted`, of
    the unsteady hand and of the answer."""

    wanted: np.ndarray
    reference: np.ndarray
    remnant: float = 0.0
    steady: float = math.inf
    reverse: bool = False
    until: float = math.inf
    answer: np.ndarray | None = None
    drawn: DrawnSteering | None = None


@dataclass(frozen=True)
class OperatorView:
    """Inputs of a prediction of the operator.

    Attributes:
        situation: what is known; command: the operator's, which is in it.
        settings: `RiskSettings`, of which preview, reaction and takeover are of use.
        times: of the samples, from when the command acts [s], (K,).
        hold: gives the intention of a command that is held.
        follow_path: gives steering and pedal (K, 2) along a path at the speed that the vehicle has, and the reference (K, 10) back to it.
        follow_plan: the same along the autonomy's plan.
        answer: gives the change of steering (k,) at times (k,) by the driver model that answers, `delay` [s] later, what it has seen.
        drive: gives the intention along a path of the operator as learned.
    """

    situation: Situation
    command: StampedCommand
    settings: Any
    times: np.ndarray
    hold: Callable[[], Intention]
    follow_path: Callable[[Path], tuple[np.ndarray, np.ndarray]]
    follow_plan: Callable[[Plan], tuple[np.ndarray, np.ndarray]]
    answer: Callable[[np.ndarray, float], np.ndarray]
    drive: Callable[[Path], Intention]

    @property
    def reaction(self) -> float:
        """Time [s] after which the operator corrects: the mean of what was learned, later by the age of the command; else that of the
        settings, and a link up to the operator that is as slow as that down."""
        age, learned = max(self.situation.operator_age, 0.0), self.situation.operator_posterior
        return float(self.settings.reaction) + 2.0 * age if learned is None else learned.delay[0] + age


@dataclass(frozen=True)
class IntentionKind:
    """A prediction of the operator by name: predict(view) gives the intention; the first sample is replaced by what acts already. relieved:
    autonomy takes over where that harms less."""

    name: str
    description: str
    predict: Callable[[OperatorView], Intention]
    relieved: bool = False


def hold(view: OperatorView) -> Intention:
    """Predicts constant input: the command as it is."""
    return view.hold()


def follow_path(view: OperatorView) -> Intention:
    """Predicts driving along the path at the present speed; without a path, or in reverse, the command is held."""
    held, path = view.hold(), view.situation.path
    if path is None or view.command.reverse:
        return held
    wanted, reference = view.follow_path(path)
    return dataclasses.replace(held, wanted=wanted, reference=reference)


OPERATOR, AUTONOMY, FIRST = "operator", "autonomy", "first"


def react(view: OperatorView, corrected_by: str, answering: bool) -> Intention:
    """Predicts the command, and after a reaction a correction; in reverse, and without path and plan, nothing counts after it.

    Args:
        corrected_by: the operator, back to the path, or else to the plan; autonomy after `takeover`, back to its plan, or else to the path;
            or the first of the two.
        answering: along a path, where autonomy is not the one to correct, the operator steers as learned; where too little was
            learned, until then the driver model answers what was seen.
    """
    s, situation, command, held = view.settings, view.situation, view.command, view.hold()
    reaction = view.reaction
    path, plan = situation.path, situation.plan
    by_autonomy = corrected_by == AUTONOMY or (corrected_by == FIRST and plan is not None and s.takeover <= reaction + 1e-6)
    if by_autonomy:
        reaction = s.takeover
    answers = answering and not by_autonomy and path is not None and not command.reverse
    if answers and path is not None and situation.operator_posterior is not None:
        return view.drive(path)
    wanted, reference, until, answer = held.wanted, held.reference, math.inf, None
    if command.reverse or (path is None and plan is None):
        until = reaction
    elif plan is not None and (path is None or by_autonomy):
        wanted, reference = view.follow_plan(plan)
    elif path is not None:
        wanted, reference = view.follow_path(path)
    waits = view.times < reaction - 1e-9
    wanted[waits], reference[waits] = (command.steering, command.pedal), 0.0
    if answers and situation.past:
        answer = np.zeros(len(view.times))
        answer[waits] = view.answer(view.times[waits], reaction)
    return dataclasses.replace(held, wanted=wanted, reference=reference, steady=reaction if by_autonomy else math.inf, until=until,
                               answer=answer)


HELD = IntentionKind("held", "the command as it is", hold)
PATH = IntentionKind("path", "drives along the path at the present speed", follow_path)
REACTING = IntentionKind("reacting", "held, and after `reaction` back to the path, or else to the plan",
                         partial(react, corrected_by=OPERATOR, answering=False))
PREDICTED = IntentionKind("predicted", "along the path as was learned of this operator; else the same, and meanwhile the driver model "
                          "answers what was seen",
                         partial(react, corrected_by=OPERATOR, answering=True))
TAKEOVER = IntentionKind("takeover", "held, and after `takeover` driven by autonomy, back to its plan, or else to the path",
                         partial(react, corrected_by=AUTONOMY, answering=False), relieved=True)
FIRST_TO_CORRECT = IntentionKind("first_to_correct", "predicted or takeover, by which of the two comes first or harms less",
                                 partial(react, corrected_by=FIRST, answering=True), relieved=True)
INTENTIONS: plugins.Door[IntentionKind] = plugins.Door(
    "intention", "lfdm_ros.intentions", IntentionKind, "predict", HELD, PATH, REACTING, PREDICTED, TAKEOVER, FIRST_TO_CORRECT)
# Names of the former release.
FORMER_INTENTIONS = {"foreseen": PREDICTED.name, "relieved": TAKEOVER.name, "corrected": FIRST_TO_CORRECT.name}
register_intention = INTENTIONS.register
