"""The ground learner on the running graph: it feels what a vehicle drives on, others take over what it tells, and refuse what cannot be."""

import math
from typing import Any

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from grid_map_msgs.msg import GridMap

from lfdm_ros.ground import FieldPosterior, FieldPrior, FrictionLink, Grid, Observations
from lfdm_ros.ground.posterior import FrictionPosteriorMap
from lfdm_ros.msg import DriverCommand, Posterior, VehicleState
from lfdm_ros.nodes.ground_learner import GroundLearner
from lfdm_ros.nodes.mpc_controller import MpcController
from lfdm_ros.nodes.shared_control import SharedControl
from lfdm_ros.ros import qos
from lfdm_ros.ros.grid_map import friction_message, read_friction
from lfdm_ros.ros.messages import VehicleMessages, nanoseconds, set_stamp
from lfdm_ros.simulation import Simulator
from lfdm_ros.vehicles import load_vehicle

HMMWV = load_vehicle("hmmwv")
MS = 1_000_000
SPEED = 13.0  # [m/s] in the bend
GRID_MAP = "grid_map_msgs/msg/GridMap"


class Driven:
    """Braking hard on a road of one friction, as its states and commands come."""

    def __init__(self, graph: Any, friction: float) -> None:
        self._states = graph.node.create_publisher(VehicleState, "vehicle/state", qos.STATE)
        self._commands = graph.node.create_publisher(DriverCommand, "control/command", qos.COMMAND)
        self._simulator = Simulator(HMMWV.replace(friction_scale=friction * HMMWV.parameters["friction_scale"]), "eight_dof", 2e-3)
        self._messages = VehicleMessages(self._simulator.model, HMMWV.imu)
        self.ms = 0
        graph.wait(lambda: self._states.get_subscription_count() and self._commands.get_subscription_count())

    def drive(self, seconds: float, x: float, vx: float, broken: bool = False) -> None:
        """From a place on; broken: states say what cannot be."""
        simulator, command = self._simulator, DriverCommand(brake=0.6)
        simulator.reset(x=x, vx=vx)
        for _ in range(round(100 * seconds)):
            self._messages.fill(self.ms * MS, simulator.outputs)
            if broken:
                self._messages.state.vx = math.nan
            self._states.publish(self._messages.state)
            set_stamp(command.header.stamp, self.ms * MS)
            self._commands.publish(command)
            simulator.advance((0.0, 0.0, 0.6), (0.0, 0.0, 0.6), 5)
            self.ms += 10


@pytest.mark.usefixtures("compiled")
def test_what_is_felt_is_told_with_how_it_goes(graph: Any) -> None:
    """Twice over the same road, which holds .3: with states between that say nothing, and put back by hand."""
    diagnostics = graph.listen("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray")
    node = graph.add(GroundLearner, priority="normal", publish_period=0.1, draws=2, actuators=False)
    assert not graph.node.count_publishers("ground/known") or node.state == "active"
    driven = Driven(graph, 0.3)
    driven.drive(1.5, 0.0, 10.0)
    maps = graph.listen("ground/known", GRID_MAP, qos.LATCHED)
    graph.wait(lambda: maps and read_friction(maps[-1], "odom").median.friction_at(6.0, 0.0) < 0.5, "a map of the road")
    driven.drive(0.5, 0.0, 10.0, broken=True)
    driven.drive(2.2, 50.0, 10.0)
    graph.wait(lambda: read_friction(maps[-1], "odom").median.friction_at(58.0, 0.0) < 0.5, "a map of the road further on")
    known = read_friction(maps[-1], "odom")
    assert known.median.friction_at(6.0, 0.0) == pytest.approx(0.3, abs=0.12) and known.median.friction_at(0.0, 60.0) > 0.95
    assert len(known.draws) == 2 and nanoseconds(maps[-1].header.stamp) <= driven.ms * MS

    def said() -> dict[str, str]:
        status = graph.diagnosis(diagnostics, "ground_learner")
        return {pair.key: pair.value for pair in status.values} if status else {}

    graph.wait(lambda: said().get("behind") == "0" and int(said()["windows_felt"]) >= 15, "what it knows in /diagnostics")
    values = said()
    assert values["interrupted.states stayed out"] == "1" and int(values["windows_kept"]) > 0 == float(values["dropped"])
    assert values["refused.state.not_finite"] == "50"

    # A posterior of its model is felt by; one of another vehicle is refused.
    publisher = graph.node.create_publisher(Posterior, "posterior", qos.LATCHED)
    graph.wait(publisher.get_subscription_count)
    scale = 2.0 * HMMWV.parameters["friction_scale"]
    learned = {"posterior_version": 2, "model": "eight_dof", "target_names": ["friction_scale"], "target_values": [scale]}
    publisher.publish(Posterior(vehicle="sedan", **learned))
    graph.wait(lambda: node.refusals.counts.get("posterior"))
    publisher.publish(Posterior(vehicle="hmmwv", **learned))
    felt = known.median.friction_at(6.0, 0.0)
    graph.wait(lambda: read_friction(maps[-1], "odom").median.friction_at(6.0, 0.0) < 0.8 * felt, "the road felt again")


