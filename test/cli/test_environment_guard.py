"""Middleware and messages that do not fit are one line; pipes that nobody reads end a command silently."""

import os
import subprocess
import sys

import pytest

from lfdm_ros.cli import main as cli
from lfdm_ros.cli import models
from lfdm_ros.cli.main import main


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


@pytest.mark.parametrize("arguments", [["models"], ["models", "--json"]])
def test_nobody_reads(arguments):
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as output:
        done = subprocess.run([sys.executable, "-m", "lfdm_ros.cli", *arguments], stdout=output, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_another_pipe_breaks(monkeypatch, capfd):
    def run(args):
        print("half of the answer")
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(models, "run", run)
    assert main(["models"]) == 1
    said = capfd.readouterr()
    assert said.out == "half of the answer\n"
    assert said.err == "lfdm models: Broken pipe: a process that works for this one has ended\n"
