"""Grounds that lie on each other: each is what it is alone, friction and soil on an inclined plane against closed forms and the exact
wheel, derivatives, and which of them a vehicle meets."""

import math

import numpy as np
import pytest
from differences import by_state

from lfdm_ros.backends import casadi_model, compiled_jacobian
from lfdm_ros.errors import InputError
from lfdm_ros.ground import (
    FieldPosterior,
    FieldPrior,
    FieldTable,
    FrictionField,
    FrictionLink,
    Grid,
    HeightMap,
    ResistanceMap,
    SoilMap,
    SoilRegion,
    SoilWheel,
    WheelMotion,
    WheelOutcome,
    load_soil,
    settle,
)
from lfdm_ros.models import get_model
from lfdm_ros.models.chassis import GRAVITY
from lfdm_ros.simulation import Simulator, initial_state
from lfdm_ros.vehicles import load_vehicle

HMMWV = load_vehicle("hmmwv").replace(rolling_resistance=0.0, unsprung_load_share=1.0)
P = HMMWV.parameters
MASS = P["sprung_mass"] + P["unsprung_mass_front"] + P["unsprung_mass_rear"]
GRID = Grid(-40.0, -40.0, 1.0, 121, 81)
LEVEL, ROAD = HeightMap(GRID, np.zeros(GRID.shape)), FieldTable(FrictionField.uniform(1.0, FrictionLink.around(1.0)))
PATCHY = FieldTable(FrictionField(GRID, FieldPosterior(FieldPrior(3.0, 3.0, sigma_f=1.6), GRID).draw(1, np.random.default_rng(2))[0],
                                  FrictionLink(0.15, 0.9)))
HILLY = HeightMap(GRID, 0.5 * np.sin(0.2 * GRID.xs)[None, :] * np.cos(0.15 * GRID.ys)[:, None])
SLOPE = HeightMap(GRID, 0.1 * GRID.xs[None, :] + np.zeros(GRID.shape))
ANGLE = math.atan(0.1)
WHEELS = ("fl", "fr", "rl", "rr")


def outputs(simulator: Simulator) -> dict[str, float]:
    return dict(zip(simulator.output_names, simulator.outputs.tolist()))


def end(spec: str, steps: int = 600, **numbers: float) -> np.ndarray:
    simulator = Simulator(HMMWV.replace(**numbers), spec, 2e-3)
    simulator.reset(vx=8.0, x=0.5, y=-0.5, yaw=0.2)
    simulator.advance((0.1, 0.4, 0.0), (0.3, 0.4, 0.0), steps)
    return simulator.state.copy()


