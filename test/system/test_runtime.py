"""Nodes that fail: a queued event of what has ended never runs, an error stays in its node, an end is an end for everybody."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticStatus
from rcl_interfaces.msg import Parameter as ParameterMessage
from rcl_interfaces.msg import ParameterValue
from rcl_interfaces.srv import SetParameters, SetParametersAtomically
from rclpy.parameter import Parameter as RosParameter
from rosgraph_msgs.msg import Clock
from std_msgs.msg import Empty, String
from std_srvs.srv import SetBool

from lfdm_ros.action import Calibrate
from lfdm_ros.bags import bag_info
from lfdm_ros.errors import InputError, Interrupted, RunError
from lfdm_ros.nodes.input_player import InputPlayer
from lfdm_ros.nodes.recorder import Recorder
from lfdm_ros.ros import qos, rclpy_adapter
from lfdm_ros.ros.component import Component
from lfdm_ros.ros.endpoints import given, publishes, serves, subscribes
from lfdm_ros.ros.parameters import Parameter
from lfdm_ros.ros.runtime import Runtime, run_node
from lfdm_ros.stacks import compose, processes


class Fragile(Component):
    """Raises wherever it is told to."""

    NAME = "fragile"
    PARAMETERS = (Parameter("gain", 1.0, "of nothing", 0.0, 10.0, live=True),)
    faults: frozenset[str] = frozenset()

    def configure(self) -> None:
        self.calls: list[str] = []
        self.after: list[tuple[str, tuple[Any, ...]]] = []
        self.entities = [
            self.create_subscription(String, "words", self._on_words, qos.TASK),
            self.create_service(SetBool, "~/ask", self._on_ask),
            self.every(0.01, self._tick)]
        self._publisher = self.create_lifecycle_publisher(String, "echo", qos.TASK)

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if name in self.faults:
            raise OverflowError(f"{name} is too much")

    def _on_words(self, message: String) -> None:
        self._called("words")
        self._publisher.publish(message)

    def _on_ask(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        self._called("ask")
        response.success = True
        return response

    def _tick(self) -> None:
        self._called("tick")
        self._publisher.publish(String(data="tick"))

    def parameter_changed(self, name: str, value: Any) -> None:
        self._called("parameter")

    def after_error(self, where: str, arguments: tuple[Any, ...]) -> None:
        self.after.append((where, arguments))
        self._called("after")

    def deactivate(self) -> None:
        self._called("deactivate")

    def cleanup(self) -> None:
        subscription, service, timer = self.entities
        self.destroy_timer(timer)
        self.destroy_subscription(subscription)
        self.destroy_service(service)
        self.destroy_lifecycle_publisher(self._publisher)
        self._called("cleanup")

    def diagnose(self) -> Any:
        self._called("diagnose")
        return super().diagnose()


def test_events_that_are_queued_when_their_entity_is_destroyed_do_not_run() -> None:
    with Runtime() as runtime:
        node, asker = Fragile(context=runtime.context), Fragile("asker", context=runtime.context)
        runtime.add(node)
        runtime.add(asker)
        node.bring_up("configure", "activate")
        publisher = asker.create_publisher(String, "words", qos.TASK)
        client = asker.create_client(SetBool, "fragile/ask")
        end = time.monotonic() + 20.0
        while not (client.service_is_ready() and publisher.get_subscription_count() and "tick" in node.calls):
            assert time.monotonic() < end
            runtime.spin_some(0.01)
        # The executor does not run: a message, a request and a tick wait for it.
        publisher.publish(String(data="last"))
        client.call_async(SetBool.Request())
        time.sleep(0.1)
        node.trigger_deactivate()
        node.trigger_cleanup()
        before = list(node.calls)
        runtime.spin_some(0.2)
        assert [name for name in node.calls if name != "diagnose"] == [name for name in before if name != "diagnose"]
    assert runtime.failures == []


def test_a_node_that_is_destroyed_leaves_the_graph_at_once(graph: Any) -> None:
    """Though somebody still holds it: before, its services stayed until the garbage collector came by, or for as long as it was held."""
    def services() -> set[str]:
        return {name for name, _ in graph.node.get_service_names_and_types() if name.startswith("/fragile/")}

    node = graph.add(Fragile)
    assert {"/fragile/ask", "/fragile/get_state", "/fragile/change_state"} <= services()
    graph.runtime.executor.remove_node(node)
    graph.runtime.nodes.remove(node)
    node.destroy_node()
    # One service of rclpy itself stays until the last node of the process goes.
    graph.wait(lambda: services() <= {"/fragile/get_type_description"} and "fragile" not in graph.node.get_node_names(), "its going")
    node.destroy_node()  # twice is once


def test_a_run_that_ends_leaves_no_participant_behind() -> None:
    """One with a thread or more for each of its ways to others; what was run holds on to its nodes."""
    def threads() -> int:
        return len(os.listdir("/proc/self/task"))

    before = threads()
    with Runtime() as runtime:
        runtime.add(Fragile(context=runtime.context))
        assert threads() >= before + 3
    end = time.monotonic() + 20.0
    while threads() > before:
        assert time.monotonic() < end, f"{threads()} threads, {before} before"
        time.sleep(0.01)


@pytest.mark.parametrize("fault", ["words", "ask", "tick", "parameter"])
def test_an_exception_in_a_callback_stays_in_its_node_and_is_told(graph: Any, monkeypatch: Any, fault: str) -> None:
    monkeypatch.setattr(Fragile, "faults", frozenset({fault, "after"}))
    diagnostics = graph.listen("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray")
    node = graph.add(Fragile)
    publisher = graph.node.create_publisher(String, "words", qos.TASK)

    def happened() -> bool:
        publisher.publish(String(data="x"))
        return node.calls.count(fault) >= 3 and "after" in node.calls

    if fault == "ask":
        for _ in range(3):
            answer = graph.call(SetBool, "fragile/ask")
            assert not answer.success and "internal error" in answer.message
    elif fault == "parameter":
        for _ in range(3):
            result = node.set_parameters([RosParameter("gain", value=2.0)])[0]
            assert not result.successful and "parameter is too much" in result.reason
    graph.wait(happened)
    graph.wait(lambda: (d := graph.diagnosis(diagnostics, "fragile")) and d.level == DiagnosticStatus.ERROR)
    assert f"{fault}: OverflowError" in graph.diagnosis(diagnostics, "fragile").message.replace("on_", "").replace("_changed", "")
    # Each kind of error once, however often it happens; the node goes on.
    assert len(node.errors) == 2 and f"{fault} is too much" in node.errors[0] and "after is too much" in node.errors[1]
    assert node.errors[0].startswith("fragile: ")
    node.trigger_deactivate()
    node.trigger_cleanup()
    monkeypatch.setattr(Fragile, "faults", frozenset())
    node.trigger_configure()
    diagnostics.clear()  # of errors before: there are none any more
    graph.wait(lambda: (d := graph.diagnosis(diagnostics, "fragile")) and d.level == DiagnosticStatus.OK)


@pytest.mark.parametrize("step", ["configure", "activate"])
@pytest.mark.parametrize("error", [ZeroDivisionError("a bug"), InputError("no such file")])
def test_what_a_transition_that_broke_off_had_made_is_not_there_twice(graph: Any, step: str, error: Exception) -> None:
    class Half(Fragile):
        broken, made = True, False

        def configure(self) -> None:
            super().configure()
            self.create_client(SetBool, "whatever")
            self.create_action(Calibrate, "act", lambda goal: None, lambda goal: None, lambda goal: None)
            self.fails("configure")
            self.made = True

        def activate(self) -> None:
            self.fails("activate")

        def fails(self, name: str) -> None:
            if self.broken and name == step:
                raise error

        def cleanup(self) -> None:
            assert self.made
            super().cleanup()

        def count(self) -> int:
            return len(self.all_entities())

    node = Half(context=graph.runtime.context)
    graph.runtime.add(node)
    before = node.count()
    with pytest.raises(InputError):
        node.bring_up("configure", "activate")
    if step == "activate" and isinstance(error, InputError):  # refused, and still configured
        assert node.state == "inactive"
        return
    assert node.state == "unconfigured" and node.count() == before
    node.broken = False
    node.bring_up("configure", "activate")
    assert node.count() == before + 6
    graph.wait(lambda: "tick" in node.calls)
    assert node.errors == []


def test_a_request_for_parameters_that_makes_no_sense_is_refused(graph: Any) -> None:
    """rclpy raises on a type that there is not; here that is the answer, and no failure of the run."""
    node = graph.add(Fragile)
    odd = ParameterMessage(name="gain", value=ParameterValue(type=255))
    good = ParameterMessage(name="gain", value=ParameterValue(type=3, double_value=2.0))
    results = graph.call(SetParameters, "fragile/set_parameters", parameters=[good, odd]).results
    assert len(results) == 2 and not results[1].successful and "255" in results[1].reason
    assert node.value("gain") == 1.0
    assert "255" in graph.call(SetParametersAtomically, "fragile/set_parameters_atomically", parameters=[odd]).result.reason
    assert graph.call(SetParameters, "fragile/set_parameters", parameters=[good]).results[0].successful
    assert node.errors == []


def test_endpoints_are_made_as_declared_and_end_with_the_cleanup(graph: Any, monkeypatch: Any) -> None:
    loud = given("gain", 2.0)
    monkeypatch.setattr(Fragile, "ENDPOINTS", (
        subscribes("loud", String, qos.TASK, "words", when=loud), publishes("said", String, qos.LATCHED, "words"),
        serves("~/more", SetBool, "of it", when=loud), subscribes("either", String, qos.TASK, "words", when=loud),
        subscribes("either", Empty, qos.SENSOR, "nothing")))
    made: list[Any] = []

    def configure(node: Any) -> None:
        made[:] = [node.subscription("loud", made.append), node.publisher("said"), node.service("~/more", made.append),
                   node.subscription("either", made.append)]

    monkeypatch.setattr(Fragile, "configure", configure)
    monkeypatch.setattr(Fragile, "cleanup", lambda node: None)
    node = graph.add(Fragile, active=False)
    for _ in range(2):
        node.bring_up("configure")
        assert [entity is not None for entity in made] == [False, True, False, True]
        assert made[3].msg_type is Empty and made[3].qos_profile.reliability == qos.SENSOR.reliability
        assert graph.node.count_publishers("said") == graph.node.count_subscribers("either") == 1
        node.trigger_cleanup()
        assert graph.node.count_publishers("said") == graph.node.count_subscribers("either") == 0
    with pytest.raises(LookupError, match="ENDPOINTS of fragile has no 'shout' that it publishes"):
        node.publisher("shout")


def test_counts_of_a_node_begin_anew_with_its_activation_and_those_of_refused_inputs_go_on(graph: Any) -> None:
    node = graph.add(Fragile)
    node.refusals.refuse("words", "no words")
    said = graph.listen("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray")

    def summaries() -> list[str]:
        return [status.message for message in said for status in message.status if status.name == "fragile"]

    graph.wait(lambda: any("1 inputs refused" in text for text in summaries()))
    assert node.increase("ticks", 5) == 5
    node.trigger_deactivate()
    node.trigger_activate()
    assert node.increase("ticks", 5) == 5
    before = len(summaries())
    graph.wait(lambda: len(summaries()) > before + 1)
    assert sum("inputs refused" in text for text in summaries()) == 1


def test_a_diagnosis_that_fails_is_an_error_in_the_diagnostics(graph: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(Fragile, "faults", frozenset({"diagnose"}))
    diagnostics = graph.listen("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray")
    node = graph.add(Fragile)
    graph.wait(lambda: (d := graph.diagnosis(diagnostics, "fragile")) and "diagnose: OverflowError" in d.message)
    assert len(node.errors) == 1


def test_who_publishes_what_a_node_alone_should_is_a_warning(graph: Any, monkeypatch: Any, capfd: Any) -> None:
    """Who is there before the start is refused; who comes later is named."""
    monkeypatch.setattr(Fragile, "ENDPOINTS", (publishes("echo", String, qos.TASK, "words again", sole=True),))
    diagnostics = graph.listen("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray")
    graph.add(Fragile)
    graph.wait(lambda: (d := graph.diagnosis(diagnostics, "fragile")) and d.level == DiagnosticStatus.OK and d.message == "active")
    rival = graph.node.create_publisher(String, "echo", qos.TASK)
    said = f"/echo is published by {graph.node.get_fully_qualified_name()} too"
    for _ in range(2):
        diagnostics.clear()
        graph.wait(lambda: (d := graph.diagnosis(diagnostics, "fragile")) and d.level == DiagnosticStatus.WARN and d.message == said)
    graph.node.destroy_publisher(rival)
    graph.wait(lambda: (d := graph.diagnosis(diagnostics, "fragile")) and d.level == DiagnosticStatus.OK)
    assert capfd.readouterr().err.count(said) == 1


def test_what_no_guard_catches_does_not_end_the_run_either(graph: Any) -> None:
    foreign: list[int] = []

    def fail() -> None:
        foreign.append(1)
        raise ZeroDivisionError("division by zero")

    graph.node.create_timer(0.01, fail)
    node = graph.add(Fragile)
    graph.wait(lambda: "tick" in node.calls and len(foreign) > 2)
    assert graph.runtime.failures == ["the executor: ZeroDivisionError: division by zero"]


@pytest.mark.parametrize("fault", ["deactivate", "cleanup"])
def test_whatever_fails_at_the_end_the_bag_is_closed(tmp_path: Path, monkeypatch: Any, fault: str) -> None:
    monkeypatch.setattr(Fragile, "faults", frozenset({fault}))
    with Runtime() as runtime:
        recorder = Recorder(context=runtime.context, parameter_overrides=[RosParameter("bag", value=str(tmp_path / "bag"))])
        nodes = [recorder, Fragile(context=runtime.context), Fragile("second", context=runtime.context)]
        for node in nodes:
            runtime.add(node)
            node.bring_up("configure", "activate")
        runtime.spin(until=lambda: recorder.bag.written > 10)
    assert bag_info(tmp_path / "bag", digest=False)["closed"]
    assert [line.split(":")[0] for line in runtime.failures] == ["second", "fragile"]
    assert all("cleanup" in node.calls and f"{fault} is too much" in line for node, line in zip(nodes[:0:-1], runtime.failures))


def test_a_run_with_a_failure_has_its_summary(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setattr(InputPlayer, "cleanup", lambda self: 1 / 0)
    with pytest.raises(RunError, match="input_player: cleanup: ZeroDivisionError: division by zero") as caught:
        compose.run_stack("simulator", speed=0, duration=0.2, record=tmp_path / "bag", quiet=True)
    assert caught.value.summary["simulated_seconds"] == 0.2
    assert caught.value.summary["messages_recorded"] > 20
    assert bag_info(tmp_path / "bag", digest=False)["closed"]


def test_a_signal_that_comes_again_does_not_disturb_the_end(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("lfdm_ros.ros.runtime.AGAIN", 0.0)  # each signal counts
    closed: list[str] = []

    class Slow(Fragile):
        def cleanup(self) -> None:
            os.kill(os.getpid(), signal.SIGINT)  # the second: ignored
            closed.append("second")
            os.kill(os.getpid(), signal.SIGTERM)  # the third: breaks this off, and nothing else
            closed.append("never")

    with Runtime() as runtime:
        recorder = Recorder(context=runtime.context, parameter_overrides=[RosParameter("bag", value=str(tmp_path / "bag"))])
        for node in (recorder, Slow(context=runtime.context)):
            runtime.add(node)
            node.bring_up("configure", "activate")
        os.kill(os.getpid(), signal.SIGINT)
        assert runtime.spin() == "interrupted"
    assert closed == ["second"]
    assert bag_info(tmp_path / "bag", digest=False)["closed"]
    assert runtime.failures == ["fragile: its release: Interrupted: "]


def test_a_second_signal_breaks_off_what_a_node_is_doing_unless_it_comes_at_once(monkeypatch: Any) -> None:
    class Stuck(Fragile):
        def _tick(self) -> None:
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGTERM)
            self.calls.append("undisturbed")
            monkeypatch.setattr("lfdm_ros.ros.runtime.AGAIN", 0.0)  # later than at once
            os.kill(os.getpid(), signal.SIGTERM)
            self.calls.append("never")

    with pytest.raises(Interrupted) as caught, Runtime() as runtime:
        node = Stuck(context=runtime.context)
        runtime.add(node)
        node.bring_up("configure", "activate")
        runtime.spin()
    assert "undisturbed" in node.calls and "never" not in node.calls and "cleanup" in node.calls
    assert node.state == "finalized" and runtime.failures == []
    assert caught.value.status == 143


def test_a_signal_takes_no_lock_and_a_long_run_keeps_nothing(monkeypatch: Any) -> None:
    turns: list[Any] = []

    class Turn(rclpy_adapter.Future):  # type: ignore[misc]
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            turns.append(self)

        def set_result(self, result: Any) -> None:  # takes a lock, and one of the executor for each of its callbacks
            self.finished = True
            super().set_result(result)

    monkeypatch.setattr(rclpy_adapter, "Future", Turn)
    with Runtime() as runtime:
        node = Fragile(context=runtime.context)
        runtime.add(node)
        node.bring_up("configure", "activate")
        end = time.monotonic() + 20.0
        assert runtime.spin(until=lambda: (len(turns) > 5 and "tick" in node.calls) or time.monotonic() > end) == "until"
    assert len(turns) > 5
    turns.clear()
    with Runtime() as runtime:
        os.kill(os.getpid(), signal.SIGINT)
        assert runtime.spin() == "interrupted"
    assert not any(hasattr(turn, "finished") for turn in turns)


@pytest.mark.parametrize("ended_by", ["time", "until", "signal"])
def test_nodes_that_are_given_more_than_they_can_do_end_nevertheless(ended_by: str) -> None:
    """Each task makes the next one, so that the executor always has something to do."""
    with Runtime() as runtime:
        node = Fragile(context=runtime.context)
        runtime.add(node)
        node.bring_up("configure", "activate")
        begin = time.monotonic()
        done: list[float] = []

        def task() -> None:
            done.append(time.monotonic())
            if len(done) == 10 and ended_by == "signal":
                os.kill(os.getpid(), signal.SIGINT)
            if done[-1] < begin + 30.0:
                runtime.executor.create_task(task)

        runtime.executor.create_task(task)
        reason = runtime.spin(timeout=0.2 if ended_by == "time" else None, until=(lambda: len(done) > 10) if ended_by == "until" else None)
        assert reason == {"time": "ran 0.2 s", "until": "until", "signal": "interrupted"}[ended_by]
        runtime.spin_some(0.01)
        assert len(done) > 10 and time.monotonic() < begin + 20.0
        begin = -30.0
    assert runtime.failures == [] and node.state == "finalized"


def test_signals_do_not_keep_processes_from_being_told_to_end(monkeypatch: Any) -> None:
    monkeypatch.setattr("lfdm_ros.ros.runtime.AGAIN", 0.0)  # each signal counts
    told: list[str] = []

    class Child:
        def __init__(self, name: str) -> None:
            self.name = name

        def end(self) -> str:
            for _ in range(3):
                os.kill(os.getpid(), signal.SIGINT)
            told.append(self.name)
            return ""

    def run(stack: Any, timeout: Any, manager: Any, runtime: Any, folder: Any, children: list[Any]) -> tuple[dict[str, Any], list[Any]]:
        children += [Child("recorder"), Child("simulator")]
        return {}, []

    monkeypatch.setattr(processes, "serve", run)
    processes.run_processes(compose.prepare_stack("simulator")[0])
    assert told == ["simulator", "recorder"]


def test_sigterm_before_the_run_is_its_exit_status() -> None:
    with pytest.raises(Interrupted) as caught, Runtime() as runtime:
        os.kill(os.getpid(), signal.SIGTERM)
        runtime.raise_if_interrupted()
    assert caught.value.status == 143


def test_a_lockstep_run_that_nobody_drives_ends_as_failed(tmp_path: Path) -> None:
    stack = {"nodes": [{"executable": "vehicle_simulator", "parameters": {"stepping": "lockstep", "answer_timeout": 0.2}}]}
    with pytest.raises(RunError, match=r"no command for the state of 0 s in [0-9.]+ s; /control/command is published by nobody") as caught:
        compose.run_stack(stack, speed=0, duration=1.0, record=tmp_path / "bag", quiet=True)
    assert caught.value.summary["ticks"] == 0
    assert bag_info(tmp_path / "bag", digest=False)["closed"]
    demo = {entry.executable: entry for entry in compose.prepare_stack("demo", duration=1.0)[0].nodes}
    assert demo["vehicle_simulator"].value("answer_timeout") == 30.0


# ---- a node's executable, as a process ---------------------------------------------------------------------------------


def started(*arguments: str) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen([sys.executable, "-m", "lfdm_ros.starting", *arguments], env=env, text=True, stderr=subprocess.PIPE)


def test_the_command_lfdm_starts_the_same_way() -> None:
    """Its entry point imports nothing slow before signals have handlers."""
    text = (Path(__file__).resolve().parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    assert 'lfdm = "lfdm_ros.starting:lfdm"' in text
    done = subprocess.run([sys.executable, "-X", "importtime", "-c", "import lfdm_ros.starting"], check=True, capture_output=True,
                          text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert "numpy" not in done.stderr and "lfdm_ros.starting" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_the_import_ends_a_node_without_a_word(tmp_path: Path, monkeypatch: Any, number: signal.Signals) -> None:
    (tmp_path / "slow_node.py").write_text(f"import os\nos.kill(os.getpid(), {int(number)})\n[].pop()\n")
    monkeypatch.syspath_prepend(tmp_path)
    process = started("slow_node")
    assert process.communicate(timeout=60)[1] == "" and process.returncode == 0


def test_a_command_whose_end_hangs_is_ended_by_sigterm(tmp_path: Path, monkeypatch: Any) -> None:
    """As where a bag's disk hangs: the interpreter waits for the bag's thread."""
    (tmp_path / "hung.py").write_text("""
