"""The site builds without a warning and has every public name; code, commands and messages on its pages and in the README are valid."""

import ast
import importlib
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from lfdm_lab.cli_page import parser_of
from lfdm_ros.calibration import load_recipe
from lfdm_ros.cli.commands import COMMANDS
from lfdm_ros.cli.main import main
from lfdm_ros.errors import InputError
from lfdm_ros.ground.ground_file import load_ground
from lfdm_ros.simulation import load_scenario
from lfdm_ros.stacks.stack import load_stack
from lfdm_ros.vehicles import load_vehicle

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]}
BLOCK = re.compile(r"(?:<!-- not run: (.+?) -->\n)?```python\n(.*?)```", re.DOTALL)
ROOMS = ("bags", "calibration", "control", "models", "sharing", "simulation", "vehicles")
RUN = """
import re, sys
namespace, text = {}, open(sys.argv[1], encoding="utf-8").read()
if "calibrate(" in text:
    sys.path.append(sys.argv[3])
    import pictures
    without_pictures = pictures.left_out()  # of the report
    without_pictures.__enter__()
for match in re.finditer(sys.argv[2], text, re.DOTALL):
    if not match[1]:
        lines = match.string[:match.start(2)].count(chr(10))  # a traceback has the page's line
        exec(compile(chr(10) * lines + match[2], sys.argv[1], "exec"), namespace)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("sphinx", reason="the extra docs is not installed")
    out = tmp_path_factory.mktemp("site")
    done = subprocess.run([sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "docs", str(out)], cwd=ROOT,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out


def test_the_site_has_every_public_name_and_command(site: Path) -> None:
    pages = {path.stem: path.read_text(encoding="utf-8") for path in (site / "reference").rglob("*.html")}
    for room in ROOMS:
        for name in importlib.import_module(f"lfdm_ros.{room}").__all__:
            # A name exported by two packages is described in its own.
            assert re.search(rf'id="lfdm_ros\.[\w.]*\b{name}"', "".join(pages.values())), f"lfdm_ros.{room}.{name}"
    for name in COMMANDS:
        assert f'id="lfdm-{name}"' in pages["cli"], name
    for path in site.rglob("*.html"):  # a directive that was not understood is text
        assert not re.search(r":::|\{(?:toctree|list-table|literalinclude|eval-rst)\}", path.read_text(encoding="utf-8")), path.name


def test_every_message_is_on_its_page() -> None:
    files = [path for folder in ("msg", "srv", "action") for path in sorted((ROOT / folder).iterdir())]
    for path in files:
        assert f"../../{path.relative_to(ROOT)}\n" in PAGES["docs/reference/messages.md"], path.name


@pytest.mark.parametrize("page", [name for name, text in PAGES.items() if BLOCK.search(text)])
def test_the_python_of_a_page_runs(page: str, tmp_path: Path) -> None:
    """All blocks in one process, in an empty folder."""
    done = subprocess.run([sys.executable, "-c", RUN, str(ROOT / page), BLOCK.pattern, str(ROOT / "test")], cwd=tmp_path,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_python_stands_in_blocks_that_are_run() -> None:
    for name, text in PAGES.items():
        assert not re.search(r"^    (?:import \w+|from [\w.]+ import )", text, re.MULTILINE), name


def commands(text: str) -> Iterator[list[str]]:
    """Yields the words of each `lfdm` command in a page's indented and fenced blocks, without comments and shell syntax."""
    fenced = "\n".join(re.findall(r"^```(?:console|sh|bash)\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
    lines = re.findall(r"^(?:    |)(?:\$ )?(lfdm .+)$", fenced, re.MULTILINE) + re.findall(r"^    (?:\$ )?(lfdm .+)$", text, re.MULTILINE)
    for line in lines:
        yield shlex.split(re.split(r" &| \| | > |\s\\$", line)[0], comments=True)[1:]


@pytest.mark.parametrize("page", [name for name, text in PAGES.items() if [*commands(text)]])
def test_every_command_of_a_page_is_one(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Named scenarios and stacks exist, too."""
    for words in commands(PAGES[page]):
        if "..." not in words and not words[0].startswith("-"):
            assert_command(words, capsys)


def assert_command(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert words[0] in COMMANDS, words
    try:
        parser_of(words[0]).parse_args(words[1:])
    except SystemExit as end:
        assert end.code == 0, f"{' '.join(words)}: {capsys.readouterr().err}"
    named = words[1] if len(words) > 1 and re.fullmatch(r"[a-z]\w*", words[1]) else ""
    if words[0] == "drive" and named:
        load_scenario(named)
    elif words[0] in ("up", "cockpit", "policy", "layouts") and named:
        load_stack(named)
    for word in words:
        if word.startswith("scenario="):
            load_scenario(word.removeprefix("scenario="))


@pytest.mark.parametrize("path", [".github/workflows/docs.yml", ".github/workflows/nightly.yml", ".github/workflows/test.yml",
                                  ".github/workflows/wheels.yml", ".devcontainer/devcontainer.json", "docker/compose.yaml"])
def test_files_used_by_a_forge_or_a_container_exist(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Targets of make, commands with each of a matrix in its place, files of the source tree."""
    text = (ROOT / path).read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"(?:run|Command\"?): \"?make (\w+)", text)) <= targets
    matrix = re.search(r"command: (\[.+\])", text)
    for choice in yaml.safe_load(matrix[1]) if matrix else [""]:
        chosen = text.replace("${{ matrix.command }}", choice)
        for line in re.findall(r"^ +(?:- run: |command: )?(?:\.venv/bin/)?lfdm (.+)$", chosen, re.MULTILINE):
            assert_command(shlex.split(line), capsys)
    for name in re.findall(r"src/lfdm_ros/([\w./]+)|(\.ci/\w+|test/[\w/]+\.py)", text):
        assert (ROOT / "".join(name)).is_file(), name


def test_a_new_vehicle_with_its_tyre_as_on_the_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                     capsys: pytest.CaptureFixture[str]) -> None:
    """Each command of the README's second task, and of the tutorial beside the file that it shows."""
    tutorial = PAGES["docs/tutorials/own_tyre.md"]
    front = PAGES["README.md"].partition("## I want to know what a vehicle does")[2].partition("\n[")[0]
    for name, text in (("front", front), ("tutorial", tutorial)):
        folder = tmp_path / name
        folder.mkdir()
        shutil.copy(ROOT / "test" / "models" / "data" / "passenger_61.tir", folder / "tyre.tir")
        (folder / "my_tyre.yaml").write_text(re.findall(r"```yaml\n(.*?)```", tutorial, re.DOTALL)[0])
        lines = re.findall(r"^    ((?:lfdm|printf) .+)$", text, re.MULTILINE)
        assert len(lines) >= 4
        monkeypatch.chdir(folder)
        for line in lines:
            if line.startswith("lfdm "):
                assert main(shlex.split(line)[1:]) == 0, f"{line}: {capsys.readouterr().err}"
            else:
                subprocess.run(["bash", "-e"], input=line, text=True, check=True)
    assert "end of the path" in capsys.readouterr().out


