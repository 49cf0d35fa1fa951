"""What docs/howto/extending.md promises, from a folder outside the package."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import domains
import numpy as np
import pytest
import yaml

from lfdm_ros.bags import read_series
from lfdm_ros.vehicles import load_vehicle

ROOT = Path(__file__).resolve().parents[2]
PATH = os.pathsep.join(sys.path)  # of processes: the messages of a ROS workspace are beside the source tree
ROLLING = """
model: eight_dof
vehicle: hmmwv
step: {value: 5, unit: ms}
stages:
  - name: rolling
    recording: coast_down
    window: [0.5, 1.0]
    parameters: {rolling_resistance: {prior: uniform, lower: 0.005, upper: 0.03, unit: m}}
    channels: {vx: {topic: vehicle/state, noise: {prior: log_normal, median: 0.02, log_sd: 0.5, unit: m/s}}}
"""


# Commands one after the other, in one process.
ALL = "import json, sys; from lfdm_ros.cli.main import main; sys.exit(max(map(main, json.loads(sys.argv[1]))))"
DECODER = json.JSONDecoder()  # of what a command has printed before something else
STARTING = "import sys; from lfdm_ros.starting import start; del sys.argv[0]; sys.exit(start(sys.argv[0]))"


@pytest.fixture
def outside(tmp_path):
    """A folder with a copy of an example and nothing else; returns run(example, *arguments of lfdm), which ends with `status`."""
    def run(example: str, *arguments: object, code: str = "from lfdm_ros.cli.main import main; raise SystemExit(main())", status: int = 0):
        shutil.copy(ROOT / "examples" / example, tmp_path)
        environment = {**os.environ, "LFDM_PLUGINS": str(tmp_path / example), "PYTHONPATH": PATH}
        done = subprocess.run([sys.executable, "-c", code, *map(str, arguments)], cwd=tmp_path, env=environment, capture_output=True,
                              text=True, check=False)
        assert done.returncode == status, done.stdout + done.stderr
        return done

    return run


def vehicle_with(path: Path, section: str, **values: tuple[float, str]) -> Path:
    """The HMMWV's file with more keys in a section, (value, unit) each."""
    document = yaml.safe_load((ROOT / "config" / "vehicles" / "hmmwv.yaml").read_text())
    document[section] |= {key: {"value": value, "unit": unit, "source": "an example"} for key, (value, unit) in values.items()}
    path.write_text(yaml.safe_dump(document))
    return path


def with_dugoff(path: Path) -> Path:
    vehicle_with(path, "tyre", dugoff_friction_reduction=(0.015, "s/m"))
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | {"default_tyre": "dugoff"}))
    return path


def test_a_tyre_in_one_file(outside, tmp_path):
    """By name in a vehicle file, in `lfdm models` and `lfdm simulate`; it steers as the Fiala tyre does while it is not used up."""
    vehicle = with_dugoff(tmp_path / "mine.yaml")
    (tmp_path / "inputs.txt").write_text("0 0 0.3 0\n2 0 0.3 0\n2.5 0.05 0.3 0\n6 0.05 0.3 0\n")
    done = outside("dugoff_tyre.py", json.dumps([["models", "eight_dof/dugoff", "--json"], *(
        ["simulate", "--vehicle", str(vehicle), "--model", "eight_dof", "--tyre", tyre, "--inputs", "inputs.txt", "--out", f"{tyre}.csv"]
        for tyre in ("dugoff", "fiala"))]), code=ALL)
    assert "dugoff" in DECODER.raw_decode(done.stdout)[0][0]["parts"]["tyre"]
    rows = {tyre: np.genfromtxt(tmp_path / f"{tyre}.csv", delimiter=",", names=True) for tyre in ("dugoff", "fiala")}
    assert rows["dugoff"]["yaw_rate"][-1] == pytest.approx(rows["fiala"]["yaw_rate"][-1], rel=0.1)
    assert abs(rows["dugoff"]["yaw_rate"][-1] - rows["fiala"]["yaw_rate"][-1]) > 1e-5


def test_a_tyre_with_camber_and_an_aligning_moment(outside, tmp_path):
    """An aligning moment resists the turn; the body's roll tilts the wheels of the 24-DOF chassis, those of the 8-DOF stay upright."""
    (tmp_path / "inputs.txt").write_text("0 0 0.3 0\n2 0 0.3 0\n2.5 0.05 0.3 0\n6 0.05 0.3 0\n")
    runs = {}
    for case, (camber, trail) in {"plain": (0.0, 0.0), "trail": (0.0, 0.06), "camber": (4000.0, 0.0)}.items():
        vehicle = vehicle_with(tmp_path / f"{case}.yaml", "tyre", camber_stiffness=(camber, "N/rad"), pneumatic_trail=(trail, "m"))
        runs |= {(model, case): ["simulate", "--vehicle", str(vehicle), "--model", model, "--tyre", "camber_tyre", "--inputs", "inputs.txt",
                                 "--out", f"{model}_{case}.csv"] for model in ("eight_dof", "twenty_four_dof")}
    outside("camber_tyre.py", json.dumps(list(runs.values())), code=ALL)
    turns = {key: np.genfromtxt(tmp_path / run[-1], delimiter=",", names=True)["yaw_rate"][-1] for key, run in runs.items()}
    for model in ("eight_dof", "twenty_four_dof"):
        assert 0.9 < turns[model, "trail"] / turns[model, "plain"] < 0.995
    assert turns["eight_dof", "camber"] == turns["eight_dof", "plain"]
    assert abs(turns["twenty_four_dof", "camber"] - turns["twenty_four_dof", "plain"]) > 1e-4


def test_a_tyre_from_outside_in_batches_derivatives_and_the_controller(outside, tmp_path):
    vehicle = with_dugoff(tmp_path / "mine.yaml")
    outside("dugoff_tyre.py", vehicle, code="""
import sys
import numpy as np
from lfdm_ros.control import Controller, Settings
from lfdm_ros.simulation import BatchRollout, forward_sensitivity, initial_state
from lfdm_ros.vehicles import load_vehicle, save_vehicle
vehicle = load_vehicle(sys.argv[1])
save_vehicle(vehicle, "again.yaml")
assert load_vehicle("again.yaml") == vehicle
times = np.linspace(0.0, 2.0, 21)
common = dict(model="eight_dof", vehicle=vehicle, dt=0.001, times=times, inputs=np.tile([0.1, 0.2, 0.0], (21, 1)), channels=["yaw_rate"])
x0 = initial_state("eight_dof", vehicle, vx=15.0)
name, h = "dugoff_friction_reduction", 1e-5
value = vehicle.parameters[name]
runs = BatchRollout(parameters=[name], **common).trajectories([[value - h], [value], [value + h]], x0)
slope = forward_sensitivity(parameters=[name], x0=x0, method="exact", **common).sensitivities[-1, 0, 0]
print(slope, (runs[2, -1, 0] - runs[0, -1, 0]) / (2.0 * h))
assert slope != 0.0 and abs(slope - (runs[2, -1, 0] - runs[0, -1, 0]) / (2.0 * h)) < 1e-4 * abs(slope)
controller = Controller(vehicle, Settings(model="eight_dof", time_budget=0.0))
print(controller.cycle(0.0).outcome)
""")


