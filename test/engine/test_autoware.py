"""The vehicle for Autoware, called as its simulator calls a Python model, by what the parameter file that ships says."""

import importlib
import math

import pytest
import yaml

from lfdm_ros.engine.inversion import Follower
from lfdm_ros.errors import InputError
from lfdm_ros.resources import share_directory
from lfdm_ros.vehicles import load_vehicle

# Of SimModelLearnedSteerVel: its states and inputs by name.
STATES = ["POS_X", "POS_Y", "YAW", "YAW_RATE", "VX", "VY", "STEER"]
INPUTS = ["VX_DES", "STEER_DES"]
DT = 0.025


class Host:
    """What InterconnectedModel and SimplePyModel do with one Python model: names to signals, states that were set from outside."""

    def __init__(self, dt: float = DT) -> None:
        path = share_directory() / "config" / "autoware" / "simulator_model.param.yaml"
        parameters = yaml.safe_load(path.read_text())["/**"]["ros__parameters"]
        assert parameters["vehicle_model_type"] == "LEARNED_STEER_VEL"
        (module,), (file,), (name,) = (parameters[f"model_{what}"] for what in ("module_paths", "param_paths", "class_names"))
        self.model = getattr(importlib.import_module(module), name)()
        self.model.load_params(file)
        self.model.reset()
        self.states, self.actions = self.model.get_state_names(), self.model.get_action_names()
        assert all(type(names) is list and all(type(n) is str for n in names) for names in (self.states, self.actions))
        self.signals = dict.fromkeys([*INPUTS, *STATES, *self.states, *self.actions], 0.0)
        assert set(self.signals) == {*INPUTS, *STATES}
        self.model.dtSet(dt)

    def update(self, state: list[float], inputs: list[float]) -> list[float]:
        if any(abs(self.signals[name] - value) > 1e-6 for name, value in zip(STATES, state)):
            self.signals = {**dict.fromkeys(self.signals, 0.0), **dict(zip(STATES, state))}
        self.signals.update(zip(INPUTS, inputs))
        after = self.model.forward([self.signals[n] for n in self.actions], [self.signals[n] for n in self.states])
        assert type(after) is tuple and all(type(value) is float for value in after)
        self.signals.update(zip(self.states, after))
        return [self.signals[name] for name in STATES]


@pytest.fixture(scope="module")
def host() -> Host:
    return Host()


def test_speed_and_angle_are_reached_from_any_state(host: Host) -> None:
    state = [10.0, -5.0, 1.0, 0.0, 3.0, 0.0, 0.0]
    for _ in range(round(12.0 / DT)):
        state = host.update(state, [6.0, 0.05])
    assert state[4] == pytest.approx(6.0, abs=0.1) and state[6] == pytest.approx(0.05, abs=1e-3)
    steering = Follower(load_vehicle("hmmwv")).steering
    assert state[3] / state[4] == pytest.approx(0.05 / (steering.wheelbase + steering.understeer * 36.0), rel=0.05)
    # The rear axle rolls where it looks, but for the little that its tyres slip: vy, too, is that of the axle.
    assert abs(state[5]) < 0.1
    again = host.update([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0])  # somebody has put it elsewhere
    assert again == pytest.approx([0.0] * 7, abs=1e-3)


def test_a_straight_run_moves_the_axle_by_its_speed(host: Host) -> None:
    state = [0.0, 0.0, 0.5 * math.pi, 0.0, 8.0, 0.0, 0.0]
    for _ in range(40):
        state = host.update(state, [8.0, 0.0])
    assert state[1] == pytest.approx(8.0, abs=0.1) and state[0] == pytest.approx(0.0, abs=1e-6) and state[2] == pytest.approx(0.5 * math.pi)


def test_nonsense_is_named(host: Host) -> None:
    with pytest.raises(InputError, match="VX_DES"):
        host.model.forward([math.nan, 0.0], [0.0] * 7)
    with pytest.raises(InputError, match="STEER"):
        host.model.forward([0.0, 0.0], [0.0] * 6)
    with pytest.raises(InputError, match="step of 0"):
        host.model.dtSet(0.0)
    with pytest.raises(InputError, match="nowhere"):
        host.model.load_params("nowhere")
