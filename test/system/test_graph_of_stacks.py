"""Each shipped stack as it runs: its nodes have what they declare, the policy allows that and no more, layouts name nothing else."""

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from ports import free_port
from rclpy.action import get_action_client_names_and_types_by_node, get_action_server_names_and_types_by_node
from rclpy.node import Node
from rclpy.validate_full_topic_name import validate_full_topic_name
from rclpy.validate_namespace import validate_namespace
from rclpy.validate_node_name import validate_node_name

from lfdm_ros.cli.main import main
from lfdm_ros.errors import InputError
from lfdm_ros.hil.link import SIGNALS, VEHICLE, LinkSettings, Packet, make_link
from lfdm_ros.nodes.state_sensor import StateSensor
from lfdm_ros.resources import share_directory
from lfdm_ros.ros import qos
from lfdm_ros.ros.endpoints import ACTS, CALLS, PUBLISHES, SERVES, STARTS, SUBSCRIBES
from lfdm_ros.ros.topics import interface_class
from lfdm_ros.stacks.bring_up import Manager, manager_node
from lfdm_ros.stacks.compose import make_node
from lfdm_ros.stacks.layouts import layouts
from lfdm_ros.stacks.policy import policy
from lfdm_ros.stacks.stack import RECORDER, Stack, connections, prepare_stack

STACKS = sorted(path.stem for path in (share_directory() / "config" / "stacks").glob("*.yaml"))
# What a run in this process leaves alone, and what takes time.
OVERRIDES: dict[str, dict[str, Any]] = {
    "hil": {"priority": 0, "lock_memory": False},
    "autonomy": {"scenario": "moving_obstacle"}, "shared_control": {"scenario": "moving_obstacle"}}
MIRRORS = ("hil_controller", "hil_shared_control")  # a bench is at the other end
FRAMED = ("tf2_msgs/msg/TFMessage", "nav_msgs/msg/Odometry", "lfdm_ros/msg/VehicleState")
Endpoints = set[tuple[str, str]]  # (direction, name)


def prepared(name: str, **options: Any) -> Stack:
    overrides = dict(OVERRIDES.get(name, {}))
    if name == "hil":
        overrides["can_port"] = free_port()
    if name in MIRRORS:
        overrides |= {"udp_port": free_port(), "udp_peer_port": free_port()}
    return prepare_stack(name, overrides=overrides, **options)[0]


def found(tester: Node, name: str, namespace: str) -> dict[tuple[str, str], str]:
    """What the graph says that a node has: the type by (direction, name); an action's own topics and services are the action."""
    own = {(direction, topic): kind for direction, ask in (
        (PUBLISHES, tester.get_publisher_names_and_types_by_node), (SUBSCRIBES, tester.get_subscriber_names_and_types_by_node),
        (SERVES, tester.get_service_names_and_types_by_node)) for topic, (kind,) in ask(name, namespace) if "/_action/" not in topic}
    return own | {(ACTS, action): kind for action, (kind,) in get_action_server_names_and_types_by_node(tester, name, namespace)}


def allowed(text: str) -> dict[str, Endpoints]:
    """The rules of a policy by the node's full name, as the schema (policy.xsd 0.2.0 of sros2) has them; anything else in it fails."""
    kinds = {"topics": ("topic", {"publish": PUBLISHES, "subscribe": SUBSCRIBES}),
             "services": ("service", {"reply": SERVES, "request": "asks"}),
             "actions": ("action", {"execute": ACTS, "call": STARTS})}
    rules: dict[str, Endpoints] = {}
    root = ElementTree.fromstring(text.encode())
    assert (root.tag, root.attrib) == ("policy", {"version": "0.2.0"})
    enclaves, = root
    assert (enclaves.tag, enclaves.attrib) == ("enclaves", {}) and len(enclaves)
    paths = [enclave.attrib["path"] for enclave in enclaves]
    assert len(set(paths)) == len(paths) and all(map(validate_namespace, paths))
    for enclave in enclaves:
        assert enclave.tag == "enclave" and set(enclave.attrib) == {"path"}
        profiles, = enclave
        assert (profiles.tag, profiles.attrib) == ("profiles", {}) and len(profiles)
        for profile in profiles:
            assert profile.tag == "profile" and set(profile.attrib) == {"ns", "node"}
            assert validate_namespace(profile.attrib["ns"]) and validate_node_name(profile.attrib["node"])
            own = rules.setdefault(f"{profile.attrib['ns'].rstrip('/')}/{profile.attrib['node']}", set())
            for listed in profile:
                child, directions = kinds[listed.tag]
                assert len(listed) and listed.attrib and set(listed.attrib.values()) == {"ALLOW"}
                for rule in listed:
                    assert rule.tag == child and not rule.attrib and validate_full_topic_name(rule.text, is_service=child != "topic")
                    own |= {(directions[attribute], rule.text) for attribute in listed.attrib}
    return rules