def test_a_powertrain_in_one_file(outside, tmp_path):
    """In the slot of a chassis, in the unit of the file; two times its power is what drives the vehicle."""
    vehicle = vehicle_with(tmp_path / "mine.yaml", "powertrain", hub_motor_torque=(3000.0, "N*m"), hub_motor_power=(60.0, "kW"))
    (tmp_path / "inputs.txt").write_text("0 0 1 0\n15 0 1 0\n")
    outside("hub_motors.py", "simulate", "--vehicle", vehicle, "--model", "eight_dof/hub_motors", "--inputs", "inputs.txt", "--out",
                   "run.csv")
    run = np.genfromtxt(tmp_path / "run.csv", delimiter=",", names=True)
    # Less what slips and what rolling takes of the wheels; the front ones roll freely, so their speed is that of the ground.
    part, p = run[1000:1401], load_vehicle("hmmwv").parameters
    mass = p["sprung_mass"] + p["unsprung_mass_front"] + p["unsprung_mass_rear"]
    front, rear = part["omega_fl"], part["omega_rl"]
    spent = 120e3 * (front / rear).mean() - mass * 9.81 * p["rolling_resistance"] * front.mean()
    energy = 0.5 * mass * part["vx"] ** 2 + p["wheel_inertia"] * (front ** 2 + rear ** 2)
    assert (energy[-1] - energy[0]) / (part["time"][-1] - part["time"][0]) == pytest.approx(spent, rel=0.05)  # the radii differ under load


def test_a_ground_in_one_file(outside, tmp_path):
    """By name in a vehicle file and a command; energy pays for the hill, and ice on one side turns a braked vehicle to the other."""
    vehicle = tmp_path / "mine.yaml"
    document = yaml.safe_load((ROOT / "config" / "vehicles" / "hmmwv.yaml").read_text())
    values = {"hill_height": (2.0, "m"), "hill_length": (120.0, "m"), "ice_friction": (0.1, "1"), "crest_wind": (0.0, "N")}
    document["ground"] = {key: {"value": value, "unit": unit, "source": "an example"} for key, (value, unit) in values.items()}
    document["tyre"]["rolling_resistance"]["value"] = 1e-4
    vehicle.write_text(yaml.safe_dump(document))
    done = outside("hilly_ground.py", vehicle, code="""
import sys
import numpy as np
from lfdm_ros.simulation import Simulator
from lfdm_ros.vehicles import load_vehicle
vehicle = load_vehicle(sys.argv[1]).replace(**{f"motor_torque_{i}": 0.0 for i in range(6)})
for model in ("eight_dof/hills", "driven_bicycle/hills"):
    simulator = Simulator(vehicle, model)
    simulator.reset(vx=12.0, y=-5.0)
    crest = 0.0
    for k in range(500):
        simulator.advance([0, 0, 0], [0, 0, 0], 20)
        out = dict(zip(simulator.output_names, simulator.outputs))
        if out["x"] < 60.0:
            crest = out["vx"]
    print(crest)
simulator = Simulator(vehicle, "twenty_four_dof/fiala/hills")
simulator.reset(vx=12.0)
simulator.advance([0, 0, 0.6], [0, 0, 0.6], 400)
print(dict(zip(simulator.output_names, simulator.outputs))["yaw_rate"])
""")
    eight, bicycle, yaw_rate = map(float, done.stdout.split())
    # Over a hill of 2 m: v^2 falls by 2 g h, less a share of the wheels' inertia.
    for speed in (eight, bicycle):
        assert speed ** 2 == pytest.approx(12.0 ** 2 - 2.0 * 9.80665 * 2.0, rel=0.03)
    assert yaw_rate < -0.01  # to the right, where the grip is


CONTROLLED = """
import json
import numpy as np
from lfdm_ros.simulation.path import Path
from lfdm_ros.control.ocp.planner import Planner
from lfdm_ros.control.routing.routes import Reference
from lfdm_ros.control.settings import Settings
from lfdm_ros.control.safety.stops import Stops, curve_of
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.simulation import initial_state
from lfdm_ros.vehicles import load_vehicle
ICE, SPEED = 0.3, 15.0
LEVEL = load_vehicle("hmmwv").replace(hill_height=0.0, hill_length=100.0, ice_friction=ICE, crest_wind=0.0)
across = Obstacles(np.array([[40.0, 0.0]]), np.array([20.0]), np.zeros((1, 2)), 0.0)
x = np.linspace(0.0, 120.0, 49)
def judged(ground, side, to, **changes):
    vehicle, settings = LEVEL.replace(**changes), Settings(model=f"driven_bicycle/{ground}", time_budget=0.0)
    stops, curve = Stops(settings, vehicle), curve_of(x, np.full(49, side), np.zeros(49)).shifted(to - side, 5.0, 25.0)
    state = initial_state(settings.model, vehicle, y=side, vx=SPEED)
    planner, path = Planner(vehicle, settings), Path(np.array([[0.0, side], [400.0, side]]))
    plan, slow = planner.trajectory, Reference(path, np.full(len(path.s), 2.0), 40.0)
    z0 = np.concatenate([state, np.zeros(len(plan.names) - len(state))])
    planner.start(z0, slow)
    solved = planner.plan(z0, slow, None, 0.0, 8).solved
    return dict(hit=stops.evaluate(curve, state, (0.0, 0.0), None, 0.0, across, 0.2).speed, brake=-stops.command(curve, state)[1],
                held=stops.hardest_pedal(state), planned=-float(plan.column("ax")[2:].min()) if solved else 0.0)
print(json.dumps([judged("hills", 5.0, 5.0), judged("plane", 5.0, 5.0, friction_scale=ICE),
                  judged("hills", -5.0, -5.0), judged("plane", -5.0, -5.0, friction_scale=1.0), judged("hills", -5.0, 5.0)]))
"""
SHARED = """
from lfdm_ros.control.plan import Plan
from lfdm_ros.sharing.components import front_slip, saturation
from lfdm_ros.sharing.gate import OutputGate
from lfdm_ros.sharing.sharing_settings import SharingSettings
NAMES = ("x", "y", "yaw", "vx", "vy", "yaw_rate", "ax", "ay")
def judged(ground, y, **changes):
    vehicle, settings = LEVEL.replace(**changes), SharingSettings(forecast_model=f"driven_bicycle/{ground}")
    gate = OutputGate(vehicle, settings)
    gate.set_motion(15.0, 0.0, 0.0, (0.0, y, 0.0))
    plan = Plan(NAMES, np.array([0.0, 1.0]), np.array([[0.0, y, 0.0, 15.0, 0.4, 0.1, 0.0, 2.0]] * 2), np.zeros((2, 3)))
    return dict(lock=gate.max_steering(15.0), slip=float(front_slip(plan, vehicle, settings.forecast_model)[0]), brake=gate.max_brake(),
                used=float(saturation(plan, vehicle, settings.forecast_model)[0]))
print(json.dumps([judged("hills", 9.0), judged("plane", 9.0, friction_scale=ICE), judged("hills", -9.0),
                  judged("plane", -9.0, friction_scale=1.0)]))
"""


