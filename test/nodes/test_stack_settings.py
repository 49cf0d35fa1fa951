"""Settings chosen on the cockpit's page: live ones, and a restart of the nodes that have them; one that fails leaves all as it was."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hurried import hurry
from rclpy.parameter import Parameter

from lfdm_ros.bounds import Refused
from lfdm_ros.cockpit.wire import FLEET, SCAN, STATE
from lfdm_ros.nodes.cockpit import Cockpit
from lfdm_ros.nodes.mpc_controller import MpcController
from lfdm_ros.nodes.shared_control import SharedControl
from lfdm_ros.nodes.teleop_link import TeleopLink
from lfdm_ros.nodes.vehicle_simulator import VehicleSimulator
from lfdm_ros.ros.runtime import Runtime
from lfdm_ros.simulation import load_scenario


class Stack:
    """A cockpit beside a simulator in a namespace, and the texts of its page."""

    def __init__(self, runtime: Runtime, texts: dict[str, Any]) -> None:
        self.runtime, self.texts = runtime, texts
        more = {"context": runtime.context, "namespace": "car"}
        self.simulator = VehicleSimulator(**more, parameter_overrides=[Parameter("scenario", value="yard")])
        self.cockpit = Cockpit(**more)
        for node in (self.simulator, self.cockpit):
            runtime.add(node)
            node.bring_up("configure", "activate")

    def until(self, condition: Callable[[], Any]) -> None:
        for _ in range(2000):
            self.runtime.spin_some(0.02)
            if condition():
                return
        raise AssertionError(self.texts)

    @property
    def settings(self) -> dict[str, Any]:
        return self.texts.get("settings", {}).get("nodes", {}).get("vehicle_simulator", {})


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    texts: dict[str, Any] = {}

    def publish(server: Any, kind: Any, message: Any, keep: bool = False) -> None:
        texts[kind] = json.loads(message) if isinstance(message, str) else message

    monkeypatch.setattr("lfdm_ros.cockpit.server.CockpitServer.publish", publish)
    hurry(monkeypatch)
    with Runtime() as runtime:
        yield Stack(runtime, texts)


def test_a_vehicle_in_a_namespace_is_shown_and_another_one_while_it_is_there(stack: Stack) -> None:
    stack.cockpit.server.views.append(None)  # type: ignore[arg-type]  # a page, which looks at nothing
    stack.until(lambda: {STATE, SCAN, "vehicle", "world", "simulator"} <= stack.texts.keys())
    stack.simulator.set_parameters([Parameter("withheld_sensors", value=["scan"])])
    stack.until(lambda: any("ON PURPOSE: nothing from scan" in text for _, _, text in stack.texts.get("warnings", {}).get("warnings", ())))
    assert "fleet" not in stack.texts
    other = VehicleSimulator(context=stack.runtime.context, namespace="other", parameter_overrides=[
        Parameter("vehicle", value="sedan"), Parameter("initial_x", value=30.0), Parameter("initial_y", value=-4.0),
        Parameter("initial_speed", value=3.0)])
    stack.runtime.add(other)
    other.bring_up("configure", "activate")
    outline = other.simulated.constants.outline
    stack.until(lambda: stack.texts.get("fleet", {}).get("names") == ["/other"] and stack.texts[FLEET][16:]
                and np.frombuffer(stack.texts[FLEET][16:], "<f4")[5] == np.float32(outline.front))
    number, x, y, yaw, speed, *sizes = np.frombuffer(stack.texts[FLEET][16:], "<f4")
    assert number == 0 and x >= 30.0 and abs(y + 4.0) < 0.1 and abs(yaw) < 0.1 and 0.0 <= speed <= 3.1
    np.testing.assert_allclose(sizes, (outline.front, outline.rear, outline.half_width), rtol=1e-6)
    other.trigger_deactivate()
    other.trigger_cleanup()
    stack.until(lambda: stack.texts["fleet"]["names"] == [] and len(stack.texts[FLEET]) == 16)
    stack.cockpit.server.views.clear()


def test_the_corridor_of_the_task_is_shown_and_what_lasts_is_said_once(stack: Stack) -> None:
    edges = load_scenario("nato_lane_change").lane_edges
    controller = MpcController(context=stack.runtime.context, namespace="car",
                               parameter_overrides=[
        Parameter("scenario", value="nato_lane_change"), Parameter("task", value="scenario")])
    stack.runtime.add(controller)
    controller.bring_up("configure", "activate")
    stack.cockpit.server.views.append(None)  # type: ignore[arg-type]
    stack.until(lambda: stack.texts.get("route", {}).get("corridor", {}).get("lines"))
    for shown, edge in zip(stack.texts["route"]["corridor"]["lines"], edges, strict=True):
        x, y = np.array(shown).T  # of the path as the controller follows it, whose points are not the file's
        np.testing.assert_allclose(y, np.interp(x, *edge.T), atol=0.02)
        assert x[0] == pytest.approx(edge[0, 0], abs=0.1) and x[-1] == pytest.approx(edge[-1, 0], abs=0.1)
    stack.until(lambda: "world" in stack.texts)
    said = [stack.texts.pop(kind) for kind in ("route", "world")]
    later = time.monotonic() + 0.5  # markers come ten times a second
    stack.until(lambda: time.monotonic() > later)
    assert all(said) and not {"route", "world"} & stack.texts.keys()
    stack.cockpit.server.views.clear()


WRONG: list[tuple[str, Any]] = [
    ("restart", {}), ("restart", {"scenario": "/etc/passwd"}), ("restart", {"model": "eight_dof"}), ("restart", {"scenario_seed": True}),
    ("restart", {"threats": ["nothing"]}), ("restart", {"threats": [["risk"]]}), ("restart", {"scenario": ["yard"]}),
    ("imposed_friction", float("nan")), ("freeze_state", 1), ("withheld_sensors", "scan"), ("disturbed_sensors", [1]),
    ("withheld_sensors", ["scan"] * 101), ("law", ["piecewise"]), ("drop", 1.5)]


def test_faults_are_live_and_shown(stack: Stack) -> None:
    stack.until(lambda: stack.settings.get("scenario") == "yard")
    assert stack.texts["settings"]["nodes"].keys() == {"vehicle_simulator"}
    assert stack.settings["sensors"] == ["scan"]
    for name, value in (("withheld_sensors", ["scan"]), ("withheld_sensors", []), ("disturbed_sensors", ["scan"]),
                        ("imposed_friction", 0.2), ("imposed_friction", 0)):
        stack.cockpit.on_request(name, value, "page 1")
        stack.until(lambda name=name, value=value: stack.settings[name] == value)
        assert stack.simulator.value(name) == value
    stack.cockpit.on_request("withheld_sensors", ["front"], "page 1")
    stack.until(lambda: "no sensor 'front' here; there are: scan" in stack.texts["answer"]["text"])
    assert stack.simulator.value("withheld_sensors") == [] and not stack.simulator.errors
    for name, value in WRONG:
        with pytest.raises(Refused):
            stack.cockpit.on_request(name, value, "page 1")


def test_another_scenario_restarts_the_simulator_and_one_that_fails_leaves_all_as_it_was(
        stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    stack.until(lambda: stack.settings)
    with monkeypatch.context() as broken:
        broken.setattr("lfdm_ros.nodes.simulated_vehicle.load_scenario", lambda name, seed: load_scenario(
            "no_such_file" if name == "curve" else name, seed))
        stack.cockpit.on_request("restart", {"scenario": "curve"}, "page 1")
        stack.until(lambda: "answer" in stack.texts)
    assert "no_such_file" in stack.texts["answer"]["text"] and "all is as it was" in stack.texts["answer"]["text"]
    assert stack.simulator.state == "active" and stack.simulator.value("scenario") == "yard"
    stack.cockpit.on_request("restart", {"scenario": "curve", "ground": "ice_in_the_bend"}, "page 1")
    stack.until(lambda: stack.settings["scenario"] == "curve" and not stack.texts["settings"]["restarting"])
    assert stack.simulator.state == "active" and stack.simulator.value("ground") == "ice_in_the_bend"
    assert stack.texts["answer"]["text"] == ""


def test_law_threats_and_link_are_set(stack: Stack) -> None:
    nodes = [kind(context=stack.runtime.context, namespace="car") for kind in (SharedControl, TeleopLink)]
    sharing, link = nodes
    for node in nodes:
        stack.runtime.add(node)
        node.bring_up("configure", "activate")
    stack.until(lambda: {"shared_control", "teleop_link"} <= stack.texts.get("settings", {}).get("nodes", {}).keys())
    for name, value in (("law", "sigmoid"), ("jitter", 0.05), ("drop", 0.1)):
        stack.cockpit.on_request(name, value, "page 1")
    stack.until(lambda: sharing.arbiter.settings.law == "sigmoid" and link.value("up_jitter") == link.value("down_jitter") == 0.05
                and link.value("up_drop") == link.value("down_drop") == 0.1)
    ticks = stack.simulator.summary()["ticks"]
    stack.cockpit.on_request("restart", {"threats": ["clearance"]}, "page 1")
    stack.until(lambda: "answer" in stack.texts and stack.texts["answer"]["service"] == "restart")
    assert [component.name for component in sharing.arbiter.components] == ["clearance"] and sharing.state == "active"
    assert stack.simulator.summary()["ticks"] > ticks  # it has gone on meanwhile
    assert sharing.arbiter.settings.law == "sigmoid"
