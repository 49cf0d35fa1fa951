"""The probability of failing: against closed forms, and that the same question has the same answer."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.stats import norm

from lfdm_ros.backends.hazard_kernel import REFERENCE
from lfdm_ros.control.plan import Plan
from lfdm_ros.control.prediction import Measured
from lfdm_ros.errors import InputError
from lfdm_ros.ground import FieldTable, FrictionField, FrictionLink, Grid, HeightMap
from lfdm_ros.ground.ground_file import load_ground
from lfdm_ros.ground.vehicle_on_ground import VehicleOnGround
from lfdm_ros.models.chassis import GRAVITY
from lfdm_ros.perception.obstacles import NO_OBSTACLES, Obstacles
from lfdm_ros.sharing import risk
from lfdm_ros.sharing.components import make_components
from lfdm_ros.sharing.fleet import friction_draws, tyre_models
from lfdm_ros.sharing.intentions import FIRST_TO_CORRECT, Intention
from lfdm_ros.sharing.risk import Frequency, RiskRollouts, RiskSettings, straightened
from lfdm_ros.sharing.situation import Corridor, Draws, Situation, StampedCommand
from lfdm_ros.sharing.threat import assess
from lfdm_ros.simulation import initial_state
from lfdm_ros.simulation.path import Path
from lfdm_ros.vehicles import load_vehicle

HMMWV = load_vehicle("hmmwv")
SPEED = 15.0
KNOWN = RiskSettings(intention="held", tyres="own", friction_sd=0.0, remnant=0.0, position_sd=0.0, heading_sd=0.0, speed_sd=0.0,
                     obstacle_sd=0.0, single=False)
ROAD = Path(np.column_stack([np.linspace(-50.0, 250.0, 61), np.zeros(61)]))


@pytest.fixture(scope="module")
def made():
    """Rollouts by their settings, each compiled and drawn once."""
    kept = {}
    return lambda settings: kept.setdefault(settings, RiskRollouts(HMMWV, settings))


def circles(*rows, time=0.0):
    """(x, y, radius) or (x, y, radius, vx, vy)."""
    table = np.array([[*row, 0.0, 0.0][:5] for row in rows])
    return Obstacles(table[:, :2], table[:, 2], table[:, 3:], time)


def situation(steering=0.0, throttle=0.12, brake=0.0, x=0.0, y=0.0, **more):
    known = {"x": x, "y": y, "yaw": 0.0, "vx": SPEED, "vy": 0.0, "yaw_rate": 0.0}
    return Situation(0.0, HMMWV, Measured(0.0, known), (), StampedCommand(0.0, steering, throttle, brake), **more)


def straight_plan(aside=0.0):
    """Drives on at the same speed; `aside` [m] to the left from 1.5 s on."""
    t = np.arange(0.0, 4.05, 0.1)
    share = np.clip(t / 1.5, 0.0, 1.0)
    y = aside * (3.0 * share**2 - 2.0 * share**3)
    slope = np.gradient(y, t) / SPEED
    steering = np.gradient(slope, t) / SPEED * 3.3 / HMMWV.parameters["max_road_wheel_angle"]
    return Plan(("x", "y", "yaw", "vx"), t, np.column_stack([SPEED * t, y, slope, np.full(len(t), SPEED)]),
                np.column_stack([steering, np.full(len(t), 0.12), np.zeros(len(t))]))


def test_friction_is_drawn_as_declared():
    uniform = (np.arange(4000) + 0.5) / 4000
    drawn = friction_draws(0.8, 0.1, uniform)
    assert drawn.mean() == pytest.approx(0.8, abs=1e-3) and drawn.std() == pytest.approx(0.1, rel=0.01)
    assert friction_draws(0.1, 0.2, uniform).min() >= 0.05
    for mean, sd in ((0.8, 0.1), (0.1, 0.2), (0.02, 0.001)):
        expected = stats.truncnorm.ppf(uniform, (0.05 - mean) / sd, np.inf, loc=mean, scale=sd)
        np.testing.assert_allclose(friction_draws(mean, sd, uniform), expected, rtol=1e-9)
    assert (friction_draws(0.4, 0.0, uniform) == 0.4).all()


def test_fields_that_may_be_there_are_drawn():
    """Braking to a stand before an obstacle: on one of four roads, ice, it is hit for certain, on the others never."""
    tables = [FieldTable(FrictionField.uniform(friction)) for friction in (0.7, 0.15, 0.72, 0.75)]
    on_field = HMMWV.replace(friction_field=tables[0].number)
    rollouts = RiskRollouts(on_field, replace(KNOWN, clear=0.0))
    draws = Draws.crossed(Draws(("yaw_inertia",), np.full((5, 1), HMMWV.parameters["yaw_inertia"])), "friction_field",
                          [table.number for table in tables])
    assert draws is not None and draws.values.shape == (20, 2)
    braking = situation(brake=0.6, obstacles=circles((35.0, 0.0, 1.0)), draws=draws)
    found = rollouts.assess(replace(braking, vehicle=on_field))
    assert within(found.operator.collision, 0.25)
    alone = rollouts.assess(replace(braking, vehicle=on_field, draws=None))
    assert alone.operator.collision.value == 0.0


def test_a_field_lies_where_its_map_says():
    """Ice 30 m ahead of a vehicle that brakes before an obstacle there, wherever on the map that is; and not where it is moved to."""
    grid, link = Grid.covering((-100.0, -100.0), (400.0, 200.0), 1.0), FrictionLink(0.1, 1.1)
    x, y = np.meshgrid(grid.xs, grid.ys)

    def icy(there: bool, at: tuple[float, float], single: bool) -> float:
        away = np.hypot(x - at[0] - 20.0, y - at[1] + (0.0 if there else 60.0))
        table = FieldTable(FrictionField(grid, link.latent(np.where(away < 15.0, 0.12, 0.9)), link))
        vehicle = HMMWV.replace(friction_field=table.number)
        braking = situation(brake=0.6, obstacles=circles((at[0] + 30.0, at[1], 1.0)))
        moved = {**braking.measured.values, "x": at[0], "y": at[1]}
        return RiskRollouts(vehicle, replace(KNOWN, clear=0.0, single=single)).assess(
            replace(braking, vehicle=vehicle, measured=Measured(braking.measured.time, moved))).operator.collision.value

    for single in (True, False):
        for at in ((0.0, 0.0), (250.0, 80.0)):
            assert icy(True, at, single) > 0.95 and icy(False, at, single) < 0.05


def test_a_map_that_lies_too_far_for_single_precision_is_named():
    field = FieldTable(FrictionField.uniform(0.7))
    far = situation(brake=0.6)
    far = replace(far, vehicle=HMMWV.replace(friction_field=field.number),
                  measured=Measured(far.measured.time, {**far.measured.values, "x": 4e5}))
    with pytest.raises(InputError, match="100 km from the origin"):
        RiskRollouts(far.vehicle, replace(KNOWN, single=True)).assess(far)
    assert RiskRollouts(HMMWV, replace(KNOWN, single=True)).assess(replace(far, vehicle=HMMWV)).operator.failure.value == 0.0


def test_a_slope_is_in_the_risk():
    """Braking before an obstacle half-way between where the vehicle comes to a stand on the level and down 12 %: v^2 / 2 (a - g sin)."""
    p, angle = HMMWV.parameters, math.atan(0.12)
    mass = p["sprung_mass"] + p["unsprung_mass_front"] + p["unsprung_mass_rear"]
    braking = 0.3 * 2.0 * (p["brake_torque_front"] + p["brake_torque_rear"]) / (p["wheel_radius"] - 0.02) / mass
    level, down = (0.5 * SPEED ** 2 / (braking - GRAVITY * fall) for fall in (0.0, math.sin(angle)))
    grid = Grid.covering((-50.0, -50.0), (150.0, 50.0), 2.0)
    hill = HeightMap(grid, np.tile(-0.12 * grid.xs, (grid.ny, 1)))
    front = HMMWV.footprint.front
    pedal = SPEED * 0.3 / HMMWV.actuators.brake_rate  # [m] that go by until it is down
    ahead = situation(throttle=0.0, brake=0.3, obstacles=circles((0.5 * (level + down) + pedal + front + 1.0, 0.0, 1.0)))
    assert down - level > 4.0
    for vehicle, hit in ((HMMWV, 0.0), (HMMWV.replace(height_map=hill.number), 1.0)):
        rollouts = RiskRollouts(vehicle, replace(KNOWN, clear=0.0, horizon=8.0))
        assert rollouts.assess(replace(ahead, vehicle=vehicle)).operator.collision.value == pytest.approx(hit, abs=0.02)


def test_soil_is_in_the_risk():
    """Full brakes before an obstacle at 40 m: firm clay stops the vehicle, soft clay, which holds a fifth of its weight, does not."""
    area = {"x": [-50, 150], "y": [-50, 50], "spacing": 2.0}
    found = []
    for soil in ("heavy_clay_25", "clayey_soil_55"):
        on = VehicleOnGround(HMMWV, load_ground({"area": area, "friction": 1.0, "soil": soil}))
        rollouts = RiskRollouts(on.vehicle, replace(KNOWN, clear=0.0, horizon=5.0))
        ahead = situation(brake=1.0, obstacles=circles((40.0, 0.0, 1.0)))
        found.append(rollouts.assess(replace(ahead, vehicle=on.vehicle)).operator.collision.value)
    assert found == [0.0, 1.0]


# -- Closed forms -------------------------------------------------------------------------------------------------------------

def within(probability: Frequency, truth: float):
    """Whether a truth is in an interval of 4 standard deviations, and a little for what the closed form leaves out."""
    return abs(probability.value - truth) <= 4.0 * math.sqrt(truth * (1.0 - truth) / probability.runs) + 0.01


@pytest.mark.parametrize("halting", [0.0, 0.3, 1.0])
def test_what_walks_halts_as_often_as_declared(made, halting):
    """A walker who goes on has left the lane in time, one that halts at once does not reach it, after 0.8 s it stands in it (in a third of
    the halts), after 1.6 s beyond it."""
    asked = situation(obstacles=circles((2.0 * SPEED, -3.0, 0.3, 0.0, 2.9)))
    found = made(replace(KNOWN, clear=0.0, halting=halting, obstacle_speed_sd=0.0)).assess(asked).operator.collision
    assert within(found, halting / 3.0) and (found.count == 0) == (halting == 0.0)
    wide = replace(asked, obstacles=circles(*((2.0 * SPEED + 0.2 * k, -3.0, 0.3, 0.0, 2.9) for k in range(4))))  # a body of four circles
    assert within(made(replace(KNOWN, clear=0.0, halting=halting, obstacle_speed_sd=0.0)).assess(wide).operator.collision, halting / 3.0)
    runs = replace(asked, obstacles=circles((2.0 * SPEED, -3.0, 0.3, 0.0, 3.1)))  # faster than it walks
    assert made(replace(KNOWN, clear=0.0, halting=halting, obstacle_speed_sd=0.0)).assess(runs).operator.collision.count == 0


@pytest.mark.parametrize(("of_vehicle", "of_obstacle"), [(0.3, 0.0), (0.0, 0.4), (0.2, 0.3)])
def test_a_post_beside_the_way_is_hit_as_often_as_the_normal_distribution_says(made, of_vehicle, of_obstacle):
    rollouts = made(replace(KNOWN, rollouts=4096, clear=0.0, position_sd=of_vehicle, obstacle_sd=of_obstacle))
    gap = 0.25
    aside = HMMWV.footprint.half_width + 0.5 + gap
    found = rollouts.assess(situation(obstacles=circles((25.0, aside, 0.5))))
    truth = norm.cdf(-gap / math.hypot(of_vehicle, of_obstacle))
    assert within(found.operator.collision, truth)
    assert found.averted == found.operator.failure and found.autonomy is None


def test_a_gpu_gives_the_same_answer(gpu):
    """Count by count, of all runs, with numbers of 64 bits; on both tyre models as often as chance allows, as the runs are shared out
    otherwise."""
    settings = RiskSettings(tyres="own", rollouts=512, clear=0.0, single=False, position_sd=0.3, obstacle_sd=0.3)
    at = situation(obstacles=circles((25.0, HMMWV.footprint.half_width + 0.8, 0.5)), path=ROAD)
    ours, theirs = (RiskRollouts(HMMWV, replace(settings, backend=backend)).assess(at) for backend in ("gpu", "cpu"))
    assert gpu.counts()["launches"] > 1 and 50 < theirs.operator.collision.count < 450
    assert ours.operator.by_name() == theirs.operator.by_name()
    both = RiskRollouts(HMMWV, replace(settings, tyres="all", backend="gpu")).assess(at)
    assert within(both.operator.collision, theirs.operator.collision.value)
    with pytest.raises(InputError, match=r"backend.*abacus"):
        RiskSettings(backend="abacus")


def test_who_is_just_too_far_reaches_it_as_often_as_the_speed_says(made):
    rollouts = made(replace(KNOWN, rollouts=4096, clear=0.0, speed_sd=1.0, horizon=2.0))
    free = rollouts.follow([coasting(rollouts)], start(rollouts), NO_OBSTACLES, 0.0)
    assert free[0].collision.count == 0
    # How far it comes in the time, by the same model without a doubt.
    reach = way_of(made(replace(KNOWN, horizon=2.0)))
    for further in (-1.5, 0.0, 1.0):
        wall = reach + HMMWV.footprint.front + further
        (found,) = rollouts.follow([coasting(rollouts)], start(rollouts), NO_OBSTACLES, 0.0, walls=np.array([[wall, -20.0, wall, 20.0]]))
        assert within(found.collision, 1.0 - norm.cdf(further / (2.0 * 1.0)) if further else 0.5)


def test_an_intention_of_another_size_is_refused(made):
    """The machine code would read past its end."""
    rollouts = made(replace(KNOWN, horizon=2.0))
    for wanted, reference in ((2, 8), (3, len(REFERENCE))):
        with pytest.raises(InputError, match="an intention has inputs"):
            rollouts.follow([Intention(np.zeros((len(rollouts.times), wanted)), np.zeros((len(rollouts.times), reference)))],
                            start(rollouts), NO_OBSTACLES, 0.0)


def coasting(rollouts):
    return Intention(np.zeros((len(rollouts.times), 2)), np.zeros((len(rollouts.times), len(REFERENCE))))


def start(rollouts):
    return initial_state(rollouts.model, HMMWV, vx=SPEED)


def way_of(rollouts):
    """How far the vehicle rolls [m], by bisection on where a wall is met."""
    near, far = 0.0, 100.0
    for _ in range(30):
        middle = 0.5 * (near + far)
        wall = np.array([[middle, -20.0, middle, 20.0]])
        (found,) = rollouts.follow([coasting(rollouts)], start(rollouts), NO_OBSTACLES, 0.0, walls=wall)
        near, far = (middle, far) if found.collision.count else (near, middle)
    return near - HMMWV.footprint.front


def test_who_drives_off_leaves_the_corridor(made):
    rollouts = made(replace(KNOWN, heading_sd=0.05, rollouts=4096, clear=0.0))
    room = 3.0
    found = rollouts.assess(situation(corridor=Corridor(ROAD, np.array([[0.0, room, room], [300.0, room, room]]))))
    # A corner leaves when the way of 3 s, at an angle, is longer than the room; the vehicle hardly slows down.
    reach = SPEED * 3.0
    angle = (room - HMMWV.footprint.half_width) / (reach + HMMWV.footprint.front)
    truth = 2.0 * norm.cdf(-angle / 0.05)
    assert abs(found.operator.leaving.value - truth) < 0.04
    assert found.operator.collision.count == found.operator.lift.count == 0
    assert found.operator.failure == found.operator.leaving


def test_draws_of_the_posterior_count_as_often_as_they_are_there(made):
    """A brake that one draw in four has not."""
    rollouts = made(replace(KNOWN, rollouts=4096, clear=0.0))
    brakes = [f.name for f in rollouts.model.parameters if "brake" in f.name and "torque" in f.name]
    assert brakes
    good = [HMMWV.parameters[b] for b in brakes]
    draws = Draws(tuple(brakes), np.array([good, good, [1e-3] * len(brakes), good]), 3)
    far = 25.0
    asked = situation(throttle=0.0, brake=0.6, obstacles=circles((far + HMMWV.footprint.front + 1.0, 0.0, 1.0)), draws=draws)
    found = rollouts.assess(asked)
    assert within(found.operator.collision, 0.25)
    rollouts.set_vehicle(HMMWV)
    assert rollouts.assess(replace(asked, draws=None)).operator.collision.count == 0


# -- What is asked twice ------------------------------------------------------------------------------------------------------

def test_the_same_question_has_the_same_answer_wherever_it_is_asked(made):
    rollouts = made(replace(KNOWN, remnant=0.05, friction_sd=0.1, position_sd=0.1, obstacle_sd=0.1, clear=0.0))
    seen, plan = ((30.0, 1.9, 0.8), (40.0, -2.2, 0.6, 0.0, 0.5)), straight_plan()
    here = rollouts.assess(situation(plan=plan, obstacles=circles(*seen)))
    assert 0.0 < here.operator.collision.value < 1.0
    again = rollouts.assess(situation(plan=plan, obstacles=circles(*seen)))
    assert (again.operator.failed == here.operator.failed).all() and (again.autonomy.failed == here.autonomy.failed).all()
    elsewhere = replace(plan, states=plan.states + [1000.0, -2000.0, 0.0, 0.0])
    moved = rollouts.assess(situation(plan=elsewhere, obstacles=circles(*((x + 1000.0, y - 2000.0, *rest) for x, y, *rest in seen)),
                                      x=1000.0, y=-2000.0))
    # Random numbers of an obstacle go by its place, so that only frequencies agree.
    for a, b in zip(here.probabilities.values(), moved.probabilities.values()):
        assert abs(a.value - b.value) < 0.06


def test_what_is_left_out_could_not_be_met(made, monkeypatch):
    rng = np.random.default_rng(4)
    field = circles(*np.column_stack([rng.uniform(-30.0, 90.0, 60), rng.uniform(-60.0, 60.0, 60), rng.uniform(0.2, 1.5, 60),
                                      rng.uniform(-3.0, 3.0, (60, 2))]))
    rollouts = made(replace(KNOWN, remnant=0.3, friction_sd=0.2, position_sd=0.2, obstacle_sd=0.3, clear=0.0))
    asked = situation(steering=0.2, plan=straight_plan(3.0), obstacles=field, walls=np.array([[35.0, 8.0, 60.0, 20.0]]),
                      corridor=Corridor(ROAD, np.array([[0.0, 9.0, 9.0], [300.0, 9.0, 9.0]])))
    found = rollouts.assess(asked)
    for name in ("MAX_LATERAL_ACCELERATION", "MAX_BRAKING", "MAX_LONGITUDINAL_ACCELERATION"):
        monkeypatch.setattr(risk, name, 1e3)
    monkeypatch.setattr(risk, "AHEAD", 100.0)
    whole = rollouts.assess(asked)
    assert whole.operator.failure.value > 0.0 and whole.operator.failure.runs == rollouts.rollouts
    assert (found.operator.failed == whole.operator.failed).all() and (found.autonomy.failed == whole.autonomy.failed).all()


def test_an_answer_that_is_clear_takes_fewer_runs(made):
    rollouts = made(replace(KNOWN, remnant=0.02, position_sd=0.3))
    assert rollouts.assess(situation()).operator.failure == Frequency(0, 256)
    wall = circles((20.0, 0.0, 3.0))
    assert rollouts.assess(situation(obstacles=wall)).operator.failure == Frequency(256, 256)
    open_question = rollouts.assess(situation(obstacles=circles((25.0, HMMWV.footprint.half_width + 0.6, 0.5))))
    assert open_question.operator.failure.runs == 1024


def test_who_has_left_the_corridor_leaves_it_where_he_goes_farther_out(made):
    lane = Corridor(ROAD, np.array([[0.0, 3.0, 3.0], [300.0, 3.0, 3.0]]))
    rollouts = made(replace(KNOWN, friction_sd=0.05))
    for aside in (2.5, -2.5):
        for steering in (0.05, 0.0, -0.05):
            now = situation(steering=steering, y=aside, corridor=lane, path=ROAD)
            goes_out = steering * aside > 0.0
            # Back over the road it leaves on the other side.
            assert rollouts.assess(now).operator.leaving.value == (0.0 if steering == 0.0 else 1.0)
            back = made(replace(KNOWN, intention="path")).assess(now).operator
            assert back.leaving.value == 0.0
            assert (rollouts.assess(now).operator.first < 1.2) == goes_out


def test_averted_is_what_only_the_operator_fails_in(made):
    rollouts = made(replace(KNOWN, position_sd=0.3, clear=0.0))
    post = circles((30.0, -0.5, 0.5))
    around = rollouts.assess(situation(plan=straight_plan(3.5), obstacles=post))
    assert around.operator.collision.value > 0.95 and around.autonomy.collision.value < 0.02
    assert around.averted.count == int((around.operator.failed & ~around.autonomy.failed).sum()) > 950
    assert around.harmed.count < 20 and around.alike.count < 20
    into = rollouts.assess(situation(plan=straight_plan(0.0), obstacles=post))
    assert into.averted.value < 0.05 and into.alike.value > 0.9
    nobody = rollouts.assess(replace(situation(plan=straight_plan(3.5), obstacles=post), operator=None))
    assert nobody.operator is None and nobody.averted.count == 0 and set(nobody.probabilities) == {
        "autonomy collision", "autonomy lift", "autonomy spin", "autonomy leaving"}


def test_autonomy_stops_along_a_plan_that_may_fail(made):
    """A plan is looked at anew in each cycle: where a stop along it is free now, the autonomy that follows it does not fail; where only its
    stop is free, and not one that begins after it has taken over, that is averted; and a slower hit is a better one."""
    rollouts = made(replace(KNOWN, clear=0.0, obstacle_sd=0.5, intention=FIRST_TO_CORRECT.name, takeover=0.3))
    far, near, close = (rollouts.assess(situation(plan=straight_plan(), obstacles=circles((x, 2.4, 1.0)))) for x in (34.0, 28.0, 20.0))
    assert far.autonomy.failure.value < 0.02 and far.operator.failure.value < 0.02
    assert near.autonomy.failure.value < 0.02 and near.operator.collision.value > 0.1 and near.averted.value > 0.1
    assert close.autonomy.collision.value > 0.2 and close.averted.value > 0.2 and close.alike.value < 0.05
    assert 5.0 < close.autonomy.hit_speed.max() < close.operator.hit_speed.max() - 1.0


def test_an_autonomy_that_drives_into_something_does_not_see_it(made):
    """Far ahead there is room to stop, but it does not mean to."""
    rollouts = made(replace(KNOWN, clear=0.0, intention=FIRST_TO_CORRECT.name, takeover=0.3))
    blind = rollouts.assess(situation(plan=straight_plan(), obstacles=circles((34.0, 0.0, 1.0))))
    assert blind.autonomy.collision.value > 0.98 and blind.averted.value < 0.02 and blind.alike.value > 0.98


def test_intentions_of_the_operator(made):
    """Held it turns into the post; along the path it comes back."""
    post, road = circles((30.0, 6.0, 1.0)), Corridor(ROAD, np.array([[0.0, 4.0, 4.0], [300.0, 4.0, 4.0]]))
    found = {}
    for intention in ("held", "path"):
        rollouts = made(replace(KNOWN, intention=intention))
        found[intention] = rollouts.assess(situation(steering=0.1, obstacles=post, path=ROAD, corridor=road)).operator
    assert found["held"].leaving.value == 1.0
    assert found["path"].failure.value == 0.0


def test_who_reacts_in_time_misses_what_a_held_command_hits(made):
    """After the reaction back to the path, without one to the plan; without either nothing counts from then on."""
    post = circles((38.0, 4.0, 1.0))
    driven = situation(steering=0.04, obstacles=post)
    assert made(KNOWN).assess(driven).operator.collision.value == 1.0
    for known in (replace(driven, path=ROAD), replace(driven, plan=straight_plan())):
        early, late = (made(replace(KNOWN, intention="reacting", reaction=r)).assess(known).operator for r in (0.5, 2.0))
        assert early.collision.value == 0.0 and late.collision.value == 1.0
    # It is hit after 2 s.
    for reaction, value in ((1.0, 0.0), (2.8, 1.0)):
        assert made(replace(KNOWN, intention="reacting", reaction=reaction)).assess(driven).operator.collision.value == value


def test_who_is_behind_a_link_corrects_later_by_the_way_there_and_back(made):
    """A command that took 0.25 s to come down answers a picture that took as long to go up."""
    post, known = circles((38.0, 4.0, 1.0)), replace(KNOWN, intention="reacting")
    driven = situation(steering=0.04, obstacles=post, path=ROAD)

    def outlook(reaction, age):
        now = replace(driven, operator=replace(driven.operator, time=-age))
        return made(replace(known, reaction=reaction, position_sd=0.5)).assess(now).operator.collision.count

    assert outlook(0.3, 0.25) == outlook(0.8, 0.0) and outlook(0.3, 0.8) == outlook(1.9, 0.0)
    assert outlook(0.3, 0.25) < outlook(0.3, 0.8)


def test_what_the_operator_has_seen_he_will_answer(made):
    """He winds the wheel off as he has come back to the lane: held it leads into the posts beside it."""
    posts = circles(*((float(x), -1.9, 0.2) for x in range(12, 40, 3)))
    came = [Measured(-0.02 * k, {"x": -0.3 * k, "y": 0.002 * k * k, "yaw": -0.0001 * k * k, "vx": SPEED, "vy": 0.0, "yaw_rate": 0.0})
            for k in range(60, -1, -1)]
    driven = replace(situation(steering=-0.04, obstacles=posts, path=ROAD), past=tuple(came))
    held, answered = (made(replace(KNOWN, intention=i, reaction=0.8)).assess(driven).operator.collision.value
                      for i in ("reacting", "predicted"))
    assert held > answered
    # Where no path is known nobody knows what he steers by.
    plan = replace(driven, path=None, plan=straight_plan())
    assert len({made(replace(KNOWN, intention=i)).assess(plan).operator.collision.value for i in ("reacting", "predicted")}) == 1


def test_an_operator_is_corrected_by_whoever_comes_first_or_harms_less(made):
    """By autonomy where the link is slow, or where the operator's correction is not enough; by himself where there is no autonomy."""
    posts = circles(*((float(x), y, 0.2) for x in range(16, 46, 3) for y in (-1.6, 1.6)))
    shaky = replace(KNOWN, remnant=0.03, rollouts=256, clear=0.0, reaction=0.3, takeover=0.6)

    def hits(intention, age, plan):
        now = situation(steering=0.01, obstacles=posts, path=ROAD, plan=plan)
        return made(replace(shaky, intention=intention)).assess(
            replace(now, operator=replace(now.operator, time=-age))).operator.collision.count

    plan = straight_plan()
    assert hits("predicted", 0.0, plan) != hits("takeover", 0.0, plan) and hits("predicted", 0.4, plan) != hits("takeover", 0.4, plan)
    assert hits("first_to_correct", 0.0, plan) == min(hits("predicted", 0.0, plan), hits("takeover", 0.0, plan))
    assert hits("first_to_correct", 0.4, plan) == hits("takeover", 0.4, plan)
    assert hits("first_to_correct", 0.4, None) == hits("predicted", 0.4, None)


