"""Colours of the page as people see them who lack one kind of cone.

Simulated by the matrices of Machado, Oliveira and Fernandes 2009, severity 1, in linear RGB; distances in CIELAB (CIE 1976).
"""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from lfdm_ros.cockpit.server import PAGE

SIGHT = {
    "normal": np.eye(3),
    "protan": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    "deutan": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
    "tritan": np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]])}
TO_XYZ = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]])
MARKED = ("operator", "autonomy", "sent", "alarm", "well")
# In one strip or bar.
TOGETHER = (("operator", "autonomy"), ("operator", "sent"), ("autonomy", "sent"), ("autonomy", "alarm"), ("alarm", "well"))


def lab(colours: np.ndarray, sight: str) -> np.ndarray:
    """L*, a*, b* (n, 3) of sRGB colours (n, 3) of 0 to 255 by a kind of sight."""
    share = np.asarray(colours) / 255.0
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    seen = np.clip(linear @ SIGHT[sight].T, 0.0, 1.0) @ TO_XYZ.T / TO_XYZ.sum(axis=1)
    f = np.where(seen > 216 / 24389, np.cbrt(seen), (24389 / 27 * seen + 16) / 116)
    return np.column_stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])])


def colours_of(page: str) -> dict[str, np.ndarray]:
    """The named colours of the style sheet."""
    return {name: np.array([int(code[k:k + 2], 16) for k in (0, 2, 4)]) for name, code in re.findall(r"--(\w+): #([0-9a-f]{6})", page)}


def numbers(script: str, name: str) -> np.ndarray:
    """A constant of a script, [r, g, b]."""
    found = re.search(rf"\b{name} = \[([\d, ]+)\]", (PAGE / script).read_text(encoding="utf-8"))
    assert found is not None
    return np.array([float(value) for value in found[1].split(",")])


@pytest.mark.parametrize("sight", SIGHT)
def test_marks_are_told_apart_and_stand_out(sight: str) -> None:
    colours = colours_of((PAGE / "cockpit.css").read_text(encoding="utf-8"))
    seen = dict(zip(colours, lab(np.array(list(colours.values())), sight)))
    for pair in itertools.combinations(MARKED, 2):  # 2.3 is just noticeable
        assert np.linalg.norm(seen[pair[0]] - seen[pair[1]]) > (30.0 if pair in TOGETHER else 15.0), pair
    for one in MARKED:
        assert all(seen[one][0] - seen[behind][0] > 30.0 for behind in ("back", "panel")), one


@pytest.mark.parametrize("sight", SIGHT)
def test_the_ramp_of_friction_is_one_of_lightness(sight: str) -> None:
    ice, dry = numbers("ground.js", "ICE"), numbers("ground.js", "DRY")
    lightness = lab(ice + np.linspace(0.0, 1.0, 11)[:, None] * (dry - ice), sight)[:, 0]
    assert (np.diff(lightness) < -2.0).all()


def test_scripts_draw_in_the_colours_of_the_style_sheet() -> None:
    colours = colours_of((PAGE / "cockpit.css").read_text(encoding="utf-8"))
    strips = dict(re.findall(r'(\w+) = "#([0-9a-f]{6})"', (PAGE / "strips.js").read_text(encoding="utf-8")))
    assert strips.keys() == {"OPERATOR", "AUTONOMY", "SENT", "ALARM", "WELL"}
    for name, code in strips.items():
        assert tuple(colours[name.lower()]) == tuple(bytes.fromhex(code))
