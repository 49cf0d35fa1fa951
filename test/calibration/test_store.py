"""The store of posteriors: versions, journal, damage, and kill -9 at any moment. The calibrations in it are small stand-ins."""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lfdm_ros.calibration.store import APPLIED, ROLLED_BACK, PosteriorStore
from lfdm_ros.errors import InputError

SUMMARY = {
    "version": "0.1.0", "model": "eight_dof", "vehicle": "hmmwv", "recipe": "small.yaml", "seed": 3, "draws": 10, "chains": 2,
    "interrupted": False, "recordings": [{"name": "turn", "path": "/bags/turn", "sha256": "ab"}], "stages": []}


def calibration(folder: Path, size: int = 10, **changes: object) -> Path:
    """The folder that a calibration leaves behind."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "summary.json").write_text(json.dumps({**SUMMARY, **changes}))
    (folder / "posterior.json").write_text("{}")
    (folder / "posterior.nc").write_bytes(b"x" * size)
    (folder / "posterior.partial").write_bytes(b"half")
    return folder


def test_versions_and_what_is_in_force(tmp_path: Path) -> None:
    store = PosteriorStore(tmp_path / "store").writer()
    assert store.in_force() is None and store.newest() is None and store.journal() == []
    out = calibration(tmp_path / "out")
    first = store.add(out, gates=[{"name": "r_hat", "passed": True, "reason": "1.0"}], notes={"ab": "cut, 3 messages recovered"})
    second = store.add(out, continued_from=1)
    assert (first.number, second.number) == (1, 2) and store.newest() is not None
    manifest = json.loads((tmp_path / "store/versions/0001/manifest.json").read_text())
    assert manifest["recordings"] == [{"name": "turn", "path": "/bags/turn", "sha256": "ab", "note": "cut, 3 messages recovered"}]
    assert (manifest["recipe"], manifest["seed"], manifest["software"]) == ("small.yaml", 3, "0.1.0")
    assert manifest["gates"][0]["name"] == "r_hat" and manifest["files"].keys() == {"summary.json", "posterior.json", "posterior.nc"}
    assert second.manifest["continued_from"] == 1
    store.put_in_force(1, APPLIED, "asked")
    store.put_in_force(2, APPLIED, "asked")
    store.put_in_force(1, ROLLED_BACK, "asked")
    store.close()
    # Somebody else, later.
    later = PosteriorStore(tmp_path / "store")
    assert later.in_force() == PosteriorStore(tmp_path / "store").version(1)
    assert [(entry.number, entry.action) for entry in later.journal()] == [(1, APPLIED), (2, APPLIED), (1, ROLLED_BACK)]
    later.put_in_force(0, ROLLED_BACK, "asked")
    assert later.in_force() is None


def test_a_run_is_stored_once(tmp_path: Path) -> None:
    store = PosteriorStore(tmp_path / "store").writer()
    out = calibration(tmp_path / "out")
    assert store.add(out, run="a").number == store.add(out, run="a").number == 1
    assert store.add(out, run="b").number == 2


def test_one_writer(tmp_path: Path) -> None:
    first = PosteriorStore(tmp_path / "store").writer()
    with pytest.raises(InputError, match="used by another calibrator"):
        PosteriorStore(tmp_path / "store").writer()
    first.close()
    PosteriorStore(tmp_path / "store").writer().close()


@pytest.mark.parametrize("damage", ["content", "missing", "manifest", "empty"])
def test_a_damaged_version_is_left_out_and_named(tmp_path: Path, damage: str) -> None:
    store = PosteriorStore(tmp_path / "store").writer()
    for _ in range(3):
        store.add(calibration(tmp_path / "out"))
    for number in (1, 2):
        store.put_in_force(number, APPLIED, "asked")
    store.close()
    folder = tmp_path / "store/versions/0002"
    if damage == "content":
        (folder / "posterior.nc").write_bytes(b"x" * 9 + b"y")
    elif damage == "missing":
        (folder / "summary.json").unlink()
    elif damage == "manifest":
        (folder / "manifest.json").write_text('{"files": ')
    else:
        for file in folder.iterdir():
            file.unlink()
    said: list[str] = []
    store = PosteriorStore(tmp_path / "store", report=said.append).writer()
    assert [version.number for version in store.versions()] == [1, 3]
    assert store.in_force() == store.version(1)  # what was in force before the damaged one
    with pytest.raises(InputError, match="version 2 is damaged"):
        store.put_in_force(2, APPLIED, "asked")
    assert len(said) == 1 and "posterior 2 is damaged" in said[0]
    assert store.add(calibration(tmp_path / "out")).number == 4  # no number is used twice


def test_a_damaged_journal_is_said_and_kept(tmp_path: Path) -> None:
    store = PosteriorStore(tmp_path / "store").writer()
    store.add(calibration(tmp_path / "out"))
    (tmp_path / "store/journal.json").write_text('{"entries": [{"number": 1}]}')
    with pytest.raises(InputError, match=r"journal\.json is damaged"):
        store.in_force()
    with pytest.raises(InputError, match=r"journal\.json is damaged"):
        store.put_in_force(1, APPLIED, "asked")
    assert (tmp_path / "store/journal.json").read_text() == '{"entries": [{"number": 1}]}'


def test_what_is_no_calibration_is_refused(tmp_path: Path) -> None:
    store = PosteriorStore(tmp_path / "store").writer()
    with pytest.raises(InputError, match=r"summary\.json: no such file"):
        store.add(tmp_path)
    assert store.versions() == [] and not list((tmp_path / "store/versions").iterdir())


WRITER = """
import sys
from lfdm_ros.calibration.store import APPLIED, PosteriorStore
store = PosteriorStore(sys.argv[1]).writer()
print("ready", flush=True)
while True:
    number = store.add(sys.argv[2]).number
    print("stored", number, flush=True)
    store.put_in_force(number, APPLIED, "test")
    print("applied", number, flush=True)
"""


def test_kill_9_at_any_moment_loses_nothing(tmp_path: Path) -> None:
    out = calibration(tmp_path / "out", size=3_000_000)
    chance = random.Random(4)
    stored = applied = left_behind = 0
    for turn in range(20):
        child = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path / "store"), str(out)], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        said = [child.stdout.readline() for _ in range(turn % 4)]
        time.sleep(chance.uniform(0.0, 0.01))
        child.send_signal(signal.SIGKILL)
        for word, number in (line.split() for line in (*said, *child.stdout) if line.endswith("\n")):
            stored = max(stored, int(number))
            applied = max(applied, int(number)) if word == "applied" else applied
        child.stdout.close()
        child.wait()
        left_behind += bool(list((tmp_path / "store/versions").glob(".unfinished_*")))
        damage: list[str] = []
        store = PosteriorStore(tmp_path / "store", report=damage.append).writer()
        numbers = [version.number for version in store.versions()]
        assert numbers == list(range(1, len(numbers) + 1)) and len(numbers) >= stored and not damage
        in_force = store.in_force()
        # Killed between the rename and saying so: then it is the newest.
        assert (in_force.number if in_force else 0) in {applied, len(numbers)}
        assert not list((tmp_path / "store/versions").glob(".*"))
        stored, applied = len(numbers), in_force.number if in_force else 0
        store.close()
    assert stored > 5
    assert left_behind > 0  # it was killed in the middle of its work
