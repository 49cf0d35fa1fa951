"""Importing small files: what arrives in the bag, and what each mistake is told."""

import numpy as np
import pytest
import yaml
from scipy.io import savemat

from lfdm_ros.bags import BagWriter, bag_info, bags_in, import_recording, open_bag, read_series, recording_name
from lfdm_ros.cli.main import main
from lfdm_ros.errors import InputError
from lfdm_ros.inference.dataset import find_recordings

CSV = "t,speed,psi,gear\n0.0,36,0,1\n0.5,72,90,2\n1.5,108,180,3\n"


def mapping(**changes):
    """A mapping file's content with some parts replaced; None removes."""
    content = {
        "sources": {"log": {
            "file": "{recording}.csv",
            "time": {"column": "t"},
            "columns": {"t": "s", "speed": "km/h", "psi": "deg", "gear": 1},
        }},
        "topics": {"vehicle/state": {
            "type": "lfdm_ros/msg/VehicleState",
            "from": "log",
            "text": {"header.frame_id": "odom"},
            "fields": {"vx": "speed", "yaw": "psi", "wheel_speeds[2]": "speed / radius", "gear": "gear"},
        }},
        "constants": {"radius": "50 cm"},
    }
    for path, value in changes.items():
        node = content
        *parents, last = path.split("__")
        for parent in parents:
            node = node.setdefault(parent, {})
        if value is None:
            del node[last]
        else:
            node[last] = value
    return content


@pytest.fixture
def imported(tmp_path):
    """Imports CSV text by a mapping's content; returns the bag."""

    def run(text=CSV, content=None, source="drive.csv", **options):
        if text is not None:
            (tmp_path / "drive.csv").write_text(text)
        (tmp_path / "map.yaml").write_text(content if isinstance(content, str) else yaml.safe_dump(content or mapping()))
        import_recording(tmp_path / source, tmp_path / "map.yaml", tmp_path / "out" / "bag", **options)
        return tmp_path / "out" / "bag"

    return run


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_columns_become_fields_in_si(imported, storage):
    bag = imported(storage=storage)
    series = read_series(bag, "vehicle/state", ["vx", "yaw", "wheel_speeds[2]", "gear", "vy", "wheel_speeds[0]"])
    assert series.time.tolist() == [0.0, 0.5, 1.5]
    np.testing.assert_allclose(series.values[:, :4], [[10, 0, 20, 1], [20, np.pi / 2, 40, 2], [30, np.pi, 60, 3]], rtol=1e-12)
    assert np.isnan(series.values[:, 4:]).all()
    assert recording_name(bag) == "drive"
    assert [p.name for p in bag.parent.iterdir()] == ["bag"], "nothing else is left behind"
    with open_bag(bag) as opened:
        connection, stamp, cdr = next(opened.raw())
        assert (stamp, opened.decode(cdr, connection.msgtype).header.frame_id) == (0, "odom")


def test_columns_become_wheels_by_their_names(imported):
    """In the order of the mapping; what it does not fill is not measured."""
    fields = {"speed_by_wheel[ml]": "speed / radius", "force_z_by_wheel[tl]": "gear * newton", "speed_by_wheel[fl]": "2 * speed / radius"}
    bag = imported(content=mapping(constants__newton="1 N", **{"topics__vehicle/state__fields": fields}))
    series = read_series(bag, "vehicle/state", ["speed_by_wheel[fl]", "speed_by_wheel[ml]", "force_z_by_wheel[tl]"])
    np.testing.assert_allclose(series.values, [[40, 20, 1], [80, 40, 2], [120, 60, 3]], rtol=1e-12)
    assert np.isnan(read_series(bag, "vehicle/state", ["speed_by_wheel[tl]", "speed_by_wheel[rl]", "force_x_by_wheel[ml]"]).values).all()
    with open_bag(bag) as opened:
        connection, _, cdr = next(opened.raw())
        message = opened.decode(cdr, connection.msgtype)
    assert message.wheel_names == ["tl", "fl", "ml"] and len(message.force_x_by_wheel) == 0


