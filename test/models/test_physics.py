"""The chassis of 8, 11, 18 and 24 degrees of freedom, their tyres and powertrains, against laws of mechanics and closed forms."""

from itertools import product

import numpy as np
import pytest

from lfdm_ros.backends import compiled_model_function
from lfdm_ros.models.chassis import GRAVITY
from lfdm_ros.simulation import InputProfile, Simulator, initial_state, rollout
from lfdm_ros.vehicles import load_vehicle, save_vehicle

HMMWV, SHAFTS, SEDAN, REAR_DRIVEN = (load_vehicle(name) for name in ("hmmwv", "hmmwv_shafts", "sedan", "sedan_rwd"))
CHASSIS = ("eleven_dof", "eighteen_dof", "twenty_four_dof")
FOUR_WHEELS, ROLLING = CHASSIS[1:], ("eight_dof", "eighteen_dof")
TYRES = ("fiala", "tmeasy", "tmeasy_nr")
WHEELS = ("fl", "fr", "rl", "rr")
RPM = np.pi / 30.0
NO_ROLLING_RESISTANCE = {"rolling_resistance": 0.0, "rolling_resistance_coefficient": 0.0}

every_chassis = pytest.mark.parametrize("chassis", CHASSIS)
every_tyre = pytest.mark.parametrize("tyre", TYRES)
every_pair = pytest.mark.parametrize(("chassis", "tyre"), [("eight_dof", "fiala"), *product(CHASSIS, TYRES)])
every_vehicle = pytest.mark.parametrize("vehicle", [HMMWV, SHAFTS, SEDAN], ids=lambda vehicle: vehicle.name)


def simulate(vehicle, chassis, tyre, profile, until, dt=1e-3, output_step=0.01, **start):
    """The outputs by name, one array each."""
    simulator = Simulator(vehicle, model=chassis, tyre=tyre, dt=dt)
    simulator.reset(**start)
    _, y = rollout(simulator, profile, until, output_step)
    return {name: y[:, i] for name, i in simulator.output_index.items()}


def coasting_freely(vehicle):
    """Without rolling resistance and losses of the engine."""
    losses = {name: 0.0 for name in vehicle.parameters if name.startswith("loss_torque")}
    return vehicle.replace(**NO_ROLLING_RESISTANCE, **losses)


def constant(steering=0.0, throttle=0.0, brake=0.0):
    return InputProfile([0], [steering], [throttle], [brake])


def weaving(steering, throttle=0.0):
    return InputProfile([0, 1, 2, 3, 4, 5], [0, steering, -steering, steering, 0, 0], [throttle] * 6, [0] * 6)


def loads(y):
    return np.column_stack([y[f"tyre_fz_{w}"] for w in WHEELS])


def total_mass(vehicle):
    p = vehicle.parameters
    return p["sprung_mass"] + p["unsprung_mass_front"] + p["unsprung_mass_rear"]


def static_loads(vehicle):
    """Of one front and one rear wheel [N]."""
    p = vehicle.parameters
    a, b = p["cg_to_front_axle"], p["cg_to_rear_axle"]
    return (0.5 * GRAVITY * (p["sprung_mass"] * b / (a + b) + p["unsprung_mass_front"]),
            0.5 * GRAVITY * (p["sprung_mass"] * a / (a + b) + p["unsprung_mass_rear"]))


def between_loads(vehicle, name, load):
    """A force of the TMeasy table: the parabola through 0 and the two loads."""
    p = vehicle.parameters
    nominal = p["tyre_nominal_load"]
    knots = [0.0, nominal, 2.0 * nominal]
    values = [0.0, p[f"{name}_nominal"], p[f"{name}_double"]]
    return np.polyval(np.polyfit(knots, values, 2), load)


# -- Driving in a circle -------------------------------------------------------------------------------------------------------------
@every_pair
@every_vehicle
def test_steady_cornering_meets_the_understeer_gradient(vehicle, chassis, tyre):
    """Yaw-rate gain v / (L + K v^2), K from axle masses over the cornering stiffness of the axles' tyres at their static load."""
    vehicle = coasting_freely(vehicle).replace(cg_to_front_axle=1.2, cg_to_rear_axle=1.8)
    p = vehicle.parameters
    a, b = 1.2, 1.8
    masses = p["sprung_mass"] * b / (a + b) + p["unsprung_mass_front"], p["sprung_mass"] * a / (a + b) + p["unsprung_mass_rear"]
    if tyre == "fiala":
        stiffness = p["cornering_stiffness_front"], p["cornering_stiffness_rear"]
    else:
        stiffness = [between_loads(vehicle, "tmeasy_lateral_slope", load) for load in static_loads(vehicle)]
    gradient = masses[0] / (2.0 * stiffness[0]) - masses[1] / (2.0 * stiffness[1])
    assert gradient * 15.0**2 > 0.02 * (a + b)
    steering = 2e-4
    y = simulate(vehicle, chassis, tyre, constant(steering), 4.0, dt=2.5e-4, vx=15.0)
    vx, yaw_rate = y["vx"][-1], y["yaw_rate"][-1]
    assert yaw_rate == pytest.approx(vx * steering * p["max_road_wheel_angle"] / (a + b + gradient * vx**2), rel=2e-3)
    assert y["ay"][-1] == pytest.approx(vx * yaw_rate, rel=1e-4)
    # Roll is of the lever of the sprung mass about the roll axis, where there is roll.
    if chassis in ROLLING:
        drop = (p["roll_centre_drop_front"] * b + p["roll_centre_drop_rear"] * a) / (a + b)
        stiffness = p["roll_stiffness_front"] + p["roll_stiffness_rear"] - p["sprung_mass"] * GRAVITY * drop
        assert y["roll"][-1] == pytest.approx(p["sprung_mass"] * drop * y["ay"][-1] / stiffness, rel=5e-3)


@every_pair
def test_left_and_right_are_mirror_images(chassis, tyre):
    left, right = (simulate(HMMWV, chassis, tyre, weaving(side * 0.4, 0.4), 5.0, vx=8.0) for side in (1.0, -1.0))
    assert np.abs(left["yaw_rate"]).max() > 0.2
    for name in ("x", "vx", "ax", "pitch", "pitch_rate", "engine_speed", "gear", "lifted_wheels"):
        np.testing.assert_allclose(left[name], right[name], rtol=1e-9, atol=1e-9)
    for name in ("y", "vy", "ay", "roll", "yaw", "roll_rate", "yaw_rate", "road_wheel_angle"):
        np.testing.assert_allclose(left[name], -right[name], rtol=1e-9, atol=1e-9)
    for one, other in (("fl", "fr"), ("rl", "rr")):
        for name, sign in (("omega", 1.0), ("tyre_fx", 1.0), ("tyre_fy", -1.0), ("tyre_fz", 1.0)):
            np.testing.assert_allclose(left[f"{name}_{one}"], sign * right[f"{name}_{other}"], rtol=1e-8, atol=1e-6)


