"""`lfdm completion`: the script completes what the parsers take."""

import shutil
import subprocess
from pathlib import Path

import pytest

from lfdm_ros.cli.main import COMMANDS, main


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
    ("lfdm drive slalom --", {"--figure", "--vehicle", "--ground", "--model"}, {"--plant", "--mass"}),
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
