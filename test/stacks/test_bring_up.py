"""How nodes come up and go down: the order, deaths, and places that are taken."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import domains
import pytest
from children import children, command
from waiting import until

from lfdm_ros.bags import bag_info
from lfdm_ros.errors import InputError
from lfdm_ros.stacks import bring_up, remote
from lfdm_ros.stacks.bring_up import Manager, describe_exit, in_order, missing_subscriptions, refuse_others, resume
from lfdm_ros.stacks.stack import load_stack


class World:
    """The graph as one node sees it."""

    def __init__(self, nodes: list[str] = (), publishers: dict[str, list[str]] | None = None) -> None:  # type: ignore[assignment]
        self.nodes, self.publishers = nodes, publishers or {}

    def get_node_names_and_namespaces(self) -> list[tuple[str, str]]:
        return [(name.rpartition("/")[2], name.rpartition("/")[0] or "/") for name in self.nodes]

    def get_publishers_info_by_topic(self, topic: str) -> list[Any]:
        return [SimpleNamespace(node_name=name.rpartition("/")[2], node_namespace=name.rpartition("/")[0] or "/")
                for name in self.publishers.get(topic, [])]


def test_all_are_configured_before_any_is_activated_in_the_order_of_the_list() -> None:
    assert list(in_order("ab")) == [("configure", "a"), ("configure", "b"), ("activate", "a"), ("activate", "b")]


@pytest.mark.parametrize(("status", "signalled", "words"), [
    (0, False, ""),
    (-signal.SIGKILL, False, "node n was killed by signal 9 (Killed)"),
    (-signal.SIGKILL, True, "node n was killed by signal 9 (Killed)"),
    (2, False, "node n ended with status 2, see its log"),
    (-signal.SIGINT, False, "node n was killed by signal 2 (Interrupt)"),
    (130, True, ""), (-signal.SIGINT, True, ""), (143, True, ""), (1, True, "node n ended with status 1, see its log"),
])
def test_a_death_is_named(status: int, signalled: bool, words: str) -> None:
    assert describe_exit("n", status, signalled=signalled) == words


def test_a_process_that_is_stopped_is_resumed_to_end_and_named() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert not resume(child.pid)
        child.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED)
        child.send_signal(signal.SIGTERM)
        assert resume(child.pid)
        assert child.wait(120) == -signal.SIGTERM  # else it waits for ever
    assert not resume(child.pid)
    assert describe_exit("n", child.returncode, signalled=True, stopped=True).startswith("node n was stopped (SIGSTOP) when the run ended")
    assert describe_exit("n", -signal.SIGKILL, signalled=True, stopped=True) == "node n was killed by signal 9 (Killed)"


NAMES = ["/input_player", "/vehicle_simulator"]
OURS = {"/control/command": NAMES[:1], "/clock": NAMES[1:], "/vehicle/state": NAMES[1:]}


def test_who_is_alone_is_not_refused() -> None:
    stack = load_stack("simulator")
    refuse_others(stack, World(["/rviz"], {"/odom": ["/rviz"]}), started=False)  # type: ignore[arg-type]
    refuse_others(stack, World(["/rviz", *NAMES], OURS), started=True)  # type: ignore[arg-type]


@pytest.mark.parametrize(("topic", "other"), [
    ("/clock", "/vehicle_simulator"), ("/clock", "/car/their_simulator"), ("/control/command", "/joystick"), ("/vehicle/state", "/car")])
@pytest.mark.parametrize("started", [False, True])
def test_a_second_publisher_of_what_drives_is_named(topic: str, other: str, started: bool) -> None:
    publishers = OURS if started else {}
    world = World(NAMES if started else [], {**publishers, topic: [*publishers.get(topic, []), other]})
    with pytest.raises(InputError, match=f"^{topic} is published already, by node {other};"):
        refuse_others(load_stack("simulator"), world, started=started)  # type: ignore[arg-type]


def test_nodes_that_are_brought_up_by_name_must_have_it_alone() -> None:
    stack = load_stack({"nodes": [{"executable": "recorder", "namespace": "car"}]})
    for names, started in ((["/car/recorder"], False), (["/car/recorder"] * 2, True)):
        with pytest.raises(InputError, match="a node /car/recorder runs already"):
            refuse_others(stack, World(names), started=started)  # type: ignore[arg-type]
        refuse_others(stack, World(names), started=started, by_service=False)  # type: ignore[arg-type]


def test_a_publisher_whose_node_is_not_known_yet_is_asked_for_again() -> None:
    looks: list[str] = []

    class Late(World):
        def get_publishers_info_by_topic(self, topic: str) -> list[Any]:
            looks.append(topic)
            if len(looks) == 1:
                return [SimpleNamespace(node_name="_NODE_NAME_UNKNOWN_", node_namespace="_NODE_NAMESPACE_UNKNOWN_")]
            return super().get_publishers_info_by_topic(topic)

    refuse_others(load_stack("simulator"), Late(NAMES, OURS), started=True)  # type: ignore[arg-type]
    assert looks[0] == looks[1]


class Managing(World):
    """A node that asks others, which answer or not; time is what the test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answers: bool = True) -> None:
        super().__init__()
        self.answers, self.now, self.lines, self.changes = answers, 0.0, list[str](), list[int]()
        for module in (bring_up, remote):
            monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.now))

    def create_client(self, kind: Any, name: str) -> Any:
        def call(request: Any) -> Any:
            self.changes += [request.transition.id] if hasattr(request, "transition") else []
            result = SimpleNamespace(success=True, current_state=SimpleNamespace(id=1))
            return SimpleNamespace(done=lambda: self.answers, result=lambda: result)

        return SimpleNamespace(service_is_ready=lambda: False, call_async=call, remove_pending_request=lambda call: None)

    def get_publisher_names_and_types_by_node(self, node: str, namespace: str) -> list[tuple[str, list[str]]]:
        return []

    get_subscriber_names_and_types_by_node = get_publisher_names_and_types_by_node

    def create_subscription(self, kind: Any, topic: str, callback: Any, profile: Any) -> None:
        self.log = callback

    def get_logger(self) -> Any:
        return SimpleNamespace(error=self.lines.append, info=self.lines.append)

    def serve(self, steps: Any, seconds: float) -> None:
        for _ in range(round(seconds / 0.05)):
            self.now += 0.05
            next(steps)


