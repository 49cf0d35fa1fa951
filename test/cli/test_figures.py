"""Pictures and animations are of the format of their names, or refused before the work; former names of options."""

import re
import stat
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from sight import SIGHT, lab, rgb

from lfdm_ros.cli.main import main
from lfdm_ros.reports import COLOURS, GREY, PALE, NamedValue, draw_values

SCENARIO = """
initial: {speed: 8.0}
goal: {x: 20.0, y: 0.0}
speed: 8.0
duration: 4.0
obstacles:
  - {circle: {x: 12.0, y: -4.0, radius: 0.8}}
"""
BEGINS = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    path = tmp_path / "yard.yaml"
    path.write_text(SCENARIO)
    return str(path)


@pytest.mark.parametrize("suffix", BEGINS)
def test_a_picture_has_the_format_of_its_name_and_is_the_same_again(scenario: str, suffix: str, tmp_path: Path) -> None:
    drawn = []
    what = ["drive", scenario] if suffix == ".png" else ["soil", "lete_sand"]
    for name in ("a", "b"):
        path = tmp_path / f"{name}{suffix}"
        assert main([*what, "--figure", str(path)]) == 0
        drawn.append(path.read_bytes())
    assert drawn[0].startswith(BEGINS[suffix]) and drawn[0] == drawn[1]


@pytest.mark.parametrize(("command", "names"), [
    (["drive", "slalom"], ("run.mp4", "run", "nowhere/run.png")), *((command, ("run.mp4",)) for command in (
        ["soil", "lete_sand"], ["vehicle", "check", "hmmwv_multibody"], ["topic", "hz", "/none"], ["hil", "faults"],
        ["simulate", "--vehicle", "hmmwv", "--inputs", "none", "--out", "none"], ["calibrate", "hmmwv_demo", "--bag", "none", "--check"],
        ["calibrate", "hmmwv_demo", "--bag", "none", "--out", "none"],
        ["predict", "--vehicle", "hmmwv", "--bag", "none", "--out", "none"]))])
def test_other_names_are_refused_at_once(command: list[str], names: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                         capsys: pytest.CaptureFixture) -> None:
    monkeypatch.chdir(tmp_path)
    for name in names:
        assert main([*command, "--figure", name]) == 2
        told = capsys.readouterr()
        assert told.out == "" and f"--figure {name}: " in told.err and not list(tmp_path.iterdir())


def test_an_animation_is_a_gif_or_by_ffmpeg(scenario: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                            capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["drive", scenario, "--animation", str(tmp_path / "run.webm")]) == 2
    assert "ends in .gif or .mp4" in capsys.readouterr().err
    assert main(["drive", scenario, "--animation", str(tmp_path / "run.mp4")]) == 2
    assert "install" in capsys.readouterr().err
    ffmpeg = tmp_path / "ffmpeg"
    ffmpeg.write_text('#!/bin/sh\nfor last; do :; done\n/bin/cat > "$last"\n')  # keeps the frames as they come
    ffmpeg.chmod(ffmpeg.stat().st_mode | stat.S_IXUSR)
    assert main(["drive", scenario, "--animation", str(tmp_path / "run.mp4")]) == 0
    frames, rest = divmod((tmp_path / "run.mp4").stat().st_size, 720 * 260 * 3)
    assert frames > 5 and rest == 0
    ffmpeg.write_text("#!/bin/sh\n/bin/cat > /dev/null\necho no codec >&2\nexit 1\n")
    assert main(["drive", scenario, "--animation", str(tmp_path / "other.mp4")]) == 2
    assert "ffmpeg: no codec" in capsys.readouterr().err and not (tmp_path / "other.mp4").exists()


