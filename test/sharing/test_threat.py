"""The components of the threat, each against what can be worked out by hand, and how they are combined."""

import math
import runpy
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from lfdm_ros.control import Measured, Plan
from lfdm_ros.errors import InputError
from lfdm_ros.perception import Obstacles
from lfdm_ros.sharing import components as registry
from lfdm_ros.sharing.components import (
    COMPONENTS,
    Clearance,
    Demand,
    Hidden,
    LoadTransfer,
    Sideslip,
    clearances,
    front_slip,
    make_components,
    register_component,
)
from lfdm_ros.sharing.forecast import Forecast, column, poses
from lfdm_ros.sharing.situation import Situation, StampedCommand
from lfdm_ros.sharing.threat import Assessment, Threat, assess, maximum, noisy_or
from lfdm_ros.simulation import Circle, Simulator, World
from lfdm_ros.simulation.path import Path as Way
from lfdm_ros.vehicles import load_vehicle

HMMWV = load_vehicle("hmmwv")
NAMES = ("x", "y", "yaw", "vx", "vy", "yaw_rate", "ax", "ay")


def situation(vx=10.0, time=1.0, obstacles=(), seen=1.0, **others):
    values = dict.fromkeys(NAMES, 0.0) | {"vx": vx} | others.pop("values", {})
    table = np.array([(*circle, 0.0, 0.0)[:5] for circle in obstacles], float).reshape(-1, 5)
    return Situation(time, HMMWV, Measured(time, values), obstacles=Obstacles(table[:, :2], table[:, 2], table[:, 3:], seen), **others)


def straight(vx=10.0, time=1.0, horizon=3.0, **columns):
    t = np.arange(0.0, horizon + 1e-9, 0.05)
    table = np.zeros((len(t), len(NAMES)))
    table[:, 0], table[:, 3] = vx * t, vx
    for name, values in columns.items():
        table[:, NAMES.index(name)] = values
    return Plan(NAMES, time + t, table, np.zeros((len(t), 3)))


# ---- What is held, rolled out ----------------------------------------------------------------------------------------------


def test_a_held_command_is_what_the_vehicle_would_do():
    """Against the simulator with the same model, fine steps, and the actuators' rate of steering."""
    now, command = 1.0, StampedCommand(1.0, 0.2, 0.3)
    rolled = Forecast(HMMWV).roll_out(situation(15.0, sent=(StampedCommand(0.0, 0.05, 0.1),)), command, 2.0)
    simulator = Simulator(HMMWV, "driven_bicycle", 0.005)
    simulator.reset(vx=15.0)
    rate, state = HMMWV.actuators.steering_rate, np.array([0.05, 0.1, 0.0])
    for _ in range(400):
        before = state.copy()
        state = np.array([min(state[0] + rate * 0.005, 0.2), 0.3, 0.0])
        simulator.advance(before, state, 1)
    assert rolled.times[0] == now and rolled.times[-1] == pytest.approx(3.0)
    for name, tolerance in (("x", 0.2), ("y", 0.2), ("yaw", 0.02), ("vx", 0.1), ("vy", 0.05)):
        assert column(rolled, name)[-1] == pytest.approx(simulator.outputs[simulator.output_index[name]], abs=tolerance), name


def test_what_was_sent_acts_first_for_the_delay():
    late = HMMWV.replace(actuation_delay=0.5)
    sent = (StampedCommand(0.0), StampedCommand(0.9, -0.1))
    rolled = Forecast(late).roll_out(replace(situation(15.0), vehicle=late, sent=sent), StampedCommand(1.0, 0.3), 2.0)
    steering = rolled.inputs[:, 0]
    assert (steering[rolled.times < 1.4 + 1e-9] == 0.0).all() and steering.min() <= -0.05 and steering[-1] == pytest.approx(0.3)


def test_poses_are_near_each_other_and_end_with_the_trajectory():
    ahead, at = poses(straight(20.0), 1.02, 1.0, 0.25)
    assert ahead[0] == 0.0 and ahead[-1] == pytest.approx(1.0)
    assert np.diff(at[:, 0]).max() <= 0.25 + 1e-9 and np.diff(ahead).min() > 0.0
    assert at[:, 0] == pytest.approx(20.0 * (ahead + 0.02))
    assert len(poses(straight(), 9.0, 1.0, 0.25)[0]) == 0


