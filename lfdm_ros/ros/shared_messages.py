"""Inputs of shared control from messages, and messages of its decisions."""

import math
from array import array

import numpy as np

from lfdm_ros.bounds import MALFORMED, TOO_MANY, Refused
from lfdm_ros.control.plan import Plan
from lfdm_ros.engine.shared_driving import SharedPilot
from lfdm_ros.msg import DriverCommand, Posterior, SharedControlStatus
from lfdm_ros.msg import Plan as PlanMessage
from lfdm_ros.ros.messages import set_stamp
from lfdm_ros.sharing.arbiter import SharedDecision
from lfdm_ros.sharing.situation import Draws, StampedCommand
from lfdm_ros.vehicles import Vehicle

MOST_ROWS, MOST_NAMES = 2000, 64  # of a plan


def plan_of(message: PlanMessage) -> Plan:
    """Returns the plan of a message, its times from the stamp on. Raises Refused: more of it than any plan has, or parts that do not fit
    together."""
    rows, names = len(message.times), tuple(message.names)
    if rows > MOST_ROWS or len(names) > MOST_NAMES:
        raise Refused(f"{rows} rows of {len(names)} states; at most {MOST_ROWS} of {MOST_NAMES} are read", TOO_MANY)
    if len(message.states) != rows * len(names) or len(message.inputs) != 3 * rows or len(set(names)) != len(names):
        raise Refused(f"{rows} times, {len(message.states)} numbers of {len(names)} states, {len(message.inputs)} of 3 inputs", MALFORMED)
    states, inputs = np.array(message.states).reshape(rows, len(names)), np.array(message.inputs).reshape(rows, 3)
    return Plan(names, np.array(message.times), states, inputs)


def draws_of(message: Posterior, vehicle: Vehicle) -> Draws | None:
    """Returns the draws of a posterior that are parameters of the vehicle; None: it has none, or their number does not fit."""
    names = tuple(message.parameter_names)
    if not message.draws or len(message.thinned_draws) != message.draws * len(names):
        return None
    table = np.array(message.thinned_draws).reshape(message.draws, len(names))
    known = [i for i, name in enumerate(names) if name in vehicle.parameters and np.isfinite(table[:, i]).all()]
    return Draws(tuple(names[i] for i in known), table[:, known], message.posterior_version) if known else None


def fill_command(message: DriverCommand, command: StampedCommand, time_ns: int) -> DriverCommand:
    """Fills the message of a command, as sent at a time [ns]."""
    set_stamp(message.header.stamp, time_ns)
    message.steering, message.throttle, message.brake = (float(value) for value in command.inputs)
    return message


def sharing_text(decision: SharedDecision) -> str:
    """Returns the text of a decision in a picture: state, k, threat, and the probabilities that make it."""
    d = decision
    risks = (f"{p.name} {p.value:.3f}" for a in d.threat.assessments.values() for p in a.probabilities)
    return "\n".join([f"{d.mode}: {d.row.state}", f"k {d.k:.2f} (wanted {d.k_wanted:.2f}), threat {d.threat.relative:.2f}", *risks])


def fill_status(message: SharedControlStatus, decision: SharedDecision, pilot: SharedPilot, time_ns: int,
                posterior_version: int) -> SharedControlStatus:
    """Fills the status of a decision at a time [ns], with its reasons."""
    d, threat = decision, decision.threat
    set_stamp(message.header.stamp, time_ns)
    message.mode, message.state, message.reason = d.mode, d.row.state, d.reason
    message.threat, message.k, message.k_wanted = float(threat.relative), float(d.k), float(d.k_wanted)
    message.reasons = list(threat.reasons)
    said = threat.assessments
    message.component_names = list(said)
    message.component_threats = array("d", [float(a.threat) for a in said.values()])
    probabilities = [p for a in said.values() for p in a.probabilities]
    message.probability_names = [p.name for p in probabilities]
    message.probabilities = array("d", [p.value for p in probabilities])
    message.probabilities_lower = array("d", [p.lower for p in probabilities])
    message.probabilities_upper = array("d", [p.upper for p in probabilities])
    message.rollouts = max((a.rollouts for a in said.values()), default=0)
    message.horizon = max((a.horizon for a in said.values() if a.horizon == a.horizon), default=math.nan)
    message.risk_time = float(sum(a.seconds for a in said.values()))
    for name in ("operator", "autonomy", "plan", "state", "scan"):
        setattr(message, f"{name}_age", float(d.ages[name]))
    message.posterior_version = posterior_version
    message.opposite_sides, message.emergency_stop = d.opposite, d.latched
    message.takeover, message.takeover_reason = d.takeover.state.value, d.takeover.reason
    message.takeover_time_left = d.takeover.time_left
    message.active_limits = list(d.limits)
    message.inputs_refused = pilot.refusals.total
    for field, command in ((message.operator_command, d.operator), (message.autonomy_command, d.autonomy), (message.applied, d.command)):
        if command is not None:
            fill_command(field, command, max(round(1e9 * command.time), 0))
    return message