ONE = load_stack({"nodes": [{"executable": "recorder", "namespace": "car", "respawn": 1}]})


@pytest.mark.parametrize("answers", [True, False])
def test_a_node_that_answers_is_there_whatever_the_graph_says_of_its_services(monkeypatch: pytest.MonkeyPatch, answers: bool) -> None:
    """As while another one of that name that was killed is known by half."""
    graph = Managing(monkeypatch, answers)
    steps = Manager(ONE, graph, lambda: "", pytest.fail).bring_up()  # type: ignore[arg-type]
    if answers:
        with pytest.raises(StopIteration):
            graph.serve(steps, 30.0)
        assert graph.lines == ["all nodes are active"]
    else:
        with pytest.raises(InputError, match="node recorder did not start within 180 s"):
            graph.serve(steps, 200.0)


def test_who_is_silent_is_named_within_a_second_and_ended_after_thirty(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, ended = Managing(monkeypatch), list[str]()
    watch = Manager(ONE, graph, lambda: "", lambda entry: ended.append(entry.full_name)).watch()  # type: ignore[arg-type]
    graph.serve(watch, 5.0)
    assert not graph.lines
    graph.answers = False
    graph.serve(watch, 1.0)
    assert graph.lines == ["node /car/recorder does not answer"]
    graph.answers = True
    graph.serve(watch, 1.0)
    assert len(graph.lines) == 2 and graph.lines[1].startswith("node /car/recorder answers again, after ")
    graph.answers = False
    graph.serve(watch, 29.0)
    assert not ended
    graph.serve(watch, 2.0)
    assert ended == ["/car/recorder"] and "node /car/recorder has not answered for 30 s and is ended" in graph.lines


def test_who_does_not_answer_but_writes_lines_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a busy machine, where answers of a service are lost for long."""
    graph, ended = Managing(monkeypatch), list[str]()
    watch = Manager(ONE, graph, lambda: "", lambda entry: ended.append(entry.full_name)).watch()  # type: ignore[arg-type]
    graph.serve(watch, 1.0)
    graph.answers = False
    for _ in range(6):
        graph.serve(watch, 10.0)
        graph.log(SimpleNamespace(name="car.recorder", level=20, msg="still here"))
    assert not ended and graph.lines == ["node /car/recorder does not answer"]
    graph.serve(watch, 31.0)
    assert ended == ["/car/recorder"]


def test_who_was_held_up_itself_accuses_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Managing(monkeypatch)
    watch = Manager(ONE, graph, lambda: "", pytest.fail).watch()  # type: ignore[arg-type]
    graph.serve(watch, 1.0)
    graph.answers, graph.now = False, graph.now + 20.0
    graph.serve(watch, 0.5)
    assert not graph.lines


def test_who_was_started_again_is_configured_and_activated(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Managing(monkeypatch)
    manager = Manager(ONE, graph, lambda: "", pytest.fail)  # type: ignore[arg-type]
    watch = manager.watch()
    graph.serve(watch, 1.0)
    manager.started_again(ONE.nodes[0])
    graph.serve(watch, 10.0)
    assert graph.changes == [transition for transition, _ in remote.STEPS.values()]
    assert graph.lines == ["node /car/recorder is active again"]


@pytest.mark.parametrize(("parameters", "heard", "missing"), [
    ({}, ["/car/a", "/b"], set()),
    ({"waits": True, "bag": "{}"}, [], set()),  # it hears nothing before it is started
    ({"exclude": ["b", "/rosout"]}, ["/b"], {"/car/a"}),
    ({"exclude": ["/b", "/rosout"]}, ["/car/a"], set()),
    ({"topics": ["a", "/elsewhere"]}, [], {"/car/a"}),
    ({"topics": ["a", "/elsewhere"]}, ["/car/a"], set())])
def test_a_recorder_is_waited_for_until_it_hears_what_it_takes(parameters: dict[str, Any], heard: list[str], missing: set[str]) -> None:
    """Never of the hidden topics of an action."""
    class Graph:
        def get_publisher_names_and_types_by_node(self, node: str, namespace: str) -> list[tuple[str, list[str]]]:
            return [(name, []) for name in ("/car/a", "/b", "/rosout", "/calibrate/_action/feedback")]

        def get_subscriber_names_and_types_by_node(self, node: str, namespace: str) -> list[tuple[str, list[str]]]:
            return [(name, []) for name in heard]

    stack = load_stack({"nodes": [{"executable": "recorder", "namespace": "car", "parameters": parameters},
                                  {"executable": "input_player"}]})
    assert missing_subscriptions(Graph(), stack.nodes[0], stack) == missing  # type: ignore[arg-type]


@pytest.mark.parametrize(("number", "between"), [(signal.SIGTERM, False), (signal.SIGKILL, True)], ids=["its child", "a prefix between"])
def test_a_node_that_records_ends_with_the_process_that_started_it(tmp_path: Path, number: signal.Signals, between: bool) -> None:
    """As under ros2 launch, which leaves its nodes running when it gets either signal; the pipe that it has read from them breaks."""
    bag = tmp_path / "bag"
    prefix = [sys.executable, "-c", "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"] if between else []
    node = [*prefix, sys.executable, "-m", "lfdm_ros.starting", "lfdm_ros.nodes.recorder", "--parent"]
    arguments = ["--ros-args", "-p", "autostart:=true", "-p", f"bag:={bag}", "-p", "topics:=['/rosout']"]
    parent = f"""
import os, subprocess, sys
child = subprocess.Popen({node!r} + [str(os.getpid())] + {arguments!r}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
sys.stdin.read()
"""
    with subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          env=domains.environment()) as run:
        until(lambda: any(bag.glob("*.mcap")))
        nodes = children(run.pid)
        run.send_signal(number)
        assert run.wait(120) == -number
        until(lambda: not any(map(command, nodes)))
    assert bag_info(bag, digest=False)["closed"]


def test_a_node_whose_parent_is_gone_before_it_looks_ends() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    node = [sys.executable, "-m", "lfdm_ros.starting", "lfdm_ros.nodes.recorder", "--parent", str(gone.pid)]
    assert subprocess.run(node, timeout=120, check=False).returncode == 0


def test_a_signal_after_the_end_does_not_change_how_a_process_ended() -> None:
    """As launch and a terminal send one each; Python's own handler would let the second one kill a process that is done."""
    program = """
import os, signal, sys
from lfdm_ros.ros.runtime import Runtime
with Runtime(last=True):
    pass
os.kill(os.getpid(), signal.SIGINT)
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=120).returncode == 0
