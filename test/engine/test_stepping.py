"""The stepping loop in its own thread, without ROS; `published` collects what a node would publish."""

import itertools
import re
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from unittest.mock import Mock

import numpy as np
import pytest

from lfdm_ros.engine.command_hold import ANSWERED_ALREADY, CommandHold
from lfdm_ros.engine.plant import ActuatedPlant
from lfdm_ros.engine.stepping import FREE_RUNNING, LOCKSTEP, MOST_TICKS, Stepper
from lfdm_ros.errors import InputError
from lfdm_ros.hil.faults import Fault, Injector
from lfdm_ros.simulation import Actuator, Pose, SimulationDiverged, Simulator
from lfdm_ros.vehicles import load_vehicle

TICK = 10_000_000  # ns
TURN = (0.1, 0.3, 0.0)


class Loop:
    """A stepper and what it published."""

    def __init__(self, stepping: str, **options: object) -> None:
        self.simulator = Simulator(load_vehicle("hmmwv"))
        self.simulator.reset(vx=10.0)
        self.gate = CommandHold(timeout=1e6, timeout_ramp=1.0, timeout_brake=0.5)
        self.published: list[tuple[int, list[float]]] = []
        self.stepper = Stepper(self.simulator, 10, stepping, self.gate, lambda *state: self.publish(*state), **options)  # type: ignore[arg-type]
        self.seen = threading.Condition()

    def publish(self, stamp: int, outputs: list[float]) -> None:
        with self.seen:
            self.published.append((stamp, outputs))
            self.seen.notify_all()

    @property
    def latest(self) -> int:
        """Stamp of the last state [ns], -1 before the first."""
        return self.published[-1][0] if self.published else -1

    def wait(self, condition: Callable[[], bool]) -> None:
        with self.seen:
            assert self.seen.wait_for(condition, timeout=20.0), f"after {len(self.published)} states"

    def diverge(self, patch: pytest.MonkeyPatch) -> None:
        """Has each tick diverge until the patch is undone."""
        patch.setattr(self.simulator, "advance", Mock(side_effect=SimulationDiverged(0.123, self.simulator.state)))

    def __enter__(self) -> "Loop":
        self.stepper.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stepper.stop()


def drive(ticks: int, **options: object) -> list[tuple[int, list[float]]]:
    """A lockstep run in which each state is answered."""
    with Loop(LOCKSTEP, speed_factor=0.0, **options) as loop:
        for i in range(ticks):
            loop.wait(lambda i=i: len(loop.published) > i)  # type: ignore[misc]
            assert loop.stepper.command((0.001 * i, 0.3, 0.0), loop.published[i][0])
        loop.wait(lambda: len(loop.published) == ticks + 1)
    return loop.published


@pytest.mark.parametrize(("delay", "late"), [(None, 0), (0.0, 0), (0.04, 4)])
def test_lockstep_is_the_same_to_the_bit_and_equals_the_core(delay: float | None, late: int) -> None:
    """With the commands of some ticks ago where an actuator delays them."""
    first, again = (drive(50, actuator=None if delay is None else Actuator(delay=delay)) for _ in range(2))
    assert first == again
    assert [stamp for stamp, _ in first] == [i * TICK for i in range(51)]
    core = Simulator(load_vehicle("hmmwv"))
    core.reset(vx=10.0)
    for i in range(50):
        command = (0.001 * (i - late), 0.3, 0.0) if i >= late else (0.0, 0.0, 0.0)
        core.advance(command, command, 10)
        assert first[i + 1][1] == core.outputs.tolist()


def test_lockstep_waits_republishes_and_counts_wrong_answers() -> None:
    with Loop(LOCKSTEP, speed_factor=0.0) as loop:
        loop.wait(lambda: len(loop.published) == 2)  # the same state again, for whoever came late
        assert [stamp for stamp, _ in loop.published] == [0, 0]
        assert loop.stepper.status().waiting and loop.stepper.status().ticks == 0
        assert loop.stepper.command(TURN, 0)
        loop.wait(lambda: loop.latest == TICK)
        again = sum(stamp == 0 for stamp, _ in loop.published) - 1
        assert all(loop.stepper.command(TURN, 0) for _ in range(again)) and loop.gate.accepted == 1
        assert not loop.stepper.command(TURN, 0)
        assert loop.gate.rejected[ANSWERED_ALREADY] == 1
        assert loop.stepper.status().ticks == 1


def test_free_running_follows_the_speed_factor() -> None:
    begin = time.monotonic()
    with Loop(FREE_RUNNING, speed_factor=5.0) as loop:
        loop.wait(lambda: loop.latest >= 100 * TICK)
        assert time.monotonic() - begin >= 0.19  # never faster than asked; slower only on a busy machine
    stamps = [stamp for stamp, _ in loop.published]
    assert stamps == [i * TICK for i in range(len(stamps))]


