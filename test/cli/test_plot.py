"""`lfdm plot`: runs and recordings as pictures."""

from pathlib import Path

import numpy as np
import pytest

from lfdm_ros.bags import BagWriter
from lfdm_ros.cli.main import main
from lfdm_ros.cli.plot import draw, read

HEADER = "time,x,y,vx,yaw_rate"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = tmp_path / "run.csv"
    time = np.linspace(0.0, 2.0, 21)
    np.savetxt(path, np.column_stack([time, 10.0 * time, time**2, np.full(21, 10.0), time]), delimiter=",", header=HEADER, comments="")
    return path


@pytest.fixture
def bag(tmp_path: Path) -> Path:
    with BagWriter(tmp_path / "bag") as writer:
        for k in range(5):
            writer.write("vehicle/state", "lfdm_ros/msg/VehicleState", k * 100_000_000, {"vx": 1.0 + k, "yaw_rate": 0.1})
            writer.write("control/command", "lfdm_ros/msg/DriverCommand", k * 100_000_000, {"throttle": 0.1 * k})
    return tmp_path / "bag"


def test_a_run_beside_a_recording(run: Path, bag: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    for suffix, begins in ((".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")):
        path = tmp_path / f"a{suffix}"
        assert main(["plot", str(run), "--compare", str(bag), "--figure", str(path)]) == 0
        assert path.read_bytes().startswith(begins)
    assert main(["plot", str(bag), "--fields", "vx", "control/command:throttle", "--compare", str(run), "--figure", str(path)]) == 0
    assert "run.csv has no control/command:throttle" in capsys.readouterr().out


def test_all_values_are_drawn_and_a_speed_that_stays_is_a_line(run: Path, bag: Path) -> None:
    csv = read(run, ("vx", "yaw_rate"), True)
    np.testing.assert_allclose(csv["yaw_rate"].value, csv["yaw_rate"].time)
    recorded = read(bag, ("vx", "control/command:throttle"), True)
    np.testing.assert_allclose(recorded["vx"].value, [1, 2, 3, 4, 5])
    np.testing.assert_allclose(recorded["control/command:throttle"].value, [0.0, 0.1, 0.2, 0.3, 0.4])
    speed, _ = draw({"run": csv}, ["vx", "yaw_rate"], from_above=False).axes
    low, high = speed.get_ylim()
    assert high - low >= 0.19 and speed.get_ylabel() == "vx\n[m/s]"


@pytest.mark.parametrize(("arguments", "words"), [
    (["run.csv"], "give --figure FILE"), (["run.csv", "--figure", "a.bmp"], "--figure a.bmp: a picture is PNG"),
    (["run.csv", "--fields", "vxx", "--figure", "a.png"], "run.csv has no column 'vxx' (did you mean 'vx'?)"),
    (["bag", "--fields", "vxx", "--figure", "a.png"], "has no field 'vxx' (did you mean 'vx'?)"),
    (["bag", "--fields", "control/comand:brake", "--figure", "a.png"], "did you mean 'control/command'?"),
    (["none.csv", "--figure", "a.png"], "none.csv"), (["bare.csv", "--figure", "a.png"], "first line must name the columns"),
    (["none", "--figure", "a.png"], "none"),
])
def test_mistakes_in_a_plot_are_told(arguments: list[str], words: str, run: Path, bag: Path, tmp_path: Path,
                                     monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bare.csv").write_text("1,2\n3,4\n")
    assert main(["plot", *arguments]) == 2
    assert words in capsys.readouterr().err and not (tmp_path / "a.png").exists()