# -- Loads ---------------------------------------------------------------------------------------------------------------------------
@every_pair
def test_loads_sum_to_the_weight(chassis, tyre):
    """At rest to rounding; driving too where the loads are quasi-static. Struts carry them only on average: between two rests."""
    weight = GRAVITY * total_mass(HMMWV)
    front, rear = static_loads(HMMWV)
    y = simulate(HMMWV, chassis, tyre, InputProfile([0, 1, 2, 3, 4, 6], [0, 0, 0.3, -0.3, 0, 0], [0, 1, 0.5, 0, 0, 0],
                                                    [0, 0, 0, 0, 1, 1]), 12.0)
    z = loads(y)
    np.testing.assert_allclose(z[0], [front, front, rear, rear], rtol=1e-12)
    assert z.min() > 0.0 and np.ptp(z[:, 0]) > 1000.0
    if chassis == "twenty_four_dof":
        assert z.sum(axis=1).mean() == pytest.approx(weight, rel=1e-3)
        np.testing.assert_allclose(z.sum(axis=1), weight, rtol=0.05)
    else:
        np.testing.assert_allclose(z.sum(axis=1), weight, rtol=1e-12)


@every_chassis
def test_load_transfer_is_that_of_a_rigid_vehicle(chassis):
    """Braking steadily: the front axle gains the moment of the masses at their heights over the wheelbase."""
    p = HMMWV.parameters
    y = simulate(HMMWV, chassis, "fiala", InputProfile([0, 1], [0, 0], [0, 0], [0, 0.3]), 3.0, vx=20.0)
    ax, z = y["ax"][-1], loads(y)[-1]
    assert ax < -1.5
    base = p["cg_to_front_axle"] + p["cg_to_rear_axle"]
    moment = p["sprung_mass"] * p["cg_height"]
    for load, axle in zip(static_loads(HMMWV), ("front", "rear")):
        moment += p[f"unsprung_mass_{axle}"] * (p["wheel_radius"] - load / p[f"tyre_vertical_stiffness_{axle}"])
    assert z[0] + z[1] - 2.0 * static_loads(HMMWV)[0] == pytest.approx(-ax * moment / base, rel=0.02)


# -- Newton --------------------------------------------------------------------------------------------------------------------------
def rotation(roll, pitch, yaw):
    (a, b, c), (d, e, f) = np.cos([roll, pitch, yaw]), np.sin([roll, pitch, yaw])
    return (np.array([[c, -f, 0], [f, c, 0], [0, 0, 1]]) @ np.array([[b, 0, e], [0, 1, 0], [-e, 0, b]])
            @ np.array([[1, 0, 0], [0, a, -d], [0, d, a]]))


def momentum(vehicle, chassis, x):
    """Of all masses, in the frame of the ground [N s]; x the states by name."""
    p = vehicle.parameters
    front, rear = 0.5 * p["unsprung_mass_front"], 0.5 * p["unsprung_mass_rear"]
    if chassis == "twenty_four_dof":
        w = np.array([x["roll_rate"], x["pitch_rate"], x["yaw_rate"]])
        total = p["sprung_mass"] * np.array([x["vx"], x["vy"], x["vz"]])
        for wheel in WHEELS:
            axle = "front" if wheel[0] == "f" else "rear"
            load = static_loads(vehicle)[axle == "rear"]
            length = p["cg_height"] - p["wheel_radius"] + load / p[f"tyre_vertical_stiffness_{axle}"] - x[f"strut_deflection_{wheel}"]
            place = np.array([p["cg_to_front_axle"] if axle == "front" else -p["cg_to_rear_axle"],
                              (0.5 if wheel[1] == "l" else -0.5) * p[f"track_{axle}"], -length])
            velocity = np.array([x["vx"], x["vy"], x["vz"]]) + np.cross(w, place)
            velocity[2] = x[f"unsprung_velocity_{wheel}"]
            total += (front if axle == "front" else rear) * velocity
        return rotation(x["roll"], x["pitch"], x["yaw"]) @ total
    drop = 0.0
    if chassis == "eighteen_dof":
        drop = 0.5 * (p["roll_centre_drop_front"] + p["roll_centre_drop_rear"])  # the places of the axles are the same
    offset = p["unsprung_mass_front"] * p["cg_to_front_axle"] - p["unsprung_mass_rear"] * p["cg_to_rear_axle"]
    m, ms = total_mass(vehicle), p["sprung_mass"]
    lever = ms * drop
    return rotation(0, 0, x["yaw"]) @ [m * x["vx"] + lever * x.get("roll", 0.0) * x["yaw_rate"],
                                       m * x["vy"] + offset * x["yaw_rate"] - lever * x.get("roll_rate", 0.0), 0.0]


@every_chassis
@every_tyre
def test_reported_forces_move_the_vehicle(chassis, tyre):
    """Newton: the impulse of the reported tyre forces (and of the weight) is the change of the momentum, second by second."""
    dt, second = 5e-4, 2000
    simulator = Simulator(HMMWV, model=chassis, tyre=tyre, dt=dt)
    simulator.reset(vx=12.0)
    names = [f.name for f in simulator.model.states]
    profile = InputProfile([0, 1, 2, 3], [0, 0.2, -0.2, 0.1], [0.5, 0.5, 0, 0], [0, 0, 0, 0.5])
    inputs = profile.sample((np.arange(3 * second) + 0.5) * dt)
    of = simulator.output_index
    impulse, moved, largest = np.zeros(3), [], 0.0
    before = momentum(HMMWV, chassis, dict(zip(names, simulator.state)))
    for k, u in enumerate(inputs):
        simulator.advance(u, u, 0)  # the outputs are those of this input
        y = simulator.outputs
        delta = y[of["road_wheel_angle"]]
        force = np.array([0.0, 0.0, -GRAVITY * total_mass(HMMWV)])
        for wheel in WHEELS:
            fx, fy, fz = (y[of[f"tyre_{axis}_{wheel}"]] for axis in ("fx", "fy", "fz"))
            force += rotation(0, 0, y[of["yaw"]] + (delta if wheel[0] == "f" else 0.0)) @ [fx, fy, fz]
        if chassis != "twenty_four_dof":
            force[2] = 0.0
        impulse += force * dt
        largest = max(largest, np.hypot(*force[:2]))
        simulator.advance(u, u, 1)
        if k % second == second - 1:
            after = momentum(HMMWV, chassis, dict(zip(names, simulator.state)))
            moved.append((after - before, impulse.copy()))
            before, impulse = after, np.zeros(3)
    for change, impulse in moved:
        assert np.hypot(*change[:2]) > 0.3 * largest  # N s in a second: there is something to compare
        np.testing.assert_allclose(change[:2], impulse[:2], atol=3e-3 * largest)
        assert change[2] == pytest.approx(impulse[2], abs=1.0)


