"""Each rung of the controller's ladder, what may happen between two cycles, and that commands are sound whatever happens."""

import gc
import math
from types import SimpleNamespace

import numpy as np
import pytest

import lfdm_ros.control.controller as module
from lfdm_ros.compiler import machine_code
from lfdm_ros.control.controller import Controller
from lfdm_ros.control.cycle import CycleOutcome
from lfdm_ros.control.ocp.planner import Planner
from lfdm_ros.control.prediction import Measured
from lfdm_ros.control.settings import Settings
from lfdm_ros.errors import InputError
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.simulation import Actuator, Goal, Simulator
from lfdm_ros.simulation.path import Path
from lfdm_ros.solvers import Hpipm, StageSolution
from lfdm_ros.vehicles import load_vehicle

HMMWV = load_vehicle("hmmwv")
PERIOD = 0.02
SOLVE = Hpipm.solve
STRAIGHT = Path(np.array([[-50.0, 0.0], [400.0, 0.0]]))
NAMES = ("x", "y", "yaw", "vx", "vy", "yaw_rate", "ax", "ay")
STILL = dict.fromkeys(NAMES[:6], 0.0)
CIRCLE = Path(np.column_stack([30.0 * np.sin(np.linspace(0.0, 6.2, 200)), 30.0 * (1.0 - np.cos(np.linspace(0.0, 6.2, 200)))]))


@pytest.fixture(scope="module")
def shared():
    """Compiled once. No time budget: this machine may be slow."""
    return Controller(HMMWV, Settings(time_budget=0.0))


@pytest.fixture(scope="module")
def delayed():
    return Controller(HMMWV.replace(actuation_delay=0.2), Settings(time_budget=0.0))


def as_new(controller):
    controller.idle()
    controller.reset()
    controller.set_vehicle(HMMWV.replace(actuation_delay=controller.actuators.delay))
    controller.tune(**{f: getattr(Settings(), f) for f in ("iterations", "largest_throttle", "friction_use", "compensate", "stop_brake")})
    controller.tune(time_budget=0.0)
    return controller


@pytest.fixture
def controller(shared):
    return as_new(shared)


def state(time, **values):
    return Measured(time, STILL | values)


class Drive:
    """The controller and a simulated vehicle, cycle by cycle; checks each command for what every command has to be."""

    def __init__(self, controller, start=0.0, delay=0.0, model="driven_bicycle", step=0.01, **values):
        self.controller, self.simulator, self.actuator = controller, Simulator(HMMWV, model, step), Actuator(delay)
        self.simulator.reset(**values)
        self.k, self.start, self.substeps = 0, start, round(PERIOD / step)
        self.index = [self.simulator.output_index[n] for n in NAMES]
        self.command, self.cycles, self.rows = np.zeros(3), [], []

    @property
    def now(self):
        return self.start + self.k * PERIOD

    @property
    def values(self):
        return dict(zip(NAMES, self.simulator.outputs[self.index].tolist()))

    def cycle(self, measured="now"):
        values = self.values
        cycle = self.controller.cycle(self.now, Measured(self.now, values) if measured == "now" else measured)
        check(cycle, self.command, self.controller.settings)
        self.command = np.array(cycle.command)
        self.controller.poll(self.now)
        self.cycles.append(cycle)
        self.rows.append(values)
        self.actuator.send(self.now - self.start, cycle.command)
        for _ in range(self.substeps):
            inputs = self.actuator.advance(self.simulator.time + 0.5 * self.simulator.dt)
            self.simulator.advance(inputs, inputs, 1)
        self.k += 1
        return cycle

    def run(self, seconds, until=lambda cycle: False):
        for _ in range(round(seconds / PERIOD)):
            if until(self.cycle()):
                break
        return self

    def column(self, name):
        return np.array([row[name] for row in self.rows])

    @property
    def outcomes(self):
        return [cycle.outcome for cycle in self.cycles]


def test_what_was_sent_instead_is_predicted_with(controller):
    """Another's command, as where control is shared: until the next one acts the vehicle turns by that."""
    controller.follow(STRAIGHT, 10.0)
    ends = []
    for steering in (0.0, 0.5):
        controller.reset()
        for k in range(5):
            cycle = controller.cycle(k * PERIOD, state(k * PERIOD, vx=10.0))
            controller.applied(k * PERIOD, steering, 0.0)
        ends.append(controller.cycle(5 * PERIOD, state(4 * PERIOD, vx=10.0)).plan.states[0, cycle.plan.names.index("yaw_rate")])
    assert ends[1] > ends[0] + 0.02


