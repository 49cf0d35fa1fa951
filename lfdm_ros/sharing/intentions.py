"""Predictions of the operator by name: constant input, path following, a command that is corrected after a reaction, and the operator as
learned (`operator_learning`)."""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from lfdm_ros import plugins
from lfdm_ros.control.plan import Plan
from lfdm_ros.control.routing.path import Path
from lfdm_ros.sharing.situation import Situation, StampedCommand


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
    whether the pedal drives backwards; for how long it is known [s]: what fails later does not count; and `drawn`: steering of each run, in
    place of that of `wanted` and of the unsteady hand."""

    wanted: np.ndarray
    reference: np.ndarray
    remnant: float = 0.0
    steady: float = math.inf
    reverse: bool = False
    until: float = math.inf
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
        drive: gives the intention along a path of the operator as learned.
    """

    situation: Situation
    command: StampedCommand
    settings: Any
    times: np.ndarray
    hold: Callable[[], Intention]
    follow_path: Callable[[Path], tuple[np.ndarray, np.ndarray]]
    follow_plan: Callable[[Plan], tuple[np.ndarray, np.ndarray]]
    drive: Callable[[Path], Intention]

    @property
    def reaction(self) -> float:
        """Time [s] after which the operator corrects: the mean of what was learned, later by the age of the command; else that of the
        settings, and a link up to the operator that is as slow as that down."""
        age, learned = max(self.situation.operator_age, 0.0), self.situation.operator_posterior
        return float(self.settings.reaction) + 2.0 * age if learned is None else learned.delay[0] + age


@dataclass(frozen=True)
class IntentionKind:
    """A prediction of the operator by name: predict(view) gives the intention; the first sample is replaced by what acts already."""

    name: str
    description: str
    predict: Callable[[OperatorView], Intention]


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
        answering: along a path, where autonomy is not the one to correct, the operator steers as learned.
    """
    s, situation, command, held = view.settings, view.situation, view.command, view.hold()
    reaction = view.reaction
    path, plan = situation.path, situation.plan
    by_autonomy = corrected_by == AUTONOMY or (corrected_by == FIRST and plan is not None and s.takeover <= reaction + 1e-6)
    if by_autonomy:
        reaction = s.takeover
    if answering and not by_autonomy and path is not None and not command.reverse:
        return view.drive(path)
    wanted, reference, until = held.wanted, held.reference, math.inf
    if command.reverse or (path is None and plan is None):
        until = reaction
    elif plan is not None and (path is None or by_autonomy):
        wanted, reference = view.follow_plan(plan)
    elif path is not None:
        wanted, reference = view.follow_path(path)
    waits = view.times < reaction - 1e-9
    wanted[waits], reference[waits] = (command.steering, command.pedal), 0.0
    return dataclasses.replace(held, wanted=wanted, reference=reference, steady=reaction if by_autonomy else math.inf, until=until)


HELD = IntentionKind("held", "the command as it is", hold)
PATH = IntentionKind("path", "drives along the path at the present speed", follow_path)
REACTING = IntentionKind("reacting", "held, and after `reaction` back to the path, or else to the plan",
                         partial(react, corrected_by=OPERATOR, answering=False))
PREDICTED = IntentionKind("predicted", "along the path as was learned of this operator, else the same",
                         partial(react, corrected_by=OPERATOR, answering=True))
TAKEOVER = IntentionKind("takeover", "held, and after `takeover` driven by autonomy, back to its plan, or else to the path",
                         partial(react, corrected_by=AUTONOMY, answering=False))
FIRST_TO_CORRECT = IntentionKind("first_to_correct", "predicted or takeover, by which of the two comes first",
                          partial(react, corrected_by=FIRST, answering=True))
INTENTIONS: plugins.Door[IntentionKind] = plugins.Door(
    "intention", "lfdm_ros.intentions", IntentionKind, "predict", HELD, PATH, REACTING, PREDICTED, TAKEOVER, FIRST_TO_CORRECT)
# Names of the former release.
FORMER_INTENTIONS = {"foreseen": PREDICTED.name, "relieved": TAKEOVER.name, "corrected": FIRST_TO_CORRECT.name}
register_intention = INTENTIONS.register
