"""The exact wheel on soil: against an independent implementation's table, closed forms, energy, and what a wheel may not do."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad

from lfdm_ros.errors import InputError
from lfdm_ros.ground.soil_wheel import SoilWheel, WheelMotion, WheelOutcome, forces_at, outcome_of, settle, stresses
from lfdm_ros.ground.soils import SoilProperties, load_soil

RIGID, SOFT, LOAD = SoilWheel(0.47, 0.318), SoilWheel(0.47, 0.318, 580e3), 6310.0
SLIPS = (0.0, 0.1, 0.2, 0.4, 0.8)
# Of an independent implementation with 64 points: sinkage at a slip of 0.2 [mm], drawbar pull at SLIPS [N], and of the soft tyre sinkage
# [mm], radius of the surrogate circle [m] and drawbar pull [N] at 0.2.
ORACLE = {
    "lete_sand": (18.0, (-317.0, 1119.0, 1812.0, 2358.0, 2555.0), (9.0, 3.10, 2984.0)),
    "sandy_loam_15": (38.0, (-537.0, 400.0, 951.0, 1493.0, 1765.0), (22.8, 1.67, 1934.0)),
    "clayey_soil_38": (38.0, (-573.0, 41.0, 244.0, 347.0, 321.0), (19.3, 1.84, 1133.0)),
    "dry_sand": (95.0, (46.0, 694.0, 981.0, 1147.0, 1022.0), (76.7, 0.95, 1676.0)),
    "scm_soft": (326.0, (177.0, 76.0, -31.0, -272.0, -891.0), (295.0, 0.64, 646.0)),
}
SAND = load_soil("lete_sand")


def pull(soil: SoilProperties, slip: float, wheel: SoilWheel = RIGID, load: float = LOAD, slip_angle: float = 0.0) -> float:
    settled = settle(wheel, soil, load, WheelMotion.of(slip, slip_angle))
    assert settled.forces is not None
    return settled.forces.fx


@pytest.mark.parametrize("name", ORACLE)
def test_the_table(name):
    """To 1 %, and to what it rounds to."""
    soil, (sinkage, pulls, (soft_sinkage, radius, soft_pull)) = load_soil(name), ORACLE[name]
    at = settle(RIGID, soil, LOAD, WheelMotion.of(0.2))
    assert 1e3 * at.sinkage == pytest.approx(sinkage, rel=0.01, abs=0.5)
    for slip, expected in zip(SLIPS, pulls):
        assert pull(soil, slip) == pytest.approx(expected, rel=0.01, abs=1.0)
    soft = settle(SOFT, soil, LOAD, WheelMotion.of(0.2))
    assert soft.deflection == pytest.approx(LOAD / 580e3)
    assert 1e3 * soft.sinkage == pytest.approx(soft_sinkage, rel=0.01, abs=0.06)
    assert soft.arc_radius == pytest.approx(radius, rel=0.01) and soft.forces.fx == pytest.approx(soft_pull, rel=0.01)
    assert at.outcome == soft.outcome == (WheelOutcome.DEEP if name == "scm_soft" else WheelOutcome.SUPPORTED)


def test_snow_that_gives_way():
    """At growing slip it carries the wheel only deep, at 0.4 hardly above its axle, then not at all."""
    snow = load_soil("snow_harrison")
    found = [settle(RIGID, snow, LOAD, WheelMotion.of(slip)) for slip in SLIPS]
    assert [at.outcome for at in found] == [WheelOutcome.DEEP] * 4 + [WheelOutcome.SUNK]
    assert 0.95 * 0.47 < found[3].sinkage < 0.47
    assert 1e3 * found[2].sinkage == pytest.approx(432.0, rel=0.01)
    np.testing.assert_allclose([at.forces.fx for at in found[:3]], [-785.0, -930.0, -1091.0], rtol=0.01)
    assert found[4].forces is None


# -- Integrals against others' ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["lete_sand", "clayey_soil_38", "heavy_clay_25"])
def test_the_integrals_are_those_of_adaptive_quadrature(name):
    """Paper 001 eqs 4-9 once more, as they are printed, for a driven wheel that goes straight."""
    soil, slip, sinkage, r = load_soil(name), 0.2, 0.03, RIGID.radius
    front = math.acos(1.0 - sinkage / r)
    middle = (soil.stress_angle + soil.stress_angle_growth * slip) * front

    def pressure(angle):
        at = angle if angle >= middle else front - angle / middle * (front - middle)
        return soil.modulus(RIGID.width) * (r * (math.cos(at) - math.cos(front))) ** soil.sinkage_exponent

    def shear(angle):
        j = r * (front - angle - (1.0 - slip) * (math.sin(front) - math.sin(angle)))
        return (soil.cohesion + pressure(angle) * math.tan(soil.friction_angle)) * (1.0 - math.exp(-j / soil.shear_modulus_x))

    def integral(f):
        return r * RIGID.width * sum(quad(f, *ends, epsabs=1e-9, epsrel=1e-9, limit=200)[0] for ends in ((0.0, middle), (middle, front)))

    forces = forces_at(RIGID, soil, 0.0, sinkage, WheelMotion.of(slip), points=200)
    assert forces.fx == pytest.approx(integral(lambda a: shear(a) * math.cos(a) - pressure(a) * math.sin(a)), rel=1e-5)
    assert forces.fz == pytest.approx(integral(lambda a: shear(a) * math.sin(a) + pressure(a) * math.cos(a)), rel=1e-5)
    assert forces.moment == pytest.approx(r * integral(shear), rel=1e-5)  # of forces at r about the centre: the pressures have no lever


def test_points_converge():
    exact = {slip: pull(SAND, slip) for slip in (0.05, 0.2, 0.6)}
    for points, error in ((8, 1e-4), (4, 1e-3)):
        for slip, expected in exact.items():
            at = settle(RIGID, SAND, LOAD, WheelMotion.of(slip), points)
            assert at.forces.fx == pytest.approx(expected, abs=error * LOAD)


def test_the_sinkage_of_a_plate_wheel():
    """Bekker's closed form of a rigid towed wheel, whose largest pressure is at the bottom and whose shear is nothing, at small sinkage."""
    soil = replace(SAND, sinkage_exponent=1.0, stress_angle=0.0, stress_angle_growth=0.0, cohesion=0.0, friction_angle=0.0)
    load = 300.0
    expected = (3.0 * load / (RIGID.width * 2.0 * soil.modulus(RIGID.width) * math.sqrt(2.0 * RIGID.radius))) ** (2.0 / 3.0)
    at = settle(RIGID, soil, load, WheelMotion.of(0.0))
    assert at.sinkage == pytest.approx(expected, rel=0.03)
    # And its resistance is the work of pressing down a rut, b k z^2 / 2 a metre.
    assert -at.forces.fx == pytest.approx(RIGID.width * soil.modulus(RIGID.width) * at.sinkage ** 2 / 2.0, rel=0.03)