def test_another_with_a_small_share_does_not_draw_the_command_away(controller):
    """Nine tenths of it are the controller's, one tenth an operator's who pushes the pedal down: that is what comes of it, and not full
    throttle after a while."""
    controller.follow(STRAIGHT, 10.0)
    for k in range(60):
        own = controller.cycle(k * PERIOD, state(k * PERIOD, x=10.0 * k * PERIOD, vx=10.0)).command
        sent = 0.9 * (own[1] - own[2]) + 0.1
        controller.applied(k * PERIOD, own[0], sent)
    assert own[1] < 0.2 and sent < 0.3


def test_plans_begin_with_a_steering_that_follows_as_fast_as_it_can(controller):
    """From full lock the wheels need a second to where the controller has them, and plans begin with where they are; where another
    steers, they begin with the controller's own."""
    rate = HMMWV.actuators.steering_rate * PERIOD
    for follows in (True, False):
        controller.reset()
        controller.follow(STRAIGHT, 5.0)
        sent = 0.8
        for k in range(10):
            own = controller.cycle(k * PERIOD, state(k * PERIOD, x=5.0 * k * PERIOD, vx=5.0)).command[0]
            sent = max(sent - rate, own) if follows else 0.8
            controller.applied(k * PERIOD, sent, 0.0)
        plan = controller.cycle(10 * PERIOD, state(10 * PERIOD, x=50.0 * PERIOD, vx=5.0)).plan
        assert (abs(plan.inputs[0, 0] - sent) < 1e-6) == follows


def check(cycle, before, settings):
    """A command is finite, in range, not of both pedals, and no further from the last one than the rates allow; the rung is named."""
    steering, throttle, brake = cycle.command
    assert all(math.isfinite(v) for v in cycle.command)
    assert -1.0 <= steering <= 1.0 and 0.0 <= throttle <= settings.largest_throttle and 0.0 <= brake <= settings.largest_brake
    assert throttle == 0.0 or brake == 0.0
    assert abs(steering - before[0]) <= HMMWV.actuators.steering_rate * settings.period + 1e-9
    change = (throttle - brake) - (before[1] - before[2])
    assert -settings.brake_rate * settings.period - 1e-9 <= change <= settings.throttle_rate * settings.period + 1e-9
    assert (cycle.outcome is CycleOutcome.SOLVED) == (cycle.reason == "") or cycle.blocked
    if cycle.plan is not None:
        assert np.isfinite(cycle.plan.states).all() and np.isfinite(cycle.plan.inputs).all()


def break_solver(monkeypatch, how):
    """Makes the solver fail: says so, lies, or raises."""
    def fail(solver, until=math.inf):
        if isinstance(how, Exception):
            raise how
        found = SOLVE(solver, until)
        dx, du = np.zeros_like(found.dx), np.zeros_like(found.du)
        dx[3] = {"lies": 50.0, "nan": math.nan}.get(how, 0.0)
        return StageSolution(dx, du, how in ("lies", "nan"), "tired", 1)
    monkeypatch.setattr(Hpipm, "solve", fail)


# -- The ladder -------------------------------------------------------------------------------------------------------


def test_without_a_state_it_brakes_and_says_so(controller):
    controller.follow(STRAIGHT, 10.0)
    before = np.zeros(3)
    for k in range(10):
        cycle = controller.cycle(k * PERIOD)
        check(cycle, before, controller.settings)
        before = np.array(cycle.command)
        assert cycle.outcome is CycleOutcome.STOPPED and cycle.reason == "no state yet" and cycle.plan is None and cycle.age == math.inf
    assert cycle.command == (0.0, 0.0, 0.5)
    first = controller.cycle(10 * PERIOD, state(10 * PERIOD, vx=10.0))
    assert first.outcome is CycleOutcome.SOLVED and first.cold_start


def test_without_a_task_it_comes_to_a_stop_and_stands(controller):
    drive = Drive(controller, vx=8.0).run(3.0)
    assert set(drive.outcomes) == {CycleOutcome.STOPPED} and drive.cycles[-1].reason == "no task"
    assert drive.column("vx")[-1] == pytest.approx(0.0, abs=1e-3) and drive.command[2] == 0.5


