"""The one table of what can be: each range says why, refusals say in one line what is wrong, and are counted by reason."""

import math

import numpy as np
import pytest

from lfdm_ros.bounds import (
    BOUNDS,
    CHAINS,
    DRAWS,
    FRAME,
    NOT_FINITE,
    OUT_OF_RANGE,
    TOO_MANY,
    UNUSABLE,
    Refusals,
    Refused,
    refusal,
    require,
    require_all,
    require_array,
    require_requested,
)
from lfdm_ros.errors import InputError
from lfdm_ros.models import get_model
from lfdm_ros.simulation import Circle, Goal, Polygon, Pose


def test_every_range_has_a_unit_and_a_reason_and_holds_its_own_limits() -> None:
    for name, bound in BOUNDS.items():
        assert bound.unit and bound.why and bound.lower < bound.upper
        assert refusal(name, bound.lower) is None and refusal(name, bound.upper) is None


def test_every_state_that_a_vehicle_reports_has_a_range() -> None:
    states = {f.name for f in get_model("twenty_four_dof").outputs} & {f.name for f in get_model("eight_dof").states}
    assert {"x", "y", "yaw", "vx", "vy", "yaw_rate", "roll", "omega_fl"} <= states
    for name in (states | {"omega_ml"}) - {"gear"}:
        assert refusal(name, math.inf) is not None, name


@pytest.mark.parametrize("name, value, reason, words", [
    ("vx", 1e300, OUT_OF_RANGE, "vx is 1e+300 m/s, outside [-200, 200]: "), ("x", -1e9, OUT_OF_RANGE, "UTM"),
    ("yaw", math.nan, NOT_FINITE, "yaw is nan; give a finite number"), ("yaw", -math.inf, NOT_FINITE, "-inf"),
    ("beams", 10**6, TOO_MANY, "1e+06 beams"), ("steering", 1.5, OUT_OF_RANGE, "steering is 1.5, outside [-1, 1]")])
def test_a_refusal_says_what_where_and_why(name: str, value: float, reason: str, words: str) -> None:
    refused = refusal(name, value)
    assert refused is not None and refused.reason == reason and words in str(refused) and "\n" not in str(refused)
    with pytest.raises(InputError):
        require(name, value)


def test_a_calibration_is_asked_for_what_the_command_takes() -> None:
    for draws in (0, *DRAWS):
        for chains in (0, *CHAINS):
            require_requested(draws, chains, 0)
    for asked, words in (((5, 0, 0), "draws is 5: at least 10"),
                         ((DRAWS[1] + 1, 0, 0), "draws is"), ((0, CHAINS[1] + 1, 0), "chains is 257")):
        with pytest.raises(Refused, match=words):
            require_requested(*asked)


def test_nan_is_not_measured_where_it_is_not_required() -> None:
    require_all({"x": 1.0, "roll": math.nan, "unheard_of": 1e300}, ("x",))
    for values, words in (({"x": math.nan}, "x is nan"), ({}, "x is missing"), ({"x": 0.0, "roll": math.inf}, "roll is inf"),
                          ({"x": 0.0, "unheard_of": math.inf}, "unheard_of is inf"), ({"x": 0.0, "omega_rr": 1e5}, "omega_rr is 100000")):
        with pytest.raises(Refused, match=words):
            require_all(values, ("x",))


@pytest.mark.parametrize("value, reason", [(math.nan, NOT_FINITE), (math.inf, NOT_FINITE), (1e300, OUT_OF_RANGE)])
def test_an_array_names_its_first_wrong_row(value: float, reason: str) -> None:
    points = np.zeros((4, 2))
    points[2, 1] = points[3, 0] = value
    with pytest.raises(Refused, match="point 2 is") as caught:
        require_array("x", points, "point")
    assert caught.value.reason == reason
    require_array("x", points[:2], "point")
    require_array("x", points[:0], "point")


def test_refusals_are_counted_by_kind_and_reason() -> None:
    said: list[str] = []
    refusals = Refusals(said.append, ("state", "scan"))
    refused = refusal("vx", 1e300)
    assert refused is not None
    refusals.refuse("state", refused)
    refusals.refuse("state", "in frame 'map'", FRAME)
    refusals.refuse("path", InputError("it is too short"))
    assert refusals.counts == {"state": 2, "scan": 0, "path": 1} and refusals.total == 3 and len(said) == 3
    told = refusals.diagnosis()
    assert told["refused.state"] == 2 and told[f"refused.state.{OUT_OF_RANGE}"] == 1 and told[f"refused.state.{FRAME}"] == 1
    assert told["refused.scan"] == 0 and told[f"refused.path.{UNUSABLE}"] == 1 and told["last_refusal"] == "path refused: it is too short"
    assert Refusals().diagnosis() == {}


@pytest.mark.parametrize("make", [
    lambda v: Pose(x=v), lambda v: Pose(speed=v), lambda v: Pose(yaw=v), lambda v: Goal(v, 0.0), lambda v: Goal(0.0, 0.0, v),
    lambda v: Circle(0.0, 0.0, v), lambda v: Circle(0.0, 0.0, 1.0, vx=v), lambda v: Polygon(np.array([[0, 0], [v, 0], [0, 1]]))])
@pytest.mark.parametrize("value", [1e300, math.inf, math.nan, -1e300])
def test_a_world_is_of_what_can_be(make: object, value: float) -> None:
    with pytest.raises(InputError):
        make(value)  # type: ignore[operator]