def test_the_surrogate_circle_meets_the_undeformed_tyre():
    """001 eq 23 for small deflection and sinkage; a rigid wheel's circle is its own."""
    at = settle(SoilWheel(0.47, 0.318, 6e6), SAND, LOAD, WheelMotion.of(0.1))
    ratio = at.deflection / at.sinkage
    assert math.sqrt(at.arc_radius / 0.47) == pytest.approx(math.sqrt(1.0 + ratio) + math.sqrt(ratio), rel=5e-3)
    assert settle(RIGID, SAND, LOAD, WheelMotion.of(0.1)).arc_radius == pytest.approx(0.47, rel=1e-9)


# -- Limits ----------------------------------------------------------------------------------------------------------------------
def test_hard_soil_is_dry_friction_without_resistance():
    """With the slip the pull goes to (c A + W tan phi), A the flat of the tyre; pressing the soil down takes nothing."""
    hard = replace(SAND, frictional_modulus=1e9, cohesive_modulus=0.0, shear_modulus_x=1e-4)
    at = settle(SOFT, hard, LOAD, WheelMotion.of(0.5))
    flat = 2.0 * math.sqrt(at.deflection * (2.0 * 0.47 - at.deflection))
    assert at.forces.fx == pytest.approx(LOAD * math.tan(hard.friction_angle) + hard.cohesion * flat * SOFT.width, rel=0.01)
    assert at.sinkage < 1e-3 and at.forces.resistance < 0.002 * LOAD
    assert at.forces.moment == pytest.approx((0.47 - at.deflection) * at.forces.fx, rel=0.01)


