"""The calibrator node: the action, feedback, cancel, and the latched posterior; the calibration itself is a stand-in."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from action_msgs.msg import GoalStatus
from lfdm_ros.action import Calibrate
from lfdm_ros.msg import CalibratorStatus
from rclpy.action import ActionClient

from lfdm_ros.nodes import calibrator, qos
from lfdm_ros.nodes.calibration_process import CalibrationProcess

SCRIPT = """
import json, sys, time
try:
    for i in range(4):
        print(json.dumps({"stage": "roll", "stage_index": 0, "stage_count": 1, "temperature": i / 3, "progress": i / 3,
                          "time_left": 3.0 - i, "message": ""}), flush=True)
        time.sleep(60 if "--seed" in sys.argv and i == 1 else 0.05)
except KeyboardInterrupt:
    sys.exit(130)
if sys.argv[1] == "bad":
    print("lfdm calibrate: recipe bad: no such thing", file=sys.stderr)
    sys.exit(2)
"""
POSTERIOR = {
    "model": "eight_dof", "vehicle": "hmmwv", "version": "0", "parameter_names": ["a", "b"], "units": ["N", "m"], "means": [1.0, 2.0],
    "standard_deviations": [0.1, 0.2], "hdi_lower": [0.8, 1.6], "hdi_upper": [1.2, 2.4], "r_hat": [1.0, 1.0], "ess_bulk": [9.0, 8.0],
    "ess_tail": [7.0, 6.0], "draws": 30, "thinned_draws": np.arange(6.0).reshape(3, 2), "recordings": ["r"],
    "recording_sha256": ["00"], "seed": 5}


@pytest.fixture
def client(graph: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    script = tmp_path / "calibrate.py"
    script.write_text(SCRIPT)
    monkeypatch.setattr(calibrator, "CalibrationProcess",
                        functools.partial(CalibrationProcess, command=[sys.executable, str(script)]))
    monkeypatch.setattr("lfdm_ros.calibration.results.load_posterior_summary", lambda directory: POSTERIOR)
    graph.add(calibrator.Calibrator)
    client = ActionClient(graph.node, Calibrate, "calibrate")
    graph.wait(client.server_is_ready)
    yield client
    client.destroy()


def send(graph: Any, client: Any, feedback: list[Any], **goal: Any) -> Any:
    request = Calibrate.Goal(**{"recipe": "good", "bags": ["b"], "out": "o", **goal})
    future = client.send_goal_async(request, feedback_callback=lambda message: feedback.append(message.feedback))
    graph.wait(future.done)
    return future.result()


def result(graph: Any, handle: Any) -> Any:
    future = handle.get_result_async()
    graph.wait(future.done, "the result")
    return future.result()


def test_success_gives_feedback_and_a_latched_posterior(graph: Any, client: Any) -> None:
    feedback: list[Any] = []
    handle = send(graph, client, feedback)
    assert not send(graph, client, []).accepted  # one at a time
    outcome = result(graph, handle)
    assert outcome.status == GoalStatus.STATUS_SUCCEEDED and outcome.result.success
    assert [f.progress for f in feedback] == pytest.approx([0.0, 1 / 3, 2 / 3, 1.0])
    assert list(outcome.result.posterior.thinned_draws) == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0] and outcome.result.posterior.draws == 3
    late = graph.listen("posterior", "lfdm_ros/msg/Posterior", qos.LATCHED)
    graph.wait(lambda: late, "the latched posterior")
    assert list(late[0].means) == [1.0, 2.0]
    status = graph.listen("calibrator/status", "lfdm_ros/msg/CalibratorStatus")
    graph.wait(lambda: status and status[-1].state == CalibratorStatus.SUCCEEDED)


def test_failure_says_why(graph: Any, client: Any) -> None:
    outcome = result(graph, send(graph, client, [], recipe="bad"))
    assert outcome.status == GoalStatus.STATUS_ABORTED and not outcome.result.success
    assert outcome.result.message == "lfdm calibrate: recipe bad: no such thing"


def test_cancel_stops_the_child(graph: Any, client: Any) -> None:
    feedback: list[Any] = []
    handle = send(graph, client, feedback, seed=1)
    graph.wait(lambda: len(feedback) == 2)
    handle.cancel_goal_async()
    outcome = result(graph, handle)
    assert outcome.status == GoalStatus.STATUS_CANCELED and "cancelled" in outcome.result.message


def test_incomplete_goals_are_rejected(graph: Any, client: Any) -> None:
    assert not send(graph, client, [], bags=[]).accepted
