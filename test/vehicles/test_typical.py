"""Vehicles written from mass and wheelbase drive as the class is said to; what is given stays; motor maps from engine and gearbox."""

import numpy as np
import pytest

from lfdm_ros.cli.main import main
from lfdm_ros.control import Controller, Settings
from lfdm_ros.errors import InputError
from lfdm_ros.simulation import BatchRollout, Simulator, initial_state
from lfdm_ros.vehicles import CLASSES, load_vehicle, typical_vehicle, with_motor_map

SIZES = {"car": (1500.0, 2.7), "suv": (2200.0, 2.85), "racing": (790.0, 2.98), "small": (1.6, 0.174)}
GRAVITY = 9.81


def run(vehicle, speed, seconds, steering, brake, channels, prescribed=()):
    times = np.linspace(0.0, seconds, 201)
    inputs = np.column_stack([np.full(201, steering), np.zeros(201), np.full(201, brake), *(np.full(201, speed) for _ in prescribed)])
    rollout = BatchRollout(model="eight_dof", vehicle=vehicle, dt=0.0005, times=times, inputs=inputs, parameters=[], channels=channels,
                           prescribed=prescribed)
    return rollout.trajectories(np.empty((1, 0)), initial_state("eight_dof", vehicle, vx=speed))[0]


@pytest.mark.parametrize("kind", CLASSES)
def test_it_rolls_and_brakes_as_its_class_does(kind):
    """Against the simulated vehicle: a steady turn of a tenth of its grip, and full brakes."""
    mass, wheelbase = SIZES[kind]
    vehicle, like = typical_vehicle("new", mass, wheelbase, kind), CLASSES[kind]
    speed = 6.0 * np.sqrt(wheelbase)
    lateral = 0.1 * like.friction * GRAVITY
    roll, yaw_rate = run(vehicle, speed, 4.0, wheelbase * lateral / speed**2 / like.lock, 0.0, ["roll", "yaw_rate"], ("vx",))[-1]
    assert np.degrees(abs(roll)) / abs(speed * yaw_rate) * GRAVITY == pytest.approx(like.roll, rel=0.12)
    vx = run(vehicle, speed, 0.5 * speed / (like.friction * GRAVITY), 0.0, 1.0, ["vx"])[:, 0]
    stopping = (vx[40] - vx[-1]) / (0.8 * 0.5 * speed / (like.friction * GRAVITY))
    assert 0.75 * like.friction * GRAVITY < stopping < 1.05 * like.friction * GRAVITY


def test_axle_loads_and_inertia_of_a_car_that_was_measured():
    """The Genesis: mass, wheelbase and weight distribution as they are published, and its yaw inertia and stiffness as a check."""
    genesis = load_vehicle("genesis")
    own = typical_vehicle("new", 2303.1, 3.02, "car", front_share=1.4987 / 3.02)
    for key in ("cg_to_front_axle", "cg_to_rear_axle"):
        assert own.parameters[key] == pytest.approx(genesis.parameters[key], abs=0.01)
    assert own.parameters["sprung_mass"] + 2 * own.parameters["unsprung_mass_front"] == pytest.approx(2303.1, rel=1e-4)
    assert own.parameters["yaw_inertia"] == pytest.approx(genesis.parameters["yaw_inertia"], rel=0.15)
    for axle in ("front", "rear"):
        assert own.parameters[f"cornering_stiffness_{axle}"] == pytest.approx(genesis.parameters[f"cornering_stiffness_{axle}"], rel=0.5)


def test_the_command_writes_a_file_and_says_what_models_need(tmp_path, capsys):
    out = tmp_path / "my_car.yaml"
    assert main(["vehicle", "new", "--mass", "1500", "--wheelbase", "2.7", "--cg-height", "0.6", "--change", "yaw_inertia=2400",
                 "--change", "front_overhang=0.9", "--change", "rear_overhang=1.0", "--change", "overall_width=1.8",
                 "--out", str(out)]) == 0
    vehicle = load_vehicle(out)
    assert (vehicle.name, vehicle.parameters["cg_height"], vehicle.parameters["yaw_inertia"]) == ("my_car", 0.6, 2400.0)
    assert (vehicle.sources["yaw_inertia"], vehicle.assumed) == ("given", "")
    assert all(vehicle.sources[name] for name in vehicle.parameters)
    printed = capsys.readouterr().out
    assert "  eight_dof: can run; " in printed and "first to measure or calibrate: cornering_stiffness_front" in printed
    assert "cg_height" not in printed.partition("eight_dof: ")[2].partition("\n")[0], "it was given"
    assert "  multibody_hmmwv: cannot run: lacks lower_arm_fore_front" in printed
    assert main(["vehicle", "new", "--mass", "1500", "--wheelbase", "2.7", "--out", str(out)]) == 2
    assert "exists already" in capsys.readouterr().err


def test_a_mass_that_is_unlike_the_class_is_told(tmp_path, capsys):
    assert main(["vehicle", "new", "--mass", "3", "--wheelbase", "0.3", "--out", str(tmp_path / "a.yaml")]) == 0
    assert "3 kg is unlike a passenger car (600 to 2600 kg); --class gives its class" in capsys.readouterr().err


@pytest.mark.parametrize(("arguments", "message"), [
    ({"mass": -1.0, "wheelbase": 2.7}, "mass must be above 0"),
    ({"mass": 1500.0, "wheelbase": 2.7, "front_share": 1.2}, "share of the weight must be below 1"),
    ({"mass": 1500.0, "wheelbase": 2.7, "kind": "boat"}, "no class 'boat'; choose one of: car, suv, racing, small"),
    ({"mass": 1500.0, "wheelbase": 2.7, "given": {"cg_hight": 0.5}}, "unknown parameter 'cg_hight' .did you mean 'cg_height'"),
])
def test_what_cannot_be_a_vehicle(arguments, message):
    with pytest.raises(InputError, match=message):
        typical_vehicle("new", **arguments)


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
