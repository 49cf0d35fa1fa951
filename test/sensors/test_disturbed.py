"""Sensors that are disturbed on purpose: worse, never better, and the others as they were."""

from dataclasses import fields, replace

import numpy as np
import pytest

from lfdm_ros.errors import InputError
from lfdm_ros.sensors import SENSORS, SensorScene, VehicleView, make_sensors
from lfdm_ros.simulation import Circle, World
from lfdm_ros.vehicles import Mount, load_vehicle

AROUND = SensorScene(World((Circle(20.0, 2.0, 1.0),)))
VIEW = VehicleView(0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize("name", ["lidar", "camera", "radar", "gnss", "imu"])
def test_every_kind_of_ours_can_be_disturbed_and_is_never_the_better_for_it(name: str) -> None:
    kind = SENSORS.find(name, "here")
    plain, poor = kind.settings(), kind.disturbed(kind.settings())
    changed = {f.name for f in fields(plain) if getattr(poor, f.name) > getattr(plain, f.name)}  # type: ignore[arg-type]
    assert changed == set(kind.poor) and changed and replace(poor, **{one: getattr(plain, one) for one in changed}) == plain
    most = kind.settings(**{one: value * 1.2 for one, value in kind.poor.items()})
    assert kind.disturbed(most) == most


def test_a_disturbed_radar_sees_what_is_not_there() -> None:
    kind = SENSORS.find("radar", "here")

    def returns(settings: object) -> float:
        radar = kind.make(settings, Mount(), AROUND, 1)
        return float(np.mean([len(radar.measure(replace(VIEW, time=0.05 * k)).ranges) for k in range(20)]))

    assert returns(kind.disturbed(kind.settings())) > returns(kind.settings()) + 20.0


def test_a_camera_by_its_name_in_the_vehicles_file() -> None:
    vehicle = load_vehicle("hmmwv_camera")
    pictures = [make_sensors(vehicle, AROUND, names)["front"][1].measure(VIEW).pixels.astype(float)
                for names in ((), ("other",), ("front",))]
    np.testing.assert_array_equal(pictures[0], pictures[1])
    assert (pictures[2] - pictures[0]).std() > 30.0


def test_a_kind_without_poor_settings_is_named() -> None:
    kind = replace(SENSORS.find("gnss", "here"), poor={})
    with pytest.raises(InputError, match="of type gnss cannot be disturbed"):
        kind.disturbed(kind.settings())