def test_small_shear_is_in_proportion():
    """j -> 0: half the slip across, half the force, as the soil were elastic; no slip, no force."""
    forces = [settle(SOFT, SAND, LOAD, WheelMotion.of(0.0, angle)).forces.fy for angle in (0.0, 1e-5, 2e-5)]
    assert forces[0] == 0.0 and forces[2] == pytest.approx(2.0 * forces[1], rel=1e-3)


def test_the_slip_angle_is_symmetric_and_the_force_opposes_the_sliding():
    for slip in (-0.3, 0.0, 0.3):
        left, right = (settle(SOFT, SAND, LOAD, WheelMotion.of(slip, angle)) for angle in (0.1, -0.1))
        assert left.forces.fx == pytest.approx(right.forces.fx, rel=1e-12)
        assert left.forces.fy == pytest.approx(-right.forces.fy, rel=1e-12) and left.forces.fy > 0.0  # slides to the right
        assert left.sinkage == right.sinkage
    assert settle(SOFT, SAND, LOAD, WheelMotion.of(0.2, 0.3)).forces.fx < settle(SOFT, SAND, LOAD, WheelMotion.of(0.2, 0.0)).forces.fx


def test_shear_never_exceeds_the_strength():
    """Mohr-Coulomb for what slides along and across at once, point by point."""
    for motion in (WheelMotion.of(0.5, 0.5), WheelMotion.of(-1.0, 0.8), WheelMotion(0.0, 3.0, 2.0), WheelMotion(5.0, -5.0, 0.0)):
        s = stresses(SOFT, SAND, np.array([1.0]), np.array([0.02]), motion)
        strength = SAND.cohesion + s.pressure * math.tan(SAND.friction_angle)
        assert (np.hypot(s.shear_x, s.shear_y) <= strength * (1.0 + 1e-12)).all()
        assert np.hypot(s.shear_x, s.shear_y).max() > 0.9 * strength.min()


# -- Every way to move -----------------------------------------------------------------------------------------------------------
def test_traction_is_forward_when_the_rim_is_faster():
    slips = np.linspace(-0.9, 0.9, 19)
    tractions = [settle(SOFT, SAND, LOAD, WheelMotion.of(slip)).forces.traction for slip in slips]
    assert (np.diff(tractions) > -1.0).all()  # and grows with the slip
    assert tractions[0] < -1000.0 and tractions[-1] > 1000.0


def test_locked_reversed_towed_airborne_and_standing_wheels():
    locked, sliding = (settle(SOFT, SAND, LOAD, motion).forces for motion in (WheelMotion(5.0, 0.0, 0.0), WheelMotion(5.0, 0.0, 1e-4)))
    assert locked.fx == pytest.approx(sliding.fx, rel=1e-6) and locked.fx < -0.4 * LOAD
    assert locked.fx == settle(SOFT, SAND, LOAD, WheelMotion(1.0, 0.0, 0.0)).forces.fx  # whatever its speed
    # A locked wheel that slides askew is pushed against its way.
    askew = settle(SOFT, SAND, LOAD, WheelMotion(3.0, 4.0, 0.0)).forces
    assert askew.fy < 0.0 and askew.traction < 0.0

    forward, backward = (settle(SOFT, SAND, LOAD, motion) for motion in (WheelMotion(1.0, 0.2, 1.3), WheelMotion(-1.0, 0.2, -1.3)))
    assert backward.sinkage == forward.sinkage
    assert backward.forces.fx == -forward.forces.fx and backward.forces.moment == -forward.forces.moment
    assert backward.forces.fy == forward.forces.fy

    # Towed: where nothing drives it, it is dragged along and skids a little.
    slips = np.linspace(-0.3, 0.0, 31)
    moments = [settle(RIGID, SAND, LOAD, WheelMotion.of(slip)).forces.moment for slip in slips]
    towed = float(np.interp(0.0, moments, slips))
    assert -0.3 < towed < 0.0 and pull(SAND, towed) < 0.0

    air = settle(SOFT, SAND, -10.0, WheelMotion.of(0.2))
    assert air.outcome is WheelOutcome.AIRBORNE and air.forces.fx == air.forces.fz == air.sinkage == 0.0
    standing = settle(SOFT, SAND, LOAD, WheelMotion(0.0, 0.0, 0.0))
    assert standing.outcome is WheelOutcome.SUPPORTED and standing.sinkage > 0.0
    assert standing.forces.fx == standing.forces.fy == standing.forces.moment == 0.0


