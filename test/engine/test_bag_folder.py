"""The watched folder: what is finished, what is taken, and that both survive a restart."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from lfdm_ros.bags import BagWriter, bag_info
from lfdm_ros.engine.bag_folder import MOST_DEATHS, BagFolder, Job
from lfdm_ros.errors import InputError

STATE = "lfdm_ros/msg/VehicleState"


def record(path: Path, name: str, value: float = 0.0, messages: int = 3) -> Path:
    with BagWriter(path, recording=name) as bag:
        for i in range(messages):
            bag.write("vehicle/state", STATE, i, {"vx": value})
    return path


class Watch:
    """A folder, its memory, and a clock that is moved by hand."""

    def __init__(self, root: Path, recipe: str, **options: Any) -> None:
        self.root, self.recipe, self.options = root, recipe, options
        self.folder = root / "watched"
        self.folder.mkdir(exist_ok=True)
        self.now = 0.0
        self.restart()

    def restart(self) -> None:
        self.bags = BagFolder(self.folder, self.recipe, self.root / "watch.json", **self.options)

    def look(self, seconds: float = 1.0) -> tuple[list[str], list[str]]:
        """Looks twice, examines what is finished; returns the names of that, and the remarks."""
        self.bags.look(self.now)
        self.now += seconds
        found, remarks = self.bags.look(self.now), []
        for path in found:
            try:
                remarks.append(self.bags.examined(path, self.now, bag_info(path)))
            except InputError as error:
                remarks.append(self.bags.examined(path, self.now, None, str(error)))
        return [path.name for path in found], [remark for remark in remarks if remark]

    def job(self, **options: Any) -> Job | None:
        return self.bags.next_job("", self.now, **options)

    def do(self, outcome: str = "done", *, failed: bool = False, **options: Any) -> list[str]:
        """Does the next job; returns the names of its bags."""
        job = self.job(**options)
        assert job is not None
        self.bags.begin(job)
        self.said = self.bags.end(job, outcome, self.now, failed=failed)
        return [Path(bag).name for bag in job.bags]


def write_recipe(path: Path, recording: str) -> str:
    path.write_text(f"""
model: eight_dof
vehicle: hmmwv
stages:
  - name: only
    recording: {recording}
    window: [0, 1]
    parameters: {{cornering_stiffness_front: {{prior: uniform, lower: 20, upper: 90, unit: kN/rad}}}}
    channels: {{yaw_rate: {{noise: {{prior: half_normal, sigma: 1, unit: rad/s}}}}}}