@pytest.mark.parametrize("chassis", ["eight_dof/fiala", "driven_bicycle", "nonlinear_bicycle", "twenty_four_dof/fiala"])
def test_each_layer_is_what_it_is_alone(chassis):
    both = f"{chassis}/friction_field/height_map"
    np.testing.assert_allclose(end(both, friction_field=PATCHY.number, height_map=LEVEL.number),
                               end(f"{chassis}/friction_field", friction_field=PATCHY.number), rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(end(both, friction_field=ROAD.number, height_map=HILLY.number),
                               end(f"{chassis}/height_map", height_map=HILLY.number), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("chassis", ["eight_dof/fiala", "driven_bicycle", "twenty_four_dof/fiala"])
def test_brakes_on_a_slippery_slope(chassis):
    """Downhill on ice, wheels locked: what is lost is mu g cos less g sin; a tyre of one friction."""
    ice = FieldTable(FrictionField.uniform(0.25))
    vehicle = HMMWV.replace(friction_field=ice.number, height_map=SLOPE.number, friction_scale=1.0, friction_max=0.8, friction_min=0.8,
                            longitudinal_stiffness_front=5e5, longitudinal_stiffness_rear=5e5)
    simulator = Simulator(vehicle, chassis)
    assert simulator.model.name.endswith("friction_field/height_map")
    simulator.reset(vx=10.0, x=60.0, yaw=math.pi)
    simulator.advance((0.0, 0.0, 1.0), (0.0, 0.0, 1.0), 1000)
    before = outputs(simulator)["vx"]
    simulator.advance((0.0, 0.0, 1.0), (0.0, 0.0, 1.0), 1000)
    lost = before - outputs(simulator)["vx"]
    assert lost == pytest.approx(GRAVITY * (0.2 * math.cos(ANGLE) - math.sin(ANGLE)), rel=0.02)


@pytest.mark.parametrize("chassis", ["eight_dof/fiala", "eighteen_dof/tmeasy", "driven_bicycle", "twenty_four_dof/fiala"])
def test_resistance_is_a_force_and_no_torque(chassis):
    """Rolling free it takes its share of the weight from the whole mass, and the wheels roll on without slip; it stops, and stays."""
    firm = ResistanceMap(GRID, np.full(GRID.shape, 0.12))
    vehicle = HMMWV.replace(resistance_map=firm.number, rolling_resistance_coefficient=0.0, **{
        name: 0.0 for name in P if name.startswith("motor_torque")})
    simulator = Simulator(vehicle, chassis)
    simulator.reset(vx=6.0)
    simulator.advance((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), 1000)
    y = outputs(simulator)
    turning = 4.0 * P["wheel_inertia"] / (P["wheel_radius"] - 0.02) ** 2
    assert 6.0 - y["vx"] == pytest.approx(0.12 * GRAVITY * MASS / (MASS + turning), rel=0.015)
    if "bicycle" not in chassis:
        assert y["omega_fl"] * (P["wheel_radius"] - 0.02) == pytest.approx(y["vx"], rel=0.03)
    simulator.advance((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), 6000)
    assert abs(outputs(simulator)["vx"]) < 1e-2


@pytest.mark.parametrize("chassis", ["eighteen_dof", "twenty_four_dof"])
def test_soil_on_a_slope_is_the_exact_wheels(chassis):
    """Momentum uphill: the integral of the exact wheels' pull at their loads, which together are m g cos, less m g sin."""
    soil, vehicle = load_soil("lete_sand"), load_vehicle("hmmwv_shafts")
    soils = SoilMap(soil)
    p = vehicle.parameters
    mass = p["sprung_mass"] + p["unsprung_mass_front"] + p["unsprung_mass_rear"]
    simulator = Simulator(vehicle.replace(soil_map=soils.number, height_map=SLOPE.number, friction_field=PATCHY.number), chassis,
                          tyre="bekker_wong")
    assert "soil_map/height_map" in simulator.model.name and "friction" not in simulator.model.name
    simulator.reset(vx=3.0)
    drive = (0.0, 0.5, 0.0)
    simulator.advance(drive, drive, 1500)
    first, samples, loads = outputs(simulator)["vx"], [], []
    for k in range(31):
        y, total = outputs(simulator), 0.0
        for wheel in WHEELS:
            stiffness = p[f"tyre_vertical_stiffness_{'front' if wheel[0] == 'f' else 'rear'}"]
            load = y[f"tyre_fz_{wheel}"]
            at = settle(SoilWheel(p["wheel_radius"], p["tyre_width"], stiffness), soil, load,
                        WheelMotion(y["vx"], 0.0, (p["wheel_radius"] - load / stiffness) * y[f"omega_{wheel}"]), 16)
            assert at.outcome is WheelOutcome.SUPPORTED
            total += at.forces.fx
        samples.append(total)
        loads.append(sum(y[f"tyre_fz_{wheel}"] for wheel in WHEELS))
        if k < 30:
            simulator.advance(drive, drive, 50)
    assert np.mean(loads) == pytest.approx(mass * GRAVITY * math.cos(ANGLE), rel=5e-3)
    gained = (outputs(simulator)["vx"] - first) * mass
    expected = np.trapezoid(samples, dx=0.05) - 1.5 * mass * GRAVITY * math.sin(ANGLE)
    assert gained == pytest.approx(expected, abs=4e-3 * 1.5 * mass * GRAVITY)


CLAY = SoilMap(load_soil("lete_sand"), [SoilRegion(np.array([[-5.0, 0.0], [20.0, 0.0], [20.0, 9.0], [-5.0, 9.0]]),
                                                   load_soil("clayey_soil_38"))])
SOFT = ResistanceMap(GRID, np.clip(0.1 * np.sin(0.3 * GRID.xs)[None, :] + np.zeros(GRID.shape), 0.0, None))


@pytest.mark.parametrize("chassis", ["eight_dof/fiala", "driven_bicycle", "eighteen_dof/bekker_wong"])
def test_derivatives_are_exact(chassis):
    """All that the chassis meets: compiled against CasADi's own machine, value and Jacobian, and differences by the place."""
    vehicle = HMMWV.replace(friction_field=PATCHY.number, height_map=HILLY.number, resistance_map=SOFT.number, soil_map=CLAY.number)
    model = vehicle.model(chassis)
    x, u, p = initial_state(model, vehicle, vx=9.0, vy=0.3, yaw_rate=0.2, x=2.3, y=0.4, yaw=0.3), np.array([0.2, 0.3, 0.0]), None
    p = vehicle.vector(model)
    value, jacobian = compiled_jacobian(model, "rhs", ("x",))(x, u, p)
    functions, names = casadi_model(model), [f.name for f in model.states]
    np.testing.assert_allclose(value, np.array(functions.rhs(x, u, p)).ravel(), rtol=1e-9, atol=1e-9)
    exact = np.array(functions.rhs_jacobian(x, u, p)[0])
    scale = 1.0 + np.abs(exact).max(axis=1, keepdims=True)
    assert (np.abs(jacobian[:, :len(x)] - exact) / scale).max() < 1e-9
    places = [names.index("x"), names.index("y")]
    np.testing.assert_allclose(exact[:, places], by_state(lambda moved: functions.rhs(moved, u, p), x, places), rtol=1e-4, atol=1e-4)
    assert abs(exact[names.index("vx"), names.index("x")]) > 1e-2


def test_a_vehicle_meets_what_it_is_on():
    """By its own parameters, no more than there is; what a specification names counts alone."""
    on = HMMWV.replace(friction_field=PATCHY.number, height_map=HILLY.number, soil_map=CLAY.number)
    assert on.spec("eight_dof") == "eight_dof/friction_field/height_map"
    assert on.spec("eight_dof/height_map") == "eight_dof/height_map"
    assert on.spec("eight_dof/plane") == "eight_dof" == HMMWV.spec("eight_dof")
    assert on.spec("eighteen_dof", "bekker_wong").startswith("eighteen_dof/bekker_wong/soil_map/height_map")
    assert HMMWV.replace(**load_soil("dry_sand").parameters).spec("eight_dof/bekker_wong") == "eight_dof/bekker_wong/soil"
    assert on.replace(resistance_map=SOFT.number).spec("driven_bicycle") == "driven_bicycle/friction_field/height_map/resistance_map"
    # One object, however it is spelled.
    assert get_model("eight_dof/height_map/friction_field") is get_model("eight_dof/friction_field/fiala/height_map")


@pytest.mark.parametrize(("parts", "reason"), [
    ("soil/soil_map", "two parts for the ground give soil, 'soil' and 'soil_map'"),
    ("friction_field/friction_map", "two parts for the ground give friction, 'friction_field' and 'friction_map'"),
    ("plane/height_map", "the ground 'plane' is all there is; leave out height_map"),
    ("given_ground/friction_field", "the ground 'given_ground' is all there is; leave out friction_field"),
])
def test_what_cannot_lie_together_is_named(parts, reason):
    with pytest.raises(InputError, match=f"^model 'eight_dof/{parts}': {reason}$"):
        get_model(f"eight_dof/{parts}")


def test_a_resistance_that_pushes_is_refused():
    with pytest.raises(InputError, match=r"resistance: -0\.1 at row 2, column 3 is no number from 0 on"):
        ResistanceMap(Grid(0.0, 0.0, 1.0, 5, 4), np.where(np.arange(20).reshape(4, 5) == 13, -0.1, 0.0))


@pytest.mark.parametrize("spec", ["twenty_four_dof/fiala", "multibody_hmmwv/fiala"])
def test_a_vehicle_begins_on_the_ground(spec):
    """High up on a slope, at rest with its brakes: it stands there, along the slope, and hardly moves."""
    vehicle = load_vehicle("hmmwv_multibody") if "multibody" in spec else HMMWV
    simulator = Simulator(vehicle.replace(height_map=SLOPE.number), spec)
    simulator.reset(x=40.0, yaw=0.4)
    p, least = vehicle.parameters, math.inf
    weight = (p["sprung_mass"] + p["unsprung_mass_front"] + p["unsprung_mass_rear"]) * GRAVITY
    for _ in range(40):
        simulator.advance((0.0, 0.0, 1.0), (0.0, 0.0, 1.0), 25)
        y = outputs(simulator)
        least = min(least, *(y[f"tyre_fz_{wheel}"] for wheel in WHEELS))
    assert least > 0.2 * weight and math.hypot(y["x"] - 40.0, y["y"]) < 0.15
    assert y["pitch"] == pytest.approx(-0.1 * math.cos(0.4), abs=0.02)