def test_steps_are_bounded_and_give_their_caller_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lfdm_ros.engine.stepping.STEP_PATIENCE", 0.05)
    with Loop(FREE_RUNNING, speed_factor=0.0) as loop:
        loop.stepper.pause(True)
        with pytest.raises(InputError, match="ticks is 4294967295; give at most 1000000, which are 10000 s"):
            loop.stepper.step(4294967295)
        assert re.fullmatch(r"1000000 ticks granted, \d+ of them are still to be done", loop.stepper.step(1_000_000))
        with pytest.raises(InputError, match="give at most"):
            loop.stepper.step(1_000_000)
        loop.stepper.pause(True)  # takes back what is not done
        done = loop.stepper.time_ns
        assert loop.stepper.step(1) == "1 ticks done" and loop.stepper.time_ns == done + TICK


def test_lockstep_without_a_driver_is_told_once() -> None:
    waited: list[float] = []
    with Loop(LOCKSTEP, speed_factor=0.0, answer_timeout=0.05, deserted=waited.append) as loop:
        loop.wait(lambda: len(loop.published) == 3)
        assert len(waited) == 1 and waited[0] >= 0.05
        assert loop.stepper.status().waited >= waited[0]
        assert loop.stepper.command(TURN, 0)
        loop.wait(lambda: loop.latest == TICK)
        loop.stepper.pause(True)
        assert loop.stepper.status().waited == 0.0


def test_pause_step_and_go_on() -> None:
    with Loop(FREE_RUNNING, speed_factor=0.0) as loop:
        loop.stepper.pause(True)
        with pytest.raises(InputError, match="ticks is 0"):
            loop.stepper.step(0)
        before = loop.stepper.time_ns
        loop.stepper.step(7)
        assert loop.stepper.time_ns == before + 7 * TICK
        loop.stepper.pause(False)
        loop.wait(lambda: loop.latest > before + 20 * TICK)
        with pytest.raises(InputError, match="not paused"):
            loop.stepper.step(1)


def test_reset_keeps_time_rising_and_stamps_unique() -> None:
    with Loop(LOCKSTEP, speed_factor=0.0) as loop:
        loop.wait(lambda: len(loop.published) == 1)
        loop.stepper.reset(Pose(x=5.0, y=-2.0, yaw=1.0, speed=3.0))
        loop.wait(lambda: loop.latest == TICK)
        outputs = loop.published[-1][1]
        assert [outputs[loop.simulator.output_index[n]] for n in ("x", "y", "yaw", "vx")] == [5.0, -2.0, 1.0, 3.0]
        assert not loop.stepper.command(TURN, 0)  # answers the state before the reset
        assert loop.stepper.status().ticks == 0


def test_stops_at_the_stop_time_exactly() -> None:
    ended: SimpleQueue[str] = SimpleQueue()
    with Loop(FREE_RUNNING, speed_factor=0.0, stop_time=0.25, ended=ended.put) as loop:
        assert ended.get(timeout=20.0) == "simulated 0.25 s"
        time.sleep(0.05)  # time to go too far, if it did
    assert loop.latest == 25 * TICK and len(loop.published) == 26 and ended.empty()


def test_divergence_stands_still_until_a_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop(FREE_RUNNING, speed_factor=0.0)

    loop.diverge(monkeypatch)
    with loop:
        deadline = time.monotonic() + 20.0
        while not loop.stepper.status().diverged and time.monotonic() < deadline:
            time.sleep(0.01)
        assert "diverged" in loop.stepper.status().diverged
        assert [stamp for stamp, _ in loop.published] == [0]  # no state is made up
        monkeypatch.undo()
        loop.stepper.reset(Pose())
        loop.wait(lambda: loop.latest > 5 * TICK)
        assert not loop.stepper.status().diverged


@pytest.mark.parametrize("stepping", [FREE_RUNNING, LOCKSTEP])
def test_a_run_with_an_end_that_diverges_has_failed(monkeypatch: pytest.MonkeyPatch, stepping: str) -> None:
    """In lockstep the state has been answered: nothing else would end the run."""
    failed: SimpleQueue[str] = SimpleQueue()
    loop = Loop(stepping, speed_factor=0.0, stop_time=1.0, answer_timeout=0.05, failed=failed.put)

    loop.diverge(monkeypatch)
    with loop:
        loop.wait(lambda: len(loop.published) == 1)
        loop.stepper.command(TURN, 0)
        assert "diverged at 0.000 s" in failed.get(timeout=20.0)
    assert failed.empty()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_loop_that_ends_with_an_exception_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    failed: SimpleQueue[str] = SimpleQueue()
    with Loop(FREE_RUNNING, speed_factor=0.0, failed=failed.put) as loop:
        monkeypatch.setattr(loop, "publish", lambda *_: {}["no publisher"])
        assert failed.get(timeout=20.0) == "the loop ended, restart the node: KeyError('no publisher')"
    assert failed.empty() and loop.stepper.status().diverged.endswith("KeyError('no publisher')")


