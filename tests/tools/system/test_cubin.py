"""Cubins as ptxas made them, read as cuobjdump and `ptxas -v` tell them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from astra_chat.tools.build.nvcc import parse_ptxas
from astra_vgpu.ground.cubin import Cubin, CubinParameter, read_cubin
from astra_vgpu.ground.elf import ElfError
from astra_vgpu.ground.errors import MissingDependency
from astra_vgpu.ground.toolkit import find_tool, find_toolkit

SOURCE = """
struct Mixed { float* p; int n; double* q; char c; };
struct Large { char bytes[5000]; };
__device__ int table[16];
static __device__ float state;
__constant__ float weights[32];
extern "C" __global__ void __launch_bounds__(256, 2) first(float* a, int n, Mixed m, char c) {
    extern __shared__ float dynamic[];
    __shared__ float fixed[100];
    dynamic[threadIdx.x] = a[n];
    fixed[threadIdx.x % 100] = m.q[0];
    __syncthreads();
    a[0] = dynamic[n] + fixed[n] + c + table[n] + state + weights[n];
    state = 1;
}
extern "C" __global__ void second(Large large, float* out) { *out = large.bytes[threadIdx.x]; }
extern "C" __global__ void empty() {}
#if __CUDA_ARCH__ >= 900
extern "C" __global__ void __cluster_dims__(2, 1, 1) clustered(float* a) { a[1] = 2; }
extern "C" __global__ void __launch_bounds__(512, 1, 4) limited(float* a) { a[1] = 2; }
extern "C" __global__ void __block_size__((64, 2, 1)) sized(float* a) { a[1] = 2; }
#endif
"""


def compiled(folder: Path, arch: str) -> tuple[Path, str]:
    """The cubin, and what `ptxas -v` said."""
    (folder / "unit.cu").write_text(SOURCE)
    command = [str(find_toolkit().nvcc), f"-arch={arch}", "-cubin", "-Xptxas=-v", "unit.cu"]
    done = subprocess.run(
        [*command, "-o", "unit.cubin"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return folder / "unit.cubin", done.stderr


@pytest.fixture(scope="module", params=["sm_80", "sm_90", "sm_100"])
def made(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path, str]:
    return request.param, *compiled(tmp_path_factory.mktemp(request.param), request.param)


def test_registers_and_shared_memory_are_what_ptxas_says(made: tuple[str, Path, str]) -> None:
    _, path, log = made
    cubin = read_cubin(path.read_bytes())
    said = {r.kernel: (r.registers, r.static_shared_bytes) for r in parse_ptxas(log)}
    assert said == {k.name: (k.registers, k.static_shared_bytes) for k in cubin.kernels.values()}
    assert cubin.kernels["first"].static_shared_bytes == 400
    assert cubin.kernels["first"].barriers == 1 and cubin.kernels["empty"].barriers == 0


def test_registers_are_what_cuobjdump_says(made: tuple[str, Path, str]) -> None:
    try:
        cuobjdump = find_tool("cuobjdump")
    except MissingDependency as lack:
        pytest.skip(str(lack))
    command = [str(cuobjdump), "-res-usage", str(made[1])]
    text = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    said = {name: int(n) for name, n in re.findall(r"Function (\S+):\s+REG:(\d+)", text)}
    kernels = read_cubin(made[1].read_bytes()).kernels
    assert said == {name: kernel.registers for name, kernel in kernels.items()}


def test_parameters_lie_as_the_compiler_laid_them_out(made: tuple[str, Path, str]) -> None:
    kernels = read_cubin(made[1].read_bytes()).kernels
    first = kernels["first"]
    assert first.parameters == (
        CubinParameter(0, 8),
        CubinParameter(8, 4),
        CubinParameter(16, 32),
        CubinParameter(48, 1),
    )
    assert first.parameter_bytes == 49 and first.max_threads == 256
    assert kernels["second"].parameters == (CubinParameter(0, 5000), CubinParameter(5000, 8))
    assert kernels["second"].parameter_bytes == 5008 and kernels["second"].max_threads == 0
    assert kernels["empty"].parameters == () and kernels["empty"].parameter_bytes == 0


def test_variables_and_architecture(made: tuple[str, Path, str]) -> None:
    arch, path, _ = made
    cubin = read_cubin(path.read_bytes())
    assert {v.name: v.bytes for v in cubin.variables.values()} == {
        "table": 64,
        "state": 4,
        "weights": 128,
    }
    number = int(arch.removeprefix("sm_"))
    assert cubin.compute == divmod(number, 10)
    assert cubin.runs_on(cubin.compute) and not cubin.runs_on((cubin.compute[0] + 1, 0))


def test_clusters_and_launch_bounds(tmp_path: Path) -> None:
    kernels = read_cubin(compiled(tmp_path, "sm_90")[0].read_bytes()).kernels
    assert kernels["clustered"].cluster == (2, 1, 1) and kernels["first"].cluster is None
    assert kernels["limited"].max_threads == 512 and kernels["limited"].max_cluster == 4
    assert kernels["sized"].required_block == (64, 2, 1) and kernels["sized"].max_threads == 128


def test_minor_versions_run_upwards_only() -> None:
    assert Cubin((8, 0)).runs_on((8, 9)) and not Cubin((8, 9)).runs_on((8, 0))


def test_what_is_no_cubin_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ElfError, match="not a 64-bit"):
        read_cubin(b"nothing")
    with pytest.raises(ElfError, match="another machine"):
        read_cubin(Path("/bin/sh").read_bytes())
    whole = compiled(tmp_path, "sm_90")[0].read_bytes()
    for cut in (70, len(whole) // 3):
        with pytest.raises(ElfError):
            read_cubin(whole[:cut])
