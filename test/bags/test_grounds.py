"""A recording made on a ground is replayed, and calibrated, on the same."""

import json
from pathlib import Path

import numpy as np
import pictures
import pytest
from small_problem import quick_recipe

from lfdm_ros.bags import BagWriter
from lfdm_ros.bags.grounds import find_ground
from lfdm_ros.bags.reader import read_series
from lfdm_ros.calibration import calibrate, load_recipe, predict
from lfdm_ros.cli.main import main
from lfdm_ros.errors import InputError
from lfdm_ros.ground.ground_file import load_ground
from lfdm_ros.ground.vehicle_on_ground import VehicleOnGround
from lfdm_ros.simulation import InputProfile, Simulator
from lfdm_ros.vehicles import load_vehicle

AREA = {"x": [-20.0, 80.0], "y": [-40.0, 40.0], "spacing": 1.0}
SHEET = {"area": AREA, "friction": 1.0, "patches": [{"friction": 0.25, "polygon": [[10, -30], [70, -30], [70, 30], [10, 30]]}]}
WHOLE = {"area": AREA, "seed": 3, "friction": {"ice": 0.2, "dry": 1.1, "alpha_x": 8, "alpha_y": 8, "sigma_f": 2.0},
         "heights": {"rise_x": 0.05, "bumps": [{"x": 30, "y": 0, "radius": 6, "height": 0.3}]}}
HMMWV = load_vehicle("hmmwv").replace(cornering_stiffness_front=50e3)
MANOEUVRE = InputProfile(*np.array([[0.0, 0.0, 0.1, 0.0], [0.7, 0.0, 0.1, 0.0], [1.5, 0.15, 0.1, 0.0], [2.5, -0.1, 0.1, 0.0]]).T)


def driven(ground, seconds: float = 2.5) -> tuple[np.ndarray, Simulator, list[np.ndarray]]:
    """Inputs and outputs at 100 Hz of the manoeuvre at 15 m/s."""
    on_ground = VehicleOnGround(HMMWV, ground)
    simulator = Simulator(on_ground.vehicle, "eight_dof", 0.002)
    simulator.reset(vx=15.0)
    inputs, outputs = MANOEUVRE.sample(0.01 * np.arange(round(100 * seconds) + 1)), []
    for u in inputs:
        simulator.advance(u, u, 0)
        outputs.append(simulator.outputs.copy())
        simulator.advance(u, u, 5)
    return inputs, simulator, outputs


