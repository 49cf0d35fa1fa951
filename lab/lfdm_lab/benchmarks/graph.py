"""The ROS graph: how fast the simulator node runs, what it costs in real time, how soon a command answers a state.

`lfdm bench graph`. The simulator and the player that drives it share a process; the
subscriber to all of the simulator's topics is a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lfdm_lab.cli.bench import Record, format_table

os.environ.setdefault("ROS_DOMAIN_ID", "87")
os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"

TOPICS = ("clock", "vehicle/state", "odom", "imu", "joint_states")
FAST_SECONDS = 150.0  # simulated
REAL_SECONDS = 5.0
DRIVE_SECONDS = 20.0


def measure(runs: int) -> list[Record]:
    """All numbers of `lfdm bench graph`."""
    cores = sorted(os.sched_getaffinity(0))
    drive(duration=1.0, speed_factor=0.0)  # compiles, loads

    def fast(own: int, other: int) -> tuple[float, float, float]:
        with pinned(own), Subscriber(other) as subscriber:
            run = drive(subscriber, duration=FAST_SECONDS, speed_factor=0.0)
        # The clock's queue holds one, so only the other topics must arrive whole.
        return run["speed_factor"], subscriber.received / (run["ticks"] * len(TOPICS)), 1e6 * run["cpu_seconds"] / run["ticks"]

    def cost(executor: str) -> float:
        with Subscriber(cores[-1]) as subscriber:
            run = drive(subscriber, executor, duration=REAL_SECONDS, speed_factor=1.0)
        return float(run["cpu_seconds"] / run["wall_seconds"])

    def p99(run: dict[str, Any]) -> float:
        times = sorted(run["response_times"])
        return float(1e3 * times[int(0.99 * (len(times) - 1))])

    other, same = ([fast(cores[0], core) for _ in range(runs)] for core in (cores[-1], cores[0]))
    lockstep = {executor: [drive(None, executor, duration=FAST_SECONDS / 3, speed_factor=0.0, stepping="lockstep")
                           for _ in range(runs)] for executor in ("events", "single")}
    return [
        Record.of("speed_factor_max", [speed for speed, *_ in other], "1"),
        Record.of("speed_factor_max/received_share", [share for _, share, _ in other], "1"),
        # Processor time, which a busy machine changes less than it changes the speed.
        Record.of("cpu_us_per_tick", [cpu for *_, cpu in other], "us"),
        Record.of("speed_factor_max/subscriber_on_same_core", [speed for speed, *_ in same], "1"),
        Record.of("speed_factor_max/subscriber_on_same_core/received_share", [share for _, share, _ in same], "1"),
        Record.of("speed_factor_max/lockstep", [run["speed_factor"] for run in lockstep["events"]], "1"),
        Record.of("speed_factor_max/lockstep/single_threaded", [run["speed_factor"] for run in lockstep["single"]], "1"),
        Record.of("cpu_share_1x", [cost("events") for _ in range(runs)], "1"),
        Record.of("cpu_share_1x/single_threaded", [cost("single") for _ in range(runs)], "1"),
        *state_to_command(runs, p99),
        Record.of("state_to_command_ms_p99/input_player", [p99(run) for run in lockstep["events"]], "ms"),
        Record.of("state_to_command_ms_p99/input_player/single_threaded", [p99(run) for run in lockstep["single"]], "ms"),
    ]


def state_to_command(runs: int, p99: Callable[[dict[str, Any]], float]) -> list[Record]:
    """From a state's publication to the arrival of the command that answers it, at real time: the controller at 50 Hz, the 24-DOF
    vehicle at 100 Hz and its LIDAR at 10 Hz in one process."""
    from lfdm_ros.stacks.compose import run_stack
    from lfdm_ros.stacks.stack import prepare_stack

    found = []
    for _ in range(runs):
        stack, timeout = prepare_stack("autonomy", duration=DRIVE_SECONDS, overrides={"scenario": "obstacle_field_20"})
        found.append(run_stack(stack, timeout=timeout))
    middle = [1e3 * sorted(run["response_times"])[len(run["response_times"]) // 2] for run in found]
    return [Record.of("state_to_command_ms_p99", [p99(run) for run in found], "ms"), Record.of("state_to_command_ms_p50", middle, "ms"),
            Record.of("state_to_command_ms_max", [1e3 * max(run["response_times"]) for run in found], "ms")]


def drive(subscriber: Subscriber | None = None, executor: str = "events", *, duration: float, **simulator: Any) -> dict[str, Any]:
    """One run of simulator and player, begun once the subscriber is connected; what run_stack says of it."""
    # rclpy is loaded here and not above, because of the environment set there.
    from lfdm_ros.nodes.vehicle_simulator import VehicleSimulator
    from lfdm_ros.ros.runtime import Runtime
    from lfdm_ros.stacks.compose import make_node
    from lfdm_ros.stacks.stack import prepare_stack

    prepared, _ = prepare_stack({"parameters": {"scenario": "coast_down"}, "nodes": [
        {"executable": "input_player", "parameters": {"at_end": "hold"}},
        {"executable": "vehicle_simulator", "parameters": {"publish_rate": 100.0, **simulator}}]}, duration=duration)
    with Runtime(executor=executor) as runtime:
        nodes = [make_node(entry, runtime) for entry in prepared.nodes]
        for node in nodes:
            runtime.add(node)
            node.bring_up("configure")
        if subscriber is not None:
            end = time.monotonic() + 20.0
            while any(nodes[-1].count_subscribers(topic) < 1 for topic in ("/clock", "odom", "imu", "joint_states")):
                if time.monotonic() > end:
                    raise RuntimeError("the subscriber does not connect; are the two processes in the same ROS domain?")
                runtime.spin_some(0.1)
            runtime.spin_some(0.5)
        for node in nodes:
            node.bring_up("activate")
        wall, cpu = time.monotonic(), time.process_time()
        runtime.spin(timeout=120.0)
        wall, cpu = time.monotonic() - wall, time.process_time() - cpu
        simulator_node = nodes[-1]
        assert isinstance(simulator_node, VehicleSimulator)
        summary = simulator_node.summary()
    return {**summary, "wall_seconds": wall, "cpu_seconds": cpu, "speed_factor": summary["simulated_seconds"] / wall}


@contextmanager
def pinned(core: int) -> Iterator[None]:
    """Keeps this thread, and those it starts, on one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Subscriber:
    """A process on one core that subscribes to all topics; `received` counts its messages once it has ended."""

    def __init__(self, core: int) -> None:
        # The same lfdm_ros as ours, also where it is run from the source tree.
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, str(Path(__file__).resolve()), "--subscribe", str(core)]
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        self.received = 0

    def __enter__(self) -> Subscriber:
        return self

    def __exit__(self, *unused: object) -> None:
        output, _ = self._child.communicate("end\n", timeout=60.0)
        self.received = int(output.split()[-1])


