"""What wheels meet, against statics: slopes, split friction, steps in height, wind; and the plane costs nothing."""

import math

import numpy as np
import pytest

from lfdm_ros.backends import casadi_model
from lfdm_ros.backends.tick_kernel import advance_text
from lfdm_ros.errors import InputError
from lfdm_ros.models import get_model
from lfdm_ros.models.chassis import GRAVITY
from lfdm_ros.simulation import BatchRollout, Simulator, initial_state, with_ground
from lfdm_ros.vehicles import load_vehicle

# Centres of the unsprung masses at that of the sprung mass, whole weight in the loads: statics in one line.
HMMWV = load_vehicle("hmmwv").replace(unsprung_load_share=1.0)
P = HMMWV.parameters
BASE = P["cg_to_front_axle"] + P["cg_to_rear_axle"]
MASS = P["sprung_mass"] + P["unsprung_mass_front"] + P["unsprung_mass_rear"]
WHEELS = ("fl", "fr", "rl", "rr")
FOUR_WHEELS = ("eight_dof", "twenty_four_dof")
TYRES = {"eight_dof": "/fiala", "eleven_dof": "/fiala", "twenty_four_dof": "/fiala"}


def spec(chassis: str) -> str:
    return f"{chassis}{TYRES.get(chassis, '')}/given_ground"


def fitting(chassis: str):
    more = {"friction_front": 0.8, "friction_rear": 0.8} if chassis == "nonlinear_bicycle" else {}
    return HMMWV.replace(**more)


def outputs(simulator: Simulator) -> dict[str, float]:
    return dict(zip(simulator.output_names, simulator.outputs.tolist()))


def loads(y: dict[str, float]) -> np.ndarray:
    return np.array([y[f"tyre_fz_{wheel}"] for wheel in WHEELS])


def run(chassis: str, seconds: float, driver=(0.0, 0.0, 0.0), start=None, **ground: float) -> dict[str, float]:
    simulator = Simulator(fitting(chassis), spec(chassis), dt=1e-3)
    simulator.reset(**(start or {}))
    simulator.meet(**ground)
    simulator.advance(driver, driver, round(seconds * 1000))
    return outputs(simulator)


@pytest.mark.parametrize("plain, given", [
    ("eight_dof", "eight_dof/given_ground"), ("eleven_dof", "eleven_dof/given_ground"), ("driven_bicycle", "driven_bicycle/given_ground"),
    ("twenty_four_dof", "twenty_four_dof/given_ground"), ("linear_single_track", "linear_single_track/given_ground")])
def test_level_ground_that_is_given_is_the_plane(plain, given):
    """Of the vehicle's own friction; and the plane's code has nothing of a ground in it."""
    vehicle = HMMWV.replace(friction_scale=0.7)
    ends = []
    for name, met in ((plain, {}), (given, {"ground_friction": 0.7})):
        simulator = Simulator(vehicle, name)
        simulator.reset(vx=10.0)
        simulator.meet(**met)
        for k in range(20):
            simulator.advance([0.02 * k, 0.4, 0.0], [0.02 * (k + 1), 0.4, 0.0], 50)
        ends.append(simulator.state)
    np.testing.assert_allclose(ends[1], ends[0], rtol=1e-9, atol=1e-9)
    functions = casadi_model(get_model(plain)).step
    assert functions.size1_in("u") == 3 and len(advance_text(get_model(plain))) < len(advance_text(get_model(given)))


