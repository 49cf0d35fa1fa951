"""Limits of steering that keep all wheels on the ground: against statics, a simulator run by run, and what must not change them."""

import dataclasses

import numpy as np
import pytest

import lfdm_ros.control.limits as limits
from lfdm_ros.control.limits import NONE, SIDESLIP, SLOWER, WHEEL_LOAD, LimitTable, Manoeuvres, lift_limits
from lfdm_ros.errors import InputError
from lfdm_ros.models.chassis import GRAVITY
from lfdm_ros.models.declaration import WHEELS
from lfdm_ros.simulation import InputProfile, Simulator, rollout
from lfdm_ros.vehicles import load_vehicle

HMMWV = load_vehicle("hmmwv")
# High and narrow, both axles alike: the inner wheels lift before the tyres slide.
TOP_HEAVY = HMMWV.replace(
    cg_height=1.35, track_front=1.5, track_rear=1.5, roll_centre_drop_front=0.5, roll_centre_drop_rear=0.5, roll_stiffness_front=150e3,
    roll_stiffness_rear=150e3, unsprung_mass_front=258.0, unsprung_mass_rear=258.0)
QUICK = Manoeuvres(speeds=(15.0, 20.0, 30.0), load_margin=0.2)
QUASI_STATIC = Manoeuvres(speeds=(25.0, 30.0), load_margin=0.1, steering_rate=0.04, brakes=(0.0,), dwells=(), settling=4.0)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LFDM_CACHE_DIR", str(tmp_path))


def turn_at_load_margin(vehicle, chassis, margin):
    """Steady lateral acceleration at which an inner wheel has `margin` of its static load: balance of moments."""
    p = vehicle.parameters
    sprung, track, base = p["sprung_mass"], p["track_front"], p["cg_to_front_axle"] + p["cg_to_rear_axle"]
    drop, unsprung = p["roll_centre_drop_front"], p["unsprung_mass_front"]
    if chassis == "eighteen_dof":
        # Paper 000 eqs 10-13, axle by axle: its springs roll the sprung mass about the roll centres.
        gain = sprung * drop / (p["roll_stiffness_front"] + p["roll_stiffness_rear"] - sprung * GRAVITY * drop)
        results = []
        for axle, other in (("front", "rear"), ("rear", "front")):
            carried = sprung * p[f"cg_to_{other}_axle"] / base
            load = 0.5 * GRAVITY * (carried + unsprung)
            wheel = p["wheel_radius"] - load / p[f"tyre_vertical_stiffness_{axle}"]
            transfer = (unsprung * wheel + carried * (p["cg_height"] - drop) + p[f"roll_stiffness_{axle}"] * gain) / track
            results.append((1.0 - margin) * load / transfer)
        return min(results)
    # g t / (2 h) of the whole vehicle, less what roll takes: the whole load transfer rolls it on its tyres, the part that the roll centres
    # do not carry on its struts; both grow with the weight that has moved outwards, and the struts keep the wheels square to the body.
    mass = sprung + 2.0 * unsprung
    wheel = p["wheel_radius"] - 0.25 * GRAVITY * mass / p["tyre_vertical_stiffness_front"]
    moment = sprung * p["cg_height"] + 2.0 * unsprung * wheel
    compliance = (moment / p["tyre_vertical_stiffness_front"] + sprung * drop / p["suspension_stiffness_front"]) / track**2
    return (1.0 - margin) * GRAVITY * mass * track / (2.0 * moment) * (1.0 - GRAVITY * compliance)


@pytest.mark.parametrize("chassis", ["eighteen_dof", "twenty_four_dof"])
def test_slow_ramp_lifts_where_statics_says(chassis):
    """To 2.5 %: steered tyres drag, which takes some load off the rear axle."""
    table = lift_limits(TOP_HEAVY, chassis, "tmeasy", manoeuvres=QUASI_STATIC)
    assert table.cause == (WHEEL_LOAD, WHEEL_LOAD)
    expected = turn_at_load_margin(TOP_HEAVY, chassis, 0.1)
    assert expected < 0.6 * GRAVITY  # well below the grip of the tyres
    np.testing.assert_allclose(table.lateral_acceleration, expected, rtol=0.025)


def manoeuvre(d, rate, dwell, brake, until, side):
    """A step (dwell None) or a reversal, as a profile with a row at each corner."""
    rows = [(0.0, 0.0), (d / rate, d)]
    if dwell is not None:
        rows += [(d / rate + dwell, d)] * (dwell > 0.0) + [(3.0 * d / rate + dwell, -d)]
    time = np.array(sorted({0.0, limits.BRAKE_RISE, until, *(t for t, _ in rows)}))
    return InputProfile(time, side * np.interp(time, *zip(*rows)), 0 * time, brake * np.minimum(time / limits.BRAKE_RISE, 1.0))


