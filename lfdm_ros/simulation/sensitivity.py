"""Derivatives of whole trajectories to parameters, initial states and inputs (forward sensitivities).

x_{k+1} = f(x_k, u_k, p, h) is differentiated step by step: S_{k+1} = df/dx S_k + df/du dU_k + df/dp, exactly and in the same compiled
loop: the discrete map is differentiated, not the continuous equations.

At points without a derivative it is that of the active branch:
- at a gear change, with a fixed time of the change (a parameter that shifts it makes the trajectory kink);
- when a wheel comes to rest or breaks loose, or lifts or touches down, at the same step;
- exactly at a corner of a table or the start of a limit, the mean of both sides.
Between such events finite differences converge to it; across one they differ by the jump times the shift of the event.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from lfdm_ros.backends import SensitivityKernel, cores, gpu_sensitivity, in_parallel, sensitivity_kernel
from lfdm_ros.errors import InputError
from lfdm_ros.models import Model
from lfdm_ros.simulation.batch import PRECISIONS, BatchRollout, check_names, checked_sampling
from lfdm_ros.simulation.inputs import InputProfile
from lfdm_ros.simulation.simulator import SimulationDiverged, with_ground
from lfdm_ros.vehicles import Vehicle

EXACT, FINITE_DIFFERENCE = "exact", "finite_difference"

# Cost of one pass of the exact kernel (8 directions) over that of one block of the batch (16 vehicles), by chassis, from whole calls on a
# processor with AVX-512. Other chassis: equal within 6 %, hence exact.
PASS_COST = {"eleven_dof": 0.9, "twenty_four_dof": 1.4}
BLOCK = 16

# Relative width of central differences: truncation and rounding are then about equal.
WIDTH = np.finfo(float).eps ** (1.0 / 3.0)


class SensitivityRollout:
    """Runs of one vehicle with derivatives in directions of parameters, initial state and inputs together, for gradients in samplers.

    Checked and compiled once, for a low overhead of calls. Picklable and thread-safe.
    """

    def __init__(self, *, model: str | Model, vehicle: Vehicle, dt: float, times: ArrayLike, inputs: ArrayLike,
                 parameters: Sequence[str], channels: Sequence[str], hold: bool = False, prescribed: Sequence[str] = (),
                 states: Sequence[str] | None = None):
        """Compiles the model with its derivatives.

        Args:
            dt: maximum physics step [s]; the sample interval is divided into equal steps.
            times: (K,) sample times [s], evenly spaced.
            inputs: (K, 3 + M) steering, throttle, brake at the sample times, linear in between, then the prescribed states.
            parameters: P names, of the elements of `theta`.
            channels: C names of states to report.
            hold: zero-order hold of the driver's inputs between samples, in place of linear ones.
            prescribed: M names of continuous states that follow a series instead of the equations, as in `BatchRollout`, with zero
                derivatives.
            states: names of the states with derivatives to their initial values; None for all. Few make simple models faster.

        Raises:
            InputError: unknown model, parameter or state; times not evenly spaced; inputs not finite.
        """
        self._sampling = checked_sampling(model=model, vehicle=vehicle, dt=dt, times=times, parameters=parameters, channels=channels,
                                          hold=hold, prescribed=prescribed)
        declared = self._sampling.model
        names = [f.name for f in declared.states]
        chosen = names if states is None else list(states)
        check_names(declared, "state", chosen, names)
        self._states = tuple(name for name in chosen if name not in prescribed)
        self._fixed = np.array([i for i, name in enumerate(names) if name not in (*chosen, *prescribed)], dtype=np.int64)
        self._inputs = self._table(np.array(inputs, float))
        self._kernel()

    @property
    def model(self) -> Model:
        return self._sampling.model

    @property
    def times(self) -> np.ndarray:
        """(K,) sample times [s]."""
        return self._sampling.times

    def run(self, theta: ArrayLike, x0: ArrayLike, seeds_theta: ArrayLike, seeds_x0: ArrayLike, inputs: ArrayLike | None = None,
            seeds_inputs: ArrayLike | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Returns one run and its derivative in D directions; a direction is a column of all seeds together.

        Args:
            theta: (P,) parameters.
            x0: (nx,) state at the first sample.
            seeds_theta: (P, D) d theta.
            seeds_x0: (nx, D) d x0.
            inputs: (K, 3 + M), instead of the constructor's.
            seeds_inputs: (K, 3, D) d of steering, throttle, brake at the samples, interpolated as the inputs. Their kernel is compiled on
                first use.

        Returns:
            Trajectories (K, C) and derivatives (K, C, D), not finite for a diverged run.

        Raises:
            InputError: inputs not finite; an array of another shape; a seed of an initial state that is not among `states`.
        """
        common = self._sampling
        values, start = np.asarray(theta, float), np.asarray(x0, float)
        by_theta, by_x0 = np.asarray(seeds_theta, float), np.asarray(seeds_x0, float)
        table = self._inputs if inputs is None else self._table(inputs)
        by_inputs = None if seeds_inputs is None else np.asarray(seeds_inputs, float)
        count = self._check(values, start, by_theta, by_x0)
        if by_inputs is not None:
            _check_shape("seeds_inputs", by_inputs, (len(common.times), len(self.model.inputs), count))
        p = common.base.copy()
        p[common.columns] = values
        if not count:
            # The kernel for trajectories alone is faster.
            kernel, by_theta, by_inputs = sensitivity_kernel(common.model, prescribed=common.prescribed), np.zeros((0, 0)), None
        else:
            kernel = self._kernel(of_inputs=by_inputs is not None)
        return kernel.run(start, by_x0, p, by_theta, table, common.substeps, common.h, common.hold, by_inputs, common.rows)

    def run_many(self, theta: ArrayLike, x0: ArrayLike, seeds_theta: ArrayLike, seeds_x0: ArrayLike,
                 backend: str = "cpu", precision: str = "float64") -> tuple[np.ndarray, np.ndarray]:
        """Returns N runs and their derivatives in D directions, the same for all.

        Args:
            theta: (N, P) parameters.
            x0: (nx,) or (N, nx) states at the first sample.
            seeds_theta: (P, D) d theta.
            seeds_x0: (nx, D) d x0.
            backend: cpu, run after run on all cores; or gpu, a thread for each run and direction.
            precision: float64, or of gpu float32.

        Returns:
            Trajectories (N, K, C) and derivatives (N, K, C, D), not finite for a diverged run.

        Raises:
            InputError: an array of another shape; a seed of an initial state that is not among `states`; no GPU.
        """
        common = self._sampling
        values = np.atleast_2d(np.asarray(theta, float))
        n, by_theta, by_x0 = len(values), np.asarray(seeds_theta, float), np.asarray(seeds_x0, float)
        starts = np.broadcast_to(np.asarray(x0, float), (n, len(self.model.states)))
        if backend not in ("cpu", "gpu"):
            raise InputError(f"derivatives run on cpu or gpu, not on '{backend}'")
        if precision not in PRECISIONS:
            raise InputError(f"precision '{precision}' must be one of {', '.join(PRECISIONS)}")
        count = self._check(values, starts, by_theta, by_x0, (n,))
        if backend == "gpu" and count:
            p = np.repeat(common.base[:, None], n, axis=1)
            p[common.columns] = values.T
            kernel = gpu_sensitivity(common.model, common.parameters, self._states, common.prescribed, precision)
            return kernel.run(p, starts.T, by_theta, by_x0, self._inputs, common.hold, common.substeps, common.h, common.rows)
        if precision != "float64":
            raise InputError(f"precision '{precision}': on the processor derivatives are float64")
        shape = (n, len(common.times), len(common.rows))
        x, s = np.empty(shape), np.empty((*shape, count))

        def work(i: int) -> None:
            x[i], s[i] = self.run(values[i], starts[i], by_theta, by_x0)

        in_parallel(work, n)
        return x, s

    def _check(self, theta: np.ndarray, x0: np.ndarray, by_theta: np.ndarray, by_x0: np.ndarray, runs: tuple[int, ...] = ()) -> int:
        """Checks parameters, states and seeds of runs; returns the number of directions."""
        count, nx, np_ = by_theta.shape[-1] if by_theta.ndim else 0, len(self.model.states), len(self._sampling.parameters)
        for name, array, shape in (("theta", theta, (*runs, np_)), ("x0", x0, (*runs, nx)), ("seeds_theta", by_theta, (np_, count)),
                                   ("seeds_x0", by_x0, (nx, count))):
            _check_shape(name, array, shape)
        if self._fixed.size and by_x0[self._fixed].any():
            raise InputError(f"seeds_x0 changes a state that is not among: {', '.join(self._states)}")
        return count

    def _kernel(self, of_inputs: bool = False) -> SensitivityKernel:
        common = self._sampling
        return sensitivity_kernel(common.model, common.parameters, self._states, prescribed=common.prescribed, of_inputs=of_inputs)

    def _table(self, inputs: ArrayLike) -> np.ndarray:
        table = self._sampling.table(inputs)
        if table.ndim != 2:
            raise InputError("derivatives are of one run; give its inputs alone, (samples, 3)")
        return table


