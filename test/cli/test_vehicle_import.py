"""`lfdm vehicle`: import LFDM's files, show a vehicle, exit statuses."""

import pytest

from lfdm_ros.cli.main import main
from lfdm_ros.vehicles import import_lfdm, load_vehicle


@pytest.fixture
def files(reference_data):
    return [str(reference_data / "lfdm_chrono_hmmwv_xy" / "json" / "24dof" / "HMMWV" / f"{name}.json")
            for name in ("vehicle", "tmeasy", "suspension")]


def test_import(files, tmp_path, capsys):
    out = tmp_path / "hmmwv_24.yaml"
    assert main(["vehicle", "import", *files, "--out", str(out)]) == 0
    assert load_vehicle(out) == import_lfdm(*files, name="hmmwv_24")[0]
    assert "twenty_four_dof/tmeasy/automatic/lfdm" in capsys.readouterr().err


def test_import_without_suspension(files, tmp_path):
    assert main(["vehicle", "import", *files[:2], "--out", str(tmp_path / "v.yaml")]) == 0
    assert "suspension_stiffness_front" not in load_vehicle(tmp_path / "v.yaml").parameters


@pytest.mark.parametrize("order, out, words", [
    ((1, 0), "v.yaml", ("tmeasy.json: this is a tyre file",)),
    ((0, 1), "v.json", ("v.json", ".yaml")),
    ((0, 1), "none/v.yaml", ("none/v.yaml", "no folder")),
])
def test_bad_input_is_one_line_and_status_2(files, tmp_path, capsys, order, out, words):
    assert main(["vehicle", "import", *(files[i] for i in order), "--out", str(tmp_path / out)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("lfdm vehicle: ") and error.count("\n") == 1
    assert all(word in error for word in words)
    assert not (tmp_path / out).exists()


def test_usage(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["vehicle"])
    assert stop.value.code == 2
    with pytest.raises(SystemExit) as stop:
        main(["vehicle", "import", "--help"])
    assert stop.value.code == 0 and "example" in capsys.readouterr().out


def test_show(capsys):
    assert main(["vehicle", "show", "dart"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("dart: ") and "tyre fiala" in out and "nonlinear_bicycle" in out
    assert main(["vehicle", "show", "darts"]) == 2


def test_show_without_a_description(tmp_path, capsys):
    (tmp_path / "mine.yaml").write_text("base: dart\n")
    assert main(["vehicle", "show", str(tmp_path / "mine.yaml")]) == 0
    assert capsys.readouterr().out.startswith("mine\n  tyre fiala")


def test_show_names_further_sensors(capsys):
    assert main(["vehicle", "show", "hmmwv_camera"]) == 0
    assert "\n  camera front\n" in capsys.readouterr().out
