"""The ROS graph: how fast the simulator node runs, what it costs in real time, how soon a command answers a state.

`lfdm bench graph`, or `python benchmarks/graph.py`. The simulator and the player that drives it share a process; the
subscriber to all of the simulator's topics is a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lfdm_ros.cli.bench import Record, format_table

os.environ.setdefault("ROS_DOMAIN_ID", "87")
os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"

TOPICS = ("clock", "vehicle/state", "odom", "imu", "wheels")
FAST_SECONDS = 150.0  # simulated
REAL_SECONDS = 5.0


def stack(**simulator: Any) -> dict[str, Any]:
    return {"parameters": {"scenario": "coast_down"}, "nodes": [
        {"executable": "input_player", "parameters": {"at_end": "hold"}},
        {"executable": "vehicle_simulator", "parameters": {"publish_rate": 100.0, **simulator}}]}


def measure(runs: int) -> list[Record]:
    """All numbers of `lfdm bench graph`."""
    # rclpy is loaded here and not above, because of the environment set there.
    from lfdm_ros.nodes.compose import run_stack

    cores = sorted(os.sched_getaffinity(0))

    def fast(own: int, other: int) -> float:
        with pinned(own), subscriber(other):
            return float(run_stack(stack(speed_factor=0.0), duration=FAST_SECONDS)["speed_factor"])

    def cost(executor: str) -> float:
        with subscriber(cores[-1]):
            summary = run_stack(stack(speed_factor=1.0), duration=REAL_SECONDS, executor=executor)
        return float(summary["cpu_seconds"] / summary["wall_seconds"])

    def lockstep(executor: str = "events") -> dict[str, Any]:
        return run_stack(stack(stepping="lockstep", speed_factor=0.0), duration=0.4 * FAST_SECONDS, executor=executor)

    def p99(summary: dict[str, Any]) -> float:
        times = sorted(summary["response_times"])
        return float(1e3 * times[int(0.99 * (len(times) - 1))])

    run_stack(stack(speed_factor=0.0), duration=1.0)  # compiles, loads
    events = [lockstep() for _ in range(runs)]
    single = [lockstep("single") for _ in range(runs)]
    return [
        Record.of("speed_factor_max", [fast(cores[0], cores[-1]) for _ in range(runs)], "1"),
        Record.of("speed_factor_max/subscriber_on_same_core", [fast(cores[0], cores[0]) for _ in range(runs)], "1"),
        Record.of("speed_factor_max/lockstep", [s["speed_factor"] for s in events], "1"),
        Record.of("speed_factor_max/lockstep_single_threaded_executor", [s["speed_factor"] for s in single], "1"),
        Record.of("cpu_share_1x", [cost("events") for _ in range(runs)], "1"),
        Record.of("cpu_share_1x/single_threaded_executor", [cost("single") for _ in range(runs)], "1"),
        Record.of("state_to_command_ms_p99", [p99(s) for s in events], "ms"),
        Record.of("state_to_command_ms_p99/single_threaded_executor", [p99(s) for s in single], "ms"),
    ]


@contextmanager
def pinned(core: int) -> Iterator[None]:
    """Keeps this thread, and those it starts, on one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def subscriber(core: int) -> Iterator[None]:
    """A process on one core that subscribes to all topics; fails when it hears nothing."""
    command = [sys.executable, str(Path(__file__).resolve()), "--subscribe", str(core)]
    # The same lfdm_ros as ours, also where it is run from the source tree.
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as child:
        assert child.stdout is not None
        child.stdout.readline()  # it is ready
        yield
        received, _ = child.communicate("end\n", timeout=30.0)
        if not int(received.split()[-1]):
            raise RuntimeError("the subscriber heard nothing; are the two processes in the same ROS domain?")


def subscribe(core: int) -> None:
    """The subscriber: counts the messages it hears until a line comes in."""
    os.sched_setaffinity(0, {core})
    import threading

    from rclpy.node import Node

    from lfdm_ros.nodes import qos
    from lfdm_ros.nodes.recorder import message_class
    from lfdm_ros.nodes.runtime import Runtime

    received = 0

    def hear(_: bytes) -> None:
        nonlocal received
        received += 1

    types = dict(zip(TOPICS, ("rosgraph_msgs/msg/Clock", "lfdm_ros/msg/VehicleState", "nav_msgs/msg/Odometry",
                              "sensor_msgs/msg/Imu", "sensor_msgs/msg/JointState")))
    with Runtime() as runtime:
        node = Node("benchmark_subscriber", context=runtime.context)
        for topic, msgtype in types.items():
            node.create_subscription(message_class(msgtype), topic, hear, qos.STATE, raw=True)
        runtime.executor.add_node(node)

        def end() -> None:
            sys.stdin.readline()
            runtime.stop("end")

        threading.Thread(target=end, daemon=True).start()
        print("ready", flush=True)
        runtime.spin()
        runtime.executor.remove_node(node)
        node.destroy_node()
    print(received)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--subscribe"]:
        subscribe(int(sys.argv[2]))
    else:
        print(format_table(measure(3)))