def recorded(path: Path, document: dict, ground=None) -> Path:
    """A bag of the manoeuvre on a ground, with what the simulator says of that ground, and a noisy yaw rate."""
    ground = ground or load_ground(document)
    inputs, simulator, outputs = driven(ground)
    rng = np.random.default_rng(1)
    with BagWriter(path, storage="mcap", recording="turn") as bag:
        bag.write("ground/document", "std_msgs/msg/String", 0, {"data": json.dumps(ground.document)})
        for k, (u, y) in enumerate(zip(inputs, outputs)):
            stamp = 10_000_000 * k
            header = {"stamp": {"sec": stamp // 10**9, "nanosec": stamp % 10**9}, "frame_id": "odom"}
            value = {name: float(y[i]) for name, i in simulator.output_index.items()}
            state = {name: value[name] for name in ("x", "y", "yaw", "roll", "pitch", "vx", "vy", "ax", "ay", "roll_rate", "pitch_rate",
                                                    "yaw_rate", "road_wheel_angle", "engine_speed")}
            wheels = {"wheel_speeds": np.array([value[f"omega_{w}"] for w in ("fl", "fr", "rl", "rr")]),
                      **{f"tyre_force_{axis}": np.full(4, np.nan) for axis in "xyz"}, "gear": 1, "child_frame_id": "base_link"}
            bag.write("vehicle/state", "lfdm_ros/msg/VehicleState", stamp, {"header": header, **state, **wheels})
            noisy = {**dict.fromkeys(state, float("nan")), "yaw_rate": value["yaw_rate"] + rng.normal(0.0, 0.003)}
            bag.write("measured/state", "lfdm_ros/msg/VehicleState", stamp, {"header": header, **noisy, **wheels})
            bag.write("control/command", "lfdm_ros/msg/DriverCommand", stamp,
                      {"header": header, "steering": float(u[0]), "throttle": float(u[1]), "brake": float(u[2])})
    return path


@pytest.fixture(scope="module")
def on_ice(tmp_path_factory) -> Path:
    return recorded(tmp_path_factory.mktemp("ice") / "turn_bag", SHEET)


def test_a_replay_is_on_the_same_ground(tmp_path: Path) -> None:
    """Of a random field by another seed than its file's, with hills: simulated again, each state to the last digit."""
    bag = recorded(tmp_path / "bag", WHOLE, load_ground(WHOLE, seed=9))
    again = find_ground(bag)
    _, simulator, outputs = driven(again)
    place = [simulator.output_index[name] for name in ("x", "y", "yaw", "vx", "vy", "yaw_rate")]
    replayed, series = np.array(outputs)[:, place], read_series(bag, "vehicle/state", ["x", "y", "yaw", "vx", "vy", "yaw_rate"])
    np.testing.assert_array_equal(replayed, series.values)
    level = np.array(driven(None)[2])[:, place]
    assert np.abs(level - replayed)[-1, 0] > 0.2


def test_soils_come_back_with_their_values(tmp_path: Path) -> None:
    document = {"area": AREA, "friction": 1.0, "soil": "dry_sand", "soils": [{"soil": "lete_sand", "polygon": [[0, 0], [9, 0], [9, 9]]}]}
    once = load_ground(document)
    again = load_ground(json.loads(json.dumps(once.document)))
    assert [soil.parameters for soil in again.soils.soils] == [soil.parameters for soil in once.soils.soils]
    np.testing.assert_array_equal(again.soils.cells, once.soils.cells)
    assert again.document == once.document


def test_simulate_takes_a_bag_for_its_ground(on_ice: Path, tmp_path: Path, capsys) -> None:
    (tmp_path / "inputs.txt").write_text("0 0 0 0.9\n1 0 0 0.9\n")
    ends = []
    for extra in ((), ("--ground", str(on_ice))):
        out = tmp_path / f"{len(extra)}.csv"
        assert main(["simulate", "--vehicle", "hmmwv", "--inputs", str(tmp_path / "inputs.txt"), "--initial-speed", "15", "--out", str(out),
                     *extra]) == 0
        lines = out.read_text().splitlines()
        ends.append(float(dict(zip(lines[0].split(","), lines[-1].split(",")))["vx"]))
    assert ends[1] > ends[0] + 1.0
    assert "friction_field" in capsys.readouterr().err


@pytest.mark.parametrize("ground", ["recorded", "file"])
def test_ice_is_no_weak_tyre(on_ice: Path, tmp_path: Path, ground: str) -> None:
    """The stiffness that was driven with is found on the ground it was driven on; on a road it would be off by a tenth and more."""
    (tmp_path / "ice.yaml").write_text(json.dumps(SHEET))
    named = "recorded" if ground == "recorded" else str(tmp_path / "ice.yaml")
    (tmp_path / "recipe.yaml").write_text(quick_recipe("turn"))
    (tmp_path / "icy.yaml").write_text(f"ground: {named}\n" + quick_recipe("turn"))
    recipes = [load_recipe(tmp_path / "icy.yaml"), load_recipe(tmp_path / "recipe.yaml", ground=named),
               load_recipe(tmp_path / "recipe.yaml")]
    found = []
    with pictures.left_out():
        for k, recipe in enumerate(recipes if ground == "recorded" else recipes[:1]):
            result = calibrate(recipe, [on_ice], tmp_path / f"out{k}")
            found.append(result["stages"][0]["parameters"]["cornering_stiffness_front"]["mean"])
    own = HMMWV.parameters["cornering_stiffness_front"]
    assert found[0] == pytest.approx(own, rel=0.02)
    if ground == "recorded":
        assert found[1] == pytest.approx(found[0], rel=1e-6) and abs(found[2] / own - 1.0) > 0.1
        assert "friction_field" not in (tmp_path / "out0" / "vehicle.yaml").read_text()
        with pictures.left_out():
            errors = [predict(on_ice, tmp_path / f"p{k}", vehicle=HMMWV, ground=on)["rmse_by_topic"]["vehicle/state"]["yaw_rate"]
                      for k, on in enumerate(("recorded", ""))]
        assert errors[0] < 1e-3 < errors[1]


def test_what_holds_no_ground_is_named(bags, tmp_path: Path, on_ice: Path) -> None:
    with pytest.raises(InputError, match="holds no ground/document: recorded on no ground, or without that topic; name the ground"):
        find_ground(bags["turn"])
    with pytest.raises(InputError, match="its ground is as it was recorded; leave the seed out"):
        find_ground(on_ice, seed=3)
    with BagWriter(tmp_path / "bad", storage="mcap", recording="bad") as bag:
        bag.write("ground/document", "std_msgs/msg/String", 0, {"data": '{"area": 3, "friction": 1}'})
    with pytest.raises(InputError, match="bad: ground/document: ground: area: expected a mapping"):
        find_ground(tmp_path / "bad")
    (tmp_path / "recipe.yaml").write_text("ground: icy\n" + quick_recipe("turn"))
    with pytest.raises(InputError, match=r"recipe\.yaml: ground: no grounds file 'icy'"):
        load_recipe(tmp_path / "recipe.yaml")
