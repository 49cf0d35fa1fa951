"""The rig: a lane change over CAN, in lockstep the same each time; silence, free-wheeling, deadlines."""

import gc
import itertools
import os
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ports import free_port

from lfdm_ros.cli.main import main
from lfdm_ros.hil import real_time
from lfdm_ros.hil.e2e import MIN_OK, E2EStateMachine
from lfdm_ros.hil.faults import Fault, Injector
from lfdm_ros.hil.link import COMMANDS, SIGNALS, VEHICLE, LinkSettings, Packet, Wire
from lfdm_ros.hil.real_time import CATCH_UP, EDGES, SKIP, STOP, Histogram, RealTimeRequest, Timing, granted, parse_cores
from lfdm_ros.hil.realism import Realism, load_realism
from lfdm_ros.hil.rig import END, LOCKSTEP, SILENT, UP, WAITING, Listeners, Pace, Rig

pytest.importorskip("cantools")
can = pytest.importorskip("can")

from lfdm_ros.hil.can_bus import CanLink  # noqa: E402
from lfdm_ros.hil.matrix import ROOM, SPEED, DirectBus, drive, lane_change_rig, reference_device, rows  # noqa: E402

EXAMPLE = Path(__file__).parents[2] / "examples" / "can_device.py"
HELD = dict(zip(COMMANDS, (0.05, 0.1, 0.0)))


class Device(Wire):
    """A link to a device in this thread: `answer` gives the commands to a packet."""

    def __init__(self, answer: Callable[[Packet], list[Packet]]) -> None:
        super().__init__()
        self.wire, self._answer = self, answer
        self._come: deque[Packet] = deque()
        self.stamps: list[int] = []

    def open(self) -> None: ...
    def close(self) -> None: ...

    def send(self, packet: Packet) -> bool:
        self.stamps.append(packet.stamp_ns)
        self._come.extend(self._answer(packet))
        return True

    def receive(self, timeout: float) -> Packet | None:
        return self._come.popleft() if self._come else None


def run(link: Any, seconds: float = 0.5, **more: Any) -> tuple[Rig, list[tuple[int, list[float]]], list[str]]:
    """A run in lockstep: the rig, what it told, and why it ended."""
    told: list[tuple[int, list[float]]] = []
    ends: list[str] = []
    rig = lane_change_rig(link, Pace(LOCKSTEP, stop_time=seconds, **more.pop("pace", {})),
                          Listeners(state=lambda t, o: told.append((t, list(o))), ended=ends.append, failed=ends.append), **more)
    rig.run()
    return rig, told, ends


def answers(packet: Packet) -> list[Packet]:
    return [Packet(packet.stamp_ns, HELD)]


# -- lockstep ---------------------------------------------------------------------------------------------------------------


def test_a_lane_change_over_can_and_what_is_wrong_with_it_in_a_fault() -> None:
    device = reference_device()
    good = drive((), device)
    assert good.deviation < ROOM and good.noticed == "nobody" and good.result == "kept the lane"
    stuck = drive((Fault("stuck", "steering", 4.0, 6.0),), device)
    assert stuck.result.startswith("left the lane") and stuck.noticed == "nobody"
    flipped = drive((Fault("bit_error", "steering", 4.0, 4.1),), device)
    assert flipped.deviation < ROOM and flipped.refused >= 10 and flipped.noticed == "link"
    heads, table = rows([good, stuck, flipped])
    assert [row[0] for row in table] == ["none", "stuck", "bit_error"] and all(len(row) == len(heads) for row in table)


def test_the_matrix_is_a_table_and_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hil", "faults", "--only", "clock_step", "--figure", str(tmp_path / "faults.svg")]) == 0
    assert "clock_step" in capsys.readouterr().out and (tmp_path / "faults.svg").read_text().startswith("<?xml")


def test_two_runs_are_equal_to_the_bit_with_noise_and_faults() -> None:
    device = reference_device()

    def once() -> list[tuple[int, list[float]]]:
        schedule = (Fault("bit_error", "signals", 0.2, 0.6, share=0.3), Fault("spike", "yaw_rate", 0.1, 0.9, 0.1, 0.3))
        link = CanLink(VEHICLE, LinkSettings(), DirectBus(device.Controller(SPEED).hear))
        return run(link, 1.0, faults=Injector(schedule, 3), realism=load_realism("realistic"))[1]

    first = once()
    assert len(first) == 101 and first == once()
    other = CanLink(VEHICLE, LinkSettings(), DirectBus(device.Controller(SPEED).hear))
    assert first != run(other, 1.0, realism=Realism())[1]


