"""The gates before a posterior is applied: each passes what is good and names what is not, with the numbers."""

import copy
import re
from typing import Any

import pytest

from lfdm_ros.calibration.gates import GateLimits, refused, verdicts

ROW = {"mean": 50e3, "sd": 500.0, "hdi_3%": 49e3, "hdi_97%": 51e3, "r_hat": 1.002, "ess_bulk": 900.0,
       "targets": {"cornering_stiffness_front": 1.0, "cornering_stiffness_rear": 1.2}, "unit": "N/rad"}
SUMMARY: dict[str, Any] = {
    "interrupted": False, "coverage_90": {"yaw_rate": 0.91},
    "stages": [{
        "name": "lateral", "parameters": {"cornering_stiffness": ROW, "sigma/yaw_rate": {"sd": 1e-3, "r_hat": 1.001, "ess_bulk": 800.0}},
        "passed_on": {"cornering_stiffness_front": 50e3, "cornering_stiffness_rear": 60e3}}]}


def changed(path: str, value: Any) -> dict[str, Any]:
    """SUMMARY with one entry changed."""
    summary = copy.deepcopy(SUMMARY)
    *way, last = path.split("|")
    node: Any = summary
    for key in way:
        node = node[int(key)] if key.isdigit() else node[key]
    node[last] = value
    return summary


def failed(summary: dict[str, Any], last: dict[str, Any] | None = None, speed: float | None = 0.0, **limits: Any) -> dict[str, str]:
    return {verdict.name: verdict.reason for verdict in verdicts(summary, last, speed, GateLimits(**limits)) if not verdict.passed}


def test_a_good_posterior_passes_all() -> None:
    every = verdicts(SUMMARY, SUMMARY, 0.0, GateLimits())
    assert refused(every) == ""
    names = [verdict.name for verdict in every]
    assert names == ["finished", "r_hat", "ess", "coverage", "bounds", "change_sd", "change_relative", "speed"]
    assert all(verdict.reason for verdict in every)
    assert failed(SUMMARY, None) == {}


@pytest.mark.parametrize(("path", "value", "gate", "words"), [
    ("interrupted", True, "finished", "interrupted; only lateral finished"),
    ("stages|0|parameters|sigma/yaw_rate|r_hat", 1.02, "r_hat", "R-hat of lateral: sigma/yaw_rate is 1.02; at most 1.01"),
    ("stages|0|parameters|cornering_stiffness|r_hat", None, "r_hat", "could not be computed"),
    ("stages|0|parameters|cornering_stiffness|ess_bulk", 399.0, "ess", "bulk ESS of lateral: cornering_stiffness is 399; at least 400"),
    ("coverage_90|yaw_rate", 0.45, "coverage", "coverage of yaw_rate is 45.0%"),
    ("coverage_90|yaw_rate", 1.0, "coverage", "coverage of yaw_rate is 100.0%"),
    ("coverage_90", {}, "coverage", "says nothing of its coverage"),
    ("held_out", {"coverage_90": {"vy": 0.5, "yaw_rate": 0.9}}, "coverage", "coverage of vy is 50.0%; .* of held-out data"),
    ("stages|0|passed_on|cornering_stiffness_front", -1.0, "bounds", "cornering_stiffness_front = -1"),
    ("stages|0|passed_on|cornering_stiffness_front", None, "bounds", "cornering_stiffness_front = nan"),
    ("stages|0|passed_on|no_such_thing", 1.0, "bounds", "unknown parameter 'no_such_thing'"),
    ("stages|0|parameters|cornering_stiffness|hdi_3%", -5.0, "bounds", r"cornering_stiffness_front \(hdi_3% of cornering_stiffness\)"),
])
def test_each_gate_names_its_reason(path: str, value: Any, gate: str, words: str) -> None:
    reasons = failed(changed(path, value))
    assert list(reasons) == [gate]
    assert re.search(words, reasons[gate]), reasons[gate]


def test_a_stage_stopped_on_its_way_does_not_count_as_finished() -> None:
    reasons = failed({**changed("stages|0|temperature", 0.4), "interrupted": True})
    assert reasons == {"finished": "interrupted; nothing finished"}


def test_coverage_of_what_was_left_out_counts_before_the_fits_own() -> None:
    summary = changed("out_of_sample", {"yaw_rate": {"coverage_90": 0.52}})
    assert failed(summary) == {"coverage": "coverage of yaw_rate is 52.0%; between 80% and 99% of the samples should lie in the 90 % "
                                           "intervals of data left out in turn"}


def test_held_out_coverage_counts_before_the_fits_own() -> None:
    summary = changed("held_out", {"coverage_90": {"yaw_rate": 0.9}})
    summary["coverage_90"]["yaw_rate"] = 0.2
    assert failed(summary) == {}


def test_change_is_limited_in_units_of_the_last_sd_and_relatively() -> None:
    moved = changed("stages|0|passed_on|cornering_stiffness_rear", 66e3)  # sd 1.2 * 500
    reasons = failed(moved, SUMMARY, change_sd=9.9, change_relative=0.09)
    assert "cornering_stiffness_rear [N/rad] changes by 10 standard deviations" in reasons["change_sd"]
    assert "changes by 10.0% of the value in force; at most 9.0%" in reasons["change_relative"]
    assert failed(moved, SUMMARY, change_sd=10.1, change_relative=0.11) == {}
    assert failed(moved, None, change_sd=0.0, change_relative=0.0) == {}  # nothing to compare with


@pytest.mark.parametrize(("speed", "limits", "passes"), [
    (0.4, {}, True), (0.6, {}, False), (-0.6, {}, False), (None, {}, False), (float("nan"), {}, False),
    (30.0, {"speed": -1.0}, True), (None, {"speed": -1.0}, True), (0.6, {"speed": 0.7}, True),
    (30.0, {"slow": []}, True), (30.0, {"slow": ["mass"]}, True), (30.0, {"slow": ["cornering_*"]}, False)])
def test_vehicle_must_be_slow_for_some(speed: float | None, limits: dict[str, Any], passes: bool) -> None:
    by_name = {verdict.name: verdict for verdict in verdicts(SUMMARY, None, speed, GateLimits(**limits))}
    assert by_name["speed"].passed is passes, by_name["speed"].reason