@pytest.mark.parametrize("chassis", ["eight_dof", "eleven_dof", "driven_bicycle", "kinematic_bicycle"])
def test_a_slope_takes_its_share_of_gravity(chassis):
    """Rolling down a slope straight ahead: g sin(angle), less the wheels' inertia and rolling resistance, taken away here."""
    angle = math.radians(8.0)
    vehicle = HMMWV.replace(rolling_resistance=0.0, wheel_inertia=1e-6, **{f"motor_torque_{i}": 0.0 for i in range(6)})
    simulator = Simulator(vehicle, spec(chassis))
    simulator.reset(vx=5.0)
    simulator.meet(ground_slope_x=-math.tan(angle))
    simulator.advance([0, 0, 0], [0, 0, 0], 1000)
    y = outputs(simulator)
    assert y["vx"] - 5.0 == pytest.approx(GRAVITY * math.sin(angle), rel=1e-3)
    assert y["x"] == pytest.approx((5.0 + 0.5 * GRAVITY * math.sin(angle)) * math.cos(angle), rel=1e-3)  # on the map
    assert abs(y["ax"]) < 0.02  # an accelerometer that falls along the slope
    assert loads(y).sum() == pytest.approx(MASS * GRAVITY * math.cos(angle), rel=2e-3)


@pytest.mark.parametrize("chassis", FOUR_WHEELS)
@pytest.mark.parametrize("rise", [0.1, -0.15])
def test_static_loads_on_a_slope_uphill(chassis, rise):
    """Parked with brakes: the front loses m g sin(angle) h / L, and each axle has cos(angle) of its weight."""
    angle = math.atan(rise)
    # In the 24-DOF model the ground's heights are those of the slope, and the vehicle settles on it.
    heights = {f"ground_height_{w}": rise * (P["cg_to_front_axle"] if w[0] == "f" else -P["cg_to_rear_axle"]) for w in WHEELS}
    y = run(chassis, 6.0, (0.0, 0.0, 1.0), ground_slope_x=rise, **heights)
    assert abs(y["vx"]) < 0.02
    front = loads(y)[:2].sum()
    sprung_height = P["sprung_mass"] * P["cg_height"]
    wheels = sum(P[f"unsprung_mass_{a}"] * (P["wheel_radius"] - 0.02) for a in ("front", "rear"))
    expected = (GRAVITY * math.cos(angle) * (P["sprung_mass"] * P["cg_to_rear_axle"] / BASE + P["unsprung_mass_front"])
                - GRAVITY * math.sin(angle) * (sprung_height + wheels) / BASE)
    assert front == pytest.approx(expected, rel=0.01)
    assert loads(y).sum() == pytest.approx(MASS * GRAVITY * math.cos(angle), rel=2e-3)
    if chassis == "twenty_four_dof":
        assert y["pitch"] == pytest.approx(-angle, rel=0.1)  # nose up, and what the struts give way


@pytest.mark.parametrize("chassis", ["eight_dof", "eleven_dof", "driven_bicycle", "nonlinear_bicycle", "linear_single_track"])
@pytest.mark.parametrize("by", ["bank", "wind"])
def test_a_side_force_is_held_by_the_tyres(chassis, by):
    """Straight on over a bank, or in a wind across: the tyres carry m g sin(angle) or the wind, and the vehicle crabs by it over C."""
    force = 1500.0
    # Slopes rise to the right: gravity pulls left, as the wind does.
    met = {"wind_y": force} if by == "wind" else {"ground_slope_y": -math.tan(math.asin(force / (MASS * GRAVITY)))}
    simulator = Simulator(fitting(chassis), spec(chassis))
    simulator.reset(vx=12.0)
    simulator.meet(**met)
    simulator.advance([0, 0, 0], [0, 0, 0], 200)
    y = outputs(simulator)
    proper = y["ay"] * MASS if by == "wind" else y["ay"] * MASS + force
    assert y["vy"] > 0.0
    # Newton across the vehicle, whatever the tyres do: rate of vy from two instants.
    before = simulator.state.copy()
    simulator.advance([0, 0, 0], [0, 0, 0], 1)
    names = [field.name for field in simulator.model.states]
    vy, r, vx = names.index("vy"), names.index("yaw_rate"), names.index("vx")
    rate = (simulator.state[vy] - before[vy]) / 1e-3 + before[r] * before[vx]
    assert rate * MASS == pytest.approx(proper, abs=0.02 * force)
    tyres = sum(y[f"tyre_fy_{w}"] for w in WHEELS)
    assert tyres < 0.0 and proper == pytest.approx(tyres + force, abs=0.06 * force)


