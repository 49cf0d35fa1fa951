"""Child process that learns a ground: stretches of a drive come over a connection, and maps go back. Independent of ROS.

    python -m lfdm_ros.engine.learning_child DESCRIPTOR
"""

import sys
import time
from multiprocessing.connection import Connection

import numpy as np

from lfdm_ros.engine.learning_process import Job, LearnerUpdate
from lfdm_ros.errors import InputError
from lfdm_ros.ground.learned_ground import LearnedGround


def learn_from(parent: Connection) -> None:
    """Answers jobs until the connection ends, which raises EOFError."""
    task, calibrated = parent.recv()
    ground = LearnedGround(calibrated.vehicle, task.belief, task.settings, task.model, calibrated.posterior)
    newest: Job | None = None
    changed, due = False, time.monotonic()
    while True:
        if not changed or parent.poll(max(due - time.monotonic(), 0.0)):
            message, refused, answers = parent.recv(), "", False
            try:
                if isinstance(message, Job):
                    newest, answers = message, True
                    changed |= ground.estimate(message.stretch) > 0
                else:
                    ground.set_vehicle(message.vehicle, message.posterior)
                    changed = newest is not None
            except (InputError, ArithmeticError, ValueError, np.linalg.LinAlgError) as error:
                refused = (str(error) or repr(error)).splitlines()[0]
            parent.send(LearnerUpdate(answers, ground.estimated, ground.uninformative, ground.stored, refused))
        if changed and newest is not None and time.monotonic() >= due:
            friction_map = ground.posterior_map(newest.place)
            parent.send(LearnerUpdate(False, ground.estimated, ground.uninformative, ground.stored, friction_map=friction_map,
                                      stamp_ns=newest.stamp_ns))
            changed, due = False, time.monotonic() + task.period


if __name__ == "__main__":
    try:
        learn_from(Connection(int(sys.argv[1])))
    except (EOFError, BrokenPipeError, ConnectionResetError):  # the parent has ended
        sys.exit(0)