def test_a_stale_state_stops_and_a_new_one_starts_cold(controller):
    controller.follow(CIRCLE, 8.0)
    drive = Drive(controller, vx=8.0).run(1.0)
    assert set(drive.outcomes) == {CycleOutcome.SOLVED} and [c.cold_start for c in drive.cycles].count(True) == 1
    silent = [drive.cycle(None) for _ in range(60)]
    timeout = controller.settings.state_timeout
    for k, cycle in enumerate(silent):
        age = (k + 1) * PERIOD
        assert cycle.age == pytest.approx(age)
        if age < timeout - 1e-9:
            assert cycle.outcome is CycleOutcome.SOLVED and cycle.delay == pytest.approx(age)
        elif age > timeout + 1e-9:
            assert cycle.outcome is CycleOutcome.STOPPED and "stale" in cycle.reason and f"{age:.2f} s" in cycle.reason
    # It brakes along the curve of the last plan, not straight on.
    assert 0.3 < silent[-1].command[2] <= controller.settings.stop_brake and silent[-1].command[0] > 0.05
    assert abs(math.hypot(drive.values["x"], drive.values["y"] - 30.0) - 30.0) < 1.5
    again = drive.cycle()
    assert again.outcome is CycleOutcome.SOLVED and again.cold_start and not drive.cycle().cold_start


@pytest.mark.parametrize("how", ["says so", "lies", "nan", RuntimeError("singular")], ids=str)
def test_a_failing_solver_leads_down_the_ladder_and_up_again(controller, monkeypatch, how):
    controller.follow(CIRCLE, 9.0)
    drive = Drive(controller, y=1.5, vx=9.0).run(0.4)
    good, last = drive.cycles[-1].plan, drive.command.copy()
    timeout = controller.settings.plan_timeout
    with monkeypatch.context() as patch:
        break_solver(patch, how)
        for _ in range(59):
            now = drive.now
            cycle = drive.cycle()
            age = now - good.times[0]
            if age < timeout - 1e-6:
                assert cycle.outcome is CycleOutcome.SHIFTED and cycle.plan is good
                # The last good plan where it is now, at the end of the period.
                expected = [float(np.interp(now + PERIOD, good.times, good.inputs[:, i])) for i in range(3)]
                assert cycle.command == pytest.approx(expected, abs=1e-9)
            elif age > timeout + 1e-6:
                assert cycle.outcome is CycleOutcome.BRAKING and "too old" in cycle.reason
            assert "hpipm" in cycle.reason
            if how == "says so":
                assert "tired" in cycle.reason
            if isinstance(how, Exception):
                assert str(how) in cycle.reason
        assert 0.3 < cycle.command[2] <= controller.settings.stop_brake and not np.array_equal(drive.command, last)
        assert abs(math.hypot(drive.values["x"], drive.values["y"] - 30.0) - 30.0) < 2.5
    cycle = drive.cycle()
    assert cycle.outcome is CycleOutcome.SOLVED and cycle.cold_start and cycle.reason == ""
    assert not drive.cycle().cold_start


def test_a_solver_that_fails_from_the_start_has_no_plan_to_fall_back_on(controller, monkeypatch):
    controller.follow(STRAIGHT, 10.0)
    break_solver(monkeypatch, "says so")
    drive = Drive(controller, vx=10.0).run(0.5)
    assert set(drive.outcomes) == {CycleOutcome.BRAKING}
    assert "no plan to fall back on" in drive.cycles[-1].reason and drive.cycles[-1].plan is None


def test_over_its_time_budget_the_last_plan_is_used(controller, monkeypatch):
    """A clock that says each cycle takes long; the plan that came too late counts in the next cycle."""
    controller.follow(CIRCLE, 9.0)
    drive = Drive(controller, y=1.0, vx=9.0).run(0.2)
    controller.tune(time_budget=0.01)
    clock = {"now": 0.0, "step": 0.02}

    def perf_counter():
        clock["now"] += clock["step"]
        return clock["now"]
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=perf_counter))
    for _ in range(5):
        before, now = drive.cycles[-1].plan, drive.now
        cycle = drive.cycle()
        assert cycle.outcome is CycleOutcome.SHIFTED and cycle.reason == "over the time budget of 10 ms" and cycle.seconds >= 0.02
        expected = [float(np.interp(now + PERIOD, before.times, before.inputs[:, i])) for i in range(3)]
        reach = np.array([HMMWV.actuators.steering_rate, controller.settings.throttle_rate, controller.settings.brake_rate]) * PERIOD
        last = np.zeros(3) if len(drive.cycles) < 2 else np.array(drive.cycles[-2].command)
        assert np.abs(np.array(cycle.command) - np.clip(expected, last - reach, last + reach)).max() < 1e-9
        assert cycle.plan.times[0] == pytest.approx(now)
    clock["step"] = 0.001
    assert drive.cycle().outcome is CycleOutcome.SOLVED


# -- Time -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["says so", ValueError("shape"), FloatingPointError("overflow"), np.linalg.LinAlgError("not positive")],
                         ids=str)
