"""Predictions of the operator by name: constant input, path following, a command that is corrected after a reaction, and the operator as
learned (`operator_learning`).

Without a posterior yet: the operator's hands respond to the picture of one reaction time ago (own delays plus the link's). Until one
reaction time from now they respond to motion that is already measured. `PredictedOperator` computes this response with the published
driver model (`teleop.salvucci`) and its median gains; an individual's gains are these times a factor, which is drawn.
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
from lfdm_ros.sharing.situation import Situation, StampedCommand
from lfdm_ros.simulation.path import Path
from lfdm_ros.teleop.operator_settings import LOG_SD, OperatorSettings, Person
from lfdm_ros.teleop.salvucci import TwoPoint, moved_on, two_points
from lfdm_ros.vehicles import Vehicle

GAIN_LOG_SD = LOG_SD["steering_factor"]  # of an individual's gains around the median


class PredictedOperator:
    """Median driver of one vehicle."""

    def __init__(self, vehicle: Vehicle, settings: OperatorSettings | None = None) -> None:
        """Makes the driver; settings: of the driver model. Raises KeyError if the vehicle lacks wheelbase or largest road-wheel angle."""
        p, self._settings = vehicle.parameters, settings or OperatorSettings(variation=0.0)
        self._person = Person.drawn(self._settings, np.random.default_rng(0))
        self._lock = p["max_road_wheel_angle"]
        self._law = TwoPoint(self._settings, self._person, p["cg_to_front_axle"] + p["cg_to_rear_axle"], self._lock)

    @property
    def prediction_time(self) -> float:
        """Time over which the driver extrapolates the motion to compensate for own delays [s]."""
        s, own = self._settings, self._person
        return s.anticipation * (own.perception_delay + s.cognitive_cycle + own.motor_delay)

    def steering(self, path: Path, past: Sequence[Measured], now: float, times: np.ndarray, delay: float) -> np.ndarray:
        """Returns the steering of a driver that follows a path, less that at `now` [s], at `times` (k,) from then on, which begin at 0 and
        increase: (k,), share of full lock. It is constant after the `delay` [s] that the measured states cover.

        Args:
            past: states, oldest first; the first also holds for earlier times.
            delay: from a motion of the vehicle to the response of the driver's hands.
        """
        law, visible = self._law, np.minimum(now + times - delay, past[-1].time)
        at = np.array([state.time for state in past])
        values = {name: np.array([state.values[name] for state in past]) for name in REQUIRED}
        values["yaw"] = np.unwrap(values["yaw"])
        picture = {name: np.interp(visible, at, value) for name, value in values.items()}
        x, y, yaw = moved_on(picture, self.prediction_time)
        _, angles_to_points = two_points(path, path.project(x, y)[0], x, y, yaw, np.maximum(picture["vx"], 0.0), self._person.far_time)
        law.reset()
        steps = np.diff(np.maximum(visible, at[0]), prepend=max(float(visible[0]), float(at[0])))
        angles = [law.steer(far, near, step) for near, far, step in zip(*angles_to_points.tolist(), steps.tolist())]
        return (np.array(angles) - angles[0]) / self._lock if all(map(math.isfinite, angles)) else np.zeros(len(times))


@dataclass(frozen=True, eq=False)
class DrawnSteering:
    """Steering of each run: steering (K, n), share of full lock, without the corrections of motion from now on; these are the reference's
    times gains (3, n), `delays` (n,) samples later, equal within each block of the kernel."""

    steering: np.ndarray
    gains: np.ndarray
    delays: np.ndarray


@dataclass(frozen=True, eq=False)
class Intention:
    """Inputs that a driver applies from now on. inputs: steering and pedal (K, 2) at each sample; reference: (K, 10) corrections towards
    it, as `hazard_kernel.REFERENCE`, relative to the vehicle's position; remnant: standard deviation of the steering, 0 from `steady` [s]
    on; reverse: the pedal drives backwards; until: end of the prediction [s], later failures do not count; answer: (K,) added to the
    steering after multiplication with the individual's random gain; drawn: steering of each run, in place of `inputs`, remnant and
    answer."""

    inputs: np.ndarray
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
        situation: known inputs; command: the operator's command in it.
        settings: `RiskSettings` with preview, reaction and takeover.
        times: of the samples (K,) [s], from the time at which the command acts.
        hold: returns the intention of a constant command.
        follow_path: returns steering and pedal (K, 2) along a path at the present speed, and the reference (K, 10) back to it.
        follow_plan: the same along the autonomy's plan.
        answer: returns the change of steering (k,) at times (k,) of the driver model, with a reaction time of `delay` [s].
        drive: returns the intention of the learned operator along a path.
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
        """Time [s] after which the operator corrects: the posterior mean plus the age of the command; without a posterior the setting plus
        twice the age, for a symmetric link."""
        age, learned = max(self.situation.operator_age, 0.0), self.situation.operator_posterior
        return float(self.settings.reaction) + 2.0 * age if learned is None else learned.delay[0] + age


@dataclass(frozen=True)
class IntentionKind:
    """Prediction of the operator by name: predict(view) returns the intention; its first sample is replaced by the acting inputs.
    relieved: autonomy takes over where that does less harm."""

    name: str
    description: str
    predict: Callable[[OperatorView], Intention]
    relieved: bool = False


def hold(view: OperatorView) -> Intention:
    """Predicts constant input."""
    return view.hold()


def follow_path(view: OperatorView) -> Intention:
    """Predicts path following at the present speed; without a path, or in reverse, constant input."""
    constant, path = view.hold(), view.situation.path
    if path is None or view.command.reverse:
        return constant
    inputs, reference = view.follow_path(path)
    return dataclasses.replace(constant, inputs=inputs, reference=reference)


OPERATOR, AUTONOMY, FIRST = "operator", "autonomy", "first"


def react(view: OperatorView, corrected_by: str, answering: bool) -> Intention:
    """Predicts constant input until the reaction time, then a correction; in reverse, or without path and plan, the prediction ends there.

    Args:
        corrected_by: operator, back to the path, or else to the plan; autonomy after `takeover`, back to its plan, or else to the path; or
            the first of the two.
        answering: along a path, unless autonomy corrects, the operator steers as learned; without a posterior the driver model responds to
            the measured motion until the correction.
    """
    s, situation, command, constant = view.settings, view.situation, view.command, view.hold()
    reaction = view.reaction
    path, plan = situation.path, situation.plan
    by_autonomy = corrected_by == AUTONOMY or (corrected_by == FIRST and plan is not None and s.takeover <= reaction + 1e-6)
    if by_autonomy:
        reaction = s.takeover
    answers = answering and not by_autonomy and path is not None and not command.reverse
    if answers and path is not None and situation.operator_posterior is not None:
        return view.drive(path)
    inputs, reference, until, answer = constant.inputs, constant.reference, math.inf, None
    if command.reverse or (path is None and plan is None):
        until = reaction
    elif plan is not None and (path is None or by_autonomy):
        inputs, reference = view.follow_plan(plan)
    elif path is not None:
        inputs, reference = view.follow_path(path)
    waiting = view.times < reaction - 1e-9
    inputs[waiting], reference[waiting] = (command.steering, command.pedal), 0.0
    if answers and situation.past:
        answer = np.zeros(len(view.times))
        answer[waiting] = view.answer(view.times[waiting], reaction)
    return dataclasses.replace(constant, inputs=inputs, reference=reference, steady=reaction if by_autonomy else math.inf, until=until,
                               answer=answer)


CONSTANT_INPUT = IntentionKind("held", "constant input", hold)
PATH = IntentionKind("path", "follows the path at the present speed", follow_path)
REACTING = IntentionKind("reacting", "held, and after `reaction` back to the path, or else to the plan",
                         partial(react, corrected_by=OPERATOR, answering=False))
PREDICTED = IntentionKind("predicted", "along the path with the operator's learned steering; without a posterior as reacting, and the "
                          "driver model steers until then",
                         partial(react, corrected_by=OPERATOR, answering=True))
TAKEOVER = IntentionKind("takeover", "held, and after `takeover` driven by autonomy, back to its plan, or else to the path",
                         partial(react, corrected_by=AUTONOMY, answering=False), relieved=True)
FIRST_TO_CORRECT = IntentionKind("first_to_correct", "predicted or takeover, whichever comes first or does less harm",
                                 partial(react, corrected_by=FIRST, answering=True), relieved=True)
INTENTIONS: plugins.Door[IntentionKind] = plugins.Door(
    "intention", "lfdm_ros.intentions", IntentionKind, "predict", CONSTANT_INPUT, PATH, REACTING, PREDICTED, TAKEOVER, FIRST_TO_CORRECT)
# Names of the former release.
FORMER_INTENTIONS = {"foreseen": PREDICTED.name, "relieved": TAKEOVER.name, "corrected": FIRST_TO_CORRECT.name}
register_intention = INTENTIONS.register