def _check_shape(name: str, array: np.ndarray, shape: tuple[int, ...]) -> None:
    if array.shape != shape:
        raise InputError(f"{name} has shape {array.shape}, expected {shape}")


class NotDifferentiable(RuntimeError):
    """Derivative of a finite trajectory that is not finite, first at `time` [s]."""

    def __init__(self, time: float, names: Sequence[str]):
        super().__init__(f"the derivative by {', '.join(names)} is not finite at t = {time:.6g} s")
        self.time = time


@dataclass(frozen=True)
class Sensitivities:
    """Trajectories and their derivatives: names = parameters, then initial states.

    times (K,) [s], trajectories (K, C) in the channels' units, sensitivities (K, C, len(names)) in those over the names' units; `method`:
    exact or finite_difference.
    """

    times: np.ndarray
    channels: tuple[str, ...]
    names: tuple[str, ...]
    trajectories: np.ndarray
    sensitivities: np.ndarray
    method: str


def forward_sensitivity(*, model: str | Model, vehicle: Vehicle, dt: float, times: ArrayLike, inputs: InputProfile | ArrayLike,
                        x0: ArrayLike, channels: Sequence[str], parameters: Sequence[str] = (), states: Sequence[str] = (),
                        hold: bool = False, method: str = "auto") -> Sensitivities:
    """Returns one run and its derivatives to parameters and to initial values of states.

    Args:
        dt: maximum physics step [s]; the sample interval is divided into equal steps.
        times: (K,) sample times [s], evenly spaced.
        inputs: a profile, or (K, 3) steering, throttle, brake at the sample times; linear in between.
        x0: (nx,) state at the first sample.
        channels: C names of states to report.
        hold: zero-order hold of the inputs between samples, in place of linear ones.
        method: exact; finite_difference: central differences, all perturbed runs as one batch; auto: the cheaper.

    Raises:
        InputError: unknown model, parameter, state, channel or method; times not evenly spaced; inputs not finite.
        SimulationDiverged: a state is not finite.
        NotDifferentiable: a derivative is not finite.
    """
    declared = vehicle.model(model)
    names = [f.name for f in declared.states]
    check_names(declared, "state", states, names)
    if method not in ("auto", EXACT, FINITE_DIFFERENCE):
        raise InputError(f"no method '{method}'; choose one of: auto, {EXACT}, {FINITE_DIFFERENCE}")
    times = np.asarray(times, float)
    table = with_ground(declared, inputs.sample(times)) if isinstance(inputs, InputProfile) else np.array(inputs, float)
    start = np.asarray(x0, float)
    if start.shape != (len(names),) or not np.isfinite(start).all():
        raise InputError(f"the initial state must be {len(names)} finite numbers, as `initial_state` makes them")
    rollout = SensitivityRollout(model=declared, vehicle=vehicle, dt=dt, times=times, inputs=table, parameters=parameters,
                                 channels=channels, hold=hold, states=states)
    theta, rows = np.array([vehicle.parameters[name] for name in parameters]), [names.index(name) for name in states]
    if method == "auto":
        method = cheaper_method(declared.name, len(parameters) + len(states), cores())
    if method == EXACT:
        directions = np.eye(len(theta) + len(rows))
        seeds_x0 = np.zeros((len(names), len(directions)))
        seeds_x0[rows] = directions[len(theta):]
        trajectories, sensitivities = rollout.run(theta, start, directions[:len(theta)], seeds_x0)
    else:
        batch = BatchRollout(model=declared, vehicle=vehicle, dt=dt, times=times, inputs=table, parameters=parameters, channels=channels,
                             hold=hold)
        trajectories, sensitivities = _central_differences(batch, theta, start, rows)
    unknowns = (*parameters, *states)
    broken = ~np.isfinite(trajectories).all(axis=1)
    if broken.any():
        k = int(np.argmax(broken))
        raise SimulationDiverged(float(times[k]), trajectories[k])
    broken = ~np.isfinite(sensitivities).all(axis=1)
    if broken.any():
        k = int(np.argmax(broken.any(axis=1)))
        raise NotDifferentiable(float(times[k]), [n for n, bad in zip(unknowns, broken[k]) if bad])
    return Sensitivities(times, tuple(channels), unknowns, trajectories, sensitivities, method)


