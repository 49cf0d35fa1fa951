"""The embedded multibody as a vehicle: how it stands, that left is right, that its loops stay closed, what it says where they cannot."""

from types import SimpleNamespace

import numpy as np
import pytest

from lfdm_ros.backends import ARRAYS, casadi_model
from lfdm_ros.errors import InputError
from lfdm_ros.models.chassis import GRAVITY
from lfdm_ros.models.double_wishbone import DoubleWishbone
from lfdm_ros.models.steering_linkage import PitmanArm
from lfdm_ros.models.vectors import ZERO, Vector
from lfdm_ros.simulation import (
    BatchRollout,
    InputProfile,
    OutOfReach,
    SensitivityRollout,
    Simulator,
    equilibrium,
    initial_state,
    rollout,
)
from lfdm_ros.vehicles import load_vehicle

HMMWV = load_vehicle("hmmwv_multibody")
MODEL = HMMWV.model("multibody_hmmwv")
NAMES = [field.name for field in MODEL.states]
WHEELS = ("fl", "fr", "rl", "rr")
MASS = 2573.138
# Without what is on one side only, the pitman arm.
SYMMETRIC = HMMWV.replace(pitman_arm_mass=0.0, **{f"pitman_arm_inertia_{axis}": 0.0 for axis in "xyz"})


def pose(vehicle, wheel: str, angle: float, link: float = 0.0):
    """Of a corner at a displacement of the steering link, from the middle of its axle's lower pivots."""
    wishbone, linkage, p = DoubleWishbone(ARRAYS), PitmanArm(ARRAYS), SimpleNamespace(**vehicle.parameters)
    q = wishbone.prepare(p, "front" if wheel[0] == "f" else "rear", wheel[1] == "l", ZERO)
    shift = linkage.shift(link, linkage.prepare(p, ZERO)).displacement if wheel[0] == "f" else ZERO
    return q, wishbone.pose(q, np.cos(angle), np.sin(angle), shift)


def run(vehicle, profile: InputProfile, until: float, **start: float) -> dict[str, np.ndarray]:
    simulator = Simulator(vehicle, model="multibody_hmmwv")
    simulator.reset(**start)
    _, y = rollout(simulator, profile, until)
    return {name: y[:, i] for name, i in simulator.output_index.items()}


def weaving(steering: float) -> InputProfile:
    return InputProfile([0, 1, 2, 3, 4, 5], [0, steering, -steering, steering, 0, 0], [0.3] * 6, [0.0] * 6)


# -- At rest -----------------------------------------------------------------------------------------------------------------------------


def test_it_stands_as_statics_says() -> None:
    """Nothing accelerates, and the loads are those of all masses where they are."""
    x, p = initial_state(MODEL, HMMWV), SimpleNamespace(**HMMWV.parameters)
    functions = casadi_model(MODEL)
    rates = np.array(functions.rhs(x, np.zeros(3), HMMWV.vector(MODEL))).ravel()
    assert np.abs(rates).max() < 1e-9
    loads = np.array(functions.wheel_loads(x, np.zeros(3), HMMWV.vector(MODEL))).ravel()
    assert loads.sum() == pytest.approx(MASS * GRAVITY, rel=1e-12)
    # Of the front axle by moments about the rear one: masses where they are, on a body that is nearly level.
    state = dict(zip(NAMES, x))
    moment = p.sprung_mass * p.cg_to_rear_axle
    for wheel in WHEELS[:2]:
        q, now = pose(HMMWV, wheel, state[f"arm_angle_{wheel}"])
        ahead = p.cg_to_front_axle + p.cg_to_rear_axle - p.wheel_centre_front_x
        for mass, place in ((q.lower_arm_mass, q.lower_arm_centre), (q.upper_arm_mass, q.upper_arm_centre),
                            (q.upright_mass, q.upright_centre), (0.5 * 240.666 - 49.228, now.wheel)):
            moment += mass * (ahead + float(place.x))
    moment += 5.286 * (p.cg_to_front_axle + p.cg_to_rear_axle - p.wheel_centre_front_x - 0.35)
    moment += 2 * sum(mass * shift for mass, shift in ((23.965, -1.40 * 0.0254), (5.813, 3.495 * 0.0254)))
    assert loads[:2].sum() / (MASS * GRAVITY) == pytest.approx(moment / (MASS * (p.cg_to_front_axle + p.cg_to_rear_axle)), abs=2e-3)