def texts(node: Any) -> Iterator[str]:
    """All keys and values of a document that are texts."""
    for part in (*node, *node.values()) if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from texts(part) if isinstance(part, (dict, list)) else [part] if isinstance(part, str) else []


def require_field(kind: str, field: str) -> None:
    """A message of a type has a number or a text at a place such as probabilities[0]."""
    for part in field.split("."):
        fields = interface_class(kind).get_fields_and_field_types()
        name, _, index = part.partition("[")
        assert name in fields, f"{kind} has no {name}"
        element = re.sub(r"^sequence<([^,>]*).*>$|\[.*\]$", r"\1", fields[name])
        assert bool(index) == (element != fields[name]), f"{kind}.{part} is {fields[name]}"
        kind = element.replace("/", "/msg/")
    assert "/" not in kind, f"{field} is no number"


class Named:
    """What the files of a stack name."""

    def __init__(self, files: dict[str, str], types: dict[str, str]) -> None:
        self.topics: set[str] = set()
        self.frames: set[str] = set()
        for name, content in files.items():
            {".rviz": self.rviz, ".json": self.lichtblick, ".xml": self.plotjuggler}[Path(name).suffix](content, types)

    def rviz(self, content: str, types: dict[str, str]) -> None:
        document = yaml.safe_load(content)
        manager = document["Visualization Manager"]
        self.topics |= {text for text in texts(document) if text.startswith("/")}
        self.frames |= {manager["Global Options"]["Fixed Frame"], manager["Views"]["Current"]["Target Frame"]} - {"<Fixed Frame>"}
        drawn = {"LaserScan", "Path", "Odometry", "Pose", "MarkerArray"}
        for display in manager["Displays"]:
            kind = display["Class"].removeprefix("rviz_default_plugins/")
            assert kind in drawn | {"Grid", "TF", "RobotModel"}
            if kind in drawn:
                assert types[display["Topic"]["Value"]].split("/")[-1] in (kind, f"{kind}Stamped")

    def lichtblick(self, content: str, types: dict[str, str]) -> None:
        document = json.loads(content)
        panels = document["configById"]
        for text in texts(document):
            if text.startswith("/"):
                topic, _, field = text.partition(".")
                self.topics.add(topic)
                if field:
                    require_field(types[topic], field)
        self.frames |= {panel["followTf"] for name, panel in panels.items() if name.startswith("3D!")}
        places = [document["layout"], *(tab["layout"] for panel in panels.values() for tab in panel.get("tabs", ()))]
        assert {text for text in texts(places) if "!" in text} == panels.keys()

    def plotjuggler(self, content: str, types: dict[str, str]) -> None:
        root = ElementTree.fromstring(content.encode())
        streamed = set(root.find(".//selected_topics").attrib["value"].split(";"))  # type: ignore[union-attr]
        curves = [curve.attrib["name"] for curve in root.iter("curve")]
        assert curves
        for curve in curves:
            topic, = (topic for topic in streamed if curve.startswith(f"{topic}/") and "/" not in curve[len(topic) + 1:])
            require_field(types[topic], curve[len(topic) + 1:])
        self.topics |= streamed