def test_steps_refused_for_divergence_are_not_done_after_the_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop(FREE_RUNNING, speed_factor=0.0)

    with loop:
        loop.stepper.pause(True)
        loop.diverge(monkeypatch)
        for _ in range(2):  # the one that diverges, and one after it
            with pytest.raises(InputError, match="diverged"):
                loop.stepper.step(5)
        monkeypatch.undo()
        loop.stepper.reset(Pose())
        begin = loop.stepper.time_ns
        loop.wait(lambda: loop.latest == begin)
        assert loop.stepper.step(1) == "1 ticks done" and loop.stepper.time_ns == begin + TICK


def test_a_reset_takes_back_the_ticks_that_were_granted() -> None:
    with Loop(LOCKSTEP, speed_factor=0.0) as loop:
        loop.wait(lambda: len(loop.published) == 1)
        loop.stepper.pause(True)
        loop.stepper.step(3)
        loop.stepper.reset(Pose())
        loop.wait(lambda: loop.latest == TICK)
        assert loop.stepper.command(TURN, TICK)
        loop.stepper.step(1)
        loop.wait(lambda: loop.latest == 2 * TICK)
        assert loop.stepper.step(MOST_TICKS).startswith(f"{MOST_TICKS} ticks granted")  # as many as there can be


def test_swap_changes_the_vehicle_between_two_ticks_and_keeps_the_state() -> None:
    """Lockstep makes the tick of the swap certain; the core, told to do the same, gives the same bits."""
    soft = load_vehicle("hmmwv").replace(cornering_stiffness_front=20e3)
    with Loop(LOCKSTEP, speed_factor=0.0) as loop:
        for i in range(40):
            loop.wait(lambda i=i: loop.latest == i * TICK)  # type: ignore[misc]
            if i == 20:
                loop.stepper.swap(Simulator(soft))
            assert loop.stepper.command((0.2, 0.3, 0.0), i * TICK)
        loop.wait(lambda: loop.latest == 40 * TICK)
        loop.stepper.reset(Pose(speed=10.0))
        loop.wait(lambda: loop.latest == 41 * TICK)
        for i in (41, 42):
            assert loop.stepper.command((0.2, 0.3, 0.0), loop.latest)
            loop.wait(lambda i=i: loop.latest == (i + 1) * TICK)  # type: ignore[misc]
    outputs = {stamp // TICK: values for stamp, values in loop.published}
    hard = Simulator(load_vehicle("hmmwv"))
    hard.reset(vx=10.0)
    for i in range(20):
        hard.advance((0.2, 0.3, 0.0), (0.2, 0.3, 0.0), 10)
        assert outputs[i + 1] == hard.outputs.tolist()
    swapped = Simulator(soft)
    swapped.jump(hard.state, 200, (0.2, 0.3, 0.0))
    for i in range(20, 40):
        for simulator in (swapped, hard):
            simulator.advance((0.2, 0.3, 0.0), (0.2, 0.3, 0.0), 10)
        assert outputs[i + 1] == swapped.outputs.tolist()
    assert swapped.outputs.tolist() != hard.outputs.tolist()
    # A reset starts the vehicle that is driven now.
    swapped.reset(vx=10.0)
    for i in (42, 43):
        swapped.advance((0.2, 0.3, 0.0), (0.2, 0.3, 0.0), 10)
        assert outputs[i] == swapped.outputs.tolist()


def test_swaps_at_full_speed_never_fall_within_a_tick() -> None:
    """Two vehicles in turn, a hundred times: each state follows from the one before with the one vehicle or the other, whole."""
    vehicles = [load_vehicle("hmmwv"), load_vehicle("hmmwv").replace(cornering_stiffness_front=20e3, cornering_stiffness_rear=25e3)]
    with Loop(FREE_RUNNING, speed_factor=20.0) as loop:
        advanced: list[tuple[bytes, bytes, int]] = []

        def watched(simulator: Simulator, which: int) -> Simulator:
            advance = simulator.advance

            def noted(u0: object, u1: object, n: int) -> None:
                before = simulator.state.tobytes()
                advance(u0, u1, n)  # type: ignore[arg-type]
                advanced.append((before, simulator.state.tobytes(), which))

            simulator.advance = noted  # type: ignore[method-assign]
            return simulator

        loop.stepper.command((0.3, 0.3, 0.0), 0)
        for turn in range(100):
            loop.stepper.swap(watched(Simulator(vehicles[turn % 2]), turn % 2))
            time.sleep(0.001)
        loop.wait(lambda: len(advanced) > 20)
    assert {which for _, _, which in advanced} == {0, 1}
    for (_, after, _), (before, _, _) in itertools.pairwise(advanced):
        assert after == before  # nothing was lost or done twice at a swap
    stamps = [stamp for stamp, _ in loop.published]
    assert stamps == [i * TICK for i in range(len(stamps))]


def test_a_reset_waits_for_a_state_that_is_being_published_and_none_from_before_follows_it() -> None:
    """Who is told to forget at a reset and then hears of the old place would see a collision that there was not."""
    told: list[tuple[str, int]] = []
    resetting = threading.Event()
    threads: list[threading.Thread] = []

    def forget(time_ns: int) -> None:
        told.append(("forget", time_ns))

    def publish(stamp: int, outputs: list[float]) -> None:
        told.append(("begin", stamp))
        if stamp == 3 * TICK and not threads:
            threads.append(threading.Thread(target=lambda: (resetting.set(), loop.stepper.reset(Pose(speed=1.0), forget))))
            threads[0].start()
            resetting.wait()
            time.sleep(0.1)  # for a reset that does not wait
        told.append(("end", stamp))

    loop = Loop(FREE_RUNNING)
    loop.stepper = Stepper(loop.simulator, 10, FREE_RUNNING, loop.gate, publish, speed_factor=0.0)
    with loop:
        end = time.monotonic() + 20.0
        while not any(what == "forget" for what, _ in told) and time.monotonic() < end:
            time.sleep(0.001)
        threads[0].join()
    forgotten = [what for what, _ in told].index("forget")
    assert told[forgotten - 1][0] == "end"
    assert all(stamp >= told[forgotten][1] for _, stamp in told[forgotten:])


@pytest.mark.parametrize("options", [{}, {"actuator": Actuator(delay=0.02)}], ids=["direct", "actuator"])
def test_reverse_is_engaged_near_standstill_only(options: dict[str, object]) -> None:
    with Loop(LOCKSTEP, speed_factor=0.0, **options) as loop:
        vx = loop.simulator.output_index["vx"]
        for i in range(220):
            loop.wait(lambda i=i: len(loop.published) > i)  # type: ignore[misc]
            stamp, outputs = loop.published[i]
            # Thrown into reverse at 10 m/s it coasts; once it was stopped it goes backwards.
            assert loop.stepper.command((0.0, -0.3, 0.0 if i < 20 or outputs[vx] < 0.2 else 1.0), stamp)
        loop.wait(lambda: len(loop.published) > 220)
    speeds = [outputs[vx] for _, outputs in loop.published]
    assert 9.8 < speeds[20] < 10.0 and speeds[-1] < -0.5


HMMWV = load_vehicle("hmmwv")


def test_a_tick_of_actuators_that_have_settled_is_the_same_in_one_go() -> None:
    """What changes something in between is asked every 2 ms; without it, or with a fault to come, a tick is as long as nothing moves."""
    def plant(**others: object) -> ActuatedPlant:
        made = ActuatedPlant(Simulator(HMMWV, "eight_dof", 1e-3), 20, Actuator(delay=0.05, steering_rate=2.0, throttle_rate=4.0), **others)
        made.reset(Pose(speed=10.0), 0.0)
        return made

    calls = dict.fromkeys(("one", "other", "faultless"), 0)

    def counted(made: ActuatedPlant, name: str) -> ActuatedPlant:
        advance = made.simulator.advance

        def count(*arguments: object) -> None:
            calls[name] += 1
            advance(*arguments)

        made.simulator.advance = count
        return made

    one, other = counted(plant(), "one"), counted(plant(between=lambda inputs: inputs.copy()), "other")
    faultless = counted(plant(between=Injector((Fault("stuck", "brake", 5.0),)).actuators), "faultless")
    for tick in range(60):
        command = (0.2 if tick > 10 else 0.0, 0.4 if tick < 30 else 0.1, 0.0)
        for each in (one, other, faultless):
            each.drive(0.02 * tick, command)
        np.testing.assert_array_equal(one.simulator.state, other.simulator.state)
        np.testing.assert_array_equal(one.simulator.state, faultless.simulator.state)
    assert calls["other"] == 600 and calls["one"] == calls["faultless"] < 300
