"""The double wishbone in closed form against Newton's method on its loops, differences, and the figures of another implementation."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import root
from scipy.spatial.transform import Rotation

from lfdm_ros.backends import ARRAYS
from lfdm_ros.models.double_wishbone import POINTS, DoubleWishbone, together
from lfdm_ros.models.steering_linkage import PitmanArm, Rack
from lfdm_ros.models.vectors import ZERO, Vector
from lfdm_ros.vehicles import load_vehicle

P = SimpleNamespace(**load_vehicle("hmmwv_multibody").parameters)
WISHBONE = DoubleWishbone(ARRAYS)
CORNERS = [(axle, left) for axle in ("front", "rear") for left in (True, False)]

corner = pytest.mark.parametrize(("axle", "left"), CORNERS, ids=lambda value: str(value))


def array(v: Vector) -> np.ndarray:
    return np.array(v.components, float)


def closed(axle: str, left: bool, theta: float, shift: Vector = ZERO):
    """What the closed form says, and what it was prepared with."""
    q = WISHBONE.prepare(P, axle, left, ZERO)
    return q, WISHBONE.pose(q, np.cos(theta), np.sin(theta), shift)


def solved(axle: str, left: bool, theta: float, shift: np.ndarray) -> dict[str, np.ndarray]:
    """The same by Newton's method: the upper arm's angle and the upright's rotation, with which both loops close."""
    side = np.array([1.0, 1.0 if left else -1.0, 1.0])
    at = {name: side * [getattr(P, f"{name}_{axle}_{c}") for c in "xyz"] for name in POINTS}

    def turn(pivot: str, other: str, angle: float, point: str) -> np.ndarray:
        axis = (at[pivot] - at[other]) * side[1]
        return at[pivot] + Rotation.from_rotvec(axis / np.linalg.norm(axis) * angle).apply(at[point] - at[pivot])

    def place(unknown: np.ndarray, lower: np.ndarray, point: str) -> np.ndarray:
        return lower + Rotation.from_rotvec(unknown[1:]).apply(at[point] - at["lower_ball_joint"])

    unknown = np.zeros(4)
    for share in np.linspace(0.2, 1.0, 5):  # along the way from the construction pose, so that it is the same branch
        lower = turn("lower_arm_fore", "lower_arm_aft", share * theta, "lower_ball_joint")

        def gaps(unknown: np.ndarray, share: float = share, lower: np.ndarray = lower) -> np.ndarray:
            rod = place(unknown, lower, "tie_rod_outer") - at["tie_rod_inner"] - share * shift
            return np.append(
                place(unknown, lower, "upper_ball_joint") - turn("upper_arm_fore", "upper_arm_aft", unknown[0], "upper_ball_joint"),
                rod @ rod - np.sum((at["tie_rod_outer"] - at["tie_rod_inner"]) ** 2))

        unknown = root(gaps, unknown, tol=1e-14).x
    assert np.abs(gaps(unknown)).max() < 1e-13
    found = {"upper": "upper_ball_joint", "outer": "tie_rod_outer", "wheel": "wheel_centre"}
    return {"lower": lower, "axis": Rotation.from_rotvec(unknown[1:]).apply([0.0, 1.0, 0.0]),
            **{name: place(unknown, lower, point) for name, point in found.items()}}


@corner
@pytest.mark.parametrize("theta", [-0.25, -0.1, 0.0, 0.05, 0.2])
@pytest.mark.parametrize("lateral", [-0.06, 0.0, 0.04])
def test_the_pose_is_the_one_that_newton_finds(axle: str, left: bool, theta: float, lateral: float) -> None:
    shift = np.array([-0.01, lateral, 0.004]) if lateral else np.zeros(3)
    q, pose = closed(axle, left, theta, Vector(*shift))
    for name, place in solved(axle, left, theta, shift).items():
        np.testing.assert_allclose(array(getattr(pose, name)), place, atol=2e-13, err_msg=name)
    assert min(pose.reach) > 0.0
    # The loops are closed to rounding.
    assert np.linalg.norm(array(pose.upper - pose.lower)) == pytest.approx(np.sqrt(q.kingpin_length2), abs=1e-15)
    assert np.linalg.norm(array(pose.outer - pose.inner)) == pytest.approx(np.sqrt(q.rod_length2), abs=2e-15)
    np.testing.assert_allclose(array(pose.lower + pose.basis.out(q.upper_ball_joint - q.lower_ball_joint)), array(pose.upper), atol=2e-15)