# -- Energy --------------------------------------------------------------------------------------------------------------------------
def energy(vehicle, chassis, x):
    """Kinetic and potential energy [J], that of deflected tyres included; x the states by name, arrays."""
    p = vehicle.parameters
    zero = np.zeros_like(x["vx"])
    get = lambda name: x.get(name, zero)  # noqa: E731
    wheels = dict.fromkeys(WHEELS, 1.0) if "omega_fl" in x else {"front": 2.0, "rear": 2.0}
    total = sum(0.5 * number * p["wheel_inertia"] * x[f"omega_{w}"]**2 for w, number in wheels.items())
    for axis, place in (("longitudinal", "x"), ("lateral", "y")):
        total = total + sum(0.5 * number * p[f"carcass_stiffness_{axis}"] * get(f"tyre_deflection_{place}_{w}")**2
                            for w, number in wheels.items())
    u, v, wx, wy, r = get("vx"), get("vy"), get("roll_rate"), get("pitch_rate"), get("yaw_rate")
    total = total + 0.5 * p["yaw_inertia"] * r**2
    ms = p["sprung_mass"]
    offset = p["unsprung_mass_front"] * p["cg_to_front_axle"] - p["unsprung_mass_rear"] * p["cg_to_rear_axle"]
    if chassis == "twenty_four_dof":
        total = total + 0.5 * ms * (u**2 + v**2 + x["vz"]**2) + 0.5 * p["roll_inertia"] * wx**2 + 0.5 * p["pitch_inertia"] * wy**2
        for w in WHEELS:
            axle = "front" if w[0] == "f" else "rear"
            px = p["cg_to_front_axle"] if axle == "front" else -p["cg_to_rear_axle"]
            py = (0.5 if w[1] == "l" else -0.5) * p[f"track_{axle}"]
            length = p["cg_height"] - p["wheel_radius"] - x[f"strut_deflection_{w}"]
            mass = 0.5 * p[f"unsprung_mass_{axle}"]
            total = total + 0.5 * mass * ((u - py * r - length * wy)**2 + (v + px * r + length * wx)**2 + x[f"unsprung_velocity_{w}"]**2)
            # Springs about their static deflections: the static forces and the weights cancel.
            total = total + 0.5 * p[f"suspension_stiffness_{axle}"] * x[f"strut_deflection_{w}"]**2
            total = total + 0.5 * p[f"tyre_vertical_stiffness_{axle}"] * x[f"tyre_compression_{w}"]**2
        return total
    unsprung = p["unsprung_mass_front"] + p["unsprung_mass_rear"]
    roll = get("roll")
    drop = 0.5 * (p["roll_centre_drop_front"] + p["roll_centre_drop_rear"]) if chassis in ROLLING else 0.0
    total = total + 0.5 * ms * ((u + drop * roll * r)**2 + (v - drop * wx)**2) + 0.5 * unsprung * (u**2 + v**2) + offset * v * r
    if chassis in ROLLING:
        stiffness = p["roll_stiffness_front"] + p["roll_stiffness_rear"] - ms * GRAVITY * drop
        total = total + 0.5 * p["roll_inertia"] * wx**2 + p["roll_yaw_inertia"] * r * wx + 0.5 * stiffness * roll**2
    return total


@every_pair
@pytest.mark.parametrize(("speed", "steering"), [(15.0, 0.0), (15.0, 0.1), (15.0, 0.5), (-6.0, 0.0), (-6.0, 0.1)])
def test_coasting_never_creates_energy(chassis, tyre, speed, steering):
    simulator = Simulator(HMMWV, model=chassis, tyre=tyre)
    simulator.reset(vx=speed)
    names = [f.name for f in simulator.model.states]
    states = [simulator.state.copy()]
    for u in InputProfile([0, 1, 3, 5], [0, steering, -steering, 0], [0] * 4, [0] * 4).sample(np.arange(0, 20, 0.02)):
        simulator.advance(u, u, 20)
        states.append(simulator.state.copy())
    total = energy(HMMWV, chassis, dict(zip(names, np.array(states).T)))
    assert np.diff(total).max() <= 1e-7 * total[0]
    assert total[-1] < 0.8 * total[0]


# -- Rest ----------------------------------------------------------------------------------------------------------------------------
@every_pair
@every_vehicle
def test_standing_vehicle_stays_exactly_at_rest(vehicle, chassis, tyre):
    simulator = Simulator(vehicle, model=chassis, tyre=tyre)
    before = simulator.state.copy()
    simulator.advance([0.3, 0.0, 0.0], [-0.3, 0.0, 0.5], 3000)
    assert simulator.time == 3.0
    np.testing.assert_array_equal(simulator.state, before)


@every_tyre
def test_dropped_vehicle_settles_to_the_static_compression(tyre):
    """From 5 cm: in the air without tyre forces, wheels that turn freely; then rest on the static loads."""
    p = HMMWV.parameters
    height = 0.05
    simulator = Simulator(HMMWV, model="twenty_four_dof", tyre=tyre)
    simulator.reset(**{f"tyre_compression_{w}": -height for w in WHEELS}, vx=0.0)
    of = simulator.output_index
    names = [f.name for f in simulator.model.states]
    forces = [of[f"tyre_{axis}_{w}"] for axis in ("fx", "fy", "fz") for w in WHEELS]
    assert simulator.outputs[of["lifted_wheels"]] == 4.0
    n = 40
    for _ in range(n):
        assert simulator.outputs[of["lifted_wheels"]] == 4.0 and np.abs(simulator.outputs[forces]).max() < 1e-5
        simulator.advance([0, 0.1, 0], [0, 0.1, 0], 1)
    # The motor turns the wheels, and nothing else; the first step from zero speed still has a stiff tyre's damping.
    torque = 0.25 * 0.1 * p["motor_torque_0"] / p["driveline_ratio"]
    assert simulator.outputs[of["omega_fl"]] == pytest.approx(torque * n * 1e-3 / p["wheel_inertia"], rel=0.04)
    assert abs(simulator.outputs[of["vx"]]) < 2e-3
    # The centre of mass falls freely.
    momentum = p["sprung_mass"] * simulator.state[names.index("vz")] + sum(
        0.5 * p["unsprung_mass_front" if w[0] == "f" else "unsprung_mass_rear"] * simulator.state[names.index(f"unsprung_velocity_{w}")]
        for w in WHEELS)
    assert momentum == pytest.approx(-GRAVITY * total_mass(HMMWV) * n * 1e-3, rel=1e-3)
    highest = 0.0  # load of the landing
    for _ in range(5000):
        simulator.advance([0, 0, 1], [0, 0, 1], 1)
        highest = max(highest, simulator.outputs[of["tyre_fz_fl"]])
    front, rear = static_loads(HMMWV)
    assert highest > 1.5 * front  # it did land
    np.testing.assert_allclose(simulator.outputs[forces[8:]], [front, front, rear, rear], rtol=1e-5)
    at_rest = dict(zip(names, simulator.state))
    for name in (*(f"strut_deflection_{w}" for w in WHEELS), *(f"tyre_compression_{w}" for w in WHEELS), "roll", "pitch", "vx", "vz"):
        assert abs(at_rest[name]) < 1e-5, name