def test_time_origin(imported, tmp_path):
    late = CSV.replace("0.0,", "1534809405.25,").replace("0.5,", "1534809405.50,").replace("1.5,", "1534809406.25,")
    series = read_series(imported(late, mapping(time_origin="zero")), "vehicle/state", ["vx"])
    assert series.time.tolist() == [0.0, 0.25, 1.0]
    assert series.stamp0 == 1534809405_250000000
    (tmp_path / "out" / "bag").rename(tmp_path / "first")
    assert read_series(imported(late), "vehicle/state", ["vx"]).time[0] == pytest.approx(1534809405.25, abs=1e-6, rel=0)


def test_time_from_a_rate(imported):
    bag = imported(content=mapping(sources__log__time={"rate": "0.1 kHz", "start": "20 ms"}))
    assert read_series(bag, "vehicle/state", ["vx"]).time.tolist() == [0.02, 0.03, 0.04]


def test_files_without_header_in_columns_or_rows(imported, tmp_path):
    content = mapping(sources__log__names=["t", "speed", "psi", "gear"], sources__log__delimiter="whitespace")
    rows = "# comment\n0 36 0 1\n\n0.5\t72 90 2\n"
    assert read_series(imported(rows, content), "vehicle/state", ["vx"]).values[:, 0].tolist() == [10.0, 20.0]
    (tmp_path / "out" / "bag").rename(tmp_path / "first")
    content = mapping(sources__log__names=["t", "speed", "psi", "gear"], sources__log__transpose=True)
    assert read_series(imported("0,1\n36,72\n0,0\n1,1\n", content), "vehicle/state", ["vx"]).values[:, 0].tolist() == [10.0, 20.0]


def test_mat_files(imported, tmp_path):
    savemat(tmp_path / "drive.mat", {"t": [[0.0, 0.5]], "speed": [[36.0, 72.0]], "psi": [[0.0], [90.0]], "gear": [[1, 2]], "mode": "Real"})
    bag = imported(None, mapping(sources__log__file="{recording}.mat"), source="drive.mat")
    assert read_series(bag, "vehicle/state", ["vx", "gear"]).values.tolist() == [[10.0, 1.0], [20.0, 2.0]]


def companion(**changes):
    """A second source, in an array, with the times of some rows of the first."""
    array = {"format": "npy", "transpose": True, "names": ["a"], "time": {"source": "log", "first_row": 1}, "columns": {"a": "m/s"}}
    topic = {"type": "geometry_msgs/msg/TwistStamped", "from": "array", "fields": {"twist.linear.x": "a", "twist.linear.y": "log.speed"}}
    return mapping(sources__array={**array, **changes}, topics__twist=topic)


def test_companion_array_with_the_times_of_another_source(imported, tmp_path):
    np.save(tmp_path / "array.npy", [[1.0, 2.0]])
    series = read_series(imported(content=companion(file="array.npy")), "twist", ["twist.linear.x", "twist.linear.y", "twist.linear.z"])
    assert series.time.tolist() == [0.5, 1.5]
    np.testing.assert_allclose(series.values, [[1.0, 20.0, 0.0], [2.0, 30.0, 0.0]])


def test_absent_companions(imported, tmp_path):
    with pytest.raises(InputError, match=r"sources\.array: no file .*array\.npy"):
        imported(content=companion(file="array.npy"))
    with pytest.raises(InputError, match=r"sources\.array names no file for the recording 'drive'"):
        imported(content=companion(by_recording={"other": {"file": "array.npy"}}))
    assert not (tmp_path / "out").exists()
    warnings = []
    bag = imported(content=companion(file="array.npy", optional=True), warn=warnings.append)
    assert len(warnings) == 1
    assert warnings[0].startswith("twist is left out: no file ")
    assert [t["topic"] for t in bag_info(bag)["topics"]] == ["vehicle/state"]


def test_array_longer_than_its_clock(imported, tmp_path):
    np.save(tmp_path / "array.npy", [[1.0, 2.0, 3.0]])
    with pytest.raises(InputError, match=r"array\.npy has 3 samples from row 1 on, but source log ends at row 2"):
        imported(content=companion(file="array.npy"))


def angle_source(samples, **column):
    """A source of an angle with clocks of its own, and a topic that takes it at the times of the first."""
    columns = {"t": "s", "angle": {"unit": "rad", **column}}
    steering = {"table": samples, "names": ["t", "angle"], "time": {"column": "t"}, "columns": columns}
    topic = {"type": "lfdm_ros/msg/VehicleState", "from": "log", "fields": {"road_wheel_angle": "steering.angle"}}
    return mapping(sources__steering=steering, topics__steered=topic)


