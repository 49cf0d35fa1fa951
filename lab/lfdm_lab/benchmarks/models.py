"""One vehicle on one core: nanoseconds per physics step, and the cost of the first use of a model.

`lfdm bench models`; with `--peer` compared with another program.
"""

import tempfile
import time
from collections.abc import Iterable, Sequence
from fnmatch import fnmatch
from itertools import pairwise
from pathlib import Path

import numpy as np

from lfdm_lab.benchmarks import _subjects as subjects
from lfdm_lab.cli.bench import Measurement
from lfdm_lab.cli.bench_peer import Peer
from lfdm_ros.errors import InputError
from lfdm_ros.simulation import InputProfile, Simulator

SECONDS, STEP = 10.0, 1e-3
REPEATS = 10  # of which the fastest counts
RUNS = {
    "acceleration": InputProfile([0, 0.5, 1.5, 7.5, 8.5], [0] * 5, [0, 0, 1, 1, 0], [0] * 5),
    "lane_change": InputProfile([0, 3, 4, 5, 6, 7, 8], [0, 0, 0.3, -0.3, 0.3, -0.3, 0], [1, 1, 0.1, 0.1, 0.1, 0.1, 0.1], [0] * 7),
}


def measure(runs: int, only: str = "*", peers: Sequence[Peer] = ()) -> list[Measurement]:
    """Measures the MODEL/TYRE/RUN that match `only`. Raises InputError: nothing matches `only` or a peer's name, or a peer fails."""
    table = {f"{subject.name}/{run}": (subject, profile) for subject in (*subjects.SUBJECTS, subjects.MULTIBODY)
             for run, profile in RUNS.items()}
    chosen = [name for name in table if fnmatch(name, only)]
    if not chosen:
        raise InputError(f"--only {only}: matches none of {', '.join(table)}")
    peer_of = peers_by_measurement(peers, chosen)
    records = []
    for name in chosen:
        subject, profile = table[name]
        simulator = Simulator(subject.vehicle, model=subject.model.name, dt=STEP)
        ours = [milliseconds(simulator, profile) for _ in range(runs)]
        records.append(Measurement.of(f"step_ns/{name}", [per_step(ms) for ms in ours], "ns"))
        if name in peer_of:
            records += against(peer_of[name], name, simulator, profile, runs)
    for chassis in dict.fromkeys(table[name][0].chassis for name in chosen):
        records += cost_of_start(subjects.of_chassis(chassis), runs)
    return records


# -- Time -----------------------------------------------------------------------------------------------------------

def milliseconds(simulator: Simulator, profile: InputProfile) -> float:
    """Returns the time of 10 s from rest, one compiled call for each row of the inputs, the fastest of REPEATS runs [ms]."""
    knots = [*profile.time[profile.time < SECONDS], SECONDS]
    inputs = profile.sample(knots)
    segments = [(u0, u1, round((t1 - t0) / STEP)) for (t0, t1), (u0, u1) in zip(pairwise(knots), pairwise(inputs))]
    best = np.inf
    for _ in range(REPEATS):
        simulator.reset()
        began = time.perf_counter()
        for u0, u1, steps in segments:
            simulator.advance(u0, u1, steps)
        best = min(best, time.perf_counter() - began)
    return 1e3 * best


def per_step(ms: float) -> float:
    """Returns the nanoseconds per step of a run that took `ms`."""
    return 1e6 * ms / (SECONDS / STEP)


def cost_of_start(subject: subjects.Subject, runs: int) -> list[Measurement]:
    """Measures the time of a process from its first line to the first step, with an empty cache and with a filled one [s]."""
    script = ("import time; t = time.perf_counter(); from lfdm_ros.simulation import Simulator; "
              "from lfdm_ros.vehicles import load_vehicle; "
              f"Simulator(load_vehicle({subject.vehicle_name!r}), model={subject.model.name!r}).advance([0, 0, 0], [0, 0, 0], 1); "
              "print(time.perf_counter() - t)")

    first, warm = subjects.seconds_of_starts(script, runs)
    return [Measurement.of(f"first_use_s/{subject.chassis}", first, "s"), Measurement.of(f"warm_start_s/{subject.chassis}", warm, "s")]


# -- Comparison -----------------------------------------------------------------------------------------------------

def peers_by_measurement(peers: Iterable[Peer], chosen: Sequence[str]) -> dict[str, Peer]:
    """Returns the peer of each measurement, a peer without a name for all. Raises InputError: unknown measurement, or two peers for one."""
    found: dict[str, Peer] = {}
    for peer in peers:
        if peer.measurement and peer.measurement not in chosen:
            raise InputError(f"--peer {peer.measurement}: not measured here; choose from {', '.join(chosen)}")
        for name in [peer.measurement] if peer.measurement else chosen:
            if name in found:
                raise InputError(f"--peer: two programs beside {name}; run them one after the other")
            found[name] = peer
    return found


def against(peer: Peer, name: str, simulator: Simulator, profile: InputProfile, runs: int) -> list[Measurement]:
    """Runs this package and the peer alternately; the ratio is this package's time over the peer's."""
    ratios, theirs = [], []
    with tempfile.TemporaryDirectory() as folder:
        inputs = Path(folder, "inputs.txt")
        knots = [*profile.time[profile.time < SECONDS], SECONDS]
        np.savetxt(inputs, np.column_stack([knots, profile.sample(knots)]), fmt="%.15g")
        for _ in range(runs):
            ours = milliseconds(simulator, profile)
            theirs.append(peer.milliseconds(inputs))
            ratios.append(ours / theirs[-1])
    return [Measurement.of(f"peer_step_ns/{name}", [per_step(ms) for ms in theirs], "ns"),
            Measurement.of(f"peer_ratio/{name}", ratios, "1")]