# -- Starting and stopping -----------------------------------------------------------------------------------------------------------
@every_chassis
@every_tyre
@every_vehicle
@pytest.mark.parametrize(("throttle", "least"), [(0.7, 8.0), (-0.4, 2.0)], ids=["forwards", "in reverse"])
def test_starts_from_rest_and_stops_to_rest(vehicle, chassis, tyre, throttle, least):
    profile = InputProfile([0, 1, 4, 4.5, 5], [0, 0, 0.2, 0.2, 0.2], [0, throttle, throttle, 0, 0], [0, 0, 0, 0, 0.8])
    y = simulate(vehicle, chassis, tyre, profile, 16.0)
    speed = np.hypot(y["vx"], y["vy"])
    assert speed.max() > least and (np.sign(y["vx"][200:300]) == np.sign(throttle)).all()
    rest = slice(1500, None)  # the body has rocked on its struts for seconds: the tyres hold
    assert speed[rest].max() < 1e-4 and np.abs(y["yaw_rate"][rest]).max() < 1e-4
    assert np.hypot(np.ptp(y["x"][rest]), np.ptp(y["y"][rest])) < 1e-5
    assert max(np.abs(y[f"omega_{w}"][rest]).max() for w in WHEELS) < 1e-12
    assert np.abs(y["ax"][rest]).max() < 1e-3


@every_chassis
@every_tyre
def test_locked_wheels_slide_with_the_friction_of_sliding(chassis, tyre):
    """Brakes far above the friction: the deceleration is that of sliding wheels, whichever way they point."""
    vehicle = HMMWV.replace(brake_torque_front=40000.0, brake_torque_rear=40000.0)
    p = vehicle.parameters
    if tyre == "fiala":
        limits = [p["friction_scale"] * p["friction_min"] * load for load in static_loads(vehicle)]
        stiffness = p["longitudinal_stiffness_front"], p["longitudinal_stiffness_rear"]
        along = 2.0 * sum(limit - limit**2 / (4.0 * c) for limit, c in zip(limits, stiffness))  # the curve's value at slip 1
    else:
        along, across = (p["friction_scale"] * 2.0 * sum(between_loads(vehicle, f"tmeasy_{axis}_sliding_force", load)
                                                         for load in static_loads(vehicle)) for axis in ("longitudinal", "lateral"))
    y = simulate(vehicle, chassis, tyre, constant(0.0, 0.0, 1.0), 1.2, vx=20.0)
    assert max(np.abs(y[f"omega_{w}"][60:]).max() for w in WHEELS) < 1e-12
    assert (y["vx"][60] - y["vx"][110]) / 0.5 == pytest.approx(along / total_mass(vehicle), rel=0.01)
    if tyre != "fiala":  # its two directions saturate apart
        y = simulate(vehicle, chassis, tyre, constant(0.5, 0.0, 1.0), 1.2, vx=20.0)
        speed = np.hypot(y["vx"], y["vy"])
        assert 0.98 * along < (speed[60] - speed[110]) / 0.5 * total_mass(vehicle) < 1.02 * across


@every_chassis
@every_tyre
def test_walking_pace_follows_the_circle_of_the_wheels(chassis, tyre):
    """Slow, without slip: yaw rate = speed tan(angle) / wheelbase, the outer wheels faster."""
    vehicle = coasting_freely(HMMWV)
    p = vehicle.parameters
    base = p["cg_to_front_axle"] + p["cg_to_rear_axle"]
    y = simulate(vehicle, chassis, tyre, InputProfile([0, 0.5], [0, 0.5], [0, 0], [0, 0]), 2.0, vx=0.8)
    expected = y["vx"][-1] * np.tan(y["road_wheel_angle"][-1]) / base
    assert y["vx"][-1] > 0.7
    if chassis == "eleven_dof":
        assert y["yaw_rate"][-1] == pytest.approx(expected, rel=3e-3)
    else:
        # Wheels that point the same way cannot all roll on circles about one centre.
        assert y["yaw_rate"][-1] == pytest.approx(expected, rel=0.03)
        assert y["omega_fr"][-1] > 1.1 * y["omega_fl"][-1]


# -- Powertrain ----------------------------------------------------------------------------------------------------------------------
def wheel_torques(vehicle, chassis, tyre, throttle, **state):
    """Torque of the powertrain at each wheel (11-DOF: axle) in one step: the wheel's inertia and the tyre's force taken off."""
    vehicle = vehicle.replace(**NO_ROLLING_RESISTANCE)
    model = vehicle.model(chassis, tyre)
    names = [f.name for f in model.states]
    x, p, u, h = initial_state(model, vehicle, **state), vehicle.vector(model), [0.0, throttle, 0.0], [1e-4]
    after, = compiled_model_function(model, "step")(x, u, p, h)
    y, = compiled_model_function(model, "outputs")(x, u, p, h)
    y = dict(zip([f.name for f in model.outputs], y))
    torques = []
    for wheels in (("fl", "fr"), ("rl", "rr")) if chassis == "eleven_dof" else ((w,) for w in WHEELS):
        axle = "front" if wheels[0][0] == "f" else "rear"
        name = f"omega_{axle if len(wheels) == 2 else wheels[0]}"
        spin = (after[names.index(name)] - x[names.index(name)]) / h[0]
        torque = len(wheels) * vehicle.parameters["wheel_inertia"] * spin
        for w in wheels:
            radius = vehicle.parameters["wheel_radius"] - y[f"tyre_fz_{w}"] / vehicle.parameters[f"tyre_vertical_stiffness_{axle}"]
            torque += radius * y[f"tyre_fx_{w}"]
        torques.append(torque)
    return np.array(torques)


