"""A vehicle as WebAssembly, in node: it drives as the simulator does."""

import json
import shutil
import subprocess
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from itertools import pairwise
from threading import Thread

import numpy as np
import pytest
from browser import PATIENCE, chromium

from lfdm_ros.errors import InputError
from lfdm_ros.exports import write_wasm
from lfdm_ros.simulation import InputProfile, Simulator
from lfdm_ros.vehicles import load_vehicle

DRIVE = """
import {readFileSync} from "node:fs";
import {Vehicle} from "./vehicle.js";
const vehicle = await Vehicle.load(readFileSync("vehicle.wasm"));
const {inputs, place, scale} = JSON.parse(readFileSync("drive.json"));
vehicle.start(place);
const [name, value] = scale;
vehicle.parameters[name] = value;
for (const [steering, throttle, brake] of inputs) {
  if (!vehicle.advance({steering, throttle, brake}, 10)) process.exit(1);
}
let refused = "";
try { vehicle.advance({rudder: 1}, 1); } catch (error) { refused = error.message; }
console.log(JSON.stringify({state: vehicle.state, outputs: vehicle.outputs(), refused}));
"""


@pytest.fixture
def exported(tmp_path):
    """Exports the HMMWV as a model to the test's folder."""
    if find_spec("ziglang") is None:
        pytest.skip("no ziglang: pip install ziglang")
    vehicle = load_vehicle("hmmwv")
    return lambda name: write_wasm(vehicle, vehicle.model(name), tmp_path)


def test_without_the_extra_it_says_which(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    vehicle = load_vehicle("hmmwv")
    with pytest.raises(InputError, match="export"):
        write_wasm(vehicle, vehicle.model("kinematic_bicycle"), tmp_path)


@pytest.mark.parametrize("name", ["driven_bicycle", "eight_dof"])
@pytest.mark.skipif(shutil.which("node") is None, reason="no node")
def test_it_drives_in_node_as_the_simulator_does(exported, tmp_path, name):
    vehicle, files = load_vehicle("hmmwv"), exported(name)
    assert files.module.stat().st_size < 60_000
    times = np.linspace(0.0, 10.0, 1001)
    inputs = InputProfile([0, 2, 4, 6, 8], [0, 0.1, -0.1, 0.2, 0], [0.0, 0.5, 0.5, 0.1, 0.0], [0, 0, 0, 0, 0.3]).sample(times)
    place, changed = {"x": 1.0, "y": -2.0, "yaw": 0.4, "vx": 9.0}, ("rolling_resistance", 0.02)
    (tmp_path / "drive.json").write_text(json.dumps({"inputs": inputs[1:].tolist(), "place": place, "scale": changed}))
    (tmp_path / "drive.mjs").write_text(DRIVE)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    done = subprocess.run(["node", "drive.mjs"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    said = json.loads(done.stdout)
    simulator = Simulator(vehicle.replace(**dict([changed])), name, 1e-3)
    simulator.reset(**place)
    for before, after in pairwise(inputs):
        simulator.advance(before, after, 10)
    expected = dict(zip((field.name for field in simulator.model.states), simulator.state))
    assert list(said["state"]) == list(expected)
    for state, value in expected.items():
        assert said["state"][state] == pytest.approx(value, rel=1e-12, abs=1e-12), state
    assert said["outputs"]["yaw"] == pytest.approx(expected["yaw"], rel=1e-12)
    assert "rudder" in said["refused"]


def test_the_page_drives_by_keys(exported, tmp_path):
    exported("driven_bicycle")
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with chromium() as launch, ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        tab, faults = launch().new_page(), []
        tab.on("console", lambda message: faults.append(message.text))
        tab.on("pageerror", lambda error: faults.append(str(error)))
        tab.goto(f"http://127.0.0.1:{server.server_port}/")
        tab.wait_for_function("document.querySelector('output').textContent", timeout=1000.0 * PATIENCE)
        tab.keyboard.down("ArrowUp")
        faster = "parseFloat(document.querySelector('output').textContent.replace('speed', '')) > 5"
        tab.wait_for_function(faster, timeout=1000.0 * PATIENCE)
        tab.keyboard.press("KeyR")
        tab.keyboard.up("ArrowUp")
        tab.wait_for_function(f"!({faster})", timeout=1000.0 * PATIENCE)
        assert not faults
        server.shutdown()
