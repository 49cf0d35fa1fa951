"""Derivatives of whole trajectories to parameters and initial states (forward sensitivities).

x_{k+1} = f(x_k, u_k, p, h) is differentiated step by step: S_{k+1} = df/dx S_k + df/dp, exactly and in the same compiled loop. What
is differentiated is the discrete map of the chosen step, not the continuous equations behind it.

Where a model is not differentiable, the derivative is that of the branch which is computed:
- at a gear change, with the time of the change held (a small change of a parameter that shifts it makes the trajectory kink);
- when a wheel comes to rest or breaks loose, or lifts or touches down, at the same step;
- where a table has a corner or a limit begins, the mean of both sides if the value is exactly there.
Between such events finite differences converge to it; across one they differ by the jump times the event's own shift.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from lfdm_ros.backends import cores, sensitivity_kernel
from lfdm_ros.errors import InputError
from lfdm_ros.models import Model
from lfdm_ros.simulation.batch import BatchRollout, checked_inputs, steps_between
from lfdm_ros.simulation.inputs import InputProfile
from lfdm_ros.simulation.simulator import SimulationDiverged
from lfdm_ros.vehicles import Vehicle

EXACT, FINITE_DIFFERENCE = "exact", "finite_difference"

# Cost of one pass of the exact kernel (8 directions) over that of one block of the batch (16 vehicles), by chassis, from whole calls
# on a processor with AVX-512. Where nothing stands both cost the same within 6 %, and the exact one is taken.
PASS_COST = {"eleven_dof": 0.9, "twenty_four_dof": 1.4}
BLOCK = 16

# Relative width of central differences: truncation and rounding are then about equal.
WIDTH = np.finfo(float).eps ** (1.0 / 3.0)


class NotDifferentiable(RuntimeError):
    """The trajectory is finite but its derivative is not. `time` [s] says when first."""

    def __init__(self, time: float, names: Sequence[str]):
        super().__init__(f"the derivative by {', '.join(names)} is not finite at t = {time:.6g} s")
        self.time = time


@dataclass(frozen=True)
class Sensitivities:
    """Trajectories and their derivatives: names = parameters, then initial states.

    times (K,) [s], trajectories (K, C) in the channels' units, sensitivities (K, C, len(names)) in those by the names' units;
    `method` is the one that was taken, exact or finite_difference.
    """

    times: np.ndarray
    channels: tuple[str, ...]
    names: tuple[str, ...]
    trajectories: np.ndarray
    sensitivities: np.ndarray
    method: str


def forward_sensitivity(*, model: str | Model, vehicle: Vehicle, dt: float, times: ArrayLike, inputs: InputProfile | ArrayLike,
                        x0: ArrayLike, channels: Sequence[str], parameters: Sequence[str] = (), states: Sequence[str] = (),
                        hold: bool = False,
                        method: str = "auto") -> Sensitivities:
    """One run and its derivatives to parameters and to initial values of states.

    Args:
        dt: largest physics step [s]; the sample interval is divided into the fewest equal steps that are not longer.
        times: (K,) sample times [s], evenly spaced.
        inputs: a profile, or (K, 3) steering, throttle, brake at the sample times; linear in between.
        x0: (nx,) state at the first sample.
        channels: C names of states to report.
        hold: the inputs are kept from each sample to the next instead.
        method: exact; finite_difference: central differences, all perturbed runs as one batch; auto: the cheaper.

    Raises:
        InputError: unknown model, parameter, state, channel or method; times not evenly spaced; inputs not finite.
        SimulationDiverged: a state is not finite.
        NotDifferentiable: a derivative is not.
    """
    declared = vehicle.model(model)
    parameters, states, channels = tuple(parameters), tuple(states), tuple(channels)
    known = [f.name for f in declared.parameters], [f.name for f in declared.states]
    _check_names(declared, "parameter", parameters, known[0])
    _check_names(declared, "state", states, known[1])
    _check_names(declared, "state", channels, known[1])
    if method not in ("auto", EXACT, FINITE_DIFFERENCE):
        raise InputError(f"no method '{method}'; choose one of: auto, {EXACT}, {FINITE_DIFFERENCE}")
    times = np.asarray(times, float)
    table = inputs.sample(times) if isinstance(inputs, InputProfile) else np.array(inputs, float)
    start = np.asarray(x0, float)
    if start.shape != (len(declared.states),) or not np.isfinite(start).all():
        raise InputError(f"the initial state must be {len(declared.states)} finite numbers, as `initial_state` makes them")
    run = _Run(declared, vehicle, dt, times, table, start, parameters, states, channels, hold)
    if method == "auto":
        method = cheaper_method(declared.name, len(parameters) + len(states), cores())
    trajectories, sensitivities = run.exact() if method == EXACT else run.finite_difference()
    names = parameters + states
    broken = ~np.isfinite(trajectories).all(axis=1)
    if broken.any():
        k = int(np.argmax(broken))
        raise SimulationDiverged(float(times[k]), trajectories[k])
    broken = ~np.isfinite(sensitivities).all(axis=1)
    if broken.any():
        k = int(np.argmax(broken.any(axis=1)))
        raise NotDifferentiable(float(times[k]), [n for n, bad in zip(names, broken[k]) if bad])
    return Sensitivities(times, channels, names, trajectories, sensitivities, method)


def cheaper_method(model: str, directions: int, cores: int) -> str:
    """The method to choose for a number of derivatives of a model on a number of cores, from the recorded costs.

    Both work in rounds of one unit a core: the exact kernel in passes of 8 derivatives, the batch in blocks of 16 runs.
    """
    exact = PASS_COST.get(model.split("/")[0], 1.0) * np.ceil(np.ceil(directions / 8) / cores)
    batch = np.ceil(np.ceil((2 * directions + 1) / BLOCK) / cores)
    return FINITE_DIFFERENCE if batch < exact else EXACT


def _check_names(model: Model, what: str, names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise InputError(f"model '{model.name}' has no {what} '{name}'"
                             + (f"; did you mean '{near[0]}'?" if near else "; `lfdm models` lists them"))
    if len(set(names)) != len(names):
        raise InputError(f"a {what} is named twice: {', '.join(names)}")


@dataclass(frozen=True)
class _Run:
    """One call's arguments, checked."""

    model: Model
    vehicle: Vehicle
    dt: float
    times: np.ndarray
    inputs: np.ndarray
    x0: np.ndarray
    parameters: tuple[str, ...]
    states: tuple[str, ...]
    channels: tuple[str, ...]
    hold: bool

    def _batch(self, channels: Sequence[str]) -> BatchRollout:
        return BatchRollout(model=self.model, vehicle=self.vehicle, dt=self.dt, times=self.times, inputs=self.inputs,
                            parameters=self.parameters, channels=channels, hold=self.hold)

    def exact(self) -> tuple[np.ndarray, np.ndarray]:
        table = checked_inputs(self.model, self.times, self.inputs)
        if table.ndim != 2:
            raise InputError("derivatives are of one run; give its inputs alone, (samples, 3)")
        substeps, h = steps_between(self.times, self.dt)
        kernel = sensitivity_kernel(self.model.name, self.parameters, self.states)
        names = [f.name for f in self.model.states]
        rows = [names.index(c) for c in self.channels]
        p, count, lanes = self.vehicle.vector(self.model), len(self.parameters) + len(self.states), kernel.directions
        seeds_p, seeds_x = np.zeros((len(self.parameters), count)), np.zeros((len(names), count))
        np.fill_diagonal(seeds_p, 1.0)
        for j, name in enumerate(self.states, start=len(self.parameters)):
            seeds_x[names.index(name), j] = 1.0

        def one_pass(first: int) -> tuple[np.ndarray, np.ndarray]:
            some = slice(first, first + lanes)
            room = ((0, 0), (0, max(0, first + lanes - count)))
            x, s = kernel.run(self.x0, np.pad(seeds_x[:, some], room), p, np.pad(seeds_p[:, some], room), table, substeps, h,
                              self.hold)
            return x[:, rows], s[:, rows, :min(lanes, count - first)]

        with ThreadPoolExecutor(cores()) as pool:
            passes = list(pool.map(one_pass, range(0, max(1, count), lanes)))
        return passes[0][0], np.concatenate([s for _, s in passes], axis=2)

    def finite_difference(self) -> tuple[np.ndarray, np.ndarray]:
        names = [f.name for f in self.model.states]
        theta = np.array([self.vehicle.parameters[n] for n in self.parameters])
        first = self.x0[[names.index(n) for n in self.states]]
        # A parameter of 0 has no scale of its own.
        scales = np.concatenate([np.where(theta == 0.0, 1.0, np.abs(theta)), np.maximum(np.abs(first), 1.0)])
        widths, count = WIDTH * scales, len(scales)
        shifts = np.concatenate([np.zeros((1, count)), np.diag(widths), -np.diag(widths)])
        starts = np.repeat(self.x0[None], len(shifts), axis=0)
        starts[:, [names.index(n) for n in self.states]] += shifts[:, len(theta):]
        runs = self._batch(self.channels).trajectories(theta + shifts[:, :len(theta)], starts)
        slopes = (runs[1:count + 1] - runs[count + 1:]) / (2.0 * widths)[:, None, None]
        return runs[0], np.moveaxis(slopes, 0, -1)
