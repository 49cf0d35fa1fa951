"""Where work is done must not change what comes out, even when a worker is killed."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from lfdm_ros.errors import InputError
from lfdm_ros.scheduling import LocalScheduler, ProcessScheduler, get_scheduler
from lfdm_ros.vehicles import Vehicle, load_vehicle


def _square(folder: Path, number: int) -> tuple[int, int]:
    with (folder / f"{number}.txt").open("a") as file:  # one line each time that it is begun
        file.write(f"{os.getpid()}\n")
    time.sleep(0.3)
    return number**2, os.getpid()


def _total(vehicle: Vehicle, number: int) -> float:
    return number * sum(vehicle.parameters.values())


def _fail(number: int) -> int:
    raise InputError(f"item {number} is no good")


@pytest.fixture(scope="module")
def cluster():
    pytest.importorskip("distributed", reason="Dask is not installed (pip install 'lfdm-ros[cluster]')")
    with get_scheduler("local:2") as scheduler:
        yield scheduler


def test_here_works_on_items_one_after_the_other() -> None:
    with get_scheduler() as scheduler:
        seen = []
        results = scheduler.map(lambda item: seen.append(item) or 2 * item, [3, 1])
        assert next(results) == (0, 6)
        assert seen == [3]  # what is not asked for is not begun
        assert list(results) == [(1, 2)]


def _die(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


def _stay(folder: Path, number: int) -> None:
    (folder / "process.part").write_text(str(os.getpid()))
    (folder / "process.part").rename(folder / "process")
    time.sleep(600.0)


def test_processes_do_what_this_process_does() -> None:
    vehicle = load_vehicle("hmmwv")
    assert isinstance(get_scheduler(processes=1), LocalScheduler)
    with get_scheduler(processes=2) as several:
        assert dict(several.map(partial(_total, vehicle), [1, 2, 3])) == {i: _total(vehicle, i + 1) for i in range(3)}
        with pytest.raises(InputError, match="item 7 is no good"):
            list(several.map(_fail, [7]))


def test_processes_end_with_the_study_whatever_they_are_at(tmp_path) -> None:
    with pytest.raises(KeyboardInterrupt), ProcessScheduler(1) as one:
        with ThreadPoolExecutor(1) as beside:
            beside.submit(lambda: next(one.map(partial(_stay, tmp_path), [1, 2])))
            while not (tmp_path / "process").exists():
                time.sleep(0.05)
            one.__exit__(None, None, None)
        raise KeyboardInterrupt
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "process").read_text()), 0)


def test_a_process_that_is_killed_is_told() -> None:
    with ProcessScheduler(1) as one, pytest.raises(InputError, match=r"a process of the study was killed \(memory\?\)"):
        list(one.map(_die, [1]))


def test_results_are_those_of_this_process(cluster) -> None:
    vehicle = load_vehicle("hmmwv")  # holds its parameters in a view that Python cannot pickle by itself
    with get_scheduler() as here:
        assert dict(cluster.map(partial(_total, vehicle), [1, 2, 3])) == dict(here.map(partial(_total, vehicle), [1, 2, 3]))


def test_work_of_a_killed_worker_is_done_again(cluster, tmp_path) -> None:
    before = cluster.workers()
    assert len(before) == 2
    results = cluster.map(partial(_square, tmp_path), range(10))
    found = dict([next(results)])
    victim = next(iter(before.values()))
    os.kill(victim, signal.SIGKILL)
    found.update(results)
    assert {number: square for number, (square, _) in found.items()} == {n: n**2 for n in range(10)}
    assert any(len(path.read_text().split()) > 1 for path in tmp_path.iterdir())  # it was at work
    assert victim not in cluster.workers().values()


def test_what_an_item_raises_is_raised_here(cluster) -> None:
    with pytest.raises(InputError, match="item 7 is no good"):
        list(cluster.map(_fail, [7]))


def test_workers_with_another_version_are_refused(cluster, monkeypatch) -> None:
    monkeypatch.setattr("lfdm_ros.scheduling.__version__", "0.0.1")
    with pytest.raises(InputError, match=r"worker .* has lfdm_ros .* instead of 0\.0\.1; give all the same environment"):
        get_scheduler(cluster.connect_address)


@pytest.mark.parametrize(("address", "message"), [
    ("tcp://127.0.0.1:1", "nothing answers there"), ("somewhere", "give tcp://HOST:PORT"), ("local:none", "expected local:N")])
def test_addresses_that_are_none(address, message, monkeypatch) -> None:
    pytest.importorskip("distributed", reason="Dask is not installed (pip install 'lfdm-ros[cluster]')")
    monkeypatch.setattr("lfdm_ros.scheduling.TIMEOUT", 0.3)
    with pytest.raises(InputError, match=message):
        get_scheduler(address)


def test_a_cluster_without_workers_is_refused() -> None:
    distributed = pytest.importorskip("distributed", reason="Dask is not installed (pip install 'lfdm-ros[cluster]')")
    with distributed.LocalCluster(n_workers=0, dashboard_address=":0") as empty, pytest.raises(InputError, match="no workers; start some"):
        get_scheduler(empty.scheduler_address)


def test_without_dask_the_message_says_how_to_get_it(monkeypatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(InputError, match="pip install 'lfdm-ros\\[cluster\\]'"):
        get_scheduler("local:2")