def test_one_failure_does_not_begin_the_plan_anew(controller, monkeypatch, how):
    controller.follow(CIRCLE, 9.0)
    drive = Drive(controller, vx=9.0).run(0.2)
    with monkeypatch.context() as patch:
        break_solver(patch, how)
        failed = drive.cycle()
        assert failed.outcome is CycleOutcome.SHIFTED and ("tired" if how == "says so" else str(how)) in failed.reason
    cycle = drive.cycle()
    assert cycle.outcome is CycleOutcome.SOLVED and not cycle.cold_start and cycle.iterations == 1


def test_a_cold_start_takes_as_many_cycles_as_its_time_needs(controller, monkeypatch):
    """No time is left after the first step of each cycle: every one of them makes one, a whole one, and they add up."""
    controller.tune(time_budget=1e-9)
    calls, starts, start = [], [], Planner.start
    monkeypatch.setattr(Hpipm, "solve", lambda solver, until: calls.append(until) or SOLVE(solver))
    monkeypatch.setattr(Planner, "start", lambda planner, *arguments: starts.append(1) or start(planner, *arguments))
    controller.follow(CIRCLE, 9.0)
    drive = Drive(controller, x=2.0, y=3.0, yaw=0.6, vx=9.0)
    for k in range(12):
        cycle = drive.cycle()
        assert cycle.iterations == 1 and len(calls) == k + 1 and math.isinf(calls[-1]) == cycle.cold_start
        if not cycle.cold_start:
            break
    assert 0 < k < 11 and len(starts) == 1


def test_no_garbage_is_collected_within_a_cycle(controller, monkeypatch):
    seen = []
    monkeypatch.setattr(Hpipm, "solve", lambda solver, until: seen.append(gc.isenabled()) or SOLVE(solver, until))
    controller.follow(STRAIGHT, 9.0)
    Drive(controller, vx=9.0).run(0.04)
    assert seen and not any(seen) and gc.isenabled()


@pytest.mark.parametrize("limit", [10.0, 17.0])
def test_a_vehicle_that_is_too_fast_still_steers_round_obstacles(controller, limit):
    places = np.array([[56.0, 0.3], [81.0, -1.5], [105.0, 2.0], [130.0, -0.5]])
    controller.go_to(Goal(180.0, 0.0), limit)
    drive = Drive(controller, vx=25.0)
    nearest = math.inf
    for _ in range(150):
        controller.update_obstacles(Obstacles(places, np.full(4, 1.3), np.zeros((4, 2)), drive.now))
        cycle, v = drive.cycle(), drive.values
        assert "friction" not in cycle.violated
        c, s, d = math.cos(v["yaw"]), math.sin(v["yaw"]), places - [v["x"], v["y"]]
        along, aside = np.abs(d @ [c, s]) - 2.4, np.abs(d @ [-s, c]) - 1.1
        nearest = min(nearest, float((np.hypot(np.maximum(along, 0.0), np.maximum(aside, 0.0)) - 1.3).min()))
    assert nearest > 0.3 and drive.column("vx")[-1] < limit + 5.0


def test_a_clock_that_goes_back_begins_anew(controller):
    controller.follow(STRAIGHT, 10.0)
    Drive(controller, start=500.0, vx=10.0).run(0.4)
    silent = controller.cycle(3.0)
    assert silent.outcome is CycleOutcome.STOPPED and silent.reason == "no state yet"
    cycle = controller.cycle(3.02, state(3.02, vx=10.0))
    assert cycle.outcome is CycleOutcome.SOLVED and cycle.cold_start and cycle.age == pytest.approx(0.0)
    # What comes then is what a new controller would do.
    rest = [controller.cycle(3.02 + k * PERIOD, state(3.02 + k * PERIOD, vx=10.0, y=1.0, x=0.2 * k)).command for k in range(1, 6)]
    controller.reset()
    controller.cycle(3.0)
    controller.cycle(3.02, state(3.02, vx=10.0))
    assert rest == [controller.cycle(3.02 + k * PERIOD, state(3.02 + k * PERIOD, vx=10.0, y=1.0, x=0.2 * k)).command for k in range(1, 6)]


def test_a_state_older_than_the_last_is_left_out(controller):
    controller.follow(STRAIGHT, 12.0)
    drive = Drive(controller, y=2.0, vx=12.0).run(0.5)
    old = Measured(drive.now - 3 * PERIOD, drive.rows[-3])
    cycle = drive.cycle(old)
    assert cycle.outcome is CycleOutcome.SOLVED and not cycle.cold_start and cycle.age == pytest.approx(PERIOD)


def test_a_state_from_the_future_does_not_count_as_new(controller):
    controller.follow(STRAIGHT, 12.0)
    cycle = controller.cycle(0.0, state(100.0, vx=12.0))
    assert cycle.outcome is CycleOutcome.STOPPED and cycle.reason
    # Nor does it keep others out.
    assert controller.cycle(PERIOD, state(PERIOD, vx=12.0)).outcome is CycleOutcome.SOLVED