@every_chassis
def test_torques_of_the_differentials(chassis):
    """Equal speeds share evenly; the slower wheel gets twice the torque of the faster one. The axles get what the vehicle says."""
    p = SEDAN.parameters
    speed = 30.0
    total = np.interp(speed / p["gear_ratio_0"], [p[f"engine_speed_{i}"] for i in range(24)], [p[f"engine_torque_{i}"] for i in range(24)])
    total += np.interp(speed / p["gear_ratio_0"], [p[f"loss_speed_{i}"] for i in range(16)], [p[f"loss_torque_{i}"] for i in range(16)])
    total /= p["gear_ratio_0"]
    if chassis == "eleven_dof":
        slow, fast = {"omega_front": speed - 1, "omega_rear": speed + 1}, {"omega_front": speed + 1, "omega_rear": speed - 1}
        even = {"omega_front": speed, "omega_rear": speed}
        shares = {"even": (even, [1 / 2, 1 / 2]), "slow": (slow, [2 / 3, 1 / 3]), "fast": (fast, [1 / 3, 2 / 3])}
        driven = {1.0: [1.0, 0.0], 0.0: [0.0, 1.0]}
    else:
        even = {f"omega_{w}": speed for w in WHEELS}
        slow = {f"omega_{w}": speed + (1 if w[1] == "r" else -1) for w in WHEELS}
        shares = {"even": (even, [1 / 4] * 4), "left slower": (slow, [1 / 3, 1 / 6, 1 / 3, 1 / 6])}
        driven = {1.0: [0.5, 0.5, 0.0, 0.0], 0.0: [0.0, 0.0, 0.5, 0.5]}
    for case, (speeds, expected) in shares.items():
        torques = wheel_torques(SEDAN, chassis, "tmeasy_nr", 1.0, vx=10.0, **speeds)
        np.testing.assert_allclose(torques, total * np.array(expected), rtol=1e-6, atol=1e-6 * total, err_msg=case)
    # An open differential shares evenly at any speeds.
    torques = wheel_torques(SEDAN.replace(differential_bias=1.0), chassis, "tmeasy_nr", 1.0, vx=10.0, **slow)
    np.testing.assert_allclose(torques, total / len(torques), rtol=1e-6)
    for share, expected in driven.items():
        torques = wheel_torques(SEDAN.replace(front_drive_share=share), chassis, "tmeasy_nr", 1.0, vx=10.0, **even)
        np.testing.assert_allclose(torques, total * np.array(expected), rtol=1e-6, atol=1e-6 * total)


@every_chassis
def test_rear_wheel_drive_turns_the_rear_wheels(chassis):
    y = simulate(REAR_DRIVEN, chassis, "tmeasy_nr", constant(0.0, 0.3), 2.0)
    moving = y["vx"] > 1.0
    assert moving.any() and (y["tyre_fx_rl"][moving] > 500.0).all()
    assert (y["tyre_fx_fl"][moving] < 0.0).all()  # rolling resistance and inertia only


@every_chassis
def test_throttle_scales_torque_and_where_asked_the_speed_of_the_map(chassis):
    vehicle = SEDAN.replace(**{f"loss_torque_{i}": 0.0 for i in range(16)})
    p = vehicle.parameters
    map_ = [p[f"engine_speed_{i}"] for i in range(24)], [p[f"engine_torque_{i}"] for i in range(24)]
    speed, throttle = 27.0, 0.8
    wheels = {f"omega_{w}": speed for w in (("front", "rear") if chassis == "eleven_dof" else WHEELS)}
    engine = speed / p["gear_ratio_0"]
    for modulation, at in ((0.0, engine), (1.0, engine / throttle)):
        torques = wheel_torques(vehicle.replace(throttle_modulation=modulation), chassis, "tmeasy_nr", throttle, vx=9.0, **wheels)
        assert torques.sum() == pytest.approx(throttle * np.interp(at, *map_) / p["gear_ratio_0"], rel=1e-6)
    assert np.interp(engine / throttle, *map_) < 0.98 * np.interp(engine, *map_)  # the two differ here


@pytest.mark.parametrize(("vehicle", "throttle"), [(SEDAN, 0.5), (SHAFTS, 1.0)], ids=["sedan", "hmmwv_shafts"])
@every_chassis
def test_gears_rise_with_speed_and_fall_with_it(vehicle, throttle, chassis):
    """Each shift up above, each shift down below its speed at the gearbox input; up to the top while driving, down to the first at rest."""
    p = vehicle.parameters
    y = simulate(vehicle, chassis, None, InputProfile([0, 20, 20.5, 21], [0] * 4, [throttle, throttle, 0, 0], [0, 0, 0, 0.25]), 40.0)
    gear = y["gear"]
    shifts = np.diff(gear)
    assert set(np.unique(shifts)) <= {-1.0, 0.0, 1.0}
    up, down = np.flatnonzero(shifts > 0), np.flatnonzero(shifts < 0)
    assert gear.max() == (5.0 if vehicle is SEDAN else p["gear_count"]) and gear[-1] == 1.0
    assert (up < 2000).all() and (down > 2000).all() and len(up) == len(down) == gear.max() - 1
    speed = 0.25 * sum(y[f"omega_{w}"] for w in WHEELS)
    for moments, name in ((up, "upshift_speed"), (down, "downshift_speed")):
        for k in moments:
            i = int(gear[k]) - 1
            of_shift = speed[k:k + 2] / p[f"gear_ratio_{i}"]  # before and after the shift
            assert 0.99 * of_shift.min() < p[f"{name}_{i}"] < 1.01 * of_shift.max()


# -- In reverse ----------------------------------------------------------------------------------------------------------------------
@every_chassis
@every_tyre
@every_vehicle
def test_driving_off_in_reverse_is_the_mirror_image(vehicle, chassis, tyre):
    """Of a vehicle that is alike in front and behind, in a reverse gear with the ratio of the first: speed, way and turn."""
    p = vehicle.parameters
    alike = {name: p[name.replace("rear", "front")] for name in p if name.endswith("_rear")}
    vehicle = vehicle.replace(**alike, cg_to_rear_axle=p["cg_to_front_axle"], **(
        {"reverse_ratio": p["gear_ratio_0"]} if "gear_ratio_0" in p else {}))
    throttle = 0.1 if vehicle.name == "hmmwv" else 0.3
    ahead, behind = (simulate(vehicle, chassis, tyre, constant(0.0, side * throttle), 1.5) for side in (1.0, -1.0))
    assert ahead["vx"][-1] > 0.25 and ahead["gear"].max() == 1.0
    # A reverse gear is engaged one step later; the wheels spin for a moment.
    for name, tolerance in (("vx", 5e-3), ("x", 5e-3), ("omega_fl", 0.1), ("omega_rr", 0.1)):
        np.testing.assert_allclose(behind[name][20:], -ahead[name][20:], rtol=2e-3, atol=tolerance)
    assert (behind["gear"][1:] == (1.0 if vehicle.name == "hmmwv" else -1.0)).all()
    # Torque over ratio and radius over the mass, less the rolling resistance.
    if vehicle.name == "hmmwv":
        force = throttle * p["motor_torque_0"] / (p["driveline_ratio"] * p["wheel_radius"])
        resistance = GRAVITY * (p["rolling_resistance"] / p["wheel_radius"] if tyre == "fiala" else p["rolling_resistance_coefficient"])
        mass = total_mass(vehicle) + 4.0 * p["wheel_inertia"] / p["wheel_radius"]**2
        assert -behind["vx"][-1] == pytest.approx(1.5 * (force - resistance * total_mass(vehicle)) / mass, rel=0.06)


