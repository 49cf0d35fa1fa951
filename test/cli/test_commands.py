"""`lfdm_ros.commands`: commands that others add."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lfdm_ros.cli.commands import COMMANDS, Command, register_command
from lfdm_ros.errors import InputError

ROOT = Path(__file__).resolve().parents[2]


def lfdm(*words: str, **environment: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "lfdm_ros.cli", *words]
    return subprocess.run(command, env={**os.environ, **environment}, cwd=ROOT, capture_output=True, text=True)


def test_a_command_from_outside_runs_by_its_name_and_is_listed() -> None:
    plugin = {"LFDM_PLUGINS": str(ROOT / "examples" / "stopping_command.py"), "PYTHONPATH": str(ROOT / "examples")}
    done = lfdm("stopping", "20", "--friction", "0.5", **plugin)
    assert (done.returncode, done.stdout) == (0, "40.8 m\n"), done.stderr
    assert "stopping distance" in lfdm("--help", **plugin).stdout
    assert lfdm("stoping", **plugin).stderr == "lfdm stoping: no such command (did you mean 'stopping'?); lfdm --help lists them\n"
    assert lfdm("stopping", "-1", **plugin).stderr == "lfdm stopping: speed -1: give 0 m/s or more\n"


def test_a_name_that_is_taken_is_refused() -> None:
    with pytest.raises(InputError, match="command 'drive': the name is taken"):
        register_command(Command("drive", "mine", "mine"))
    register_command(COMMANDS["drive"])