def test_controller_and_shared_control_go_by_the_friction_of_a_ground_in_one_file(outside):
    """On its icy half as on a plane of that friction, on the other as on a dry one, and in a stop as on what lies under its way; of
    shared control gate and demand."""
    controlled, shared = map(json.loads, outside("hilly_ground.py", code=CONTROLLED + SHARED).stdout.splitlines())
    for ice, slippery, dry, grippy, *_ in (controlled, shared):
        for found, expected in ((ice, slippery), (dry, grippy)):
            assert found == {name: pytest.approx(value, rel=1e-3) for name, value in expected.items()}
    ice, _, dry, _, crossing = controlled
    assert dry["planned"] > 1.5 * ice["planned"] and dry["held"] > 1.5 * ice["held"] and dry["brake"] > 1.5 * ice["brake"]
    assert ice["hit"] - 0.5 > crossing["hit"] > dry["hit"] + 0.5 > 5.0
    ice, _, dry, _ = shared
    assert dry["lock"] > 2.0 * ice["lock"] and ice["slip"] > 2.0 * dry["slip"] and ice["used"] > 2.0 * dry["used"]


def test_a_vehicle_with_six_wheels_in_one_file(outside, tmp_path):
    """Statics, a straight start, a steady bend and a ground for each of six wheels; its motor drives all of them."""
    vehicle = vehicle_with(tmp_path / "mine.yaml", "chassis", cg_to_middle_axle=(0.4, "m"))
    done = outside("six_by_six.py", vehicle, code="""
import json, sys
from lfdm_ros.simulation import Simulator
from lfdm_ros.vehicles import load_vehicle
vehicle = load_vehicle(sys.argv[1]).replace(unsprung_load_share=1.0)
runs = {}
for name, driver, speed, met in (("rest", [0, 0, 0], 0.0, {}), ("start", [0, 0.4, 0], 5.0, {}), ("bend", [0.1, 0.1, 0], 8.0, {}),
                                 ("ice", [0, 0, 0.8], 12.0, {"ground_friction_ml": 0.1, "ground_friction_rl": 0.1})):
    simulator = Simulator(vehicle, "six_by_six/fiala" + ("/given_ground" if met else ""))
    simulator.reset(vx=speed)
    simulator.meet(**met)
    simulator.advance(driver, driver, {"rest": 100, "ice": 300}.get(name, 4000))
    runs[name] = dict(zip(simulator.output_names, simulator.outputs.tolist()))
json.dump([runs, dict(vehicle.parameters)], sys.stdout)
print()
from lfdm_ros.backends import casadi_model
from lfdm_ros.cli.main import main
from lfdm_ros.models import get_model
main(["models", "six_by_six", "--json"])
casadi_model(get_model("six_by_six/fiala/gearbox"))
""", status=1)
    first, _, second = done.stdout.partition("\n")
    runs, p = json.loads(first)
    wheels, rest = ("fl", "fr", "ml", "mr", "rl", "rr"), runs["rest"]
    mass = p["sprung_mass"] + p["unsprung_mass_front"] + 2.0 * p["unsprung_mass_rear"]
    places = {"f": p["cg_to_front_axle"], "m": -0.4, "r": -p["cg_to_rear_axle"]}
    assert sum(rest[f"tyre_fz_{w}"] for w in wheels) == pytest.approx(mass * 9.80665, rel=1e-9)
    unsprung = p["unsprung_mass_front"] * places["f"] + p["unsprung_mass_rear"] * (places["m"] + places["r"])
    assert sum(places[w[0]] * rest[f"tyre_fz_{w}"] for w in wheels) == pytest.approx(unsprung * 9.80665, rel=1e-9)
    # Newton along and about the vertical, from the reported forces of six wheels; and the load that they take from the front.
    start, bend = runs["start"], runs["bend"]
    assert sum(start[f"tyre_fx_{w}"] for w in wheels) == pytest.approx(mass * start["ax"], rel=0.01)
    assert all(start[f"tyre_fx_{w}"] > 50.0 and start[f"omega_{w}"] > 10.0 for w in wheels)
    assert start["tyre_fz_fl"] < rest["tyre_fz_fl"] and start["tyre_fz_rl"] > rest["tyre_fz_rl"]
    assert bend["yaw_rate"] > 0.02 and bend["ay"] == pytest.approx(bend["yaw_rate"] * bend["vx"], rel=0.02)
    assert sum(bend[f"tyre_fz_{w}"] for w in wheels if w[1] == "r") > sum(bend[f"tyre_fz_{w}"] for w in wheels if w[1] == "l")
    # The middle axle is dragged across in a bend: of all three, forces across balance about the vertical.
    ice = runs["ice"]
    assert ice["yaw_rate"] < 0.0 and abs(ice["tyre_fx_ml"]) < 0.5 * abs(ice["tyre_fx_mr"])
    # A chassis from outside has no variants for the C++ library's conventions, and offers none.
    assert set(json.loads(second)[0]["parts"]) == {"tyre", "ground", "powertrain", "steering"}
    # A gearbox for two axles says so.
    assert "InputError: a powertrain with a gearbox drives 2 axles or 4 wheels, not 6 wheels" in done.stderr