HALF_SECONDS = "t,speed,psi,gear\n" + "".join(f"{0.5 * i},36,0,1\n" for i in range(7))


def test_a_hand_wheel_of_another_source_is_as_it_was_turned(imported):
    """Between two samples it may turn by most of a turn, before and after a gap: only what the mapping calls a heading goes round."""
    content = angle_source([[0, 0.0], [1, -5.0], [2, -1.0], [3, 0.0]])
    angles = read_series(imported(HALF_SECONDS, content), "steered", ["road_wheel_angle"]).values[:, 0]
    np.testing.assert_allclose(angles, [0.0, -2.5, -5.0, -3.0, -1.0, -0.5, 0.0])


def test_a_source_whose_stamps_are_late_is_shifted(imported):
    """Of the same file too, and where it is what a topic follows: no message is before time zero."""
    text = "t,speed,psi,gear\n" + "".join(f"{0.5 * i},36,{10 * i},1\n" for i in range(7))
    late = {"file": "{recording}.csv", "time": {"column": "t", "offset": "-0.75 s"}, "columns": {"t": "s", "psi": "deg"}}
    state = "lfdm_ros/msg/VehicleState"
    bag = imported(text, mapping(sources__steering=late, topics__both={"type": state, "from": "log", "fields": {
        "yaw": "psi", "road_wheel_angle": "steering.psi"}}, topics__alone={"type": state, "from": "steering", "fields": {"yaw": "psi"}}))
    yaw, angle = read_series(bag, "both", ["yaw", "road_wheel_angle"]).values.T
    np.testing.assert_allclose(np.rad2deg(angle - yaw)[:5], 15.0, err_msg="as it was 0.75 s later in the file")
    alone = read_series(bag, "alone", ["yaw"])
    np.testing.assert_allclose(alone.time, 0.25 + 0.5 * np.arange(5))
    np.testing.assert_allclose(np.rad2deg(alone.values[:, 0]), 20.0 + 10.0 * np.arange(5))


def test_values_outside_the_range_of_their_column_are_missing(imported):
    """Before anything is interpolated between them; and it is told how many."""
    with pytest.raises(InputError, match=r"columns\.angle\.range is \[1, -1\]; write two numbers in the column's unit"):
        imported(HALF_SECONDS, angle_source([[0, 0.0], [1, 0.1]], range=[1, -1]))
    told = []
    content = angle_source([[0, 0.0], [1, 0.1], [1.5, 57.3], [2, 0.2], [3, 0.1]], range=[-1, 1])
    angles = read_series(imported(HALF_SECONDS, content, warn=told.append), "steered", ["road_wheel_angle"]).values[:, 0]
    np.testing.assert_allclose(angles, [0.0, 0.05, 0.1, np.nan, 0.2, 0.15, 0.1])
    assert len(told) == 1 and "sample 2: column 'angle' is 57.3 rad; 1 of 5 values lie outside its range" in told[0]


def test_a_heading_of_another_source_goes_the_short_way_round(imported):
    content = angle_source([[0, 3.1], [1, -3.1], [2, float("nan")], [3, -2.9]], wraps=True, allow_nan=True)
    angles = read_series(imported(HALF_SECONDS, content), "steered", ["road_wheel_angle"]).values[:, 0]
    turn = 2.0 * np.pi
    np.testing.assert_allclose(angles[[0, 1, 2, 6]], [3.1, np.pi, turn - 3.1, turn - 2.9], rtol=1e-12)
    assert np.isnan(angles[3:6]).all(), "missing is missing, and what follows is no turn off"


def test_an_angle_that_may_be_a_heading_is_asked_for(imported):
    wrapping = [[0, 3.1], [1, -3.1], [2, -2.9], [3, -2.5]]
    with pytest.raises(InputError, match=r"sources\.steering\.columns\.angle jumps from 3\.1 to -3\.1 rad at t = 1 s: write wraps: true"):
        imported(HALF_SECONDS, angle_source(wrapping))
    angles = read_series(imported(HALF_SECONDS, angle_source(wrapping, wraps=False)), "steered", ["road_wheel_angle"]).values[:, 0]
    assert angles[1] == pytest.approx(0.0, abs=1e-12)


