"""The plan is optimal: sequential quadratic programming and IPOPT, which share no derivatives here, come to the same; the solvers of
quadratic programs agree on those of real cycles; they say so when there is no solution."""

import dataclasses
import math

import casadi as ca
import numpy as np
import pytest

from lfdm_ros.control.controller import Controller, Measured
from lfdm_ros.control.cycle import CycleOutcome
from lfdm_ros.control.ocp.planner import Planner
from lfdm_ros.control.ocp.terms import TERMS
from lfdm_ros.control.routing.routes import Reference
from lfdm_ros.control.settings import Settings
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.simulation import initial_state
from lfdm_ros.simulation.path import Path
from lfdm_ros.solvers import Hpipm, Ipopt, Piqp
from lfdm_ros.vehicles import load_vehicle

VEHICLE = load_vehicle("hmmwv")
STRAIGHT = Path(np.array([[0.0, 0.0], [300.0, 0.0]]))
BEND = Path(np.column_stack([60.0 * np.sin(np.linspace(0.0, 2.5, 60)), 60.0 * (1.0 - np.cos(np.linspace(0.0, 2.5, 60)))]))
AHEAD = Obstacles(np.array([[30.0, 2.4], [55.0, -3.0]]), np.array([1.0, 1.0]), np.array([[0.0, 0.0], [0.0, 0.4]]), 0.0)


@dataclasses.dataclass(frozen=True)
class Case:
    """A task, and what its solution must touch for the case to mean anything."""

    path: Path
    speed: float
    touches: str
    obstacles: Obstacles | None = None
    settings: dict = dataclasses.field(default_factory=dict)
    rate: float = 0.8  # of the steering [1/s]
    start: dict = dataclasses.field(default_factory=dict)
    corridor: np.ndarray | None = None
    time_weight: float = 0.0


CASES = {
    "free_road": Case(BEND, 10.0, "", start=dict(y=0.5)),
    "obstacles": Case(STRAIGHT, 12.0, "obstacle", AHEAD, time_weight=0.5),
    "wheel_loads": Case(BEND, 17.0, "wheel_lift", settings=dict(load_margin=0.55), start=dict(yaw_rate=0.2)),
    "steering_rate": Case(STRAIGHT, 15.0, "steering_rate", rate=0.1, start=dict(y=3.0)),
    "corridor": Case(STRAIGHT, 10.0, "corridor", start=dict(y=0.8),
                     corridor=np.array([[0.0, 3.0, 3.0], [30.0, 0.8, 3.0], [300.0, 0.8, 3.0]])),
}