def test_cycles_that_were_left_out_do_no_harm(controller):
    controller.follow(CIRCLE, 9.0)
    drive = Drive(controller, vx=9.0).run(0.4)
    for gap in (3, 10, 24):
        before = drive.command.copy()
        for _ in range(gap):
            drive.simulator.advance(before, before, drive.substeps)
            drive.actuator.advance(drive.simulator.time)
        drive.k += gap
        cycle = drive.cycle()
        assert cycle.outcome is CycleOutcome.SOLVED


# -- What may change between two cycles -------------------------------------------------------------------------------


def test_another_task_starts_cold_and_moves_no_faster_than_the_rates(controller):
    controller.follow(STRAIGHT, 12.0)
    drive = Drive(controller, vx=12.0).run(0.4)
    controller.follow(CIRCLE, 12.0)
    assert drive.cycle().cold_start
    controller.go_to(Goal(100.0, 20.0), 15.0)
    cycle = drive.cycle()
    assert cycle.cold_start and cycle.outcome is CycleOutcome.SOLVED and cycle.remaining == pytest.approx(
        math.hypot(100.0 - drive.rows[-1]["x"], 20.0 - drive.rows[-1]["y"]), abs=0.1)
    controller.idle()
    assert drive.cycle().reason == "no task"


def test_another_vehicle_acts_in_the_next_cycle_and_nothing_is_compiled(controller, monkeypatch):
    monkeypatch.setattr(machine_code, "compile_text", lambda *a, **k: pytest.fail("compiles"))
    weak = HMMWV.replace(**{n: 0.6 * v for n, v in HMMWV.parameters.items() if n.startswith("cornering_stiffness")})
    results = []
    for swap in (False, True):
        controller.reset()
        controller.set_vehicle(HMMWV)
        controller.follow(CIRCLE, 10.0)
        drive = Drive(controller, vx=10.0).run(0.3)
        if swap:
            controller.set_vehicle(weak)
        cycle = drive.cycle()
        assert cycle.outcome is CycleOutcome.SOLVED and not cycle.cold_start
        results.append(cycle)
    assert np.abs(results[0].plan.states - results[1].plan.states).max() > 1e-3


def test_a_vehicle_that_lacks_parameters_changes_nothing(controller):
    name = "rhode_dual_track"
    results = []
    for attempt in (False, True):
        controller.reset()
        controller.follow(CIRCLE, 10.0)
        drive = Drive(controller, vx=10.0).run(0.1)
        if attempt:
            with pytest.raises(InputError, match=name):
                controller.set_vehicle(load_vehicle(name))
        results.append([drive.cycle().command for _ in range(5)])
    assert results[0] == results[1]


def test_live_settings_act_in_the_next_cycle_others_are_refused(controller):
    controller.follow(STRAIGHT, 20.0)
    drive = Drive(controller, vx=5.0).run(0.5)
    assert drive.command[1] > 0.3
    controller.tune(largest_throttle=0.25)
    drive.command[1] = 0.25  # a limit that comes down acts at once
    assert drive.cycle().command[1] <= 0.25
    settings = controller.settings
    for change, message in ((dict(model="eight_dof"), "cannot change"), (dict(near_step=0.1), "cannot change"),
                            (dict(no_such=1.0), "no setting no_such"), (dict(friction_use=9.0), "friction_use"),
                            (dict(friction_use=math.nan), "friction_use"), (dict(iterations=1.5), "iterations"),
                            (dict(friction_use=0.5, period=0.1), "period")):
        with pytest.raises(InputError, match=message):
            controller.tune(**change)
        assert controller.settings == settings
    assert drive.cycle().outcome is CycleOutcome.SOLVED


def test_reference_speed_in_bends_follows_its_live_setting(controller):
    controller.follow(CIRCLE, 20.0)
    before = controller.cycle(0.0, state(0.0, vx=8.0)).plan.states[-1]
    controller.tune(path_lateral_acceleration=1.0)
    after = controller.cycle(PERIOD, state(PERIOD, vx=8.0, x=0.16)).plan
    for k in range(2, 30):
        after = controller.cycle(k * PERIOD, state(k * PERIOD, vx=8.0, x=8.0 * k * PERIOD, y=0.0)).plan
    speed = after.names.index("vx")
    controller.tune(path_lateral_acceleration=Settings().path_lateral_acceleration)
    assert after.states[-1, speed] < math.sqrt(30.0) + 0.7 < before[speed]