FILES = {  # a document with a key that no reader knows
    "Vehicle": (load_vehicle, "{name: a, unknown: 1}"), "Scenario": (load_scenario, "unknown: 1"),
    "Stack": (load_stack, "{nodes: [], unknown: 1}"),
    "Node of a stack": (load_stack, "nodes: [{executable: recorder, unknown: 1}]"),
    "Recipe": (load_recipe, "{model: eight_dof, vehicle: hmmwv, stages: [], unknown: 1}"),
    "Stage of a recipe": (load_recipe, "{model: eight_dof, vehicle: hmmwv, stages: [{name: a, unknown: 1}]}"),
    "Ground": (load_ground, "{area: 1, friction: 1, unknown: 1}"),
}


@pytest.mark.parametrize("title", FILES)
def test_the_keys_of_a_file_are_those_that_its_reader_allows(title: str, tmp_path: Path) -> None:
    load, text = FILES[title]
    (tmp_path / "file.yaml").write_text(text)
    with pytest.raises(InputError, match="unknown key 'unknown'") as refused:
        load(tmp_path / "file.yaml")
    table = PAGES["docs/reference/files.md"].partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    shown = [key for row in re.findall(r"^\| (`.+?) \|", table, re.MULTILINE) for key in re.findall(r"`(\w+)`", row)]
    assert sorted(shown) == sorted(str(refused.value).partition("allowed: ")[2].split(", "))


def test_links_of_files_that_are_not_on_the_site() -> None:
    for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"):
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", (ROOT / name).read_text(encoding="utf-8")):
            assert (ROOT / target).exists(), f"{name}: {target}"


def test_the_readme_is_short_and_links_to_the_pages() -> None:
    lines = PAGES["README.md"].splitlines()
    assert len(lines) <= 120 and max(map(len, lines)) <= 100
    figures = [line for line in lines if re.match(r"\| .+ \| .+ \| `lfdm .+` \|$", line)]
    assert len(figures) == 10
    for line in figures:  # on the page of all figures, with their commands
        command = line.split("|")[3].strip().strip("`")
        rows = [row for row in PAGES["docs/reference/figures.md"].splitlines() if command in row]
        numbers = re.findall(r"\d[\d.]*", line.split("|")[2])
        assert any(all(number in row for number in numbers) for row in rows), line


def test_messages_of_the_troubleshooting_page_are_those_of_the_code() -> None:
    """The parts between ellipses occur in one text of the package, in this order."""
    texts = []
    for path in (ROOT / "lfdm_ros").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                texts.append("…".join(str(part.value) for part in node.values if isinstance(part, ast.Constant)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    messages = re.findall(r"^\| `(.+?)` \|", PAGES["docs/howto/troubleshooting.md"], re.MULTILINE)
    assert len(messages) > 25
    for message in messages:
        pattern = re.compile(".*".join(re.escape(part) for part in message.replace("`", "").split("…")), re.DOTALL)
        assert any(pattern.search(text) for text in texts), message
