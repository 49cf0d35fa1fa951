"""Latency of the cockpit's node and server: from an input of a page to the resulting state, and from a loss of input to the brake; their
processor load.

`lfdm bench page_latency`. The pages are clients of the sockets without a browser, so drawing time is not included.
"""

import asyncio
import math
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from lfdm_lab.cli.bench import Measurement
from lfdm_lab.page_client import PageClient, find_url
from lfdm_lab.stacks.commands import observe_commands
from lfdm_ros.errors import InputError

STEPS, LOSSES, CPU_SECONDS = 60, 100, 10.0
LOSS_TIMEOUT, MAX_TRIES = 5.0, 10  # [s]; to get the seat
_START_TIMEOUT = 120.0  # [s]

# Without shared control, each node in a process of its own; the other stack is the shipped one with shared control.
_DIRECT = """
processes: true
nodes:
  - {executable: vehicle_simulator, parameters: {vehicle: hmmwv, model: eighteen_dof, scenario: yard, lidar: true, speed_factor: 1.0},
     remappings: {control/command: teleop/command}}
"""


def measure(runs: int) -> list[Measurement]:
    """Measures all numbers of `lfdm bench page_latency`."""
    found = [asyncio.run(_run()) for _ in range(runs)]
    return [Measurement.of(name, [one[name] for one in found], "%" if name.startswith("cpu") else "ms") for name in found[0]]


async def _run() -> dict[str, float]:
    out: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "direct.yaml").write_text(_DIRECT)
        for name, stack in (("direct", "direct.yaml"), ("shared", "shared_human")):
            more = [] if name == "direct" else ["--set", "mode=operator"]
            log = Path(folder, name)
            with log.open("w") as output:
                process = subprocess.Popen(
                    [sys.executable, "-m", "lfdm_ros.cli", "cockpit", stack, "--port", "0", "--set", "released=brake", *more],
                    stdout=output, stderr=output, cwd=folder)
            commands: list[tuple[float, float]] = []
            ended = threading.Event()
            listener = threading.Thread(target=_listen, args=(commands, ended))
            listener.start()
            try:
                async for key, value in _measured(await _url(log), process.pid, commands):
                    print(f"{key}/{name}: {value:.1f}", file=sys.stderr, flush=True)
                    out[f"{key}/{name}"] = value
            finally:
                ended.set()
                listener.join()
                process.send_signal(signal.SIGINT)
                process.wait()
    return out


def _listen(commands: list[tuple[float, float]], ended: threading.Event) -> None:
    """Records (time, brake) of the commands on the graph."""
    def on_command(message: Any) -> None:
        commands.append((time.monotonic(), message.brake))

    observe_commands(on_command, ended)


async def _url(log: Path) -> str:
    end = time.monotonic() + _START_TIMEOUT
    while time.monotonic() < end:
        text = log.read_text()
        if "all nodes are active" in text and (found := find_url(text)):
            return found
        await asyncio.sleep(0.1)
    raise InputError(f"the stack does not start: {log.read_text()[-500:]}")


async def _measured(url: str, pid: int, commands: list[tuple[float, float]]) -> AsyncIterator[tuple[str, float]]:
    """Yields each number as soon as it is measured."""
    client = PageClient(url)
    await client.open()
    await asyncio.sleep(2.0)
    node = next(child for child in psutil.Process(pid).children(recursive=True) if "lfdm_ros.nodes.cockpit" in child.cmdline())
    answers = []
    for step in range(STEPS):
        await client.send(held=True, brake=1.0, steering=0.3 * (-1) ** step)
        await asyncio.sleep(0.8 + 0.013 * (step % 7))
        before, sent = client.state[1][10], time.monotonic()
        await client.send(steering=-client.intent["steering"])
        while abs(client.state[1][10] - before) < 1e-5 and time.monotonic() < sent + 2.0:
            await asyncio.sleep(0.0005)
        answers.append(1e3 * (client.state[0] - sent))
    for p in (50, 90, 99):
        yield f"steering_to_state_p{p}", float(np.percentile(answers, p))
    for loss in ("let_go", "closed", "silent"):
        times = []
        for number in range(LOSSES):
            await _hold(client, commands)
            await asyncio.sleep(0.1 + 0.0037 * (number % 10))  # varies the phase of both rates
            lost = time.monotonic()
            if loss == "let_go":
                await client.send(held=False)
            elif loss == "closed":
                client.close()
            else:
                client.silent = True
            await _until(partial(_braked, commands, lost))
            braked_at = next((at for at, brake in commands[-200:] if at > lost and brake > 0.0), math.inf)
            times.append(1e3 * (braked_at - lost))
            client.silent = False
            if loss == "closed":
                client = PageClient(url)
                await client.open()
                await asyncio.sleep(0.2)
        for p in (50, 99):
            yield f"{loss}_to_brake_p{p}", float(np.percentile(times, p))
    clients = [client]
    for count in (1, 4):
        while len(clients) < count:
            clients.append(PageClient(url))
            await clients[-1].open()
        node.cpu_percent()
        await asyncio.sleep(CPU_SECONDS)
        yield f"cpu_of_node_and_server_{count}_pages", node.cpu_percent()
    for one in clients:
        one.close()


async def _hold(client: PageClient, commands: list[tuple[float, float]]) -> None:
    """Releases and holds until the commands on the graph are the page's. Raises InputError: they never are."""
    for _ in range(MAX_TRIES):
        await client.send(held=False, brake=0.0)
        await asyncio.sleep(0.1)
        await client.send(held=True)
        if await _until(lambda: commands[-1][1] == 0.0):
            return
    raise InputError("the page does not get to drive: the machine is too busy")


def _braked(commands: list[tuple[float, float]], since: float) -> bool:
    return commands[-1][0] > since and commands[-1][1] > 0.0


async def _until(condition: Callable[[], bool]) -> bool:
    """Waits for a condition up to LOSS_TIMEOUT; returns True if it holds."""
    end = time.monotonic() + LOSS_TIMEOUT
    while not (holds := condition()) and time.monotonic() < end:
        await asyncio.sleep(0.001)
    return holds
