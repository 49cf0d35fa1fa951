"""`lfdm export c`: what it writes and says, and what it refuses in one line."""

import pytest

from lfdm_ros.cli.main import main


def test_files_and_a_line(tmp_path, capsys):
    assert main(["export", "c", "--vehicle", "hmmwv", "--model", "kinematic_bicycle", "--name", "plant", "--out", str(tmp_path / "c")]) == 0
    assert sorted(path.name for path in (tmp_path / "c").iterdir()) == ["plant.c", "plant.h"]
    assert "plant.h: kinematic_bicycle of hmmwv" in capsys.readouterr().err


@pytest.mark.parametrize(("arguments", "words"), [
    (["--model", "eight_dof", "--name", "8dof"], "--name '8dof': give a name of C"),
    (["--model", "eight_dof/soil_map"], "hmmwv"),
    (["--model", "nine_dof"], "nine_dof")])
def test_refusals(tmp_path, capsys, arguments, words):
    assert main(["export", "c", "--vehicle", "hmmwv", "--out", str(tmp_path / "c"), *arguments]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert words in line
    assert not (tmp_path / "c").exists()
