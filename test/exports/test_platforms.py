"""Exports on processors and systems of others: FMUs' libraries in C here, under Wine and under qemu; C on a bare Cortex-M7 in qemu."""

import shutil
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from c_compiler import needs_cc
from masters import INTERVAL, native

from lfdm_ros.exports.c_files import write_c
from lfdm_ros.exports.fmu_file import token_of, write_fmu
from lfdm_ros.exports.library import PLATFORMS, own_platform
from lfdm_ros.exports.variables import exported
from lfdm_ros.simulation import Simulator
from lfdm_ros.vehicles import load_vehicle

HERE = Path(__file__).parent
ARM = Path("/usr/aarch64-linux-gnu")
EMULATORS = {"win64": ("wine",), "aarch64-linux": ("qemu-aarch64", "-L", str(ARM))}
# Memory of qemu's mps2-an500.
LAYOUT = """
ENTRY(start)
MEMORY { code : ORIGIN = 0, LENGTH = 4M  data : ORIGIN = 0x20000000, LENGTH = 4M }
SECTIONS {
  .text : { KEEP(*(.vectors)) *(.text*) *(.rodata*) } > code
  .ARM.exidx : { *(.ARM.exidx*) } > code
  .data : { *(.data*) *(.bss*) *(COMMON) } > data
  stack_top = 0x20400000;
}
"""
ROWS = np.column_stack([0.2 * np.sin(0.02 * np.arange(501)), np.full(501, 0.4), np.where(np.arange(501) > 400, 0.3, 0.0)])


def run(*command: object, **keywords: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, **keywords)
    assert done.returncode == 0, f"{done.returncode}: {done.stderr[:2000]}"
    return done


def zig() -> list[str]:
    if find_spec("ziglang") is None:
        pytest.skip("the extra 'export' (ziglang) is not installed")
    return [sys.executable, "-m", "ziglang"]


def emulator(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"no {name} on the PATH")
    return found


@needs_cc
@pytest.mark.parametrize("platform", ("own", *EMULATORS))
def test_a_program_in_c_drives_the_fmu_as_the_simulator_does(tmp_path, platform):
    own = platform == "own"
    if own:
        platform, command, compiler = own_platform(), [], ["cc"]
    else:
        if platform.startswith("aarch64") and not ARM.is_dir():
            pytest.skip(f"no libraries of AArch64 in {ARM}")
        command = [emulator(EMULATORS[platform][0]), *EMULATORS[platform][1:]]
        compiler = [*zig(), "cc", "-target", PLATFORMS[platform].zig]
    vehicle = load_vehicle("hmmwv")
    export = exported(vehicle, "eighteen_dof")
    write_fmu(export, tmp_path / "a.fmu", 2, [platform])
    library, program = tmp_path / f"a{PLATFORMS[platform].ending}", tmp_path / f"drive{'.exe' if platform == 'win64' else ''}"
    with zipfile.ZipFile(tmp_path / "a.fmu") as archive:
        library.write_bytes(archive.read(next(name for name in archive.namelist() if name.startswith("binaries"))))
    run(*compiler, "-O1", HERE / "fmu_main.c", "-o", program, *(["-ldl"] if platform != "win64" else []))
    np.column_stack([ROWS[:-1], np.diff(ROWS, axis=0) / INTERVAL]).tofile(tmp_path / "rows")
    speed, states = export.first["place"] + 3, len(export.model.states)
    run(*command, program, f"./{library.name}", token_of(export, 2), export.first["x"], states, speed, "rows", "states", cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "WINEDEBUG": "-all"})
    found = np.fromfile(tmp_path / "states").reshape(-1, states)
    expected = native("hmmwv", "eighteen_dof", ROWS, 8.0)
    np.testing.assert_allclose(found, expected, rtol=0.0 if own else 1e-12, atol=0.0 if own else 1e-12)


def test_c_drives_on_a_bare_cortex_m7_as_the_simulator_does(tmp_path):
    compiler, machine = [*zig(), "cc", "-target", "thumb-freestanding-eabihf", "-mcpu=cortex_m7"], emulator("qemu-system-arm")
    vehicle = load_vehicle("hmmwv")
    code = write_c(vehicle, vehicle.model("eight_dof"), tmp_path, "v")
    (tmp_path / "layout.ld").write_text(LAYOUT)
    # Double precision is software on this processor: the compiler's own library has it, which "-nostdlib" leaves out.
    run(*compiler, "-std=gnu99", "-O2", "-ffunction-sections", "-Wl,--gc-sections", "-nostdlib", "-rtlib=compiler-rt", "-I", tmp_path,
        HERE / "cortex_m7.c", code.source, "-T", tmp_path / "layout.ld", "-o", tmp_path / "a.elf")
    said = run(machine, "-M", "mps2-an500", "-nographic", "-semihosting-config", "enable=on,target=native", "-kernel", tmp_path / "a.elf")
    found = np.array([int(word, 16) for word in (said.stdout + said.stderr).split()], dtype=np.uint64).view(float)
    simulator = Simulator(vehicle, "eight_dof")
    simulator.reset(vx=12.0)
    before = np.zeros(3)
    for k in range(100):
        after = np.array([0.1 if k % 20 < 10 else -0.1, 0.3, 0.0])
        simulator.advance(before, after, 10)
        before = after
    np.testing.assert_allclose(found, simulator.state, rtol=1e-12, atol=1e-12)
