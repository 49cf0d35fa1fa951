"""k(threat) is monotone whatever the law, its numbers and the history, and moves no faster than its rate."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lfdm_ros.errors import InputError
from lfdm_ros.sharing.laws import Hysteresis, LawKind, Piecewise, Rate, Sigmoid, between, linear
from lfdm_ros.sharing.sharing_settings import SHARING, SharingSettings

SHARE = st.floats(0.0, 1.0)
QUICK = settings(max_examples=200, deadline=None, derandomize=True)


@st.composite
def piecewise(draw):
    threats = sorted(draw(st.lists(st.integers(0, 1000), min_size=1, max_size=6, unique=True)))
    shares = sorted(draw(st.lists(SHARE, min_size=len(threats), max_size=len(threats))))
    return Piecewise(tuple((0.001 * t, k) for t, k in zip(threats, shares)))


BASE = st.one_of(piecewise(), st.builds(Sigmoid, st.floats(0.01, 0.99), st.floats(0.01, 1000.0)), st.just(linear()),
                 st.just(between(0.2, 0.7)))
LAWS = st.one_of(BASE, st.builds(Hysteresis, BASE, SHARE))


@QUICK
@given(LAWS, SHARE, SHARE, SHARE)
def test_more_threat_is_no_less_autonomy(law, before, a, b):
    low, high = sorted((a, b))
    assert 0.0 <= law.k(low, before) <= law.k(high, before) <= 1.0


@QUICK
@given(LAWS, SHARE, SHARE, SHARE)
def test_more_autonomy_before_is_no_less_now(law, threat, a, b):
    low, high = sorted((a, b))
    assert law.k(threat, low) <= law.k(threat, high)


@QUICK
@given(LAWS, st.lists(SHARE, min_size=2, max_size=20), SHARE)
def test_a_threat_that_only_rises_gives_a_share_that_only_rises(law, threats, k):
    k = law.k(0.0, k)  # what no threat leaves of it
    for rising in (True, False):
        for threat in sorted(threats, reverse=not rising):
            after = law.k(threat, k)
            if threat != sorted(threats, reverse=not rising)[0]:
                assert after >= k if rising else after <= k
            k = after


@QUICK
@given(BASE, SHARE, st.lists(SHARE, max_size=20))
def test_hysteresis_stays_between_its_branches(base, width, threats):
    law, k = Hysteresis(base, width), 0.0
    for threat in threats:
        k = law.k(threat, k)
        assert base.k(threat) <= k <= base.k(threat + width)


def test_hysteresis_does_not_chatter():
    law = Hysteresis(between(0.2, 0.8), 0.15)
    k = law.k(0.6)
    assert [law.k(threat, k) for threat in (0.59, 0.5, 0.46)] == [k] * 3 and law.k(0.3, k) < k


@QUICK
@given(SHARE, SHARE, st.floats(0.0, 1.0), st.floats(0.01, 10.0), st.floats(0.01, 10.0))
def test_the_rate_of_k(before, wanted, dt, up, down):
    after = Rate(up, down).limited(before, wanted, dt)
    assert 0.0 <= after <= 1.0 and -down * dt - 1e-12 <= after - before <= up * dt + 1e-12
    assert min(before, wanted) - 1e-12 <= after <= max(before, wanted) + 1e-12


def test_the_middle_of_the_sigmoid_and_its_ends():
    law = Sigmoid(0.5, 10.0)
    assert (law.k(0.0), law.k(0.5), law.k(1.0)) == pytest.approx((0.0, 0.5, 1.0))


@pytest.mark.parametrize("make", [lambda: Piecewise(((0.5, 0.0), (0.5, 1.0))), lambda: Piecewise(((0.0, 0.5), (1.0, 0.4))),
                                  lambda: Piecewise(((0.0, 0.0), (1.0, 1.1))), lambda: Piecewise(()), lambda: Sigmoid(1.5),
                                  lambda: Hysteresis(linear(), -0.1), lambda: SharingSettings(engage=0.5, full=0.4),
                                  lambda: SharingSettings(mode="both")])
def test_what_is_not_monotone_is_refused(make):
    with pytest.raises(InputError):
        make()


@pytest.mark.parametrize("law", ["linear", "piecewise", "sigmoid"])
def test_each_law_of_the_settings(law):
    made = SharingSettings(law=law, hysteresis=0.0).law_of()
    assert made.k(0.0) == pytest.approx(0.0) and made.k(1.0) == pytest.approx(1.0)


def test_a_law_from_outside_that_falls_is_refused():
    with pytest.raises(InputError, match=r"law wave: its share falls or leaves \[0, 1\]"):
        LawKind("wave", "", lambda settings: Wave()).checked(SharingSettings())


class Wave:
    def k(self, threat, before=0.0):
        return 0.5 + 0.5 * math.sin(6.0 * threat)


def test_the_removed_mode_is_refused_by_a_line_that_says_so():
    with pytest.raises(InputError, match=r"mode is 'filter'; it has been removed.*choose blend, operator or autonomy"):
        SharingSettings(mode="filter")
    with pytest.raises(InputError, match="mode: 'filter'; it has been removed"):
        SHARING.by_field["mode"].convert("filter", "mode")
