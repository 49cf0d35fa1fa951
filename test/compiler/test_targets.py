"""What is emitted is code for processors that this machine is not, and its vectors are as wide as theirs."""

import llvmlite.binding as llvm
import pytest

from lfdm_ros.backends.tick_kernel import advance_text
from lfdm_ros.backends.trajectory_kernels import batch_text, sensitivity_text
from lfdm_ros.compiler.machine_code import Target, compile_text, here
from lfdm_ros.models import get_model, model_names

PROCESSORS = {
    "x86-64-v3": (Target("x86_64-unknown-linux-gnu", "x86-64-v3", "+avx2,+fma"), {"double": 8, "float": 16}, 62),
    "aarch64": (Target("aarch64-unknown-linux-gnu", "generic", "+neon"), {"double": 4, "float": 8}, 183),
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


@pytest.mark.parametrize("spec", (*model_names(), "eight_dof/friction_field"))
@pytest.mark.parametrize("name", PROCESSORS)
def test_every_model_is_lowered(name: str, spec: str) -> None:
    """One vehicle, and many in single precision but for the largest; of one model derivatives too: objects of that processor."""
    (target, lanes, machine), model = PROCESSORS[name], get_model(spec)
    texts = [advance_text(model)]
    if spec != "multibody_hmmwv":  # a minute
        texts.append(batch_text(model, "float", False, "half_implicit", lanes["float"]))
    if spec.startswith("eight_dof"):
        texts.append(sensitivity_text(model, [0, 1], [3], "half_implicit"))
    for text in texts:
        data = compile_text(text, target=target)
        assert data[:4] == b"\x7fELF"
        assert int.from_bytes(data[18:20], "little") == machine  # ELF header, e_machine