# ---- The published law -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vx, degrees, threat", [(10.0, 0.0, 0.0), (10.0, 1.5, 0.5), (10.0, -1.5, 0.5), (10.0, 7.0, 1.0), (-10.0, 1.5, 0.5),
                                                 (0.0, 0.0, 0.0)])
def test_the_published_law(vx, degrees, threat):
    vy = abs(vx) * math.tan(math.radians(degrees))
    assert Sideslip().assess(situation(vx, values={"vy": vy})).threat == pytest.approx(threat)


def test_the_published_law_is_blind_to_obstacles():
    """As it must be: it has no term for them."""
    before = situation(15.0, obstacles=[(12.0, 0.0, 1.0)], intention=straight(15.0))
    assert Sideslip().assess(before).threat == 0.0 and Clearance().assess(before).threat == 1.0


# ---- Time to collision and clearance -----------------------------------------------------------------------------------------


def test_time_to_collision_of_a_post_head_on():
    outline = HMMWV.footprint
    gap = 20.0
    s = situation(10.0, obstacles=[(outline.front + 0.5 + gap, 0.0, 0.5)], intention=straight(10.0))
    said = Clearance(near=1.0, far=3.0).assess(s)
    assert said.details["time_to_collision_s"] == pytest.approx(2.0, abs=0.03) and said.threat == pytest.approx(0.5, abs=0.02)


def test_a_gap_counts_by_its_width_and_by_how_soon_it_comes():
    side = HMMWV.footprint.half_width
    soon = [Clearance(near=1.0, far=3.0, margin=1.0).assess(situation(10.0, obstacles=[(5.0, side + 0.5 + gap, 0.5)],
                                                                      intention=straight(10.0))).threat for gap in (0.0, 0.5, 1.5)]
    assert soon == pytest.approx([1.0, 0.5, 0.0], abs=1e-6)


def test_clearance_is_that_of_the_world():
    """At each pose, moving obstacles where they are then, as the simulated world judges it."""
    circles = [(14.0, 3.0, 0.7, -2.0, -1.0), (25.0, -2.5, 1.0, 0.0, 0.0)]
    s = situation(10.0, obstacles=circles, seen=0.8)
    world = World(tuple(Circle(x, y, r, vx, vy) for x, y, r, vx, vy in circles))
    ahead, gaps = clearances(straight(10.0), s.time, 3.0, s.obstacles, HMMWV.footprint)
    for time, gap in list(zip(ahead, gaps))[::7]:
        # The obstacles are as of 0.8 s, so that the world's clock began then.
        assert gap == pytest.approx(world.clearance(time + 0.2, 10.0 * time, 0.0, 0.0, HMMWV.footprint), abs=1e-9)


def beside_a_van(vx, **others):
    """At 20 m, a van's side is seen 0.8 m to the right of the vehicle, from 30 to 36 m."""
    side = [(x, -2.2, 0.3) for x in np.arange(30.0, 36.1, 0.5)]
    return situation(vx, obstacles=side, values={"x": 20.0}, path=Way([[0.0, 0.0], [150.0, 0.0]]), **others)


def test_the_speed_past_a_van_allows_for_a_walker_behind_it():
    """The highest one without a threat stops, 0.3 s after the first sight, within a metre of the van's end."""
    assert math.isnan(Hidden().assess(beside_a_van(10.0)).threat)  # nobody is assumed there
    fastest = max(v for v in np.arange(5.0, 20.0, 0.05) if Hidden().assess(beside_a_van(v, hidden_speed=1.5)).threat == 0.0)
    stops = 20.0 + HMMWV.footprint.front + 0.3 * fastest + fastest**2 / (2.0 * 5.0)
    assert 35.0 < stops < 37.0
    faster = Hidden(full=2.0).assess(beside_a_van(fastest + 1.05, hidden_speed=1.5))
    assert faster.threat == pytest.approx(0.5, abs=0.05) and faster.reason == "1.0 m/s faster than hidden traffic allows"
    # Slow enough now, and too fast within a second, by the command that is held.
    t = np.arange(0.0, 3.0 + 1e-9, 0.05)
    soon = straight(fastest + 3.0 * t, x=20.0 + fastest * t + 1.5 * t**2)
    assert Hidden(ahead=0.0).assess(beside_a_van(fastest, hidden_speed=1.5, intention=soon)).threat == 0.0
    assert Hidden().assess(beside_a_van(fastest, hidden_speed=1.5, intention=soon)).threat == 1.0
    brakes = StampedCommand(1.0, 0.0, 0.0, 0.4)
    assert Hidden().assess(beside_a_van(15.0, hidden_speed=1.5, operator=brakes, autonomy=brakes)).threat == 0.0
    assert Hidden().assess(beside_a_van(15.0, hidden_speed=1.5, operator=StampedCommand(1.0), autonomy=brakes)).threat == 1.0