@pytest.mark.parametrize("wheel", [RIGID, SOFT], ids=["rigid", "soft"])
def test_a_wheel_makes_no_energy(wheel):
    """What the axle puts in less what the hub gives is lost in the soil, at every slip and slip angle, forwards and backwards."""
    for slip in (-1.0, -0.5, -0.1, -0.02, 0.0, 0.05, 0.3, 0.9):
        for angle in (0.0, 0.05, 0.4):
            for sense in (1.0, -1.0):
                motion = WheelMotion.of(slip, angle, sense * 2.0)
                at = settle(wheel, SAND, LOAD, motion)
                turning = motion.rim / (wheel.radius - at.deflection)
                lost = at.forces.moment * turning - at.forces.fx * motion.vx - at.forces.fy * motion.vy
                assert lost > 0.0


def test_curves_have_the_shapes_that_are_known():
    """Pull over slip rises steeply, then flattens; sinkage grows with load and slip; more load, more pull; a wider tyre sinks less."""
    slips = np.linspace(0.0, 0.6, 13)
    pulls = np.array([pull(SAND, slip, SOFT) for slip in slips])
    assert (np.diff(pulls) > 0.0).all() and (np.diff(pulls, 2) < 0.0)[1:].all()
    sinkages = [settle(SOFT, SAND, load, WheelMotion.of(0.2)).sinkage for load in (1e3, 3e3, 6e3, 9e3)]
    assert (np.diff(sinkages) > 0.0).all()
    assert np.all(np.diff([settle(RIGID, SAND, LOAD, WheelMotion.of(slip)).sinkage for slip in slips[2:]]) > 0.0)  # slip sinkage
    assert pull(SAND, 0.2, SOFT, 9000.0) > pull(SAND, 0.2, SOFT, 6000.0)
    assert settle(SoilWheel(0.47, 0.5), SAND, LOAD, WheelMotion.of(0.2)).sinkage < settle(RIGID, SAND, LOAD, WheelMotion.of(0.2)).sinkage
    # SoilProperties that rises behind the wheel pushes it on.
    assert pull(replace(SAND, rebound=0.1), 0.2) > pull(SAND, 0.2)


def test_outcomes_of_a_simulated_wheel():
    assert [outcome_of(h, load, 0.47) for h, load in ((0.0, 0.0), (0.01, 5e3), (0.2, 5e3), (0.48, 5e3))] == [
        WheelOutcome.AIRBORNE, WheelOutcome.SUPPORTED, WheelOutcome.DEEP, WheelOutcome.SUNK]


def test_bad_input_is_one_line():
    with pytest.raises(InputError, match="wheel: width = -1 must be above 0"):
        SoilWheel(0.47, -1.0)
    with pytest.raises(InputError, match=r"slip 1\.5 is outside"):
        WheelMotion.of(1.5)
    with pytest.raises(InputError, match="load nan N is not a finite number"):
        settle(RIGID, SAND, math.nan, WheelMotion.of(0.0))
    with pytest.raises(InputError, match="presses a tyre of 1000 N/m in by more than its radius"):
        settle(SoilWheel(0.47, 0.3, 1e3), SAND, LOAD, WheelMotion.of(0.0))
