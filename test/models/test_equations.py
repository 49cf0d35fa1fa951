"""How equations become functions: names, roles, the half-implicit rule."""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import lfdm_ros.models
from lfdm_ros.backends import ARRAYS
from lfdm_ros.models import Dynamics, Field, Model, Record, TyreForce, functions_of, get_model
from lfdm_ros.models.declaration import OUTPUTS, per_wheel
from lfdm_ros.models.equations import RecordLayout

STATES = (Field("place", "m", ""), Field("speed", "m/s", ""), Field("push", "m/s^2", "", role="held"),
          Field("count", "1", "", role="discrete"), *per_wheel("omega", "rad/s", ""))


class Sled:
    """dv/dt = u - v, dx/dt = v; four wheels that spin up with their numbers."""

    input_time = 0.5

    def __init__(self, m, mean=False):
        self.mean_motion, self.motions = mean, (lambda x, u, q: Record(place=x.speed),)

    def prepare(self, p):
        return p.gain

    def dynamics(self, x, u, q, h):
        push = q * u.force - x.speed
        return Dynamics(Record(speed=push, push=push, count=x.count + 1.0, wheels=[Record(omega=float(i)) for i in range(4)]),
                        [TyreForce(1.0 + i, 10.0 + i, 100.0 + i) for i in range(4)])

    def wheel_loads(self, x, u, q):
        return [wheel.omega for wheel in x.wheels]

    def report(self, x, u, q):
        return 0.0, 0.0, 0.0


def sled(mean: bool) -> Model:
    return Model("sled", "", "", STATES, (Field("force", "N", ""),), OUTPUTS, (Field("gain", "1", ""),), lambda m: Sled(m, mean))


@pytest.mark.parametrize("mean, way", [(False, 0.1 * 2.4), (True, 0.1 * 2.2)])
def test_one_step_and_the_right_hand_side(mean, way):
    """Velocities from the forces, positions from the new velocities or their mean; held and discrete states by their roles."""
    functions = functions_of(sled(mean), ARRAYS)
    q = functions.prepare(SimpleNamespace(gain=2.0))
    x, u = (1.0, 2.0, 9.0, 3.0, 0.0, 0.0, 0.0, 5.0), (3.0,)
    np.testing.assert_allclose(functions.step(x, u, q, 0.1), (1.0 + way, 2.4, 4.0, 4.0, 0.0, 0.1, 0.2, 5.3))
    np.testing.assert_allclose(functions.rhs(x, u, q), (2.0, 4.0, 4.0 - 9.0, 0.0, 0.0, 1.0, 2.0, 3.0))
    assert functions.tyre_forces(x, u, q, 0.1) == (1.0, 2.0, 3.0, 4.0, 10.0, 11.0, 12.0, 13.0, 100.0, 101.0, 102.0, 103.0)
    assert functions.wheel_loads(x, u, q) == [0.0, 0.0, 0.0, 5.0]


def test_records_have_the_names_declared():
    """In any order of the declaration, and a name that is not there says so."""
    model = get_model("eighteen_dof/tmeasy/automatic")
    layout = RecordLayout(model.states)
    values = tuple(range(len(model.states)))
    x, at = layout.record(values), {field.name: i for i, field in enumerate(model.states)}
    assert layout.values(x) == values
    assert (x.vx, x.engine_speed, x.wheels[2].omega) == (at["vx"], at["engine_speed"], at["omega_rl"])
    assert x.wheels[1].tyre_deflection_y == at["tyre_deflection_y_fr"]
    with pytest.raises(AttributeError, match=r"no 'speed' here; there are: .*vx"):
        x.speed  # noqa: B018


def test_no_equation_has_places_of_states_or_asks_for_the_library():
    """States, inputs and parameters by name; what the C++ library does otherwise stands in its own file."""
    for path in Path(lfdm_ros.models.__file__).parent.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"\b[xu]\[[0-9:]", text), path.name
        assert path.name == "lfdm_library.py" or not re.search(r"\bif lfdm|lfdm else|lfdm and", text), path.name
