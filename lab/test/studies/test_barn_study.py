"""The study of the worlds of BARN, on a world of a few posts."""

import math

import numpy as np
import pytest

from lfdm_lab.studies import barn
from lfdm_ros.cli.main import main
from lfdm_ros.errors import InputError

GROUND = "<model name='ground_plane'><link><collision><geometry><plane/></geometry></collision></link></model>"


def post(x, y, radius="0.075", pose="{x} {y} 0 0 0 0"):
    return (f"<model name='unit_cylinder_0'><pose frame=''>{pose.format(x=x, y=y)}</pose><link name='link'><collision><geometry><cylinder>"
            f"<radius>{radius}</radius></cylinder></geometry></collision></link></model>")


def write(folder, *models, name="world_7"):
    """Writes a world and its path, straight on: cells of 0.15 m from y = 5.075 m on."""
    (folder / "path_files").mkdir(exist_ok=True)
    np.save(folder / "path_files" / "path_7.npy", np.array([[15.5, k] for k in range(30)]))
    file = folder / f"{name}.world"
    file.write_text(f"<sdf version='1.6'><world name='default'>{GROUND}{''.join(models)}<state/></world></sdf>")
    return file


def test_a_world_is_as_large_as_the_vehicle_is_wide(tmp_path):
    asked = barn.scenario_of(write(tmp_path, post(-1.0, 6.0), post(-3.0, 7.0)), 2.0 * barn.JACKAL_WIDTH)
    assert [(o.x, o.y, o.radius) for o in asked.world.obstacles] == [(-2.0, 12.0, 0.15), (-6.0, 14.0, 0.15)]
    assert (asked.initial.x, asked.initial.y, asked.initial.yaw) == (-4.5, 6.0, 0.5 * math.pi)
    assert (asked.goal.x, asked.goal.y, asked.goal.tolerance, asked.speed, asked.duration) == (-4.5, 26.0, 2.0, 4.0, 100.0)


def test_the_score_is_that_of_the_challenge(tmp_path):
    assert barn.optimal_time(write(tmp_path, post(-1.0, 6.0))) == pytest.approx(5.0, abs=0.01)
    assert [barn.score(time, 5.0) for time in (None, 1.0, 10.0, 20.0, 40.0, 99.0)] == [0.0, 0.5, 0.5, 0.25, 0.125, 0.125]
    assert barn.score(1.0, 5.0, 0.25) == 0.25


@pytest.mark.parametrize(("text", "why"), [
    ("", "not readable XML"), ("<sdf><world/></sdf>", "no model with a cylinder"),
    (post(1, 2, radius="wide"), "unit_cylinder_0.*radius is 'wide'; give 1 number"), (post(1, 2, radius="-1"), "radius is -1"),
    (post(1, 2, pose="{x} {y}"), "unit_cylinder_0.*pose is '1 2'; give 6 numbers"), ("<model name='box'/>", "'box'.*neither a cylinder"),
])
def test_a_broken_world_is_one_line(tmp_path, text, why):
    file = write(tmp_path, text)
    if not text.startswith("<model"):
        file.write_text(text)
    with pytest.raises(InputError, match=rf"world_7\.world.*{why}"):
        barn.read_world(file)


def test_missing_files_are_named(tmp_path):
    file = write(tmp_path, post(-1.0, 6.0))
    assert barn.world_files([str(tmp_path)]) == [str(file)]
    with pytest.raises(InputError, match="no world of BARN"):
        barn.world_files([str(tmp_path / "path_files")])
    with pytest.raises(InputError, match=r"name it world_N\.world"):
        barn.optimal_time(write(tmp_path, post(-1.0, 6.0), name="mine"))
    (tmp_path / "path_files" / "path_7.npy").write_text("none")
    with pytest.raises(InputError, match=r"path_7\.npy: not an array of cells"):
        barn.optimal_time(file)
    (tmp_path / "path_files" / "path_7.npy").unlink()
    with pytest.raises(InputError, match=r"path_7\.npy"):
        barn.optimal_time(file)


def test_a_world_is_driven(tmp_path, capsys):
    file = write(tmp_path, post(-2.25, 7.0), post(-3.5, 8.0))
    assert main(["study", "barn", "--scenarios", str(file), "--scheduler", "local:1"]) == 0
    assert "| hmmwv " in capsys.readouterr().out


def test_worlds_of_the_challenge(reference_data):
    folder = reference_data / "barn"
    if not folder.is_dir():
        pytest.skip(f"no worlds of BARN in {folder}")
    files = barn.world_files([str(folder)])
    assert len(files) == 300 and all(len(barn.read_world(barn.Path(file))) > 100 for file in (files[0], files[-1]))
