"""Reads of kernel parameters, found in PTX as nvcc writes it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from astra_chat.tools.plan.parameter_reads import unread_parameters
from astra_vgpu.ground.cubin import Cubin, read_cubin
from astra_vgpu.ground.toolkit import find_toolkit

SOURCE = """
struct Mixed { float* out; int count; const float* input; char last; };
struct Half { int used; int unused; float2 pair; };
extern "C" __global__ void mixed(Mixed m, int spare) { m.out[0] = m.input[m.count] + m.last; }
extern "C" __global__ void halves(Half h, float* out) { out[h.used] = h.pair.x + h.pair.y; }
extern "C" __global__ void taken(const __grid_constant__ Half h, float* out) {
    const volatile int* words = reinterpret_cast<const volatile int*>(&h);
    out[0] = words[threadIdx.x % 4];
}
extern "C" __global__ void constant(const __grid_constant__ Mixed m) {
    if (threadIdx.x < m.count) m.out[threadIdx.x] = m.input[threadIdx.x];
}
extern "C" __global__ void vectors(float4 a, float4 b, float4* out) { out[0] = a; }
extern "C" __global__ void by_hand(Half h, int* out) {
    int value;
    asm("ld.param.u32 %0, [by_hand_param_0+4];" : "=r"(value));
    *out = value;
}
extern "C" __global__ void empty(int unused) {}
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Cubin]:
    folder = tmp_path_factory.mktemp("reads")
    (folder / "unit.cu").write_text(SOURCE)
    command = [str(find_toolkit().nvcc), "-arch=sm_90", "unit.cu"]
    for kind in ("-ptx", "-cubin"):
        subprocess.run([*command, kind], cwd=folder, check=True, timeout=120)
    return (folder / "unit.ptx").read_text(), read_cubin((folder / "unit.cubin").read_bytes())


def unread_of(ptx: str, cubin: Cubin) -> dict[str, tuple[tuple[int, int], ...]]:
    return unread_parameters(ptx, cubin, cubin.kernels)


def test_padding_and_unused_parameters_are_unread(made: tuple[str, Cubin]) -> None:
    unread = unread_of(*made)
    assert unread["mixed"] == ((12, 4), (28, 4), (32, 4)), "a char is loaded as four bytes"
    assert unread["halves"] == ((4, 4),)
    assert unread["vectors"] == ((16, 16),)
    assert unread["empty"] == ((0, 4),)
    assert list(unread_parameters(*made, ["vectors", "of_another_file"])) == ["vectors"]


def test_loads_through_a_parameters_address_read_only_what_they_name(
    made: tuple[str, Cubin],
) -> None:
    ptx, cubin = made
    assert re.search(r"mov\.b64\s+%\w+, constant_param_0", ptx), "nvcc takes its address"
    assert unread_of(ptx, cubin)["constant"] == ((12, 4), (24, 8))
    start = ptx.index("constant_param_0;")
    other = ptx[:start] + ptx[start:].replace("ld.param.", "ld.", 1)
    assert unread_of(other, cubin)["constant"] == ()


def test_a_parameter_whose_address_is_taken_is_read_throughout(made: tuple[str, Cubin]) -> None:
    assert unread_of(*made)["taken"] == ()


def test_inline_assembly_reads_too(made: tuple[str, Cubin]) -> None:
    assert unread_of(*made)["by_hand"] == ((0, 4), (8, 8))


def test_what_is_not_understood_counts_as_read(made: tuple[str, Cubin]) -> None:
    ptx, cubin = made
    odd = "mov.b64 %rd9, halves_param_0;"
    for line in (odd, f".param .b32 own; {odd}", "ld.param.odd %r9, [halves_param_0+4];"):
        assert unread_of(f"{ptx}\n{line}\n", cubin)["halves"] == ()


def test_a_kernel_without_ptx_is_not_judged(made: tuple[str, Cubin]) -> None:
    assert unread_of("", made[1]) == {}


def test_line_info_and_paths_do_not_matter(made: tuple[str, Cubin], tmp_path: Path) -> None:
    ptx, cubin = made
    assert unread_of(f'.file 1 "halves_param_9"\n{ptx}', cubin)["halves"] == ((4, 4),)
