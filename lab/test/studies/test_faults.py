"""Every fault of every source of shared control."""

import pytest

from lfdm_lab.studies import faults
from lfdm_ros.page import markdown


@pytest.mark.parametrize("source", faults.SOURCES)
@pytest.mark.parametrize("fault", faults.FAULTS)
def test_a_fault_is_told_in_time_costs_no_jump_and_is_over_when_it_is_over(source, fault):
    outcome = faults.fail(source, fault)
    assert outcome.good, outcome
    lost = {"operator": "operator_lost", "autonomy": "autonomy_lost", "state": "stopping"}[source]
    assert outcome.state == ("sharing" if fault in faults.TOLERATED else lost)
    assert (outcome.refused == 0) == (fault == "killed") and (source in outcome.reason or fault in faults.TOLERATED)


def test_who_is_told_too_late_is_found_out(monkeypatch):
    settings = faults.SharingSettings
    monkeypatch.setattr(faults, "SharingSettings", lambda: settings(operator_timeout=0.5))
    outcome = faults.fail("operator", "killed")
    assert not outcome.good and outcome.noticed == pytest.approx(0.51)
    assert "510" in markdown(faults.table([outcome]))