def test_it_stands_low_with_the_toe_of_the_reference() -> None:
    """102 mm below the construction pose in front, 114 mm behind were there no stops; these hold the rear a little higher."""
    free = HMMWV.replace(**{f"stop_force_{axle}_{i}": 0.0 for axle in ("front", "rear") for i in range(12)})
    found = {}
    for name, vehicle in (("free", free), ("stops", HMMWV)):
        state = equilibrium(MODEL, vehicle)
        for wheel in ("fl", "rl"):
            _, now = pose(vehicle, wheel, state[f"arm_angle_{wheel}"])
            _, built = pose(vehicle, wheel, 0.0)
            found[name, wheel] = (1e3 * float(now.wheel.z - built.wheel.z), float(np.degrees(np.arctan2(now.axis.x, now.axis.y))))
    assert found["free", "fl"] == pytest.approx((-102.0, 1.10), abs=0.6) and found["free", "rl"] == pytest.approx((-114.0, -0.44), abs=0.6)
    assert found["free", "fl"][1] == pytest.approx(1.10, abs=0.02) and found["free", "rl"][1] == pytest.approx(-0.44, abs=0.02)
    assert found["free", "rl"][0] + 0.5 < found["stops", "rl"][0] < -105.0
    assert found["stops", "fl"] == pytest.approx(found["free", "fl"], abs=0.3)


def test_a_vehicle_that_its_springs_do_not_carry_is_refused() -> None:
    weak = HMMWV.replace(**{f"{table}_force_{axle}_{i}": 0.0 for table, count in (("spring", 24), ("stop", 12))
                            for axle in ("front", "rear") for i in range(count)})
    with pytest.raises(InputError, match="'hmmwv_multibody' finds no rest as multibody_hmmwv"):
        initial_state(MODEL, weak)


def test_what_begins_at_rest_stays_there() -> None:
    y = run(HMMWV, InputProfile([0, 1], [0, 0], [0, 0], [0, 0]), 2.0)
    assert np.abs(y["x"]).max() < 1e-9 and np.abs(y["tyre_fz_rl"] - y["tyre_fz_rl"][0]).max() < 1e-5


# -- Driving -----------------------------------------------------------------------------------------------------------------------------


def test_left_and_right_are_mirror_images() -> None:
    left, right = (run(SYMMETRIC, weaving(side * 0.3), 4.0, vx=12.0) for side in (1.0, -1.0))
    assert np.abs(left["yaw_rate"]).max() > 0.3
    for name in ("x", "vx", "ax", "pitch", "pitch_rate"):
        np.testing.assert_allclose(left[name], right[name], rtol=1e-8, atol=1e-9)
    for name in ("y", "vy", "ay", "roll", "yaw", "roll_rate", "yaw_rate", "road_wheel_angle"):
        np.testing.assert_allclose(left[name], -right[name], rtol=1e-8, atol=1e-8)
    for one, other in (("fl", "fr"), ("rl", "rr")):
        np.testing.assert_allclose(left[f"tyre_fz_{one}"], right[f"tyre_fz_{other}"], rtol=1e-7, atol=1e-4)


def test_it_turns_as_its_linkage_points_and_leans_outwards() -> None:
    """Slowly, on the circle of its Ackermann angle; the outer wheels carry what the inner ones lose."""
    y = run(HMMWV, InputProfile([0, 1, 10], [0.0, 0.3, 0.3], [0.0, 0.02, 0.02], [0, 0, 0]), 10.0, vx=3.0)
    angle, speed = y["road_wheel_angle"][-1], y["vx"][-1]
    assert angle == pytest.approx(0.138, abs=0.01)
    wheelbase = HMMWV.parameters["cg_to_front_axle"] + HMMWV.parameters["cg_to_rear_axle"]
    assert y["yaw_rate"][-1] == pytest.approx(speed * np.tan(angle) / wheelbase, rel=0.03)
    fast = run(HMMWV, InputProfile([0, 1, 4], [0.0, 0.12, 0.12], [0.2] * 3, [0, 0, 0]), 4.0, vx=15.0)
    assert fast["ay"][-1] > 2.0 and fast["roll"][-1] > 0.0
    outer, inner = fast["tyre_fz_fr"] + fast["tyre_fz_rr"], fast["tyre_fz_fl"] + fast["tyre_fz_rl"]
    assert outer[-1] > inner[-1] + 3000.0 and outer[-1] + inner[-1] == pytest.approx(MASS * GRAVITY, rel=5e-3)


