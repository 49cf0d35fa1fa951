"""What is worth a curve, by the type of the message: for layouts of tools that plot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lfdm_ros.ros.endpoints import PUBLISHES
from lfdm_ros.stacks.graph import Connection

_OURS = "lfdm_ros/msg/"


@dataclass(frozen=True)
class Plot:
    """Curves with one axis: (type of the message, its field) each, of every topic of that type."""

    title: str
    curves: tuple[tuple[str, str], ...]


def _plot(title: str, kind: str, *fields: str) -> Plot:
    return Plot(title, tuple((_OURS + kind, field) for field in fields))


# Pages of plots, by what they are about.
PAGES: dict[str, tuple[Plot, ...]] = {
    "driving": (
        _plot("speed [m/s]", "VehicleState", "vx"),
        _plot("yaw rate [rad/s]", "VehicleState", "yaw_rate"),
        _plot("lateral acceleration [m/s²]", "VehicleState", "ay"),
        _plot("steering [1]", "DriverCommand", "steering"),
        _plot("throttle and brake [1]", "DriverCommand", "throttle", "brake")),
    "autonomy": (
        _plot("times of a cycle [s]", "MpcStatus", "cycle_time", "solve_time", "state_age"),
        _plot("distance to go [m]", "MpcStatus", "distance_to_go"),
        _plot("outcome of a cycle", "MpcStatus", "outcome")),
    "sharing": (
        _plot("k and threat [1]", "SharedControlStatus", "k", "k_wanted", "threat"),
        _plot("risk: probabilities [1]", "SharedControlStatus", *(f"probabilities[{i}]" for i in range(4))),
        _plot("ages [s]", "SharedControlStatus", "operator_age", "autonomy_age", "plan_age", "scan_age"),
        _plot("latency of the link, up and down [s]", "LinkStatus", "latency[0]", "latency[1]")),
    "bench": (
        _plot("largest lateness of the loop [s]", "HilStatus", "worst_lateness"),
        _plot("misses and what went unanswered", "HilStatus", "misses", "unanswered"),
        _plot("simulated seconds a second", "SimulatorStatus", "speed_factor_reached"),
        _plot("overruns", "SimulatorStatus", "overruns")),
    "calibration": (
        _plot("progress [1]", "CalibratorStatus", "progress"),
        _plot("effective sample size", "CalibratorStatus", "ess")),
}
# Texts that change now and then.
STATES = tuple((_OURS + kind, field) for kind, field in (
    ("MpcStatus", "outcome_name"), ("SharedControlStatus", "state"), ("HilStatus", "link_state")))


def pages(graph: list[Connection]) -> Iterator[tuple[str, list[tuple[str, list[tuple[str, str]]]]]]:
    """(page, [(plot, [(topic, field)])]) of what the nodes publish."""
    for page, plots in PAGES.items():
        drawn = [(plot.title, curves) for plot in plots if (curves := of_topics(graph, plot.curves))]
        if drawn:
            yield page, drawn


def of_topics(graph: list[Connection], curves: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
    """(topic, field) of each topic that the nodes publish."""
    topics = dict.fromkeys((c.type_name, c.name) for c in graph if c.direction == PUBLISHES)
    return [(name, field) for kind, name in topics for wanted, field in curves if kind == wanted]
