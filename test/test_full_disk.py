"""Disks that refuse: what can be made again goes on with a warning, what cannot ends in one line, and nothing is left half written."""

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from disks import full
from matplotlib.figure import Figure

from lfdm_ros.bags import bag_info
from lfdm_ros.bags.storage import CheckpointWriter
from lfdm_ros.bags.typestore import build_message, require_type, typestore
from lfdm_ros.bags.writer import STORAGES
from lfdm_ros.calibration import results
from lfdm_ros.calibration.checkpoint import Checkpoints
from lfdm_ros.calibration.store import APPLIED, PosteriorStore
from lfdm_ros.cli.main import main
from lfdm_ros.compiler import code_cache
from lfdm_ros.errors import InputError, reason
from lfdm_ros.files import replacing, write_text
from lfdm_ros.reports import save_figure
from lfdm_ros.samplers.sampler import SampleRun
from lfdm_ros.vehicles import load_vehicle, save_vehicle


def test_a_cache_that_cannot_be_written_is_one_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                         capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("LFDM_CACHE_DIR", str(tmp_path))
    with full(1000):
        for name in ("a.o", "b.o"):
            assert code_cache.cached(name, lambda: b"x" * 100_000) == b"x" * 100_000
    said = capfd.readouterr().err
    assert said.count("\n") == 1 and str(tmp_path) in said and "LFDM_CACHE_DIR" in said
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert [code_cache.cached("a.o", lambda i=i: b"%d" % i) for i in range(2)] == [b"0", b"0"] and not capfd.readouterr().err


def test_a_folder_where_a_cache_file_should_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("LFDM_CACHE_DIR", str(tmp_path))
    (tmp_path / code_cache.fingerprint() / "a.o" / "b").mkdir(parents=True)
    assert code_cache.cached("a.o", lambda: b"data") == b"data"
    assert "directory" in capfd.readouterr().err.lower() and not list(tmp_path.rglob("*.tmp"))
    assert [code_cache.cached("c.o", lambda i=i: b"%d" % i) for i in range(2)] == [b"0", b"0"]
    # A file where the folder should be, and a folder where the cache should be.
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LFDM_CACHE_DIR", str(tmp_path / "file"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert code_cache.cache_directory() != tmp_path / "file"


def test_a_store_on_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    for name in ("summary.json", "posterior.json"):
        (out / name).write_text("{}")
    store = PosteriorStore(tmp_path / "store").writer()
    first = store.add(out)
    store.put_in_force(first.number, APPLIED, "asked")
    for name in ("a.nc", "b.nc"):
        (out / name).write_bytes(b"x" * 100_000)
    before = sorted(path.name for path in (tmp_path / "store").rglob("*"))
    with full(10_000):
        with pytest.raises(InputError, match="nothing stored before is touched") as error:
            store.add(out)
        assert os.strerror(errno.EFBIG) in str(error.value) and "[(" not in str(error.value)
    with full(10), pytest.raises(InputError, match=r"journal\.json"):
        store.put_in_force(0, APPLIED, "asked")
    assert sorted(path.name for path in (tmp_path / "store").rglob("*")) == before
    in_force = store.in_force()
    assert in_force is not None and in_force.number == 1
    assert store.add(out).number == 2  # there is room again
    store.close()


def test_results_are_whole_or_as_they_were(tmp_path: Path) -> None:
    import arviz as az

    vehicle = load_vehicle("hmmwv")
    save_vehicle(vehicle, tmp_path / "vehicle.yaml")
    text = (tmp_path / "vehicle.yaml").read_text()
    data = az.from_dict({"mass": np.zeros((4, 5000)) + np.arange(5000)})
    run = SampleRun(draws={"mass": np.zeros((4, 5000))}, log_likelihood=np.zeros((4, 5000)), point={}, point_is="",
                    evaluations=1, seconds=1.0, statistics={}, stored={}, account="")
    kept = Checkpoints(tmp_path, {"seed": 1})
    with full(2000):
        for write in (lambda: save_vehicle(vehicle, tmp_path / "vehicle.yaml"), lambda: kept.save("rolling", run),
                      lambda: results.write_inference_data(tmp_path / "posterior.nc", data)):
            with pytest.raises(OSError):
                write()
        figure = Figure()
        figure.subplots().plot(np.arange(100) % 7)
        with pytest.raises(OSError):
            save_figure(figure, tmp_path / "figure.png")
    assert (tmp_path / "vehicle.yaml").read_text() == text and kept.load("rolling") is None
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["vehicle.yaml"]
    kept.save("rolling", run)
    results.write_inference_data(tmp_path / "posterior.nc", data)
    save_figure(figure, tmp_path / "figure.svg")
    assert (tmp_path / "figure.svg").read_text().startswith("<?xml") and not list(tmp_path.glob(".*.partial"))
    assert kept.load("rolling") is not None and results.load_posterior(tmp_path)["mass"].shape == (4, 5000)


def test_a_device_and_a_link_stay_what_they_are(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with replacing(tmp_path / "pipe") as path:
        assert path == tmp_path / "pipe"
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_text(tmp_path / "link", "x")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "file").read_text() == "x"
    with pytest.raises(OSError) as error:
        write_text(tmp_path, "x")
    assert reason(error.value) == os.strerror(errno.EISDIR)


def test_what_a_command_writes_is_whole_or_as_it_was_and_the_line_names_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "inputs.txt").write_text("0 0 0.5 0\n1 0 0.5 0\n")
    (tmp_path / "run.csv").write_text("before")
    command = ["simulate", "--vehicle", "hmmwv", "--model", "linear_single_track", "--inputs", str(tmp_path / "inputs.txt"), "--out"]
    # First where there is room for compiled code, of which there is a warning otherwise.
    assert main([*command, "/dev/full"]) == 2
    assert capsys.readouterr().err == f"lfdm simulate: /dev/full: {os.strerror(errno.ENOSPC)}\n"
    with full(2000):
        assert main([*command, str(tmp_path / "run.csv")]) == 2
    assert capsys.readouterr().err == f"lfdm simulate: {tmp_path / 'run.csv'}: {os.strerror(errno.EFBIG)}\n"
    assert (tmp_path / "run.csv").read_text() == "before" and len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_a_bag_on_a_full_disk_leaves_no_half_metadata(tmp_path: Path, storage: str) -> None:
    kind, store = "lfdm_ros/msg/DriverCommand", typestore()
    require_type(kind)
    writer = CheckpointWriter(tmp_path / "bag", version=9, storage_plugin=STORAGES[storage])
    writer.open()
    connection = writer.add_connection("a", kind, typestore=store)
    writer.write(connection, 0, store.serialize_cdr(build_message(kind, {"throttle": 0.5}), kind))
    writer.checkpoint()
    with full(100), pytest.raises(OSError):
        writer.checkpoint()  # there is nothing else to write any more
    assert not [path for path in (tmp_path / "bag").iterdir() if path.suffix in (".tmp", ".partial")]
    writer.close()
    assert bag_info(tmp_path / "bag")["closed"]


def test_every_command_says_in_one_line_what_the_disk_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                              capsys: pytest.CaptureFixture[str]) -> None:
    def run(args: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(tmp_path / "x"))

    command = SimpleNamespace(run=run, add_arguments=lambda parser: None, EPILOG="")
    monkeypatch.setattr("importlib.import_module", lambda name: command)
    assert main(["models"]) == 2
    assert capsys.readouterr().err == f"lfdm models: {tmp_path / 'x'}: No space left on device\n"
