"""Hardware in the loop: how late ticks begin, how many round trips of lockstep a second has, how soon a command changes for an obstacle.

`lfdm bench hil`, or `python benchmarks/hil.py`. The loop runs beside nothing and with every core busy, as it is and with SCHED_FIFO and
locked memory where permitted (`/fifo`), and a bare sleep loop in the same run; devices are processes of their own.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from lfdm_lab.cli.bench import Record, format_table
from lfdm_ros.hil.link import COMMANDS, CONTROLLER, VEHICLE, LinkSettings, Packet, Wire, make_link
from lfdm_ros.hil.real_time import Wanted
from lfdm_ros.hil.rig import LOCKSTEP, Listeners, Pace, Rig
from lfdm_ros.hil.timing import Timing
from lfdm_ros.resources import share_directory

os.environ.setdefault("ROS_DOMAIN_ID", "89")
os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"

RATES = (100, 500, 1000)  # [Hz]
SECONDS = 60.0  # of each loop
TICKS = 5000  # of lockstep
TRIALS = 200
STEERING, PEDAL = 0.01, 0.05  # by which a command differs from those before
QUANTILES = {"p50": 0.5, "p99": 0.99, "p999": 0.999, "max": 1.0}
_PORTS = (47811, 47812, 47813)


def measure(runs: int, cycles: int | None = None, seconds: float = SECONDS) -> list[Record]:
    """All numbers of `lfdm bench hil`. cycles: trials of the reaction, instead of 200; seconds: of each loop."""
    records: list[Record] = []
    for load in ("idle", "loaded"):
        with busy(os.cpu_count() or 1) if load == "loaded" else _nothing():
            for rate in RATES:
                print(f"{load}, {rate} Hz: {3 * runs} loops of {seconds:g} s ...", file=sys.stderr)
                loops = {"": Wanted(), "/fifo": Wanted(50, True)}
                found = {name: [loop(rate, wanted, seconds) for _ in range(runs)] for name, wanted in loops.items()}
                found["/sleep"] = [sleep_loop(rate, seconds) for _ in range(runs)]
                for name, timings in found.items():
                    # The contract's keys are the loop's as users run it on an idle machine.
                    tail = f"{rate}{'' if load == 'idle' else '/loaded'}{name}"
                    for label, share in QUANTILES.items():
                        records.append(Record.of(f"lateness_us_{label}/{tail}", [1e6 * t.lateness.quantile(share) for t in timings], "us"))
                    records.append(Record.of(f"misses/{tail}", [t.misses for t in timings], "1"))
    print(f"lockstep over udp, can and ros: {runs} runs each of {TICKS} ticks ...", file=sys.stderr)
    records.append(Record.of("lockstep_per_s/udp", [lockstep_udp() for _ in range(runs)], "1/s"))
    records.append(Record.of("lockstep_per_s/can", [lockstep_can() for _ in range(runs)], "1/s"))
    records.append(Record.of("lockstep_per_s/ros", [lockstep_ros() for _ in range(runs)], "1/s"))
    print(f"reaction: {cycles or TRIALS} trials ...", file=sys.stderr)
    times = reaction(cycles or TRIALS)
    records += [Record(f"reaction_ms_{label}", 1e3 * float(np.quantile(times, share)), "ms", 0.0, len(times))
                for label, share in QUANTILES.items()]
    return records


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def _spin() -> None:
    while True:
        pass


@contextmanager
def busy(cores: int) -> Iterator[None]:
    """A process that computes for each core."""
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_spin, daemon=True) for _ in range(cores)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


# -- Timing -----------------------------------------------------------------------------------------------------------------


class Echo(Wire):
    """A device in this thread that answers at once."""

    def __init__(self) -> None:
        super().__init__()
        self.wire = self
        self._come: deque[Packet] = deque()
        self._values = dict.fromkeys(COMMANDS, 0.0)

    def open(self) -> None: ...
    def close(self) -> None: ...

    def send(self, packet: Packet) -> bool:
        self._come.append(Packet(packet.stamp_ns, self._values))
        return True

    def receive(self, timeout: float) -> Packet | None:
        return self._come.popleft() if self._come else None


def rig(link: Any, pace: Pace, rate: float = 100.0) -> Rig:
    """An 8-DOF HMMWV at 12 m/s."""
    from lfdm_ros.engine.command_gate import CommandGate
    from lfdm_ros.engine.plant import Plant
    from lfdm_ros.simulation import Pose, Simulator
    from lfdm_ros.simulation.actuator import Actuator
    from lfdm_ros.vehicles import load_vehicle

    vehicle = load_vehicle("hmmwv")
    plant = Plant(Simulator(vehicle, model="eight_dof", dt=1e-3), round(1000 / rate), Actuator.of(vehicle.actuators))
    plant.reset(Pose(speed=12.0), 0.0)
    return Rig(plant, link, CommandGate(0.5, 1.0, 0.5), pace, Listeners())


def loop(rate: int, wanted: Wanted, seconds: float) -> Timing:
    """The rig against a device that answers at once."""
    made = rig(Echo(), Pace(stop_time=seconds, publish_every=max(1, rate // 100), wanted=wanted), rate)
    made.run()
    return made.timing


def sleep_loop(rate: int, seconds: float) -> Timing:
    """Absolute deadlines and time.sleep, nothing else."""
    timing = Timing(1.0 / rate)
    for _ in range(round(seconds * rate)):
        timing.wait()
        timing.begin()
    return timing


# -- Lockstep ---------------------------------------------------------------------------------------------------------------


def ticks_per_second(made: Rig) -> float:
    """Of a run in lockstep, from its first answer on."""
    first: list[float] = []
    take = made._take

    def taken(packet: Packet) -> bool:
        first.append(time.perf_counter()) if not first else None
        return take(packet)

    made._take = taken  # type: ignore[method-assign]
    made.run()
    return (made.timing.ticks - 1) / (time.perf_counter() - first[0])


def _pace() -> Pace:
    return Pace(LOCKSTEP, stop_time=TICKS / 100.0, wait_limit=20.0)


def _answer_udp(settings: LinkSettings) -> None:
    link = make_link("udp", CONTROLLER, settings)
    link.open()
    values = dict.fromkeys(COMMANDS, 0.0)
    while True:
        packet = link.receive(1.0)
        if packet is not None:
            link.send(Packet(packet.stamp_ns, values))


def lockstep_udp() -> float:
    """Round trips a second with a process that answers by UDP."""
    here, there = _PORTS[:2]
    process = multiprocessing.get_context("fork").Process(
        target=_answer_udp, args=(LinkSettings(udp_port=there, udp_peer_port=here),), daemon=True)
    process.start()
    try:
        return ticks_per_second(rig(make_link("udp", VEHICLE, LinkSettings(udp_port=here, udp_peer_port=there)), _pace()))
    finally:
        process.kill()
        process.join()


def lockstep_can() -> float:
    """Round trips a second with examples/can_device.py, over the multicast bus."""
    command = [sys.executable, str(share_directory() / "examples" / "can_device.py"), "--port", str(_PORTS[2])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            return ticks_per_second(rig(make_link("can", VEHICLE, LinkSettings(can_port=_PORTS[2])), _pace()))
        finally:
            process.terminate()


def _answer_ros() -> None:
    from rclpy.node import Node

    from lfdm_ros.msg import DriverCommand, VehicleState
    from lfdm_ros.ros import qos
    from lfdm_ros.ros.runtime import Runtime

    with Runtime() as runtime:
        node = Node("benchmark_device", context=runtime.context)
        publisher = node.create_publisher(DriverCommand, "control/command", qos.COMMAND)
        command = DriverCommand()

        def answer(state: VehicleState) -> None:
            command.header.stamp = state.header.stamp
            publisher.publish(command)

        node.create_subscription(VehicleState, "measured/state", answer, qos.STATE)
        runtime.executor.add_node(node)
        runtime.spin(until=lambda: os.getppid() == 1)


def lockstep_ros() -> float:
    """Round trips a second with a node in a process of its own."""
    from lfdm_ros.nodes.hil_bridge import HilBridge
    from lfdm_ros.ros.runtime import Runtime

    process = subprocess.Popen([sys.executable, __file__, "--answer-ros"])
    try:
        with Runtime() as runtime:
            table = {p.name: p for p in HilBridge.PARAMETERS}
            values: dict[str, Any] = {"link": "ros", "mode": "lockstep", "initial_speed": 12.0, "stop_time": TICKS / 100.0,
                                      "wait_limit": 20.0}
            node = HilBridge(context=runtime.context, parameter_overrides=[table[name].ros(value) for name, value in values.items()])
            runtime.add(node)
            node.bring_up("configure")
            node.bring_up("activate")
            core = node.core
            end = time.monotonic() + 60.0
            while not core.time_ns and time.monotonic() < end:
                runtime.spin_some(0.02)
            begin, ticks = time.perf_counter(), core.timing.ticks
            runtime.spin(timeout=300.0)
            return (core.timing.ticks - ticks) / (time.perf_counter() - begin)
    finally:
        process.kill()
        process.wait()


# -- Reaction ---------------------------------------------------------------------------------------------------------------


def reaction(trials: int) -> np.ndarray:
    """Wall seconds from an obstacle's appearing before the vehicle to the first command that differs, of so many trials.

    The MPC at 50 Hz drives straight on at 10 m/s to a far goal, over ROS; LIDAR at 10 Hz, vehicle at 100 Hz in real time, in one process.
    At a time by chance an obstacle of 1 m stands 20 m ahead, and is taken away again once the command has changed.
    """
    import tempfile

    from lfdm_ros.ros.runtime import Runtime
    from lfdm_ros.simulation import Circle, World
    from lfdm_ros.stacks.compose import make_node
    from lfdm_ros.stacks.stack import prepare_stack

    random, found = np.random.default_rng(1), []
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as scenario, Runtime() as runtime:
        scenario.write("{initial: {speed: 10.0}, goal: {x: 40000.0, y: 0.0, tolerance: 5.0}, speed: 10.0, duration: 10000.0, "
                       "obstacles: [{circle: {x: 45000.0, y: 0.0, radius: 1.0}}]}")
        scenario.flush()
        stack, _ = prepare_stack({"parameters": {"scenario": scenario.name, "vehicle": "hmmwv", "lidar_rate": 10.0}, "nodes": [
            {"executable": "mpc_controller", "parameters": {"task": "scenario", "state_topic": "measured/state", "use_sim_time": True},
             "remappings": {"autonomy/command": "control/command"}},
            {"executable": "hil_bridge", "parameters": {"link": "ros", "command_timeout": 1.0}}]})
        nodes = [make_node(entry, runtime) for entry in stack.nodes]
        for node in nodes:
            runtime.add(node)
            node.bring_up("configure")
        bridge: Any = nodes[-1]
        heard: deque[tuple[float, float, float]] = deque(maxlen=25)  # when, steering, pedal: of half a second
        take = bridge.core.link.on_command

        def on_command(command: Any) -> None:
            heard.append((time.perf_counter(), command.steering, command.throttle - command.brake))
            take(command)

        from lfdm_ros.msg import DriverCommand
        from lfdm_ros.ros import qos

        bridge.create_subscription(DriverCommand, "control/command", on_command, qos.COMMAND)
        for node in nodes:
            node.bring_up("activate")

        def steady() -> bool:
            rows = np.array(heard)
            return len(rows) == 25 and bool((np.ptp(rows[:, 1:], axis=0) < (0.5 * STEERING, 0.5 * PEDAL)).all())

        for _ in range(trials):
            runtime.spin_some(1.5 + 0.1 * random.random())
            end = time.monotonic() + 60.0
            while not steady() and time.monotonic() < end:
                runtime.spin_some(0.05)
            before = np.median(np.array(heard)[:, 1:], axis=0)
            x, y, yaw = bridge.core.pose
            shown = time.perf_counter()
            bridge.show(World((Circle(x + 20.0 * np.cos(yaw), y + 20.0 * np.sin(yaw), 1.0),)))

            def reacted(before: np.ndarray = before, shown: float = shown) -> float:
                return next((at - shown for at, steering, pedal in list(heard)
                             if at > shown and (abs(steering - before[0]) > STEERING or abs(pedal - before[1]) > PEDAL)), 0.0)

            end = time.monotonic() + 3.0
            while not reacted() and time.monotonic() < end:
                runtime.spin_some(0.01)
            found.append(reacted() or float("inf"))
            bridge.show(World())
    return np.array(found)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--answer-ros"]:
        _answer_ros()
    else:
        print(format_table(measure(1)))