""")
    return str(path)


def test_a_bag_of_a_vehicle_that_did_not_drive_is_not_calibrated_with(tmp_path: Path) -> None:
    watch = Watch(tmp_path, write_recipe(tmp_path / "recipe.yaml", "drive"))
    with BagWriter(watch.folder / "stood", recording="drive") as bag:
        bag.write("vehicle/state", STATE, 0, {"vx": 0.0})
        for i, said in enumerate(("", "commands did not act for 9.0 of 10.0 s")):
            bag.write("simulator/status", "lfdm_ros/msg/SimulatorStatus", i, {"not_driven": said})
    assert watch.look() == (["stood"], [f"{watch.folder / 'stood'} cannot be used: commands did not act for 9.0 of 10.0 s"])
    assert watch.job() is None
    record(watch.folder / "drove", "drive")
    assert watch.look()[0] == ["drove"] and watch.do() == ["drove"]


def test_waits_for_the_last_recording_and_takes_it_once(tmp_path: Path) -> None:
    watch = Watch(tmp_path, "hmmwv_paper")  # needs acc, simp_ramp, rr_1
    for age, name in enumerate(("acc", "simp_ramp")):
        os.utime(record(watch.folder / f"bag_{name}", name, value=float(age)), (1000 + age, 1000 + age))
        assert watch.look() == ([f"bag_{name}"], []) and watch.job() is None
    with BagWriter(watch.folder / "bag_rr", recording="rr_1") as bag:
        bag.write("vehicle/state", STATE, 0, {"vx": 7.0})
        bag.checkpoint()
        assert watch.look() == ([], [])  # still being written
    assert watch.look() == (["bag_rr"], [])
    job = watch.job()
    assert job is not None and [Path(bag).name for bag in job.bags] == ["bag_acc", "bag_simp_ramp", "bag_rr"] and len(job.fresh) == 3
    assert job.out == str(watch.folder / "calibrations" / "bag_rr")
    watch.do()
    assert watch.job() is None and watch.look() == ([], [])
    record(watch.folder / "other", "other", value=8.0)
    assert watch.look() == (["other"], []) and watch.job() is None  # new, but not what the recipe wants
    record(watch.folder / "acc_2", "acc", value=9.0)
    watch.look()
    assert watch.do() == ["bag_simp_ramp", "bag_rr", "acc_2"]
    watch.restart()
    assert watch.look() == ([], []) and watch.job() is None


def test_the_same_content_is_taken_once_whatever_its_name(tmp_path: Path) -> None:
    watch = Watch(tmp_path, write_recipe(tmp_path / "r.yaml", "turn"))
    record(watch.folder / "a", "turn")
    watch.look()
    assert watch.do() == ["a"]
    watch.restart()
    shutil.copytree(watch.folder / "a", watch.folder / "copy")
    (watch.folder / "a").rename(watch.folder / "renamed")
    names, remarks = watch.look()
    assert sorted(names) == ["copy", "renamed"] and all("which is known" in remark for remark in remarks)
    assert watch.job() is None


def test_pattern_takes_all_that_match_or_continues_with_the_new_ones(tmp_path: Path) -> None:
    watch = Watch(tmp_path, write_recipe(tmp_path / "r.yaml", '"drive_*"'))
    for i in range(2):
        os.utime(record(watch.folder / f"drive_{i}", f"drive_{i}", value=float(i)), (1000 + i, 1000 + i))
    record(watch.folder / "else", "else")
    watch.look()
    assert watch.do() == ["drive_0", "drive_1"]
    record(watch.folder / "drive_2", "drive_2", value=2.0)
    watch.look()
    anew, further = watch.job(), watch.job(continue_from=1)
    assert anew is not None and [Path(bag).name for bag in anew.bags] == ["drive_0", "drive_1", "drive_2"] and len(anew.fresh) == 1
    assert further is not None and [Path(bag).name for bag in further.bags] == ["drive_2"] and further.continue_from == 1


def test_an_unfinished_job_is_taken_up_after_a_restart(tmp_path: Path) -> None:
    watch = Watch(tmp_path, write_recipe(tmp_path / "r.yaml", "turn"))
    record(watch.folder / "a", "turn")
    watch.look()
    job = watch.job()
    assert job is not None and watch.bags.unfinished is None
    watch.bags.begin(job)
    watch.restart()
    assert watch.bags.unfinished == job
    watch.bags.end(job, "done", 0.0, failed=False)
    watch.restart()
    assert watch.bags.unfinished is None and watch.job() is None


def test_a_job_that_dies_again_and_again_is_given_up(tmp_path: Path) -> None:
    watch = Watch(tmp_path, write_recipe(tmp_path / "r.yaml", "turn"))
    record(watch.folder / "a", "turn")
    watch.look()
    job = watch.job()
    assert job is not None
    watch.bags.begin(job)
    for death in range(1, MOST_DEATHS + 1):
        job = watch.bags.unfinished
        assert job is not None
        assert watch.bags.died(job) is (death < MOST_DEATHS)
        watch.restart()


def test_the_bag_to_blame_is_left_out_and_the_others_go_on(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path / "r.yaml", '"drive_*"')
    watch = Watch(tmp_path, recipe)
    for i in (0, 1, 10):
        record(watch.folder / f"drive_{i}", f"drive_{i}", value=float(i))
    watch.look()
    watch.do(f"lfdm calibrate: {watch.folder / 'drive_10'} (drive_10): no topic", failed=True)
    watch.restart()
    assert sorted(watch.do()) == ["drive_0", "drive_1"]
    assert watch.job() is None
    write_recipe(tmp_path / "r.yaml", '["drive_*"]')  # another recipe may get on with it
    watch.restart()
    job = watch.job()
    assert job is not None and len(job.bags) == 3


def test_a_failure_through_no_bags_fault_is_tried_again_later(tmp_path: Path) -> None:
    """A full disk says nothing against a recording: the same job pauses, longer each time, and goes on in the same folder."""
    recipe = write_recipe(tmp_path / "r.yaml", '"drive_*"')
    watch = Watch(tmp_path, recipe)
    record(watch.folder / "drive_1", "drive_1")
    watch.look()
    full, folders = "lfdm calibrate: cannot write to calibrations: No space left on device", []
    for seconds in (60.0, 120.0):
        job = watch.job()
        assert job is not None
        folders.append(job.out)
        assert watch.do(full, failed=True) == ["drive_1"]
        assert watch.said == f"tried again in {seconds:g} s, or with a new bag or another recipe"
        watch.now += seconds - 1.0
        assert watch.job() is None and watch.bags.unfinished is None
        watch.now += 1.0
    assert watch.job() is not None and folders[0] == folders[1]
    watch.do(full, failed=True)
    record(watch.folder / "drive_2", "drive_2", value=1.0)
    watch.look()
    assert sorted(watch.do(full, failed=True)) == ["drive_1", "drive_2"]  # at once, and anew what is waited for
    assert watch.said.startswith("tried again in 60 s") and watch.job() is None
    write_recipe(tmp_path / "r.yaml", '["drive_*"]')
    assert watch.job() is not None
    watch.restart()
    assert watch.do() != [] and watch.said == "" and watch.job() is None


def test_bags_that_cannot_be_used_are_named_and_left(tmp_path: Path) -> None:
    watch = Watch(tmp_path, write_recipe(tmp_path / "r.yaml", "turn"), abandoned_after=5.0)
    record(watch.folder / "empty", "turn", messages=0)
    (watch.folder / "garbage").mkdir()
    (watch.folder / "garbage" / "garbage_0.mcap").write_bytes(b"\x89garbage")
    (watch.folder / "no_bag").mkdir()
    (watch.folder / "no_bag" / "notes.txt").write_text("hello")
    (watch.folder / "zero.mcap").write_bytes(b"")
    cut = record(watch.folder / "cut", "turn", messages=2000) / "cut.mcap"
    if not cut.exists():
        cut = next((watch.folder / "cut").glob("*.mcap"))
    cut.write_bytes(cut.read_bytes()[:-2000])
    names, remarks = watch.look()
    assert names == ["empty", "cut"] or names == ["cut", "empty"]  # closed; the others may still be being written
    assert remarks == [f"{watch.folder / 'empty'} cannot be used: it holds no messages"]  # and cut may still be being copied
    names, remarks = watch.look(6.0)
    assert sorted(names) == ["cut", "garbage", "zero.mcap"]
    assert sum("cannot be used" in remark for remark in remarks) == 2
    assert sum("messages recovered" in remark and remark.endswith("; calibrating with what is there") for remark in remarks) == 1
    assert watch.do() == ["cut"] and "messages recovered" in next(iter(watch.bags.notes().values()))
    watch.restart()
    assert watch.look(6.0) == ([], [])


def test_folder_and_memory_must_be_right(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a folder"):
        BagFolder(tmp_path / "none", "hmmwv_paper", tmp_path / "watch.json")
    recipe = Path(write_recipe(tmp_path / "r.yaml", "turn"))
    recipe.write_text(recipe.read_text() + "sampler: least_squares\n")
    with pytest.raises(InputError, match="cannot continue a posterior"):
        BagFolder(tmp_path, str(recipe), tmp_path / "watch.json", continuing=True)
    (tmp_path / "watch.json").write_text('{"job": {"id": "x"}}')
    with pytest.raises(InputError, match=r"watch\.json is damaged"):
        BagFolder(tmp_path, "hmmwv_paper", tmp_path / "watch.json")


@pytest.mark.parametrize("content", [
    {"bags": {"a": {"signature": "1", "sha256": {}}}}, {"bags": []}, {"taken": {"2": "done"}}, {"taken": {"2": {"path": "a"}}},
    {"job": {"id": "3"}}, {"job": {"id": "3", "recipe": "r", "bags": [1], "fresh": [], "out": "o", "continue_from": 0, "deaths": 0}}])
def test_a_damaged_memory_is_named(tmp_path, content):
    memory = tmp_path / "memory.json"
    memory.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"memory\.json is damaged"):
        BagFolder(tmp_path, "hmmwv_demo", memory)