def kept_run_by_run(vehicle, table, asked, speed, d, side):
    """Whether the plain simulator keeps each criterion in all manoeuvres."""
    simulator = Simulator(vehicle, model=table.model)
    load, slip = np.inf, 0.0
    for dwell in (None, *asked.dwells):
        until = (d if dwell is None else 3.0 * d + asked.steering_rate * dwell) / asked.steering_rate + asked.settling
        for brake in asked.brakes:
            simulator.reset(vx=speed)
            _, y = rollout(simulator, manoeuvre(d, asked.steering_rate, dwell, brake, until, side), until)
            out = dict(zip(simulator.output_names, y.T))
            load = min(load, *((out[f"tyre_fz_{w}"] / out[f"tyre_fz_{w}"][0]).min() for w in WHEELS))
            rear = out["vy"] - vehicle.parameters["cg_to_rear_axle"] * out["yaw_rate"]
            slip = max(slip, np.abs(np.arctan(rear / out["vx"])).max())
    return load > asked.load_margin, slip < asked.sideslip


@pytest.mark.parametrize("vehicle, cause", [(TOP_HEAVY, WHEEL_LOAD), (HMMWV, SIDESLIP)], ids=["top_heavy", "hmmwv"])
def test_single_runs_agree(vehicle, cause):
    """3 % below the limit every manoeuvre keeps the criteria, to either side; 15 % above one breaks the one that is named."""
    table = lift_limits(vehicle, tyre="fiala", manoeuvres=QUICK)
    assert table.model == "twenty_four_dof" and table.cause == (cause,) * 3
    for speed, limit in zip(table.speeds, table.steering):
        for side in (1.0, -1.0):
            assert kept_run_by_run(vehicle, table, QUICK, speed, 0.97 * limit, side) == (True, True)
        loaded, held = kept_run_by_run(vehicle, table, QUICK, speed, 1.15 * limit, 1.0)
        assert not (loaded if cause == WHEEL_LOAD else held)


def test_margin_friction_and_speed():
    tables = {margin: lift_limits(TOP_HEAVY, manoeuvres=dataclasses.replace(QUICK, load_margin=margin)) for margin in (0.0, 0.2, 0.5)}
    assert all(t.cause == (WHEEL_LOAD,) * 3 for t in tables.values())
    for less, more in ((0.0, 0.2), (0.2, 0.5)):
        assert (tables[more].steering < 0.95 * tables[less].steering).all()
    for table in tables.values():
        assert (np.diff(table.steering) < 0.0).all()
        np.testing.assert_allclose(table.road_wheel_angle, table.steering * TOP_HEAVY.parameters["max_road_wheel_angle"], rtol=1e-12)
    # Grip does not hold a wheel down.
    grippy = lift_limits(TOP_HEAVY.replace(friction_scale=1.5 * TOP_HEAVY.parameters["friction_scale"]), manoeuvres=QUICK)
    assert (grippy.steering <= tables[0.2].steering).all()
    # Without grip no wheel lifts.
    icy = lift_limits(TOP_HEAVY.replace(friction_scale=0.2), manoeuvres=dataclasses.replace(QUICK, brakes=(0.0,)))
    assert WHEEL_LOAD not in icy.cause and icy.lateral_acceleration.max() < 0.2 * 9.81


def steering_map(angles):
    """A HMMWV with the angles of its front wheels at inputs -1, -0.5, 0, 0.5, 1."""
    inputs, angles = (np.concatenate([column, np.full(7, column[-1])]) for column in (np.linspace(-1.0, 1.0, 5), angles))
    return TOP_HEAVY.replace(**{f"steering_input_{i}": v for i, v in enumerate(inputs)},
                             **{f"steering_angle_{i}": v for i, v in enumerate(angles)})


def test_left_and_right():
    """Where steering is not alike to both sides, both are driven: the limit is that of the worse, whichever side it is on."""
    angles = np.array([-0.65, -0.35, 0.0, 0.25, 0.5])
    one, mirrored = (lift_limits(steering_map(a), "eighteen_dof", manoeuvres=QUICK) for a in (angles, -angles[::-1]))
    np.testing.assert_allclose(one.steering, mirrored.steering, rtol=1e-9)
    np.testing.assert_allclose(one.lateral_acceleration, mirrored.lateral_acceleration, rtol=1e-9)
    left = lift_limits(steering_map(np.array([-0.5, -0.25, 0.0, 0.25, 0.5])), "eighteen_dof", manoeuvres=QUICK)
    assert (one.steering < 0.9 * left.steering).all()