def test_who_does_not_learn_hears_nothing(graph: Any) -> None:
    diagnostics = graph.listen("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray")
    graph.add(GroundLearner, learn_ground=False)
    graph.wait(lambda: (d := graph.diagnosis(diagnostics, "ground_learner")) and d.message == "does not learn")
    assert graph.diagnosis(diagnostics, "ground_learner").level == DiagnosticStatus.OK
    assert not graph.node.count_publishers("ground/known") and not graph.node.count_subscribers("vehicle/state")


def ice_at(x: float, y: float, draws: int) -> FrictionPosteriorMap:
    """A dry road of which ice is known around one place."""
    around = np.array([[x + a, y + b] for a in (-6.0, -2.0, 2.0, 6.0) for b in (-6.0, -2.0, 2.0, 6.0)])
    link = FrictionLink(0.1, 1.1)
    seen = Observations(around, np.full(16, float(link.latent(0.15))), np.full(16, 0.2))
    prior = FieldPrior(a0=float(link.latent(1.0)), alpha_x=8.0, alpha_y=8.0, sigma_f=0.5)
    return FrictionPosteriorMap.of(FieldPosterior(prior, Grid.covering((40.0, -40.0), (140.0, 80.0), 2.0), seen), link, draws)


@pytest.mark.parametrize("kind", (MpcController, SharedControl))
def test_maps_that_cannot_be_are_refused_and_the_last_one_stays(graph: Any, kind: Any) -> None:
    node = graph.add(kind, learn_ground=True, use_limit_table=False, **({"threats": []} if kind is SharedControl else {}))
    publisher = graph.node.create_publisher(GridMap, "ground/known", qos.LATCHED)
    diagnostics = graph.listen("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray")
    graph.wait(publisher.get_subscription_count)
    publisher.publish(friction_message(ice_at(98.8, 12.0, 2), "moon", 0))
    graph.wait(lambda: node.refusals.counts.get("ground") == 1)
    assert "in frame 'moon'" in node.refusals.last
    publisher.publish(GridMap())
    graph.wait(lambda: node.refusals.counts["ground"] == 2)
    publisher.publish(friction_message(ice_at(98.8, 12.0, 2), "odom", 0))
    graph.wait(lambda: (d := graph.diagnosis(diagnostics, node.NAME)) and {p.key: p.value for p in d.values}.get(
        "maps_of_the_ground") == "1", "a map taken")


def test_the_risk_of_shared_control_rises_before_ice_that_was_felt(graph: Any) -> None:
    """In the bend, with the steering that it takes."""
    node = graph.add(SharedControl, learn_ground=True, use_limit_table=False, stepping="lockstep", mode="operator", scenario="curve",
                     threats=["risk"], threat_settings=["risk.clear=0"])
    status = graph.listen("shared_control/status", "lfdm_ros/msg/SharedControlStatus")
    states, operator = (graph.node.create_publisher(*endpoint) for endpoint in (
        (VehicleState, "vehicle/state", qos.STATE), (DriverCommand, "operator/command", qos.COMMAND)))
    publisher = graph.node.create_publisher(GridMap, "ground/known", qos.LATCHED)
    graph.wait(lambda: states.get_subscription_count() and operator.get_subscription_count() and publisher.get_subscription_count()
               and graph.node.count_subscribers("shared_control/status"))
    turned, ms = 0.4, 0

    def risk() -> float:
        nonlocal ms
        for _ in range(6):
            ms += 10
            state, command = VehicleState(), DriverCommand(steering=0.22, throttle=0.2)
            state.x, state.y, state.yaw = 70.2 + 40.0 * math.sin(turned) + 1e-6 * ms, 40.0 * (1.0 - math.cos(turned)), turned
            state.vx, state.yaw_rate = SPEED, SPEED / 40.0
            state.header.frame_id = "odom"
            for message in (state, command):
                set_stamp(message.header.stamp, ms * MS)
            operator.publish(command)
            before = len(status)
            states.publish(state)
            graph.wait(lambda: len(status) > before, "a decision")  # noqa: B023
        said = status[-1]
        return max(p for name, p in zip(said.probability_names, said.probabilities) if name.startswith("operator"))

    dry = risk()
    publisher.publish(friction_message(ice_at(98.8, 12.0, 16), "odom", ms * MS))
    graph.wait(lambda: node.diagnose()[2]["maps_of_the_ground"] == 1)
    assert risk() > dry + 0.3
