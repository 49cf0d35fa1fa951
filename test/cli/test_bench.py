"""`lfdm bench`: records, table and JSON, with a benchmark that measures nothing."""

import json
from pathlib import Path

import pytest

from lfdm_ros.cli import bench
from lfdm_ros.cli.main import main


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(bench, "_folder", lambda: tmp_path)
    (tmp_path / "quick.py").write_text(
        "from lfdm_ros.cli.bench import Record\n"
        "def measure(runs):\n"
        "    return [Record.of('speed', [3.0, 1.0, 2.0][:runs], 'm/s')]\n")
    return tmp_path


def test_record_is_the_median_with_its_spread() -> None:
    assert bench.Record.of("a", [4.0, 1.0, 2.0], "s") == bench.Record("a", 2.0, "s", 3.0, 3)


def test_table_and_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "quick", "--json", str(folder / "out.json")]) == 0
    assert "speed" in capsys.readouterr().out
    record, = json.loads((folder / "out.json").read_text())
    assert {key: record[key] for key in ("name", "value", "unit", "spread", "runs")} == {
        "name": "speed", "value": 2.0, "unit": "m/s", "spread": 2.0, "runs": 3}


@pytest.mark.parametrize(("arguments", "words"), [
    (["nope"], "there are: quick"), (["quick", "--runs", "0"], "--runs 0"), (["quick", "--json", "/no/such/dir/x"], "no such folder")])
def test_mistakes_are_named(folder: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *arguments]) == 2
    assert words in capsys.readouterr().err