def test_free_wheels_until_the_first_answer_and_then_is_the_same() -> None:
    sent = 0

    def slow(packet: Packet) -> list[Packet]:
        nonlocal sent
        sent += 1
        return answers(packet) if sent > 5 else []

    link = Device(slow)
    rig, told, ends = run(link, realism=load_realism({"sensors": {"yaw_rate": {"noise": 0.1}}}))
    assert link.stamps[:7] == [0, 0, 0, 0, 0, 0, 10_000_000] and rig.unanswered == 0 and rig.link_state == UP
    assert ends == ["simulated 0.5 s"] and told == run(Device(answers))[1]


def test_a_device_that_answers_every_repetition_of_the_first_state_is_not_blamed() -> None:
    waiting: list[Packet] = []

    def late(packet: Packet) -> list[Packet]:
        """First nothing for a while, then all at once."""
        waiting.extend(answers(packet))
        found = [] if packet.stamp_ns == 0 and len(waiting) < 6 else list(waiting)
        waiting[:] = waiting if not found else []
        return found

    rig, told, _ = run(Device(late))
    assert told == run(Device(answers))[1] and rig.gate.accepted == 50 and rig.gate.rejections == rig.unanswered == 0


def test_a_run_is_the_same_whenever_the_device_begins_to_hear() -> None:
    """In whatever cycle of those that are repeated until it answers, and before whatever of its messages."""
    device = reference_device()

    def heard_from(number: int) -> list[tuple[int, list[float]]]:
        controller, frames = device.Controller(SPEED), itertools.count()
        link = CanLink(VEHICLE, LinkSettings(), DirectBus(lambda frame: controller.hear(frame) if next(frames) >= number else None))
        return run(link, 0.3)[1]

    first = heard_from(0)
    assert len(first) == 31 and all(heard_from(number) == first for number in range(1, 11))


def test_stale_and_double_answers_do_not_count() -> None:
    def chatty(packet: Packet) -> list[Packet]:
        old = Packet(max(packet.stamp_ns - 10_000_000, 0), dict.fromkeys(COMMANDS, 0.9))
        return [old, *answers(packet), *answers(packet), Packet(packet.stamp_ns + 10**9, HELD)] if packet.stamp_ns else answers(packet)

    rig, told, _ = run(Device(chatty))
    assert told == run(Device(answers))[1] and rig.gate.accepted == 50
    assert rig.gate.rejected["answered_already"] and rig.gate.rejected["wrong_stamp"]


def test_silence_goes_on_and_brakes_or_ends_the_run() -> None:
    def falls_silent(packet: Packet) -> list[Packet]:
        return answers(packet) if packet.stamp_ns < 100_000_000 else []

    rig, told, ends = run(Device(falls_silent), 2.0)
    assert ends == ["simulated 2 s"] and rig.unanswered == 190 and rig.link_state == SILENT and rig.timed_out
    speed = rig.output_index["vx"]
    assert told[-1][1][speed] < told[0][1][speed] - 2.0
    rig, told, ends = run(Device(falls_silent), 2.0, pace={"on_silence": END, "wait_limit": 0.25})
    assert ends == ["no answer to the state of 0.100 s in 0.25 s"] and told[-1][0] == 100_000_000


def test_without_a_device_it_can_be_stopped() -> None:
    rig = lane_change_rig(Device(lambda packet: []), Pace(LOCKSTEP), Listeners())
    rig.start()
    time.sleep(0.05)
    assert rig.link_state == WAITING and rig.time_ns == 0
    rig.stop()


