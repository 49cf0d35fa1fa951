"""Turning round: slow down and turn until the vehicle points to its goal, then a lattice."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from lfdm_ros.control.guide_settings import GuideSettings
from lfdm_ros.control.lattice import SLACK, Lattice
from lfdm_ros.control.path import STEP
from lfdm_ros.control.routes import Route, Search, Trace, arc, joined, squared_distances, straight

LONGEST_SLOWING = 600.0  # [m] before a turn: from 60 m/s; what is faster turns where it has slowed down
LEAST_SPEED = 3.0  # [m/s] a slower vehicle is thought to move off with this speed
HIT, CLEAR = 1e6, 1e5  # cost of an arc that hits something, less its free length [m]; costs of others are below the second


class _Turn(NamedTuple):
    """An arc to one side, 1 left, -1 right, and its cost [m]."""

    cost: float
    side: int
    arc: Trace


def kept_turn(search: Search, settings: GuideSettings) -> Route | None:
    """What remains of the turn before, if it still is a way: a turn that always began anew would never leave the straight."""
    previous = search.previous
    if previous is None or previous.kind != "turn" or previous.blocked or previous.goal != search.goal:
        return None
    (s,), (e,) = previous.path.project(np.array([search.x]), np.array([search.y]), np.zeros(1))
    remaining = previous.path.length - s
    if abs(e) > 1.0 or remaining < settings.shortest_station:
        return None
    at = s + np.linspace(0.0, remaining, max(int(np.ceil(remaining / STEP)), 2) + 1)
    x, y, heading, bend = previous.path.at(at)
    if np.cos(heading[0] - search.yaw) < 0.9:
        return None
    route = Trace(x, y, heading, bend, True).finished(search, "turn", previous.side, previous.goal)
    return None if route.blocked else route


def turn_route(search: Search, settings: GuideSettings, lattice: Lattice) -> Route:
    """Slow down and turn until the vehicle points to the goal, to the better side, at once or further on; then a lattice."""
    turns: list[_Turn] = []
    for straight_radii in (0.0, 1.0, 2.0, 4.0):
        turns += _turns(search, settings, straight_radii * settings.smallest_radius)
        if turns and min(turn.cost for turn in turns) < CLEAR:
            break
    if not turns:
        return straight(search.x, search.y, search.yaw, settings.shortest_station).finished(search, "turn")
    cost, side, best = min(turns, key=lambda turn: (turn.cost, -turn.side))
    if cost >= CLEAR:
        return replace(best, arrived=False).finished(search, "turn", side, search.goal)
    if float(np.hypot(search.goal_x - best.x[-1], search.goal_y - best.y[-1])) >= settings.shortest_station:
        x, y, yaw = float(best.x[-1]), float(best.y[-1]), float(best.yaw[-1])
        onward = replace(search, x=x, y=y, yaw=yaw, pace=max(min(search.pace, settings.turning_speed), LEAST_SPEED), previous=None)
        best = joined(best, lattice.trace(onward, settings.shortest_station, float(np.arctan2(search.goal_y - y, search.goal_x - x)),
                                          np.zeros(len(search.scene.reach)), STEP * len(best.x) / search.pace))
    return best.finished(search, "turn", side, search.goal)


def _turns(search: Search, settings: GuideSettings, delay: float) -> list[_Turn]:
    """Turns that begin `delay` [m] ahead and end where they point to the goal."""
    pace, scene, previous = search.pace, search.scene, search.previous
    slowing = min(pace**2 / (2.0 * settings.braking), LONGEST_SLOWING)
    s = STEP * np.arange(int(4.0 * np.pi * settings.smallest_radius / STEP) + int((slowing + 4.0 * settings.smallest_radius) / STEP))
    square = np.maximum(pace**2 - 2.0 * settings.braking * s, settings.turning_speed**2)
    bend = np.minimum(settings.lateral_acceleration / square, 1.0 / settings.smallest_radius)
    bend *= np.clip((s - delay) / (0.5 * settings.smallest_radius), 0.0, 1.0)  # steering takes its time
    found = []
    for side in (1, -1):
        curve = arc(search.x, search.y, search.yaw, s, side * bend)
        ahead = np.exp(-1j * curve.yaw) * ((search.goal_x - curve.x) + 1j * (search.goal_y - curve.y))
        # The goal was on this side and now is straight ahead.
        beside = side * ahead.imag > 0.0
        turned = np.flatnonzero(np.logical_or.accumulate(beside) & ~beside & (ahead.real > 0.0)
                                & (np.abs(curve.yaw - search.yaw) < 2.0 * np.pi))
        if not len(turned):
            continue
        end = max(int(turned[0]), 2)
        curve = Trace(curve.x[:end + 1], curve.y[:end + 1], curve.yaw[:end + 1], curve.curvature[:end + 1], True)
        clear = (squared_distances(curve.x, curve.y, pace, scene) >= np.maximum(scene.reach - SLACK, 0.0) ** 2).all(axis=1)
        free = float(s[:end + 1][np.logical_and.accumulate(clear)].max(initial=0.0))
        cost = float(s[end] + abs(ahead[end])) + (0.0 if free >= s[end] else HIT - free)
        if previous is not None and previous.side == -side:
            cost += 0.3 * float(s[end])
        found.append(_Turn(cost, side, curve))
    return found