class Frozen:
    """A planner whose references stay as they are after a few steps: one nonlinear program, begun at the first guess."""

    def __init__(self, case: Case, model: str):
        settings = Settings(model=model, **case.settings)
        self.case, self.planner = case, Planner(VEHICLE.replace(steering_rate=case.rate), settings)
        self.reference = Reference(case.path, np.full(len(case.path.s), case.speed), case.speed + 1.0, case.corridor,
                                   0.15 if case.time_weight else 1.0, case.time_weight)
        state = initial_state(self.planner.model, VEHICLE, vx=case.speed, **case.start)
        z0 = np.concatenate([state, [0.0, 0.0]])
        self.planner.start(z0, self.reference)
        self.first = self.planner.trajectory.saved()
        self.planner.plan(z0, self.reference, case.obstacles, 0.0, 6)
        self.planner.set_stages(self.reference, case.obstacles, 0.0)
        self.planner.trajectory.restore(self.first)

    def sequential(self) -> float:
        """By steps of HPIPM; returns the last step."""
        trajectory, program = self.planner.trajectory, self.planner.program
        solver = Hpipm(program.qp, 100, 1e-9)
        step = math.inf
        for _ in range(80):
            program.linearise(self.reference)
            solution = solver.solve()
            assert solution.solved, solution.status
            step = float(np.abs(solution.dx).max())
            trajectory.move(solution.dx, solution.du, min(1.0, 2.0 / step))
            if step < 1e-8:
                break
        return step

    def exact(self) -> float:
        """By IPOPT, from the first guess; returns its cost."""
        trajectory, program = self.planner.trajectory, self.planner.program
        trajectory.restore(self.first)
        program.linearise(self.reference)
        ipopt = Ipopt(program.qp, program.function, program.linearised(), tolerance=1e-10, compiled=False)
        solution = ipopt.solve()
        assert solution.solved, solution.status
        assert ipopt.residual(solution.dx, solution.du) < 1e-8
        trajectory.move(solution.dx, solution.du, 1.0)
        return ipopt.cost

    def touched(self) -> set[str]:
        """What the plan is up against."""
        trajectory, program = self.planner.trajectory, self.planner.program
        program.linearise(self.reference)
        outcome = program.outcome(0, 0.0, np.zeros_like(trajectory.z))
        assert not outcome.violated
        return {*outcome.active, *(["steering_rate"] if np.abs(trajectory.w[:, 0]).max() > self.case.rate - 1e-5 else [])} - {"speed"}

    def cost(self) -> float:
        """Of the plan, from the stage function's values on CasADi's virtual machine, with the least slacks that its rows need."""
        trajectory, numbers, program = self.planner.trajectory, self.planner.stages, self.planner.program
        values = np.hstack([np.array(program.function(z, w, program.p, program.k, c))
                            for z, w, c in zip(trajectory.z, trajectory.w, numbers.c)]).T
        n = len(trajectory.names)
        errors, rows = values[:, n:n + len(TERMS)], values[1:, n + len(TERMS):]
        over = np.maximum(np.maximum(numbers.lower[1:] - rows, rows - numbers.upper[1:]), 0.0)
        assert np.abs(values[:-1, :n] - trajectory.z[1:]).max() < 1e-7
        return float(0.5 * (program.weighting * errors**2).sum() + (program.linear * trajectory.z).sum()
                     + (program.qp.penalty[1:] * over + 0.5 * program.qp.curvature[1:] * over**2).sum())


@pytest.mark.parametrize(("model", "name"), [*(("driven_bicycle", name) for name in CASES),
                                             ("eight_dof", "obstacles")])
def test_sequential_steps_come_to_what_ipopt_finds(model: str, name: str) -> None:
    frozen = Frozen(CASES[name], model)
    assert frozen.sequential() < 1e-6
    states, controls, cost = frozen.planner.trajectory.z.copy(), frozen.planner.trajectory.w.copy(), frozen.cost()
    assert CASES[name].touches in {"", *frozen.touched()}
    said = frozen.exact()
    assert cost == pytest.approx(frozen.cost(), rel=1e-7)
    assert cost == pytest.approx(said, rel=1e-6)
    assert states == pytest.approx(frozen.planner.trajectory.z, abs=1e-4)
    assert controls == pytest.approx(frozen.planner.trajectory.w, abs=1e-4)


@pytest.mark.parametrize("model", ["driven_bicycle", "eight_dof"])
def test_derivatives_of_a_stage_are_exact(model: str) -> None:
    frozen = Frozen(CASES["wheel_loads"], model)
    trajectory, program = frozen.planner.trajectory, frozen.planner.program
    trajectory.w[:-1] = [0.3, -0.7]
    trajectory.column("vy")[:] += 0.1
    program.linearise(frozen.reference)
    function, n, m = program.function, trajectory.z.shape[1], trajectory.w.shape[1]
    z, w, *others = function.sx_in()
    jacobian = ca.Function("jacobian", [z, w, *others], [ca.densify(ca.jacobian(function(z, w, *others), ca.vertcat(z, w)))])
    for k in (1, 15, 39):
        zk, wk, arguments = trajectory.z[k], trajectory.w[k], (program.p, program.k, frozen.planner.stages.c[k])
        ours, casadi = program.jacobian[k, :, :n + m], np.array(jacobian(zk, wk, *arguments))
        assert program.value[k] == pytest.approx(np.array(function(zk, wk, *arguments))[:, 0], rel=1e-11, abs=1e-11)
        assert ours == pytest.approx(casadi, rel=1e-9, abs=1e-9)
        at = np.concatenate([zk, wk])
        h = 1e-6 * np.maximum(np.abs(at), 1.0)
        for i in range(n + m):
            ahead, behind = at.copy(), at.copy()
            ahead[i] += h[i]
            behind[i] -= h[i]
            slope = np.subtract(*(np.array(function(v[:n], v[n:], *arguments))[:, 0] for v in (ahead, behind))) / (2.0 * h[i])
            assert ours[:, i] == pytest.approx(slope, rel=1e-5, abs=1e-5 * max(1.0, np.abs(slope).max()))