def subscribe(core: int) -> None:
    """The subscriber: counts the messages it hears until a line comes in."""
    os.sched_setaffinity(0, {core})
    import threading

    from rclpy.node import Node

    from lfdm_ros.ros import qos
    from lfdm_ros.ros.message_fields import interface_class
    from lfdm_ros.ros.runtime import Runtime

    received = 0

    def hear(_: bytes) -> None:
        nonlocal received
        received += 1

    types = dict(zip(TOPICS, ("rosgraph_msgs/msg/Clock", "lfdm_ros/msg/VehicleState", "nav_msgs/msg/Odometry",
                              "sensor_msgs/msg/Imu", "sensor_msgs/msg/JointState")))
    with Runtime() as runtime:
        node = Node("benchmark_subscriber", context=runtime.context)
        for topic, msgtype in types.items():
            node.create_subscription(interface_class(msgtype), topic, hear, qos.STATE, raw=True)
        runtime.executor.add_node(node)

        def end() -> None:
            sys.stdin.readline()
            runtime.stop("end")

        threading.Thread(target=end, daemon=True).start()
        runtime.spin()
        runtime.executor.remove_node(node)
        node.destroy_node()
    print(received)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--subscribe"]:
        subscribe(int(sys.argv[2]))
    else:
        print(format_table(measure(3)))
