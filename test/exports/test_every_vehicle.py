"""Models that shipped vehicles can drive, as FMUs of both versions: FMPy finds no problem, and they drive as the simulator to the bit.

By default few models that have each chassis, tyre, powertrain and steering, in one version each; LFDM_EVERY_EXPORT=1: all, in both.
"""

import itertools
import os
from collections.abc import Iterator

import numpy as np
import pytest
from c_compiler import needs_cc

from lfdm_ros.errors import InputError
from lfdm_ros.exports.fmu_file import write_fmu
from lfdm_ros.exports.library import own_platform
from lfdm_ros.exports.variables import exported
from lfdm_ros.models import SLOTS, Model, chassis_slots, model_names
from lfdm_ros.resources import config_names
from lfdm_ros.vehicles import Vehicle, load_vehicle

fmpy = pytest.importorskip("fmpy")
from fmpy.validation import validate_fmu  # noqa: E402
from masters import INTERVAL, Master, native, profile  # noqa: E402

pytestmark = needs_cc
HALF, ROWS = 250, profile()
INPUTS = ("steering", "throttle", "brake")


def driven(vehicle: Vehicle) -> Iterator[Model]:
    """Yields the models of a vehicle: chassis by tyre by powertrain, soft soil as inputs."""
    for chassis in model_names():
        slots = chassis_slots(chassis)
        of_slots = [vehicle.parts(slot) if slot in slots else (None,) for slot in ("tyre", "powertrain")]
        for tyre, powertrain in itertools.product(*of_slots):
            try:
                soil = "given_soil" if tyre and "soil" in SLOTS["tyre"][tyre].needs else None
                yield vehicle.model("/".join(filter(None, (chassis, powertrain, soil))), tyre)
            except InputError:  # it lacks numbers of the chassis
                continue


def combinations() -> list[tuple[str, str, int]]:
    """Returns models with a vehicle and the version of FMI."""
    found = {"eleven_dof/given_ground": "hmmwv"}
    for vehicle in config_names("vehicles"):
        for model in driven(load_vehicle(vehicle)):
            found.setdefault(model.name, vehicle)
    names = sorted(found, key=lambda name: (-name.count("/"), name))
    if os.environ.get("LFDM_EVERY_EXPORT"):
        return [(found[name], name, fmi) for name in names for fmi in (2, 3)]
    chosen: list[str] = []
    for name in names:
        if not set(name.split("/")) <= {part for other in chosen for part in other.split("/")}:
            chosen.append(name)
    return [(found[name], name, 2 + k % 2) for k, name in enumerate(chosen)]


def on(master: Master, rows: np.ndarray, states: list[str], time: float = 0.0) -> np.ndarray:
    """Drives from row to row, inputs linear between them: FMI 3.0 takes those of a step's end; returns the states after each."""
    return master.drive(states, rows if master.version == 2 else np.vstack([rows[1:], rows[-1]]), INTERVAL, begin=time)


@pytest.mark.parametrize(("name", "model", "fmi"), combinations())
def test_it_drives_as_the_simulator_saved_reset_and_beside_others(tmp_path, name, model, fmi):
    vehicle = load_vehicle(name)
    export, path, refusal = exported(vehicle, model), tmp_path / "a.fmu", fmpy.fmi1.FMICallException
    write_fmu(export, path, fmi, [own_platform()])
    assert validate_fmu(str(path)) == []
    expected = native(name, model, ROWS, 8.0, slopes=fmi == 2)
    assert np.isfinite(expected).all()
    states, start = [f"state.{f.name}" for f in export.model.states], {"start__vx": 8.0, "linear": fmi == 3}
    start |= dict(zip(INPUTS, ROWS[0]))
    first, second = Master(path, **start), Master(path, **start)
    found = [on(master, ROWS[:HALF + 1], states) for master in (first, second)]
    kept = first.fmu.getFMUstate() if fmi == 2 else first.fmu.getFMUState()
    later = [on(master, ROWS[HALF:], states, HALF * INTERVAL) for master in (first, second)]
    (first.fmu.setFMUstate if fmi == 2 else first.fmu.setFMUState)(kept)
    later.append(on(first, ROWS[HALF:], states, HALF * INTERVAL))
    for ours in found:
        np.testing.assert_array_equal(ours, expected[:HALF])
    for ours in later:
        np.testing.assert_array_equal(ours, expected[HALF:])
    assert np.isfinite(first.get([v.name for v in export.variables])).all()
    for bad in ({"steering": float("nan")}, {"throttle": 1.5}, {"vx": 1.0}):
        with pytest.raises(refusal):
            first.set(**bad)
    with pytest.raises(refusal):
        (first.fmu.getReal if fmi == 2 else first.fmu.getFloat64)([12345])
    first.fmu.reset()
    first.begin(fresh=False, **start)
    np.testing.assert_array_equal(on(first, ROWS[:HALF + 1], states), expected[:HALF])
    for master in (first, second):
        master.close()
