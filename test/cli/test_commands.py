"""Commands by name: from outside, completed by the shell, and the lists of what has a name."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lfdm_ros.cli.commands import COMMANDS, Command, register_command
from lfdm_ros.cli.list import KINDS
from lfdm_ros.cli.main import main
from lfdm_ros.errors import InputError, suggest
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


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("completion") / "lfdm.bash"
    with pytest.MonkeyPatch.context() as patch:
        printed: list[str] = []
        patch.setattr("builtins.print", lambda *texts, **_: printed.extend(texts))
        assert main(["completion", "bash"]) == 0
    path.write_text("".join(printed))
    return path


@pytest.mark.parametrize(("typed", "known", "unknown"), [
    ("lfdm ", set(COMMANDS), set()), ("lfdm drive sla", {"slalom"}, set()),
    ("lfdm drive slalom --", {"--figure", "--vehicle", "--ground", "--model", "--plant"}, {"--mass"}),
    ("lfdm drive slalom --vehicle hmm", {"hmmwv"}, {"sedan"}), ("lfdm vehicle ", {"new", "check", "show"}, set()),
    ("lfdm vehicle new --class ", {"small", "car"}, set()), ("lfdm vehicle check --", {"--figure"}, {"--picture", "--mass"}),
    ("lfdm list ", {"scenarios", "stacks"}, set()), ("lfdm up auto", {"autonomy"}, set()),
    ("lfdm completion ", {"bash", "zsh"}, set()), ("lfdm drive slalom --delay ", set(), set()),
])
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_bash_offers(script: Path, typed: str, known: set[str], unknown: set[str]) -> None:
    words = typed.split(" ")
    typed_words = " ".join(map(repr, words))
    ask = f'source {script}; COMP_WORDS=({typed_words}); COMP_CWORD={len(words) - 1}; _lfdm; echo "${{COMPREPLY[@]}}"'
    result = subprocess.run(["bash", "-c", ask], capture_output=True, text=True)
    offered = set(result.stdout.split())
    assert result.returncode == 0 and not result.stderr
    assert known <= offered and not unknown & offered


def test_zsh_takes_the_same_script(script: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["completion", "zsh"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("autoload -Uz") and text.endswith(script.read_text())


def test_a_command_that_is_not_there_is_answered_by_the_nearest(capsys: pytest.CaptureFixture) -> None:
    assert main(["drve", "slalom"]) == 2
    assert "no such command (did you mean 'drive'?)" in capsys.readouterr().err


def test_a_command_of_the_laboratory_says_where_it_is(capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """As beside a wheel, which does not bring it."""
    monkeypatch.setattr("lfdm_ros.cli.main.COMMANDS", {})
    assert main(["study", "mpc"]) == 2
    assert capsys.readouterr().err.startswith("lfdm study: a command of the laboratory, which is not installed; fix: pip install")
