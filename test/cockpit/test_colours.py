"""Colours of the page as people see them who lack one kind of cone (sight.py)."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from sight import SIGHT, lab, rgb

from lfdm_ros.cockpit.server import PAGE

MARKED = ("operator", "autonomy", "sent", "alarm", "well")
# In one strip or bar.
TOGETHER = (("operator", "autonomy"), ("operator", "sent"), ("autonomy", "sent"), ("autonomy", "alarm"), ("alarm", "well"))


def colours_of(page: str) -> dict[str, np.ndarray]:
    """The named colours of the style sheet."""
    return {name: rgb(code) for name, code in re.findall(r"--(\w+): #([0-9a-f]{6})", page)}


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
