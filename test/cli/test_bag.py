"""`lfdm bag info` and `import` as a user calls them."""

import json

import pytest

from lfdm_ros.cli.main import main

MAPPING = """
sources:
  log:
    file: "{recording}.csv"
    time: {column: t}
    columns: {t: s, v: km/h}
  gps:
    file: gps.csv
    optional: true
    time: {column: t}
    columns: {t: s, x: m}
topics:
  vehicle/state: {type: lfdm_ros/msg/VehicleState, from: log, fields: {vx: v}}
  gps/state: {type: lfdm_ros/msg/VehicleState, from: gps, fields: {x: x}}
"""


@pytest.fixture
def recording(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "drive.csv").write_text("t,v\n" + "".join(f"{0.1 * i:.1f},36\n" for i in range(11)))
    (tmp_path / "map.yaml").write_text(MAPPING)


def test_import_then_info(recording, capsys):
    assert main(["bag", "import", "drive.csv", "--mapping", "map.yaml", "--out", "bags/drive"]) == 0
    printed = capsys.readouterr()
    assert printed.out == "vehicle/state: 11 messages\nwrote bags/drive\n"
    assert printed.err == "lfdm bag import: warning: gps/state is left out: no file gps.csv\n"

    assert main(["bag", "info", "bags/drive"]) == 0
    table = capsys.readouterr().out
    assert "recording  drive" in table
    assert [line.split() for line in table.splitlines()][-1] == ["vehicle/state", "lfdm_ros/msg/VehicleState", "11", "10.00", "Hz"]

    assert main(["bag", "info", "bags/drive", "--json"]) == 0
    info = json.loads(capsys.readouterr().out)
    assert (info["recording"], info["storage"], info["messages"], info["duration"], info["closed"]) == ("drive", "mcap", 11, 1.0, True)
    assert info["topics"] == [{"topic": "vehicle/state", "type": "lfdm_ros/msg/VehicleState", "count": 11, "rate": 10.0, "start": 0.0,
                               "end": 1.0}]
    assert len(info["sha256"]) == 64
    assert info["custom"]["mapping"] == "map.yaml"
    assert info["custom"]["sources"].startswith("drive.csv sha256:")


@pytest.mark.parametrize(("arguments", "message"), [
    (["info", "nowhere"], "lfdm bag: no bag at nowhere"),
    (["import", "drive.csv", "--mapping", "nothing", "--out", "b"], "no recordings file 'nothing'"),
    (["import", "gone.csv", "--mapping", "map.yaml", "--out", "b"], "no file or folder gone.csv"),
    (["import", "drive.csv", "--mapping", "map.yaml", "--out", "drive.csv"], "drive.csv exists already"),
    (["import", "drive.csv", "--mapping", "dart", "--out", "b"], "has no column 'vicon time'; it has t, v"),
])
def test_bad_input_is_one_line_and_exit_status_2(recording, capsys, arguments, message):
    assert main(["bag", *arguments]) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""


@pytest.mark.parametrize("arguments", [["record", "--out", "b"], ["record", "--out", "b", "--all", "--topics", "/x"], ["import", "x"], []])
def test_bad_usage_is_exit_status_2(arguments):
    with pytest.raises(SystemExit) as stop:
        main(["bag", *arguments])
    assert stop.value.code == 2


@pytest.mark.parametrize("action", ["record", "info", "import"])
def test_help_has_an_example(capsys, action):
    with pytest.raises(SystemExit) as stop:
        main(["bag", action, "--help"])
    assert stop.value.code == 0
    assert f"example: lfdm bag {action}" in " ".join(capsys.readouterr().out.split())