def test_only_an_angle_wraps(imported):
    with pytest.raises(InputError, match=r"columns\.speed\.wraps: only an angle wraps, and km/h is no unit of angle"):
        imported(content=mapping(sources__log__columns__speed={"unit": "km/h", "wraps": True}))


def test_sources_are_resampled_linearly_and_a_table_can_be_in_the_mapping(imported):
    table = {"table": [[0, 0], [1, 1]], "names": ["t", "pedal"], "time": {"column": "t"}, "columns": {"t": "s", "pedal": 1}}
    topic = {"type": "lfdm_ros/msg/DriverCommand", "from": "log", "fields": {"throttle": "driver.pedal", "brake": 0, "steering": 0}}
    bag = imported(content=mapping(sources__driver=table, topics__command=topic))
    assert read_series(bag, "command", ["throttle"]).values[:, 0].tolist() == [0.0, 0.5, 1.0]


def test_optional_columns_are_nan_and_held_rows_can_be_dropped(imported):
    columns = {"t": "s", "speed": "km/h", "psi": "deg", "gear": 1, "roll": {"unit": "deg", "optional": True}}
    content = mapping(sources__log__columns=columns, topics__held={
        "type": "lfdm_ros/msg/VehicleState", "from": "log", "only_changes_of": "gear", "fields": {"roll": "either(roll, psi)"}})
    bag = imported("t,speed,psi,gear\n0,36,0,0\n1,36,90,0\n2,36,180,1\n3,36,270,1\n", content)
    held = read_series(bag, "held", ["roll"])
    assert held.time.tolist() == [2.0]
    np.testing.assert_allclose(held.values, [[np.pi]])


def test_a_text_of_a_logger_with_commas_dates_units_and_gaps(imported, tmp_path):
    """As spreadsheets write it where the comma is decimal: a preamble, a line of units, dates, an empty cell, texts beside, Latin-1."""
    lines = ["Gerät;7", "t;speed;psi;gear;note", "h:m:s;km/h;°;-;",
             "2026-03-01T10:00:00.500Z;36,0;0;1;warm", "2026-03-01T11:00:01+01:00;;90;2;"]
    (tmp_path / "drive.csv").write_text("\n".join(lines), encoding="latin-1")
    content = mapping(sources__log__delimiter=";", sources__log__decimal=",", sources__log__encoding="latin-1",
                      sources__log__skip_lines=["1-1", 3], sources__log__columns__t="ISO 8601",
                      sources__log__columns__speed={"unit": "km/h", "allow_nan": True})
    series = read_series(imported(None, content), "vehicle/state", ["vx", "yaw", "gear"])
    assert series.time.tolist() == [1772359200.5, 1772359201.0]
    np.testing.assert_allclose(series.values, [[10.0, 0.0, 1.0], [np.nan, np.pi / 2, 2.0]], rtol=1e-12)


@pytest.mark.parametrize(("text", "changes", "message"), [
    ("t;speed;psi;gear\n0,5;1;2;1\n", {"delimiter": ";"}, "line 2: column 't' is '0,5', not a number; write decimal"),
    ("t,speed,psi,gear\n2026-03-01 10:00,1,2,1\n", {}, "column 't' is '2026-03-01 10:00', not a number; write the unit ISO 8601"),
    ("t,speed,psi,gear\ns,m/s,deg,-\n0,1,2,1\n", {}, r"line 2 has no number; leave it out by skip_lines: \[2\]"),
    ("t,speed,psi,gear\n0,1,2,1\n", {"columns__t": "ISO 8601"}, "'0', not a date with a time"),
    ("Logger\nt,speed,psi,gear\n", {}, "line 2: 4 columns where 1 are expected; leave out what is no table by skip_lines"),
    ("t,speed,psi,gear\n0,1,2,1\n", {"skip_lines": 2}, "skip_lines is 2; write a list"),
    ("t,speed,psi,gear\n0,1,2,1\n", {"skip_lines": ["3-1"]}, "skip_lines is .*; write a list"),
    ("t,speed,psi,gear\n0,1,2,1\n", {"decimal": ","}, "decimal is ','; write .* another character as delimiter"),
    ("t,speed,psi,gear\n0,1,2,1\n", {"encoding": "klingon"}, "encoding is 'klingon'; write for example"),
    ("t,speed,psi,gear\n0,1,2,1\n", {"format": "npy", "columns__t": "ISO 8601"}, "columns.t: ISO 8601 is for format csv"),
])
def test_a_text_of_a_logger_that_needs_a_key_names_it(imported, text, changes, message):
    with pytest.raises(InputError, match=message):
        imported(text, mapping(**{f"sources__log__{key}": value for key, value in changes.items()}))