@pytest.mark.parametrize("corridor", [[[0.0, 1.0], [9.0, 1.0]], [[0.0, math.nan, 1.0]], [[9.0, 2.0, 2.0], [0.0, 2.0, 2.0]], []])
def test_a_corridor_that_is_none_is_refused_and_the_task_stays(controller, corridor):
    controller.follow(STRAIGHT, 10.0)
    controller.cycle(0.0, state(0.0, vx=10.0))
    with pytest.raises(InputError, match="corridor"):
        controller.follow(CIRCLE, 10.0, np.array(corridor))
    cycle = controller.cycle(PERIOD, state(PERIOD, vx=10.0, x=0.2))
    assert cycle.outcome is CycleOutcome.SOLVED and not cycle.cold_start


@pytest.mark.parametrize("speed", [-1.0, math.nan, math.inf])
def test_a_speed_that_is_none_is_refused(controller, speed):
    for call in (lambda: controller.follow(STRAIGHT, speed), lambda: controller.go_to(Goal(9.0, 9.0), speed),
                 lambda: controller.follow(STRAIGHT, 9.0, hidden_speed=speed)):
        with pytest.raises(InputError, match="speed"):
            call()


@pytest.mark.parametrize("tasks, settings, slower", [(0.0, 0.0, False), (1.5, 0.0, True), (0.0, 1.5, True), (0.1, 1.5, True)])
def test_traffic_that_a_task_or_the_settings_assume_behind_a_van_bounds_the_speed(controller, tasks, settings, slower):
    """The larger of both counts; nobody is there."""
    seen = np.array([(26.0, -2.2 - 0.5 * k) for k in range(5)])
    controller.update_obstacles(Obstacles(seen, np.full(5, 0.3), np.zeros((5, 2)), 0.0))
    controller.tune(hidden_speed=settings)
    controller.follow(Path(np.array([[0.0, 0.0], [150.0, 0.0]])), 11.0, stop=False, hidden_speed=tasks)
    drive = Drive(controller, vx=11.0).run(1.5)
    controller.tune(hidden_speed=0.0)
    assert bool(drive.column("vx")[-1] < 10.0) == slower


@pytest.mark.parametrize("broken", [dict(centres=np.array([[math.nan, 0.0]])), dict(radii=np.array([math.inf])), dict(time=math.nan),
                                    dict(time=-math.inf), dict(velocities=np.array([[0.0, math.nan]])), dict(radii=np.array([-1.0])),
                                    dict(centres=np.zeros((2, 2)))])
def test_obstacles_that_are_none_are_refused_and_the_last_ones_stay(controller, broken):
    good = dict(centres=np.array([[30.0, 0.5]]), radii=np.array([1.0]), velocities=np.zeros((1, 2)), time=0.0)
    controller.follow(STRAIGHT, 12.0)
    controller.update_obstacles(Obstacles(**good))
    with pytest.raises(InputError, match="obstacles"):
        controller.update_obstacles(Obstacles(**(good | broken)))
    plan = controller.cycle(0.0, state(0.0, vx=12.0)).plan
    assert np.abs(plan.states[:, plan.names.index("y")]).max() > 1.0  # it goes round


# -- Tasks ------------------------------------------------------------------------------------------------------------


def test_a_path_is_done_at_its_end_and_again_after_a_reset(controller):
    path = Path(np.array([[0.0, 0.0], [30.0, 0.0]]))
    controller.follow(path, 8.0, stop=False)
    drive = Drive(controller, vx=6.0).run(8.0, until=lambda cycle: cycle.done)
    assert drive.cycles[-1].done and 28.0 < drive.column("x")[-1] < 30.5 and drive.column("vx")[-1] > 5.0
    drive.run(3.0)
    assert drive.cycles[-1].done and abs(drive.column("vx")[-1]) < 0.3
    controller.reset()
    again = Drive(controller, vx=0.0).run(1.5)
    assert not again.cycles[-1].done and again.column("vx")[-1] > 1.0


def test_a_path_with_a_stop_is_done_when_the_vehicle_stands(controller):
    controller.follow(Path(np.array([[0.0, 0.0], [25.0, 0.0]])), 8.0, stop=True)
    drive = Drive(controller, vx=6.0).run(12.0, until=lambda cycle: cycle.done)
    assert drive.cycles[-1].done and drive.column("x")[-1] == pytest.approx(25.0, abs=1.2)
    assert drive.column("vx")[-1] < module.STANDING + 0.1


@pytest.mark.parametrize("start", [dict(x=50.0, yaw=math.pi), dict(x=50.0, y=-25.0, yaw=3.0, vx=8.0)], ids=["on it", "far off"])
def test_a_path_that_leads_the_other_way_is_joined(controller, start):
    controller.follow(STRAIGHT, 12.0, stop=False)
    drive = Drive(controller, **start)

    def on_it(cycle):
        v = drive.values
        return abs(v["y"]) < 0.5 and math.cos(v["yaw"]) > 0.98
    drive.run(25.0, on_it)
    assert on_it(None) and drive.values["x"] < 170.0 and CycleOutcome.BRAKING not in drive.outcomes
    assert (drive.column("vx")[100:] > 2.0).all()
    drive.run(1.0)
    assert abs(drive.values["y"]) < 0.5 and drive.cycles[-1].remaining == pytest.approx(400.0 - drive.values["x"], abs=12.0)


