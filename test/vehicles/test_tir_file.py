"""A Magic Formula tyre written as a .tir file and read back."""

import pytest

from lfdm_ros.cli.main import main
from lfdm_ros.errors import InputError
from lfdm_ros.vehicles import load_vehicle, save_vehicle
from lfdm_ros.vehicles.tir_file import read_tir, tir_text

TIR = """FITTYP = 61
TYRESIDE = 'RIGHT'
FNOMIN = 4123.4567890123
UNLOADED_RADIUS = 0.3135
PCX1 = 1.6411
PDX1 = 1.1739
PKX1 = 22.303
PCY1 = 1.3507
PDY1 = -1.0489
PKY1 = -21.92
PKY2 = 2.0012
"""


def test_what_is_written_is_read_back_to_the_bit(tmp_path):
    given = tmp_path / "given.tir"
    given.write_text(TIR)
    vehicle = load_vehicle("hmmwv").replace(**read_tir(given))
    save_vehicle(vehicle, tmp_path / "car.yaml")
    assert main(["vehicle", "tir", str(tmp_path / "car.yaml"), "--out", str(tmp_path / "again.tir")]) == 0
    assert read_tir(tmp_path / "again.tir") == read_tir(given)
    assert "TYRESIDE = 'RIGHT'" in (tmp_path / "again.tir").read_text()


def test_another_convention_of_axes_is_refused(tmp_path):
    (tmp_path / "other.tir").write_text(TIR.replace("PKY1 = -21.92", "PKY1 = -21.92\npky1 = -21.92"))
    assert -21.92 in read_tir(tmp_path / "other.tir").values()
    (tmp_path / "other.tir").write_text(TIR.replace("PKY1 = -21.92", "PKY1 = -21.92\nPKY1 = -19"))
    with pytest.raises(InputError, match=r"line 11: PKY1 is -19, and -21.92 in line 10; leave one of them out"):
        read_tir(tmp_path / "other.tir")
    (tmp_path / "other.tir").write_text(TIR.replace("PKY1 = -21.92", "PKY1 = 21.92"))
    with pytest.raises(InputError, match=r"line 10: PKY1 = 21.92 is positive"):
        read_tir(tmp_path / "other.tir")


def test_another_tyre_is_no_tir_file(tmp_path, capsys):
    with pytest.raises(InputError, match="no tyre of the Magic Formula"):
        tir_text(load_vehicle("hmmwv").parameters, "hmmwv")
    assert main(["vehicle", "tir", "hmmwv", "--out", str(tmp_path / "tyre.txt")]) != 0
    assert "ends in .tir" in capsys.readouterr().err
