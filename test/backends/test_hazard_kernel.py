"""Vehicles that are followed inside the batch: against trajectories and exact distances outside of it."""

import math
from itertools import pairwise

import numpy as np
import pytest

from lfdm_ros.backends import hazard_kernel
from lfdm_ros.backends.hazard_kernel import CIRCLE, EDGE, FAR, NORMALS, NUMBERS, REFERENCE, RESULTS, SLOW
from lfdm_ros.engine.run_monitor import RunMonitor
from lfdm_ros.ground import FieldPosterior, FieldPrior, FieldTable, FrictionField, Grid
from lfdm_ros.models.spinning import SPIN, sideslip
from lfdm_ros.simulation import BatchRollout, Circle, Polygon, Simulator, World, initial_state
from lfdm_ros.vehicles import load_vehicle

HMMWV = load_vehicle("hmmwv")
SAMPLE, STEP, SAMPLES, COUNT, SPEED = 0.05, 0.01, 41, 32, 15.0
TIMES = SAMPLE * np.arange(SAMPLES)
ROW = {name: i for i, name in enumerate(RESULTS)}


class Runs:
    """Arguments of the kernel for vehicles that start alike, each with steering and pedal of its own (K, 2, N)."""

    def __init__(self, model="eight_dof", real="double", lanes=8, rates=(FAR, FAR, FAR), seed=1, vehicle=HMMWV,
                 backend="cpu"):
        self.vehicle, self.model = vehicle, vehicle.model(model)
        self.kernel = hazard_kernel(self.model, real, lanes, backend)
        self.start = initial_state(self.model, vehicle, vx=SPEED)
        self.starts = np.repeat(self.start[:, None], COUNT, axis=1)
        rng = np.random.default_rng(seed)
        swing = rng.uniform(-0.25, 0.25, COUNT) * np.sin(2.0 * TIMES)[:, None]
        self.wanted = np.stack([swing, np.broadcast_to(rng.uniform(-0.4, 0.4, COUNT), swing.shape)], axis=1)
        self.reference, self.gains, self.delays = np.zeros((SAMPLES, len(REFERENCE))), np.ones((3, COUNT)), np.ones(COUNT, np.int64)
        self.lag = np.ones(1)
        f = HMMWV.footprint
        self.numbers = np.array([f.front, f.rear, f.half_width, *rates, np.tan(0.5), 1.0, SAMPLE, STEP])

    def follow(self, circles=None, edges=None, normals=None):
        """Results by name; circles, edges: rows by sample."""
        dtype, k = self.kernel.dtype, self.kernel

        def packed(rows, width):
            rows = [np.zeros((0, width))] * SAMPLES if rows is None else rows
            return (np.ascontiguousarray(np.concatenate(rows), dtype=dtype).reshape(-1, width),
                    np.concatenate([[0], np.cumsum([len(r) for r in rows])]).astype(np.int64))

        (circle_rows, first_circle), (edge_rows, first_edge) = packed(circles, len(CIRCLE)), packed(edges, len(EDGE))
        normals = np.zeros((1, NORMALS, COUNT)) if normals is None else normals
        results = np.full((len(RESULTS), COUNT), np.nan, dtype)
        parameters = np.repeat(self.vehicle.vector(self.model)[:, None], COUNT, axis=1)
        own = (np.array(a, dtype, order="C") for a in (parameters, self.starts, self.wanted, self.gains))
        k.run(*own, self.delays, *(np.array(a, dtype) for a in (self.lag, self.reference, self.numbers)), circle_rows, first_circle,
              np.zeros(len(circle_rows), np.int64), np.ascontiguousarray(normals, dtype=dtype), edge_rows, first_edge,
              round(SAMPLE / STEP), results, 0, COUNT)
        return {name: results[i].astype(float) for name, i in ROW.items()}

    def poses(self):
        """The same by the batch of trajectories (N, K, 3)."""
        return self.trajectories("x", "y", "yaw")

    def column(self, name):
        return self.trajectories(name)[..., 0]

    def trajectories(self, *channels):
        steering, pedal = self.wanted.transpose(1, 2, 0)
        inputs = np.stack([steering, np.maximum(pedal, 0.0), np.maximum(-pedal, 0.0)], axis=-1)
        rollout = BatchRollout(model=self.model, vehicle=self.vehicle, dt=STEP, times=TIMES, inputs=inputs, parameters=(),
                               channels=channels)
        return rollout.trajectories(np.zeros((COUNT, 0)), self.start)


def clearances(world, poses):
    """By the monitor of closed loops (runs, samples)."""
    monitor = RunMonitor(world, HMMWV.footprint, {"x": 0, "y": 1, "yaw": 2})
    return np.array([[monitor.check_contact(t, pose) for t, pose in zip(TIMES, run)] for run in poses])


