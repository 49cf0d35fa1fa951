"""`lfdm bench`: records, table and JSON of a dummy benchmark; names of the other measurements; peers."""

import json
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

from lfdm_lab.cli import bench
from lfdm_lab.cli.bench_peer import Peer, library_peers
from lfdm_ros.cli.main import main
from lfdm_ros.errors import InputError
from lfdm_ros.models import get_model


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(bench, "benchmark_folder", lambda: tmp_path)
    (tmp_path / "quick.py").write_text(
        "from lfdm_lab.cli.bench import Measurement\n"
        "def measure(runs):\n"
        "    return [Measurement.of('speed', [3.0, 1.0, 2.0][:runs], 'm/s')]\n")
    (tmp_path / "_shared.py").write_text("")
    return tmp_path


def test_table_and_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "quick", "--json", str(folder / "out.json"), "--figure", str(folder / "out.svg")]) == 0
    assert (folder / "out.svg").is_file()
    assert "speed" in capsys.readouterr().out
    record, = json.loads((folder / "out.json").read_text())
    assert {key: record[key] for key in ("name", "value", "unit", "spread", "runs")} == {
        "name": "speed", "value": 2.0, "unit": "m/s", "spread": 2.0, "runs": 3}


@pytest.mark.parametrize(("arguments", "words"), [
    (["nope"], "there are: quick"), (["_shared"], "there are: quick"), (["quick", "--runs", "0"], "--runs 0"),
    (["quick", "--json", "/no/such/dir/x"], "no such folder"), (["quick", "--figure", "run.mp4"], "--figure run.mp4: "),
    (["quick", "--only", "x"], "--only is not an option of the benchmark 'quick'"),
    (["quick", "--peer", "x"], "--peer is not an option of the benchmark 'quick'"),
    (["quick", "--models", "x"], "--models is not an option of the benchmark 'quick'")])
def test_mistakes_are_named(folder: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *arguments]) == 2
    assert words in capsys.readouterr().err


# -- Peers ------------------------------------------------------------------------------------------------------------

def program(code: str) -> tuple[str, ...]:
    return sys.executable, "-c", code


@pytest.mark.parametrize(("text", "measurement", "command"), [
    ("./prog", "", ("./prog",)),
    ("eight_dof/fiala/acceleration=./prog 'a b' {inputs}", "eight_dof/fiala/acceleration", ("./prog", "a b", "{inputs}")),
    ("env MODE=fast ./prog", "", ("env", "MODE=fast", "./prog"))])
def test_peer_is_read_from_one_argument(text: str, measurement: str, command: tuple[str, ...]) -> None:
    assert Peer.parse(text) == Peer(measurement, command)


