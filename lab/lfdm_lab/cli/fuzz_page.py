"""Cases of `lfdm fuzz page`: hostile pages on the cockpit's sockets, beside one that drives; each eighth on a stack with a simulator."""

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
from lfdm_ros.errors import RunError

LIMIT = 120.0  # [s]; a run takes some, and on a busy machine many
_ATTACKS = 12
_WITH_STACK = 8  # every eighth case
_MAX_LINE = 300  # characters of a refusal
_STATE_PERIOD = 0.02  # [s]
_JOIN_SECONDS = 10.0
_STACK_SECONDS = 90.0  # [s] of the wall clock, at most

_STACK: dict[str, Any] = {"nodes": [
    {"executable": "vehicle_simulator", "parameters": {"vehicle": "hmmwv", "model": "eight_dof", "scenario": "yard", "speed_factor": 1.0},
     "remappings": {"control/command": "teleop/command"}},
    {"executable": "cockpit", "parameters": {"use_sim_time": True}}]}


def page_cases(seeds: Iterable[int]) -> Iterator[Case]:
    """Yields runs of a server, some with its node and a vehicle, under attack."""
    for seed in seeds:
        work, what = (_attack_stack, "stack") if seed % _WITH_STACK == 0 else (_attack_server, "server")
        yield Case(seed, f"{what} under attack", partial(work, seed), LIMIT)


class Watch:
    """Checks commands: finite ones of the driver, of a seat that is let go, or of a stop."""

    def __init__(self) -> None:
        from lfdm_lab.stacks.page_attack import ALLOWED

        self.seen, self.wrong, self._allowed = 0, "", ALLOWED

    def take(self, command: tuple[float, float, float] | None) -> None:
        """Takes a command: steering, throttle, brake."""
        self.seen += 1
        # A comparison with NaN is false.
        if command is None or not any(max(abs(a - b) for a, b in zip(command, allowed)) < 1e-6 for allowed in self._allowed):
            self.wrong = self.wrong or f"command {command}"


def _attack_server(seed: int) -> dict[str, Any]:
    """Attacks a server without a graph."""
    from lfdm_lab.stacks.page_attack import PATIENT, PageAttack
    from lfdm_ros.bounds import Refused
    from lfdm_ros.cockpit.seat import Seat, SeatSettings
    from lfdm_ros.cockpit.server import CockpitServer
    from lfdm_ros.cockpit.wire import STATE, pack

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
    watch, ended = Watch(), threading.Event()

    def publish() -> None:
        while not ended.is_set():
            number = server.next_number()
            server.publish(STATE, pack(STATE, 0.02 * number, [0.0] * 21, number))
            watch.take(server.command(time.monotonic()))
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
    return _judged(attack.done, watch, failures, sum(server.refused.values()))


def _attack_stack(seed: int) -> dict[str, Any]:
    """Attacks the node of a stack, in this process."""
    from lfdm_lab.stacks.attack import alone
    from lfdm_lab.stacks.commands import observe_commands
    from lfdm_lab.stacks.page_attack import PATIENT, PageAttack
    from lfdm_ros.stacks.compose import run_stack

    alone()
    watch, ended, failures, done = Watch(), threading.Event(), list[str](), list[str]()

    def attack() -> None:
        try:
            # `attempt` has made the output a file. Subscribed first, to check all commands.
            while (url := find_url(os.pread(1, os.fstat(1).st_size, 0).decode(errors="replace"))) is None or not watch.seen:
                time.sleep(0.05)
            page = PageAttack(url, Random(f"page {seed}"))
            asyncio.run(page.run(_ATTACKS))
            done.extend(page.done)
        except RunError as error:
            failures.extend(error.failures)
        finally:
            ended.set()

    def on_command(message: Any) -> None:
        watch.take((message.steering, message.throttle, message.brake))

    listener = threading.Thread(target=partial(observe_commands, on_command, ended), daemon=True)
    for thread in (threading.Thread(target=attack, daemon=True), listener):
        thread.start()
    try:
        run_stack(_STACK, until=ended.is_set, timeout=_STACK_SECONDS, quiet=True, overrides={
            "vehicle_simulator.stepping": "free_running", **{f"cockpit.{name}": value for name, value in PATIENT.items()}})
    except RunError as error:  # a vehicle that is paused or restarted by a page may not have been driven
        failures += [failure for failure in error.failures if not failure.endswith(error.summary.get("not_driven") or "\0")]
    if ended.is_set():
        listener.join(_JOIN_SECONDS)  # a process that ends while a thread shuts the middleware down is aborted
    else:
        failures.append(f"the attack has not ended within {_STACK_SECONDS:g} s")
    return _judged(done, watch, failures)


def _judged(done: list[str], watch: Watch, failures: list[str], refused: int = 0) -> dict[str, Any]:
    """Returns a summary. Raises RunError: a check failed."""
    if watch.wrong:
        failures = [watch.wrong, *failures]
    if not watch.seen:
        failures = [*failures, "no command was published"]
    if failures:
        raise RunError(failures, {})
    return {"attacks": done, "commands": watch.seen, "refused": refused}