@pytest.mark.parametrize("stop", [False, True])
def test_a_goal_is_reached(controller, stop):
    controller.go_to(Goal(45.0, 6.0, 3.0, stop), 12.0)
    drive = Drive(controller, vx=8.0).run(12.0, until=lambda cycle: cycle.done)
    last = drive.cycles[-1]
    assert last.done and last.remaining <= 3.0 and last.outcome is CycleOutcome.SOLVED
    assert (drive.column("vx")[-1] < module.STANDING + 0.1) == stop


def test_a_goal_behind_is_driven_to(controller):
    """Or, if there is no way for a forward vehicle, it says so; it never drives off."""
    controller.go_to(Goal(-40.0, 5.0), 8.0)
    drive = Drive(controller, vx=4.0).run(30.0, until=lambda cycle: cycle.done)
    assert drive.cycles[-1].done
    assert drive.outcomes.count(CycleOutcome.SOLVED) > 0.95 * len(drive.outcomes)


def test_an_obstacle_on_top_of_the_vehicle_is_a_violation_and_no_failure(controller):
    controller.follow(STRAIGHT, 10.0)
    controller.update_obstacles(Obstacles(np.array([[0.5, 0.1]]), np.array([1.5]), np.zeros((1, 2)), 0.0))
    drive = Drive(controller, vx=8.0).run(0.3)
    assert set(drive.outcomes) == {CycleOutcome.SOLVED} and "obstacle" in drive.cycles[0].violated
    assert drive.cycles[0].cost_terms["obstacle"] > 1.0


@pytest.mark.parametrize("turn", [1.0, -1.0])
def test_headings_that_wrap_at_half_a_turn_change_nothing(controller, turn):
    """On a circle through yaw = pi: the same commands for headings that jump there as for those that do not."""
    results = []
    angle = np.linspace(0.0, 5.5, 160)
    path = Path(np.column_stack([30.0 * np.sin(angle), turn * 30.0 * (1.0 - np.cos(angle))]))
    for wrap in (False, True):
        controller.reset()
        controller.follow(path, 9.0)
        at = 3.0
        drive = Drive(controller, x=30.0 * math.sin(at), y=turn * 30.0 * (1.0 - math.cos(at)), yaw=turn * at, vx=9.0)
        commands = []
        for _ in range(90):
            values = drive.values
            if wrap:
                values["yaw"] = math.remainder(values["yaw"], 2.0 * math.pi)
            commands.append(drive.cycle(Measured(drive.now, values)).command)
        assert abs(drive.values["yaw"]) > math.pi + 0.3 and set(drive.outcomes) == {CycleOutcome.SOLVED}
        results.append(np.array(commands))
    assert np.abs(results[0] - results[1]).max() < 1e-6


