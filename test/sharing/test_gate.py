"""What leaves the command gate is in range, within the rates, and no more than friction allows; whatever is asked."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lfdm_ros.sharing.gate import LONGEST, MIN_LOCK, OutputGate
from lfdm_ros.sharing.sharing_settings import SharingSettings
from lfdm_ros.sharing.situation import StampedCommand
from lfdm_ros.simulation import Simulator
from lfdm_ros.vehicles import load_vehicle

HMMWV, S = load_vehicle("hmmwv"), SharingSettings()
FULL_RATE = HMMWV.actuators.steering_rate


def gate(vx=0.0, vy=0.0, yaw_rate=0.0, **changes):
    made = OutputGate(HMMWV, SharingSettings(**changes))
    made.admit(StampedCommand(0.0), 0.0)
    made.set_motion(vx, vy, yaw_rate)
    return made


def run(made, wanted, seconds, start=0.0, dt=0.01, **others):
    for k in range(1, round(seconds / dt) + 1):
        now = start + k * dt
        gated = made.admit(StampedCommand(now, *wanted), now, **others)
    return gated


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(-1, 1), st.floats(0, 1), st.floats(-0.05, 0.3), st.floats(-60, 60),
                          st.floats(-20, 20), st.floats(-5, 5), st.booleans(), st.booleans()), min_size=1, max_size=20))
def test_whatever_is_asked_the_command_keeps_ranges_and_rates(steps):
    made, now, before = gate(), 0.0, StampedCommand(0.0)
    for steering, throttle, brake, dt, vx, vy, yaw_rate, hurry, stale in steps:
        now = max(now + dt, 0.0)
        made.set_motion(vx, vy, yaw_rate)
        turn = made.max_steering_rate() * min(max(dt, 0.0), LONGEST)
        out = made.admit(StampedCommand(now - 9.0 * stale, steering, throttle, brake), now, emergency=hurry).command
        assert all(map(math.isfinite, out.inputs)) and (out.throttle == 0.0 or out.brake == 0.0)
        assert abs(out.steering - before.steering) <= turn + 1e-12
        pace = S.emergency_rate if hurry else S.brake_rate
        change = out.pedal - before.pedal
        if out.reverse == before.reverse:
            assert -pace * LONGEST - 1e-12 <= change <= S.throttle_rate * LONGEST + 1e-12
        low, high = made.steering_range()
        assert low - 1e-12 <= out.steering <= high + 1e-12 or abs(out.steering) <= abs(before.steering) + 1e-12
        before = out


def test_lock_by_speed_is_the_friction_of_a_steady_turn():
    """At the limit the simulated vehicle turns with about what friction gives, a little less as its tyres saturate."""
    made, v = gate(), 15.0
    lock = made.max_steering(v)
    p = HMMWV.parameters
    assert MIN_LOCK < lock < 0.5 and made.max_steering(1.0) == 1.0 and made.max_steering(100.0) >= MIN_LOCK
    assert np.diff([made.max_steering(x) for x in np.linspace(0.0, 60.0, 61)]).max() <= 0.0
    simulator = Simulator(HMMWV, "eight_dof", 0.005)
    simulator.reset(vx=v)
    u = np.array([lock, 0.3, 0.0])
    for _ in range(200):
        simulator.advance(u, u, 1)
    index = simulator.output_index
    ay = simulator.outputs[index["vx"]] * simulator.outputs[index["yaw_rate"]]
    most = 9.81 * p["friction_max"] * p["friction_scale"]
    assert 0.6 * most < ay <= 1.05 * most


def test_steering_into_a_slide_is_let_through():
    lock = gate().max_steering(20.0)
    sliding = gate(20.0, vy=-8.0)  # to the right: the front wheels may point there
    assert sliding.steering_range()[0] < -1.5 * lock and sliding.steering_range()[1] == pytest.approx(lock)
    assert run(sliding, (-1.0, 0.0, 0.0), 3.0).command.steering == pytest.approx(sliding.steering_range()[0])


@pytest.mark.parametrize("brake", [0.3, 0.6, 1.0])
def test_who_brakes_in_a_bend_is_not_turned_round(brake):
    """On tyres whose locked wheels do not hold across, the vehicle spins by what was asked, and does not by what is let through."""
    def slips(gated):
        simulator, made = Simulator(HMMWV, "eighteen_dof", 0.002, "tmeasy"), gate()
        index, asked, worst = simulator.output_index, (0.19, 0.0, brake), 0.0
        simulator.reset(vx=16.5, vy=-1.1, yaw_rate=0.45)
        # It came with the steering that it has.
        made.set_motion(16.5, -1.1, 0.45)
        run(made, (0.19, 0.0, 0.0), 1.0)
        for k in range(150):
            now, o = 1.01 + 0.01 * k, simulator.outputs
            made.set_motion(*(float(o[index[name]]) for name in ("vx", "vy", "yaw_rate")))
            u = np.array(made.admit(StampedCommand(now, *asked), now).command.inputs if gated else asked)
            simulator.advance(u, u, 5)
            if simulator.outputs[index["vx"]] > 3.0:
                worst = max(worst, abs(math.atan2(simulator.outputs[index["vy"]], simulator.outputs[index["vx"]])))
        return worst, simulator.outputs[index["vx"]]

    (asked, _), (through, slower) = slips(False), slips(True)
    assert math.degrees(asked) > 30.0 and math.degrees(through) < 20.0
    assert slower < 13.5  # and it brakes


def test_the_brake_goes_as_far_as_the_rear_axle_holds():
    assert 0.45 < gate(15.0).max_brake() < 0.6 and gate(15.0, yaw_rate=0.5).max_brake() < 0.5 * gate(15.0).max_brake()
    made = gate(15.0, yaw_rate=0.5)
    held = run(made, (0.1, 0.0, 1.0), 1.0)
    assert held.command.brake == pytest.approx(made.max_brake()) and "brake" in held.limits
    assert run(gate(15.0, yaw_rate=0.5), (0.1, 0.0, 1.0), 1.0, emergency=True).command.brake == 1.0
    asked = StampedCommand(1.0, 0.9, 0.0, 1.0)
    inside = made.clip(asked)
    assert inside.steering == made.steering_range()[1] and inside.brake == pytest.approx(made.max_brake()) and inside.time == 1.0
    assert made.clip(StampedCommand(1.0, 0.0, 0.2)) == StampedCommand(1.0, 0.0, 0.2)


def test_the_steering_slows_down_with_speed():
    assert gate().max_steering_rate() == FULL_RATE and gate(30.0).max_steering_rate() < FULL_RATE
    assert gate(30.0).max_steering_rate() == pytest.approx(2.0 * gate().max_steering(30.0) / S.swing_time)


def test_limits_are_named():
    made = gate(20.0)
    assert set(run(made, (1.0, 1.0, 0.0), 0.05).limits) == {"steering", "steering_rate", "pedal_rate"}
    assert run(gate(), (0.0, 0.0, 0.0), 0.05).limits == ()


def test_nothing_usable_brakes():
    made = gate(10.0)
    run(made, (0.1, 0.5, 0.0), 1.0)
    for k in range(100):
        gated = made.admit(StampedCommand(1.0, 0.1, 0.5, 0.0), 1.3 + 0.01 * k)
    assert gated.limits[0] == "stale" and gated.command.brake == S.stop_brake and gated.command.steering == pytest.approx(0.1)
    assert made.admit(None, 2.31).limits[0] == "stale"


def test_an_emergency_stop_brakes_faster():
    assert run(gate(10.0), (0.0, 0.0, 1.0), 0.05, emergency=True).command.brake == 1.0
    assert run(gate(10.0), (0.0, 0.0, 1.0), 0.05).command.brake == pytest.approx(0.05 * S.brake_rate)


def test_the_selector_changes_near_standstill_only():
    assert run(gate(5.0), (0.0, -0.5, 0.0), 1.0).command.throttle == 0.0
    assert "selector" in run(gate(5.0), (0.0, -0.5, 0.0), 1.0).limits
    assert run(gate(0.2), (0.0, -0.5, 0.0), 1.0).command.throttle == -0.5
    made = gate(0.2)
    run(made, (0.0, 0.5, 0.0), 1.0)
    assert run(made, (0.0, -0.5, 0.0), 0.01, start=1.0).command.throttle > 0.0  # through 0 first
    assert run(made, (0.0, -0.5, 0.0), 1.0, start=1.01).command.throttle == -0.5


def test_after_a_gap_the_command_does_not_jump():
    made = gate()
    out = made.admit(StampedCommand(60.0, 1.0), 60.0).command
    assert out.steering <= FULL_RATE * LONGEST + 1e-12


def test_what_is_not_finite_is_not_taken():
    made = gate(30.0)
    made.set_motion(math.nan, 0.0, 0.0)
    assert made.max_steering(30.0) == -made.steering_range()[0]
