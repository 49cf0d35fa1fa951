"""A derived motor map pulls like the engine and gearbox that it stands for: the bicycle beside the 18-DOF model with all its gears."""

import numpy as np
import pytest

from lfdm_ros.control import Controller, Settings
from lfdm_ros.simulation import Simulator
from lfdm_ros.vehicles import load_vehicle, with_motor_map


def speeds(vehicle, model, dt: float, throttle: float, seconds: int = 10) -> np.ndarray:
    """Speed [m/s] after each second from 3 m/s on."""
    simulator, found = Simulator(vehicle, model=model, dt=dt), []
    simulator.reset(vx=3.0)
    place = [f.name for f in simulator.model.states].index("vx")
    for _ in range(seconds):
        simulator.advance([0.0, throttle, 0.0], [0.0, throttle, 0.0], round(1.0 / dt))
        found.append(float(simulator.state[place]))
    return np.array(found)


# With a converter the crankshaft's inertia costs half a second at the start, which no map without states can know.
@pytest.mark.parametrize(("name", "within"), [("sedan", 0.08), ("audi", 0.08), ("hmmwv_shafts", 0.2)])
def test_full_throttle_through_the_gears(name: str, within: float) -> None:
    vehicle = with_motor_map(load_vehicle(name))
    full = speeds(vehicle, vehicle.model("eighteen_dof"), 1e-3, 1.0)
    predicted = speeds(vehicle, vehicle.model("driven_bicycle"), 0.025, 1.0)
    assert predicted[4:] == pytest.approx(full[4:], rel=within)


def test_who_has_a_map_or_no_engine_stays_as_it_is() -> None:
    for name in ("hmmwv", "rhode_dual_track"):
        vehicle = load_vehicle(name)
        assert with_motor_map(vehicle) is vehicle


def test_a_vehicle_with_engine_and_gearbox_keeps_them_beside_the_map() -> None:
    vehicle = with_motor_map(load_vehicle("sedan"))
    assert vehicle.spec("eighteen_dof").endswith("gearbox")
    assert "derived" in vehicle.sources["motor_torque_0"]


def test_the_controller_takes_a_vehicle_with_engine_and_gearbox() -> None:
    controller = Controller(load_vehicle("sedan"), Settings(use_limit_table=False))
    controller.set_vehicle(load_vehicle("sedan").replace(sprung_mass=1800.0))