def test_the_largest_model_that_fits():
    poor = dataclasses.replace(HMMWV, parameters={k: v for k, v in HMMWV.parameters.items() if k != "pitch_inertia"}, sources={})
    table = lift_limits(poor, tyre="tmeasy", manoeuvres=QUICK)
    assert (table.model, table.tyre, table.vehicle) == ("eighteen_dof/tmeasy", "tmeasy", "hmmwv")
    with pytest.raises(InputError, match="no load of each wheel"):
        lift_limits(HMMWV, "nonlinear_bicycle")
    with pytest.raises(InputError, match="rhode_dual_track"):
        lift_limits(load_vehicle("rhode_dual_track"))


def test_cache(tmp_path, monkeypatch):
    fresh = lift_limits(HMMWV, "eighteen_dof", manoeuvres=QUICK)
    (path,) = tmp_path.rglob("limits-*.json")

    def same(table):
        return all(np.array_equal(getattr(table, f.name), getattr(fresh, f.name)) for f in dataclasses.fields(table))

    studies = []
    functions_of = limits.functions_of
    monkeypatch.setattr(limits, "functions_of", lambda *args: studies.append(args) or functions_of(*args))
    assert same(lift_limits(HMMWV, "eighteen_dof", manoeuvres=QUICK)) and not studies
    written = path.read_bytes()
    for n, broken in enumerate((written[:-7], b"", b"\xff\xfe\n{}", written.replace(b"0.", b"1.", 1)), start=1):
        path.write_bytes(broken)
        assert same(lift_limits(HMMWV, "eighteen_dof", manoeuvres=QUICK)) and len(studies) == n
        assert path.read_bytes() == written
    lift_limits(HMMWV.replace(cg_height=0.8), "eighteen_dof", manoeuvres=QUICK)
    lift_limits(HMMWV, "eighteen_dof", manoeuvres=dataclasses.replace(QUICK, sideslip=0.25))
    assert len(studies) == 6 and len(list(tmp_path.rglob("limits-*.json"))) == 3


def table_of(speeds, steering, cause):
    return LimitTable(np.array(speeds), np.array(steering), 0.6 * np.array(steering), np.full(len(speeds), 6.0), cause, "v", "m", "t", 0.1,
                      1.0, "")


def test_between_the_speeds():
    speeds = np.array([5.0, 10.0, 15.0, 20.0])
    exact = 0.1 + 20.0 / speeds**2  # of a linear vehicle at one lateral acceleration
    table = table_of(speeds, exact, (WHEEL_LOAD,) * 4)
    fine = np.linspace(5.0, 20.0, 31)
    np.testing.assert_allclose(table.at(fine), 0.1 + 20.0 / fine**2, rtol=1e-12)
    assert table.at(12.0).shape == () and table.at([[1.0, 2.0]]).shape == (1, 2)
    assert table.at(0.0) == table.at(-3.0) == exact[0]
    np.testing.assert_allclose(table.at(40.0), exact[-1] / 4.0)
    # Where full steering ends at once, the interval before has what the speed above it allows, scaled.
    kink = table_of(speeds, [1.0, 1.0, 0.3, 0.2], (NONE, NONE, SIDESLIP, SLOWER))
    assert kink.at(14.0) == pytest.approx(0.3 * (15.0 / 14.0) ** 2)
    assert kink.at(10.0) == pytest.approx(0.3 * 1.5**2) and kink.at(5.0) == 1.0
    assert (np.diff(kink.at(np.linspace(0.0, 60.0, 200))) <= 0.0).all()


@pytest.mark.parametrize("wrong, message", [
    (dict(speeds=(10.0,)), "speeds"), (dict(speeds=(20.0, 10.0)), "speeds"), (dict(load_margin=1.0), "load_margin"),
    (dict(steering_rate=0.0), "steering_rate"), (dict(sideslip=float("nan")), "sideslip"), (dict(brakes=()), "brakes"),
    (dict(dwells=(-1.0,)), "dwells"), (dict(settling=0.0), "settling"),
])
def test_wrong_manoeuvres(wrong, message):
    with pytest.raises(InputError, match=message):
        Manoeuvres(**wrong)


def test_braking_alone_takes_the_margin():
    with pytest.raises(InputError, match="in a straight line"):
        lift_limits(HMMWV, "eighteen_dof", manoeuvres=dataclasses.replace(QUICK, load_margin=0.9))