def test_a_steady_wind_from_behind():
    """Along the vehicle: m du/dt = wind; from the left it presses on the right wheels by its height over the track."""
    still, pushed = (run("eight_dof", 1.0, start={"vx": 10.0}, wind_x=wind) for wind in (0.0, 2000.0))
    wheels = 4.0 * P["wheel_inertia"] / P["wheel_radius"] ** 2
    assert pushed["vx"] - still["vx"] == pytest.approx(2000.0 / (MASS + wheels), rel=0.03)
    # A braked vehicle at rest in a wind across.
    y = run("eight_dof", 3.0, (0.0, 0.0, 1.0), wind_y=-2000.0)
    z = loads(y)
    track = 0.5 * (P["track_front"] + P["track_rear"])
    drop = (P["roll_centre_drop_front"] * P["cg_to_rear_axle"] + P["roll_centre_drop_rear"] * P["cg_to_front_axle"]) / BASE
    leaning = P["sprung_mass"] * GRAVITY * drop * y["roll"]  # the centre moves to the right
    assert y["roll"] > 0.0
    assert (z[1] + z[3] - z[0] - z[2]) * 0.5 * track == pytest.approx(2000.0 * P["cg_height"] + leaning, rel=0.02)


@pytest.mark.parametrize("chassis", ["eight_dof", "twenty_four_dof"])
def test_braking_on_split_friction_turns_to_the_grip(chassis):
    """Locked wheels: the difference of the sliding forces times half the track is the yaw moment, to the side of the grip."""
    common = dict(ground_friction_fr=0.1, ground_friction_rr=0.1)
    simulator = Simulator(HMMWV, spec(chassis))
    simulator.reset(vx=15.0)
    simulator.meet(ground_friction=1.0, **common)
    simulator.advance([0, 0, 1], [0, 0, 1], 150)
    y = outputs(simulator)
    along = {w: y[f"tyre_fx_{w}"] for w in WHEELS}
    assert all(along[f"{a}l"] < 4.0 * along[f"{a}r"] < 0.0 for a in "fr")
    assert y["yaw_rate"] > 0.0  # to the left
    names = [field.name for field in simulator.model.states]
    before = simulator.state.copy()
    simulator.advance([0, 0, 1], [0, 0, 1], 10)
    i = names.index("yaw_rate")
    moment = sum(0.5 * P[f"track_{axle}"] * (along[f"{axle[0]}r"] - along[f"{axle[0]}l"]) for axle in ("front", "rear"))
    across = P["cg_to_front_axle"] * (y["tyre_fy_fl"] + y["tyre_fy_fr"]) - P["cg_to_rear_axle"] * (y["tyre_fy_rl"] + y["tyre_fy_rr"])
    inertia = P["yaw_inertia"]
    if chassis == "twenty_four_dof":  # its unsprung masses are bodies of their own
        inertia += sum(P[f"unsprung_mass_{a}"] * (P[f"cg_to_{a}_axle"] ** 2 + 0.25 * P[f"track_{a}"] ** 2) for a in ("front", "rear"))
    assert (simulator.state[i] - before[i]) / 0.01 * inertia == pytest.approx(moment + across, rel=0.08)


def test_a_step_in_height_is_met_by_tyre_and_strut():
    """A wheel on a kerb: at once its load grows by stiffness times height; settled, a rigid body on four springs carries the warp."""
    height = 0.03
    simulator = Simulator(HMMWV, spec("twenty_four_dof"))
    simulator.reset(vx=0.0)
    rest = loads(outputs(simulator))
    simulator.meet(ground_height_fl=height)
    up = loads(outputs(simulator))
    np.testing.assert_allclose(up - rest, [P["tyre_vertical_stiffness_front"] * height, 0.0, 0.0, 0.0], atol=1e-6)
    simulator.advance([0, 0, 1], [0, 0, 1], 8000)
    settled = loads(outputs(simulator))
    assert settled.sum() == pytest.approx(rest.sum(), rel=1e-3)
    # One corner up lifts the body by a quarter of it: fl and rr gain what fr and rl lose, each corner one spring of tyre and strut.
    corner = {a: 1.0 / (1.0 / P[f"tyre_vertical_stiffness_{a}"] + 1.0 / P[f"suspension_stiffness_{a}"]) for a in ("front", "rear")}
    warp = height / (2.0 / corner["front"] + 2.0 / corner["rear"])
    np.testing.assert_allclose(settled - rest, [warp, -warp, -warp, warp], rtol=0.15)