def test_a_driveline_that_turns_the_body_leans_it() -> None:
    """Held by its brakes with the drive pulling: the right wheels carry the moment, and what of the weight has moved to their side."""
    torque = 0.5 * 1000.0 / HMMWV.parameters["driveline_ratio"]
    y = run(HMMWV.replace(driveline_roll_reaction=0.2), InputProfile([0], [0.0], [0.5], [1.0]), 4.0)
    half = 0.5 * HMMWV.parameters["track_front"] - 0.033  # where it stands
    moment = half * sum(y[f"tyre_fz_{axle}r"][-1] - y[f"tyre_fz_{axle}l"][-1] for axle in "fr")
    assert y["roll"][-1] > 2e-3 and abs(y["vx"][-1]) < 1e-3
    assert moment == pytest.approx(0.2 * torque + MASS * GRAVITY * 0.8 * y["roll"][-1], rel=0.02)


def test_it_brakes_to_rest_and_stays() -> None:
    y = run(HMMWV, InputProfile([0, 0.2, 6], [0, 0, 0], [0, 0, 0], [0, 0.5, 0.5]), 6.0, vx=15.0)
    assert y["pitch"].max() > y["pitch"][0] + 0.003  # its nose goes down
    assert abs(y["vx"][-1]) < 1e-3 and abs(y["omega_fl"][-1]) < 1e-12
    assert y["x"][-1] == pytest.approx(y["x"][-50], abs=1e-3)


def test_a_rack_steers_as_the_link_does() -> None:
    """A rack with the link's mass and way to the side: the path of the pitman arm but for the link's way ahead, some mm."""
    p = HMMWV.parameters
    rack = HMMWV.replace(rack_travel=p["pitman_arm_length"] * np.sin(p["pitman_arm_lock"]), rack_mass=5.286,
                         **{f"rack_{name}_{axis}": p[f"steering_link_{name}_{axis}"] for name in ("centre", "inertia") for axis in "xyz"})
    found = {}
    for part in ("pitman_arm", "rack"):
        simulator = Simulator(rack, model=f"multibody_hmmwv/{part}")
        assert simulator.model.name == ("multibody_hmmwv/rack" if part == "rack" else "multibody_hmmwv")
        simulator.reset(vx=12.0)
        for _ in range(20):
            simulator.advance([0.2, 0.1, 0.0], [0.2, 0.1, 0.0], 100)
        found[part] = dict(zip(simulator.output_names, simulator.outputs))
    for name in ("yaw_rate", "road_wheel_angle", "y", "roll"):
        assert found["rack"][name] == pytest.approx(found["pitman_arm"][name], rel=0.03) and found["rack"][name] > 0.005, name


def test_on_a_slope_it_is_held_by_its_brakes() -> None:
    """Loads are the weight's part across the ground, tyres push with its part along, and the body lies along the slope."""
    slope = 0.1
    simulator = Simulator(HMMWV, model="multibody_hmmwv/given_ground")
    ahead, behind = HMMWV.parameters["cg_to_front_axle"], -HMMWV.parameters["cg_to_rear_axle"]
    simulator.meet(ground_slope_x=slope, **{f"ground_height_{wheel}": slope * (ahead if wheel[0] == "f" else behind) for wheel in WHEELS})
    for _ in range(50):
        simulator.advance([0.0, 0.0, 1.0], [0.0, 0.0, 1.0], 100)
    found = dict(zip(simulator.output_names, simulator.outputs))
    angle, weight = np.arctan(slope), MASS * GRAVITY
    assert sum(found[f"tyre_fz_{wheel}"] for wheel in WHEELS) == pytest.approx(weight * np.cos(angle), rel=2e-3)
    assert sum(found[f"tyre_fx_{wheel}"] for wheel in WHEELS) == pytest.approx(weight * np.sin(angle), rel=5e-3)
    assert found["pitch"] == pytest.approx(-angle, abs=5e-3) and abs(found["vx"]) < 2e-3


