"""Nobody reads what a command says, or a process that works for it is gone: the first is no failure, the second is one."""

import os
import subprocess
import sys

import pytest

from lfdm_ros.cli import models
from lfdm_ros.cli.main import main


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
