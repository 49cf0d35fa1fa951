"""Parameters with which a node cannot be configured are named, and it stays unconfigured."""

from typing import Any

import pytest

from lfdm_ros.errors import InputError
from lfdm_ros.nodes.hil_bridge import HilBridge
from lfdm_ros.nodes.mpc_controller import MpcController
from lfdm_ros.nodes.operator_model import OperatorModel
from lfdm_ros.nodes.recorder import Recorder
from lfdm_ros.nodes.teleop_link import TeleopLink
from lfdm_ros.nodes.vehicle_simulator import VehicleSimulator

REFUSED: list[tuple[type, dict[str, Any], str]] = [
    (VehicleSimulator, {"vehicle": "nope"}, "nope"), (VehicleSimulator, {"scenario": "nope"}, "nope"),
    (VehicleSimulator, {"publish_rate": 300.0}, "whole number of physics steps"),
    (MpcController, {"task": "scenario"}, "set scenario too"), (MpcController, {"vehicle": "nope"}, "nope"),
    (MpcController, {"task": "scenario", "scenario": "coast_down"}, "neither path nor goal"), (MpcController, {"model": "nope"}, "nope"),
    (HilBridge, {"rate": 300.0}, "rate 300 Hz is not a whole number of physics steps"),
    (HilBridge, {"role": "controller", "link": "ros"}, "role controller needs a link to the vehicle"),
    (HilBridge, {"role": "controller", "link": "udp", "mode": "lockstep"}, "realism and lockstep are of the role vehicle"),
    (HilBridge, {"realism": "nope"}, "no hil file 'nope'; give a path to a YAML file or one of: lane_change_faults, realistic"),
    (HilBridge, {"rate": 250.0, "link": "can"}, "cycle time of WheelSpeeds, 10 ms, is no multiple of the loop's period, 4 ms"),
    (TeleopLink, {"stepping": "lockstep", "up_overtaking": True}, "overtaking is on, which lockstep cannot have"),
    (OperatorModel, {"cognition": "genius"}, "operator 'genius' is unknown"), (OperatorModel, {"task": "scenario"}, "set scenario too"),
    (Recorder, {"bag": "drive", "waits": True}, "folder of its own")]


def test_what_cannot_be_configured_is_named(graph: Any) -> None:
    for number, (kind, parameters, words) in enumerate(REFUSED):
        node = graph.add(kind, active=False, name=f"refused_{number}", **parameters)
        with pytest.raises(InputError, match=words):
            node.bring_up("configure")
        assert node.state == "unconfigured"
