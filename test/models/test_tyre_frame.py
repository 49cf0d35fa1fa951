"""The wheel's inclination and the tyre's moments in the chassis that have them, against rigid-body geometry, on plain numbers."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from lfdm_ros.backends import ARRAYS
from lfdm_ros.models import Contact, Patch, Record, get_model, registry
from lfdm_ros.models.equations import RecordLayout
from lfdm_ros.models.twenty_four_dof import Incline
from lfdm_ros.vehicles import load_vehicle

CHASSIS = {"twenty_four_dof": "hmmwv", "multibody_hmmwv": "hmmwv_multibody"}


class Probe:
    """A tyre that gives nothing but these moments, on the rear axle alone if `rear`, and keeps the wheels that it met."""

    implicit = False

    def __init__(self, rear: bool = False, **moments: float):
        self.moments, self.rear, self.wheels = moments, rear, []

    def prepare(self, p):
        return None

    def forces(self, q, wheel):
        self.wheels.append(wheel)
        return Contact(0.0, 0.0, **(self.moments if not (self.rear and wheel.front) else {}))


def accelerations(spec: str, probe: Probe, **changes: float):
    """The changes of a vehicle's states with this tyre, at rest but for these states and inputs."""
    model, chassis = get_model(spec), registry.CHASSIS[spec]
    vehicle = load_vehicle(CHASSIS.get(spec, "hmmwv"))
    parts = {slot: next(iter(there.values())) for slot, there in registry.chassis_slots(spec).items()}
    built = {slot: part.build(ARRAYS) for slot, part in parts.items() if slot not in ("tyre", "conventions")}
    equations = chassis.build(ARRAYS, tyre=probe, **built)
    p = SimpleNamespace(**{field.name: vehicle.parameters[field.name] for field in model.parameters})
    states, inputs = RecordLayout(model.states), RecordLayout(model.inputs)
    at, u = ([np.float64(changes.get(field.name, 0.0)) for field in fields] for fields in (model.states, model.inputs))
    return equations.dynamics(states.record(at), inputs.record(u), equations.prepare(p), 0.0).changes


def test_inclination_of_a_steered_wheel_on_an_incline() -> None:
    """Against the rotations of the body, whose yaw angle is 0, and of the steering."""
    rng = np.random.default_rng(3)
    for roll, pitch, steering, slope_x, slope_y in rng.uniform(-0.3, 0.3, (20, 5)):
        axis = (Rotation.from_euler("ZYX", (0.0, pitch, roll)) * Rotation.from_euler("z", steering)).apply((0.0, 1.0, 0.0))
        normal = np.array((-slope_x, -slope_y, 1.0)) / np.sqrt(1.0 + slope_x ** 2 + slope_y ** 2)
        tilt = Record(sin_p=np.sin(roll), cos_p=np.cos(roll), sin_t=np.sin(pitch), cos_t=np.cos(pitch))
        found = Incline(ARRAYS, np.float64(0.0), Patch(slope_x=slope_x, slope_y=slope_y)).inclination(
            tilt, np.cos(steering), np.sin(steering), ARRAYS)
        assert found == pytest.approx(np.arcsin(axis @ normal), abs=1e-12)


@pytest.mark.parametrize("spec", CHASSIS)
def test_roll_tilts_the_wheels(spec: str) -> None:
    """As much as the body where suspension angles stay: to the right where that goes down, but for what the ground's plane adds."""
    level, rolled = Probe(), Probe()
    accelerations(spec, level)
    accelerations(spec, rolled, roll=0.05)
    for before, after in zip(level.wheels, rolled.wheels, strict=True):
        assert after.inclination - before.inclination == pytest.approx(0.05, abs=1e-9)


def test_an_upright_chassis_has_no_inclination() -> None:
    probe = Probe()
    accelerations("eight_dof", probe, roll=0.05)
    assert [wheel.inclination for wheel in probe.wheels] == [0.0] * 4


@pytest.mark.parametrize("spec", ["eight_dof", "eleven_dof", *CHASSIS])
def test_aligning_moments_turn_the_vehicle(spec: str) -> None:
    """Those of the rear wheels by their sum over the yaw inertia, which of the multibody has the corners beside it."""
    p = load_vehicle(CHASSIS.get(spec, "hmmwv")).parameters
    inertia = p["yaw_inertia"]
    if spec == "multibody_hmmwv":
        inertia += sum(p[f"unsprung_mass_{axle}"] * (p[f"cg_to_{axle}_axle"] ** 2 + p[f"wheel_centre_{axle}_y"] ** 2)
                       for axle in ("front", "rear"))
    without, with_moment = (accelerations(spec, Probe(rear=True, mz=moment)) for moment in (0.0, 25.0))
    assert with_moment.yaw_rate - without.yaw_rate == pytest.approx(50.0 / inertia, rel=0.1)


def test_an_aligning_moment_steers_the_front_wheels_of_the_multibody() -> None:
    """To the left, as the steering does; the body feels it through the link's stiffness, later."""
    without, with_moment = (accelerations("multibody_hmmwv", Probe(mz=moment)) for moment in (0.0, 25.0))
    steered = accelerations("multibody_hmmwv", Probe(), steering=0.1)
    assert (with_moment.link_rate - without.link_rate) * (steered.link_rate - without.link_rate) > 0.0


def test_overturning_moments_roll_the_vehicle() -> None:
    """In the 24-DOF they lift the left and press the right unsprung masses, as forces at the roll centre's height would."""
    parameters = load_vehicle("hmmwv").parameters
    without, with_moment = (accelerations("twenty_four_dof", Probe(mx=moment)) for moment in (0.0, 50.0))
    lifts = [after.unsprung_velocity - before.unsprung_velocity for before, after in zip(without.wheels, with_moment.wheels)]
    force = 100.0 / parameters["track_front"]
    assert lifts[0] == pytest.approx(force / (0.5 * parameters["unsprung_mass_front"]), rel=1e-9)
    assert lifts[1] == pytest.approx(-lifts[0])


def test_rolling_resistance_moments_turn_the_wheels() -> None:
    """Against its travel a wheel's moment is negative (ISO 8855: y to the left)."""
    parameters = load_vehicle("hmmwv").parameters
    without, with_moment = (accelerations("eight_dof", Probe(my=moment), vx=5.0, **{f"omega_{w}": 10.0 for w in ("fl", "fr", "rl", "rr")})
                            for moment in (0.0, -9.0))
    for before, after in zip(without.wheels, with_moment.wheels):
        assert after.omega - before.omega == pytest.approx(-9.0 / parameters["wheel_inertia"])