# -- Whatever happens -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_commands_are_sound_whatever_happens(controller, seed, monkeypatch):
    """States that are missing, late, wild or refused, time that jumps, tasks, obstacles, settings and vehicles that change at random."""
    rng = np.random.default_rng(seed)
    failing = {"left": 0}

    def sometimes(solver, until=math.inf):
        found = SOLVE(solver, until)
        if failing["left"] > 0:
            failing["left"] -= 1
            if rng.random() < 0.3:
                raise RuntimeError("at random")
            return StageSolution(np.full_like(found.dx, np.nan), np.zeros_like(found.du), False, "at random", 1)
        return found
    monkeypatch.setattr(Hpipm, "solve", sometimes)
    now, pose, before, seen = float(rng.uniform(0.0, 1e6)), np.zeros(3), np.zeros(3), set()
    speed, heavy = 10.0, HMMWV.replace(sprung_mass=1.2 * HMMWV.parameters["sprung_mass"])
    controller.follow(STRAIGHT, 12.0)
    for k in range(160):
        event = rng.integers(0, 30) if k > 5 else 29
        if event == 0:
            controller.follow((STRAIGHT, CIRCLE)[rng.integers(2)], float(rng.uniform(0.0, 25.0)), stop=bool(rng.integers(2)))
        elif event == 1:
            controller.go_to(Goal(*rng.uniform(-80.0, 80.0, 2), stop=bool(rng.integers(2))), float(rng.uniform(1.0, 25.0)))
        elif event == 2:
            controller.idle()
        elif event in (3, 4):
            n = int(rng.integers(0, 12))
            places = pose[:2] + rng.uniform(-40.0, 40.0, (n, 2))
            controller.update_obstacles(Obstacles(places, rng.uniform(0.0, 4.0, n), rng.uniform(-9.0, 9.0, (n, 2)),
                                                  now - float(rng.uniform(0.0, 1.0))))
        elif event == 5:
            failing["left"] = int(rng.integers(1, 60))
        elif event == 6:
            controller.set_vehicle((HMMWV, heavy)[rng.integers(2)])
        elif event == 7:
            controller.tune(stop_brake=float(rng.uniform(0.1, 1.0)), compensate=bool(rng.integers(2)))
        elif event == 8:
            speed = float(rng.choice([0.0, -2.0, 5.0, 15.0, 33.0]))
        now += PERIOD if event != 9 else float(rng.choice([0.3, 2.0, 30.0, 0.0]))
        if event == 10:
            now -= PERIOD + float(rng.choice([1e-3, 0.1, 50.0]))
            before = None  # the controller begins anew and knows no last command
        pose += PERIOD * np.array([speed * math.cos(pose[2]), speed * math.sin(pose[2]), 0.1 * rng.normal()])
        measured, kind = None, rng.integers(0, 12) if k > 5 else 0
        if kind < 8:
            values = dict(x=pose[0], y=pose[1], yaw=math.remainder(pose[2], 2.0 * math.pi), vx=speed, vy=0.1 * rng.normal(),
                          yaw_rate=0.1 * rng.normal(), ax=math.nan if kind == 7 else rng.normal())
            measured = Measured(now - (0.1 if kind == 6 else 0.0), values)
        elif kind == 8:
            with pytest.raises(InputError):
                Measured(now, dict(x=math.nan, y=0.0, yaw=0.0, vx=1.0, vy=0.0, yaw_rate=0.0))
        elif kind == 9:
            measured = Measured(now, STILL | {str(rng.choice(["vx", "yaw_rate", "x", "vy"])): float(rng.choice([1e3, -1e5, 1e12]))})
        cycle = controller.cycle(now, measured)
        controller.poll(now)
        check(cycle, np.zeros(3) if before is None else before, controller.settings)
        before = np.array(cycle.command)
        seen.add(cycle.outcome)
    assert {CycleOutcome.SOLVED, CycleOutcome.STOPPED} <= seen and len(seen) > 2


def test_two_runs_are_the_same_to_the_bit(controller):
    results = []
    for _ in range(2):
        controller.reset()
        controller.go_to(Goal(60.0, 10.0), 14.0)
        drive = Drive(controller, vx=8.0)
        for k in range(60):
            controller.update_obstacles(Obstacles(np.array([[30.0, 3.0 + 0.02 * k]]), np.array([1.0]), np.array([[0.0, 1.0]]), drive.now))
            drive.cycle()
        results.append(([c.command for c in drive.cycles], drive.cycles[-1].plan.states))
    assert results[0][0] == results[1][0] and np.array_equal(results[0][1], results[1][1])


# -- Delay ------------------------------------------------------------------------------------------------------------


def test_compensation_makes_up_for_the_delay(delayed):
    """A slalom path behind an actuator that is 200 ms late: without, the vehicle is clearly further from the path."""
    s = np.linspace(0.0, 90.0, 200)
    path = Path(np.column_stack([s, 1.5 * np.sin(s * 2.0 * np.pi / 40.0)]))
    error = {}
    for compensate in (True, False):
        as_new(delayed).tune(compensate=compensate)
        delayed.follow(path, 13.0, stop=False)
        drive = Drive(delayed, delay=0.2, vx=13.0, yaw=float(path.yaw[0])).run(6.0)
        away = path.project(drive.column("x"), drive.column("y"))[1]
        error[compensate] = float(np.sqrt(np.mean(away[50:] ** 2)))
        assert all(c.delay == pytest.approx(0.2 if compensate else 0.0) for c in drive.cycles[10:20])
    assert error[True] < 0.35 and error[True] < 0.6 * error[False]


def test_the_steering_moves_as_fast_as_the_plan_says(controller):
    """At first sight of a path 3 m aside the plan turns at the rate's limit; the commands must do so, too."""
    controller.follow(STRAIGHT, 15.0)
    drive = Drive(controller, y=3.0, vx=15.0).run(0.2)
    rate = np.diff([c.command[0] for c in drive.cycles]) / PERIOD
    planned = [float(np.diff(c.plan.inputs[:2, 0])[0]) / 0.05 for c in drive.cycles[1:]]
    assert min(planned) < -0.75 and rate == pytest.approx(planned, abs=0.02)