import os, signal, threading, time

def hang():
    while threading.main_thread().is_alive():
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(1.0)
    os._exit(5)

def main():
    threading.Thread(target=hang).start()
""")
    monkeypatch.syspath_prepend(tmp_path)
    command = "import sys; from lfdm_ros.starting import start; sys.exit(start('hung', node=False))"
    done = subprocess.run([sys.executable, "-c", command], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, check=False,
                          capture_output=True, text=True)
    assert done.returncode == -signal.SIGTERM and done.stderr == ""


@pytest.mark.parametrize(("autostart", "status", "states"), [("true", 0, ["active"]), ("false", 0, ["unconfigured"]), ("maybe", 2, [])])
def test_a_node_in_its_own_process_starts_itself_where_it_is_told_to(capfd: Any, autostart: str, status: int, states: list[str]) -> None:
    seen: list[str] = []

    class Alone(Fragile):
        def publish_diagnostics(self) -> None:  # called once a second, in any state
            seen.append(self.state)
            self.stop_requested("seen")

    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        assert run_node(Alone, ["alone", "--ros-args", "-p", f"autostart:={autostart}"]) == status
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert seen[:1] == states
    errors = capfd.readouterr().err
    assert ("waits to be configured" in errors) == (autostart == "false")
    assert ("autostart" in errors) == (autostart != "true")


@pytest.mark.parametrize("wrong", [Time(sec=-1), Time(nanosec=1_000_000_000)], ids=["negative", "nanoseconds"])
def test_a_clock_that_tells_no_time_is_refused_and_the_next_one_counts(wrong: Time) -> None:
    with Runtime() as runtime:
        node = Fragile(context=runtime.context, parameter_overrides=[RosParameter("use_sim_time", value=True)])
        runtime.add(node)
        node.bring_up("configure")
        hear = next(subscription.callback for subscription in node.subscriptions if subscription.topic_name == "/clock")
        hear(Clock(clock=wrong))
        assert node.refusals.counts == {"clock": 1} and not node.errors
        hear(Clock(clock=Time(sec=7)))
        assert node.get_clock().now().nanoseconds == 7_000_000_000
    assert not runtime.failures
