"""What is known of the friction, as a map and back, and what is refused of it; a vehicle on it."""

import copy
import gc
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy")

from grid_map_msgs.msg import GridMap
from rclpy.serialization import deserialize_message, serialize_message

from lfdm_ros.bounds import Refused
from lfdm_ros.ground import FieldPosterior, FieldPrior, FrictionLink, Grid, Observations
from lfdm_ros.ground.posterior import FrictionPosteriorMap
from lfdm_ros.ros.grid_map import friction_message, read_friction
from lfdm_ros.ros.grounds import planned_on
from lfdm_ros.simulation import Simulator
from lfdm_ros.vehicles import load_vehicle

LINK = FrictionLink(0.1, 1.1)
GRID = Grid.covering((-20.0, -20.0), (40.0, 20.0), 2.0)
SEEN = Observations(np.array([[0.0, 0.0]]), LINK.latent([0.2]), np.array([0.1]))
PLAIN = load_vehicle("hmmwv")


def known(draws: int = 4) -> FrictionPosteriorMap:
    return FrictionPosteriorMap.of(FieldPosterior(FieldPrior(a0=2.0, alpha_x=8.0, alpha_y=8.0, sigma_f=1.5), GRID, SEEN), LINK, draws)


@pytest.fixture(scope="module")
def message() -> Any:
    return friction_message(known(), "odom", 2_500_000_000)


def test_there_and_back(message: Any) -> None:
    there = known()
    back = read_friction(deserialize_message(serialize_message(message), GridMap), "odom")
    assert back.grid == GRID and (back.link.ice, back.link.dry) == pytest.approx((0.1, 1.1))
    for name in ("mean", "sd", "draws"):
        np.testing.assert_allclose(getattr(back, name), getattr(there, name), atol=1e-6)
    assert back.median.friction_at(0.0, 0.0) == pytest.approx(0.2, abs=0.02) and len(back.drawn) == 4
    assert message.header.stamp.sec == 2 and message.layers[0] == "friction_mean"
    assert read_friction(friction_message(known(0), "odom", 0), "odom").draws.shape == (0, *GRID.shape)


def layer(name: str, change: Callable[[Any], None]) -> Callable[[Any], None]:
    def damage(message: Any) -> None:
        change(message.data[message.layers.index(name)].data)
    return damage


def put(value: float) -> Callable[[Any], None]:
    def change(data: Any) -> None:
        data[7] = value
    return change


@pytest.mark.parametrize(("damage", "words", "reason"), [
    (lambda m: setattr(m.header, "frame_id", "map"), "in frame 'map', the states are in 'odom'", "frame"),
    (lambda m: m.layers.__setitem__(1, "other"), "no layer friction_latent_mean", "malformed"),
    (layer("friction_latent_mean", put(math.nan)), "friction_latent_mean at (26, 20) m is a hole", "not_finite"),
    (layer("friction_latent_draw_02", put(1e9)), "friction_latent_draw_02 at (26, 20) m is 1e+09", "malformed"),
    (layer("friction_latent_sd", put(-1.0)), "a standard deviation is below 0", "malformed"),
    (layer("friction_ice", put(0.2)), "friction_ice and friction_dry are to be the same everywhere", "malformed"),
    (layer("friction_dry", lambda d: d.__setitem__(slice(None), type(d)("f", [0.05] * len(d)))), "0.1 is not below", "malformed"),
    (lambda m: setattr(m.info, "resolution", 0.0), "resolution is 0 m", "malformed")])
def test_what_is_no_such_map_is_refused_in_one_line(message: Any, damage: Any, words: str, reason: str) -> None:
    broken = copy.deepcopy(message)
    damage(broken)
    with pytest.raises(Refused, match=words.replace("(", r"\(").replace(")", r"\)").replace("+", r"\+")) as refused:
        read_friction(broken, "odom")
    assert refused.value.reason == reason and "\n" not in str(refused.value)


class Node:
    """As much of a node as a ground takes."""

    def __init__(self, **values: Any) -> None:
        self.value = {"learn_ground": True, "ground": "", "ground_seed": -1, **values}.__getitem__


def speed_after_braking(vehicle: Any) -> float:
    simulator = Simulator(vehicle, "eight_dof", 2e-3)
    simulator.reset(x=-3.0, vx=6.0)
    simulator.advance((0.0, 0.0, 0.8), (0.0, 0.0, 0.8), 300)
    return float(simulator.outputs[simulator.output_index["vx"]])


def test_a_vehicle_is_on_its_own_road_until_it_is_told_of_another() -> None:
    on_ground = planned_on(Node(), PLAIN)
    own = speed_after_braking(PLAIN)
    assert speed_after_braking(on_ground.vehicle) == pytest.approx(own, abs=1e-6) and on_ground.others == []
    on_ground.set_friction(known())
    on_ice = on_ground.vehicle
    assert speed_after_braking(on_ice) > own + 1.0 and len(set(on_ground.others)) == 4
    # The compiled model is the same: only a number has changed. What was before lives as long as somebody may still step on it.
    on_ground.set_friction(known(), others=False)
    gc.collect()
    assert speed_after_braking(on_ice) == speed_after_braking(on_ground.vehicle) and on_ground.others == []


def test_without_learning_it_is_on_what_the_file_says() -> None:
    assert planned_on(Node(learn_ground=False), PLAIN).vehicle is PLAIN
    random = planned_on(Node(learn_ground=False, ground="ice_patches"), PLAIN, draws=3)
    assert "friction_field" in random.vehicle.parameters and len(random.others) == 3