def test_who_relieves_the_operator_has_a_steady_hand(made):
    """Between two rows of posts that a hand as unsteady as that does not stay between for 3 s; and it is the plan that is gone back to."""
    posts = circles(*((float(x), y, 0.2) for x in range(16, 46, 3) for y in (-1.6, 1.6)))
    shaky = replace(KNOWN, remnant=0.03, rollouts=256, clear=0.0)
    now = situation(obstacles=posts, plan=straight_plan())
    held, left = (made(replace(shaky, intention=i, takeover=0.3)).assess(now).operator.collision.value for i in ("held", "takeover"))
    assert held > 0.5 and left < 0.05
    elsewhere = Path(np.column_stack([np.linspace(-50.0, 250.0, 61), np.full(61, 8.0)]))
    assert made(replace(shaky, intention="takeover", takeover=0.3)).assess(replace(now, path=elsewhere)).operator.collision.value == left


def test_obstacles_are_as_large_as_they_were_seen(made):
    """Not as large as the circles that are kept clear of."""
    rollouts = made(replace(KNOWN, position_sd=0.3, rollouts=1024, clear=0.0))
    seen = circles((20.0, 1.6, 0.3))
    covered = replace(seen, radii=seen.radii + 0.2, excess=np.array([0.2]))
    hit, same, more = (rollouts.assess(situation(obstacles=o)).operator.collision.count
                       for o in (seen, covered, replace(covered, excess=None)))
    assert 0 < hit == same < more


