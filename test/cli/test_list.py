"""`lfdm list` and the table of `lfdm models`."""

import json
from pathlib import Path

import pytest

from lfdm_ros.cli.list import KINDS
from lfdm_ros.cli.main import main
from lfdm_ros.errors import suggest
from lfdm_ros.models import model_names


@pytest.mark.parametrize("kind", KINDS)
def test_names_have_a_line_each(kind: str, capsys: pytest.CaptureFixture) -> None:
    assert main(["list", kind, "--json"]) == 0
    records = json.loads(capsys.readouterr().out)
    assert records and all(record["description"] and Path(record["path"]).stem == record["name"] for record in records)
    assert main(["list", kind]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [record["name"] for record in records] and max(map(len, lines)) < 160


def test_models_are_a_table_and_one_is_shown_by_its_name(capsys: pytest.CaptureFixture) -> None:
    assert main(["models"]) == 0
    table = capsys.readouterr().out
    assert len(table.splitlines()) < 30 and all(f"\n{name} " in table for name in model_names())
    assert main(["models", "eight_dof"]) == 0
    assert "yaw_rate" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "known", "end"), [
    ("vxx", ("vx", "vy"), " (did you mean 'vx'?); choose one of: vx, vy"),
    ("throttle", ("vx", "vy"), "; choose one of: vx, vy"),
    ("name_41x", [f"name_{k}" for k in range(10, 60)], " (did you mean 'name_41'?)"),
    ("gate", [*map(str, range(20)), "tracker_gate"], " (did you mean 'tracker_gate'?)"),
    ("x", (), "; choose one of: none"), (7, ("a",), "; choose one of: a"),
])
def test_the_nearest_name_is_told(name: object, known: list[str], end: str) -> None:
    assert suggest(name, known, "choose one of: ") == end
    assert suggest(name, known) == end.partition(";")[0]