@pytest.fixture
def device_process() -> Iterator[int]:
    """The example in a process of its own; its port on the multicast bus."""
    port = free_port()
    process = subprocess.Popen([sys.executable, str(EXAMPLE), "--port", str(port)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    yield port
    process.terminate()
    assert process.wait(20) == 0
    process.stdout.close()


def test_a_device_process_drives_the_lane_change_over_multicast(device_process: int) -> None:
    rig, told, ends = run(CanLink(VEHICLE, LinkSettings(can_port=device_process)), 15.0, pace={"wait_limit": 20.0})
    index, lane = rig.output_index, reference_device().lane
    assert ends == ["simulated 15 s"] and rig.unanswered == 0 and not rig.link.wire.refused
    assert max(abs(o[index["y"]] - lane(o[index["x"]])) for _, o in told) < ROOM and told[-1][1][index["x"]] > 170.0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_device_ends_at_a_signal_and_not_by_junk(number: signal.Signals) -> None:
    """Also where Ctrl-C is ignored when it starts, as in the background of a script."""
    port = free_port()
    process = subprocess.Popen([sys.executable, str(EXAMPLE), "--port", str(port)], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    with can.Bus(interface="udp_multicast", channel=LinkSettings().can_channel, port=port, hop_limit=0) as bus:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            stranger.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 0)
            stranger.sendto(b"junk", (LinkSettings().can_channel, port))
        link = CanLink(VEHICLE, LinkSettings(), bus)
        link.open()
        for _ in range(MIN_OK):
            link.send(Packet(0, dict.fromkeys(SIGNALS, 0.0)))
        assert link.receive(60.0) is not None
    process.send_signal(number)
    assert process.communicate(timeout=60.0) == ("", "") and process.returncode == 0


# -- real time --------------------------------------------------------------------------------------------------------------


def test_real_time_over_udp_loses_nothing() -> None:
    link = Device(answers)
    ends: list[str] = []
    states: list[int] = []
    rig = lane_change_rig(link, Pace(stop_time=0.3, publish_every=5), Listeners(state=lambda t, o: states.append(t), ended=ends.append))
    rig.run()
    assert ends == ["simulated 0.3 s"] and states == [k * 50_000_000 for k in range(7)]
    assert link.stamps == [k * 10_000_000 for k in range(31)] and rig.gate.accepted == 30
    assert rig.timing.ticks == 31 and rig.timing.lateness.counts.sum() == 31 and rig.timing.responses.number == 30


@pytest.mark.parametrize(("faults", "blocked"), [((), True), ((Fault("bias", "ax", value=1.0),), False)])
def test_a_device_of_which_nothing_is_used_is_no_drive(faults: tuple[Fault, ...], blocked: bool) -> None:
    """Unless a fault is injected, which may be why."""
    def stale(packet: Packet) -> list[Packet]:
        link.e2e.update(1e-9 * packet.stamp_ns, "stale")
        return []

    link = Device(stale)
    link.e2e = E2EStateMachine(10.0)
    rig = lane_change_rig(link, Pace(stop_time=1.5), Listeners(), Injector(faults))
    rig.run()
    assert rig.link.wire.trouble and ("commands did not act for 1.3 of 1.5 s" in rig.gate.not_driven(rig.time)) == blocked


class Clock:
    """A steady clock that only sleeping and work move."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(real_time.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(real_time.time, "sleep", self.work)

    def work(self, seconds: float) -> None:
        self.now += seconds


def deadlines(policy: str, clock: Clock, work: list[float]) -> tuple[Timing, list[float]]:
    """When ticks with so much work begin."""
    paced, began = Timing(0.01, policy), []
    for seconds in work:
        paced.wait()
        if not paced.begin():
            break
        began.append(round(clock.now - 100.0, 6))
        clock.work(seconds)
        paced.end()
    return paced, began


@pytest.mark.parametrize(("policy", "began", "skipped"), [
    (SKIP, [0.0, 0.01, 0.045, 0.05, 0.06], 2),
    (CATCH_UP, [0.0, 0.01, 0.045, 0.046, 0.047], 0),
    (STOP, [0.0, 0.01], 0),
])
def test_what_follows_a_missed_deadline(policy: str, began: list[float], skipped: int, monkeypatch: pytest.MonkeyPatch) -> None:
    paced, found = deadlines(policy, Clock(monkeypatch), [0.001, 0.035, 0.001, 0.001, 0.001])
    assert found == began and paced.skipped == skipped and paced.misses == (2 if policy == CATCH_UP else 1)
    assert paced.lateness.largest == pytest.approx(0.025)


def test_the_policy_stop_ends_a_run() -> None:
    def busy(packet: Packet) -> list[Packet]:
        time.sleep(0.03)
        return []

    ends: list[str] = []
    lane_change_rig(Device(busy), Pace(policy=STOP), Listeners(failed=ends.append)).run()
    assert len(ends) == 1 and "missed its deadline by more than a period, and the policy is stop" in ends[0]


def test_histograms_count_where_their_edges_say() -> None:
    histogram = Histogram(capacity=8)
    for k, edge in enumerate(EDGES):
        histogram.add(float(edge) * 1.001)
        assert histogram.counts[k] == 1, edge
    histogram.add(-1.0)
    histogram.add(1e9)
    assert histogram.counts[0] == 2 and histogram.counts[-1] == 2 and histogram.number == len(EDGES) + 2
    assert len(histogram.values) == 8 and histogram.quantile(1.0) == histogram.largest == 1e9


def test_what_is_not_permitted_is_said_and_all_else_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(real_time.os, "sched_setscheduler", denied)
    interval = sys.getswitchinterval()
    with granted(RealTimeRequest(priority=50, cores=(min(os.sched_getaffinity(0)),))) as told:
        assert not gc.isenabled() and sys.getswitchinterval() < interval
    assert gc.isenabled() and sys.getswitchinterval() == interval
    assert told[0].startswith("cores ") and told[1].startswith("no SCHED_FIFO 50: Operation not permitted (give CAP_SYS_NICE")
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    with pytest.raises(ValueError, match="'9999' is no core that this process may use"):
        parse_cores(["9999"])
