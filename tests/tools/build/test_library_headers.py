"""Headers of NVIDIA's libraries that stand in for a toolkit's: names, an error for a call, random
numbers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from astra_chat.tools.build.extension_headers import FOLDER, header_texts
from astra_vgpu.ground.toolkit import find_toolkit

CALLS = """
#include <cublas_v2.h>
#include <nccl.h>
struct Context {
  cublasHandle_t handle = nullptr;
  ncclComm_t peers = nullptr;
  cublasStatus_t made() { return cublasCreate(&handle); }
};
Context context;
"""
NUMBERS = """
#include <curand.h>
#include <curand_kernel.h>
#include <cstdio>
int main() {
  const uint4 known = astra::philox(make_uint4(0, 0, 0, 0), make_uint2(0, 0));
  std::printf("%08x %08x %08x %08x\\n", known.x, known.y, known.z, known.w);
  curandStatePhilox4_32_10_t far, near;
  curand_init(7, 5, 0, &near);
  for (int i = 0; i < 6; ++i) curand(&near);
  curand_init(7, 5, 6, &far);
  const uint4 a = curand4(&near);
  std::printf("%d\\n", a.x == curand(&far) && a.y == curand(&far) && a.z == curand(&far));
  for (int i = 0; i < 9; ++i) {
    const float4 u = curand_uniform4(&far);
    if (!(u.x > 0 && u.x <= 1 && u.w > 0 && u.w <= 1)) std::printf("outside\\n");
  }
}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the headers, as a build has it."""
    for name, text in header_texts().items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def compiled(folder: Path, text: str, *options: str) -> str:
    """What nvcc says; of a program, the host's compiler."""
    (folder / "file.cu").write_text(text)
    toolkit = find_toolkit()
    if (toolkit.include_dir / "cublas_v2.h").exists():
        pytest.skip("this toolkit has the libraries' own headers")
    cuda = [str(toolkit.nvcc), f"-ccbin={toolkit.cxx}", "-arch=sm_90"]
    compiler = cuda if "-c" in options else [str(toolkit.cxx), "-x", "c++", "-std=c++17"]
    done = subprocess.run(
        [*compiler, "-O2", f"-I{FOLDER}", f"-I{toolkit.include_dir}", *options, "file.cu"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def test_who_only_names_a_library_is_built(folder: Path) -> None:
    assert compiled(folder, CALLS, "-c") == ""


def test_a_call_that_is_built_is_an_error_with_the_functions_name(folder: Path) -> None:
    called = "int main() { return context.made(); }"
    said = compiled(folder, CALLS + called, "-c")
    assert "cublasCreate() is not implemented: it is a library's" in said
    assert compiled(folder, CALLS + called, "-c", "-DASTRA_UNCALLED_LIBRARY") == ""


def test_philox_gives_the_published_numbers(folder: Path) -> None:
    """The first line is the known answer of the authors' own tests."""
    assert compiled(folder, NUMBERS, "-o", "program") == ""
    done = subprocess.run([folder / "program"], capture_output=True, text=True, check=True)
    assert done.stdout == "6627e8d5 e169c58d bc57ac4c 9b00dbd8\n1\n"