def _central_differences(batch: BatchRollout, theta: np.ndarray, x0: np.ndarray, rows: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the trajectory and its derivatives by theta and by the initial states in `rows`, from one batch of shifted runs."""
    # Absolute width for a parameter of 0.
    scales = np.concatenate([np.where(theta == 0.0, 1.0, np.abs(theta)), np.maximum(np.abs(x0[rows]), 1.0)])
    widths, count = WIDTH * scales, len(scales)
    shifts = np.concatenate([np.zeros((1, count)), np.diag(widths), -np.diag(widths)])
    starts = np.repeat(x0[None], len(shifts), axis=0)
    starts[:, rows] += shifts[:, len(theta):]
    runs = batch.trajectories(theta + shifts[:, :len(theta)], starts)
    slopes = (runs[1:count + 1] - runs[count + 1:]) / (2.0 * widths)[:, None, None]
    return runs[0], np.moveaxis(slopes, 0, -1)


def cheaper_method(model: str, directions: int, cores: int) -> str:
    """Returns the cheaper method for a number of derivatives of a model on a number of cores, from the recorded costs.

    Both work in rounds of one unit per core: the exact kernel in passes of 8 derivatives, the batch in blocks of 16 runs.
    """
    exact = PASS_COST.get(model.split("/")[0], 1.0) * np.ceil(np.ceil(directions / 8) / cores)
    batch = np.ceil(np.ceil((2 * directions + 1) / BLOCK) / cores)
    return FINITE_DIFFERENCE if batch < exact else EXACT