@every_chassis
def test_reverse_gear_gives_the_engine_torque_over_its_ratio(chassis):
    vehicle = SEDAN.replace(**{f"loss_torque_{i}": 0.0 for i in range(16)}, reverse_ratio=0.04)
    p = vehicle.parameters
    wheels = {f"omega_{w}": -12.0 for w in (("front", "rear") if chassis == "eleven_dof" else WHEELS)}
    torques = wheel_torques(vehicle, chassis, "tmeasy_nr", -0.8, vx=-4.0, gear=-1.0, **wheels)
    at = np.interp(12.0 / 0.04, [p[f"engine_speed_{i}"] for i in range(24)], [p[f"engine_torque_{i}"] for i in range(24)])
    assert torques.sum() == pytest.approx(-0.8 * at / 0.04, rel=1e-6)


@pytest.mark.parametrize(("vehicle", "back"), [(SEDAN, 8), (SHAFTS, 20)], ids=["sedan", "hmmwv_shafts"])
@every_chassis
def test_reverse_is_engaged_near_standstill_and_left_there(vehicle, back, chassis):
    """Thrown into reverse at speed the vehicle coasts on until it is slow; so it does when it is thrown back."""
    profile = InputProfile([0, back, back + 0.01], [0] * 3, [-0.5, -0.5, 0.5], [0] * 3)
    y = simulate(vehicle, chassis, None, profile, back + 20.0, vx=3.0, **({"engine_speed": 80.0} if vehicle is SHAFTS else {}))
    gear, vx = y["gear"], y["vx"]
    engaged, left = (int(np.flatnonzero(change)[0]) for change in (np.diff(gear) < 0.0, np.diff(gear) > 0.0))
    assert 100 < engaged < 100 * back < left
    assert 0.0 < vx[engaged] < 0.35 and (np.diff(vx[:engaged]) < 0.0).all() and vx[100 * back] < -2.0
    assert -0.35 < vx[left] < 0.0 and vx[-1] > 1.0
    assert set(np.unique(gear[:left])) == {1.0, -1.0}


@every_chassis
def test_stalled_converter_multiplies_the_torque(chassis):
    """Held by its brakes at full throttle, the engine turns where its torque meets the pump's; the turbine has twice of it."""
    p = SHAFTS.parameters
    engine = [p[f"engine_speed_{i}"] for i in range(24)], [p[f"engine_torque_{i}"] for i in range(24)]
    losses = [p[f"loss_speed_{i}"] for i in range(16)], [p[f"loss_torque_{i}"] for i in range(16)]
    y = simulate(SHAFTS.replace(brake_torque_front=20000.0, brake_torque_rear=20000.0), chassis, None, constant(0.0, 1.0, 1.0), 10.0)
    assert np.abs(y["vx"][-1]) < 1e-3
    speeds = np.linspace(10.0, 280.0, 200001)
    surplus = np.interp(speeds, *engine) + np.interp(speeds, *losses) - (speeds / p["converter_capacity_0"])**2
    stall = speeds[np.flatnonzero(np.diff(np.sign(surplus)))[-1]]
    assert y["engine_speed"][-1] == pytest.approx(stall, rel=1e-4)
    torques = wheel_torques(SHAFTS, chassis, "tmeasy", 1.0, engine_speed=stall)
    pump = (stall / p["converter_capacity_0"])**2
    assert torques.sum() == pytest.approx(p["converter_torque_ratio_0"] * pump / p["gear_ratio_0"], rel=1e-4)


@every_chassis
def test_closed_throttle_lets_the_engine_brake(chassis):
    """In overrun the wheels drive the engine through the converter: the turbine is faster, and the tyres brake without any brake."""
    vehicle = SHAFTS.replace(**NO_ROLLING_RESISTANCE)
    p = vehicle.parameters
    y = simulate(vehicle, chassis, None, InputProfile([0, 6, 6.2], [0] * 3, [1, 1, 0], [0] * 3), 10.0)
    late = slice(800, 1000)
    turbine = 0.25 * sum(y[f"omega_{w}"] for w in WHEELS) / np.array([p[f"gear_ratio_{int(g) - 1}"] for g in y["gear"]])
    assert (turbine[late] > y["engine_speed"][late]).all() and (y["engine_speed"][late] > 20.0).all()
    assert (y["ax"][late] < 0.0).all()
    # Power: the engine's losses and its inertia are what the pump gives to it; the turbine takes as much torque from the wheels.
    k, dt = 950, 0.02
    losses = np.interp(y["engine_speed"][k], [p[f"loss_speed_{i}"] for i in range(16)], [p[f"loss_torque_{i}"] for i in range(16)])
    pump = p["crank_inertia"] * (y["engine_speed"][k + 1] - y["engine_speed"][k - 1]) / dt - losses
    wheels = p["wheel_inertia"] * sum(y[f"omega_{w}"][k] * (y[f"omega_{w}"][k + 1] - y[f"omega_{w}"][k - 1]) / dt for w in WHEELS)
    radius = {w: p["wheel_radius"] - y[f"tyre_fz_{w}"][k] / p["tyre_vertical_stiffness_front"] for w in WHEELS}
    slip = sum(y[f"tyre_fx_{w}"][k] * (y["vx"][k] - radius[w] * y[f"omega_{w}"][k]) for w in WHEELS)
    assert total_mass(vehicle) * y["ax"][k] * y["vx"][k] + wheels - slip == pytest.approx(-pump * turbine[k], rel=0.02)