def test_a_truck_with_ten_wheels_in_the_same_file(outside, tmp_path):
    """Statics and a steady bend of five axles, which share their loads as a beam on equal springs does."""
    places = {"cg_to_axle_2": (-0.5, "m"), "cg_to_axle_3": (0.1, "m"), "cg_to_axle_4": (0.9, "m")}
    vehicle = vehicle_with(tmp_path / "mine.yaml", "chassis", **places)
    done = outside("six_by_six.py", vehicle, code="""
import json, sys
from lfdm_ros.simulation import Simulator
from lfdm_ros.vehicles import load_vehicle
vehicle = load_vehicle(sys.argv[1]).replace(unsprung_load_share=1.0)
simulator = Simulator(vehicle, "five_axles/fiala")
runs = []
for driver, speed, steps in (([0, 0, 0], 0.0, 50), ([0.1, 0.2, 0], 8.0, 4000)):
    simulator.reset(vx=speed)
    simulator.advance(driver, driver, steps)
    runs.append(dict(zip(simulator.output_names, simulator.outputs.tolist())))
json.dump([simulator.model.wheels, runs, dict(vehicle.parameters)], sys.stdout)
""")
    wheels, (rest, bend), p = json.loads(done.stdout)
    assert len(wheels) == 10
    axles = {"f": p["cg_to_front_axle"], "2": 0.5, "3": -0.1, "4": -0.9, "r": -p["cg_to_rear_axle"]}
    unsprung = {name: p["unsprung_mass_front" if name == "f" else "unsprung_mass_rear"] for name in axles}
    loads = {name: rest[f"tyre_fz_{name}l"] + rest[f"tyre_fz_{name}r"] for name in axles}
    mass = p["sprung_mass"] + sum(unsprung.values())
    assert sum(loads.values()) == pytest.approx(mass * 9.80665, rel=1e-9)
    assert sum(axles[name] * load for name, load in loads.items()) == pytest.approx(
        9.80665 * sum(axles[name] * own for name, own in unsprung.items()), rel=1e-9)
    sprung = [loads[name] - 9.80665 * unsprung[name] for name in axles]
    np.testing.assert_allclose(sprung, np.polyval(np.polyfit(list(axles.values()), sprung, 1), list(axles.values())), rtol=1e-6)
    assert bend["yaw_rate"] > 0.01 and bend["ay"] == pytest.approx(bend["yaw_rate"] * bend["vx"], rel=0.02)
    assert all(bend[f"omega_{wheel}"] > 5.0 and bend[f"tyre_fx_{wheel}"] > 10.0 for wheel in wheels)
    assert sum(bend[f"tyre_fz_{wheel}"] for wheel in wheels) == pytest.approx(mass * 9.80665, rel=0.01)


SIX = """
parameters: {vehicle: mine.yaml, scenario: ramp_steer}
nodes:
  - {executable: vehicle_simulator, parameters: {model: six_by_six, stepping: lockstep, speed_factor: 0.0, stop_time: 0.5}}
  - {executable: input_player}
  - {executable: state_sensor, parameters: {noise_wheel_speeds: 0.01, noise_vx: 0.01}}
"""
OF_SIX = ROLLING.replace("eight_dof", "six_by_six").replace("hmmwv", "mine.yaml").replace("[0.5, 1.0]", "[0.0, 0.5]").replace(
    "channels: {", "channels: {omega_ml: {topic: measured/state, noise: {prior: log_normal, median: 0.01, log_sd: 0.5, unit: rad/s}}, ")


def test_six_wheels_in_messages_bags_and_recipes(outside, tmp_path):
    """A stack's node has a message of all of them, a bag and a recipe find each by its name."""
    vehicle_with(tmp_path / "mine.yaml", "chassis", cg_to_middle_axle=(0.4, "m"))
    (tmp_path / "stack.yaml").write_text(SIX)
    (tmp_path / "coasting.yaml").write_text(OF_SIX)
    outside("six_by_six.py", code="""
import numpy as np
from lfdm_ros.bags import read_series
from lfdm_ros.calibration.recipe import load_recipe
from lfdm_ros.inference.dataset import find_recordings, load_segment, windows_of
from lfdm_ros.stacks.compose import run_stack
run_stack("stack.yaml", record="coast_down", timeout=120.0, quiet=True)
wheels = ("fl", "fr", "ml", "mr", "rl", "rr")
def read(topic, field, names=wheels):
    return read_series("coast_down", topic, [field.replace("*", str(name)) for name in names]).values
spins, seen = read("vehicle/state", "speed_by_wheel[*]"), read("measured/state", "speed_by_wheel[*]")
assert len(spins) >= 40 and (spins > 1.0).all(), spins[-1]
np.testing.assert_array_equal(spins[:, [0, 1, 4, 5]], read("vehicle/state", "wheel_speeds[*]", range(4)))
weight = read("vehicle/state", "force_z_by_wheel[*]").sum(axis=1)
np.testing.assert_allclose(weight, weight[0], rtol=1e-6)
# The sensor measures each wheel once, with noise of its own.
np.testing.assert_array_equal(seen[:, [0, 1, 4, 5]], read("measured/state", "wheel_speeds[*]", range(4)))
noise = seen - spins[:len(seen)]
assert 0.005 < noise.std() < 0.02 and np.abs(np.corrcoef(noise.T) - np.eye(6)).max() < 0.7
assert np.isnan(read("measured/state", "force_z_by_wheel[*]")).all()
recipe = load_recipe("coasting.yaml")
segment = recipe.stages[0].segments[0]
data = load_segment(segment, windows_of(segment, find_recordings(["coast_down"]), "")[0], recipe.model, recipe.vehicle, recipe.step)
assert {f"omega_{wheel}" for wheel in wheels} <= set(data.initial)
np.testing.assert_array_equal(data.observed[:, data.channels.index("omega_ml")], seen[:len(data.times), 2])
""")


SAMPLED = """
import sys
import numpy as np
sys.path.insert(0, sys.argv[1])
from problems import Linear, prior, problem
from lfdm_ros.samplers.sampler import get_sampler
from lfdm_ros.cli.main import main
t, noise = np.linspace(0.0, 1.0, 40), 0.2
linear = Linear(np.column_stack([np.ones(40), t]), np.array([0.3, 0.7]), noise)
asked = problem(linear, {"a": prior("normal", mean=0.0, sd=1.0), "b": prior("normal", mean=0.0, sd=1.0)},
                prior("log_normal", median=noise, log_sd=1e-4))
run = get_sampler("ensemble", {"tune": 100, "thin": 10})(asked, draws=1600, chains=2, seed=np.random.SeedSequence(4), report=None)
covariance = np.linalg.inv(linear.gain.T @ linear.gain / noise**2 + np.eye(2))
mean = covariance @ linear.gain.T @ linear.observed / noise**2
draws = np.stack([run.draws["a"].ravel(), run.draws["b"].ravel()])
print("off", np.abs((draws.mean(axis=1) - mean) / np.sqrt(np.diag(covariance))).max(), np.abs(np.cov(draws) / covariance - 1.0).max())
common = ["--sampler", "ensemble", "--option", "walkers=8", "--option", "tune=20", "--option", "thin=2"]
assert main(["sbc", "rolling.yaml", *common, "--seeds", "20", "--draws", "20", "--out", "checked"]) in (0, 1)
assert main(["calibrate", "rolling.yaml", "--bag", "checked/recordings/coast_down", *common, "--draws", "60", "--chains", "2", "--out",
             "mine"]) == 0
"""