@corner
def test_rates_are_the_slopes_of_what_newton_finds(axle: str, left: bool) -> None:
    step = 1e-4
    for theta, lateral in ((-0.2, -0.05), (-0.1, 0.0), (0.1, 0.05)):
        q, pose = closed(axle, left, theta, Vector(0.0, lateral, 0.0))
        rates = WISHBONE.rates(q, pose, Vector(0.0, 1.0, 0.0))
        for one, (d_theta, d_lateral) in zip(rates, ((step, 0.0), (0.0, step))):
            after, before, after2, before2 = (solved(axle, left, theta + k * d_theta, np.array([0.0, lateral + k * d_lateral, 0.0]))
                                              for k in (1, -1, 2, -2))
            slopes = {name: (8.0 * (after[name] - before[name]) - (after2[name] - before2[name])) / (12.0 * step) for name in after}
            for name, value in {"lower": one.ball_joint, "wheel": one.on_upright(pose, pose.wheel),
                                "outer": one.on_upright(pose, pose.outer), "upper": one.on_upright(pose, pose.upper),
                                "axis": one.upright.cross(pose.axis)}.items():
                np.testing.assert_allclose(array(value), slopes[name], atol=3e-9, err_msg=name)


@corner
def test_accelerations_are_those_of_a_steady_motion(axle: str, left: bool) -> None:
    """Along a path whose coordinates change at constant rates, the velocities of all joints change as is said."""
    theta_rate, shift_rate, step = 1.7, Vector(0.1, -0.4, 0.05), 1e-5

    def moving(t: float):
        q, pose = closed(axle, left, -0.08 + theta_rate * t, shift_rate * t)
        motion = together(*WISHBONE.rates(q, pose, shift_rate), theta_rate, 1.0)
        return q, pose, motion

    q, pose, motion = moving(0.0)
    found = WISHBONE.accelerations(q, pose, motion, shift_rate, ZERO)
    (_, before, earlier), (_, after, later) = moving(-step), moving(step)
    for of in ("lower", "outer", "wheel", "upper"):
        slope = (array(later.on_upright(after, getattr(after, of))) - array(earlier.on_upright(before, getattr(before, of)))) / (2 * step)
        arm = getattr(pose, of) - pose.lower
        value = found.ball_joint + found.upright.cross(arm) + motion.upright.cross(motion.upright.cross(arm))
        np.testing.assert_allclose(array(value), slope, atol=1e-6, err_msg=of)
    np.testing.assert_allclose(array(found.upright), (array(later.upright) - array(earlier.upright)) / (2 * step), atol=1e-6)
    assert found.upper == pytest.approx((later.upper - earlier.upper) / (2 * step), abs=1e-6)


# Wheel travel [mm]: lateral shift of the wheel's centre [mm], camber and toe-in [deg], left wheel; of another implementation.
TABLE = {"front": {-100: (-33.8, 1.03, 1.06), -50: (-13.1, 0.89, 0.36), 50: (6.8, -1.44, -0.19), 100: (8.1, -3.35, -0.29)},
         "rear": {-100: (-30.2, 2.34, -0.32), -50: (-11.7, 1.48, -0.09), 50: (5.8, -1.98, 0.05), 100: (6.2, -4.40, 0.11)}}


@pytest.mark.parametrize("axle", TABLE)
def test_camber_and_toe_are_those_of_another_implementation(axle: str) -> None:
    """To the last digit that it prints but for one or two of them: it seems to read its travel off a grid."""
    q, first = closed(axle, True, 0.0)
    for travel, row in TABLE[axle].items():
        theta = 0.0
        for _ in range(20):
            _, pose = closed(axle, True, theta)
            slope = WISHBONE.rates(q, pose, ZERO)[0].on_upright(pose, pose.wheel).z
            theta -= (pose.wheel.z - first.wheel.z - 1e-3 * travel) / slope
        axis = pose.axis
        found = (1e3 * (pose.wheel.y - first.wheel.y), np.degrees(np.arctan2(-axis.z, np.hypot(axis.x, axis.y))),
                 np.degrees(np.arctan2(axis.x, axis.y)))
        assert np.abs(np.array(found) - row).max() < 0.13 and np.abs(np.array(found) - row)[1:].max() < 0.016