def circle_rows(*circles):
    """Rows of each sample."""
    return [np.array([(c.x + t * c.vx, c.y + t * c.vy, c.radius, 0.0, 0.0) for c in circles]) for t in TIMES]


def edge_rows(polygon, border=0.0):
    rows = []
    for t in TIMES:
        start = polygon.vertices + t * np.array([polygon.vx, polygon.vy])
        end = np.roll(start, -1, axis=0)
        half = 0.5 * (end - start)
        normal = np.column_stack([-half[:, 1], half[:, 0]]) / np.hypot(*half.T)[:, None]
        rows.append(np.column_stack([0.5 * (start + end), half, normal, np.full(len(half), border)]))
    return rows


@pytest.mark.parametrize(("real", "tolerance"), [("double", 1e-9), ("float", 2e-3)])
@pytest.mark.parametrize("model", ["eight_dof", "driven_bicycle", "eight_dof/friction_field"])
def test_least_clearance_and_first_hit_are_those_of_trajectories(model, real, tolerance):
    grid = Grid.covering((-5.0, -20.0), (40.0, 20.0), 1.0)
    uneven = FieldTable(FrictionField(grid, FieldPosterior(FieldPrior(sigma_f=1.6), grid).draw(1, np.random.default_rng(6))[0]), 0.8)
    vehicle = HMMWV.replace(friction_field=uneven.number) if "field" in model else HMMWV
    circles = Circle(18.0, 3.5, 0.5), Circle(30.0, -6.5, 1.0, -2.0, 1.5), Circle(12.0, -2.6, 0.3, 0.0, 0.2)
    runs = Runs(model, real, vehicle=vehicle)
    found, exact = runs.follow(circle_rows(*circles)), clearances(World(circles), runs.poses())
    np.testing.assert_allclose(found["clearance"], exact.min(axis=1), atol=tolerance)
    hit = exact <= 0.0
    sure = np.abs(exact).min(axis=1) > tolerance
    assert 3 < hit.any(axis=1).sum() < COUNT - 3  # the comparison has both
    np.testing.assert_allclose(found["hit_at"][sure], np.where(hit.any(axis=1), TIMES[hit.argmax(axis=1)], FAR)[sure], rtol=1e-6)
    assert (found["room"] == FAR).all() and (found["finite"] == 1.0).all()
    speeds = runs.column("vx")[np.arange(COUNT), hit.argmax(axis=1)]
    np.testing.assert_allclose(found["hit_speed"][sure], np.where(hit.any(axis=1), speeds, 0.0)[sure], rtol=tolerance)


@pytest.mark.parametrize("border", [False, True])
def test_an_edge_is_met_when_the_rectangle_meets_it(border):
    """An axis that parts them is exact about whether; how far is a lower bound."""
    bar = Polygon([(15.0, 2.6), (22.0, 6.0), (21.0, 7.0)], 0.0, -0.3)
    runs = Runs()
    found, exact = runs.follow(edges=edge_rows(bar, float(border))), clearances(World((bar,)), runs.poses())
    measure, since = ("room", "left_at") if border else ("clearance", "hit_at")
    meets = (exact <= 0.0).any(axis=1)
    assert 3 < meets.sum() < COUNT - 3
    assert ((found[measure] <= 0.0) == meets).all()
    assert (found[since][meets] == pytest.approx(TIMES[(exact <= 0.0).argmax(axis=1)][meets]))
    assert (found[measure][~meets] <= exact.min(axis=1)[~meets] + 1e-9).all()
    assert (found["hit_at" if border else "left_at"] == FAR).all()


def test_places_of_obstacles_are_moved_by_each_vehicles_own_random_numbers():
    circle, normals = Circle(20.0, 3.0, 0.5), np.random.default_rng(2).normal(size=(1, NORMALS, COUNT))
    runs = Runs()
    rows = [np.array([(circle.x, circle.y, circle.radius, 0.4, 0.3 * t)]) for t in TIMES]
    found, poses = runs.follow(rows, normals=normals), runs.poses()
    for i in range(COUNT):
        exact = [World((Circle(circle.x + 0.4 * z[0] + 0.3 * t * z[2], circle.y + 0.4 * z[1] + 0.3 * t * z[3], circle.radius),)).clearance(
            0.0, *pose, HMMWV.footprint) for z, t, pose in zip(np.repeat(normals[0, None, :, i], SAMPLES, axis=0), TIMES, poses[i])]
        assert found["clearance"][i] == pytest.approx(min(exact), abs=1e-9)


