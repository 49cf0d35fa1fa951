"""What each component of the threat sees: noted once for each look, and drawn."""

import math
from types import SimpleNamespace

import numpy as np

from lfdm_lab.studies.threats import Threats, draw_threats
from lfdm_ros.sharing.threat import Assessment, Threat


def test_each_look_is_noted_once():
    notes, looks = Threats(), [Threat(0.2, math.nan, {"clearance": Assessment(0.2)}), Threat(0.5, 0.1, {"clearance": Assessment(0.5)})]
    for k in range(6):
        notes.take(SimpleNamespace(time=0.02 * k, k=0.0, operator=None, threat=looks[k // 3]))
    np.testing.assert_allclose(notes.looks, [0.0, 0.06])
    assert notes.threats == [{"clearance": 0.2}, {"clearance": 0.5}]


def test_a_column_for_each_run_and_a_row_for_each_component():
    run = {"scenario": "obstacle_field", "times": np.arange(3.0), "failure": "hits post", "end": 2.5,
           "threats": {"sideslip": np.zeros(3), "clearance": np.array([0.0, math.nan, 1.0])}}
    axes = draw_threats([run, run | {"failure": ""}]).axes
    assert len(axes) == 4 and "hits post" in axes[0].get_title() and [len(axis.lines) for axis in axes] == [1, 0, 1, 0]