def test_the_ground_is_differentiable_and_each_vehicle_of_a_batch_has_its_own():
    model = get_model("eight_dof/given_ground")
    times = np.linspace(0.0, 1.0, 11)
    driver = np.tile([0.0, 0.0, 0.8], (11, 1))
    start = initial_state(model, HMMWV, vx=15.0)
    frictions = (0.2, 0.5, 0.9)
    inputs = np.stack([with_ground(model, driver, ground_friction=friction) for friction in frictions])
    batch = BatchRollout(model=model, vehicle=HMMWV, dt=1e-3, times=times, inputs=inputs, parameters=(), channels=["vx"])
    ends = batch.trajectories(np.zeros((3, 0)), start)[:, -1, 0]
    assert (np.diff(ends) < -1.0).all()
    for friction, end in zip(frictions, ends):
        assert run("eight_dof", 1.0, (0.0, 0.0, 0.8), {"vx": 15.0}, ground_friction=friction)["vx"] == pytest.approx(end, rel=1e-9)
    exact = casadi_model(model).step_jacobian(start, inputs[1, 0], HMMWV.vector(model), 1e-3)[1].full()
    place, vx = [f.name for f in model.inputs].index("ground_slope_x_fl"), [f.name for f in model.states].index("vx")
    # Four wheels share the vehicle's slope: a quarter of -g dt each.
    assert exact[vx, place] == pytest.approx(-0.25 * GRAVITY * 1e-3, rel=0.05)


def test_a_ground_is_held_or_linear_over_a_call():
    """A slope that grows over the call pulls half as much in all; what is met stays until it is changed."""
    gained = []
    for linear in (False, True):
        simulator = Simulator(HMMWV.replace(rolling_resistance=0.0), "driven_bicycle/given_ground")
        simulator.reset(vx=10.0)
        level, slope = (with_ground(simulator.model, [0.0, 0.0, 0.0], ground_slope_x=-rise) for rise in (0.0, 0.1))
        simulator.advance(level if linear else slope, slope, 1000)
        gained.append(simulator.state[3] - 10.0)
        simulator.advance([0.0, 0.0, 0.0], [0.0, 0.0, 0.0], 1000)
        gained.append(simulator.state[3] - 10.0 - gained[-1])
    assert gained[2] == pytest.approx(0.5 * gained[0], rel=0.05) and gained[3] == pytest.approx(gained[0], rel=0.05)


def test_names_and_ranges_of_the_ground():
    simulator = Simulator(HMMWV, "eight_dof/given_ground")
    with pytest.raises(InputError, match=r"no input 'friction' .did you mean 'ground_friction'"):
        simulator.meet(friction=0.3)
    with pytest.raises(InputError, match=r"ground_friction = -1 1 is outside \[0, 3\]"):
        simulator.meet(ground_friction=-1.0)
    with pytest.raises(InputError, match="drives on a plane; 'eight_dof/given_ground'"):
        Simulator(HMMWV, "eight_dof").meet(ground_friction=0.3)


def test_friction_scale_belongs_to_the_plane():
    """A parameter of every model that has friction, as ever; not of one whose ground is given."""
    for chassis in ("eight_dof", "eleven_dof/tmeasy", "driven_bicycle", "twenty_four_dof/tmeasy_nr"):
        assert "friction_scale" in [f.name for f in get_model(chassis).parameters]
        assert "friction_scale" not in [f.name for f in get_model(f"{chassis}/given_ground").parameters]
    for chassis in ("linear_single_track", "nonlinear_bicycle"):
        assert "friction_scale" not in [f.name for f in get_model(chassis).parameters]