def test_least_wheel_load_is_what_a_simulator_reports():
    runs = Runs()
    runs.wanted[:, 0] *= 3.0
    found = runs.follow()
    simulator = Simulator(HMMWV, "eight_dof", STEP)
    loads = [simulator.output_index[f"tyre_fz_{wheel}"] for wheel in ("fl", "fr", "rl", "rr")]
    for i in range(0, COUNT, 7):
        simulator.reset(vx=SPEED)
        least = [simulator.outputs[loads].min()]
        inputs = np.column_stack([runs.wanted[:, 0, i], np.maximum(runs.wanted[:, 1, i], 0.0), np.maximum(-runs.wanted[:, 1, i], 0.0)])
        for before, after in pairwise(inputs):
            simulator.advance(before, after, round(SAMPLE / STEP))
            least.append(simulator.outputs[loads].min())
        if min(least) > 0.0:
            assert found["least_load"][i] == pytest.approx(min(least), rel=1e-9)
            assert found["lifted_at"][i] == FAR
        else:
            assert found["lifted_at"][i] == pytest.approx(TIMES[int(np.argmin(np.array(least) > 0.0))])


@pytest.mark.parametrize("direction", [1.0, -1.0])
def test_a_spin_and_the_direction_of_the_drive_are_those_of_a_simulator(direction):
    limit = np.tan(0.12)
    runs = Runs()
    runs.wanted[:, 0] *= 3.0
    runs.numbers[NUMBERS.index("spin")], runs.numbers[NUMBERS.index("direction")] = limit, direction
    place = Circle(20.0, 5.0, 0.1)
    found = runs.follow([np.zeros((0, len(CIRCLE)))] * (SAMPLES - 1) + [circle_rows(place)[0]])
    simulator = Simulator(HMMWV, "eight_dof", STEP)
    where = [simulator.output_index[name] for name in ("x", "y", "yaw", "vx", "vy")]
    spins = 0
    for i in range(0, COUNT, 3):
        simulator.reset(vx=SPEED)
        pedal = runs.wanted[:, 1, i]
        inputs = np.column_stack([runs.wanted[:, 0, i], direction * np.maximum(pedal, 0.0), np.maximum(-pedal, 0.0)])
        missing = []
        for k in range(SAMPLES):
            if k:
                simulator.advance(inputs[k - 1], inputs[k], round(SAMPLE / STEP))
            *pose, vx, vy = simulator.outputs[where].tolist()
            missing.append(limit * max(abs(vx), SLOW) - abs(vy))
        spun = np.array(missing) <= 0.0
        spins += spun.any()
        assert found["steady"][i] == pytest.approx(min(missing), abs=1e-8)
        assert found["spun_at"][i] == pytest.approx(TIMES[spun.argmax()] if spun.any() else FAR)
        assert found["clearance"][i] == pytest.approx(World((place,)).clearance(0.0, *pose, HMMWV.footprint), abs=1e-8)
    assert 2 < spins < len(range(0, COUNT, 3)) - 2


def test_corrections_and_rates_are_those_of_a_loop_over_one_vehicle():
    """Each with gains of its own, and each block of lanes answers after a delay of its own, by hands that lag."""
    runs = Runs(rates=(0.6, 1.5, 2.0))
    runs.gains = np.random.default_rng(3).uniform(0.3, 1.5, (3, COUNT))
    runs.delays, runs.lag = np.repeat([1, 2, 7, 60], 8), np.array([0.3, 0.5, 0.2])
    runs.reference[:] = np.column_stack([SPEED * TIMES, np.full(SAMPLES, 1.0), np.full(SAMPLES, 0.1), np.full(SAMPLES, SPEED - 1.0),
                                         np.full(SAMPLES, 0.02), np.full(SAMPLES, 0.05), np.full(SAMPLES, 0.3), np.full(SAMPLES, 0.1),
                                         np.full(SAMPLES, 0.1), np.full(SAMPLES, 0.2)])
    place = Circle(40.0, 5.0, 0.1)
    # A circle at the last sample only: its distance says where the vehicle ended.
    found = runs.follow([np.zeros((0, len(CIRCLE)))] * (SAMPLES - 1) + [circle_rows(place)[0]])
    simulator = Simulator(HMMWV, "eight_dof", STEP)
    where = [simulator.output_index[name] for name in ("x", "y", "yaw", "vx", "yaw_rate")]
    for i in range(0, COUNT, 5):
        simulator.reset(vx=SPEED)
        steering, pedal = runs.wanted[0, :, i]
        asked = runs.wanted[:, 0, i].copy()
        for k in range(SAMPLES - 1):
            x, y, yaw, vx, turns = simulator.outputs[where]
            rx, ry, ryaw, rv, along, across, heading, speed, turning, rate = runs.reference[k]
            c, s = np.cos(ryaw), np.sin(ryaw)
            own, answer = runs.gains[:, i], k + runs.delays[i]
            error = (own[0] * across * (c * (y - ry) - s * (x - rx)) + own[1] * heading * np.sin(yaw - ryaw)
                     + own[2] * rate * (turns - turning))
            asked[answer:answer + 3] -= error * runs.lag[:max(SAMPLES - answer, 0)]
            towards = np.clip(asked[k + 1], -1.0, 1.0)
            force = np.clip(runs.wanted[k + 1, 1, i] - along * (c * (x - rx) + s * (y - ry)) - speed * (vx - rv), -1.0, 1.0)
            after = (np.clip(towards, steering - 0.6 * SAMPLE, steering + 0.6 * SAMPLE),
                     np.clip(force, pedal - 2.0 * SAMPLE, pedal + 1.5 * SAMPLE))
            simulator.advance((steering, max(pedal, 0.0), max(-pedal, 0.0)), (after[0], max(after[1], 0.0), max(-after[1], 0.0)),
                              round(SAMPLE / STEP))
            steering, pedal = after
        x, y, yaw, *_ = simulator.outputs[where]
        assert found["clearance"][i] == pytest.approx(World((place,)).clearance(0.0, x, y, yaw, HMMWV.footprint), abs=1e-8)