def test_a_sampler_in_one_file(outside, tmp_path):
    """It reproduces a Gaussian, calibrates by name with its options, and is judged as the others are."""
    (tmp_path / "rolling.yaml").write_text(ROLLING)
    done = outside("ensemble_sampler.py", ROOT / "test", code=SAMPLED)
    off, spread = map(float, re.search(r"^off (\S+) (\S+)$", done.stdout, re.MULTILINE).groups())
    assert off < 0.15 and spread < 0.25  # of some hundred independent draws
    settings = {"walkers": 8, "tune": 20, "thin": 2}
    assert json.loads((tmp_path / "checked" / "results.json").read_text())["settings"] == settings
    stage = json.loads((tmp_path / "mine" / "summary.json").read_text())["stages"][0]
    assert (stage["sampler"], stage["options"]) == ("ensemble", settings)
    assert "Walkers of one chain learn from each other" in (tmp_path / "mine" / "report.html").read_text()


STACK = """
parameters: {scenario: ramp_steer}
nodes:
  - {executable: vehicle_simulator, parameters: {stepping: lockstep, speed_factor: 0.0, stop_time: 1.0}}
  - {executable: input_player}
  - {executable: sideslip_monitor, parameters: {limit: 0.2}}
"""


def test_a_node_in_one_file(outside, tmp_path):
    """In a stack by its name and with its parameters: in one process, and with a process of its own."""
    (tmp_path / "mine.yaml").write_text(STACK)
    done = outside("sideslip_monitor.py", code="""
import json, os
from lfdm_ros.stacks.compose import run_stack
from lfdm_ros.stacks.stack import load_stack
print(json.dumps({key: value for key, value in run_stack("mine.yaml", timeout=120.0, quiet=True).items() if key.startswith("sideslip")}))
print(load_stack("mine.yaml").nodes[2].program)
""")
    found = json.loads(done.stdout.splitlines()[0])
    assert found["sideslip_states"] >= 90 and 0.0 <= found["sideslip_largest"] < 0.1
    assert done.stdout.splitlines()[1] == "('lfdm_ros.stacks.any_node', 'sideslip_monitor')"
    # What runs a node of its own process takes the name, refuses another, and gives the node's own parameters to it.
    wrong = outside("sideslip_monitor.py", "lfdm_ros.stacks.any_node", "sideslip", code=STARTING, status=2)
    assert "no node 'sideslip' (did you mean 'sideslip_monitor'?)" in wrong.stderr
    wrong = outside("sideslip_monitor.py", "lfdm_ros.stacks.any_node", "sideslip_monitor", "--ros-args", "-p", "limit:=7.0", code=STARTING,
                    status=2)
    assert "limit" in wrong.stderr


ECHOES = """
import json, sys
from lfdm_ros.stacks.compose import run_stack
for stack in sys.argv[1:]:
    found = run_stack(stack, timeout=120.0, quiet=True)
    print(json.dumps({key: value for key, value in found.items() if key.startswith("echoed")}))
"""


def test_a_node_that_takes_any_topic_by_name(outside, tmp_path):
    """At the rate that it asks for, of the node's clock; a topic that nobody publishes has no type."""
    cases = (("odom", 10.0, "nav_msgs/msg/Odometry", range(1, 12)),
             ("vehicle/state", 1000.0, "lfdm_ros/msg/VehicleState", range(20, 102)), ("nowhere", 1.0, "", [0]))
    stacks = [f"{number}.yaml" for number in range(len(cases))]
    for stack, (topic, rate, _, _) in zip(stacks, cases):
        (tmp_path / stack).write_text(STACK.replace("sideslip_monitor, parameters: {limit: 0.2}",
                                                    f"topic_echo, parameters: {{topic: {topic}, rate: {rate}}}").replace(
                                                        "speed_factor: 0.0", "speed_factor: 1.0"))
    lines = outside("topic_echo.py", *stacks, code=ECHOES).stdout.splitlines()
    for line, (_, _, kind, echoed) in zip(lines[-len(cases):], cases, strict=True):
        found = json.loads(line)
        assert found["echoed_type"] == kind and found["echoed"] in echoed


SENSORS = """
from sensor_msgs.msg import Imu, LaserScan, NavSatFix
from lfdm_ros.ros.component import Component
from lfdm_ros.ros.endpoints import subscribes
from lfdm_ros.stacks.stack import register_node
from lfdm_ros.ros import qos

class Listener(Component):
    NAME, PARAMETERS = "listener", ()
    TOPICS = {"ring_front": LaserScan, "ring_rear": LaserScan, "second_lidar": LaserScan, "antenna": NavSatFix, "imu_rear": Imu}
    ENDPOINTS = tuple(subscribes(f"sensors/{name}", kind, qos.STATE, "of the test") for name, kind in TOPICS.items())

    def configure(self):
        self.found = {}
        for name in self.TOPICS:
            self.subscription(f"sensors/{name}", lambda message, name=name: self.take(name, message))

    def take(self, name, message):
        assert message.header.frame_id == name
        self.found.setdefault(name, []).append(message)

    def summary(self):
        return {"found": {name: [len(all_), list(getattr(all_[0], "ranges", [])), getattr(all_[0], "latitude", 0.0)]
                          for name, all_ in self.found.items()}}

register_node(Listener)
"""


