"""Cases of `lfdm fuzz page`: hostile pages on the cockpit's sockets while another page drives; every eighth on a stack with a simulator."""

import asyncio
import os
import threading
import time
from collections.abc import Iterable, Iterator
from functools import partial
from random import Random
from typing import Any

from lfdm_lab.fuzzing import Case
from lfdm_lab.page_client import find_url
from lfdm_lab.stacks.attack import alone
from lfdm_lab.stacks.commands import observe_commands
from lfdm_lab.stacks.page_attack import ALLOWED, PATIENT, PageAttack
from lfdm_ros.bounds import Refused
from lfdm_ros.cockpit.seat import Seat, SeatSettings
from lfdm_ros.cockpit.server import CockpitServer
from lfdm_ros.cockpit.wire import STATE, pack
from lfdm_ros.errors import RunError
from lfdm_ros.stacks.compose import run_stack

LIMIT = 120.0  # [s] on a busy machine
_ATTACKS = 12
_STACK_INTERVAL = 8  # every eighth case with a stack
_MAX_LINE = 300  # characters of a refusal
_STATE_PERIOD = 0.02  # [s]
_JOIN_SECONDS = 10.0
_STACK_SECONDS = 90.0  # [s] of the wall clock, at most

_STACK: dict[str, Any] = {"nodes": [
    {"executable": "vehicle_simulator", "parameters": {"vehicle": "hmmwv", "model": "eight_dof", "scenario": "yard", "speed_factor": 1.0},
     "remappings": {"control/command": "teleop/command"}},
    {"executable": "cockpit", "parameters": {"use_sim_time": True}}]}


def page_cases(seeds: Iterable[int]) -> Iterator[Case]:
    """Yields attacks on a server, some of them with its node and a simulated vehicle."""
    for seed in seeds:
        work, description = (_attack_stack, "stack") if seed % _STACK_INTERVAL == 0 else (_attack_server, "server")
        yield Case(seed, f"{description} under attack", partial(work, seed), LIMIT)


class CommandMonitor:
    """Checks that each command is that of the driver, of a released seat, or of a stop."""

    def __init__(self) -> None:
        self.count, self.fault = 0, ""

    def check(self, command: tuple[float, float, float] | None) -> None:
        """Checks a command: steering, throttle, brake."""
        self.count += 1
        # A comparison with NaN is false.
        if command is None or not any(max(abs(a - b) for a, b in zip(command, allowed)) < 1e-6 for allowed in ALLOWED):
            self.fault = self.fault or f"command {command}"


def _attack_server(seed: int) -> dict[str, Any]:
    """Attacks a server without a graph."""
    lines: list[str] = []

    def on_request(name: str, value: Any, page: str) -> None:
        if name == "stop" and value is True:
            server.stop_seat()
        elif name == "resume" and value is True:
            server.resume(page)
        elif (name, value) != ("pause", False):
            raise Refused(f"request {name[:30]!r} is unknown")

    server = CockpitServer(Seat(SeatSettings(**PATIENT)), on_request, on_refusal=lambda error: lines.append(str(error)))
    server.start()
    monitor, ended = CommandMonitor(), threading.Event()

    def publish() -> None:
        while not ended.is_set():
            number = server.next_number()
            server.publish(STATE, pack(STATE, 0.02 * number, [0.0] * 21, number))
            monitor.check(server.command(time.monotonic()))
            time.sleep(_STATE_PERIOD)

    publisher = threading.Thread(target=publish)
    publisher.start()
    attack = PageAttack(server.url, Random(f"page {seed}"))
    try:
        asyncio.run(attack.run(_ATTACKS))
    finally:
        ended.set()
        publisher.join()
        server.stop()
    failures = [f"a refusal of {line.count(chr(10)) + 1} lines, {len(line)} characters: {line[:100]!r}" for line in lines
                if not line.strip() or not line.isprintable() or len(line) > _MAX_LINE]
    if sum(server.refused.values()) != len(lines):
        failures.append(f"{len(lines)} lines for {sum(server.refused.values())} refusals")
    return _summarise(attack.done, monitor, failures, sum(server.refused.values()))


def _attack_stack(seed: int) -> dict[str, Any]:
    """Attacks the node of a stack, in this process."""
    alone()
    monitor, ended, failures, done = CommandMonitor(), threading.Event(), list[str](), list[str]()

    def attack() -> None:
        try:
            # `attempt` has redirected the output to a file. The subscription comes first, to check all commands.
            while (url := find_url(os.pread(1, os.fstat(1).st_size, 0).decode(errors="replace"))) is None or not monitor.count:
                time.sleep(0.05)
            page = PageAttack(url, Random(f"page {seed}"))
            asyncio.run(page.run(_ATTACKS))
            done.extend(page.done)
        except RunError as error:
            failures.extend(error.failures)
        finally:
            ended.set()

    def on_command(message: Any) -> None:
        monitor.check((message.steering, message.throttle, message.brake))

    listener = threading.Thread(target=partial(observe_commands, on_command, ended), daemon=True)
    for thread in (threading.Thread(target=attack, daemon=True), listener):
        thread.start()
    try:
        run_stack(_STACK, until=ended.is_set, timeout=_STACK_SECONDS, quiet=True, overrides={
            "vehicle_simulator.stepping": "free_running", **{f"cockpit.{name}": value for name, value in PATIENT.items()}})
    except RunError as error:  # a page may have paused or restarted the vehicle, so that it was not driven
        failures += [failure for failure in error.failures if not failure.endswith(error.summary.get("not_driven") or "\0")]
    if ended.is_set():
        listener.join(_JOIN_SECONDS)  # ending the process while a thread shuts down the middleware would abort it
    else:
        failures.append(f"the attack has not ended within {_STACK_SECONDS:g} s")
    return _summarise(done, monitor, failures)


def _summarise(done: list[str], monitor: CommandMonitor, failures: list[str], refused: int = 0) -> dict[str, Any]:
    """Returns a summary. Raises RunError: a check failed."""
    if monitor.fault:
        failures = [monitor.fault, *failures]
    if not monitor.count:
        failures = [*failures, "no command was published"]
    if failures:
        raise RunError(failures, {})
    return {"attacks": done, "commands": monitor.count, "refused": refused}
