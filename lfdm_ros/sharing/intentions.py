"""What an operator is taken to do from now on, by name: one constant input, one that follows the path, and one that somebody corrects."""

from __future__ import annotations

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
from lfdm_ros.sharing.situation import Command, Situation


@dataclass(frozen=True, eq=False)
class Intention:
    """Motion that a driver means from now on: steering and pedal (K, 2) at each sample, corrected by `reference` (K, 8) as
    `hazard_kernel.REFERENCE` has it, in coordinates from where the vehicle is; how unsteady the hand is, and from when on [s] it is steady;
    whether the pedal drives backwards; for how long it is known [s]: what fails later does not count; and what is added to the steering
    (K,), times the gains of the person, which are not known."""

    wanted: np.ndarray
    reference: np.ndarray
    remnant: float = 0.0
    steady: float = math.inf
    reverse: bool = False
    until: float = math.inf
    answer: np.ndarray | None = None


@dataclass(frozen=True)
class OperatorView:
    """Inputs of a prediction of the operator.

    Attributes:
        situation: what is known; command: the operator's, which is in it.
        settings: `RiskSettings`, of which preview, reaction and takeover are of use.
        times: of the samples, from when the command acts [s], (K,).
        hold: gives the intention of a command that is held.
        follow_path: gives steering and pedal (K, 2) along a path at the speed that the vehicle has, and the reference (K, 8) back to it.
        follow_plan: the same along the autonomy's plan.
        answer: gives the change of steering (k,) at times (k,) by the driver model that answers, `delay` [s] later, what it has seen.
    """

    situation: Situation
    command: Command
    settings: Any
    times: np.ndarray
    hold: Callable[[], Intention]
    follow_path: Callable[[Path], tuple[np.ndarray, np.ndarray]]
    follow_plan: Callable[[Plan], tuple[np.ndarray, np.ndarray]]
    answer: Callable[[np.ndarray, float], np.ndarray]


@dataclass(frozen=True)
class IntentionKind:
    """A prediction of the operator by name: predict(view) gives the intention; the first sample is replaced by what acts already."""

    name: str
    description: str
    predict: Callable[[OperatorView], Intention]


def hold(view: OperatorView) -> Intention:
    """Constant input: the command as it is."""
    return view.hold()


def follow_path(view: OperatorView) -> Intention:
    """Along the path at the present speed; without a path, or in reverse, the command is held."""
    held, path = view.hold(), view.situation.path
    if path is None or view.command.reverse:
        return held
    wanted, reference = view.follow_path(path)
    return dataclasses.replace(held, wanted=wanted, reference=reference)


OPERATOR, AUTONOMY, FIRST = "operator", "autonomy", "first"


def react(view: OperatorView, corrected_by: str, answering: bool) -> Intention:
    """The command, and after a reaction a correction; in reverse, and without path and plan, nothing counts from then on.

    Args:
        corrected_by: the operator, back to the path, or else to the plan; autonomy after `takeover`, back to its plan, or else to the path;
            or the first of the two.
        answering: until then the operator steers as the driver model answers what it has seen, where autonomy is not the one to correct.
    """
    s, situation, command, held = view.settings, view.situation, view.command, view.hold()
    # The way up to the operator is taken to be as long as the way down, which the age of the command tells.
    reaction = s.reaction + 2.0 * max(situation.operator_age, 0.0)
    path, plan = situation.path, situation.plan
    relieved = corrected_by == AUTONOMY or (corrected_by == FIRST and plan is not None and s.takeover <= reaction + 1e-6)
    if relieved:
        reaction = s.takeover
    wanted, reference, until, answer = held.wanted, held.reference, math.inf, None
    if command.reverse or (path is None and plan is None):
        until = reaction
    elif plan is not None and (path is None or relieved):
        wanted, reference = view.follow_plan(plan)
    elif path is not None:
        wanted, reference = view.follow_path(path)
    waits = view.times < reaction - 1e-9
    wanted[waits], reference[waits] = (command.steering, command.pedal), 0.0
    if answering and not relieved and path is not None and situation.past and not command.reverse:
        answer = np.zeros(len(view.times))
        answer[waits] = view.answer(view.times[waits], reaction)
    return dataclasses.replace(held, wanted=wanted, reference=reference, steady=reaction if relieved else math.inf, until=until,
                               answer=answer)


HELD = IntentionKind("held", "the command as it is", hold)
PATH = IntentionKind("path", "drives along the path at the present speed", follow_path)
REACTING = IntentionKind("reacting", "held, and after `reaction` back to the path, or else to the plan",
                         partial(react, corrected_by=OPERATOR, answering=False))
FORESEEN = IntentionKind("foreseen", "the same, but until then the operator steers as the driver model answers what it has seen",
                         partial(react, corrected_by=OPERATOR, answering=True))
RELIEVED = IntentionKind("relieved", "held, and after `takeover` driven by autonomy, back to its plan, or else to the path",
                         partial(react, corrected_by=AUTONOMY, answering=False))
CORRECTED = IntentionKind("corrected", "foreseen or relieved, by which of the two comes first",
                          partial(react, corrected_by=FIRST, answering=True))
INTENTIONS: plugins.Door[IntentionKind] = plugins.Door(
    "intention", "lfdm_ros.intentions", IntentionKind, "predict", HELD, PATH, REACTING, FORESEEN, RELIEVED, CORRECTED)
register_intention = INTENTIONS.register
