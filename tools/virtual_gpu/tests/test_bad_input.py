"""What may be wrong outside the kernel: one clear line, or the error a GPU would give."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from astra_vgpu import numpy_engine
from astra_vgpu.ground.toolkit import find_toolkit
from astra_vgpu.ptx.parser import PtxSyntaxError, parse
from astra_vgpu.types import PtxUnsupported

PROGRAMS = Path(__file__).parent / "programs"


def run(*words: str, cache: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "astra_vgpu", "run", *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "ASTRA_CACHE": str(cache), **environment},
    )


@pytest.mark.parametrize("text", ["", "this is not PTX", "\x7fELF\x02\x01"])
def test_what_is_not_ptx(text: str) -> None:
    with pytest.raises(PtxSyntaxError) as caught:
        parse(text)
    assert "\n" not in str(caught.value)


@pytest.mark.second_tier
def test_more_shared_memory_and_threads_than_the_gpu_has(tmp_path: Path) -> None:
    """150,000 bytes: an A100 has them, an RTX 4090 does not."""
    source = tmp_path / "much.cu"
    source.write_text(
        "#include <cstdio>\n__global__ void k() {\n"
        "  extern __shared__ int s[];\n  s[threadIdx.x] = 1;\n}\n"
        "int main() {\n  int a = cudaFuncSetAttribute(\n"
        "      k, cudaFuncAttributeMaxDynamicSharedMemorySize, 150000);\n"
        "  k<<<1, 32, 150000>>>();\n  int b = cudaGetLastError();\n"
        '  k<<<1, 2048>>>();\n  std::printf("%d %d %d\\n", a, b, cudaGetLastError());\n}\n'
    )
    assert run(str(source), "--gpu", "a100", cache=tmp_path).stdout == "0 0 1\n"
    assert run(str(source), "--gpu", "rtx4090", cache=tmp_path).stdout == "1 1 1\n"


def test_a_cache_that_can_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run(str(PROGRAMS / "vector_add.cu"), cache=tmp_path / "file")
    assert done.returncode == 3 and "Traceback" not in done.stderr
    assert "cannot write the cache folder" in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.second_tier
def test_two_processes_that_build_the_same_at_once(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "astra_vgpu",
        "run",
        "--engine",
        "c",
        str(PROGRAMS / "vector_add.cu"),
        "--",
        "4096",
    ]
    environment = {**os.environ, "ASTRA_CACHE": str(tmp_path)}
    both = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    for each in both:
        out, err = each.communicate()
        assert (each.returncode, out) == (0, b"added 4096 elements\n"), err
    for kind in ("cudart", "kernel", "simt"):
        assert len(list(tmp_path.rglob(f"{kind}-*"))) == 1, kind


@pytest.mark.parametrize("engine", ["numpy", "c"])
@pytest.mark.second_tier
def test_extremes(tmp_path: Path, engine: str) -> None:
    """1,024 threads, 100 KB of shared memory (after opting in), indexes over 2^31, no blocks."""
    done = run(str(PROGRAMS / "extremes.cu"), "--engine", engine, cache=tmp_path)
    total = sum(2**31 + 5 + i for i in range(256))
    assert done.stdout == f"1 {100 * 1024 // 4 - 1024} {total} {3 * 256} 0 1 1\n", done.stderr


@pytest.mark.second_tier
def test_a_kernel_for_more_registers_than_there_are(tmp_path: Path) -> None:
    """255 registers in each of 1,024 threads: four times what an SM has."""
    source = tmp_path / "many.cu"
    sums = "\n".join(f"  float a{i} = in[{i} * n + threadIdx.x];" for i in range(240))
    uses = "\n".join(
        f"  out[{i} * n + threadIdx.x] = a{i} * a{(i * 7 + 3) % 240};" for i in range(240)
    )
    source.write_text(
        "#include <cstdio>\n__global__ void k(const float* in, float* out, int n) {\n"
        f"{sums}\n  __syncthreads();\n{uses}\n}}\n"
        "int main() {\n  k<<<1, 1024>>>(nullptr, nullptr, 1024);\n"
        '  std::printf("%d\\n", cudaGetLastError());\n}\n'
    )
    assert run(str(source), cache=tmp_path).stdout == "701\n"


def test_ptx_of_a_newer_version() -> None:
    """What it has that is known runs; what it has again is named."""
    text = (
        ".version 9.9\n.target sm_90\n.address_size 64\n.visible .entry k()\n"
        "{ .reg .b32 %r<3>; newer.u32 %r1, %r2; ret; }"
    )
    with pytest.raises(PtxUnsupported, match=r"PTX line 5: .*newer\.u32") as caught:
        numpy_engine.translate(parse(text), "k")
    assert "\n" not in str(caught.value)


def test_no_host_compiler(tmp_path: Path) -> None:
    """PATH leads to nvcc alone."""
    only = tmp_path / "bin"
    only.mkdir()
    (only / "nvcc").symlink_to(find_toolkit().nvcc)
    done = run(str(PROGRAMS / "vector_add.cu"), cache=tmp_path, PATH=str(only), CXX="")
    assert done.returncode == 3 and "Traceback" not in done.stderr
    assert "g++" in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.second_tier
@pytest.mark.parametrize("most", [1 << 10, 1 << 17])
def test_a_full_disk(tmp_path: Path, most: int) -> None:
    """No file may grow beyond `most` bytes: a clear end, and the cache serves the next run."""
    command = [
        sys.executable,
        "-m",
        "astra_vgpu",
        "run",
        "--engine",
        "c",
        str(PROGRAMS / "vector_add.cu"),
        "--",
        "4096",
    ]
    environment = {**os.environ, "ASTRA_CACHE": str(tmp_path)}
    full = subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)),
    )
    assert full.returncode != 0 and "Traceback" not in full.stderr, full.stderr
    again = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (again.returncode, again.stdout) == (0, "added 4096 elements\n"), again.stderr
