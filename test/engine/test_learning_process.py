"""The process that learns: what it tells, what becomes of it when it dies, and that nobody waits for it."""

import os
import signal
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from children import children

from lfdm_ros.engine.background import NORMAL, Share
from lfdm_ros.engine.learning_process import CHILD, Calibrated, Job, LearningProcess, Task
from lfdm_ros.ground.friction_estimator import MeasuredDrive
from lfdm_ros.ground.learned_ground import DriveSegment, GroundPrior, LearnerSettings
from lfdm_ros.simulation import Simulator
from lfdm_ros.vehicles import load_vehicle

HMMWV = load_vehicle("hmmwv")
SETTINGS = LearnerSettings(draws=2)
PATIENCE = 60.0  # [s]


def braking(friction: float) -> DriveSegment:
    """Half a second of hard braking on a road of one friction."""
    simulator = Simulator(HMMWV.replace(friction_scale=friction * HMMWV.parameters["friction_scale"]), "eight_dof", dt=2e-3)
    simulator.reset(vx=10.0)
    rows, inputs = [simulator.state.copy()], np.tile([0.0, 0.0, 0.7], (61, 1))
    for _ in range(60):
        simulator.advance(inputs[0], inputs[0], 5)
        rows.append(simulator.state.copy())
    states = {f.name: v for f, v in zip(simulator.model.states, np.array(rows).T)}
    return DriveSegment(MeasuredDrive(0.01 * np.arange(61), inputs, states), 0.2)


@pytest.fixture
def process() -> Iterator[LearningProcess]:
    made = LearningProcess(Task(GroundPrior.of(SETTINGS), SETTINGS, "eight_dof", 0.1), Calibrated.of(HMMWV), Share(0, NORMAL), 3)
    yield made
    made.close()


def wait(condition: Callable[[], object], process: LearningProcess) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, (process.failed, process.last_refusal, process.last_update)
        time.sleep(0.01)


def learners() -> list[int]:
    return [child.pid for child in children(os.getpid(), CHILD)]


def test_a_stretch_becomes_a_map_and_a_death_is_survived(process: LearningProcess) -> None:
    job = Job(braking(0.3), (0.0, 0.0), 3_000_000_000)
    assert not learners() and not process.waiting  # it begins with the first stretch
    process.hand(job)
    news = []
    wait(lambda: news.append(process.news()) or news[-1], process)
    known, stamp_ns = news[-1]
    assert stamp_ns == 3_000_000_000 and known.median.friction_at(4.5, 0.0) == pytest.approx(0.3, abs=0.1)
    assert process.last_update.stored == process.last_update.felt == 2 and process.waiting == 0

    # A stretch that cannot be felt is named, and the next one is felt.
    drive = job.stretch.drive
    process.hand(Job(DriveSegment(MeasuredDrive(drive.times, drive.inputs, {"x": drive.states["x"]}), 0.2), (0.0, 0.0), 4_000_000_000))
    wait(lambda: process.refused, process)
    assert "was never measured" in process.last_refusal

    # Tyres that hold twice as much: the road is half of what was thought.
    process.take(Calibrated.of(HMMWV, {"friction_scale": np.full(10, 2.0 * HMMWV.parameters["friction_scale"])}))
    wait(lambda: news.append(process.news()) or news[-1], process)
    assert news[-1][0].median.friction_at(4.5, 0.0) == pytest.approx(0.16, abs=0.06)

    child, = learners()
    os.kill(child, signal.SIGKILL)
    wait(lambda: process.failed, process)
    process.hand(job)
    wait(lambda: news.append(process.news()) or news[-1], process)
    assert process.restarts == 1 and not process.failed and learners() != [child]
    process.close()
    assert not learners()


def test_who_is_too_far_behind_drops_the_oldest(process: LearningProcess) -> None:
    nothing = DriveSegment(MeasuredDrive(np.zeros(0), np.zeros((0, 3)), {}), 0.0)
    for k in range(20):
        process.hand(Job(nothing, (0.0, 0.0), k))
    assert process.dropped >= 20 - 3 - 2 and process.waiting <= 5
    wait(lambda: not process.waiting, process)
    assert process.refused + process.dropped == 20 and process.last_update.felt == 0