def test_loops_are_closed_after_a_million_steps() -> None:
    """Nothing is integrated that could drift: the lengths of kingpin and tie rods are those of the file to rounding."""
    simulator = Simulator(HMMWV, model="multibody_hmmwv")
    simulator.reset(vx=10.0)
    for k in range(1000):
        simulator.advance([0.2 * (-1) ** k, 0.1, 0.0], [0.2 * (-1) ** (k + 1), 0.1, 0.0], 1000)
    assert simulator.time == pytest.approx(1000.0)
    link = simulator.state[NAMES.index("link_displacement")]
    assert abs(link) > 1e-3
    for wheel in WHEELS:
        q, now = pose(HMMWV, wheel, simulator.state[NAMES.index(f"arm_angle_{wheel}")], link)
        gaps = (np.sqrt((now.upper - now.lower).squared) - np.sqrt(q.kingpin_length2),
                np.sqrt((now.outer - now.inner).squared) - np.sqrt(q.rod_length2),
                np.sqrt((now.lower + now.basis.out(Vector(*(q.upper_ball_joint - q.lower_ball_joint).components)) - now.upper).squared))
        assert np.abs(gaps).max() < 1e-12


def test_batches_and_derivatives_are_those_of_one_vehicle() -> None:
    """By a mass, a point of the geometry and a tyre: exact derivatives of a lane change against central differences of a batch."""
    names, steps = ("sprung_mass", "tie_rod_inner_front_z", "cornering_stiffness_front"), np.array([0.01, 1e-7, 0.3])
    times = np.linspace(0.0, 1.0, 51)
    inputs = np.column_stack([0.2 * np.sin(6.0 * times), np.full((51, 1), 0.2), np.zeros(51)])
    common = dict(model=MODEL, vehicle=HMMWV, dt=1e-3, times=times, inputs=inputs, parameters=names, channels=("yaw_rate", "vy", "roll"))
    start, theta = initial_state(MODEL, HMMWV, vx=15.0), np.array([HMMWV.parameters[name] for name in names])
    beside = np.concatenate([theta[None], theta + np.diag(steps), theta - np.diag(steps)])
    batch = BatchRollout(**common).trajectories(beside, start)
    run, slopes = SensitivityRollout(**common, states=()).run(theta, start, np.eye(3), np.zeros((len(start), 3)))
    assert np.abs(run[:, 0]).max() > 0.2
    np.testing.assert_allclose(batch[0], run, atol=1e-10)
    for i, step in enumerate(steps):
        difference = (batch[1 + i] - batch[4 + i]) / (2.0 * step)
        assert (np.abs(slopes[:, :, i] - difference).max(axis=0) < 1e-6 * np.abs(difference).max(axis=0)).all(), names[i]


# -- Out of reach --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["rollout", "advance"])
def test_a_wheel_out_of_reach_is_a_named_outcome(way: str) -> None:
    """A pitman arm that goes too far: one front wheel's tie rod cannot follow, and the run says which and when."""
    bent = HMMWV.replace(pitman_arm_length=0.5, pitman_arm_lock=-1.2)
    simulator = Simulator(bent, model="multibody_hmmwv")
    simulator.reset(vx=5.0)
    with pytest.raises(OutOfReach, match=r"the front (left|right) wheel is out of the reach of its linkage at t = 0\.\d+ s") as outcome:
        if way == "rollout":
            rollout(simulator, InputProfile([0, 0.5, 1], [0, 1, 1], [0] * 3, [0] * 3), 1.0)
        else:
            for k in range(10):
                simulator.advance([min(0.2 * k, 1.0), 0, 0], [min(0.2 * (k + 1), 1.0), 0, 0], 100)
    assert 0.0 < outcome.value.time < 0.6 and outcome.value.wheel in WHEELS[:2] and np.isfinite(outcome.value.state).all()