def drive(controller: Controller, cycles: int) -> list[np.ndarray]:
    """Cycles in which the vehicle does what was planned; returns the plans."""
    controller.follow(STRAIGHT, 12.0)
    controller.update_obstacles(AHEAD)
    planner, plans = controller.planner, []
    state = dict(zip(planner.trajectory.names, [*initial_state(planner.model, VEHICLE, vx=12.0, y=0.3), 0.0, 0.0]))
    for k in range(cycles):
        now = controller.settings.period * k
        cycle = controller.cycle(now, Measured(now, state))
        assert cycle.outcome is CycleOutcome.SOLVED, cycle.reason
        assert cycle.plan is not None
        plans.append(cycle.plan.states)
        state = {name: float(np.interp(now + controller.settings.period, cycle.plan.times, column))
                 for name, column in zip(cycle.plan.names, cycle.plan.states.T)}
    return plans


def test_hpipm_and_piqp_agree_on_real_cycles() -> None:
    controller = Controller(VEHICLE, Settings(time_budget=0.0))
    program = controller.planner.program.qp
    solvers = Hpipm(program, 100, 1e-11), Piqp(program, 200, 1e-12)
    worst = 0.0
    for cycles in range(1, 30, 4):
        controller.reset()
        drive(controller, cycles)
        first, second = (solver.solve() for solver in solvers)
        assert first.solved and second.solved
        worst = max(worst, np.abs(first.dx - second.dx).max(), np.abs(first.du - second.du).max())
    assert worst < 1e-5


@pytest.mark.parametrize("name", ["A", "b", "Q", "q", "C", "penalty"])
def test_hpipm_says_what_is_no_solution_and_goes_on(name: str) -> None:
    controller = Controller(VEHICLE, Settings(time_budget=0.0))
    drive(controller, 2)
    program = controller.planner.program.qp
    solver = Hpipm(program)
    assert solver.solve().solved
    array = getattr(program, name)
    before = array[7].copy()
    array[7] = np.nan
    broken = solver.solve()
    assert not (broken.solved and program.residual(broken.dx, broken.du) < 1e-3)
    array[7] = before
    again = solver.solve()
    assert again.solved
    assert again.dx == pytest.approx(Hpipm(program).solve().dx, abs=1e-3)


SMALL = dict(near_stages=8, far_stages=0, substeps=1, time_budget=0.0)


@pytest.mark.parametrize("solver", ["hpipm", "piqp", "ipopt"])
def test_a_drive_repeats_to_the_bit_after_a_reset(solver: str) -> None:
    controller = Controller(VEHICLE, Settings(solver=solver, **SMALL))
    first = drive(controller, 8)
    controller.reset()
    assert np.array_equal(drive(controller, 8), first)


def test_ipopt_leaves_no_gap_in_a_cycle_and_many_steps_come_to_the_same() -> None:
    plans = {solver: drive(Controller(VEHICLE, Settings(solver=solver, iterations=50, cold_iterations=50, **SMALL)), 5)
             for solver in ("hpipm", "ipopt")}
    assert np.array(plans["hpipm"]) == pytest.approx(np.array(plans["ipopt"]), abs=5e-3)  # the solvers' tolerance in use


def test_ipopt_says_what_is_no_solution() -> None:
    controller = Controller(VEHICLE, Settings(solver="ipopt", **SMALL))
    drive(controller, 2)
    planner = controller.planner
    assert planner.solver.solve().solved
    planner.stages.c[3, 2] = np.nan
    assert not planner.solver.solve().solved
