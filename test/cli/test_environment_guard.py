"""A middleware that is not there is named before rcl ends the process over it."""

import os
import subprocess
import sys

import pytest

from lfdm_ros.cli import main as cli


@pytest.mark.parametrize("arguments", [
    ["up", "simulator", "--duration", "1"], ["demo", "--out", "OUT"], ["bag", "record", "--all", "--out", "OUT"]])
def test_wrong_middleware_is_one_line_and_status_2(tmp_path, arguments):
    arguments = [str(tmp_path / "out") if a == "OUT" else a for a in arguments]
    result = subprocess.run([sys.executable, "-m", "lfdm_ros.cli", *arguments], capture_output=True, text=True,
                            env={**os.environ, "RMW_IMPLEMENTATION": "rmw_cyclonedds_cpp"})
    assert result.returncode == 2, result.stderr
    assert "rmw_cyclonedds_cpp" in result.stderr and "unset RMW_IMPLEMENTATION" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("name", ["tf2_msgs", "lfdm_ros.msg"])
def test_messages_older_than_the_program_are_one_line_and_status_2(name, monkeypatch, capsys):
    def lacks(*_):
        raise ImportError(f"nothing such in {name}", name=name)

    monkeypatch.setattr("importlib.import_module", lacks)
    assert cli.main(["up", "simulator"]) == 2
    assert capsys.readouterr().err == (f"lfdm up: nothing such in {name}: the messages that are installed are older than the program; run "
                                       "`make install`, or build the workspace again\n")


def test_another_module_that_is_missing_is_no_matter_of_messages(monkeypatch):
    monkeypatch.setattr("importlib.import_module", lambda *_: __import__("no_such_module"))
    with pytest.raises(ModuleNotFoundError):
        cli.main(["up"])
