"""Wheels that their brakes hold at no speed: there a tyre resists as dry friction does, and a parked vehicle stays where it is.

Slips are resolved above some speed only, and below it a tyre is a damper: on a slope it creeps. Under a locked wheel the damper is GAIN
times as stiff: on a slope of 10 % a parked vehicle creeps less than 0.1 mm a second. Its slopes are those of the secant, force over slip
velocity, with which a step that is implicit in them cannot turn the velocity round, however stiff.
"""

from __future__ import annotations

from dataclasses import replace

from lfdm_ros.models.equations import Contact, Operations, Scalar, Wheel

GAIN = 1000.0


def choose(m: Operations, wheel: Wheel, locked: Contact, turning: Contact) -> Contact:
    """Chooses forces and slopes of `locked` where the wheel is, else those of `turning`, which has the rest."""
    def of(name: str) -> Scalar:
        held, rolling = getattr(locked, name), getattr(turning, name)
        return rolling if held is rolling else m.where(wheel.any_locked > 0.0, m.where(wheel.locked > 0.0, held, rolling), rolling)

    return replace(turning, fx=of("fx"), fy=of("fy"), kx=of("kx"), ky=of("ky"))
