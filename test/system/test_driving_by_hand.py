"""A person drives in a terminal: two commands, each a process, the second one on a pseudo-terminal whose keys the test presses."""

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import domains
import pytest
from rclpy.node import Node
from sensor_msgs.msg import Joy

from lfdm_ros.msg import SimulatorStatus
from lfdm_ros.ros import qos
from lfdm_ros.ros.runtime import Runtime
from lfdm_ros.stacks.stack import load_stack

PATIENCE = 240.0  # [s] for anything to happen
BUSY = ("--set", "command_timeout=10.0")  # on a busy machine commands come late, and a run in which they do not act has failed
Start = Callable[..., subprocess.Popen[bytes]]


class Terminal:
    """`lfdm teleop` on a terminal of its own: what it shows, and its keys."""

    def __init__(self, start: Start, *arguments: str) -> None:
        self._keys, self._screen = os.openpty()
        fcntl.ioctl(self._screen, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
        self.before = termios.tcgetattr(self._screen)
        self._text = ""
        self.process = start("teleop", *arguments, stdin=self._screen, stdout=self._screen, stderr=self._screen, start_new_session=True,
                             preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    @property
    def now(self) -> list[int]:
        """The terminal's settings."""
        return termios.tcgetattr(self._screen)

    def press(self, keys: str) -> None:
        os.write(self._keys, keys.encode())

    @property
    def shown(self) -> str:
        """What stands there last."""
        while select.select([self._keys], [], [], 0.0)[0]:
            self._text += os.read(self._keys, 65536).decode(errors="replace")
        return (["", *self._text.split("\x1b[J")])[-2]

    def wait(self, condition: Callable[[], Any], keys: str = "") -> None:
        """Until a condition holds, with keys held, which repeat."""
        end = time.monotonic() + PATIENCE
        while not condition():
            assert self.process.poll() is None and time.monotonic() < end, self._text[-2000:]
            self.press(keys)
            time.sleep(0.1)

    def number(self, pattern: str) -> float:
        """A number that stands there; NaN: it does not."""
        found = re.search(pattern, self.shown)
        return float(found[1]) if found else float("nan")

    @property
    def speed(self) -> float:
        return self.number(r"speed +(-?[\d.]+) m/s")

    def ended(self) -> int:
        """The exit status, once it has ended; it is read meanwhile, as a terminal does."""
        end = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < end:
            _ = self.shown
            time.sleep(0.1)
        return self.process.wait(0.0)

    def close(self) -> None:
        os.close(self._keys)
        os.close(self._screen)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts `lfdm`; what still runs at the end of the test is ended."""
    processes: list[subprocess.Popen[bytes]] = []

    def begin(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        processes.append(subprocess.Popen([sys.executable, "-m", "lfdm_ros.cli", *arguments], env=domains.environment(), cwd=tmp_path,
                                          **options))
        return processes[-1]

    yield begin
    for process in processes:
        if process.poll() is None:
            process.kill()
            process.wait()


@pytest.fixture
def terminal(start: Start) -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def begin(*arguments: str) -> Terminal:
        opened.append(Terminal(start, *arguments))
        return opened[-1]

    yield begin
    for one in opened:
        one.close()


def end(stack: subprocess.Popen[bytes], status: int = 130) -> None:
    stack.send_signal(signal.SIGINT)
    assert stack.wait(PATIENCE) == status


def test_keys_and_a_joystick_drive_and_the_terminal_is_as_before(start: Start, terminal: Callable[..., Terminal]) -> None:
    person = terminal()  # first: it waits for the vehicle
    person.wait(lambda: "no state of a vehicle yet" in person.shown and "no node subscribes to /teleop/command" in person.shown)
    assert person.now[3] != person.before[3]
    stack = start("up", "teleop", *BUSY, stderr=subprocess.DEVNULL)
    person.wait(lambda: "km/h" in person.shown and "nearest obstacle" in person.shown)  # before it has gone past them all
    person.wait(lambda: person.speed > 1.0, keys="w")
    person.wait(lambda: re.search(r"steering \S+ left", person.shown) and "drives    you" in person.shown, keys="wa")
    person.wait(lambda: "brake 1.00" in person.shown, keys=" ")
    person.press("\x03")  # Ctrl-C
    assert person.ended() == 130 and person.now == person.before
    person = terminal("--joystick")
    person.wait(lambda: "joystick: nothing yet on joy" in person.shown)
    with Runtime(domain_id=domains.other()) as runtime:
        node = Node("joy_node", context=runtime.context)
        joy = node.create_publisher(Joy, "joy", 5)

        def held() -> bool:
            joy.publish(Joy(axes=[0.5, 0.0, 1.0, 0.0, 0.0, -1.0], buttons=[0, 0, 0, 0, 1]))
            return person.speed > 1.0 and "throttle 1.00" in person.shown

        person.wait(held)
        node.destroy_node()
    person.wait(lambda: "brake 0.40" in person.shown)  # nobody holds its button
    person.process.send_signal(signal.SIGINT)
    assert person.ended() == 130 and person.now == person.before
    end(stack)


def test_the_vehicle_is_shared_and_k_and_mode_are_shown(start: Start, terminal: Callable[..., Terminal]) -> None:
    stack = start("up", "shared_human", stderr=subprocess.DEVNULL)
    person = terminal()
    person.wait(lambda: "mode blend" in person.shown and person.number(r"k (\d\.\d\d)") >= 0.0)
    person.wait(lambda: person.speed > 1.0 and "sharing: " in person.shown, keys="w")
    assert len(Path(f"/proc/{stack.pid}/task/{stack.pid}/children").read_text().split()) == len(load_stack("shared_human").nodes)
    person.press("q")
    assert person.ended() == 0 and person.now == person.before
    end(stack)


def test_why_commands_are_refused_is_shown(start: Start, terminal: Callable[..., Terminal]) -> None:
    stack = start("up", "teleop", "--namespace", "a", stderr=subprocess.DEVNULL)
    person = terminal("--topic", "/a/teleop/command")  # which is not stamped by the clock of that vehicle, /a/clock
    person.wait(lambda: re.search(r"a/vehicle_simulator: .*commands refused, the last one from_the_future: stamped \d", person.shown))
    with Runtime(domain_id=domains.other()) as runtime:  # until it has lasted for long enough to spoil the run
        node, heard = Node("listener", context=runtime.context), []
        node.create_subscription(SimulatorStatus, "/a/simulator/status", heard.append, qos.STATUS)
        runtime.executor.add_node(node)
        person.wait(lambda: runtime.spin_some(0.05) or (heard and heard[-1].not_driven))
        node.destroy_node()
    person.press("q")
    assert person.ended() == 0
    end(stack, 1)  # commands did not act
