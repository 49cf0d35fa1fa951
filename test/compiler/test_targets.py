"""What is emitted is code for processors that this machine is not, and its vectors are as wide as theirs."""

import llvmlite.binding as llvm
import pytest

from lfdm_ros.backends.tick_kernel import advance_text
from lfdm_ros.backends.trajectory_kernels import batch_text, sensitivity_text
from lfdm_ros.compiler.machine_code import COMMON, NATIVE, TARGET, CodeTarget, common, compile_text, here, lacking
from lfdm_ros.errors import InputError
from lfdm_ros.models import get_model, model_names

PROCESSORS = {
    "x86-64-v3": (CodeTarget("x86_64-unknown-linux-gnu", "x86-64-v3", "+avx2,+fma"), {"double": 8, "float": 16}, 62),
    "aarch64": (CodeTarget("aarch64-unknown-linux-gnu", "generic", "+neon"), {"double": 4, "float": 8}, 183),
}


@pytest.fixture(scope="module", autouse=True)
def _all_targets() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


@pytest.mark.parametrize("name", PROCESSORS)
def test_lanes_are_those_of_two_registers(name: str) -> None:
    target, lanes, _ = PROCESSORS[name]
    assert {real: target.lanes(real) for real in lanes} == lanes
    assert here().lanes() in (4, 8, 16)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch):
    """Sets or leaves out LFDM_TARGET."""
    def ask(name: str) -> None:
        monkeypatch.setenv(TARGET, name)
        here.cache_clear()
        common.cache_clear()

    yield ask
    monkeypatch.undo()
    here.cache_clear()
    common.cache_clear()


def test_what_drives_is_made_for_a_level_and_batches_for_this_processor(asked) -> None:
    asked("")
    assert here().cpu == llvm.get_host_cpu_name()
    assert common() == here() if lacking(COMMON) else common().cpu == COMMON
    asked(NATIVE)
    assert common() == here()
    if not lacking(COMMON):
        asked(COMMON)
        assert common() == here()
        assert here().cpu == COMMON
        assert here().lanes() == 8


def test_a_target_that_is_not_there_is_refused(asked, monkeypatch) -> None:
    asked("skylake")
    with pytest.raises(InputError, match="LFDM_TARGET is 'skylake'; give one of native, x86-64-v2, x86-64-v3, x86-64-v4"):
        common()
    monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: llvm.FeatureMap(avx2=True))
    asked("x86-64-v3")
    with pytest.raises(InputError, match=r"lacks fma, bmi2; give native or a lower level"):
        here()
    asked("")
    assert common() == here()


# All for one of them, and for the other one that has what processors differ in: vectors, jumps, tables and derivatives.
@pytest.mark.parametrize(("name", "spec"), [("x86-64-v3", "eight_dof/friction_field"), *(("aarch64", name) for name in model_names())])
def test_every_model_is_lowered(name: str, spec: str) -> None:
    """One vehicle, and many in single precision but for the largest; of one model derivatives too: objects of that processor."""
    (target, lanes, machine), model = PROCESSORS[name], get_model(spec)
    texts = [advance_text(model)]
    if spec != "multibody_hmmwv":  # a minute
        texts.append(batch_text(model, "float", False, lanes["float"]))
    if spec.startswith("eight_dof"):
        texts.append(sensitivity_text(model, [0, 1], [3], "half_implicit"))
    for text in texts:
        data = compile_text(text, target, linked=True)
        assert data[:4] == b"\x7fELF"
        assert int.from_bytes(data[18:20], "little") == machine  # ELF header, e_machine