def test_a_text_in_another_encoding_is_refused(imported, tmp_path):
    (tmp_path / "drive.csv").write_bytes(CSV.encode() + "°".encode("latin-1"))
    with pytest.raises(InputError, match=r"is not a text file in utf-8; write its encoding in .*sources\.log\.encoding, such as latin-1"):
        imported(None)


PURE = {"sources__log__columns__psi": "1", "topics__vehicle/state__fields__yaw": "0.0"}


@pytest.mark.parametrize(("expression", "value"), [
    ("speed / psi", "inf"), ("speed * psi / psi", "nan"), ("sqrt(0 - speed * speed)", "nan")])
def test_an_expression_without_a_result_is_refused(imported, expression, value):
    with pytest.raises(InputError, match=rf"fields\.vx: '.*' is {value} at t = .* s, and in \d of 3 rows, of columns that are finite"):
        imported(content=mapping(**{"topics__vehicle/state__fields__vx": expression}, **PURE))


def test_a_value_may_be_left_out_by_an_expression(imported):
    bag = imported(content=mapping(**{"topics__vehicle/state__fields__vx": "where(psi > 0, speed / psi, nan)"}, **PURE))
    assert np.isnan(read_series(bag, "vehicle/state", ["vx"]).values[:, 0]).tolist() == [True, False, False]


