"""What can be set is declared once, said in full and reachable by name; topics at a rate and of one type."""

import math
import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lfdm_ros.cli.drive import parse_changes
from lfdm_ros.control.routing.lattice import LATTICE, LatticeSettings
from lfdm_ros.control.settings import SETTINGS, Settings
from lfdm_ros.errors import InputError
from lfdm_ros.ground.learned_ground import LEARNER
from lfdm_ros.parameters import Exposed, Parameter
from lfdm_ros.perception.tracker import TRACKER, TrackerSettings
from lfdm_ros.ros.topics import RateLimiter, find_topic
from lfdm_ros.sensors import LIDAR, LidarSettings
from lfdm_ros.stacks.stack import EXECUTABLES, load_stack, node_class
from lfdm_ros.units import to_si

RECORDS = {"controller": SETTINGS, "lattice": LATTICE, "tracker": TRACKER, "lidar": LIDAR}
DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "parameters.md"


def all_parameters() -> list[Parameter]:
    return [p for name in EXECUTABLES for p in node_class(name).PARAMETERS]


def test_each_parameter_of_a_node_is_declared_once_and_in_full() -> None:
    for name in EXECUTABLES:
        table = node_class(name).PARAMETERS
        assert len({p.name for p in table}) == len(table), name
        for p in table:
            assert p.description and not p.description.endswith(".") and "[" not in p.description, p
            if isinstance(p.default, (int, float)) and not isinstance(p.default, bool):
                assert math.isfinite(p.lower) and math.isfinite(p.upper) and p.lower <= p.default <= p.upper, p
                assert p.unit or isinstance(p.default, int), p
            if p.unit:
                to_si(1.0, p.unit, p.unit, p.name)
            assert p.convert(p.default, p.name) == p.default


@pytest.mark.parametrize("record", [*RECORDS.values(), LEARNER], ids=[*RECORDS, "learner"])
def test_each_setting_is_a_parameter_of_a_node_and_refuses_what_its_range_refuses(record: Exposed[Any]) -> None:
    nodes = {p.name: p for name in ("vehicle_simulator", "mpc_controller", "ground_learner") for p in record.parameters
             if p in node_class(name).PARAMETERS}
    assert set(record.by_field) == {f.name for f in fields(record.kind)} - set(record.without)
    for field, p in record.by_field.items():
        assert nodes[p.name].default == getattr(record.kind(), field) == p.default
        if isinstance(p.default, (int, float)) and not isinstance(p.default, bool):
            for bad in (math.nan, math.inf, p.upper + 1, p.lower - 1, "far", True):
                with pytest.raises(InputError, match=field):
                    record.kind(**{field: bad})
                with pytest.raises(InputError):
                    p.convert(bad, p.name)


def test_what_a_stack_sets_arrives_in_the_records() -> None:
    stack = load_stack("autonomy")
    for name, value in {"lidar_range": 40.0, "lidar_range_min": 0.1, "tracker_gate": 1, "tracker_max_tracks": 9, "lattice_side": 12.5,
                        "lattice_slopes": 4, "weight_lateral": 3.0, "mpc_controller.solver": "piqp"}.items():
        stack = stack.with_override(name, value, f"--set {name}")
    *_, controller, simulator = stack.nodes
    assert LIDAR.record(simulator.value) == LidarSettings(range_max=40.0, range_min=0.1)
    assert TRACKER.record(controller.value, noise_sd=0.01) == TrackerSettings(noise_sd=0.01, gate=1.0, max_tracks=9)
    assert LATTICE.record(controller.value) == LatticeSettings(side=12.5, slopes=4)
    assert SETTINGS.record(controller.value) == Settings(weight_lateral=3.0, solver="piqp")
    with pytest.raises(InputError, match=r"--set lattice_side: 1000.0 is outside \[1, 500\]"):
        stack.with_override("lattice_side", 1000.0, "--set lattice_side")


