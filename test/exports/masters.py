"""An FMU driven by FMPy, an importer that is not ours: the same few calls for FMI 2.0 and 3.0; and the simulator over the same inputs."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lfdm_ros.simulation import Simulator
from lfdm_ros.vehicles import load_vehicle

INTERVAL = 0.01


def profile(seconds: float = 5.0) -> np.ndarray:
    """Returns rows (steering, throttle, brake) each INTERVAL."""
    t = np.arange(0.0, seconds + INTERVAL / 2, INTERVAL)
    return np.column_stack([0.3 * np.sin(2.0 * t) * (t > 1.0), np.where(t < 3.5, 0.6, 0.0), np.where(t > 4.0, 0.3, 0.0)])


def native(vehicle: str, model: str, rows: np.ndarray, vx: float, slopes: bool = True) -> np.ndarray:
    """Returns the simulator's states after each row; slopes: inputs at a step's end come out of their slopes, rounded."""
    simulator = Simulator(load_vehicle(vehicle), model)
    simulator.reset(vx=vx)
    found = []
    for now, following in itertools.pairwise(rows):
        simulator.advance(now, now + (following - now) / INTERVAL * INTERVAL if slopes else following, 10)
        found.append(simulator.state.copy())
    return np.array(found)


class Master:
    """One instance of an FMU; `kind` is CoSimulation or ModelExchange."""

    def __init__(self, path: Path, kind: str = "CoSimulation", linear: bool = False, **start: float):
        import fmpy
        from fmpy import fmi2, fmi3

        self.folder = tempfile.TemporaryDirectory()
        fmpy.extract(str(path), self.folder.name)
        self.description = fmpy.read_model_description(str(path))
        self.version = int(self.description.fmiVersion[0])
        self.references = {v.name: v.valueReference for v in self.description.modelVariables}
        makers = {(2, "CoSimulation"): fmi2.FMU2Slave, (2, "ModelExchange"): fmi2.FMU2Model,
                  (3, "CoSimulation"): fmi3.FMU3Slave, (3, "ModelExchange"): fmi3.FMU3Model}
        part = self.description.coSimulation if kind == "CoSimulation" else self.description.modelExchange
        self.fmu: Any = makers[self.version, kind](
            guid=self.description.guid if self.version == 2 else self.description.instantiationToken, unzipDirectory=self.folder.name,
            modelIdentifier=part.modelIdentifier, instanceName="vehicle")
        self.begin(linear, **start)

    def begin(self, linear: bool = False, fresh: bool = True, **start: float) -> None:
        if fresh:
            self.fmu.instantiate()
        if self.version == 2:
            self.fmu.setupExperiment(startTime=0.0)
        self.set(**start)
        if linear:
            self.fmu.setBoolean([self.references["linear_inputs"]], [True])
        self.fmu.enterInitializationMode()
        self.fmu.exitInitializationMode()

    def set(self, **values: float) -> None:
        references = [self.references[name.replace("__", ".")] for name in values]
        (self.fmu.setReal if self.version == 2 else self.fmu.setFloat64)(references, list(values.values()))

    def get(self, names: Sequence[str]) -> np.ndarray:
        references = [self.references[name] for name in names]
        return np.array((self.fmu.getReal if self.version == 2 else self.fmu.getFloat64)(references))

    def slopes(self, inputs: Sequence[str], values: Sequence[float]) -> None:
        """Sets the slopes of inputs; FMPy's own call does not pass arrays."""
        import ctypes

        n = len(inputs)
        references = (ctypes.c_uint * n)(*(self.references[name] for name in inputs))
        orders, slopes = (ctypes.c_int * n)(*[1] * n), (ctypes.c_double * n)(*values)
        self.fmu.fmi2SetRealInputDerivatives(self.fmu.component, references, n, orders, slopes)

    def drive(self, states: Sequence[str], profile: np.ndarray, interval: float, held: bool = False, begin: float = 0.0) -> np.ndarray:
        """Drives over the rows (steering, throttle, brake) of a profile, from `begin` [s] on, linear from row to row, or held; returns
        the states after each."""
        names, rows = ("steering", "throttle", "brake"), []
        for k, (now, following) in enumerate(itertools.pairwise(profile)):
            self.set(**dict(zip(names, now)))
            if self.version == 2 and not held:
                self.slopes(names, (following - now) / interval)
            self.fmu.doStep(begin + k * interval, interval)
            rows.append(self.get(states))
        return np.array(rows)

    def directional(self, unknowns: Sequence[str], knowns: Sequence[str], seed: Sequence[float]) -> np.ndarray:
        of, by = ([self.references[name] for name in names] for names in (unknowns, knowns))
        if self.version == 2:
            return np.array(self.fmu.getDirectionalDerivative(of, by, list(seed)))
        return np.array(self.fmu.getDirectionalDerivative(of, by, list(seed), len(of)))

    def close(self) -> None:
        self.fmu.terminate()
        self.fmu.freeInstance()
        self.folder.cleanup()
