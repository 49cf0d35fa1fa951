"""A middleware that is not there is named before rcl ends the process over it."""

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize("arguments", [
    ["up", "simulator", "--duration", "1"], ["demo", "--out", "OUT"], ["bag", "record", "--all", "--out", "OUT"]])
def test_wrong_middleware_is_one_line_and_status_2(tmp_path, arguments):
    arguments = [str(tmp_path / "out") if a == "OUT" else a for a in arguments]
    result = subprocess.run([sys.executable, "-m", "lfdm_ros.cli", *arguments], capture_output=True, text=True,
                            env={**os.environ, "RMW_IMPLEMENTATION": "rmw_cyclonedds_cpp"})
    assert result.returncode == 2, result.stderr
    assert "rmw_cyclonedds_cpp" in result.stderr and "unset RMW_IMPLEMENTATION" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