@pytest.mark.parametrize(("name", "namespaces"), [*((name, ()) for name in STACKS), ("simulator", ("a", "fleet/b"))])
def test_a_stack_has_what_it_declares(graph: Any, name: str, namespaces: tuple[str, ...], tmp_path: Path,
                                      monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # bags of the stack's own
    if name == "hil":
        pytest.importorskip("can")
    stack = prepared(name, namespaces=namespaces)
    nodes = [make_node(entry, graph.runtime) for entry in stack.nodes]
    for step in ("configure", "activate"):
        for node in nodes:
            if step == "configure":
                graph.runtime.add(node)
            node.bring_up(step)

    declared = connections(stack)
    rules = allowed(policy(stack, processes=False))
    assert rules == {k: v for k, v in allowed(policy(stack, processes=True)).items() if k != "/stack_manager"}
    for entry in stack.nodes:
        namespace, _, _ = entry.full_name.rpartition("/")
        own = {(c.direction, c.name): c.type_name for c in declared if c.node is entry}
        if entry.executable == RECORDER:
            graph.wait(lambda: own == found(graph.node, entry.name, namespace or "/"), f"all topics for {entry.name}")  # noqa: B023
        assert own == found(graph.node, entry.name, namespace or "/"), entry.full_name
        assert rules[entry.full_name] == set(own), entry.full_name
    for c in declared:
        profile = c.endpoint.profile(c.node.value) if c.endpoint.qos is not None else None
        if profile is not None:
            ask = graph.node.get_publishers_info_by_topic if c.direction == PUBLISHES else graph.node.get_subscriptions_info_by_topic
            offered = [info.qos_profile for info in ask(c.name)
                       if f"{info.node_namespace.rstrip('/')}/{info.node_name}" == c.node.full_name]
            assert [(o.reliability, o.durability) for o in offered] == [(profile.reliability, profile.durability)], c

    types = {topic: kind for topic, (kind, *_) in graph.node.get_topic_names_and_types()}
    files = layouts(stack, name)
    named = Named(files, types)
    assert {n.partition("_")[0].removesuffix(".rviz") for n in files} >= {name.partition("_")[0]} and named.topics <= types.keys()
    assert (f"{name}.rviz" in files) == (name != "calibration") or namespaces
    frames: set[str] = set()
    heard = [graph.listen(c.name, c.type_name, qos.LATCHED if c.endpoint.qos is qos.LATCHED else qos.STATE) for c in declared
             if c.direction == PUBLISHES and c.type_name in FRAMED]
    bench = None
    if name in MIRRORS:
        own_port, port = (stack.nodes[-1].value(key) for key in ("udp_peer_port", "udp_port"))
        bench = make_link("udp", VEHICLE, LinkSettings(udp_port=own_port, udp_peer_port=port))
        bench.open()

    def seen() -> bool:
        if bench is not None:
            bench.send(Packet(10_000_000, dict.fromkeys(SIGNALS, 0.0)))
        for messages in heard:
            for message in messages:
                for stamped in getattr(message, "transforms", [message]):
                    frames.update((stamped.header.frame_id, stamped.child_frame_id))
            messages.clear()
        return named.frames <= frames

    graph.wait(seen, f"a frame of {named.frames}")
    if bench is not None:
        bench.close()


@pytest.mark.parametrize(("executable", "parameters"), [
    ("command_adapter", {"odometry": True, "cmd_vel_type": "twist_stamped"}), ("joystick", {}), ("keyboard", {}), ("dashboard", {}),
    ("cockpit", {}), ("cockpit", {"behind_link": True}),
    ("operator_model", {"odometry": True}), ("mpc_controller", {"take_posterior": False, "state_topic": "measured/state"}),
    ("teleop_link", {"stepping": "lockstep"}), ("ground_learner", {"odometry": True}), ("ground_learner", {"learn_ground": False}),
    ("mpc_controller", {"learn_ground": True}), ("shared_control", {"learn_ground": True}),
    ("state_sensor", {"noise_ax": 0.1, "noise_x": 1.0, "noise_y": 1.0}), ("hil_bridge", {"link": "ros", "scenario": "moving_obstacle"}),
    ("hil_bridge", {"link": "ros", "mode": "lockstep"}), ("hil_bridge", {"link": "udp", "role": "controller", "own_clock": True})])
def test_a_node_has_what_it_declares_until_it_is_cleaned_up(graph: Any, executable: str, parameters: dict[str, Any],
                                                            monkeypatch: pytest.MonkeyPatch) -> None:
    leader, follower = os.openpty()
    with os.fdopen(follower) as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)  # of the keyboard
        if parameters.get("link") == "udp":
            parameters = {**parameters, "udp_port": free_port()}
        stack = prepare_stack({"nodes": [{"executable": executable, "parameters": parameters}]})[0]
        node = make_node(stack.nodes[0], graph.runtime)
        graph.runtime.add(node)
        bare = found(graph.node, executable, "/")
        node.bring_up("configure")
        declared = {(c.direction, c.name): c.type_name for c in connections(stack)}
        asked = {(CALLS, name): kind for name, (kind,) in graph.node.get_client_names_and_types_by_node(executable, "/")
                 if "/_action/" not in name}
        asked |= {(STARTS, name): kind for name, (kind,) in get_action_client_names_and_types_by_node(graph.node, executable, "/")}
        assert declared == {**found(graph.node, executable, "/"), **asked}
        node.trigger_cleanup()
        assert node.state == "unconfigured" and found(graph.node, executable, "/") == bare
    os.close(leader)