def test_a_sensor_in_one_file(outside, tmp_path):
    """Without ROS, and on a running simulator: two rings, and more than one of what ships, by the vehicle's file."""
    document = yaml.safe_load((ROOT / "config" / "vehicles" / "hmmwv.yaml").read_text())
    document.setdefault("sensors", {}).update({
        "ring_front": {"type": "ultrasonic_ring", "x": {"value": 80.0, "unit": "cm"}, "count": 4, "rate": 20.0},
        "ring_rear": {"type": "ultrasonic_ring", "x": {"value": -4.0, "unit": "m"}, "rate": 10.0},
        "second_lidar": {"type": "lidar", "range_max": {"value": 0.05, "unit": "km"}}, "antenna": {"type": "gnss", "rate": 5.0},
        "imu_rear": {"type": "imu", "rate": 50.0}})
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(document))
    (tmp_path / "listener.py").write_text(SENSORS)
    (tmp_path / "stack.yaml").write_text(STACK.replace("sideslip_monitor, parameters: {limit: 0.2}", "listener").replace(
        "scenario: ramp_steer", "scenario: ramp_steer, vehicle: mine.yaml"))
    done = outside("ultrasonic_ring.py", code="""
import json, sys
import numpy as np
from lfdm_ros.sensors import SensorScene, VehicleView, make_sensors
from lfdm_ros.simulation import Circle, World
from lfdm_ros.vehicles import load_vehicle, save_vehicle
vehicle = load_vehicle("mine.yaml")
save_vehicle(vehicle, "again.yaml")
assert load_vehicle("again.yaml").sensor_mounts == vehicle.sensor_mounts and len(vehicle.sensors) == 5
post = Circle(vehicle.sensor_mounts["ring_front"].x + 3.0, 0.0, 1.0)
kind, ring = make_sensors(vehicle, SensorScene(World((post,))))["ring_front"]
measured = ring.measure(VehicleView(0.0, 0.0, 0.0, 0.0))
assert abs(measured[0] - 2.0) < 1e-6 and all(np.isinf(measured[1:]))
sys.path.insert(0, ".")
import listener
from lfdm_ros.stacks.compose import run_stack
print(json.dumps(run_stack("stack.yaml", timeout=120.0, quiet=True)["found"]))
""")
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["ring_front"][0] in range(19, 22) and found["ring_front"][1] == [float("inf")] * 4
    assert found["ring_rear"][0] in range(9, 12) and len(found["ring_rear"][1]) == 6 and len(found["second_lidar"][1]) == 541
    assert found["antenna"][2] == pytest.approx(48.0, abs=1e-3) and found["imu_rear"][0] in range(49, 52)


def test_a_controller_in_one_file(tmp_path):
    """Beside the stack `vehicle`, with another vehicle than its own, in lockstep: a busy machine takes longer and drives the same."""
    environment = {**os.environ, "ROS_DOMAIN_ID": str(domains.other()), "PYTHONPATH": PATH}
    driver = subprocess.Popen([sys.executable, str(ROOT / "examples" / "own_controller.py")], cwd=tmp_path, env=environment)
    try:
        done = subprocess.run([sys.executable, "-m", "lfdm_ros.cli", "up", "vehicle", "--set", "vehicle=sedan", "--set",
                               "vehicle_simulator.stepping=lockstep", "--speed", "0", "--duration", "20", "--record", "drive"],
                              cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=500)
    finally:
        driver.send_signal(signal.SIGINT)
        assert driver.wait(timeout=60) == 0
    assert done.returncode == 0, done.stderr
    x, y, vx = read_series(tmp_path / "drive", "vehicle/state", ["x", "y", "vx"]).values.T
    assert np.abs(np.hypot(x, y - 30.0)[-500:] - 30.0).max() < 0.6 and vx[-1] == pytest.approx(8.0, abs=0.8)


def test_a_whole_model_in_one_file(outside, tmp_path):
    """Its yaw rate comes later than without a relaxation length, and to the same value."""
    vehicle = vehicle_with(tmp_path / "mine.yaml", "chassis", relaxation_length=(1.0, "m"))
    (tmp_path / "inputs.txt").write_text("0 0.05 0 0\n8 0.05 0 0\n")
    done = outside("relaxed_single_track.py", vehicle, code="""
import sys
import numpy as np
from lfdm_ros.simulation import Simulator
from lfdm_ros.vehicles import load_vehicle
vehicle = load_vehicle(sys.argv[1]).replace(unsprung_mass_front=0.0, unsprung_mass_rear=0.0)
for name in ("relaxed_single_track", "linear_single_track"):
    simulator = Simulator(vehicle, name)
    simulator.reset(vx=10.0)
    for k in range(80):
        simulator.advance([0.05, 0, 0], [0.05, 0, 0], 100)
        if k in (0, 79):
            print(simulator.outputs[simulator.output_index["yaw_rate"]])
""")
    early, late, early_simple, late_simple = map(float, done.stdout.split())
    assert 0.0 < early < 0.8 * early_simple and late == pytest.approx(late_simple, rel=1e-3)


@pytest.mark.parametrize("text, words", [
    ("raise ValueError('no')", "LFDM_PLUGINS"),
    ("from lfdm_ros.stacks.stack import register_node\nregister_node(int)", "is no node"),
    ("from lfdm_ros.models import SLOTS, register_part\nregister_part('wheel', SLOTS['tyre']['fiala'])", "slot 'wheel'"),
    ("from dataclasses import replace\nfrom lfdm_ros.models import SLOTS, register_part\n"
     "register_part('tyre', replace(SLOTS['tyre']['fiala'], description='another'))", "registered already"),
    ("from lfdm_ros.models import Field, Part, register_part\n"
     "register_part('tyre', Part('mine', '', (Field('wheel_radius', 'mm', 'radius'),), None))", "wheel_radius")])