def test_who_sees_nothing_cannot_tell():
    assert math.isnan(Clearance().assess(situation(seen=-math.inf, intention=straight())).threat)
    assert math.isnan(Clearance().assess(situation(seen=-9.0, intention=straight())).threat)
    assert math.isnan(Clearance().assess(situation()).threat)
    assert Clearance().assess(situation(intention=straight())).threat == 0.0


def test_the_plan_of_autonomy_is_looked_at_as_well():
    said = Clearance().assess(situation(15.0, obstacles=[(12.0, 8.0, 1.0)], intention=straight(15.0), plan=straight(15.0, y=8.0)))
    assert said.threat == 0.0 and said.autonomy == 1.0


# ---- The way out ---------------------------------------------------------------------------------------------------------------


def test_sideslip_of_a_plan_by_hand():
    p = HMMWV.parameters
    plan = straight(10.0, vy=0.3, yaw_rate=0.2)
    slip = abs(math.atan2(0.3 + p["cg_to_front_axle"] * 0.2, 10.0))
    mass = p["sprung_mass"] + p["unsprung_mass_front"] + p["unsprung_mass_rear"]
    load = 0.25 * 9.81 * mass  # the centre of mass is in the middle
    peak = math.atan(3.0 * p["friction_max"] * p["friction_scale"] * load / p["cornering_stiffness_front"])
    assert front_slip(plan, HMMWV)[0] == pytest.approx(slip / peak, rel=1e-3)


def test_a_hard_plan_is_a_threat_an_easy_one_is_none():
    assert Demand().assess(situation(plan=straight(10.0))).threat == 0.0
    assert Demand().assess(situation(plan=straight(10.0, vy=6.0))).threat == 1.0
    assert Demand(measure="saturation").assess(situation(plan=straight(10.0, ay=9.5))).threat == 1.0
    assert math.isnan(Demand().assess(situation()).threat)
    assert math.isnan(Demand().assess(situation(plan=straight(time=-9.0))).threat)


# ---- Rollover ------------------------------------------------------------------------------------------------------------------


def test_load_transfer_by_a_steady_turn_of_the_larger_model():
    """The loads of eight_dof in a steady turn."""
    simulator = Simulator(HMMWV, "eight_dof", 0.005)
    simulator.reset(vx=12.0)
    for _ in range(600):
        simulator.advance(np.array([0.2, 0.1, 0.0]), np.array([0.2, 0.1, 0.0]), 1)
    out = {name: float(simulator.outputs[i]) for name, i in simulator.output_index.items()}
    loads = [out[f"tyre_fz_{wheel}"] for wheel in ("fl", "fr", "rl", "rr")]
    ratio = max(abs(loads[0] - loads[1]) / (loads[0] + loads[1]), abs(loads[2] - loads[3]) / (loads[2] + loads[3]))
    s = situation(12.0, values={name: out[name] for name in ("ax", "ay", "roll")})
    assert ratio > 0.2 and LoadTransfer().assess(s).details["now"] == pytest.approx(ratio, rel=0.03)


def test_lift_ahead_counts_as_lift_now():
    assert LoadTransfer().assess(situation(intention=straight(20.0, ay=12.0), plan=straight(20.0))).threat == 1.0
    said = LoadTransfer().assess(situation(intention=straight(20.0), plan=straight(20.0, ay=12.0)))
    assert said.threat == 0.0 and said.autonomy == 1.0