def test_the_manager_has_what_its_enclave_allows(graph: Any) -> None:
    stack = prepared("simulator")
    node = manager_node(graph.runtime.context)
    Manager(stack, node, dead=lambda: "", frozen=lambda entry: None)
    asks = {("asks", name) for name, _ in graph.node.get_client_names_and_types_by_node(node.get_name(), "/")}
    assert allowed(policy(stack, processes=True))["/stack_manager"] == asks | found(graph.node, node.get_name(), "/").keys()
    node.destroy_node()


def test_what_shared_control_shows() -> None:
    """Plan, scan, obstacles, k and risk, the vehicle, frames and the goal, wherever remappings put them."""
    nodes = [{"executable": "vehicle_frames", "parameters": {"map_is_odom": True}},
             {"executable": "shared_control"}, {"executable": "mpc_controller", "remappings": {"goal_pose": "/rviz/goal"}},
             {"executable": "vehicle_simulator", "parameters": {"scenario": "moving_obstacle"}, "remappings": {"scan": "lidar/scan"}}]
    manager = yaml.safe_load(layouts(prepare_stack({"nodes": nodes})[0], "x")["x.rviz"])["Visualization Manager"]
    shown = {(d["Class"].split("/")[1], (d.get("Topic") or d.get("Description Topic") or {}).get("Value")) for d in manager["Displays"]}
    assert shown == {
        ("Grid", None), ("TF", None), ("RobotModel", "/robot_description"), ("LaserScan", "/lidar/scan"), ("Odometry", "/odom"),
        ("Path", "/autonomy/horizon"), *(("MarkerArray", f"/{t}") for t in ("autonomy/markers", "shared_control/markers", "world"))}
    assert {t["Topic"]["Value"] for t in manager["Tools"] if t["Class"].endswith("SetGoal")} == {"/goal_pose", "/rviz/goal"}
    latched = {d["Topic"]["Value"] for d in manager["Displays"] if d.get("Topic", {}).get("Durability Policy") == "Transient Local"}
    assert latched == {"/world"} and manager["Global Options"]["Fixed Frame"] == "map"


def test_the_commands_write_files(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StateSensor, "ENDPOINTS", ())  # as a node from outside may be
    assert main(["layouts", "demo", "--namespace", "a", "--namespace", "fleet/b", "--out", str(tmp_path / "files")]) == 0
    names = [f"demo_{space}{end}" for space in ("a", "fleet_b") for end in (".rviz", "_lichtblick.json", "_plotjuggler.xml")]
    assert capsys.readouterr().out.split() == [str(tmp_path / "files" / name) for name in names]
    assert all((tmp_path / "files" / name).is_file() for name in names)

    out = tmp_path / "policy.xml"
    assert main(["policy", "demo", "--record", "drive", "--processes", "--set", "use_sim_time=true", "--out", str(out)]) == 0
    said = capsys.readouterr()
    assert said.err == "lfdm policy: /state_sensor declares no ENDPOINTS: nothing but what every node has is allowed\n" and not said.out
    rules = allowed(out.read_text())
    assert {(SUBSCRIBES, "/vehicle/state"), (SUBSCRIBES, "/clock")} <= rules["/recorder"]
    assert (SUBSCRIBES, "/vehicle/state") not in rules["/state_sensor"]
    for arguments in (["policy", "nope"], ["layouts", "nope", "--out", str(tmp_path)], ["layouts", "demo", "--out", str(out)]):
        assert main(arguments) == 2 and len(capsys.readouterr().err.splitlines()) == 1
    for command in ("policy", "layouts"):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        assert f"\n  lfdm {command} " in capsys.readouterr().out


def test_a_stack_that_cannot_be_read_is_named() -> None:
    stack = prepare_stack({"nodes": [{"executable": "vehicle_simulator", "parameters": {"scenario": "nope"}}]})[0]
    for use in (lambda: policy(stack, processes=False), lambda: layouts(stack, "x")):
        with pytest.raises(InputError, match="nope"):
            use()
