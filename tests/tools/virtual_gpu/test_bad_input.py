"""What may be wrong outside the kernel: one clear line, or the error a GPU would give."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from astra_chat.tools.virtual_gpu.ptx import PtxSyntaxError, parse

PROGRAMS = Path(__file__).parent / "programs"


def run(*words: str, cache: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "astra_chat.tools.virtual_gpu", "run", *words],
        capture_output=True, text=True, check=False,
        env={**os.environ, "ASTRA_CACHE": str(cache), **environment},
    )  # fmt: skip


@pytest.mark.parametrize("text", ["", "this is not PTX", "\x7fELF\x02\x01"])
def test_what_is_not_ptx(text: str) -> None:
    with pytest.raises(PtxSyntaxError) as caught:
        parse(text)
    assert "\n" not in str(caught.value)


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


def test_two_processes_that_build_the_same_at_once(tmp_path: Path) -> None:
    command = [
        sys.executable, "-m", "astra_chat.tools.virtual_gpu", "run", "--engine", "c",
        str(PROGRAMS / "vector_add.cu"), "--", "4096",
    ]  # fmt: skip
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