# ---- All together ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fixed:
    name: str
    threat: float
    autonomy: float = math.nan

    def assess(self, situation):
        return Assessment(self.threat, autonomy=self.autonomy)

    def reset(self):
        pass


def test_the_maximum_does_not_count_twice():
    parts = [Fixed("a", 0.3), Fixed("b", 0.6, 0.2), Fixed("c", math.nan)]
    threat = assess(parts, situation())
    assert (threat.operator, threat.autonomy) == (0.6, 0.2) and [r.split(":")[0] for r in threat.reasons] == ["b", "a", "c"]
    assert assess([*parts, Fixed("d", 0.6)], situation()).operator == 0.6
    assert assess(parts, situation(), "noisy_or").operator == pytest.approx(1.0 - 0.7 * 0.4)
    assert math.isnan(maximum([])) and math.isnan(noisy_or([math.nan])) and math.isnan(assess([], situation()).relative)
    assert assess([Fixed("a", 7.0)], situation()).operator == 1.0


def test_a_component_that_raises_cannot_tell_and_says_why():
    class Broken(Fixed):
        def assess(self, situation):
            raise ZeroDivisionError("of 1")

    threat = assess([Broken("broken", 1.0), Fixed("a", 0.3)], situation())
    assert threat.operator == 0.3 and threat.reasons[-1] == "broken: failed: ZeroDivisionError: of 1"


def test_what_counts_rises_with_the_operators_threat_and_falls_with_autonomys():
    grid = np.linspace(0.0, 1.0, 21)
    table = np.array([[Threat(o, a).relative for a in grid] for o in grid])
    assert (np.diff(table, axis=0) >= -1e-12).all() and (np.diff(table, axis=1) <= 1e-12).all()
    assert (np.diag(table) == grid).all() and Threat(0.4, math.nan).relative == 0.4 and Threat(0.2, 1.0).relative == 0.0


def test_components_by_name_and_their_settings():
    assert tuple(COMPONENTS)[:4] == ("sideslip", "demand", "clearance", "load_transfer")
    sideslip, clearance = make_components(("sideslip", "clearance"), ("sideslip.full=6", "clearance.margin = 1.5"))
    assert sideslip.full == 6.0 and clearance.margin == 1.5
    for names, changes in ((("speed",), ()), (("sideslip", "sideslip"), ()), (("sideslip",), ("sideslip.none=1",)),
                           (("sideslip",), ("sideslip.full=-1",)), (("sideslip",), ("nothing.margin=1",)), (("sideslip",), ("x",))):
        with pytest.raises(InputError):
            make_components(names, changes)


def test_a_component_from_outside(monkeypatch):
    monkeypatch.setattr(registry.COMPONENTS, "registered", dict(registry.COMPONENTS.registered))

    class Mood:
        name = "mood"

        def assess(self, situation):
            return Assessment(0.5)

        def reset(self):
            pass

    register_component(Mood)
    assert assess(make_components(("mood",)), situation()).operator == 0.5
    for wrong in (type("Mood", (Mood,), {}), Mood(), type("Bad", (Mood,), {"name": "no name"})):
        with pytest.raises(InputError):
            register_component(wrong)


def test_the_example_needs_the_brakes_that_physics_says(monkeypatch):
    monkeypatch.setattr(registry.COMPONENTS, "registered", dict(registry.COMPONENTS.registered))
    runpy.run_path(str(Path(__file__).parents[2] / "examples" / "brake_threat.py"))
    (brake,) = make_components(("brake",), ("brake.most=5",))
    for gap, aside, towards, needed in ((30.0, 0.0, 0.0, 15.0**2 / 60.0), (30.0, 0.0, 5.0, 20.0**2 / 60.0), (30.0, 3.0, 0.0, 0.0),
                                        (30.0, 0.0, -20.0, 0.0), (1.0, 0.0, 0.0, 15.0**2 / 2.0)):
        there = Obstacles(np.array([[HMMWV.footprint.front + gap + 0.5, aside]]), np.array([0.5]), np.array([[-towards, 0.0]]), 0.0)
        said = brake.assess(replace(situation(15.0), obstacles=there))
        assert said.details["needed"] == pytest.approx(needed) and said.threat == pytest.approx(min(needed / 5.0, 1.0))