# -- Wheel lift ----------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("chassis", FOUR_WHEELS)
@every_tyre
def test_lifted_wheel_carries_nothing_turns_freely_and_lands(chassis, tyre):
    tall = HMMWV.replace(cg_height=1.1, friction_scale=1.4, cg_to_front_axle=1.3, cg_to_rear_axle=2.0)
    until = 1.5 if tyre == "fiala" else 0.9
    profile = InputProfile([0, 0.3, until, until + 0.3, 6], [0, 0.5, 0.5, 0, 0], [0.3] * 5, [0] * 5)
    y = simulate(tall, chassis, tyre, profile, 6.0, vx=14.0)
    z = loads(y)
    np.testing.assert_array_equal(y["lifted_wheels"], (z <= 0.0).sum(axis=1))
    up = z[:, 2] <= 0.0  # the inner rear wheel
    assert up.sum() > 10 and not up[0] and not up[-200:].any()
    assert np.abs(y["tyre_fx_rl"][up]).max() < 1e-3 and np.abs(y["tyre_fy_rl"][up]).max() < 1e-3
    # In the air the motor turns it, as fast as its inertia lets it: more than the outer one ever turns.
    k = np.flatnonzero(up[1:] & up[:-1])
    p = tall.parameters
    motor = y["engine_speed"][k]
    torque = 0.25 * 0.3 * p["motor_torque_0"] * (1.0 - motor / p["motor_speed_1"]) / p["driveline_ratio"]
    np.testing.assert_allclose((y["omega_rl"][k + 1] - y["omega_rl"][k]) / 0.01, torque / p["wheel_inertia"], rtol=0.05)
    assert y["omega_rl"].max() > 1.1 * y["omega_rr"].max()
    # Down again, it rolls with the others, and the vehicle drives on upright.
    assert y["omega_rl"][-1] == pytest.approx(y["omega_rr"][-1], rel=0.01)
    assert z[-1].sum() == pytest.approx(GRAVITY * total_mass(tall), rel=0.01) and abs(y["roll"][-1]) < 0.01


# -- One chassis as the limit of another ---------------------------------------------------------------------------------------------
@every_tyre
def test_stiff_struts_make_the_24_dof_model_that_of_18(tyre):
    """With struts stiff against all else, and their roll stiffness k track^2 / 2 in the 18-DOF model, both drive alike."""
    p = HMMWV.parameters
    k, damping, tyre_stiffness, half = 2e6, 4e4, 2e6, 0.5 * p["track_front"]**2
    struts = HMMWV.replace(suspension_stiffness_front=k, suspension_stiffness_rear=k, suspension_damping_front=damping,
                           suspension_damping_rear=damping, tyre_vertical_stiffness_front=tyre_stiffness,
                           tyre_vertical_stiffness_rear=tyre_stiffness)
    # The 18-DOF model's yaw inertia is that of all masses, the 24-DOF model's that of the sprung one.
    unsprung = sum(p[f"unsprung_mass_{axle}"] * (p[f"cg_to_{axle}_axle"]**2 + 0.25 * p[f"track_{axle}"]**2) for axle in ("front", "rear"))
    rolls = struts.replace(roll_stiffness_front=k * half, roll_stiffness_rear=k * half, roll_damping_front=damping * half,
                           roll_damping_rear=damping * half, roll_yaw_inertia=0.0, yaw_inertia=p["yaw_inertia"] + unsprung)
    profile = InputProfile([0, 1, 2, 3, 4], [0, 0.1, -0.1, 0.1, 0], [0.2] * 5, [0] * 5)
    full, plain = (simulate(v, chassis, tyre, profile, 4.0, dt=2e-4, vx=15.0)
                   for v, chassis in ((struts, "twenty_four_dof"), (rolls, "eighteen_dof")))
    for name in ("x", "y", "vx", "yaw_rate", "ay"):
        assert np.abs(full[name] - plain[name]).max() < 5e-3 * np.ptp(plain[name]), name
    # The tyres are springs under a mass in one model only: the loads agree when that has died down.
    for wheel in WHEELS:
        name = f"tyre_fz_{wheel}"
        assert np.sqrt(np.mean((full[name] - plain[name])**2)) < 0.05 * np.ptp(plain[name])


ON_HARD_TYRES = (InputProfile([0, 1, 3], [0, 0.1, 0.1], [0.1] * 3, [0] * 3), InputProfile([0, 0.5, 3], [0] * 3, [0, 0.6, 0.6], [0] * 3),
                 InputProfile([0, 0.5, 3], [0] * 3, [0] * 3, [0, 0.2, 0.2]))


@pytest.mark.parametrize("profile", ON_HARD_TYRES, ids=["turn", "drive", "brake"])
def test_hard_tyres_make_roll_pitch_and_heave_those_of_the_18_dof_loads(profile):
    """What the 18-DOF model's loads make of four springs: its own roll, a pitch angle, and no heave of the middle between the axles."""
    k, damping, hard, front, rear = 2e5, 1.5e4, 2e7, 1.5, 1.9
    half = 0.5 * HMMWV.parameters["track_front"]**2
    vehicle = HMMWV.replace(cg_to_front_axle=front, cg_to_rear_axle=rear, roll_yaw_inertia=0.0, **{
        f"{name}_{axle}": value for axle in ("front", "rear") for name, value in (
            ("suspension_stiffness", k), ("suspension_damping", damping), ("tyre_vertical_stiffness", hard),
            ("roll_stiffness", k * half), ("roll_damping", damping * half))})
    plain = simulate(vehicle, "eighteen_dof", "fiala", profile, 3.0, dt=2e-4, vx=15.0)
    made = Simulator(vehicle, model="twenty_four_dof", tyre="fiala", dt=2e-4)
    made.reset(vx=15.0)
    _, full = rollout(made, profile, 3.0)
    roll, pitch = (full[:, made.output_index[name]] for name in ("roll", "pitch"))
    np.testing.assert_allclose(roll, plain["roll"], atol=1e-6 + 0.03 * np.ptp(plain["roll"]))
    change = loads(plain)[-1] - loads(plain)[0]
    expected = (change[:2].mean() - change[2:].mean()) / (k * (front + rear))
    assert np.ptp(plain["roll"]) > 3e-3 or abs(expected) > 1.5e-3
    assert pitch[-1] == pytest.approx(expected, rel=0.05)
    state = dict(zip([field.name for field in made.model.states], made.state))
    compression = np.array([state[f"strut_deflection_{wheel}"] for wheel in WHEELS])
    assert abs(compression.mean()) < 0.02 * np.abs(compression).max()


# -- Steps -----------------------------------------------------------------------------------------------------------------------------
@every_chassis
@pytest.mark.parametrize("vehicle", [HMMWV, SHAFTS], ids=lambda vehicle: vehicle.name)
def test_a_stiff_tyre_turns_the_vehicle_alike_in_short_and_long_steps(vehicle, chassis):
    """Fiala's forces are those at the end of the step: in steady turns nothing of a step is left in them."""
    profile = InputProfile([0, 1, 2, 3, 4, 5, 6, 8], [0, 0.1, 0.1, -0.1, -0.1, 0.15, 0.15, 0.15], [0.3] * 8, [0] * 8)
    coarse, fine = (simulate(vehicle, chassis, "fiala", profile, 8.0, dt, 0.02, vx=15.0)["yaw_rate"] for dt in (1e-3, 5e-5))
    assert np.abs(coarse - fine).max() < 1e-3 * np.abs(fine).max()
    assert coarse[-1] == pytest.approx(fine[-1], rel=5e-4)


