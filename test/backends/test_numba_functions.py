"""The equations called from the caller's own compiled code: numba, and C."""

import ctypes
import shutil
import subprocess
import sys

import numpy as np
import pytest

from lfdm_ros.backends import compiled_model_function, constants, numba_function, write_object
from lfdm_ros.errors import InputError
from lfdm_ros.ground import FieldTable, FrictionField
from lfdm_ros.models import get_model
from lfdm_ros.models.ground_maps import FIELD_DIVISOR, field_head
from lfdm_ros.simulation import Simulator, initial_state
from lfdm_ros.vehicles import load_vehicle

VEHICLE = load_vehicle("hmmwv")
MODELS = ("eight_dof", "driven_bicycle")
U0, U1, H = np.array([0.0, 0.2, 0.0]), np.array([0.2, 0.5, 0.0]), 0.001


@pytest.mark.parametrize("name", MODELS)
def test_a_loop_of_their_own_does_what_the_simulator_does(name):
    from numba import njit

    model = get_model(name)
    p = VEHICLE.vector(model)
    step, rhs, advance = (numba_function(model, function) for function in ("step", "rhs", "advance"))

    @njit
    def drive(x, p, q, u0, u1, h):
        after, slope = x.copy(), np.empty_like(x)
        step(x, u1, p, h, after)
        rhs(x, u1, p, slope)
        fine = True
        for _ in range(3):
            fine = fine and advance(x, q, u0, u1, 100, h)
        return after, slope, fine

    x = initial_state(model, VEHICLE, vx=12.0)
    simulator = Simulator(VEHICLE, model, H)
    simulator.reset(vx=12.0)
    h = np.array([H])
    expected = compiled_model_function(model, "step")(x, U1, p, h)[0], compiled_model_function(model, "rhs")(x, U1, p)[0]
    after, slope, fine = drive(x, p, constants(model, p), U0, U1, H)
    for _ in range(3):
        simulator.advance(U0, U1, 100)
    assert fine
    np.testing.assert_array_equal(after, expected[0])
    np.testing.assert_array_equal(slope, expected[1])
    np.testing.assert_array_equal(x, simulator.state)