@pytest.mark.parametrize("axle", ["front", "rear"])
def test_the_right_corner_is_the_mirror_image(axle: str) -> None:
    for theta, shift in ((-0.2, Vector(-0.01, 0.05, 0.003)), (0.15, ZERO)):
        (q, left), (mirrored, right) = (closed(axle, side, theta, Vector(shift.x, sign * shift.y, shift.z))
                                        for side, sign in ((True, 1.0), (False, -1.0)))
        for name in ("lower", "upper", "outer", "wheel"):
            assert array(getattr(left, name)).tolist() == (array(getattr(right, name)) * [1.0, -1.0, 1.0]).tolist()
        one, other = (WISHBONE.rates(prepared, pose, Vector(0.0, sign, 0.0)) for prepared, pose, sign in
                      ((q, left, 1.0), (mirrored, right, -1.0)))
        for mine, its in zip(one, other):  # an angular velocity keeps its part along the axis that is mirrored
            assert array(mine.upright).tolist() == (array(its.upright) * [-1.0, 1.0, -1.0]).tolist()


def test_out_of_reach_is_no_pose() -> None:
    """Where an arm or the rod is too short, the reach is negative before, and the pose is not a number."""
    with np.errstate(invalid="ignore"):
        q, low = closed("front", True, -1.2)
        assert low.reach[0] < 0.0 and np.isnan(low.upper.z)
        _, pulled = closed("front", True, 0.0, Vector(0.0, -0.4, 0.0))
        assert pulled.reach[1] < 0.0 < pulled.reach[0] and np.isnan(pulled.outer.x)
    assert q.kingpin_length2 > 0.0


# -- Steering --------------------------------------------------------------------------------------------------------------------------


def test_the_pitman_arm_and_its_idler_carry_the_link() -> None:
    """Its end stays at the arm's length from the pivot, in a plane across the arm's axis; derivatives are those of differences."""
    linkage, origin = PitmanArm(ARRAYS), Vector(1.6, 0.0, -0.2)
    q = linkage.prepare(P, origin)
    assert linkage.commanded(1.0, q) == pytest.approx(0.129 * np.sin(np.radians(-30.0)))
    end = q.pivot + q.frame.x * q.length
    step = 1e-5
    for s in (-0.06, 0.0, 0.03):
        shift = linkage.shift(s, q)
        arm = array(end + shift.displacement - q.pivot)
        assert np.linalg.norm(arm) == pytest.approx(q.length, rel=1e-14) and array(q.frame.z) @ arm == pytest.approx(0.0, abs=1e-16)
        after, before = (linkage.shift(s + k * step, q) for k in (1, -1))
        np.testing.assert_allclose(array(shift.slope), array(after.displacement - before.displacement) / (2 * step), atol=1e-8)
        np.testing.assert_allclose(array(shift.curvature), array(after.slope - before.slope) / (2 * step), atol=1e-6)
        # Bodies: where they are, how they move, and how they accelerate while s does not.
        rate = 0.7
        for k, (body, column) in enumerate(linkage.bodies(s, rate, q)):
            (one, _), (other, _) = (linkage.bodies(s + sign * step * rate, rate, q)[k] for sign in (1, -1))
            np.testing.assert_allclose(array(body.velocity), array(one.centre - other.centre) / (2 * step), atol=1e-7)
            np.testing.assert_allclose(array(body.velocity), array(column.velocity) * rate, atol=1e-15)
            np.testing.assert_allclose(array(body.acceleration), array(one.velocity - other.velocity) / (2 * step), atol=1e-5)
            np.testing.assert_allclose(array(body.turning_acceleration), array(one.turning - other.turning) / (2 * step), atol=1e-5)
            assert array(body.turning) == pytest.approx(array(column.turning) * rate)


def test_a_rack_slides() -> None:
    p = SimpleNamespace(rack_travel=0.07, rack_mass=3.0, steering_stiffness=1e7, steering_damping=1e5,
                        **{f"rack_{name}_{c}": 0.1 for name in ("centre", "inertia") for c in "xyz"})
    rack = Rack(ARRAYS)
    q = rack.prepare(p, ZERO)
    (body, column), = rack.bodies(0.02, 0.5, q)
    assert rack.commanded(-0.5, q) == pytest.approx(-0.035) and array(rack.shift(0.02, q).displacement).tolist() == [0.0, 0.02, 0.0]
    assert array(body.centre) == pytest.approx([0.1, 0.12, 0.1])
    assert array(body.velocity).tolist() == [0.0, 0.5, 0.0] and column.velocity.y == 1.0