@pytest.mark.parametrize(("text", "message"), [
    ("t,speed,psi\n0,1,2\n", r"columns\.gear: .*drive\.csv has no column 'gear'; it has t, speed, psi"),
    ("t,sped,psi,gear\n0,1,2,1\n", r"no column 'speed' \(did you mean 'sped'\?\); it has t, sped"),
    ("t,speed,psi,gear\n0,1,2,1\n1,1,2,1\n0.5,1,2,1\n", r"drive\.csv, line 4: time runs backwards, from 1 to 0\.5 s"),
    ("t,speed,psi,gear\n0,1,2,1\n\n0,1,2,1\n", r"drive\.csv, line 4: time stands still at 0 s"),
    ("t,speed,psi,gear\n-1,1,2,1\n", r"line 2: time begins at -1 s"),
    ("t,speed,psi,gear\n0,1,2,1\n1,nan,2,1\n", r"line 3: column 'speed' is nan; .*allow_nan"),
    ("t,speed,psi,gear\n0,1,2,1\n1,,2,1\n", r"line 3: column 'speed' is empty"),
    ("t,speed,psi,gear\n0,1,2,1\n1,fast,2,1\n", r"line 3: column 'speed' is 'fast', not a number"),
    ("t,speed,psi,gear\n0,1,2,1\n1,2\n", r"line 3: 2 columns where 4 are expected"),
    ("t,speed,psi,gear\n0,1,2,1,9\n", r"line 2: 5 columns where 4 are expected"),
    ("t,speed,speed,gear\n0,1,2,1\n", r"has two columns 'speed'"),
    ("t,speed,psi,gear\n", "has no rows"),
    ("", "is empty"),
    ("0,1,2,1\n1,1,2,1\n", r"has no header in line 1; list its columns in .*names"),
    ("t,speed,psi,gear\n0,1,2,1.5\n", r"topics\.vehicle/state\.fields\.gear: 'gear' must be whole numbers"),
])
def test_broken_files(imported, tmp_path, text, message):
    with pytest.raises(InputError, match=message) as error:
        imported(text)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("changes", "message"), [
    ({"sources__log__columns__speed": "m"}, r"vehicle/state\.fields\.vx: 'speed' does not fit: length where length / time"),
    ({"sources__log__columns__speed": "furlong/h/h"}, r"fields\.vx: 'speed' does not fit: length / time\^2 where"),
    ({"sources__log__columns__speed": "parsnip"}, r"columns\.speed: unit 'parsnip' is not known"),
    ({"sources__log__columns__speed": {"column": "speed"}}, r"columns\.speed has no unit"),
    ({"sources__log__columns__t": "m"}, r"sources\.log\.time: column 't' is length where time \(s\) is expected"),
    ({"sources__log__columns__acc x": "m/s^2"}, r"'acc x' cannot be used in an expression; write for example acc_x: \{column: \"acc x\""),
    ({"sources__log__colums": {}}, r"sources\.log: unknown key 'colums'"),
    ({"sources__log__time": {"column": "time"}}, r"sources\.log\.time: column 'time' is not among its columns"),
    ({"sources__log__time": {"rate": "100"}}, r"time\.rate is '100': a pure number where 1 / time"),
    ({"sources__log__time": {"rate": "100 Hz", "column": "t"}}, "give one of column, rate"),
    ({"sources__log__time": {"source": "gps"}}, r"sources\.log\.time: no source 'gps'"),
    ({"sources__log__delimiter": "tab"}, "write one character, or whitespace"),
    ({"topics__vehicle/state__fields__vx": "sped"}, r"fields\.vx: no column or constant 'sped' in 'sped' \(did you mean 'speed'\?\)"),
    ({"topics__vehicle/state__fields__vz": "speed"}, r"topics\.vehicle/state\.fields: lfdm_ros/msg/VehicleState has no field 'vz'"),
    ({"topics__vehicle/state__fields__vx": "open('x')"}, r"fields\.vx: .*no function 'open'"),
    ({"topics__vehicle/state__fields__wheel_speeds[fl]": "1"}, "the elements of wheel_speeds of lfdm_ros/msg/VehicleState have no names"),
    ({"topics__vehicle/state__fields__vx[fl]": "1"}, "'vx' of lfdm_ros/msg/VehicleState has no 'fl'; it is a float64"),
    ({"topics__vehicle/state__fields__speed_by_wheel[0]": "1"}, "arrays of variable length cannot be filled by a mapping"),
    ({"topics__vehicle/state__fields__wheel_speeds[4]": "1"}, "wheel_speeds of lfdm_ros/msg/VehicleState has 4 elements"),
    ({"topics__vehicle/state__fields__child_frame_id": "1"}, "field 'child_frame_id' is a string, not a number"),
    ({"topics__vehicle/state__type": "lfdm_ros/msg/Vehicle"}, r"topics\.vehicle/state\.type: message type lfdm_ros/msg/Vehicle is unknown"),
    ({"topics__vehicle/state__from": "lgo"}, r"from is 'lgo' \(did you mean 'log'\?\); write one of log"),
    ({"constants__radius": "half a metre"}, r"constants\.radius is 'half a metre'; write a number and a unit"),
    ({"constants__radius": "0.5 metres_"}, r"constants\.radius: unit 'metres_' is not known"),
    ({"time_origin": "start"}, "time_origin is 'start'; write keep"),
    ({"topics": None}, "missing key 'topics'"),
])
def test_broken_mappings(imported, tmp_path, changes, message):
    with pytest.raises(InputError, match=message) as error:
        imported(content=mapping(**changes))
    assert "map.yaml" in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


def test_unreadable_inputs(imported, tmp_path):
    with pytest.raises(InputError, match=r"map\.yaml: not readable YAML"):
        imported(content="sources: [")
    with pytest.raises(InputError, match=r"no file or folder .*gone\.csv"):
        imported(source="gone.csv")
    (tmp_path / "drive.mat").write_bytes(b"no mat")
    with pytest.raises(InputError, match=r"drive\.mat is no readable MATLAB file"):
        imported(None, mapping(sources__log__file="{recording}.mat"), source="drive.mat")
    (tmp_path / "drive.npy").write_bytes(b"no npy")
    with pytest.raises(InputError, match=r"drive\.npy is no readable NumPy array"):
        imported(None, mapping(sources__log__file="{recording}.npy"), source="drive.npy")


def test_folder_needs_a_name(imported, tmp_path):
    (tmp_path / "second.csv").write_text(CSV)
    with pytest.raises(InputError, match="is a folder; give one of its files, or --recording with one of: drive, second"):
        imported(source=".")
    assert recording_name(imported(source=".", recording="second")) == "second"