def test_what_is_not_there():
    with pytest.raises(InputError, match="step, rhs, advance"):
        numba_function(get_model("eight_dof"), "jacobian")
    with pytest.raises(ValueError, match="parameters"):
        constants(get_model("eight_dof"), np.zeros(3))


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_object_runs_in_a_c_program(tmp_path):
    """Compiled with the header, warnings as errors; equal to the simulator to the bit of a double's print."""
    model = get_model("eight_dof")
    write_object(model, tmp_path)
    p = VEHICLE.vector(model)
    (tmp_path / "main.c").write_text("""
#include <stdio.h>
#include <stdlib.h>
#include "lfdm_eight_dof.h"
int main(int argc, char **argv) {
  double p[lfdm_eight_dof_p_count], x[lfdm_eight_dof_x_count] = {0}, u[lfdm_eight_dof_u_count] = {0.2, 0.5, 0.0};
  for (int i = 0; i < lfdm_eight_dof_p_count; ++i) p[i] = atof(argv[1 + i]);
  for (int i = 0; i < lfdm_eight_dof_x_count; ++i) x[i] = atof(argv[1 + lfdm_eight_dof_p_count + i]);
  double *q = malloc(sizeof(double) * lfdm_eight_dof_size());
  lfdm_eight_dof_prepare(p, q);
  int64_t fine = lfdm_eight_dof_advance(x, q, u, u, 1000, 0.001, 1.0 / 1000);
  printf("%lld %.17g %.17g\\n", (long long)fine, x[lfdm_eight_dof_x_vx], x[lfdm_eight_dof_x_yaw_rate]);
  free(q);
  return 0;
}
""")
    subprocess.run(["cc", "-Wall", "-Werror", "-o", "run", "main.c", "lfdm_eight_dof.o", "-lm"], cwd=tmp_path, check=True)
    x = initial_state(model, VEHICLE, vx=12.0)
    done = subprocess.run([tmp_path / "run", *(repr(float(v)) for v in (*p, *x))], check=True, capture_output=True, text=True)
    simulator = Simulator(VEHICLE, model, H)
    simulator.reset(vx=12.0)
    simulator.advance(U1, U1, 1000)
    fine, vx, yaw_rate = done.stdout.split()
    places = [[field.name for field in model.states].index(name) for name in ("vx", "yaw_rate")]
    assert fine == "1"
    np.testing.assert_allclose([float(vx), float(yaw_rate)], simulator.state[places], rtol=1e-12)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_friction_field_from_c(tmp_path):
    """The object reads what the caller has under the names of the header."""
    model, field = get_model("eight_dof/fiala/friction_field"), FrictionField.uniform(0.4)
    write_object(model, tmp_path)
    numbers = [*field_head(field.grid.x, field.grid.y, field.grid.spacing, (4, 4), (0.1, 0.8)),
               *(field.coefficients.ravel() / FIELD_DIVISOR)]
    stem = "lfdm_eight_dof_friction_field"
    (tmp_path / "main.c").write_text(f"""
#include <stdio.h>
#include <stdlib.h>
#include "{stem}.h"
static const double nothing[4], field[] = {{{", ".join(repr(float(v)) for v in numbers)}}};
const double *const lfdm_tables_double[] = {{nothing, field}};
const int64_t lfdm_tables_last[] = {{0, {len(numbers) - 4}}}, lfdm_tables_count = 2;
int main(int argc, char **argv) {{
  double p[{stem}_p_count], x[{stem}_x_count] = {{0}}, u[] = {{0.2, 0.5, 0.0}}, q[4096];
  for (int i = 0; i < {stem}_p_count; ++i) p[i] = atof(argv[1 + i]);
  for (int i = 0; i < {stem}_x_count; ++i) x[i] = atof(argv[1 + {stem}_p_count + i]);
  {stem}_prepare(p, q);
  {stem}_advance(x, q, u, u, 1000, 0.001, 1.0 / 1000);
  printf("%.17g\\n", x[{stem}_x_yaw_rate]);
  return 0;
}}
""")
    subprocess.run(["cc", "-Wall", "-Werror", "-o", "run", "main.c", f"{stem}.o", "-lm"], cwd=tmp_path, check=True)
    vehicle, table = VEHICLE.replace(friction_field=1.0), FieldTable(field)
    x = initial_state(model, vehicle, vx=12.0)
    done = subprocess.run([tmp_path / "run", *(repr(float(v)) for v in (*vehicle.vector(model), *x))], check=True, capture_output=True,
                          text=True)
    simulator = Simulator(VEHICLE.replace(friction_field=table.number), model, H)
    simulator.reset(vx=12.0)
    simulator.advance(U1, U1, 1000)
    assert float(done.stdout) == pytest.approx(simulator.state[[field.name for field in model.states].index("yaw_rate")], rel=1e-9)
    assert "lfdm_tables" not in write_object(get_model("kinematic_bicycle"), tmp_path).header.read_text()


def test_an_object_is_the_first_thing_that_a_process_compiles(tmp_path):
    code = ("from pathlib import Path; from lfdm_ros.backends import write_object; from lfdm_ros.models import get_model; "
            "print(write_object(get_model('kinematic_bicycle'), Path('.')).object.stat().st_size)")
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and int(done.stdout) > 1000, done.stderr


def test_a_library_of_it_loads_in_another_process(tmp_path):
    """Position-independent: a shared library can be made of it."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    files = write_object(get_model("driven_bicycle"), tmp_path)
    subprocess.run(["cc", "-shared", "-o", "model.so", files.object.name, "-lm"], cwd=tmp_path, check=True)
    library = ctypes.CDLL(str(tmp_path / "model.so"))
    assert library.lfdm_driven_bicycle_size() > 0
