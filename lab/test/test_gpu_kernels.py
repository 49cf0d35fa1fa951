"""Kernels of a GPU through CUDA's assembler, where it is installed; their benchmark on a driver without a GPU."""

import pytest

from lfdm_lab.benchmarks import gpu as bench
from lfdm_ros.backends import cuda_driver
from lfdm_ros.cli.main import main
from lfdm_ros.errors import InputError

# Bytes of spilled registers that a step reads back, at most, in double and single precision.
SPILLS = {"eight_dof/tmeasy_nr": (100, 0), "eighteen_dof/tmeasy_nr": (100, 0), "twenty_four_dof/fiala": (1200, 0),
          "twenty_four_dof/tmeasy": (1000, 0), "twenty_four_dof/tmeasy_nr": (1600, 0), "multibody_hmmwv/fiala": (30_000, 12_000)}
LOOP = """
.visible .entry batch(
)
{
	add.rn.f64 	%fd1, %fd2, %fd3;
$L__BB0_1:
	mul.rn.f64 	%fd1, %fd2, %fd3;
$L__BB0_2:
	div.rn.f64 	%fd1, %fd2, %fd3;
	@%p1 sqrt.rn.f64 	%fd1, %fd2;
	fma.rn.f64 	%fd1, %fd2, %fd3, %fd1;
	add.s64 	%rd1, %rd1, 1;
	@%p1 bra 	$L__BB0_2;
	@%p2 bra 	$L__BB0_1;
	ret;
}
"""


@pytest.fixture(scope="module")
def ptxas() -> str:
    try:
        return bench.assembler()
    except InputError as error:
        pytest.skip(str(error))


SUBJECTS = [*bench.subjects.SUBJECTS, bench.subjects.MULTIBODY]


# What has room for all numbers of double precision has it for those of half the size.
@pytest.mark.parametrize(("subject", "precision"), [
    pytest.param(subject, precision, id=f"{subject.name}-{precision}")
    for subject in SUBJECTS for precision in ("float64", "float32") if precision == "float64" or subject.name in SPILLS])
def test_kernels_assemble(ptxas: str, subject: bench.subjects.Subject, precision: str) -> None:
    made = bench.assemble(bench.kernel_of(subject, precision))
    assert 0 < made.registers <= 255
    assert made.loads <= SPILLS.get(subject.name, (0, 0))[precision == "float32"]


def test_the_oldest_architecture(ptxas: str) -> None:
    assert bench.assemble(bench.kernel_of(bench.subjects.SUBJECTS[0], "float64"), "sm_75").registers <= 255
    with pytest.raises(InputError, match=r"ptxas: .*syntax error"):
        bench.assemble(".version 7.0\n.target sm_75\nnonsense")


def test_operations_are_those_of_the_innermost_loop() -> None:
    assert bench.operations_of_step(LOOP) == 10 + 11 + 1


def test_the_benchmark_with_a_gpu(gpu, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    for name, value in {"VEHICLES": 256, "SECONDS": 0.02, "FEWER": (256,), "ASSESSMENTS": 1, "ROLLOUTS": (64,)}.items():
        monkeypatch.setattr(bench, name, value)
    records = {record.name: record.value for record in bench.measure(1, "eight_dof/fiala")}
    for backend in ("gpu", "cpu"):
        assert records[f"steps/eight_dof/fiala/float32/{backend}/256"] > 0.0 and records[f"risk_ms/2x64/{backend}"] > 0.0
    assert "on Stub 0" in capfd.readouterr().err


def test_without_a_gpu_missing_measurements_are_reported(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv(cuda_driver.VARIABLE, "libno_such_driver.so")
    cuda_driver.devices.cache_clear()
    assert not [record for record in bench.measure(1, "linear_single_track") if record.name.startswith("steps")]
    assert "speed is not measured: no driver of NVIDIA" in capfd.readouterr().err
    with pytest.raises(InputError, match="matches none of"):
        bench.measure(1, "twelve_dof")


def test_an_unknown_back_end_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sbc", "--backend", "abacus"]) == 2
    assert "--backend: back end 'abacus' is unknown; choose one of: cpu, gpu, auto" in capsys.readouterr().err