def test_an_existing_bag_is_left_alone(imported, tmp_path):
    bag = imported()
    before = {p.name: p.read_bytes() for p in bag.iterdir()}
    with pytest.raises(InputError, match="exists already"):
        imported()
    assert {p.name: p.read_bytes() for p in bag.iterdir()} == before


def test_an_import_that_fails_half_way_leaves_nothing(imported, tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(BagWriter, "write_raw", stop)
    with pytest.raises(KeyboardInterrupt):
        imported()
    assert list((tmp_path / "out").iterdir()) == []


def test_what_inputs_do_between_rows(tmp_path):
    """Commands on a topic are held until the next; an import may say that its inputs are linear between the rows."""
    (tmp_path / "drive.csv").write_text("t,s\n0,0\n1,0.5\n")
    rules = """
sources: {drive: {file: "{recording}.csv", time: {column: t}, columns: {t: s, s: 1}}}
topics: {control/command: {type: lfdm_ros/msg/DriverCommand, from: drive, fields: {steering: s}}}
"""
    for text, expected in ((rules, "hold"), (rules + "between_rows: linear\n", "linear")):
        (tmp_path / "m.yaml").write_text(text)
        import_recording(tmp_path / "drive.csv", tmp_path / "m.yaml", tmp_path / expected)
        with open_bag(tmp_path / expected) as bag:
            assert bag.between_rows == expected
    (tmp_path / "m.yaml").write_text(rules + "between_rows: cubic\n")
    with pytest.raises(InputError, match="cubic"):
        import_recording(tmp_path / "drive.csv", tmp_path / "m.yaml", tmp_path / "other")


def test_a_folder_of_logs_is_imported_whole(tmp_path, capsys):
    """A bag for each, the further files of a recording beside it; what cannot be read is told, and the rest is there."""
    logs = tmp_path / "logs"
    logs.mkdir()
    for name in ("monday", "tuesday", "broken"):
        (logs / f"{name}.csv").write_text(CSV.replace("108", {"monday": "108", "tuesday": "90", "broken": "?"}[name]))
        (logs / f"{name}_wheel.csv").write_text("t,angle\n0,0\n1.5,3\n")
    wheel = {"file": "{recording}_wheel.csv", "time": {"column": "t"}, "columns": {"t": "s", "angle": "deg"}}
    content = mapping(sources__wheel=wheel, **{"topics__vehicle/state__fields__road_wheel_angle": "wheel.angle"})
    (tmp_path / "map.yaml").write_text(yaml.safe_dump(content))
    command = ["bag", "import", str(logs), "--mapping", str(tmp_path / "map.yaml"), "--out", str(tmp_path / "bags")]
    assert main(command) == 2
    told = capsys.readouterr()
    assert "imported 2 of 3 recordings" in told.out
    assert "1 of 3 recordings were not imported" in told.err and "broken.csv, line 4" in told.err
    assert [path.name for path in bags_in(tmp_path / "bags")] == ["monday", "tuesday"]
    assert [recording.name for recording in find_recordings([tmp_path / "bags"])] == ["monday", "tuesday"]

    # Logs that are new come beside the bags that are there; a bag is no folder of bags.
    written = (tmp_path / "bags" / "monday" / "metadata.yaml").read_bytes()
    (logs / "broken.csv").write_text(CSV)
    assert main(command) == 0
    told = capsys.readouterr().out
    assert "imported 1 of 3 recordings" in told and "2 were there" in told and "monday is there already" in told
    assert [path.name for path in bags_in(tmp_path / "bags")] == ["broken", "monday", "tuesday"]
    assert (tmp_path / "bags" / "monday" / "metadata.yaml").read_bytes() == written
    assert main([*command[:-1], str(tmp_path / "bags" / "monday")]) == 2
    assert "no folder of bags" in capsys.readouterr().err
    (tmp_path / "map.yaml").write_text(yaml.safe_dump(mapping(sources__log__file="{recording}.tsv")))
    assert main([*command[:-1], str(tmp_path / "none")]) == 2
    assert "sources.log.file is {recording}.tsv, and the folder's files are 6 with .csv" in capsys.readouterr().err