def test_the_command_line_takes_the_same_names() -> None:
    records = list(RECORDS.values())
    changes = parse_changes(["model=eight_dof", "compensate=false", "lattice_slopes=3", "tracker_gate=2", "lidar_noise=0"], records)
    assert changes == [{"model": "eight_dof", "compensate": False}, {"slopes": 3}, {"gate": 2.0}, {"noise_sd": 0.0}]
    with pytest.raises(InputError, match=r"--set gate=2: no setting 'gate' \(did you mean 'tracker_gate'\?\)$"):
        parse_changes(["gate=2"], records)


@pytest.mark.parametrize(("make", "words"), [
    (lambda: LidarSettings(range_min=5.0, range_max=4.0), "LIDAR: range_max is 4; give more than range_min"),
    (lambda: LatticeSettings(side=100.0, offset_step=0.05), "lattice: side over offset_step is 2000; give at most 500"),
    (lambda: TrackerSettings(gate=0.0), "obstacle tracker: gate is 0 m; give 0.001 to 100 m"),
    (lambda: TrackerSettings(max_tracks=2.5), "obstacle tracker: max_tracks is 2.5; give a whole number"),
    (lambda: Settings(solver="osqp"), "setting solver is 'osqp'; choose one of: hpipm"),
])
def test_refusals_name_who_and_what(make: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()


PLUG_IN = """
from dataclasses import replace
from lfdm_ros.models import SLOTS, register_part
from lfdm_ros.nodes.mpc_controller import MpcController
from lfdm_ros.nodes.vehicle_simulator import VehicleSimulator
print("plugged in")
register_part("tyre", replace(SLOTS["tyre"]["fiala"], name="mine"))
"""
LOOK = """
import lfdm_ros.nodes.mpc_controller as controller, lfdm_ros.nodes.vehicle_simulator as simulator
print("imported")
tables = [{p.name: p for p in node.PARAMETERS} for node in (simulator.VehicleSimulator, controller.MpcController)]
print(tables[0]["tyre"].convert("mine", "tyre"), tables[1]["posterior_model"].convert("eight_dof", "posterior_model"))
"""


def test_choices_are_looked_up_when_a_value_is_checked(tmp_path: Path) -> None:
    """Not when a node is imported: that loads no plug-ins, and one that derives from a node adds to the choices of its parameters."""
    (tmp_path / "mine.py").write_text(PLUG_IN)
    done = subprocess.run([sys.executable, "-c", LOOK], env={**os.environ, "LFDM_PLUGINS": str(tmp_path / "mine.py")}, capture_output=True,
                          text=True, check=False)
    assert done.stdout.split("\n")[:3] == ["imported", "plugged in", "mine eight_dof"], done.stderr


@pytest.mark.parametrize("rate, stamps_ms, admitted", [
    (10.0, (0, 99, 100, 150, 199, 200, 450), (0, 100, 200, 450)),
    (10.0, (500, 510, 400, 410, 500), (500, 400, 500)), (1000.0, (1, 2, 3), (1, 2, 3))])
def test_one_message_a_period_is_admitted(rate: float, stamps_ms: tuple[int, ...], admitted: tuple[int, ...]) -> None:
    limiter = RateLimiter(rate)
    assert tuple(ms for ms in stamps_ms if limiter.admit(1_000_000 * ms)) == admitted


def test_publishers_that_disagree_on_the_type_are_an_error() -> None:
    def node(*types: str) -> Any:
        return SimpleNamespace(resolve_topic_name=lambda name: f"/{name}",
                               get_publishers_info_by_topic=lambda name: [SimpleNamespace(topic_type=kind) for kind in types])

    assert find_topic(node(), "x") is None
    topic = find_topic(node("std_msgs/msg/String", "std_msgs/msg/String"), "x")
    assert topic is not None and (topic.name, topic.type_name, len(topic.publishers)) == ("/x", "std_msgs/msg/String", 2)
    with pytest.raises(InputError, match="/x has several types: std_msgs/msg/Empty, std_msgs/msg/String"):
        find_topic(node("std_msgs/msg/String", "std_msgs/msg/Empty"), "x")