def test_who_backs_is_followed_backwards(made):
    rollouts = made(replace(KNOWN, friction_sd=0.05, rollouts=256))
    behind, ahead = circles((-5.0, 0.0, 1.0)), circles((6.0, 0.0, 1.0))
    slow = {"x": 0.0, "y": 0.0, "yaw": 0.0, "vx": 0.0, "vy": 0.0, "yaw_rate": 0.0}
    for throttle, hit in ((0.3, ahead), (-0.3, behind)):
        for obstacles in (behind, ahead):
            now = replace(situation(throttle=throttle, obstacles=obstacles), measured=Measured(0.0, slow))
            assert rollouts.assess(now).operator.collision.value == float(obstacles is hit)
            backs = replace(now, autonomy=now.operator, operator=None, plan=straight_plan())
            if throttle < 0.0:
                assert rollouts.assess(backs).autonomy.collision.value == float(obstacles is hit)


def test_a_spin_is_a_failure(made):
    """Hard into a bend on ice; nothing is met."""
    for friction, spins in ((1.0, 0.0), (0.25, 1.0)):
        found = made(replace(KNOWN, friction=friction, spin=0.35)).assess(replace(
            situation(steering=0.45, throttle=0.7), measured=Measured(0.0, situation().measured.values | {"vx": 12.0, "yaw_rate": 0.5})))
        assert found.operator.spin.value == spins
        assert found.operator.failure.count >= found.operator.spin.count