def test_a_plug_in_that_fails_is_one_line(tmp_path, text, words):
    (tmp_path / "bad.py").write_text(text)
    done = subprocess.run([sys.executable, "-c", "from lfdm_ros.cli.main import main; raise SystemExit(main())", "models", "eight_dof"],
                          env={**os.environ, "LFDM_PLUGINS": str(tmp_path / "bad.py"), "PYTHONPATH": PATH}, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 2 and words in done.stderr and "bad.py" in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


@pytest.mark.parametrize("mind", ["pursuit", "actr"])
def test_a_mind_of_an_operator_in_one_file(outside, tmp_path, mind):
    """By name, in a lane change at a speed that it can drive; a node would take it by the same name."""
    if mind == "actr":
        pytest.importorskip("pyactr", reason="the example needs pyactr, which this package does not")
    (tmp_path / "bend.yaml").write_text("path: [[0, 0], [20, 0], [40, 1.5], [60, 1.5], [80, 1.5]]\nspeed: 8.0\ninitial: {speed: 8.0}\n"
                                        "duration: 15.0\n")
    done = outside(f"{mind}_operator.py", "drive", "bend.yaml", "--driver", "operator", "--set", f"cognition={mind}", "--model",
                   "eight_dof", "--json")
    run = json.loads(done.stdout)
    assert run["reached"] < 12.0 and run["largest_error"] < 0.6 and run["outcomes"]["SOLVED"] > 800


BATCHES = """
import os
import numpy as np
from lfdm_ros.errors import InputError
from lfdm_ros.simulation import BatchRollout, initial_state
from lfdm_ros.vehicles import load_vehicle

vehicle, times = load_vehicle("hmmwv"), np.arange(0.0, 1.01, 0.05)
driven = np.column_stack([0.2 * np.sin(4.0 * times), 0.3 + 0.0 * times, 0.0 * times])
observed = np.where(times[:, None] > 0.5, 1.0, np.nan) + np.zeros((1, 3))
radii = np.linspace(0.44, 0.48, 5)[:, None]
for model, prescribed, hold in (("eight_dof/fiala", (), False), ("eight_dof/tmeasy_nr", ("vx",), False),
                                ("twenty_four_dof", ("vx",), True)):
    inputs = np.column_stack([driven, 10.0 + times]) if prescribed else np.repeat(driven[None], 5, axis=0)
    made = []
    for backend in ("cpu", "numpy"):
        os.environ["LFDM_BACKEND"] = backend
        batch = BatchRollout(model=model, vehicle=vehicle, dt=5e-3, times=times, inputs=inputs, parameters=["wheel_radius"],
                             channels=["y", "yaw_rate", "vx"], hold=hold, prescribed=prescribed)
        start = initial_state(batch.model, vehicle, vx=10.0)
        made.append((batch.trajectories(radii, start), batch.squared_errors(radii, start, observed)))
    (one, sums), (other, sums_too) = made
    assert np.ptp(one[:, -1, 0]) > 1e-4
    print(np.abs(one - other).max(), np.abs(sums / sums_too - 1.0).max())
try:
    os.environ["LFDM_BACKEND"] = "numpi"
    BatchRollout(model="eight_dof", vehicle=vehicle, dt=5e-3, times=times, inputs=driven, parameters=[], channels=["x"])
except InputError as error:
    print(error)
"""


def test_a_back_end_for_batches_in_one_file(outside):
    """The same vehicles on NumPy's arrays: a processor's vectors give the same to a few units of the last place."""
    done = outside("numpy_backend.py", code=BATCHES)
    *differences, unknown = done.stdout.splitlines()
    assert len(differences) == 3 and max(float(number) for line in differences for number in line.split()) < 1e-12
    assert unknown == "LFDM_BACKEND: back end 'numpi' is unknown (did you mean 'numpy'?); choose one of: cpu, gpu, auto, numpy"


SHARES = """
import numpy as np
from lfdm_ros.control.prediction import Measured
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.sharing.risk import RiskRollouts, RiskSettings
from lfdm_ros.sharing.sharing_settings import SharingSettings
from lfdm_ros.sharing.situation import StampedCommand, Situation
from lfdm_ros.sharing.threat import RULES
from lfdm_ros.vehicles import load_vehicle

law = SharingSettings(law="smooth", rule="mean", engage=0.2, full=0.8, hysteresis=0.0).law_of()
print(*(round(law.k(threat), 6) for threat in (0.2, 0.35, 0.5, 0.8)), RULES["mean"].combine([0.2, float("nan"), 0.4]))
vehicle = load_vehicle("hmmwv")
state = dict(x=0.0, y=0.0, yaw=0.0, vx=15.0, vy=0.0, yaw_rate=0.0, roll=0.0, roll_rate=0.0) | {
    f"omega_{wheel}": 15.0 / vehicle.parameters["wheel_radius"] for wheel in ("fl", "fr", "rl", "rr")}
post = Obstacles(np.array([[38.0, 6.0]]), np.array([1.0]), np.zeros((1, 2)), 0.0)
for intention in ("held", "fading"):
    rollouts = RiskRollouts(vehicle, RiskSettings(intention=intention, rollouts=64, first_rollouts=64, clear=0.0, tyres="own"))
    seen = Situation(0.0, vehicle, Measured(0.0, state), (), StampedCommand(0.0, 0.06, 0.2, 0.0), None, None, post)
    print(rollouts.assess(seen).operator.collision.value)
"""


# Prints the largest errors of the Jacobian rows of both terms, then of drives past the area the clearance [m], the RMS lateral jerk
# [m/s^3], the names in their outcomes and the cycles that are solved.
TERMS_DRIVEN = """
import json
import numpy as np
from lfdm_ros.control import Controller, Measured, Path, Reference, Settings
from lfdm_ros.simulation import Simulator
from lfdm_ros.vehicles import load_vehicle

VEHICLE, PATH = load_vehicle("hmmwv"), Path(np.array([[-20.0, 0.0], [120.0, 0.0]]))
NAMES = ("x", "y", "yaw", "vx", "vy", "yaw_rate", "ax", "ay")

def derivatives(planner):
    start = np.zeros(len(planner.layout.states))
    start[[planner.layout.states.index(name) for name in ("x", "y", "yaw", "vx", "vy", "steering")]] = 28.0, 0.4, 0.07, 12.0, 0.1, 0.05
    reference, program, t = Reference(PATH, np.full(len(PATH.s), 12.0), 12.0), planner.program, planner.trajectory
    planner.start(start, reference)
    t.z[:, t.place["pedal"]] = 0.1  # away from the kink between throttle and brake
    planner.set_stages(reference, None, 0.0)
    program.linearise(reference)
    layout, first, n = planner.layout, program.residuals.start, t.z.shape[1]
    rows = [first + [term.name for term in layout.terms].index("lateral_jerk"),
            program.rows.start + [constraint.name for constraint in layout.constraints].index("keep_out")]
    worst = [0.0, 0.0]
    for k in range(0, len(t.z) - 1, 4):
        def value(v):
            found = np.array(program.function(v[:n], v[n:], program.p, program.k, planner.stages.c[k])).ravel()
            return found[rows]
        at = np.concatenate([t.z[k], t.w[k]])
        for i in range(len(at)):
            step = np.zeros(len(at))
            step[i] = 1e-5
            slope = (value(at + step) - value(at - step)) / 2e-5
            error = np.abs(program.jacobian[k, rows, i] - slope) / (1.0 + np.abs(slope))
            worst = np.maximum(worst, error).tolist()
    assert np.abs(program.jacobian[:, rows]).max(axis=(0, 2)).min() > 0.5
    return worst

def drive(terms, solver="hpipm"):
    controller = Controller(VEHICLE, Settings(time_budget=0.0, terms=terms, solver=solver))
    found = derivatives(controller.planner) if terms.count(",") and solver == "hpipm" else None
    simulator = Simulator(VEHICLE, "driven_bicycle", 0.01)
    simulator.reset(vx=12.0)
    controller.reset()
    controller.follow(PATH, 12.0)
    index, rows, names, solved = [simulator.output_index[name] for name in NAMES], [], set(), 0
    for k in range(250):
        values = simulator.outputs[index].tolist()
        cycle = controller.cycle(0.02 * k, Measured(0.02 * k, dict(zip(NAMES, values))))
        rows.append(values)
        names |= {*cycle.active, *cycle.cost_terms}
        solved += cycle.outcome.name == "SOLVED"
        simulator.advance(cycle.command, cycle.command, 2)
    x, y, ay = np.array(rows)[:, [0, 1, 7]].T
    near = (x + VEHICLE.footprint.front > 35.0) & (x - VEHICLE.footprint.rear < 45.0)
    jerk = np.sqrt((np.diff(ay / 0.02) ** 2).mean())
    return found, float((y[near] - VEHICLE.footprint.half_width + 0.5).min()), float(jerk), sorted(names), solved

print(json.dumps([drive(""), drive("keep_out"), drive("keep_out, lateral_jerk=0.2"), drive("keep_out=inf"), drive("keep_out=inf", "piqp")]))
from lfdm_ros.control import Term, register_mpc_term
from lfdm_ros.errors import InputError
register_mpc_term(Term("speed", lambda m, stage: stage.z.vx, 1.0))
for terms in ("lateral_jerl", "keep_out=much", "keep_out, keep_out", "speed"):
    try:
        Controller(VEHICLE, Settings(terms=terms))
    except InputError as error:
        print(error)
"""


def test_terms_of_the_optimal_control_problem_in_one_file(outside):
    """Exact derivatives, against central differences; and the closed loop keeps out of the area, soft and hard, and with less jerk."""
    done = outside("comfort_terms.py", code=TERMS_DRIVEN)
    driven, unknown, number, twice, taken = done.stdout.splitlines()
    plain, kept, smooth, hard, other = json.loads(driven)
    assert plain[1] < -0.5 and "keep_out" not in plain[3]
    assert all(drive[1] > 0.25 and "keep_out" in drive[3] for drive in (kept, smooth, hard, other))
    assert "lateral_jerk" in smooth[3] and smooth[2] < 0.3 * kept[2]
    assert max(smooth[0]) < 1e-6, smooth[0]
    # Only a hard row that cannot be kept leaves a cycle without a plan.
    assert plain[4] == kept[4] == smooth[4] == 250 and min(hard[4], other[4]) > 225
    assert "lateral_jerk" in unknown and "0 or more" in number and "'keep_out' already" in twice and "'speed' already" in taken


def test_laws_rules_and_intentions_of_sharing_in_one_file(outside):
    """A cubic k, the mean of the threats, and an operator whose held command hits a post that its fading one passes."""
    done = outside("own_sharing.py", code=SHARES)
    shares, held, fading = done.stdout.splitlines()
    assert [float(number) for number in shares.split()] == pytest.approx([0.0, 0.15625, 0.5, 1.0, 0.3])
    assert float(held) > 0.9 > 0.1 > float(fading)


PACKAGE = {  # group of entry points: module, names of what it has
    "tyres": ("dugoff_tyre", ["DUGOFF"]), "powertrains": ("hub_motors", ["HUB_MOTORS"]), "grounds": ("hilly_ground", ["HILLS"]),
    "models": ("six_by_six", ["SIX_BY_SIX", "FIVE_AXLES"]), "samplers": ("ensemble_sampler", ["ENSEMBLE"]),
    "operators": ("pursuit_operator", ["PURSUIT"]), "threats": ("brake_threat", ["Brake"]),
    "sensors": ("ultrasonic_ring", ["RING"]), "backends": ("numpy_backend", ["NUMPY"]),
    "mpc_terms": ("comfort_terms", ["JERK", "SITE"]),
    "laws": ("own_sharing", ["SMOOTH"]), "threat_rules": ("own_sharing", ["MEAN"]), "intentions": ("own_sharing", ["FADING"]),
    "nodes": ("sideslip_monitor", ["SideslipMonitor"]),
}
FOUND = """
from lfdm_ros.backends import BACKENDS
from lfdm_ros.models import SLOTS, model_names
from lfdm_ros.stacks.stack import executables
from lfdm_ros.samplers.sampler import SAMPLERS
from lfdm_ros.sharing.components import COMPONENTS
from lfdm_ros.sharing.intentions import INTENTIONS
from lfdm_ros.sharing.laws import LAWS
from lfdm_ros.sharing.threat import RULES
from lfdm_ros.sensors import SENSORS
from lfdm_ros.teleop.cognition import OPERATORS
from lfdm_ros.control.ocp.terms import MPC_TERMS
print({"dugoff"} <= SLOTS["tyre"].keys(), {"hub_motors"} <= SLOTS["powertrain"].keys(), {"hills"} <= SLOTS["ground"].keys(),
      {"six_by_six", "five_axles"} <= set(model_names()), SAMPLERS.find("ensemble").name == "ensemble",
      "pursuit" in OPERATORS, "brake" in COMPONENTS, "numpy" in BACKENDS, "ultrasonic_ring" in SENSORS,
      {"lateral_jerk", "keep_out"} <= MPC_TERMS.keys(), "smooth" in LAWS, "mean" in RULES, "fading" in INTENTIONS,
      "sideslip_monitor" in executables())
"""


def test_all_that_an_installed_package_names_in_its_entry_points(tmp_path):
    """Objects in entry points, without a call that registers them, and no LFDM_PLUGINS."""
    groups = []
    for group, (module, names) in PACKAGE.items():
        text = (ROOT / "examples" / f"{module}.py").read_text()
        text, count = re.subn(r"^register_operator\((.*)\)$|^register_\w+\(.*\)$",
                              lambda call: f"PURSUIT = {call[1]}" if call[1] else "", text, flags=re.MULTILINE)
        assert count >= len(names)
        (tmp_path / f"{module}.py").write_text(text)
        groups.append("\n".join([f"[lfdm_ros.{group}]", *(f"{name} = {module}:{name}" for name in names)]))
    made = tmp_path / "mine-1.0.dist-info"
    made.mkdir()
    (made / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (made / "entry_points.txt").write_text("\n".join(groups) + "\n")
    environment = {key: value for key, value in os.environ.items() if key != "LFDM_PLUGINS"}
    done = subprocess.run([sys.executable, "-c", FOUND], cwd=tmp_path, env={**environment, "PYTHONPATH": f"{tmp_path}{os.pathsep}{PATH}"},
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert done.stdout.split() == ["True"] * len(PACKAGE), done.stdout


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_loop_of_their_own_in_numba_and_in_c(tmp_path):
    """Both come to the same, the yaw rate that they are to hold."""
    for name in ("own_loop.py", "own_loop.c"):
        shutil.copy(ROOT / "examples" / name, tmp_path)
    done = subprocess.run([sys.executable, "own_loop.py"], cwd=tmp_path, env={**os.environ, "PYTHONPATH": PATH}, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stderr
    c, numba = (line.split()[1:] for line in done.stdout.splitlines())
    assert c[:2] == numba[:2] and float(c[0]) > 14.0 and float(c[1]) == pytest.approx(0.2, abs=1e-6)