@pytest.mark.parametrize(("former", "now", "arguments"), [
    ("--plot", "--figure", ["soil", "lete_sand", "--plot", "a.png"]),
    ("--picture", "--figure", ["vehicle", "check", "hmmwv_multibody", "--picture", "a.png"]),
    ("--known", "--change", ["vehicle", "new", "--mass", "1500", "--wheelbase", "2.7", "--known", "yaw_inertia=2400",
                             "--known", "cg_height=0.5", "--out", "car.yaml"]),
    ("--speed", "--initial-speed", ["simulate", "--vehicle", "hmmwv", "--inputs", "in.txt", "--speed", "5", "--out", "run.csv"]),
])
def test_a_former_name_is_taken_and_the_new_one_told(former: str, now: str, arguments: list[str], scenario: str, tmp_path: Path,
                                                     monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.txt").write_text("0 0 0 0\n0.1 0 0 0\n")
    assert main(arguments) == 0
    assert f"warning: {former} is {now} now" in capsys.readouterr().err
    if former == "--known":
        text = (tmp_path / "car.yaml").read_text()
        assert "2400" in text and "cg_height: {value: 0.5" in text
    if former == "--speed":
        assert float((tmp_path / "run.csv").read_text().splitlines()[1].split(",")[3]) == 5.0
    with pytest.raises(SystemExit):
        main([*arguments[:2 if arguments[0] == "vehicle" else 1], "--help"])
    text = capsys.readouterr().out
    assert now in text and f"{former} " not in text


def test_numbers_by_name_have_a_panel_for_each_unit() -> None:
    near = [NamedValue("a", 1.0, 0.9, 1.1), NamedValue("b", 2.0, 2.0, 2.0)]
    far = [NamedValue("c", 1e3, 1e3, 1e3), NamedValue("d", 2.0, 1.0, 4.0)]
    figure = draw_values([("s", near), ("none", []), ("ns", far)], marks=[1.5])
    assert [axis.get_xlabel() for axis in figure.axes] == ["s", "ns"]
    assert [axis.get_xscale() for axis in figure.axes] == ["linear", "log"]
    assert [[tick.get_text() for tick in axis.get_yticklabels()] for axis in figure.axes] == [["a", "b"], ["c", "d"]]
    assert figure.axes[0].get_ylim() == (1.5, -0.5)  # the first on top


def test_a_simulation_draws_what_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "in.txt").write_text("0 0 0.3 0\n1 0.1 0.3 0\n")
    run = ["simulate", "--vehicle", "hmmwv", "--inputs", str(tmp_path / "in.txt"), "--out", str(tmp_path / "run.csv")]
    assert main([*run, "--figure", str(tmp_path / "a.pdf")]) == 0
    assert main(["plot", str(tmp_path / "run.csv"), "--figure", str(tmp_path / "b.pdf")]) == 0
    assert (tmp_path / "a.pdf").read_bytes() == (tmp_path / "b.pdf").read_bytes()


@pytest.mark.parametrize("sight", SIGHT)
def test_colours_differ_to_every_kind_of_vision(sight: str) -> None:
    colours = sorted({*COLOURS, GREY, PALE, "#ffffff"})
    seen = dict(zip(colours, lab(np.array([rgb(code[1:]) for code in colours]), sight)))
    apart = {(a, b): float(np.linalg.norm(seen[a] - seen[b])) for a, b in combinations(colours, 2)}
    assert min(apart.values()) > 20.0, min(apart, key=apart.__getitem__)


def test_pictures_take_the_colours_of_reports() -> None:
    root, neutral = Path(__file__).parents[2], ('color="black"', 'color="white"')
    drawing = {path: text for folder in ("lfdm_ros", "lab/lfdm_lab") for path in (root / folder).rglob("*.py")
               if "matplotlib" in (text := path.read_text(encoding="utf-8")) and path.name != "reports.py"}
    named = [f"{path.relative_to(root)}: {found[0]}" for path, text in drawing.items()
             for found in re.finditer(r'"#[0-9a-fA-F]{6}"|"tab:\w+"|"C\d"|color="[a-z]+"', text) if found[0] not in neutral]
    assert len(drawing) > 5 and not named