def test_which_tyre_holds_in_a_slide_is_not_known(made):
    """Braked in a bend, a vehicle spins on one of the tyre models that it has and does not on the other: on half of the runs."""
    braked = replace(situation(steering=0.19, throttle=0.0, brake=0.6), sent=(StampedCommand(-1.0, 0.19, 0.0, 0.6),), measured=Measured(
        0.0, situation().measured.values | {"vx": 16.5, "vy": -1.1, "yaw_rate": 0.45}))
    known = replace(KNOWN, clear=0.0, friction_sd=0.05)
    shares = [made(replace(known, **changes)).assess(braked).operator.spin.value
              for changes in ({}, {"tyres": "all"}, {"model": "eight_dof/tmeasy_nr", "tyres": "all"})]
    assert shares[0] < 0.05 and shares[2] > 0.8 and shares[1] == pytest.approx(0.5 * (shares[0] + shares[2]), abs=0.05)
    assert [model.name for model in tyre_models(HMMWV, "eight_dof")] == ["eight_dof", "eight_dof/tmeasy_nr"]
    assert [model.name for model in tyre_models(HMMWV, "eight_dof/tmeasy")] == ["eight_dof/tmeasy"]


def test_fast_in_a_bend_fails_more_the_less_friction_there_is(made):
    bend = Path(np.column_stack([80.0 * np.sin(np.linspace(0.0, 1.5, 60)), 80.0 * (1.0 - np.cos(np.linspace(0.0, 1.5, 60)))]))
    lane = Corridor(bend, np.array([[0.0, 2.5, 2.5], [100.0, 2.5, 2.5]]))
    shares = [made(replace(KNOWN, intention="path", friction=f, friction_sd=0.05, clear=0.0)).assess(
        situation(path=bend, corridor=lane)).operator.leaving.value for f in (1.0, 0.4, 0.15)]
    assert shares[0] < 0.1 and shares[2] > 0.9 and shares[0] <= shares[1] <= shares[2]


