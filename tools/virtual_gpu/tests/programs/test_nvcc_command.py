"""`astra-vgpu-nvcc` as the CUDA compiler of Make and CMake projects."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from astra_vgpu.ground.toolkit import find_toolkit

ROOT = Path(__file__).parents[2]
KERNELS = """
static __global__ void k(int* p, int n) { if (threadIdx.x <= n) p[threadIdx.x] += threadIdx.x; }
void add(int* p, int n) { k<<<1, 64>>>(p, n); }
"""
MAIN = """
#include <cuda_runtime.h>
#include <cstdlib>
#include <iostream>
#include <thread>
void add(int*, int);
int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 31;
  int *d, h[32] = {};
  if (cudaMalloc(&d, sizeof h)) return 4;
  cudaMemcpy(d, h, sizeof h, cudaMemcpyHostToDevice);
  add(d, n);
  const bool failed = cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
  std::cout << h[0] << " " << h[31] << " " << failed << std::endl;
  cudaFree(d);
}
"""
MAKEFILE = """
app: kernels.o main.o
\t$(NVCC) -o $@ $^
kernels.o: kernels.cu
\t$(NVCC) -arch=sm_80 -O2 -MD -MF kernels.d -Xcompiler -Wall -c -o $@ $<
main.o: main.cpp
\t$(CXX) -I$(CUDA_INCLUDE) -c -o $@ $<
"""
CMAKE = """
cmake_minimum_required(VERSION 3.20)
project(app LANGUAGES CXX CUDA)
add_library(kernels STATIC kernels.cu)
add_executable(app main.cpp)
target_include_directories(app PRIVATE ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
set_target_properties(app PROPERTIES LINKER_LANGUAGE CUDA)
target_link_libraries(app kernels)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "kernels.cu").write_text(KERNELS)
    (tmp_path / "main.cpp").write_text(MAIN)
    (tmp_path / "Makefile").write_text(MAKEFILE)
    (tmp_path / "CMakeLists.txt").write_text(CMAKE)
    nvcc = tmp_path / "bin" / "astra-vgpu-nvcc"
    nvcc.parent.mkdir()
    module = "astra_vgpu.programs.nvcc_command"
    nvcc.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m {module} "$@"\n')
    nvcc.chmod(0o755)
    return tmp_path


def call(*words: str | Path, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    return subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": path, **environment},
    )


def runs_on_the_virtual_gpu(app: Path, folder: Path) -> None:
    good = call(app, folder=folder)
    assert (good.returncode, good.stdout) == (0, "0 31 0\n"), good.stderr
    assert "virtual h200: 1 launches" in good.stderr and "no fault found" in good.stderr
    bad = call(app, "32", folder=folder, ASTRA_VGPU_OPTIONS="--keep-going --json report.json")
    assert bad.returncode == 1 and bad.stdout.endswith(" 0\n")
    (finding,) = json.loads((folder / "report.json").read_text())["findings"]
    assert (finding["finding"], finding["file"], finding["line"]) == (
        "out_of_bounds",
        "kernels.cu",
        2,
    )


@pytest.mark.second_tier
def test_a_make_project(project: Path) -> None:
    include = find_toolkit().include_dir
    built = call("make", "NVCC=astra-vgpu-nvcc", f"CUDA_INCLUDE={include}", folder=project)
    assert built.returncode == 0, built.stderr
    assert "kernels.cu" in (project / "kernels.d").read_text()
    runs_on_the_virtual_gpu(project / "app", project)


@pytest.mark.second_tier
@pytest.mark.skipif(not shutil.which("cmake"), reason="no cmake: apt-get install cmake")
def test_a_cmake_project(project: Path) -> None:
    nvcc = project / "bin" / "astra-vgpu-nvcc"
    made = call("cmake", "-B", "build", f"-DCMAKE_CUDA_COMPILER={nvcc}", folder=project)
    assert made.returncode == 0, made.stderr
    built = call("cmake", "--build", "build", folder=project)
    assert built.returncode == 0, built.stderr
    runs_on_the_virtual_gpu(project / "build" / "app", project)


@pytest.mark.second_tier
def test_what_a_program_gives_that_starts_badly(project: Path) -> None:
    nvcc = project / "bin" / "astra-vgpu-nvcc"
    assert call(nvcc, "kernels.cu", "main.cpp", "-o", "app", folder=project).returncode == 0
    wrong = call("./app", folder=project, ASTRA_VGPU_GPU="voodoo")
    assert wrong.returncode == 2 and "no constants for a GPU named 'voodoo'" in wrong.stderr
    assert call("./app", folder=project, ASTRA_VGPU_OPTIONS="--voodoo").returncode == 2
    lost = call("./app", folder=project, ASTRA_VGPU_OPTIONS="--suppressions none.toml")
    assert lost.returncode == 2 and "cannot read none.toml" in lost.stderr
    for run in (wrong, lost):
        assert "Traceback" not in run.stderr


def test_what_passes_through_and_what_is_refused(project: Path) -> None:
    nvcc = project / "bin" / "astra-vgpu-nvcc"
    version = call(nvcc, "--version", folder=project)
    assert "release" in version.stdout and version.returncode == 0
    dry = call(nvcc, "-dryrun", "kernels.cu", "-shared", "-Xcompiler", "-fPIC", folder=project)
    assert "-fPIC" in dry.stderr and "compute_90" in dry.stderr
    refused = call(nvcc, "-rdc=true", "-c", "kernels.cu", folder=project)
    assert refused.returncode == 3 and "(-rdc=true) is not supported" in refused.stderr
    assert call(nvcc, "none.cu", folder=project).returncode not in (0, 3)