def test_a_vehicle_whose_state_is_no_number_is_told():
    runs = Runs()
    runs.starts[runs.model.states.index(next(f for f in runs.model.states if f.name == "vx")), 3] = np.nan
    found = runs.follow(circle_rows(Circle(500.0, 0.0, 1.0)))
    assert (found["finite"] == np.where(np.arange(COUNT) == 3, 0.0, 1.0)).all()


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="inputs"):
        hazard_kernel(HMMWV.model("eight_dof/given_ground"))
    with pytest.raises(ValueError, match="whole blocks of 8"):
        Runs().kernel.run(*[np.zeros((1, COUNT))] * 14, 1, np.zeros((1, COUNT)), 0, 7)


def test_rollouts_and_judges_agree_on_a_spin() -> None:
    """The rollouts' way to ask, without an angle: |vy| >= tan(spin) max(|vx|, SLOW)."""
    rng = np.random.default_rng(1)
    for vx, vy in rng.uniform(-20.0, 20.0, (500, 2)).tolist():
        assert (sideslip(vx, vy) >= SPIN) == (abs(vy) >= math.tan(SPIN) * max(abs(vx), SLOW))
    assert sideslip(0.1, 0.5) < SPIN < sideslip(0.1, 2.0) and sideslip(-8.0, 0.0) == 0.0  # creeps, slides, backs


@pytest.mark.parametrize("model", ["eight_dof", "eight_dof/tmeasy", "eighteen_dof/tmeasy"])
@pytest.mark.parametrize("real, bound", [("double", 1e-10), ("float", 1e-4)])
def test_a_gpu_finds_the_same(gpu, model, real, bound):
    """All that a run keeps: circles that are drawn, borders, loads, spins. Single precision may see a touch at its edge otherwise."""
    circle, normals = Circle(20.0, 3.0, 0.5), np.random.default_rng(2).normal(size=(1, NORMALS, COUNT))
    circles = [np.array([(circle.x, circle.y, circle.radius, 0.4, 0.3 * t)]) for t in TIMES]
    edges = edge_rows(Polygon([(25.0, -3.0), (32.0, -6.0), (31.0, -7.0)], 0.0, 0.1), 1.0)

    def found(lanes, backend):
        runs = Runs(model, real, lanes=lanes, rates=(1.0, 2.0, 3.0), backend=backend)
        runs.reference[:, 1], runs.reference[:, 5:7], runs.reference[:, 9] = 1.0, (0.05, 0.3), 0.1
        runs.gains, runs.delays = np.random.default_rng(3).uniform(0.3, 1.5, (3, COUNT)), np.repeat([1, 2, 7, 60], 8)
        runs.lag = np.array([0.3, 0.5, 0.2])
        return runs.follow(circles, edges, normals)

    ours, theirs = found(1, "gpu"), found(8, "cpu")
    for name in ("clearance", "room", "least_load", "steady", "finite"):
        np.testing.assert_allclose(ours[name], theirs[name], rtol=bound, atol=bound * 10.0, err_msg=name)
    since = {"hit_at": "clearance", "left_at": "room", "lifted_at": "least_load", "spun_at": "steady"}
    for name, measure in since.items():
        sure = np.abs(theirs[measure]) > 100.0 * bound
        np.testing.assert_allclose(ours[name][sure], theirs[name][sure], rtol=1e-6, err_msg=name)
    assert (theirs["hit_at"] < FAR).any() and (theirs["hit_at"] == FAR).any()
    assert gpu.counts()["launches"] == 1