# -- Odds and ends ------------------------------------------------------------------------------------------------------------

def test_a_line_keeps_the_corners_that_it_needs():
    t = np.linspace(0.0, 1.5, 200)
    arc = 50.0 * np.column_stack([np.sin(t), 1.0 - np.cos(t)])
    kept = arc[straightened(arc, 0.02)]
    assert len(kept) < 40
    middle, half = 0.5 * (kept[1:] + kept[:-1]), 0.5 * np.hypot(*np.diff(kept, axis=0).T)
    assert (50.0 - np.sqrt(50.0**2 - half**2)).max() <= 0.021 and len(middle)
    assert straightened(np.column_stack([t, 2.0 * t]), 0.02).sum() == 2


@pytest.mark.parametrize(("changes", "says"), [
    ({"model": "eight_dof/given_ground"}, "more inputs"), ({"horizon": 0.0}, "horizon"), ({"intention": "wild"}, "intention"),
    ({"rollouts": 3}, "rollouts")])
def test_what_cannot_be_asked_is_refused(changes, says):
    with pytest.raises(InputError, match=says):
        RiskRollouts(HMMWV, RiskSettings(**changes))


def test_as_a_component_of_the_threat():
    (component,) = make_components(("risk",), ("risk.position_sd=0.3", "risk.full=0.5", "risk.intention=held"))
    post = circles((30.0, -0.5, 0.5))
    around = assess((component,), situation(plan=straight_plan(3.5), obstacles=post))
    assert around.operator == 1.0 and around.relative > 0.95
    said = around.assessments["risk"]
    named = {p.name: p for p in said.probabilities}
    assert named["operator collision"].lower > 0.9 > 0.1 > named["autonomy collision"].upper
    assert "operator collision" in said.reason and said.horizon == 3.0 and said.rollouts in (256, 1024)
    into = assess((component,), situation(plan=straight_plan(0.0), obstacles=post))
    # Handing over averts nothing: who drives goes on.
    assert math.isnan(into.relative) and "whoever drives" in into.assessments["risk"].reason
    component.prepare(HMMWV)
    alone = assess((component,), replace(situation(), operator=None))
    assert math.isnan(alone.operator) and "neither" in alone.assessments["risk"].reason
