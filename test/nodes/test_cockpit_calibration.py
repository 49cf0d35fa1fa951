"""The cockpit's card of a calibration: requests in any order, and what becomes of the calibrator's answers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hurried import hurry
from rclpy.action import ActionServer, GoalResponse
from rclpy.node import Node
from rclpy.parameter import Parameter
from std_srvs.srv import Trigger

from lfdm_ros.action import Calibrate
from lfdm_ros.engine.drive_calibration import DriveCalibration
from lfdm_ros.errors import InputError
from lfdm_ros.nodes.cockpit import Cockpit
from lfdm_ros.ros.runtime import Runtime
from lfdm_ros.srv import ApplyPosterior, RollBack

SURVEY = {"reasons": [], "expected": {"cornering_stiffness_front": 0.1}, "informed": 1, "unknowns": 1, "missing": []}


class Graph:
    """A cockpit beside a calibrator with given answers; `cards` and `answers` are those that pages would see."""

    def __init__(self, runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
        self.runtime, self.node = runtime, Node("calibrator", context=runtime.context)
        runtime.executor.add_node(self.node)
        self.cards: list[dict[str, Any]] = []
        self.answers: list[str] = []
        self.goals: list[Calibrate.Goal] = []
        self.requests: list[tuple[str, Any]] = []
        self.accepts, self.result = True, Calibrate.Result(success=True, version=3)
        monkeypatch.setattr("lfdm_ros.cockpit.server.CockpitServer.publish", self._take)
        self.bag = "/drive"
        self.node.create_service(Trigger, "recorder/stop", self._stop)
        self.cockpit = Cockpit(context=runtime.context, parameter_overrides=[Parameter("vehicle", value="hmmwv")])
        runtime.add(self.cockpit)
        self.cockpit.bring_up("configure", "activate")
        self.server: ActionServer | None = None

    def _take(self, kind: int | str, message: bytes | str, **more: Any) -> None:
        if kind == "calibration":
            self.cards.append(json.loads(message))
        elif kind == "answer" and (text := json.loads(message)["text"]):
            self.answers.append(text)

    def _stop(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        response.success, response.message = True, self.bag
        return response

    def offer(self) -> None:
        def execute(handle: Any) -> Calibrate.Result:
            self.goals.append(handle.request)
            (handle.succeed if self.result.success else handle.abort)()
            return self.result

        def accept(goal: Any) -> GoalResponse:
            return GoalResponse.ACCEPT if self.accepts else GoalResponse.REJECT

        def heard(name: str) -> Callable[[Any, Any], Any]:
            def answer(request: Any, response: Any) -> Any:
                self.requests.append((name, request.version))
                response.success, response.message = name != "apply" or request.version == "3", "the vehicle drives"
                return response
            return answer

        self.server = ActionServer(self.node, Calibrate, "calibrate", execute, goal_callback=accept)
        self.node.create_service(ApplyPosterior, "calibrator/apply_posterior", heard("apply"))
        self.node.create_service(RollBack, "calibrator/rollback", heard("rollback"))

    def until(self, condition: Callable[[], Any]) -> None:
        end = time.monotonic() + 60.0
        while not condition():
            assert time.monotonic() < end, (self.cards[-1:], self.answers)
            self.runtime.spin_some(0.02)

    @property
    def stage(self) -> str:
        return self.cards[-1]["stage"] if self.cards else ""

    def record(self) -> None:
        """Ends a recording."""
        self.cockpit.on_request("record", False, "page 1")
        for _ in range(10):
            self.runtime.spin_some(0.02)


@pytest.fixture
def graph(monkeypatch: pytest.MonkeyPatch) -> Iterator[Graph]:
    monkeypatch.setattr(DriveCalibration, "survey", lambda self: SURVEY)
    monkeypatch.setattr(DriveCalibration, "learned", lambda self: [])
    monkeypatch.setattr(DriveCalibration, "compare", lambda self: {"split": "", "errors": {}, "channels": {}})
    hurry(monkeypatch)
    with Runtime() as runtime:
        graph = Graph(runtime, monkeypatch)
        yield graph
        if graph.server is not None:
            graph.server.destroy()
        graph.node.destroy_node()


def test_from_a_drive_to_a_posterior_in_force_and_back(graph: Graph) -> None:
    graph.record()
    assert not graph.cards  # without a calibrator there is no card
    graph.cockpit.on_request("calibrate", True, "page 1")
    graph.until(lambda: "record a drive first" in graph.answers)
    graph.offer()
    graph.until(lambda: graph.record() or graph.stage == "surveyed")
    for name in ("calibrate", "calibrate"):  # the second while the first is under way
        graph.cockpit.on_request(name, True, "page 1")
    graph.until(lambda: graph.stage == "done")
    assert [card["stage"] for card in graph.cards][-4:] == ["calibrating", "comparing", "comparing", "done"]
    assert len(graph.goals) == 1 and "the calibrator is busy" in graph.answers
    assert (graph.goals[0].recipe, list(graph.goals[0].bags)) == ("/drive_calibration/recipe.yaml", ["/drive"])
    assert graph.cards[-1]["version"] == 3
    for name in ("apply", "rollback"):
        graph.cockpit.on_request(name, True, "page 1")
    graph.until(lambda: len(graph.requests) == 2)
    assert graph.requests == [("apply", "3"), ("rollback", 2)]


def test_what_goes_wrong_is_on_the_card_and_another_try_is_possible(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    graph.offer()
    graph.accepts = False
    graph.until(lambda: graph.record() or graph.stage == "surveyed")
    graph.cockpit.on_request("calibrate", True, "page 1")
    graph.until(lambda: graph.stage == "failed" and "refused" in graph.cards[-1]["text"])
    graph.accepts, graph.result = True, Calibrate.Result(message="no stage could be fitted")
    graph.cockpit.on_request("calibrate", True, "page 1")
    graph.until(lambda: graph.cards[-1]["text"] == "no stage could be fitted")

    def fail(self: DriveCalibration) -> Any:
        raise InputError("no stretch is long enough")

    monkeypatch.setattr(DriveCalibration, "survey", fail)
    graph.bag = "/short"
    graph.until(lambda: graph.record() or graph.cards[-1]["text"] == "no stretch is long enough")
    graph.cockpit.on_request("calibrate", True, "page 1")
    graph.until(lambda: graph.answers[-1:] == ["record a drive first"])