# -- The driveline's reaction ---------------------------------------------------------------------------------------------------------
# Height of the sprung mass's centre over what it leans about: the roll axis, and the ground.
@pytest.mark.parametrize(("chassis", "lever"), [("eight_dof", 0.353), ("twenty_four_dof", 0.713)])
def test_a_driveline_that_turns_the_body_leans_it_until_the_wheels_carry_its_moment(chassis, lever):
    """Held by its brakes, with the drive pulling: the right wheels carry what balances the moment and the weight that has moved."""
    reaction, throttle = 0.2, 0.5
    assert HMMWV.parameters["driveline_roll_reaction"] == 0.0
    torque = throttle * 1000.0 / HMMWV.parameters["driveline_ratio"]
    y = simulate(HMMWV.replace(driveline_roll_reaction=reaction), chassis, "fiala", constant(throttle=throttle, brake=1.0), 6.0,
                 output_step=0.5)
    moment = sum(0.5 * HMMWV.parameters["track_front"] * (y[f"tyre_fz_{axle}r"][-1] - y[f"tyre_fz_{axle}l"][-1]) for axle in "fr")
    assert y["roll"][-1] > 2e-3 and abs(y["vx"][-1]) < 1e-3
    assert moment == pytest.approx(reaction * torque + GRAVITY * HMMWV.parameters["sprung_mass"] * lever * y["roll"][-1], rel=0.01)


# -- The TMeasy curve ----------------------------------------------------------------------------------------------------------------
def curve_vehicle(load):
    """The HMMWV with a static wheel load of `load` times the nominal one, on hard tyres so that the rolling radius is the wheel's."""
    vehicle = HMMWV.replace(unsprung_mass_rear=HMMWV.parameters["unsprung_mass_front"], tyre_vertical_stiffness_front=9.9e7,
                            tyre_vertical_stiffness_rear=9.9e7, friction_scale=1.0)
    return vehicle.replace(tyre_nominal_load=static_loads(vehicle)[1] / load, tyre_maximum_load=1e6)


def tyre_force(vehicle, tyre, axis, slip):
    """Force of the rear left tyre [N] at a slip: the state held, the tyre's deflections led to their end."""
    model = vehicle.model("eighteen_dof", tyre)
    names = [f.name for f in model.states]
    p, speed = vehicle.vector(model), 20.0
    rolling = speed / vehicle.parameters["wheel_radius"]
    start = {f"omega_{w}": rolling for w in WHEELS}
    if axis == "longitudinal":
        start["omega_rl"] = rolling / (1.0 - slip)
        start["vx"], start["vy"] = speed, 0.0
    else:
        start["vx"], start["vy"] = speed, -slip * (speed + 0.01)
    x = initial_state(model, vehicle, **start)
    u, h = [0.0, 0.0, 0.0], [1e-3]
    deflections = [names.index(n) for n in names if n.startswith("tyre_deflection")]
    for _ in range(2000 if deflections else 0):
        after, = compiled_model_function(model, "step")(x, u, p, h)
        x[deflections] = after[deflections]
    y, = compiled_model_function(model, "outputs")(x, u, p, h)
    return y[[f.name for f in model.outputs].index("tyre_fx_rl" if axis == "longitudinal" else "tyre_fy_rl")]


@pytest.mark.parametrize("tyre", ["tmeasy", "tmeasy_nr"])
@pytest.mark.parametrize("axis", ["longitudinal", "lateral"])
@pytest.mark.parametrize(("load", "column"), [(1.0, "nominal"), (2.0, "double")])
def test_tmeasy_curve_has_the_slope_the_peak_and_the_sliding_force_of_its_table(tyre, axis, load, column):
    vehicle = curve_vehicle(load)
    of = lambda key: vehicle.parameters[f"tmeasy_{axis}_{key}_{column}"]  # noqa: E731
    force = lambda slip: tyre_force(vehicle, tyre, axis, slip)  # noqa: E731
    assert (force(3e-3) - force(-3e-3)) / 6e-3 == pytest.approx(of("slope"), rel=0.02)
    peak = of("peak_slip")
    assert force(peak) == pytest.approx(of("peak_force"), rel=1e-3)
    assert force(-peak) == pytest.approx(-of("peak_force"), rel=1e-3)
    assert max(force(0.9 * peak), force(1.1 * peak)) < 0.999 * of("peak_force")
    for slip in (1.001 * of("sliding_slip"), 0.98):
        assert force(slip) == pytest.approx(of("sliding_force"), rel=2e-3)


@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0])
def test_rolling_radius_lies_between_the_loaded_and_the_unloaded_one(weight):
    """The same weight at both loads: a freely rolling wheel turns with vx over the weighted mean of the radii."""
    vehicle = coasting_freely(HMMWV).replace(rolling_radius_weight_nominal=weight, rolling_radius_weight_double=weight)
    p = vehicle.parameters
    y = simulate(vehicle, "eighteen_dof", "tmeasy_nr", constant(), 1.0, vx=15.0)
    loaded = p["wheel_radius"] - static_loads(vehicle)[0] / p["tyre_vertical_stiffness_front"]
    assert y["vx"][-1] / y["omega_fl"][-1] == pytest.approx(weight * p["wheel_radius"] + (1.0 - weight) * loaded, rel=1e-5)


def test_stiffness_in_the_text_of_a_vehicle_is_that_of_the_tyre(tmp_path):
    """The slope of the force table, changed in the file, changes the force at a small slip in proportion."""
    path = tmp_path / "car.yaml"
    vehicle = curve_vehicle(1.0)
    save_vehicle(vehicle, path)
    text = path.read_text()
    for load in ("nominal", "double"):
        number = vehicle.parameters[f"tmeasy_lateral_slope_{load}"]
        line = next(line for line in text.splitlines() if f"tmeasy_lateral_slope_{load}" in line)
        assert str(number) in line
        text = text.replace(line, line.replace(str(number), str(1.5 * number)))
    path.write_text(text)
    stiffer = load_vehicle(path)
    for tyre in ("tmeasy", "tmeasy_nr"):
        forces = [tyre_force(v, tyre, "lateral", 3e-3) for v in (vehicle, stiffer)]
        assert forces[0] == pytest.approx(3e-3 * vehicle.parameters["tmeasy_lateral_slope_nominal"], rel=0.02)
        assert forces[1] == pytest.approx(1.5 * forces[0], rel=0.02)
        along = [tyre_force(v, tyre, "longitudinal", 3e-3) for v in (vehicle, stiffer)]
        assert along[1] == pytest.approx(along[0], rel=1e-3)