@pytest.mark.parametrize(("text", "words"), [("", "no command"), ("a/b/c=", "a/b/c="), ("prog 'a", "No closing quotation")])
def test_peer_that_is_no_command(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        Peer.parse(text).milliseconds(tmp_path)


@pytest.mark.parametrize(("said", "value"), [
    ("3.5", 3.5), ("18dof, float64\n took 12.25ms for 1 run: 4e-1 ms", 0.4), ("x = 3 m, 2.5 ms.", 2.5), ("7 ms per model18", 7.0)])
def test_peer_last_number_counts(said: str, value: float, tmp_path: Path) -> None:
    assert Peer("", program(f"print({said!r})")).milliseconds(tmp_path) == value


@pytest.mark.parametrize(("command", "words"), [
    (("/no/such/program",), "/no/such/program cannot be started: No such file"),
    (program("print('done')"), "it printed none"),
    (program("print('time', -3)"), "its last number is -3"),
    (program("print(0)"), "its last number is 0"),
    (program("import sys; print(1.5); sys.exit('no tyre file')"), "ended with status 1: no tyre file")])
def test_a_failing_peer_reports_the_reason(command: tuple[str, ...], words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--peer") as failure:
        Peer("", command).milliseconds(tmp_path)
    assert words in str(failure.value)


@pytest.mark.parametrize("name", bench.benchmark_names())
def test_every_benchmark_can_be_loaded(name: str) -> None:
    assert callable(bench.load_benchmark(name).measure)


# -- lfdm bench models ------------------------------------------------------------------------------------------------

@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The benchmark with everything that takes long cut short."""
    module = bench.load_benchmark("models")
    monkeypatch.setattr(module, "REPEATS", 1)
    monkeypatch.setattr(module, "SECONDS", 0.05)
    monkeypatch.setattr(module, "cost_of_start", lambda subject, runs: [])
    return module


def test_the_library_is_found_or_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["bench", "models", "--peer"]) == 2
    assert "github.com/uwsbel/low-fidelity-dynamic-models" in capsys.readouterr().err
    program = tmp_path / "lfdm_peer"
    program.write_text("#!/bin/sh\nread inputs < \"$2\"; echo \"$1 took 50\"\n")
    program.chmod(0o755)
    (peer,) = library_peers("*/tmeasy/lane_change")[1:2]
    (tmp_path / "inputs").write_text("0 0 0 0\n")
    assert peer.measurement == "eighteen_dof/tmeasy/lane_change" and peer.milliseconds(tmp_path / "inputs") == 50.0
    with pytest.raises(InputError, match="the library has none of --only"):
        library_peers("eight_dof/*")


def test_models_compares_a_peer_with_the_named_run(models: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "milliseconds", lambda simulator, profile: 0.5)
    # It reads the 0.05 s of inputs of the run, and reports 2 ms.
    code = "import sys; end = open(sys.argv[1]).read().split()[-4]; print(2 if end == '0.05' else 'wrong')"
    peer = Peer("eight_dof/fiala/lane_change", (*program(code), "{inputs}"))
    records = models.measure(2, only="eight_dof/fiala/*", peers=[peer])
    assert {"step_ns/eight_dof/fiala/acceleration", "step_ns/eight_dof/fiala/lane_change"} <= {record.name for record in records}
    assert [record for record in records if record.name.startswith("peer")] == [
        bench.Measurement("peer_step_ns/eight_dof/fiala/lane_change", pytest.approx(2e6 / 50), "ns", 0.0, 2),
        bench.Measurement("peer_ratio/eight_dof/fiala/lane_change", 0.25, "1", 0.0, 2)]


@pytest.mark.parametrize(("options", "words"), [
    (dict(only="twelve_dof/*"), "--only twelve_dof/*: matches none of eight_dof/fiala/acceleration"),
    (dict(peers=[Peer("eight_dof/fiala/drift", ("x",))]), "--peer eight_dof/fiala/drift: not measured here"),
    (dict(only="eight_dof/fiala/*", peers=[Peer("eight_dof/fiala/lane_change", ("x",)), Peer("", ("y",))]), "two programs beside")])
def test_models_refuses_unknown_measurements(models: ModuleType, options: dict, words: str) -> None:
    with pytest.raises(InputError) as failure:
        models.measure(1, **options)
    assert words in str(failure.value)


# -- lfdm bench batch -------------------------------------------------------------------------------------------------

def test_batch_reports_time_memory_and_derivatives_of_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = bench.load_benchmark("batch")
    for name, value in {"VEHICLES": 20, "SECONDS": 0.02, "LONG_SECONDS": 0.2, "REPEATS": 1}.items():
        monkeypatch.setattr(batch, name, value)
    records = {record.name: record for record in batch.measure(1, only="eight_dof")}
    assert {"vehicle_step_ns/eight_dof/float64", "vehicle_step_ns/eight_dof/float32", "bytes_per_vehicle/eight_dof",
            "sensitivity_ratio/eight_dof", "sensitivity_ratio_fd/eight_dof"} <= records.keys()
    assert len(batch.parameters_of(batch.subjects.of_chassis("eight_dof"))) == 8
    # At least the parameters and state of each vehicle.
    model = get_model("eight_dof")
    assert records["bytes_per_vehicle/eight_dof"].value >= 8 * (len(model.parameters) + len(model.states))
    with pytest.raises(InputError, match="matches none of eight_dof"):
        batch.measure(1, only="twelve_dof")


# -- lfdm bench mpc ---------------------------------------------------------------------------------------------------

@pytest.fixture
def mpc(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The benchmark with everything that takes long cut short."""
    module = bench.load_benchmark("mpc")
    monkeypatch.setattr(module, "cost_of_start", lambda model, runs: [])
    monkeypatch.setattr(module, "limits_of", lambda vehicle, settings: None)
    monkeypatch.setattr(module, "WARM_UP", 1)
    monkeypatch.setattr(module, "DETECTED", 4)  # as many as the constraints of the settings: nothing else is compiled
    return module


def test_mpc_reports_cycles_under_load_and_their_parts(mpc: ModuleType) -> None:
    records = {record.name: record for record in mpc.measure(1, 100, ["driven_bicycle"], ["hpipm", "piqp"])}
    assert {f"cycle_ms_{what}/driven_bicycle/{solver}" for what in ("p50", "p99", "max") for solver in ("hpipm", "piqp")} <= records.keys()
    assert records["solved_share/driven_bicycle/hpipm"].value == 1.0 == records["solved_share/driven_bicycle/hpipm_slalom"].value
    assert records["active_share/driven_bicycle/hpipm_slalom"].value == 1.0
    # Times depend on the machine; the list of parts does not.
    parts = [record.value for name, record in records.items() if name.startswith("part_cpu_ms_p50/driven_bicycle/hpipm/")]
    assert min(parts) > 0.0 and len(parts) > 3
    assert records["ratio_p50/driven_bicycle/piqp"].value > 0.0


@pytest.mark.parametrize(("options", "words"), [
    (dict(cycles=10), "--cycles 10: give 100 or more"), (dict(models=["unicycle"]), "--models unicycle: choose from driven_bicycle"),
    (dict(solvers=["magic"]), "--solvers magic: choose from hpipm")])
def test_mpc_refuses_unknown_models_and_solvers(mpc: ModuleType, options: dict, words: str) -> None:
    with pytest.raises(InputError, match=words):
        mpc.measure(1, **options)


# -- lfdm bench c_code ------------------------------------------------------------------------------------------------

@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_c_code_is_compared_with_the_packages_code(monkeypatch: pytest.MonkeyPatch) -> None:
    c_code = bench.load_benchmark("c_code")
    for name, value in {"SECONDS": 0.1, "REPEATS": 1, "VARIANTS": {"c99_o0": (False, ("-O0",))}}.items():
        monkeypatch.setattr(c_code, name, value)
    names = [record.name for record in c_code.measure(1, only="eight_dof")]
    variants = [f"{kind}/eight_dof/{variant}" for variant in ("c99_o0", "fmu") for kind in ("step_ns", "ratio")]
    assert names == ["step_ns/eight_dof/llvm", *variants]
    with pytest.raises(InputError, match="matches none of eight_dof"):
        c_code.measure(1, only="twelve_dof")
